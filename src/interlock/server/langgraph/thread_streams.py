"""LangGraph's streaming protocol: one stream for all runs of a thread, and commands to it, as `client.threads.stream` uses them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from interlock.contract.schema import error_summary
from interlock.dispatch.results import result_of
from interlock.errors import InputSchema, InterlockError, NothingWaits, StoreError
from interlock.runtime.turns import ENDED, OPEN, StoredTurn
from interlock.server.auth import Principal
from interlock.server.events import HEARTBEAT_S, EventPlace, EventStream, frame
from interlock.server.langgraph.bodies import CommandBody, RunBody, read_shape
from interlock.server.langgraph.protocol_events import CHANNELS, TurnEvents, is_wanted, position_of, seq_of
from interlock.server.langgraph.runs import StreamCut
from interlock.server.langgraph.sessions import Sessions, ThreadView
from interlock.server.langgraph.stream import Projector
from interlock.server.langgraph.submission import create_run
from interlock.server.problems import fault_message, problem_of
from interlock.server.request_errors import NotAllowed, Overloaded, SessionUnknown, TooManyRequests
from interlock.server.routing import Json, principal_of
from interlock.stores.threads import Thread

__all__ = ["ThreadStreamRoutes"]

_LOOK_S = 0.2
"""How often a thread without a run is looked at."""
_REPLAYED_S = 30.0
"""Runs that ended less long ago are streamed to a client that names no event: it may have just started them."""
_SAFE = 2**53 - 1
Name = Annotated[str, Field(max_length=300)]
S = TypeVar("S", bound=BaseModel)


class EventsBody(BaseModel):
    """Which events of a thread to stream."""

    model_config = ConfigDict(hide_input_in_errors=True)

    channels: list[Name] = Field(min_length=1, max_length=100)
    namespaces: list[list[Name]] | None = Field(None, max_length=100)
    depth: int | None = Field(None, ge=0, le=1000)
    since: int | None = Field(None, ge=0, le=_SAFE)


class CommandRequest(BaseModel):
    """A command to a thread."""

    model_config = ConfigDict(hide_input_in_errors=True)

    id: int = Field(ge=0, le=_SAFE)
    method: Name
    params: dict[str, Any] = Field(default_factory=dict[str, Any])


class Answered(BaseModel):
    """The answer to one question."""

    model_config = ConfigDict(hide_input_in_errors=True)

    interrupt_id: str
    response: Any = None


class RespondParams(BaseModel):
    """The answer of a person to the question of a run."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid")

    interrupt_id: str | None = None
    response: Any = None
    namespace: list[str] = Field(default_factory=list[str])
    responses: list[Answered] | None = Field(None, min_length=1, max_length=1)
    update: Any = None
    goto: Any = None
    config: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


class ThreadStreamRoutes:
    """The handlers of the routes `stream/events` and `commands` of a thread."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._server = sessions.server

    async def events(self, request: Request) -> Response:
        """Stream the events of a thread's runs, until the client leaves."""
        body, principal = await read_shape(request, EventsBody), principal_of(request)
        unknown = next((name for name in body.channels if name not in CHANNELS and not name.startswith("custom:")), None)
        if unknown is not None:
            raise InputSchema(f"There is no channel '{unknown}'. There are: {', '.join(CHANNELS)}, and custom:NAME.")
        thread = await self._sessions.get(principal, request.path_params["thread"])
        request.state.session = thread.id
        return EventStream(self._frames(principal, thread, body))

    async def command(self, request: Request) -> Response:
        """Carry out a command. What is wrong with it is an error in the form of the protocol."""
        body = await read_shape(request, CommandRequest)
        principal, thread = principal_of(request), request.path_params["thread"]
        try:
            if body.method == "run.start":
                run = _read(RunBody, {"if_not_exists": "create", **body.params})
                started, after = await self._start(request, principal, thread, run)
            elif body.method == "input.respond":
                started, after = await self._respond(request, principal, thread, _read(RespondParams, body.params))
            else:
                await self._sessions.get(principal, thread)
                return _refused(body.id, "unknown_command", "The commands are run.start and input.respond.")
        except (SessionUnknown, TooManyRequests, Overloaded, StoreError):
            raise
        except InterlockError as error:
            kind = "no_such_interrupt" if isinstance(error, NothingWaits) else "invalid_argument"
            return _refused(body.id, "permission_denied" if isinstance(error, NotAllowed) else kind, problem_of(error)["detail"])
        return Json({"type": "success", "id": body.id, "result": {"run_id": started.turn}, "meta": {"applied_through_seq": after}})

    async def _start(self, request: Request, principal: Principal, thread: str, body: RunBody) -> tuple[StoredTurn, int]:
        run = await create_run(self._sessions, principal, thread, body)
        request.state.turn, request.state.session = run.turn.turn, run.turn.session
        number = 0 if run.after is None else run.after.number
        return run.turn, seq_of(run.turn.position, number, 63 if number else 0)

    async def _respond(self, request: Request, principal: Principal, thread: str, params: RespondParams) -> tuple[StoredTurn, int]:
        view = await self._sessions.view(principal, await self._sessions.get(principal, thread))
        found = await self._sessions.interrupts(view.waiting)
        given = params.responses[0] if params.responses else Answered(interrupt_id=params.interrupt_id or "", response=params.response)
        if view.assistant is None or not found or given.interrupt_id != found[0]["id"]:
            raise NothingWaits("No run of the thread waits for an answer with this id.")
        command = CommandBody(resume={given.interrupt_id: given.response}, update=params.update, goto=params.goto)
        run = {"assistant_id": view.assistant.name, "command": command, "config": params.config, "metadata": params.metadata}
        return await self._start(request, principal, thread, _read(RunBody, run))

    async def _frames(self, principal: Principal, thread: Thread, body: EventsBody) -> AsyncGenerator[list[bytes], None]:
        view = await self._sessions.view(principal, thread)
        idle = 0.0
        while view.assistant is None:
            if await self._is_closing(_LOOK_S):
                raise StreamCut
            idle += _LOOK_S
            if idle >= HEARTBEAT_S:
                idle = 0.0
                yield []
            view = await self._sessions.view(principal, await self._sessions.get(principal, thread.id))
        role, agent = view.assistant.role, view.assistant.agent.name
        start = _start_of(view) if body.since is None else position_of(body.since)
        current: tuple[str, TurnEvents] | None = None
        following = self._server.hub.follow_session(
            principal.tenant, agent, thread.id, since=EventPlace(start), is_visible=lambda turn: turn.role == role and not turn.is_hidden
        )
        async with aclosing(following):
            async for turn, events in following:
                if turn is None:
                    yield []
                    continue
                if current is None or current[0] != turn.turn:
                    subject = await self._sessions.subject(principal, turn)
                    current = turn.turn, TurnEvents(Projector(subject), ms=int(turn.created * 1000))
                found = [one for event in events for one in current[1].project(event)]
                if not events and turn.status in ENDED:
                    found = current[1].end(self._error_of(turn))
                sent = [
                    frame(one, event=one["method"], id_=one["seq"])
                    for one in found
                    if (body.since is None or one["seq"] > body.since) and is_wanted(one, body.channels, body.namespaces or (), body.depth)
                ]
                if sent:
                    yield sent
        # A stream that is closed cleanly looks like the end of its run to clients.
        raise StreamCut

    def _error_of(self, turn: StoredTurn) -> str | None:
        error = result_of(turn).error
        return None if error is None else self._server.interlock.redactor.text(f"{error.code}: {fault_message(error)}")

    async def _is_closing(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._server.hub.is_closing.wait(), seconds)
        except TimeoutError:
            return False
        return True


def _start_of(view: ThreadView) -> int:
    """Return the position of the first run that a client can have missed: one that is open or has just ended, or else the next."""
    now = time.time()
    recent = [turn.position for turn in view.turns if turn.status in OPEN or now - (turn.ended or now) < _REPLAYED_S]
    return min(recent, default=0 if view.last is None else view.last.position + 1)


def _read(shape: type[S], params: dict[str, Any]) -> S:
    try:
        return shape.model_validate(params, strict=True)
    except ValidationError as error:
        problem = error_summary(error)
    raise InputSchema(f"The parameters of the command cannot be used: {problem}.")


def _refused(id_: int, code: str, message: str) -> Response:
    return Json({"type": "error", "id": id_, "error": code, "message": message})
