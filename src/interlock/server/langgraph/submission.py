"""Creates runs: a client's body becomes a turn, or the answer to the question of a suspended one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from interlock.agent import Agent
from interlock.dispatch.embedded import result_of
from interlock.errors import InputSchema, InterlockError, NothingWaits
from interlock.input import check_session
from interlock.runtime.turns import OPEN, Page, StoredTurn, TurnFilter
from interlock.server.auth import Principal
from interlock.server.langgraph.assistants import Assistant, find_assistant
from interlock.server.langgraph.bodies import RunBody, modes_of
from interlock.server.langgraph.messages import parse_messages
from interlock.server.langgraph.sessions import Sessions, new_id
from interlock.server.langgraph.states import head_of
from interlock.server.langgraph.stream import LAST_PART, FrameId
from interlock.server.request_errors import SessionUnknown
from interlock.stores.threads import Thread

__all__ = ["NewRun", "create_run"]


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """A run that was created or resumed. Its stream begins after frame `after`, which an earlier stream has had."""

    turn: StoredTurn
    assistant: Assistant
    body: RunBody
    after: FrameId | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        """The stream modes that the client asks for."""
        return modes_of(self.body.stream_mode)


async def create_run(sessions: Sessions, principal: Principal, thread_id: str | None, body: RunBody) -> NewRun:
    """Create a run in a thread, or in none. When this returns, it is stored, and is finished whatever happens to its client."""
    body.check()
    modes_of(body.stream_mode)
    assistant = find_assistant(sessions.server, principal, body.assistant_id)
    if thread_id is None:
        return await _create_alone(sessions, principal, assistant, body)
    thread = await _thread(sessions, principal, thread_id, body)
    if thread.graph is not None and thread.graph != assistant.name:
        raise InputSchema(f"The runs of thread '{thread.id}' are of '{thread.graph}', so none can be of '{assistant.name}'.")
    await _check_checkpoint(sessions, principal, thread, body)
    if body.command is not None:
        return await _resume(sessions, principal, thread, assistant, body)
    await sessions.start(principal, thread, assistant, body.metadata or {})
    try:
        turn = await _submit(sessions, principal, assistant, body, session=thread.id)
    except InterlockError:
        await sessions.undo_start(principal, thread, assistant)
        raise
    return NewRun(turn=turn, assistant=assistant, body=body)


async def _create_alone(sessions: Sessions, principal: Principal, assistant: Assistant, body: RunBody) -> NewRun:
    """Create a run without a thread. Its session has its own id; with `on_completion: keep` that becomes a thread."""
    if body.command is not None or body.wanted_checkpoint is not None:
        raise InputSchema("A run without a thread has nothing to resume.")
    turn = await _submit(sessions, principal, assistant, body, session=None)
    if body.on_completion == "keep":
        thread = await sessions.create(principal, turn.session, {}, may_exist=True)
        await sessions.start(principal, thread, assistant, body.metadata or {})
    return NewRun(turn=turn, assistant=assistant, body=body)


async def _thread(sessions: Sessions, principal: Principal, id_: str, body: RunBody) -> Thread:
    """Return the thread of a run. It is created where the client says so, and never where one exists that it may not see."""
    try:
        return await sessions.get(principal, id_)
    except SessionUnknown:
        if body.if_not_exists != "create" or await sessions.store.get(principal.tenant, check_session(id_)) is not None:
            raise
    return await sessions.create(principal, id_, {}, may_exist=True)


async def _check_checkpoint(sessions: Sessions, principal: Principal, thread: Thread, body: RunBody) -> None:
    """Refuse to run from an earlier state: a session has one history."""
    wanted = body.wanted_checkpoint
    if wanted is None:
        return
    head = await head_of(sessions, principal, await sessions.view(principal, thread))
    if head is None or head["checkpoint"]["checkpoint_id"] != wanted:
        raise InputSchema("'checkpoint' is refused: a run starts from the newest state of its thread, and this is not it.")


async def _submit(sessions: Sessions, principal: Principal, assistant: Assistant, body: RunBody, *, session: str | None) -> StoredTurn:
    if body.input is None:
        raise InputSchema("The run has no input.")
    given, message_id = parse_messages(assistant.graph, body.input)
    service, agent, policy = sessions.server.service, assistant.agent, body.multitask_strategy or "enqueue"
    await _check_message_id(sessions, principal, agent, session, message_id)
    await _end_suspended(sessions, principal, agent, session, policy)
    id_ = await new_id()
    note = {"message_id": message_id, "metadata": body.metadata, "modes": body.stream_mode}
    note = {name: value for name, value in note.items() if value}
    if note:
        await sessions.store.put_note(principal.tenant, id_, note)
    stopped = await _open_turns(sessions, principal, agent, session) if policy in {"interrupt", "rollback"} else []
    turn = await service.submit(
        principal,
        agent.name,
        given,
        session=session,
        role=assistant.role,
        policy=policy,
        due=None if not body.after_seconds else time.time() + body.after_seconds,
        turn=id_,
        is_exclusive=session is not None,
    )
    for one in stopped:
        await sessions.store.put_note(principal.tenant, one.turn, {"cancel_reason": f"{policy} by run {id_}"})
    return turn


async def _open_turns(sessions: Sessions, principal: Principal, agent: Agent, session: str | None) -> list[StoredTurn]:
    if session is None:
        return []
    chosen = TurnFilter(tenant=principal.tenant, agent=agent.name, session=session, statuses=OPEN)
    return await sessions.server.interlock.turns.store.find(chosen, Page(limit=100))


async def _check_message_id(sessions: Sessions, principal: Principal, agent: Agent, session: str | None, id_: str | None) -> None:
    """Refuse the id of a message that the thread has already: clients know messages by their ids."""
    if session is None or id_ is None:
        return
    turns = await sessions.server.service.find(principal, agent=agent.name, session=session)
    notes = await sessions.store.notes(principal.tenant, [turn.turn for turn in turns])
    if any(note.get("message_id") == id_ for note in notes.values()):
        raise InputSchema("The thread has a message with that id already.")


async def _end_suspended(sessions: Sessions, principal: Principal, agent: Agent, session: str | None, policy: str) -> None:
    """Answer a suspended turn with the agent's word for giving up, where it has one: a new input ends the question."""
    if session is None or agent.abort is None or policy != "enqueue":
        return
    waiting = next((turn for turn in await _open_turns(sessions, principal, agent, session) if turn.status == "waiting"), None)
    if waiting is not None:
        await sessions.server.service.answer(principal, waiting.turn, agent.abort)


async def _resume(sessions: Sessions, principal: Principal, thread: Thread, assistant: Assistant, body: RunBody) -> NewRun:
    """Answer the question of the thread's suspended run. The run continues under its own id."""
    waiting = (await sessions.view(principal, thread)).waiting
    if waiting is None:
        raise NothingWaits(f"No run of thread '{thread.id}' waits for an answer.")
    found = await sessions.interrupts(waiting)
    text = _answer(assistant.agent, waiting, cast("Any", body.command).resume, found[0]["id"])
    progress = await sessions.server.interlock.turns.store.progress([waiting.turn])
    turn = await sessions.server.service.answer(principal, waiting.turn, text)
    after = FrameId(turn.position, progress[turn.turn].events, LAST_PART + 2)
    return NewRun(turn=turn, assistant=assistant, body=body, after=after)


def _answer(agent: Agent, turn: StoredTurn, resume: Any, interrupt: str) -> str:
    """Return the answer in what a client resumes with: text, `{"answer": text}`, decisions of an approval dialog, or one by interrupt."""
    if isinstance(resume, Mapping):
        given = cast("Mapping[str, Any]", resume)
        if set(given) == {interrupt}:
            return _answer(agent, turn, given[interrupt], "")
        if set(given) == {"answer"} and isinstance(given["answer"], str):
            return given["answer"]
        if set(given) == {"decisions"} and isinstance(given["decisions"], list):
            return _decided(agent, turn, cast("list[Any]", given["decisions"]))
    elif isinstance(resume, list) and len(cast("list[Any]", resume)) == 1:
        return _answer(agent, turn, resume[0], interrupt)
    elif isinstance(resume, bool | int | float):
        return str(resume).lower()
    elif isinstance(resume, str):
        return resume
    raise InputSchema('\'command.resume\' is text, {"answer": TEXT}, or {"decisions": [{"type": "approve"}]}.')


def _member(value: Any, name: str) -> Any:
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else None


def _decided(agent: Agent, turn: StoredTurn, decisions: list[Any]) -> str:
    """Return the answer in one decision: the recommended one, another text, or the agent's word for giving up."""
    decision = decisions[0] if len(decisions) == 1 else None
    given = cast("dict[str, Any]", decision if isinstance(decision, dict) else {})
    waiting = cast("Mapping[str, Any]", result_of(turn).metadata.get("waiting") or {})
    kind = given.get("type")
    if kind in {"approve", "accept"} and waiting.get("recommended"):
        return str(waiting["recommended"])
    if kind in {"reject", "ignore"} and agent.abort is not None:
        return agent.abort
    if kind in {"edit", "respond", "response"}:
        text = _member(_member(given.get("edited_action"), "args"), "answer") or given.get("message") or given.get("args")
        if isinstance(text, str):
            return text
    raise InputSchema(f"The decision '{str(kind)[:40]}' is not one that this question allows.")
