"""Serve the weights of a model on loopback until standard input ends: the program of the process that a local model runs in.

Run by its path, so it imports nothing of Interlock. One line of JSON comes in, one goes out: the address, or what failed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

__all__: list[str] = []


def _main() -> None:
    xllamacpp: Any = importlib.import_module("xllamacpp")  # has no types
    given = json.loads(sys.stdin.readline())
    params = xllamacpp.CommonParams()
    params.model.path = given["path"]
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
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        sys.stdout.write(json.dumps({"error": type(error).__name__}) + "\n")
        return
    sys.stdout.write(json.dumps({"address": server.listening_address}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    os._exit(0)  # to stop the server while it answers hangs, to end the process in the usual way then crashes


if __name__ == "__main__":
    _main()
