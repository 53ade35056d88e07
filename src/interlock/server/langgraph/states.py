"""The states of a thread: a checkpoint before every step of its turns and one after each turn, all projected from stored events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import InputSchema
from interlock.runtime.turns import StoredTurn
from interlock.server.auth import Principal
from interlock.server.langgraph.bodies import CheckpointBody, HistoryBody, read_shape
from interlock.server.langgraph.sessions import Sessions, ThreadView
from interlock.server.langgraph.stream import Projector, Snapshot, Subject
from interlock.server.problems import public_event
from interlock.server.projections import time_text
from interlock.server.request_errors import NotFound
from interlock.server.routing import Json, principal_of, read_number
from interlock.stores.threads import Thread, contains

__all__ = ["StateRoutes", "head_of"]


async def _snapshots_of(sessions: Sessions, principal: Principal, turn: StoredTurn) -> tuple[Subject, list[Snapshot]]:
    """Return the checkpoints of a turn, oldest first."""
    projector = Projector(await sessions.subject(principal, turn))
    async for event in sessions.server.interlock.turns.stored_events(turn.turn):
        projector.project(public_event(event))
    return projector.subject, projector.snapshots


def _checkpoint(thread: str, id_: str | None) -> dict[str, Any] | None:
    return None if id_ is None else {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": id_, "checkpoint_map": {}}


def _state(subject: Subject, snapshot: Snapshot) -> dict[str, Any]:
    task = {
        "id": snapshot.task or "",
        "error": snapshot.error,
        "interrupts": snapshot.interrupts,
        "checkpoint": None,
        "state": None,
        "result": None,
    }
    return {
        "values": snapshot.values,
        "next": snapshot.next,
        "tasks": [{**task, "name": name} for name in snapshot.next],
        "metadata": {"source": "loop", "step": snapshot.step, "parents": {}, **subject.metadata},
        "created_at": subject.created,
        "checkpoint": _checkpoint(subject.thread, snapshot.id),
        "parent_checkpoint": _checkpoint(subject.thread, snapshot.parent),
        "interrupts": snapshot.interrupts,
    }


def _empty(thread: Thread) -> dict[str, Any]:
    found: dict[str, Any] = {"values": {}, "next": [], "tasks": [], "metadata": {}, "interrupts": []}
    return found | {"created_at": time_text(thread.created), "checkpoint": _checkpoint(thread.id, ""), "parent_checkpoint": None}


async def _history(sessions: Sessions, principal: Principal, view: ThreadView) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the states of a thread, newest first."""
    for turn in view.turns:
        subject, snapshots = await _snapshots_of(sessions, principal, turn)
        for snapshot in reversed(snapshots):
            yield _state(subject, snapshot)


async def head_of(sessions: Sessions, principal: Principal, view: ThreadView) -> dict[str, Any] | None:
    """Return the newest state of a thread."""
    async for state in _history(sessions, principal, view):
        return state
    return None


class StateRoutes:
    """The handlers of the routes below `/threads/{thread}/state` and `/threads/{thread}/history`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def get(self, request: Request) -> Response:
        """Return the newest state."""
        view = await self._view(request)
        return Json(await head_of(self._sessions, principal_of(request), view) or _empty(view.thread))

    async def get_at(self, request: Request) -> Response:
        """Return the state at a checkpoint."""
        return await self._at(request, request.path_params["checkpoint"])

    async def post_checkpoint(self, request: Request) -> Response:
        """Return the state at a checkpoint that is named in the body."""
        given = (await read_shape(request, CheckpointBody)).checkpoint
        if given.get("checkpoint_ns"):
            raise InputSchema("'checkpoint.checkpoint_ns' is refused: there are no checkpoints of graphs inside the graph.")
        id_ = given.get("checkpoint_id")
        return await self.get(request) if id_ is None else await self._at(request, str(id_))

    async def update(self, request: Request) -> Response:
        """Refuse to change the state."""
        await self._view(request)
        raise InputSchema("The state of a thread is not changed by a client: only an agent's own nodes write it, by their contracts.")

    async def history(self, request: Request) -> Response:
        """Return states, newest first."""
        if request.method == "GET":
            limit = max(1, int(read_number(request, "limit", 10, most=1000)))
            body = HistoryBody(limit=limit, before=request.query_params.get("before"))
        else:
            body = await read_shape(request, HistoryBody)
        before = body.before
        if isinstance(before, dict):
            before = cast("str | None", before.get("checkpoint_id") or (before.get("configurable") or {}).get("checkpoint_id"))
        found: list[dict[str, Any]] = []
        view, is_past = await self._view(request), before is None
        async for state in _history(self._sessions, principal_of(request), view):
            if is_past and contains(state["metadata"], body.metadata or {}):
                found.append(state)
            is_past = is_past or state["checkpoint"]["checkpoint_id"] == before
            if len(found) >= body.limit:
                break
        return Json(found)

    async def _at(self, request: Request, id_: str) -> Response:
        view, position = await self._view(request), id_.partition(".")[0]
        turn = next((turn for turn in view.turns if str(turn.position) == position), None)
        if turn is not None:
            subject, snapshots = await _snapshots_of(self._sessions, principal_of(request), turn)
            found = next((snapshot for snapshot in snapshots if snapshot.id == id_), None)
            if found is not None:
                return Json(_state(subject, found))
        raise NotFound(f"Thread '{view.thread.id}' has no checkpoint '{id_[:80]}'.")

    async def _view(self, request: Request) -> ThreadView:
        principal = principal_of(request)
        thread = await self._sessions.get(principal, request.path_params["thread"])
        return await self._sessions.view(principal, thread)
