"""Two resolvers that open files below a folder and nothing outside it."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from typing import Literal, Protocol

from interlock.errors import ToolUnavailable

__all__ = ["ENTER", "LIST", "Resolver", "ResolverName", "resolver_named"]

ResolverName = Literal["openat2", "walk"]

# O_PATH exists on Linux only: it opens a location in the tree, not its content.
ENTER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_OPENAT2 = 437  # the number is the same on every architecture that Python runs on
_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RESOLVE = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH
_TRIES = 64  # openat2 returns EAGAIN when another process renames folders meanwhile


class Resolver(Protocol):
    """Opens files relative to an open folder, without following links or entering another filesystem."""

    def folder(self, start: int, names: Sequence[str], flags: int) -> int:
        """Open the folder at `names` below `start`; without names, open `start` itself."""
        ...

    def leaf(self, folder: int, name: str, flags: int) -> int:
        """Open an entry of a folder."""
        ...


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _Openat2:
    """Resolves a whole path in one system call; the kernel enforces the limits."""

    def __init__(self) -> None:
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        self._syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t)

    def folder(self, start: int, names: Sequence[str], flags: int) -> int:
        return self._open(start, "/".join(names) or ".", flags)

    def leaf(self, folder: int, name: str, flags: int) -> int:
        return self._open(folder, name, flags)

    def _open(self, start: int, path: str, flags: int) -> int:
        failure = errno.EAGAIN
        how = _How(flags | os.O_CLOEXEC, 0, _RESOLVE)
        for _ in range(_TRIES):
            opened = self._syscall(_OPENAT2, start, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
            if opened >= 0:
                return int(opened)
            failure = ctypes.get_errno()
            if failure not in {errno.EAGAIN, errno.EINTR}:
                break
        raise OSError(failure, os.strerror(failure))


class _ByComponent:
    """Opens one component after the other, and checks each of them."""

    def folder(self, start: int, names: Sequence[str], flags: int) -> int:
        device = os.fstat(start).st_dev
        at = os.open(".", flags if not names else ENTER, dir_fd=start)
        for position, name in enumerate(names, 1):
            try:
                below = self._enter(at, name, flags if position == len(names) else ENTER, device)
            finally:
                os.close(at)
            at = below
        return at

    def leaf(self, folder: int, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)

    def _enter(self, at: int, name: str, flags: int, device: int) -> int:
        if name == ".." or "/" in name:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        try:
            below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=at)
        except NotADirectoryError:
            if stat.S_ISLNK(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
            raise
        if os.fstat(below).st_dev != device:
            os.close(below)
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return below


def resolver_named(name: ResolverName | None, root: int) -> Resolver:
    """Return the resolver of this name or, without a name, openat2 if the kernel has it."""
    if name == "walk":
        return _ByComponent()
    try:
        resolver = _Openat2()
        os.close(resolver.folder(root, (), ENTER))
    except (OSError, AttributeError):
        if name == "openat2":
            raise ToolUnavailable("The kernel has no openat2.") from None
        return _ByComponent()
    return resolver
