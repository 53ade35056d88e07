"""The routes of threads: create, get, search, change, delete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from interlock.errors import InputSchema
from interlock.runtime.turns import OPEN
from interlock.server.langgraph.bodies import SearchBody, ThreadBody, ThreadPatch, check_metadata, read_shape
from interlock.server.langgraph.sessions import Sessions, ThreadView
from interlock.server.projections import time_text
from interlock.server.routing import Json, principal_of
from interlock.stores.threads import Thread, contains, touched

__all__ = ["ThreadRoutes"]

_SORTS = ("created_at", "updated_at", "thread_id", "status", "state_updated_at")


class ThreadRoutes:
    """The handlers of the routes below `/threads`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def create(self, request: Request) -> Response:
        """Create a thread."""
        body = await read_shape(request, ThreadBody)
        if body.supersteps:
            raise InputSchema("'supersteps' is refused: only an agent's own nodes write its state, by their contracts.")
        if body.ttl is not None:
            raise InputSchema("'ttl' is refused: the server's operator decides how long turns are kept.")
        metadata, may_exist = check_metadata(body.metadata), body.if_exists == "do_nothing"
        thread = await self._sessions.create(principal_of(request), body.thread_id, metadata, may_exist=may_exist)
        return Json(await self._shape(request, thread))

    async def get(self, request: Request) -> Response:
        """Return a thread."""
        return Json(await self._shape(request, await self._found(request)))

    async def search(self, request: Request) -> Response:
        """Return threads."""
        body = await read_shape(request, SearchBody)
        if body.extract is not None:
            raise InputSchema("'extract' is refused: select 'values' instead.")
        if body.sort_by is not None and body.sort_by not in _SORTS:
            raise InputSchema(f"'sort_by' is one of {', '.join(_SORTS)}.")
        shapes = await self._selected(request, body)
        key = {"state_updated_at": "updated_at"}.get(body.sort_by or "", body.sort_by or "updated_at")
        shapes.sort(key=lambda shape: str(shape[key]), reverse=body.sort_order != "asc")
        page = shapes[body.offset : body.offset + body.limit]
        return Json([{name: one[name] for name in body.select if name in one} if body.select else one for one in page])

    async def count(self, request: Request) -> Response:
        """Return how many threads there are."""
        return Json(len(await self._selected(request, await read_shape(request, SearchBody))))

    async def change(self, request: Request) -> Response:
        """Add metadata to a thread."""
        thread = await self._found(request)
        body = await read_shape(request, ThreadPatch)
        if body.ttl is not None:
            raise InputSchema("'ttl' is refused: the server's operator decides how long turns are kept.")
        check_metadata(body.metadata)

        def patched(known: Thread) -> Thread:
            return touched(known, metadata=check_metadata({**known.metadata, **body.metadata}))

        changed = await self._sessions.store.change(principal_of(request).tenant, thread.id, patched)
        return Json(await self._shape(request, changed or thread))

    async def delete(self, request: Request) -> Response:
        """Delete a thread: cancel its open runs, and make it unknown to clients."""
        thread, principal = await self._found(request), principal_of(request)
        view = await self._sessions.view(principal, thread)
        for turn in view.turns:
            if turn.status in OPEN:
                await self._sessions.server.service.cancel(principal, turn.turn)
        await self._sessions.store.change(principal.tenant, thread.id, lambda known: replace(known, is_deleted=True, metadata={}))
        return Response(status_code=204)

    async def copy(self, request: Request) -> Response:
        """Refuse to copy a thread."""
        await self._found(request)
        raise InputSchema("A thread is not copied: its turns are a record, and what an agent keeps of a session is in its own stores.")

    async def _found(self, request: Request) -> Thread:
        return await self._sessions.get(principal_of(request), request.path_params["thread"])

    async def _selected(self, request: Request, body: SearchBody) -> list[dict[str, Any]]:
        shapes: list[dict[str, Any]] = []
        for thread in await self._sessions.visible(principal_of(request)):
            if body.ids is not None and thread.id not in body.ids:
                continue
            shape = await self._shape(request, thread)
            if (
                (body.status is None or shape["status"] == body.status)
                and contains(shape["metadata"], body.metadata or {})
                and contains(shape["values"] or {}, body.values or {})
            ):
                shapes.append(shape)
        return shapes

    async def _shape(self, request: Request, thread: Thread) -> dict[str, Any]:
        view = await self._sessions.view(principal_of(request), thread)
        return await self._view_shape(view)

    async def _view_shape(self, view: ThreadView) -> dict[str, Any]:
        thread, last = view.thread, view.last
        changed = thread.updated if last is None else max(thread.updated, last.ended or last.started or last.created)
        found = await self._sessions.interrupts(view.waiting)
        values = view.values(self._sessions.server)
        return {
            "thread_id": thread.id,
            "created_at": time_text(thread.created),
            "updated_at": time_text(changed),
            "state_updated_at": time_text(changed),
            "metadata": view.metadata,
            "status": view.status,
            "config": {},
            "values": values,
            "interrupts": {view.waiting.turn: found} if view.waiting is not None else {},
            "error": None,
        }
