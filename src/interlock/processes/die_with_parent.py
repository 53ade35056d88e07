"""Run a program that the kernel kills when its parent ends: `die_with_parent.py PARENT PROGRAM ARGUMENT...`.

It is run by its path, so it imports nothing of Interlock. PR_SET_PDEATHSIG survives `exec`, so nothing of this module stays
in memory. Setting it in `preexec_fn`, between `fork` and `exec`, would run Python in a process that has inherited locks of
threads that do not exist in it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1


def main(parent: str, *command: str) -> None:
    """Set PR_SET_PDEATHSIG and replace this process by the program."""
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit("die_with_parent: the kernel rejects PR_SET_PDEATHSIG")
    if os.getppid() != int(parent):  # it ended before the call above
        sys.exit("die_with_parent: the parent has ended")
    try:
        os.execvp(command[0], command)  # noqa: S606 - the given command, without a shell
    except OSError as error:
        sys.exit(f"die_with_parent: '{command[0]}' cannot be started: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
