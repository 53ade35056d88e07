"""Become a program that is killed as soon as whoever started it is gone: `leash.py PARENT PROGRAM ARGUMENT...`.

Run by its path, so it imports nothing of Interlock. The wish survives `exec`, so nothing of this stays in memory. To make
it between `fork` and `exec`, by `preexec_fn`, would run Python in a process that has the locks of threads it has not.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1


def main(parent: str, *command: str) -> None:
    """Ask Linux for a signal at the parent's death, and become the program."""
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit("leash: the kernel does not take the request")
    if os.getppid() != int(parent):  # it was gone before the wish was made
        sys.exit("leash: the parent is gone")
    try:
        os.execvp(command[0], command)  # noqa: S606 - what we were told to, without a shell
    except OSError as error:
        sys.exit(f"leash: '{command[0]}' cannot be started: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
