"""Interlock's own REST API with server-sent events, below /api: for scripts and for the page."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from starlette.requests import Request
from starlette.responses import Response

from interlock.runtime.turns import OPEN, Page, StoredTurn, TurnFilter, TurnStatus
from interlock.server import shapes
from interlock.server.events import EventPlace, EventStream, frame
from interlock.server.problems import public_event
from interlock.server.projections import agent_shape, session_summary, turn_shape, worker_shape
from interlock.server.request_errors import RequestError
from interlock.server.routing import (
    Access,
    Json,
    Operation,
    Parameter,
    ServerRoute,
    principal_of,
    read_body,
    read_number,
    server_of,
)
from interlock.server.service import rests
from interlock.server.steps import steps_of

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["routes"]

_STATUSES: tuple[str, ...] = get_args(TurnStatus)
_MOST_TURNS = 200
_MOST_WAIT_S = 60.0
_PAGES = 20


async def list_agents(request: Request) -> Response:
    """Return the agents that the caller may use."""
    principal, agents = principal_of(request), server_of(request).agents.values()
    may = [agent for agent in agents if any(principal.has(role) for role in agent.entries)]
    return Json(shapes.AgentList(agents=[agent_shape(principal, agent, with_graphs=False) for agent in may]))


async def get_agent(request: Request) -> Response:
    """Return an agent with its graphs, their contracts and their layout."""
    principal = principal_of(request)
    agent = server_of(request).service.agent(principal, request.path_params["agent"])
    return Json(agent_shape(principal, agent, with_graphs=True))


async def submit_turn(request: Request) -> Response:
    """Accept a turn. With `wait`, answer when it has ended or waits for a person, or when that time is over."""
    server, principal = server_of(request), principal_of(request)
    wait_s = read_number(request, "wait", 0, most=_MOST_WAIT_S)
    body = await read_body(request, shapes.SubmitBody)
    turn = await server.service.submit(
        principal,
        body.agent,
        body.input,
        session=body.session,
        role=body.role,
        key=request.headers.get("idempotency-key"),
        policy=body.policy,
        due=body.due,
    )
    turn = await server.service.wait(principal, turn.turn, timeout_s=wait_s)
    return _turn_response(request, turn, 200 if rests(turn) else 202)


def _turn_response(request: Request, turn: StoredTurn, status: int = 200) -> Response:
    request.state.turn, request.state.session = turn.turn, turn.session
    headers = {"location": f"/api/turns/{turn.turn}", "x-interlock-turn": turn.turn, "x-interlock-session": turn.session}
    return Json(turn_shape(server_of(request), turn, is_full=True), status, headers)


async def list_turns(request: Request) -> Response:
    """Return turns, newest first."""
    server, query = server_of(request), request.query_params
    page = Page(limit=max(1, int(read_number(request, "limit", 50, most=_MOST_TURNS))), before=query.get("before"))
    found = await server.service.find(
        principal_of(request), agent=query.get("agent"), session=query.get("session"), statuses=_statuses(query.get("status")), page=page
    )
    turns = [turn_shape(server, turn) for turn in found]
    return Json(shapes.TurnList(turns=turns, next=found[-1].turn if len(found) == page.limit else None))


def _statuses(status: str | None) -> tuple[TurnStatus, ...]:
    if status is None or status == "open":
        return () if status is None else OPEN
    if status not in _STATUSES:
        raise RequestError(f"'status' is one of {', '.join(_STATUSES)}, or 'open'.")
    return (cast("TurnStatus", status),)


async def get_turn(request: Request) -> Response:
    """Return a turn. With `wait`, when it has ended or waits for a person, or when that time is over."""
    wait_s = read_number(request, "wait", 0, most=_MOST_WAIT_S)
    turn = await server_of(request).service.wait(principal_of(request), request.path_params["turn"], timeout_s=wait_s)
    return _turn_response(request, turn)


async def cancel_turn(request: Request) -> Response:
    """Cancel a turn."""
    turn = await server_of(request).service.cancel(principal_of(request), request.path_params["turn"])
    return _turn_response(request, turn, 200 if rests(turn) else 202)


async def answer_turn(request: Request) -> Response:
    """Answer the question of a turn."""
    server, principal = server_of(request), principal_of(request)
    name = request.path_params["turn"]
    await server.service.get(principal, name)
    wait_s = read_number(request, "wait", 0, most=_MOST_WAIT_S)
    body = await read_body(request, shapes.AnswerBody)
    turn = await server.service.answer(principal, name, body.text)
    turn = await server.service.wait(principal, turn.turn, timeout_s=wait_s)
    return _turn_response(request, turn, 200 if rests(turn) else 202)


async def list_waiting(request: Request) -> Response:
    """Return the turns that wait for a person."""
    server = server_of(request)
    found = await server.service.find(principal_of(request), statuses=("waiting",), page=Page(limit=_MOST_TURNS))
    return Json(shapes.TurnList(turns=[turn_shape(server, turn) for turn in found]))


async def turn_events(request: Request) -> Response:
    """Return the events of a turn: as JSON, or as a stream where the client accepts server-sent events."""
    server = server_of(request)
    turn = await server.service.get(principal_of(request), request.path_params["turn"])
    after = int(read_number(request, "after", 0, most=1e12))
    if not _wants_stream(request):
        return await _event_page(server, turn, after)
    last = request.headers.get("last-event-id")
    if last is not None:
        place = EventPlace.parse(last)
        after = place.number if place.position == turn.position else after
        if rests(turn) and not await server.interlock.turns.store.events(turn.turn, after=after, limit=1):
            # A browser's EventSource connects again until it gets this.
            return Response(status_code=204)
    return EventStream(_turn_frames(server, turn, after))


def _wants_stream(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


async def _event_page(server: Server, turn: StoredTurn, after: int) -> Response:
    events = [public_event(event) async for event in server.interlock.turns.stored_events(turn.turn)]
    shown = [cast("dict[str, Any]", event) for event in events[after : after + 1000]]
    return Json(shapes.EventPage(turn=turn.turn, status=turn.status, events=shown, next=min(len(events), after + len(shown))))


async def _turn_frames(server: Server, turn: StoredTurn, after: int) -> AsyncGenerator[list[bytes], None]:
    async for events in server.hub.follow(turn.turn, after=after):
        yield [frame(event, event="event", id_=EventPlace(turn.position, event["metadata"]["sequence"])) for event in events]
    ended = await server.interlock.turns.store.get(turn.turn)
    if ended is not None and rests(ended):
        yield [frame(turn_shape(server, ended).model_dump(mode="json"), event="status")]


async def turn_steps(request: Request) -> Response:
    """Return the steps of a turn: what each run of a node read, wrote and called."""
    server = server_of(request)
    turn = await server.service.get(principal_of(request), request.path_params["turn"])
    events = [(ms, public_event(event)) for ms, event in await server.interlock.turns.timed_events(turn.turn)]
    return Json(shapes.StepList(turn=turn.turn, status=turn.status, steps=steps_of(events)))


async def turn_record(request: Request) -> Response:
    """Return the record of a turn, one JSON object a line: everything that the turn saw, secrets too."""
    server = server_of(request)
    turn = await server.service.get(principal_of(request), request.path_params["turn"])
    with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
        path = Path(folder) / "record.jsonl"
        await server.interlock.turns.export(turn.turn, path)
        content = path.read_bytes()
    return Response(content, media_type="application/x-ndjson", headers={"content-disposition": 'attachment; filename="record.jsonl"'})


async def replay_turn(request: Request) -> Response:
    """Replay a turn that has ended, without calling any adapter, and return how it differs from its record."""
    server = server_of(request)
    turn = await server.service.get(principal_of(request), request.path_params["turn"])
    with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
        path = Path(folder) / "record.jsonl"
        await server.interlock.turns.export(turn.turn, path)
        replayed = await server.interlock.replay(path, graph=server.agents[turn.agent])
    found = [server.interlock.redactor.text(str(difference)) for difference in replayed.differences]
    return Json(shapes.ReplayResult(turn=turn.turn, is_same=not found, differences=found))


async def list_sessions(request: Request) -> Response:
    """Return sessions, the one with the newest turn first."""
    server, query = server_of(request), request.query_params
    limit = max(1, int(read_number(request, "limit", 50, most=_MOST_TURNS)))
    found: dict[tuple[str, str], tuple[StoredTurn, StoredTurn]] = {}
    page = Page(limit=_MOST_TURNS)
    own = TurnFilter(tenant=principal_of(request).tenant, agent=query.get("agent"))
    for _ in range(_PAGES):
        turns = await server.interlock.turns.store.find(own, page)
        for turn in turns:
            name = (turn.agent, turn.session)
            if server.service.is_visible(principal_of(request), turn) and (name in found or len(found) < limit):
                found[name] = found.get(name, (turn,))[0], turn
        if len(turns) < page.limit or len(found) >= limit:
            break
        page = Page(limit=_MOST_TURNS, before=turns[-1].turn)
    return Json(shapes.SessionList.model_validate({"sessions": [session_summary(server, *turns) for turns in found.values()]}))


async def get_session(request: Request) -> Response:
    """Return a session with the state that its last turn left."""
    server, path = server_of(request), request.path_params
    last = await server.service.session(principal_of(request), path["agent"], path["session"])
    turns = await server.service.find(principal_of(request), agent=last.agent, session=last.session, page=Page(limit=20))
    ended = next((turn for turn in turns if rests(turn) and turn.result is not None), None)
    state = None if ended is None else turn_shape(server, ended, is_full=True).state
    return Json(shapes.SessionShape.model_validate({**session_summary(server, last, turns[-1]), "state": state}))


async def session_turns(request: Request) -> Response:
    """Return the turns of a session, newest first."""
    server, path = server_of(request), request.path_params
    last = await server.service.session(principal_of(request), path["agent"], path["session"])
    page = Page(limit=max(1, int(read_number(request, "limit", 50, most=_MOST_TURNS))), before=request.query_params.get("before"))
    found = await server.service.find(principal_of(request), agent=last.agent, session=last.session, page=page)
    turns = [turn_shape(server, turn) for turn in found]
    return Json(shapes.TurnList(turns=turns, next=found[-1].turn if len(found) == page.limit else None))


async def session_events(request: Request) -> Response:
    """Stream the events of a session's turns, one turn after the other. The stream stays open; a new session has no turns yet."""
    server, principal, path = server_of(request), principal_of(request), request.path_params
    server.service.agent(principal, path["agent"])
    await server.service.session(principal, path["agent"], path["session"])
    since = request.headers.get("last-event-id") or request.query_params.get("since") or "0.0"
    return EventStream(_session_frames(request, EventPlace.parse(since)))


async def _session_frames(request: Request, since: EventPlace) -> AsyncGenerator[list[bytes], None]:
    server, principal, path = server_of(request), principal_of(request), request.path_params
    following = server.hub.follow_session(
        principal.tenant, path["agent"], path["session"], since=since, is_visible=lambda turn: server.service.is_visible(principal, turn)
    )
    async for turn, events in following:
        if turn is not None and not events:
            yield [frame(turn_shape(server, turn).model_dump(mode="json"), event="status")]
        else:
            position = 0 if turn is None else turn.position
            yield [frame(event, event="event", id_=EventPlace(position, event["metadata"]["sequence"])) for event in events]


async def list_workers(request: Request) -> Response:
    """Return the processes that run turns of the caller's tenant at the moment, and this one if it runs turns."""
    server = server_of(request)
    running = await server.service.find(principal_of(request), statuses=("running",), page=Page(limit=_MOST_TURNS))
    own = server.interlock.turns.worker.name
    owners = [turn.owner for turn in running if turn.owner is not None]
    names = dict.fromkeys([own, *owners] if server.concurrency else owners)
    now = await server.interlock.turns.store.now()
    workers = [worker_shape(name, [turn for turn in running if turn.owner == name], now=now, is_this=name == own) for name in names]
    return Json(shapes.WorkerList(workers=workers))


_WAIT = Parameter(name="wait", description="how many seconds to wait for the turn, at most 60", type="number")
_LIMIT = Parameter(name="limit", description="how many to return, at most 200", type="integer")
_BEFORE = Parameter(name="before", description="`next` of the page before")
_LAST = Parameter(name="Last-Event-ID", description="the id of the last event that was received", where="header")
_KEY = Parameter(name="Idempotency-Key", description="the same key and body return the same turn", where="header")
_AFTER = Parameter(name="after", description="events after this number", type="integer")
_AGENT = Parameter(name="agent", description="of this agent")
_SESSION = Parameter(name="session", description="of this session")
_STATUS = Parameter(name="status", description=f"{', '.join(_STATUSES)}, or open")
_SINCE = Parameter(name="since", description="as Last-Event-ID")


def routes(_: Server) -> list[ServerRoute]:
    """Return the routes of the REST API."""
    turn, turns = shapes.TurnShape, shapes.TurnList

    def route(method: str, path: str, handler: Any, summary: str, shape: Any, *parameters: Parameter, **more: Any) -> ServerRoute:
        access = more.pop("access", Access.AUTHENTICATED)
        responses = {200: shape, **more.pop("also", {})}
        return ServerRoute(
            method, path, handler, access=access, operation=Operation(summary=summary, parameters=parameters, responses=responses, **more)
        )

    either, ndjson = {202: turn}, "application/x-ndjson"
    return [
        route("GET", "/api/agents", list_agents, "The agents", shapes.AgentList),
        route("GET", "/api/agents/{agent}", get_agent, "An agent with its graphs and contracts", shapes.Agent),
        route("GET", "/api/sessions", list_sessions, "Sessions", shapes.SessionList, _AGENT, _LIMIT),
        route("GET", "/api/sessions/{agent}/{session}", get_session, "A session with its state", shapes.SessionShape),
        route("GET", "/api/sessions/{agent}/{session}/turns", session_turns, "The turns of a session", turns, _LIMIT, _BEFORE),
        route("GET", "/api/sessions/{agent}/{session}/events", session_events, "Follow a session", str, _SINCE, _LAST,
              media_type="text/event-stream"),
        route("POST", "/api/turns", submit_turn, "Submit a turn", turn, _WAIT, _KEY, body=shapes.SubmitBody, also=either),
        route("GET", "/api/turns", list_turns, "Turns", turns, _AGENT, _SESSION, _STATUS, _LIMIT, _BEFORE),
        route("GET", "/api/turns/{turn}", get_turn, "A turn", turn, _WAIT),
        route("POST", "/api/turns/{turn}/cancel", cancel_turn, "Cancel a turn", turn, also=either),
        route("POST", "/api/turns/{turn}/answer", answer_turn, "Answer a question", turn, _WAIT, body=shapes.AnswerBody, also=either),
        route("GET", "/api/turns/{turn}/events", turn_events, "The events of a turn", shapes.EventPage, _AFTER, _LAST, events=True),
        route("GET", "/api/turns/{turn}/steps", turn_steps, "The steps of a turn", shapes.StepList),
        route("GET", "/api/turns/{turn}/record", turn_record, "The record of a turn", str, access=Access.OPERATOR, media_type=ndjson),
        route("POST", "/api/turns/{turn}/replay", replay_turn, "Replay a turn", shapes.ReplayResult, access=Access.OPERATOR),
        route("GET", "/api/waiting", list_waiting, "Turns that wait for a person", turns),
        route("GET", "/api/workers", list_workers, "Workers", shapes.WorkerList, access=Access.OPERATOR),
    ]  # fmt: skip
