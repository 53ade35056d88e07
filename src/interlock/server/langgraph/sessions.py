"""Threads with a principal: which it may see, what their turns say, and the conversation and values that follow from them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from interlock.dispatch.embedded import result_of
from interlock.errors import AgentUnknown, InputSchema, TurnUnknown
from interlock.input import check_session
from interlock.runtime.turns import OPEN, Page, StoredTurn
from interlock.server.auth import Principal
from interlock.server.langgraph.assistants import Assistant, find_assistant
from interlock.server.langgraph.messages import conversation, user_message
from interlock.server.langgraph.stream import Subject, interrupts_of
from interlock.server.projections import time_text
from interlock.server.request_errors import SessionExists, SessionUnknown
from interlock.server.service import rests
from interlock.stores.threads import Thread, ThreadStore, open_threads, touched
from interlock.system import SystemIds

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["Sessions", "ThreadView", "new_id"]

MOST_TURNS = 200
"""How many turns back the conversation of a thread goes."""


async def new_id() -> str:
    """Return a new id of a thread or a run, in the form that LangGraph's clients know."""
    return str(UUID(hex=await SystemIds().new(), version=4))


@dataclass(frozen=True, kw_only=True)
class ThreadView:
    """A thread with its newest turns, newest first, and what clients said about them."""

    thread: Thread
    assistant: Assistant | None
    turns: Sequence[StoredTurn] = ()
    notes: Mapping[str, Mapping[str, Any]]

    @property
    def last(self) -> StoredTurn | None:
        """The newest turn."""
        return self.turns[0] if self.turns else None

    @property
    def waiting(self) -> StoredTurn | None:
        """The turn that waits for a person."""
        return next((turn for turn in self.turns if turn.status == "waiting"), None)

    @property
    def status(self) -> str:
        """The status of the thread in LangGraph's words."""
        if any(turn.status in OPEN and turn.status != "waiting" for turn in self.turns):
            return "busy"
        if self.waiting is not None:
            return "interrupted"
        return "error" if self.last is not None and self.last.status == "error" else "idle"

    @property
    def metadata(self) -> dict[str, Any]:
        """What clients said about the thread, with the graph that its runs enter."""
        own = {} if self.assistant is None else {"graph_id": self.assistant.name, "assistant_id": self.assistant.id}
        return {**self.thread.metadata, **own}

    def values(self, server: Server, *, until: StoredTurn | None = None) -> dict[str, Any]:
        """Return the state that the newest turn left, or that a turn left, with the conversation so far."""
        turns = [turn for turn in self.turns if until is None or turn.position <= until.position]
        if self.assistant is None or not turns:
            return {}
        ended = next((turn for turn in turns if rests(turn) and turn.result is not None), None)
        state = {} if ended is None else dict(result_of(ended).state)
        messages = conversation(self.assistant.agent, turns, self.notes)
        return cast("dict[str, Any]", server.interlock.redactor.data({**state, "messages": messages}))


class Sessions:
    """Finds and creates threads for principals. Things of another tenant, or of a role that it has not, do not exist for it."""

    def __init__(self, server: Server) -> None:
        url = server.settings.turn_url
        self.server = server
        self.store: ThreadStore = open_threads(None if url is None else url.get_secret_value(), server.settings.folder)
        server.on_close.append(self.store.aclose)

    async def create(self, principal: Principal, id_: str | None, metadata: Mapping[str, Any], *, may_exist: bool) -> Thread:
        """Create a thread. Raises SessionExists where it exists, or belongs to a role that the principal has not."""
        name = await new_id() if id_ is None else check_session(id_)
        now = time.time()
        thread = Thread(id=name, metadata=metadata, created=now, updated=now)
        if await self.store.add(principal.tenant, thread):
            return thread
        found = await self.store.get(principal.tenant, name)
        if found is None or found.is_deleted or not may_exist or not self._is_visible(principal, found):
            raise SessionExists(f"There is a thread '{name}' already.")
        return found

    async def get(self, principal: Principal, id_: str) -> Thread:
        """Return a thread. Raises SessionUnknown."""
        found = await self.store.get(principal.tenant, check_session(id_))
        if found is None or found.is_deleted or not self._is_visible(principal, found):
            raise SessionUnknown(f"There is no thread '{id_}'.")
        return found

    async def visible(self, principal: Principal) -> list[Thread]:
        """Return the threads that a principal may see, the newest first."""
        return [thread for thread in await self.store.all(principal.tenant) if self._is_visible(principal, thread)]

    async def view(self, principal: Principal, thread: Thread, *, turns: int = MOST_TURNS) -> ThreadView:
        """Return a thread with its newest turns."""
        if thread.graph is None:
            return ThreadView(thread=thread, assistant=None, notes={})
        assistant = find_assistant(self.server, principal, thread.graph)
        found = await self.server.service.find(principal, agent=assistant.agent.name, session=thread.id, page=Page(limit=turns))
        found = [turn for turn in found if turn.role == assistant.role]
        notes = await self.store.notes(principal.tenant, [turn.turn for turn in found])
        return ThreadView(thread=thread, assistant=assistant, turns=found, notes=notes)

    async def run(self, principal: Principal, thread: str, run: str) -> tuple[StoredTurn, Assistant]:
        """Return a run of a thread. A run without a thread of its own has its own id as the thread's."""
        turn = await self.server.service.get(principal, run)
        if turn.session != thread or turn.is_hidden:
            raise TurnUnknown(f"There is no run '{run}' of thread '{thread}'.")
        if thread != run:
            await self.get(principal, thread)
        elif (own := await self.store.get(principal.tenant, thread)) is not None and own.is_deleted:
            raise TurnUnknown(f"There is no run '{run}' of thread '{thread}'.")
        return turn, self.assistant(principal, turn)

    def assistant(self, principal: Principal, turn: StoredTurn) -> Assistant:
        """Return the assistant that a turn runs."""
        return find_assistant(self.server, principal, turn.agent if turn.role is None else f"{turn.agent}.{turn.role}")

    async def start(self, principal: Principal, thread: Thread, assistant: Assistant, metadata: Mapping[str, Any]) -> None:
        """Note that a run of an assistant starts in a thread. A thread has one graph: raises InputSchema for another one."""
        changed = await self.store.change(
            principal.tenant,
            thread.id,
            lambda known: touched(known, graph=known.graph or assistant.name, metadata={**known.metadata, **metadata}),
        )
        if changed is None or changed.is_deleted:
            raise SessionUnknown(f"There is no thread '{thread.id}'.")
        if changed.graph != assistant.name:
            raise InputSchema(f"The runs of thread '{thread.id}' are of '{changed.graph}', so none can be of '{assistant.name}'.")

    async def undo_start(self, principal: Principal, thread: Thread, assistant: Assistant) -> None:
        """Forget the graph of a thread whose first run was refused."""
        if thread.graph is None and not await self.server.service.find(principal, agent=assistant.agent.name, session=thread.id):
            await self.store.change(principal.tenant, thread.id, lambda known: replace(known, graph=None))

    async def subject(self, principal: Principal, turn: StoredTurn) -> Subject:
        """Return what the projection of a turn's events needs to know of its thread."""
        assistant = self.assistant(principal, turn)
        service = self.server.service
        found = await service.find(principal, agent=turn.agent, session=turn.session, page=Page(limit=MOST_TURNS))
        earlier = [one for one in found if one.position < turn.position and one.role == turn.role]
        notes = await self.store.notes(principal.tenant, [one.turn for one in (turn, *earlier)])
        left = next((one for one in earlier if one.status == "success"), None)
        values = {} if left is None else result_of(left).state
        agent = assistant.agent
        messages = [*conversation(agent, earlier, notes), user_message(agent, turn, notes.get(turn.turn, {}))]
        redacted = cast("dict[str, Any]", self.server.interlock.redactor.data({"values": dict(values), "messages": messages}))
        return Subject(
            agent=agent,
            graph=assistant.graph,
            graph_id=assistant.name,
            assistant=assistant.id,
            thread=turn.session,
            run=turn.turn,
            position=turn.position,
            values={name: value for name, value in redacted["values"].items() if name in agent.persists},
            messages=redacted["messages"],
            created=time_text(turn.created) or "",
            parent=next((str(one.position) for one in earlier if one.status in {"success", "error"}), None),
        )

    async def interrupts(self, turn: StoredTurn | None) -> list[dict[str, Any]]:
        """Return the question of a turn that waits."""
        if turn is None or turn.status != "waiting":
            return []
        progress = await self.server.interlock.turns.store.progress([turn.turn])
        waiting = cast("dict[str, Any] | None", self.server.interlock.redactor.data(result_of(turn).metadata.get("waiting")))
        has_abort = self.server.agents[turn.agent].abort is not None
        return interrupts_of(turn.turn, waiting, progress[turn.turn].events, has_abort=has_abort)

    def _is_visible(self, principal: Principal, thread: Thread) -> bool:
        if thread.graph is None:
            return True
        try:
            find_assistant(self.server, principal, thread.graph)
        except AgentUnknown:
            return False
        return True
