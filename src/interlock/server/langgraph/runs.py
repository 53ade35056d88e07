"""The routes of runs: create, stream, wait, join, list, cancel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import quote, urlencode

from pydantic_core import PydanticSerializationError, to_json
from starlette.requests import Request
from starlette.responses import Response

from interlock.dispatch.embedded import result_of
from interlock.errors import InputSchema, InterlockError
from interlock.runtime.turns import OPEN, Page, StoredTurn, TurnStatus
from interlock.server.auth import Principal
from interlock.server.events import HEARTBEAT_S, EventStream, frame
from interlock.server.langgraph.assistants import Assistant
from interlock.server.langgraph.bodies import CancelBody, RunBody, modes_of, read_shape
from interlock.server.langgraph.messages import ai_message, reply_id, reply_text
from interlock.server.langgraph.sessions import Sessions
from interlock.server.langgraph.stream import LAST_PART, FrameId, Projector, frames_of
from interlock.server.langgraph.submission import NewRun, create_run
from interlock.server.problems import fault_message
from interlock.server.projections import time_text
from interlock.server.routing import Json, principal_of, read_number
from interlock.server.service import rests

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["RunRoutes"]

_STATUSES: Mapping[TurnStatus, str] = {
    "queued": "pending",
    "ready": "pending",
    "running": "running",
    "waiting": "interrupted",
    "success": "success",
    "error": "error",
    "cancelled": "interrupted",
}
_CANCEL_S = 60.0


class StreamCut(Exception):
    """Ends a stream without its last bytes, because the server stops."""


class RunRoutes:
    """The handlers of the routes of runs."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._server = sessions.server

    async def stream(self, request: Request) -> Response:
        """Create a run and stream it."""
        run = await self._create(request)
        with_inner = bool(run.body.stream_subgraphs)
        frames = self._frames(
            principal_of(request),
            run.turn,
            modes=run.modes,
            with_inner=with_inner,
            after=run.after,
            is_new=True,
        )
        leave = self._leave(principal_of(request), run.turn) if run.body.on_disconnect == "cancel" else None
        query = urlencode([*(("stream_mode", mode) for mode in run.modes), *([("stream_subgraphs", "1")] if with_inner else [])])
        return EventStream(frames, headers=self._headers(run.turn, f"stream?{query}"), leave=leave)

    async def wait(self, request: Request) -> Response:
        """Create a run and return the values that it leaves."""
        run = await self._create(request)
        leave = self._leave(principal_of(request), run.turn) if run.body.on_disconnect == "cancel" else None
        return self._waiting(principal_of(request), run.turn, leave=leave)

    async def create(self, request: Request) -> Response:
        """Create a run in the background."""
        run = await self._create(request)
        shape = await self._shape(principal_of(request), run.turn, run.assistant)
        return Json(shape, headers=self._headers(run.turn, "join"))

    async def list(self, request: Request) -> Response:
        """Return the runs of a thread, newest first."""
        principal, query = principal_of(request), request.query_params
        thread = await self._sessions.get(principal, request.path_params["thread"])
        limit, offset = int(read_number(request, "limit", 10, most=1000)), int(read_number(request, "offset", 0, most=1e6))
        view = await self._sessions.view(principal, thread, turns=max(1, min(limit + offset, 1000)))
        if view.assistant is None:
            return Json([])
        wanted = query.get("status")
        shapes = [_run_shape(turn, view.assistant, view.notes.get(turn.turn, {})) for turn in view.turns]
        return Json([shape for shape in shapes if not wanted or shape["status"] == wanted][offset : offset + limit])

    async def get(self, request: Request) -> Response:
        """Return a run."""
        turn, assistant = await self._found(request)
        return Json(await self._shape(principal_of(request), turn, assistant))

    async def delete(self, request: Request) -> Response:
        """Refuse to delete a run."""
        await self._found(request)
        raise InputSchema("A run is not deleted: it is part of its thread's history. Cancel it with 'action=rollback' while it runs.")

    async def join(self, request: Request) -> Response:
        """Wait for a run; return the values that it leaves."""
        turn, _ = await self._found(request)
        leaves = request.query_params.get("cancel_on_disconnect", "") in {"1", "true"}
        principal = principal_of(request)
        return self._waiting(principal, turn, leave=self._leave(principal, turn) if leaves else None)

    async def join_stream(self, request: Request) -> Response:
        """Stream a run: all of it, or what comes after the frame that the client has."""
        turn, _ = await self._found(request)
        principal, query = principal_of(request), request.query_params
        after = FrameId.parse(request.headers.get("last-event-id") or query.get("last_event_id"))
        if after is not None and after.position != turn.position:
            after = None
        notes = await self._sessions.store.notes(principal.tenant, [turn.turn])
        given = [mode for value in query.getlist("stream_mode") for mode in value.split(",") if mode]
        modes = modes_of(given or notes.get(turn.turn, {}).get("modes"))
        frames = self._frames(
            principal,
            turn,
            modes=modes,
            with_inner=query.get("stream_subgraphs", "") in {"1", "true"},
            after=after,
            is_new=after is None,
        )
        leave = self._leave(principal, turn) if query.get("cancel_on_disconnect", "") in {"1", "true"} else None
        location = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        return EventStream(frames, headers={"location": location, "content-location": _path(turn)}, leave=leave)

    async def cancel(self, request: Request) -> Response:
        """Cancel a run."""
        turn, _ = await self._found(request)
        principal = principal_of(request)
        await self._cancel(principal, turn, action=_action(request))
        if request.query_params.get("wait", "") in {"1", "true"}:
            await self._server.hub.until_rest(turn.turn, timeout_s=_CANCEL_S)
            return Json({})
        return Json({}, 202)

    async def cancel_many(self, request: Request) -> Response:
        """Cancel runs of a thread, or all of a status."""
        body, principal, action = await read_shape(request, CancelBody), principal_of(request), _action(request)
        if (body.status is None) == (body.run_ids is None) or (body.run_ids is not None and body.thread_id is None):
            raise InputSchema("Name either a 'status', or a 'thread_id' with 'run_ids'.")
        if body.run_ids is not None:
            turns = [(await self._sessions.run(principal, str(body.thread_id), run))[0] for run in body.run_ids]
        else:
            wanted = {"pending": ("queued", "ready"), "running": ("running",), "all": ("queued", "ready", "running")}[str(body.status)]
            turns = await self._server.service.find(principal, statuses=wanted, page=Page(limit=1000))  # pyright: ignore[reportArgumentType]
        for turn in turns:
            await self._cancel(principal, turn, action=action)
        return Response(status_code=204)

    async def _cancel(self, principal: Principal, turn: StoredTurn, *, action: Literal["interrupt", "rollback"]) -> None:
        if turn.status in OPEN:
            await self._sessions.store.put_note(principal.tenant, turn.turn, {"cancel_reason": f"{action} by {principal.name}"})
            await self._server.service.cancel(principal, turn.turn, is_rollback=action == "rollback")

    async def _create(self, request: Request) -> NewRun:
        body = await read_shape(request, RunBody)
        run = await create_run(self._sessions, principal_of(request), request.path_params.get("thread"), body)
        request.state.turn, request.state.session = run.turn.turn, run.turn.session
        return run

    async def _found(self, request: Request) -> tuple[StoredTurn, Assistant]:
        path = request.path_params
        return await self._sessions.run(principal_of(request), path["thread"], path["run"])

    async def _shape(self, principal: Principal, turn: StoredTurn, assistant: Assistant) -> dict[str, Any]:
        notes = await self._sessions.store.notes(principal.tenant, [turn.turn])
        return _run_shape(turn, assistant, notes.get(turn.turn, {}))

    def _headers(self, turn: StoredTurn, rest: str) -> dict[str, str]:
        path = _path(turn)
        return {"location": f"{path}/{rest}", "content-location": path}

    async def _frames(
        self,
        principal: Principal,
        turn: StoredTurn,
        *,
        modes: tuple[str, ...],
        with_inner: bool,
        after: FrameId | None,
        is_new: bool,
    ) -> AsyncGenerator[list[bytes], None]:
        """Yield the frames of a run until it has ended or waits for a person. Where the server stops before that, the stream is cut."""
        position, number = turn.position, 0
        projector: Projector | None = None
        if is_new:
            yield [_frame({"run_id": turn.turn, "attempt": 1}, "metadata", after or FrameId(position))]
        async for events in self._server.hub.follow(turn.turn):
            if projector is None and events:
                projector = Projector(await self._sessions.subject(principal, turn))
            if projector is None or not events:
                yield []
                continue
            number = events[-1]["metadata"]["sequence"]
            found = ((event["metadata"]["sequence"], projector.project(event)) for event in events)
            sent = [
                _frame(one.data, one.event, id_)
                for id_, one in frames_of(found, position=position, modes=modes, with_inner=with_inner, after=after)
            ]
            if sent:
                yield sent
        ended = await self._server.interlock.turns.store.get(turn.turn)
        if ended is not None and not rests(ended):
            # A stream that is closed cleanly looks like the end of its run to clients, who ask for the run too late to know better.
            raise StreamCut
        yield self._last_frames(ended, FrameId(position, number, LAST_PART))

    def _last_frames(self, turn: StoredTurn | None, id_: FrameId) -> list[bytes]:
        error = None if turn is None or turn.status not in {"error", "cancelled"} else result_of(turn).error
        frames = [] if error is None else [_frame({"error": error.code, "message": fault_message(error)}, "error", id_)]
        return [*frames, _frame(None, "end", id_._replace(part=id_.part + 1))]

    def _waiting(self, principal: Principal, turn: StoredTurn, *, leave: Callable[[], Awaitable[None]] | None) -> Response:
        async def values() -> bytes | None:
            if not await self._server.hub.until_rest(turn.turn, timeout_s=HEARTBEAT_S):
                return None
            return _dump(await self._values(principal, turn.turn))

        return LateJson(values, self._server.hub.is_closing, leave=leave, headers=self._headers(turn, "join"))

    async def _values(self, principal: Principal, run: str) -> dict[str, Any]:
        """Return the values that a run left, with its question or its error."""
        turn = await self._server.service.get(principal, run)
        if turn.status in {"error", "cancelled"}:
            return {"__error__": {"error": turn.code or "error", "message": fault_message(result_of(turn).error)}}
        result, subject = result_of(turn), await self._sessions.subject(principal, turn)
        found = await self._sessions.interrupts(turn)
        is_over = turn.status == "success" and result.output is not None
        reply = [ai_message(reply_text(result.output), reply_id(run))] if is_over else []
        values = {**result.state, "messages": [*subject.messages, *reply], **({"__interrupt__": found} if found else {})}
        return cast("dict[str, Any]", self._server.interlock.redactor.data(values))

    def _leave(self, principal: Principal, turn: StoredTurn) -> Callable[[], Awaitable[None]]:
        async def leave() -> None:
            current = await self._server.interlock.turns.store.get(turn.turn)
            # A server that stops leaves the run to others, and its clients come back.
            if current is not None and not rests(current) and not self._server.hub.is_closing.is_set():
                await self._cancel(principal, current, action="interrupt")

        return leave


class LateJson(Response):
    """JSON that is not known yet. Spaces keep the connection open until it is; a server that stops cuts it, and the client joins again."""

    media_type = "application/json"

    def __init__(
        self,
        content: Callable[[], Awaitable[bytes | None]],
        is_closing: asyncio.Event,
        *,
        leave: Callable[[], Awaitable[None]] | None,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(headers=dict(headers))
        del self.headers["content-length"]
        self._content = content
        self._is_closing = is_closing
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Send the spaces, then the JSON."""
        leaving, sending = asyncio.create_task(_until_left(receive)), asyncio.create_task(self._send(send))
        await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
        has_left = not sending.done()
        for task in (leaving, sending):
            task.cancel()
        await asyncio.gather(leaving, sending, return_exceptions=True)
        if has_left and self._leave is not None:
            await self._leave()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        while True:
            try:
                content = await self._content()
            except InterlockError as error:
                content = _dump({"__error__": {"error": error.code, "message": type(error).__doc__}})
            if content is not None:
                await send({"type": "http.response.body", "body": content, "more_body": False})
                return
            if self._is_closing.is_set():
                return
            await send({"type": "http.response.body", "body": b" ", "more_body": True})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _run_shape(turn: StoredTurn, assistant: Assistant, note: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run_id": turn.turn,
        "thread_id": turn.session,
        "assistant_id": assistant.id,
        "created_at": time_text(turn.created),
        "updated_at": time_text(turn.ended or turn.started or turn.created),
        "status": _STATUSES[turn.status],
        "metadata": {**note.get("metadata", {}), "graph_id": assistant.name, "assistant_id": assistant.id},
        "kwargs": {},
        "multitask_strategy": turn.policy,
        "cancel_reason": note.get("cancel_reason") if turn.status == "cancelled" else None,
    }


def _path(turn: StoredTurn) -> str:
    return f"/threads/{quote(turn.session, safe='')}/runs/{quote(turn.turn, safe='')}"


def _action(request: Request) -> Literal["interrupt", "rollback"]:
    action = request.query_params.get("action", "interrupt")
    if action in {"interrupt", "rollback"}:
        return cast("Literal['interrupt', 'rollback']", action)
    raise InputSchema("'action' is 'interrupt' or 'rollback'.")


def _frame(data: Any, event: str, id_: FrameId) -> bytes:
    return frame(_dump(data), event=event, id_=id_)


def _dump(data: Any) -> bytes:
    try:
        return to_json(data, inf_nan_mode="null")
    except PydanticSerializationError:  # A lone surrogate, which json.dumps() escapes.
        return json.dumps(data).encode()
