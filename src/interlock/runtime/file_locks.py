"""Locks on open files, for systems that have them. The kernel releases the lock of a killed process."""

from __future__ import annotations

from collections.abc import Callable

from interlock.errors import StoreUnavailable

__all__ = ["file_lock"]


def file_lock() -> Callable[[int], None]:
    """Return the function that locks an open file. It raises BlockingIOError if another process has the lock.

    Raises StoreUnavailable on a system without such locks.
    """
    try:
        import fcntl  # noqa: PLC0415 - Windows does not have it
    except ImportError as error:
        raise StoreUnavailable("Files cannot be locked on this system. Fix: use Linux or macOS.") from error
    return lambda opened: fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
