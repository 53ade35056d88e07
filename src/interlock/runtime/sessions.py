"""Session state: the fields that an agent persists from one turn to the next.

It is loaded before the first node and saved after the last. Both are calls that pass the call pipeline, so they are entries of the
turn's journal: a replayed turn starts from the recorded state, and a resumed one saves once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from interlock.contract import Graph
from interlock.contract.state import Values
from interlock.errors import InterlockError
from interlock.runtime.call import Call, Pipeline
from interlock.runtime.call_keys import key_of
from interlock.runtime.context import NodeContext, TurnContext
from interlock.runtime.events import Run
from interlock.runtime.method import Method

__all__ = ["SessionState", "Sessions", "StoredState"]

_NAME = "Sessions"


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

    async def load(self, session: str) -> StoredState:
        """Return the stored state. Raises StateIncompatible for the state of a graph with other contracts."""
        ...

    async def save(self, session: str, values: Values, *, expected: str | None, turn: str) -> None:
        """Store the state if the version is still `expected`, else raise StateConflict. Saving a turn again changes nothing."""
        ...


class _JsonCodec:
    """The codec of results that are JSON data already."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, data: Any) -> Any:
        return data


class _SessionMethod(Method):
    """The load or the save of a session: no node makes this call, and it has no events."""

    def __init__(self, name: str) -> None:
        self.capability, self.name, self.label = _NAME, name, f"{_NAME}.{name}"
        self.is_stream = self.asks_model = self.returns_secret = self.is_instant = False
        self.secret_parameters = frozenset[str]()

    def codec(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ARG002 - as the overridden method
        return _JsonCodec()


class _SessionTarget:
    """Answers the load or the save of a session. It has no deadline of its own: what is being saved is not interrupted."""

    is_journaled = True
    has_deadline = False
    is_validated = False

    def __init__(self, name: str, function: Callable[[], Awaitable[Any]]) -> None:
        self.method: Method = _METHODS[name]
        self._function = function
        self.pipeline = _pipeline(self)

    def open(self, call: Call) -> Any:  # noqa: ARG002 - as every target
        return self._function()

    def start_event(self, call: Call) -> Run | None:  # noqa: ARG002 - as every target
        return None

    def end_event(self, call: Call, run: Run) -> None: ...  # pragma: no cover - there is no start event


_METHODS = {"load": _SessionMethod("load"), "save": _SessionMethod("save")}
_pipelines: dict[str, Pipeline] = {}


def _pipeline(target: _SessionTarget) -> Pipeline:
    if target.method.name not in _pipelines:
        _pipelines[target.method.name] = Pipeline(target)
    return _pipelines[target.method.name]


class SessionState:
    """The session state of one turn: `fields` are persisted. Without a store it has only what the turn's journal has."""

    def __init__(self, graph: Graph, fields: Sequence[str], store: Sessions | None, *, session: str, turn: str) -> None:
        self._state = graph.state
        self._fields = fields
        self._store = store
        self._session = session
        self._turn = turn
        self._version: str | None = None

    @asynccontextmanager
    async def exclusive(self, turn: TurnContext) -> AsyncGenerator[None]:
        """Hold the session's lock."""
        async with AsyncExitStack() as held:
            if self._store is not None:
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
        turn.calls += 1
        slot = turn.journal.slot(turn.calls, "", _NAME, "load", key_of((self._session,), {}))
        if slot.known is None:
            await slot.write(error=error)

    async def load(self, turn: TurnContext) -> Values:
        """Return the state that the last turn left."""

        async def load() -> dict[str, Any]:
            stored = await cast("Sessions", self._store).load(self._session)
            values = self._state.restore({name: value for name, value in stored.values.items() if name in self._fields})
            if turn.journal is None:
                return {"version": stored.version, "values": values}
            encoded = {name: self._state.fields[name].codec.encode(value) for name, value in values.items()}
            return {"version": stored.version, "values": encoded}

        loaded = await self._call("load", (self._session,), load, turn)
        self._version = loaded["version"]
        if turn.journal is None:
            return loaded["values"]
        return {name: self._state.fields[name].codec.decode(value) for name, value in loaded["values"].items()}

    async def save(self, state: Mapping[str, Any], turn: TurnContext) -> None:
        """Store the state that this turn leaves."""
        values = {name: state[name] for name in self._fields if name in state}

        async def save() -> None:
            await cast("Sessions", self._store).save(self._session, values, expected=self._version, turn=self._turn)

        await self._call("save", (self._session, values, self._version), save, turn)

    async def _call(self, name: str, args: tuple[Any, ...], function: Callable[[], Awaitable[Any]], turn: TurnContext) -> Any:
        return await Call(_SessionTarget(name, function), NodeContext("", run=None, turn=turn), args, {}).result()
