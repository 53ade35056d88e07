"""Serve the weights of a model on loopback: the program of the process that a local model runs in."""

from __future__ import annotations

import importlib
import os
from typing import Any

__all__ = ["begin"]


def begin(file: str, given: dict[str, Any]) -> _Server:
    """Load the weights, and serve them."""
    xllamacpp: Any = importlib.import_module("xllamacpp")  # has no types
    params = xllamacpp.CommonParams()
    params.model.path = file
    params.n_ctx = given["context"]
    params.api_keys = [given["key"]]  # any program and any web page on this machine can reach loopback
    params.use_jinja = True
    params.warmup = False
    params.ui = False
    params.endpoint_slots = False  # shows the prompts
    params.verbosity = -1
    params.sampling.temp = 0  # the same answer to the same question
    # As many threads as processors wait for each other in a loop: as soon as one processor is busy with something else,
    # a hundred tokens in a second become one.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, (os.cpu_count() or 1) // 2)
    return _Server(xllamacpp.Server(params))


class _Server:
    """Answers over HTTP, and here only where it can be reached."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.hello: dict[str, Any] = {"address": server.listening_address}

    def answer(self, request: Any) -> dict[str, Any]:  # noqa: ARG002 - there is nothing else to say
        return self.hello

    def close(self) -> None:
        """End at once: to stop the server while it answers hangs, to end the process in the usual way then crashes."""
        os._exit(0)
