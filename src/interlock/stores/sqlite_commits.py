"""Group commit for SQLite: one thread writes, and what arrives during a commit goes into the next one."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

from interlock.errors import InterlockError
from interlock.stores.sqlite import BUSY, PRIMARY

__all__ = ["GroupCommit", "begin"]

_MAX_JOBS = 256
_PAUSE_S = 0.001

T = TypeVar("T")


class _Job:
    """One caller's part of a transaction."""

    def __init__(self, work: Callable[[sqlite3.Connection], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None

    def deliver(self) -> None:
        if self.future.done():  # the caller was cancelled
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


_Jobs = queue.SimpleQueue[_Job | None]


class GroupCommit:
    """Runs jobs in one thread. Jobs that arrive while a transaction is under way share the next one.

    Each job has a savepoint: one that fails leaves the others as they are. A job that was submitted is done even if its caller is
    cancelled. `connect` returns the connection to use, and is called before each transaction; `discard` closes it after a failure.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        discard: Callable[[], None],
        translate: Callable[[Exception], InterlockError],
        timeout_s: float,
    ) -> None:
        self._connect = connect
        self._discard = discard
        self._translate = translate
        self._timeout_s = timeout_s
        self._starting = threading.Lock()
        self._started: tuple[threading.Thread, _Jobs] | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a job in a transaction, and return its result after the commit."""
        job = _Job(work, asyncio.get_running_loop())
        with self._starting:
            if self._started is None:
                jobs: _Jobs = queue.SimpleQueue()
                thread = threading.Thread(target=self._serve, args=(jobs,), name="interlock-commits", daemon=True)
                self._started = thread, jobs
                thread.start()
            self._started[1].put(job)
        return cast("T", await job.future)

    async def aclose(self) -> None:
        """Do the jobs that were submitted, and end the thread."""
        with self._starting:
            started, self._started = self._started, None
        if started is None:
            return
        thread, jobs = started
        jobs.put(None)
        await asyncio.to_thread(thread.join)

    def _serve(self, jobs: _Jobs) -> None:
        is_open = True
        while is_open:
            batch: list[_Job] = []
            taken = jobs.get()
            while taken is not None:
                batch.append(taken)
                if len(batch) == _MAX_JOBS:
                    break
                try:
                    taken = jobs.get_nowait()
                except queue.Empty:
                    break
            else:
                is_open = False
            if batch:
                self._commit(batch)
        self._discard()

    def _commit(self, batch: list[_Job]) -> None:
        try:
            connection = self._connect()
            begin(connection, time.monotonic() + self._timeout_s)
            for job in batch:
                self._run_job(connection, job)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the callers get it
            with contextlib.suppress(sqlite3.Error):
                self._discard()  # which rolls back; the next transaction opens the file again
            for job in batch:
                job.error = self._translated(error)
        for loop in {job.loop for job in batch}:
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(_deliver, [job for job in batch if job.loop is loop])

    def _run_job(self, connection: sqlite3.Connection, job: _Job) -> None:
        connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(connection)
        except Exception as error:
            if not connection.in_transaction:  # SQLite has rolled everything back: the disk is full, or the file is damaged
                raise
            job.error = self._translated(error)
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")

    def _translated(self, error: Exception) -> InterlockError:
        if isinstance(error, InterlockError):
            return error
        translated = self._translate(error)
        translated.__cause__ = error
        return translated


def begin(connection: sqlite3.Connection, deadline: float) -> None:
    """Begin a transaction that writes. SQLite's own waiting for other processes pauses up to 100 ms, for work of less than one."""
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & PRIMARY not in BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _deliver(jobs: list[_Job]) -> None:
    for job in jobs:
        job.deliver()
