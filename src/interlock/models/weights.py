"""Serves the weights of a local model on loopback. Runs in a child process."""

from __future__ import annotations

import importlib
import os
from typing import Any

__all__ = ["begin"]


def begin(file: str, given: dict[str, Any]) -> _Server:
    """Load the weights and start the server."""
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
    params.sampling.temp = 0  # deterministic answers
    # Half the processors: the threads wait for each other in a busy loop, so as soon as one processor has other work, a hundred
    # tokens a second become one.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, (os.cpu_count() or 1) // 2)
    return _Server(xllamacpp.Server(params))


class _Server:
    """The HTTP server. Requests over the child's socket only return its address."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.hello: dict[str, Any] = {"address": server.listening_address}

    def answer(self, request: Any) -> dict[str, Any]:  # noqa: ARG002 - every request gets the address
        return self.hello

    def close(self) -> None:
        """Exit at once: stopping the server during an answer hangs, and a normal exit then crashes."""
        os._exit(0)
