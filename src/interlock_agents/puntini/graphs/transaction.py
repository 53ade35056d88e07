"""A transaction on a ladybug file: statements that wait until an answer is needed, and go to the process together."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from interlock.errors import QueryTimeout, StoreUnavailable
from interlock_agents.puntini.graphs.checksums import Checksums
from interlock_agents.puntini.graphs.process import Asked, LadybugProcess, Statement

__all__ = ["Transaction"]

_WRITE_S = 60.0  # for one statement
_AT_ONCE = 5_000  # rows, keys and statements


class Transaction:
    """Changes a file, whole or not at all. It begins with the first statement that goes out.

    What is read before the first change is read outside of it: nobody else can change the file, and a single statement that changes it
    is a transaction by itself. That is a third of what BEGIN, the statement and COMMIT take.
    """

    def __init__(self, process: LadybugProcess, checksums: Checksums, *, name: str) -> None:
        self._process, self._checksums, self._name = process, checksums, name
        self._waiting: list[Statement] = []
        self._has_begun = False

    def later(self, text: str, values: Mapping[str, Any] | None = None) -> None:
        """Change something, at the latest when the transaction is committed."""
        self._waiting.append((text, values or {}))

    async def rows(self, *asked: Asked) -> list[list[list[Any]]]:
        """Ask for the rows that some statements find, once what waits is done."""
        if not asked:
            return []
        if self._waiting and not self._has_begun:
            self._begin()
        found = await self._sent([*self._waiting, *asked], commits=False)
        self._waiting = []
        return found[-len(asked) :]

    async def commit(self) -> None:
        """Commit what was done."""
        if not self._waiting and not self._has_begun:
            return
        self._close()
        with self._whole():
            await self._sent(self._waiting, commits=True)

    async def commit_unless(self, *asked: Asked) -> list[list[list[Any]]]:
        """Commit unless some statements find something; return the rows that they find. Nothing may have been asked for before."""
        self._close()
        with self._whole():
            found = await self._run([*asked, *self._waiting], first=len(asked), commits=True)
        return found[: len(asked)]

    async def undo(self) -> None:
        """Undo what was done, if anything was."""
        if self._has_begun:
            await self._process.undo()

    def _begin(self) -> None:
        self._waiting.insert(0, ("BEGIN TRANSACTION", {}))
        self._has_begun = True

    def _close(self) -> None:
        """Add what begins and commits a transaction, unless it is one statement alone."""
        if len(self._waiting) > 1 and not self._has_begun:
            self._begin()
        if self._has_begun:
            self._waiting.append(("COMMIT", {}))

    @contextmanager
    def _whole(self) -> Generator[None]:
        """Where a commit fails, cut off what was written of it: a step that failed is not done."""
        before = self._checksums.log_size()
        try:
            yield
        except BaseException:
            self._process.kill()
            self._checksums.cut(before)
            raise

    async def _sent(self, statements: list[Statement], *, commits: bool) -> list[list[list[Any]]]:
        """Send statements, at once unless they are many, or have many rows: both sides would have to hold all of them."""
        found: list[list[list[Any]]] = []
        first = weight = 0
        for number, statement in enumerate(statements, 1):
            weight += 1 + sum(len(cast("list[Any]", value)) for value in statement[1].values() if isinstance(value, list))
            if number == len(statements) or weight > _AT_ONCE:
                found += await self._run(statements[first:number], first=0, commits=commits and number == len(statements))
                first, weight = number, 0
        return found

    async def _run(self, statements: Sequence[Statement], *, first: int, commits: bool) -> list[list[list[Any]]]:
        try:
            results = await self._process.run(statements, within=_WRITE_S * len(statements), first=first, commits=commits)
        except QueryTimeout as error:
            raise StoreUnavailable(f"Graph '{self._name:.100}' could not be changed in time, or with the memory there is.") from error
        return [result.rows for result in results]
