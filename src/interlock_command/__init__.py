"""The program `interlock`. Importing this package imports nothing else of Interlock, so Ctrl-C is handled from the first moment on."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

__all__ = ["main"]


def main() -> None:
    """Import the command line and run it. Ctrl-C ends the process with 130 and without a traceback."""
    # A KeyboardInterrupt can be lost during imports: code that imports what is optional may catch it or report another error.
    is_ignored = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    if not is_ignored:
        signal.signal(signal.SIGINT, _exit)
    from interlock.cli import main as run  # noqa: PLC0415 - takes up to a second

    if not is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _exit(number: int, _: object) -> NoReturn:
    # Nothing was printed or opened yet.
    os._exit(128 + number)
