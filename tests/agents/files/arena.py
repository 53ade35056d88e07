"""A scope with a secret beside it, and a backend whose every answer is searched for it."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from interlock_agents.gateway.files.backend import ScopedBackend
from interlock_agents.gateway.files.resolvers import ResolverName
from interlock_agents.gateway.files.scope import Scope

__all__ = ["CANARY", "Arena", "exchange", "exchanging"]

CANARY = "canary:9f1c52d07be84a63"
# A picture is told in base64: the secret can begin at any of three places there.
_SIGNS = [CANARY, *(base64.b64encode(b" " * shift + CANARY.encode()).decode()[4:-4] for shift in range(3))]
_RENAME_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)

_EXCHANGER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
pairs = [(os.fsencode(a), os.fsencode(b)) for a, b in zip(sys.argv[1::2], sys.argv[2::2])]
parent = os.getppid()
print("ready", flush=True)
while os.getppid() == parent:
    for _ in range(200):
        for one, other in pairs:
            libc.renameat2(-100, one, -100, other, 2)
"""

Operation = Callable[[ScopedBackend, str], object]
OPERATIONS: dict[str, Operation] = {
    "read": lambda backend, path: backend.read(path),
    "ls": lambda backend, path: backend.ls(path),
    "write": lambda backend, path: backend.write(path, "written by a worker"),
    "edit": lambda backend, path: backend.edit(path, "canary", "edited", True),
    "delete": lambda backend, path: backend.delete(path),
    "glob": lambda backend, path: backend.glob("**", path),
    "grep": lambda backend, path: backend.grep("a", path),
    "upload": lambda backend, path: backend.upload_files([(path, b"uploaded by a worker")])[0],
    "download": lambda backend, path: backend.download_files([path])[0],
}


def exchange(one: Path, other: Path) -> None:
    """Let two paths change places at once."""
    if _libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), _RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "cannot exchange")


@contextmanager
def exchanging(*pairs: tuple[Path, Path]) -> Generator[None]:
    """Let pairs of paths change places all the time, in another process."""
    command = [sys.executable, "-I", "-c", _EXCHANGER, *(str(path) for pair in pairs for path in pair)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()


class Arena:
    """A folder with `root`, the scope, and `outside`, which nobody may see or change."""

    def __init__(self, base: Path, resolver: ResolverName) -> None:
        self.base = base
        self.root = base / "root"
        self.outside = base / "outside"
        (self.root / "inside/deeper").mkdir(parents=True)
        (self.outside / "folder/deeper").mkdir(parents=True)
        for place in (self.outside, self.outside / "folder", self.outside / "folder/deeper"):
            for name in ("file.md", "canary.md", "picture.png"):
                (place / name).write_text(f"{place.name} {CANARY} a\n")
        for place in (self.root, self.root / "inside", self.root / "inside/deeper"):
            (place / "file.md").write_text("a file inside\n")
        self.scope = Scope(self.root, writable=True, resolver=resolver)
        self.backend = ScopedBackend(self.scope)
        self.attempts = 0
        self.refused = 0
        self._before = self._seen_outside()

    def ask(self, operation: str, path: str) -> str | None:
        """Make one attempt, search the answer, and return its error."""
        return self.searched(OPERATIONS[operation](self.backend, path), (operation, path))

    def searched(self, result: object, asked: object) -> str | None:
        self.attempts += 1
        told = repr(result)
        assert not any(sign in told for sign in _SIGNS), asked
        error = cast("str | None", getattr(result, "error", None))
        self.refused += error is not None
        return error

    def ask_all(self, paths: Iterable[str], *, share: int, code: str | None) -> None:
        """Ask everything of every path until there were as many attempts as this family owes, and look at the outside then.

        With a code, every attempt has to be refused with it. Without, a path is strange and legal: whatever happens, happens inside.
        """
        for path in paths:
            for operation in OPERATIONS:
                error = self.ask(operation, path)
                if code is not None:
                    assert error is not None, (operation, path)
                    assert error.startswith(f"{code}: "), (operation, path, error)
                    assert str(self.base) not in error or str(self.base) in path, (operation, path, error)
            if self.attempts >= share:
                break
        assert self.attempts >= share
        self.check()

    def check(self) -> None:
        """See that the outside is as it was, to the byte and the time, and that nothing is beside it."""
        assert self._seen_outside() == self._before
        assert sorted(child.name for child in self.base.iterdir()) == ["outside", "root"]

    def _seen_outside(self) -> list[object]:
        seen: list[object] = []
        for path in sorted([self.outside, *self.outside.rglob("*")]):
            status = path.lstat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
            seen.append((str(path), status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, content))
        return seen
