"""Session state: the fields that an agent persists from one turn to the next.

It is loaded before the first node and saved after the last. Both are calls that pass the call pipeline, so they are entries of the
turn's journal: a replayed turn starts from the recorded state, and a resumed one saves once.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from interlock.capabilities.capability import asks, keyed
from interlock.contract import Graph
from interlock.contract.state import Values
from interlock.errors import InterlockError, StoreUnavailable
from interlock.runtime.call import Call, Target
from interlock.runtime.context import NodeContext, TurnContext
from interlock.runtime.journal import key_of
from interlock.runtime.targets import declared_method

__all__ = ["SessionState", "Sessions", "StoredState", "stored_session"]


_MAX_EPOCH = 8
"""Until which epoch a turn is left open that cannot reach its session's store: the next attempt ends with the error."""


def stored_session(tenant: str, session: str) -> str:
    """Return the name under which stores that do not know tenants keep a session: for the default tenant, the session's own."""
    return session if not tenant else hashlib.sha256(f"{tenant}\0{session}".encode()).hexdigest()[:40]


@dataclass(frozen=True, kw_only=True)
class StoredState:
    """The state that the last turn left; `version` identifies it, None where the session has none yet."""

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: str | None = None


class Sessions(Protocol):
    """Stores the session state of one graph."""

    def exclusive(self, session: str) -> AbstractAsyncContextManager[None]:
        """Hold the session's lock. Raises SessionBusy where another turn does not release it in time."""
        ...

    @asks
    async def load(self, session: str) -> StoredState:
        """Return the stored state. Raises StateIncompatible for the state of a graph with other contracts."""
        ...

    @keyed
    async def save(self, session: str, values: Values, *, expected: str | None, turn: str, epoch: int = 0) -> None:
        """Store the state if the version is still `expected`, else raise StateConflict. Saving a turn again changes nothing.

        `epoch` counts the workers that had the turn. What a worker saved that has lost the turn is replaced by the one that has it.
        """
        ...


class _SessionTarget(Target):
    """Answers the load or the save of a session. It has no deadline of its own: what is being saved is not interrupted."""

    has_deadline = False
    is_validated = False

    def open(self, call: Call) -> Any:
        """Call the function that the session state has prepared."""
        return call.prepared()


@functools.cache
def _target(name: str) -> _SessionTarget:
    return _SessionTarget(declared_method(Sessions, name))


class SessionState:
    """The session state of one turn: `fields` are persisted. Without a store it has only what the turn's journal has.

    A turn under a lease has an `epoch` and needs no lock of the session: the turn store runs the turns of a session one after the other.
    """

    def __init__(
        self, graph: Graph, fields: Sequence[str], store: Sessions | None, *, session: str, turn: str, epoch: int | None = None
    ) -> None:
        self._state = graph.state
        self._fields = fields
        self._store = store
        self._session = session
        self._turn = turn
        self._epoch = epoch
        self._version: str | None = None

    @asynccontextmanager
    async def exclusive(self, turn: TurnContext) -> AsyncGenerator[None]:
        """Hold the session's lock."""
        async with AsyncExitStack() as held:
            if self._store is not None and self._epoch is None:
                try:
                    await held.enter_async_context(self._store.exclusive(self._session))
                except InterlockError as error:
                    await self.record_refusal(error, turn)
                    raise
            yield

    async def record_refusal(self, error: InterlockError, turn: TurnContext) -> None:
        """Record why the turn could not start, as the error of the load: a replayed turn holds no lock and fails there."""
        if turn.journal is None:
            return
        slot = turn.journal.slot(turn.next_sequence(), "", Sessions.__name__, "load", key_of((self._session,), {}))
        if slot.known is None:
            await slot.write(error=error)

    async def load(self, turn: TurnContext) -> Values:
        """Return the state that the last turn left."""
        is_recorded = turn.journal is not None

        async def load() -> StoredState:
            stored = await cast("Sessions", self._store).load(self._session)
            values = self._state.restore({name: value for name, value in stored.values.items() if name in self._fields})
            if is_recorded:
                values = {name: self._state.fields[name].codec.encode(value) for name, value in values.items()}
            return StoredState(values=values, version=stored.version)

        loaded = await self._call("load", (self._session,), load, turn)
        self._version = loaded.version
        if not is_recorded:
            return loaded.values
        return {name: self._state.fields[name].codec.decode(value) for name, value in loaded.values.items()}

    async def save(self, state: Mapping[str, Any], turn: TurnContext) -> None:
        """Store the state that this turn leaves."""
        values = {name: state[name] for name in self._fields if name in state}

        async def save() -> None:
            store, epoch = cast("Sessions", self._store), self._epoch or 0
            await store.save(self._session, values, expected=self._version, turn=self._turn, epoch=epoch)

        await self._call("save", (self._session, values, self._version), save, turn)

    async def _call(self, name: str, args: tuple[Any, ...], function: Callable[[], Awaitable[Any]], turn: TurnContext) -> Any:
        call = Call(_target(name), NodeContext("", run=None, turn=turn), args, {})
        call.prepared = function if self._epoch is None else functools.partial(self._under_lease, function, turn)
        return await call.result()

    async def _under_lease(self, function: Callable[[], Awaitable[Any]], turn: TurnContext) -> Any:
        """Load or save for a turn that is stored. Where the session's store cannot be reached, the turn stays open for another attempt.

        The error is not recorded then: the next attempt finds every call but this one in the journal, and makes it again.
        """
        try:
            return await function()
        except StoreUnavailable as error:
            if turn.journal is None or (self._epoch or 0) >= _MAX_EPOCH:
                raise
            raise turn.journal.fail(error) from error
