"""What is kept of a session from one turn to the next: some fields of the state, loaded before the first node, saved after the last.

Loading and saving are entries of the turn's ledger like any call: a turn that is taken again begins where it began, and one that goes
on after a crash saves once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from interlock.contract import Graph
from interlock.contract.state import Values
from interlock.errors import InterlockError
from interlock.runtime.ledger import Ledger, key_of, recorded_error

__all__ = ["Kept", "KeptSession", "Sessions"]

_NAME = "Sessions"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The state where the last turn left it; `version` says which one it is, None that there is none yet."""

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: str | None = None


class Sessions(Protocol):
    """Keeps the state of sessions of one graph."""

    def exclusive(self, session: str) -> AbstractAsyncContextManager[None]:
        """Hold off everybody else who would take a turn of the session. Raises SessionBusy where that takes too long."""
        ...

    async def load(self, session: str) -> Kept:
        """Return what is kept. Raises StateIncompatible for the state of a graph with other contracts."""
        ...

    async def save(self, session: str, values: Values, *, expected: str | None, turn: str) -> None:
        """Keep what a turn has left, if the version is still `expected`, else raise StateConflict. Saving a turn again changes nothing."""
        ...


class KeptSession:
    """The session of one turn: `keeps` are the fields that outlive the turn. Without a store it has only what its ledger holds."""

    def __init__(self, graph: Graph, keeps: Sequence[str], store: Sessions | None, *, session: str, turn: str) -> None:
        self._state = graph.state
        self._keeps = keeps
        self._store = store
        self._session = session
        self._turn = turn
        self._version: str | None = None

    @asynccontextmanager
    async def exclusive(self, ledger: Ledger | None = None) -> AsyncGenerator[None]:
        """Be the only one who takes a turn of the session."""
        async with AsyncExitStack() as held:
            if self._store is not None:
                try:
                    await held.enter_async_context(self._store.exclusive(self._session))
                except InterlockError as error:
                    self.refuse(error, ledger)
                    raise
            yield

    def refuse(self, error: InterlockError, ledger: Ledger | None) -> None:
        """Write down why the turn could not begin: one that is taken again holds nothing, and fails where it would load."""
        note = None if ledger is None else ledger.note("", _NAME, "load", key_of((self._session,), {}))
        if note is not None and note.known is None:
            note.write(error=error)

    async def load(self, ledger: Ledger | None) -> Values:
        """Return what the last turn left."""

        async def load() -> dict[str, Any]:
            kept = await self._opened.load(self._session)
            values = self._state.restore({name: value for name, value in kept.values.items() if name in self._keeps})
            self._version = kept.version
            if ledger is None:
                return values
            return {
                "version": kept.version,
                "values": {name: self._state.fields[name].codec.encode(value) for name, value in values.items()},
            }

        if ledger is None:
            return await load()
        known = await _once(ledger, "load", (self._session,), load)
        self._version = known["version"]
        return {name: self._state.fields[name].codec.decode(value) for name, value in known["values"].items()}

    async def save(self, state: Mapping[str, Any], ledger: Ledger | None) -> None:
        """Keep what this turn leaves."""
        values = {name: state[name] for name in self._keeps if name in state}

        async def save() -> None:
            await self._opened.save(self._session, values, expected=self._version, turn=self._turn)

        if ledger is None:
            await save()
        else:
            await _once(ledger, "save", (self._session, values, self._version), save)

    @property
    def _opened(self) -> Sessions:
        if self._store is None:
            raise AssertionError  # pragma: no cover - a ledger that is complete refuses what it does not hold
        return self._store


async def _once(ledger: Ledger, method: str, args: tuple[Any, ...], make: Callable[[], Awaitable[Any]]) -> Any:
    """Do something, unless the ledger holds what came of it."""
    note = ledger.note("", _NAME, method, key_of(args, {}))
    if note.known is not None:
        await note.come()
        if note.known.error is not None:
            raise recorded_error(note.known.error)
        return note.known.result
    await note.catch_up()
    try:
        result = await make()
    except InterlockError as error:
        note.write(error=error)
        raise
    note.write(result=result)
    return result
