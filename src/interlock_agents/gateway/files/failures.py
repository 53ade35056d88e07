"""Translate operating system errors into messages that show only the worker's own path."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager

from interlock.errors import StoreFull, ToolUnavailable
from interlock_agents.gateway.errors import PathDenied
from interlock_agents.gateway.files.paths import shown

__all__ = ["translated_errors"]

_DENIED = {
    errno.ELOOP: "leads through a link",
    errno.EXDEV: "leads to another filesystem",
    errno.ENXIO: "is no plain file",
    errno.ENODEV: "is no plain file",
    errno.EOPNOTSUPP: "is no plain file",
    errno.ENAMETOOLONG: "is too long",
    errno.EACCES: "may not be used by this process",
    errno.EPERM: "may not be used by this process",
    errno.EROFS: "cannot be changed",
}
_PLAIN: dict[int, tuple[type[OSError], str]] = {
    errno.ENOENT: (FileNotFoundError, "is not there"),
    errno.ENOTDIR: (NotADirectoryError, "is no folder, or leads through a file"),
    errno.EISDIR: (IsADirectoryError, "is a folder"),
    errno.EEXIST: (FileExistsError, "is there already"),
}


@contextmanager
def translated_errors(path: str) -> Generator[None]:
    """Translate an OSError about a path."""
    try:
        yield
    except OSError as error:
        raise _failure(error, path) from None


def _failure(error: OSError, path: str) -> Exception:
    number = error.errno or 0
    if number in _PLAIN:
        kind, says = _PLAIN[number]
        return kind(number, f"The path {shown(path)} {says}.")
    if number in _DENIED:
        return PathDenied(f"The path {shown(path)} {_DENIED[number]}.")
    if number in {errno.ENOSPC, errno.EDQUOT}:
        return StoreFull(f"There is no room left for {shown(path)}.")
    return ToolUnavailable(f"The path {shown(path)} cannot be used now: {os.strerror(number)}.")
