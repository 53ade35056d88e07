"""Run the embedded server, or share it: a process of its own for test_valkey.py and test_sessions.py."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import redis

from interlock.stores.valkey import EmbeddedValkey


def pid_of(valkey: EmbeddedValkey) -> int:
    with redis.Redis(unix_socket_path=asyncio.run(valkey.address())) as client:
        return int(client.info("server")["process_id"])


def fork() -> str:
    child = os.fork()
    if child == 0:
        signal.alarm(5)
        sys.exit()  # in the usual way, with everything that is to be done at exit
    return str(os.waitpid(child, 0)[1])


def main(valkey: EmbeddedValkey) -> None:
    print(pid_of(valkey), flush=True)  # noqa: T201 - to the test
    for line in sys.stdin:
        match line.strip():
            case "pid":
                print(pid_of(valkey), flush=True)  # noqa: T201
            case "fork":
                print(fork(), flush=True)  # noqa: T201
            case other:
                raise ValueError(other)


if __name__ == "__main__":
    kept = EmbeddedValkey(Path(sys.argv[1]))  # until the very end, so that nothing is done before that
    main(kept)
