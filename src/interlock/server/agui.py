"""AG-UI 1.0, at /agui/AGENT and /agui/AGENT/ROLE: a turn as the events of the Agent User Interaction Protocol.

A thread is a session. Only the last message of the user is new; the agent keeps the conversation and its state itself, so earlier
messages, `state`, `tools` and `context` of a request are accepted and not used. A turn that asks a person ends its run with an
interrupt; the next run of the thread answers it, by `resume` or by a message.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from interlock.contract.schema import error_summary
from interlock.discovery import entry_of
from interlock.dispatch.results import result_of
from interlock.errors import InputSchema, NothingWaits, TurnStopped
from interlock.input import check_session
from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event
from interlock.runtime.turns import Page, StoredTurn
from interlock.server.conversation import Ended, Message, SpokenText, follow_events, questions_of, say
from interlock.server.events import EventStream, frame
from interlock.server.routing import ServerRoute, principal_of, read_body, server_of
from interlock.server.updates import apply_update

if TYPE_CHECKING:
    from interlock.agent import Agent
    from interlock.server.app import Server
    from interlock.server.auth import Principal

__all__ = ["Projection", "RunAgentInput", "routes"]

_VERSION = "1.0"
_SEARCHED = 20
"""How many turns of a session are looked at for the one that waits, and for the state before a turn."""


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, hide_input_in_errors=True)


class TextPart(_Shape):
    """Text of a message."""

    type: Literal["text"]
    text: str


class DataSource(_Shape):
    """The content of a file. The protocol's other sources are URLs, which the server does not fetch."""

    type: Literal["data"]
    value: str
    mime_type: str = Field(pattern=r"^[A-Za-z0-9.+-]{1,60}/[A-Za-z0-9.+-]{1,60}$")


class MediaPart(_Shape):
    """A file of a message."""

    type: Literal["image", "audio", "video", "document"]
    source: DataSource


class InputMessage(_Shape):
    """The message that is the input."""

    role: Literal["user"]
    content: str | list[Annotated[TextPart | MediaPart, Field(discriminator="type")]]


class Resume(_Shape):
    """The answer to an interrupt."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


class RunAgentInput(_Shape):
    """A request for a run. Fields that are not here are not used."""

    thread_id: str
    run_id: str = Field(min_length=1, max_length=200)
    messages: list[dict[str, Any]]
    resume: list[Resume] = Field(default_factory=list[Resume], max_length=1)


async def run(request: Request) -> Response:
    """Run a turn, or answer the question of one, and stream its events."""
    server, principal = server_of(request), principal_of(request)
    body = await read_body(request, RunAgentInput)
    agent = server.service.agent(principal, request.path_params["agent"])
    role, session = request.path_params.get("role"), check_session(body.thread_id)
    if body.resume:
        message = await _answer(server, principal, agent, session, body.resume[0])
    else:
        key = request.headers.get("idempotency-key")
        message = await say(server, principal, agent, _input_of(body.messages), session=session, role=role, key=key)
    turn = message.turn
    request.state.turn, request.state.session = turn.turn, turn.session
    state = await _state_before(server, principal, message)
    headers = {"x-interlock-turn": turn.turn, "x-interlock-session": turn.session}
    return EventStream(_frames(server, message, Projection(agent, message, body, state)), headers)


def _input_of(messages: list[dict[str, Any]]) -> str | dict[str, Any]:
    """Return the input that the last message is: its text, its file, or both. Raises InputSchema."""
    try:
        content = InputMessage.model_validate(messages[-1] if messages else {}, strict=True).content
    except ValidationError as error:
        problem = error_summary(error)
    else:
        if isinstance(content, str):
            return content
        text = "\n".join(part.text for part in content if isinstance(part, TextPart))
        files = [f"data:{part.source.mime_type};base64,{part.source.value}" for part in content if isinstance(part, MediaPart)]
        if len(files) > 1:
            raise InputSchema("A message has one file at most.")
        return ({"text": text, "file": files[0]} if text else files[0]) if files else text
    raise InputSchema(f"The last message is not one of the user, with text or the data of a file: {problem}.")


async def _answer(server: Server, principal: Principal, agent: Agent, session: str, resume: Resume) -> Message:
    """Answer the question of the session's turn. Raises NothingWaits where the interrupt is not the one that is open."""
    service = server.service
    found = await service.find(principal, agent=agent.name, session=session, statuses=("waiting",), page=Page(limit=_SEARCHED))
    for turn in found:
        after = (await questions_of(server, turn))[-1]
        if resume.interrupt_id != _interrupt_id(turn, after) or result_of(turn).metadata["waiting"].get("to"):
            continue
        if resume.status == "cancelled" and agent.abort is None:
            return Message(turn=await service.cancel(principal, turn.turn), after=after)
        return Message(turn=await service.answer(principal, turn.turn, _answer_text(agent, resume)), after=after)
    raise NothingWaits("The session has no open interrupt with this id.")


def _answer_text(agent: Agent, resume: Resume) -> str:
    if resume.status == "cancelled" and agent.abort is not None:
        return agent.abort
    given = cast("dict[str, Any]", resume.payload).get("answer") if isinstance(resume.payload, dict) else resume.payload
    if not isinstance(given, str):
        raise InputSchema("The payload of an answer is text, or an object whose 'answer' is text.")
    return given


def _interrupt_id(turn: StoredTurn, number: int) -> str:
    return f"{turn.turn}.{number}"


async def _state_before(server: Server, principal: Principal, message: Message) -> dict[str, Any]:
    """Return the state before the reply to a message: as the question left it, or what the last turn of the session persisted."""
    turn = message.turn
    if message.after:
        asked = [event async for event in server.interlock.turns.stored_events(turn.turn) if event["metadata"]["sequence"] == message.after]
        return dict(asked[0]["data"]["output"].get("state") or {})
    found = await server.service.find(principal, agent=turn.agent, session=turn.session, page=Page(limit=_SEARCHED))
    earlier = (one for one in found if one.position < turn.position and one.role == turn.role and one.status == "success")
    left = next(earlier, None)
    state = {} if left is None else result_of(left).state
    return {name: value for name, value in state.items() if name in server.agents[turn.agent].persists}


async def _frames(server: Server, message: Message, projection: Projection) -> AsyncGenerator[list[bytes], None]:
    def sent(events: Iterator[dict[str, Any]]) -> list[bytes]:
        return [frame(server.interlock.redactor.data(event)) for event in events]

    yield sent(projection.start())
    async with aclosing(follow_events(server, message)) as following:
        async for arrived in following:
            if isinstance(arrived, Ended):
                yield sent(projection.end(arrived))
                return
            frames = sent(shown for event in arrived for shown in projection.project(event))
            if frames or not arrived:
                yield frames


@dataclass(frozen=True)
class _Standing:
    """What is known after an event: a turn that is resumed may go back to it."""

    number: int
    state: dict[str, Any]
    steps: dict[str, str]
    """The names of the open steps, by their runs."""
    calls: dict[str, str]
    """The ids of the calls, by their runs."""


class Projection:
    """Turns the events of a reply into those of AG-UI, in order. What it opens, it closes."""

    def __init__(self, agent: Agent, message: Message, body: RunAgentInput, state: dict[str, Any]) -> None:
        self._ids = {"threadId": body.thread_id, "runId": body.run_id}
        self._message = message
        self._fields = entry_of(agent, message.turn.role).state
        self._spoken = SpokenText(agent.speakers)
        self._now = _Standing(message.after, state, {}, {})
        self._past = [self._now]
        self._again = 0
        self._is_speaking = False

    def start(self) -> Iterator[dict[str, Any]]:
        """Open the run."""
        yield {"type": "RUN_STARTED", **self._ids, "protocolVersion": _VERSION}
        if self._message.after:
            yield self._snapshot()

    def project(self, event: Event) -> Iterator[dict[str, Any]]:
        """Take the next event."""
        kind, _, moment = event["event"].rpartition("_")
        yield from self._say(self._spoken.add(event))
        if event["event"] == "on_custom_event":
            if event["name"] == RETOLD and not event["run_id"]:
                yield from self._go_back(event["data"]["from"])
            else:
                yield {"type": "CUSTOM", "name": event["name"], "value": event["data"]}
        elif moment != "stream" and kind in {"on_tool", "on_chain"}:
            now = self._now
            self._now = _Standing(event["metadata"]["sequence"], dict(now.state), dict(now.steps), dict(now.calls))
            self._past.append(self._now)
            yield from self._call(event, moment) if kind == "on_tool" else self._chain(event, moment)

    def _chain(self, event: Event, moment: str) -> Iterator[dict[str, Any]]:
        if "langgraph_node" in event["metadata"]:
            yield from self._step(event, moment)
        elif not event["parent_ids"]:
            if moment == "start":
                apply_update(self._fields, self._now.state, event["data"].get("input") or {})
            elif moment == "end":
                self._now.state.update(event["data"]["output"].get("state") or {})
            yield self._snapshot()

    def _snapshot(self) -> dict[str, Any]:
        return {"type": "STATE_SNAPSHOT", "snapshot": dict(self._now.state)}

    def _step(self, event: Event, moment: str) -> Iterator[dict[str, Any]]:
        run, steps = event["run_id"], self._now.steps
        if moment == "start":
            name = str(event["metadata"]["langgraph_node"])
            # Two runs of a node at the same time are two steps, and a client tells open steps apart by their names.
            steps[run] = name = name if name not in steps.values() else f"{name}#{run[-12:].lstrip('0')}"
            yield {"type": "STEP_STARTED", "stepName": name}
        elif run in steps:
            if moment == "end" and len(event["parent_ids"]) == 1:
                yield from self._change(event["data"].get("output") or {})
            yield {"type": "STEP_FINISHED", "stepName": steps.pop(run)}

    def _change(self, update: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Apply what a node of the entry graph wrote."""
        state = self._now.state
        apply_update(self._fields, state, update)
        # "add" replaces a member that exists (RFC 6902). Names of fields are identifiers, which need no escapes.
        delta = [{"op": "add", "path": f"/{name}", "value": state[name]} for name in update]
        if delta:
            yield {"type": "STATE_DELTA", "delta": delta}

    def _call(self, event: Event, moment: str) -> Iterator[dict[str, Any]]:
        run, calls = event["run_id"], self._now.calls
        if moment == "start":
            calls[run] = call = f"{run}-{self._again + 1}" if self._again else run
            yield {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": event["name"]}
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": _text_of(event["data"].get("input"))}
            yield {"type": "TOOL_CALL_END", "toolCallId": call}
        elif run in calls:
            call, content = calls.pop(run), event["data"].get("output") if moment == "end" else {"error": event["data"].get("error")}
            yield {"type": "TOOL_CALL_RESULT", "messageId": f"{call}-result", "toolCallId": call, "content": _text_of(content)}

    def _go_back(self, number: int) -> Iterator[dict[str, Any]]:
        """Go back to the state after an event: another worker resumed the turn, and emits other events from there on."""
        steps = self._now.steps
        self._past = [*self._past[:1], *(one for one in self._past[1:] if one.number <= number)]
        self._now = self._past[-1]
        self._again += 1
        yield from _close(steps[run] for run in steps if run not in self._now.steps)
        yield from ({"type": "STEP_STARTED", "stepName": name} for run, name in self._now.steps.items() if run not in steps)
        yield self._snapshot()

    def _say(self, text: str) -> Iterator[dict[str, Any]]:
        if not text:
            return
        if not self._is_speaking:
            self._is_speaking = True
            yield {"type": "TEXT_MESSAGE_START", "messageId": self._message.id, "role": "assistant"}
        yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": self._message.id, "delta": text}

    def end(self, ended: Ended) -> Iterator[dict[str, Any]]:
        """Close the run: with a text, a question, or an error."""
        asks = ended.asks if ended.asks is not None and not ended.asks.get("to") else None
        if ended.error is None and asks is None:
            yield from self._say(self._spoken.end(ended.text))
        if self._is_speaking:
            yield {"type": "TEXT_MESSAGE_END", "messageId": self._message.id}
        yield from _close(self._now.steps.values())
        outcome: dict[str, Any] = {"type": "success"}
        if isinstance(ended.error, TurnStopped):
            outcome = {"type": "cancelled"}
        elif ended.error is not None:
            yield {"type": "RUN_ERROR", "message": ended.error.message, "code": ended.error.code}
            return
        elif asks is not None:
            outcome = {"type": "interrupt", "interrupts": [self._interrupt(asks, ended.number)]}
        yield {"type": "RUN_FINISHED", **self._ids, "outcome": outcome}

    def _interrupt(self, asks: Mapping[str, Any], number: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string"}
        if asks["options"]:
            schema["enum"] = list(asks["options"])
            if asks["recommended"] in asks["options"]:
                schema["default"] = asks["recommended"]
        id_ = _interrupt_id(self._message.turn, number)
        return {"id": id_, "reason": "input_required", "message": asks["question"], "responseSchema": schema}


def _close(names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Finish open steps, the innermost first."""
    for name in reversed(list(names)):
        yield {"type": "STEP_FINISHED", "stepName": name}


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="null").decode()


def routes(_: Server) -> list[ServerRoute]:
    """Return the routes of the protocol."""
    return [ServerRoute("POST", "/agui/{agent}", run), ServerRoute("POST", "/agui/{agent}/{role}", run)]
