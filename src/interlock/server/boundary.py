"""The outermost layer: which hosts and pages may call, headers for browsers, the access log, and errors that tell nothing."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from interlock.errors import InterlockError, Internal
from interlock.server.problems import Problem
from interlock.server.request_errors import HostRefused, OriginRefused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from interlock.server.app import Server

__all__ = ["Boundary", "host_of"]

LOGGER = logging.getLogger("interlock.server")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})

_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
"""A response that has one of these itself, such as a page with its own policy, keeps it."""
_EXPOSED = "location, content-location, retry-after, x-interlock-turn, x-interlock-session"
_METHODS = "GET, POST, PUT, PATCH, DELETE"


def host_of(value: str) -> str:
    """Return a Host header without its port, in lower case."""
    host = value.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


class Boundary:
    """Surrounds the application."""

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        is_allowed = origin is not None and origin in self._server.settings.server_origins

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(MutableHeaders(scope=message), origin if is_allowed else None)
            await send(message)

        try:
            self._check_host(headers)
            if scope["method"] == "OPTIONS" and origin is not None and "access-control-request-method" in headers:
                await self._preflight(is_allowed=is_allowed)(scope, receive, sending)
            else:
                await self._app(scope, receive, sending)
        except InterlockError as error:
            if not status:
                await Problem(error)(scope, receive, sending)
        except Exception:
            # Nothing of an unexpected error reaches a client; the log has it.
            LOGGER.exception("a request failed", extra={"fields": {"method": scope["method"]}})
            if not status:
                await Problem(Internal())(scope, receive, sending)
        finally:
            self._log(scope, status, time.perf_counter() - started)

    def _check_host(self, headers: Headers) -> None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or host_of(hosts[0]) not in self._server.hosts:
            raise HostRefused

    def _preflight(self, *, is_allowed: bool) -> Response:
        if not is_allowed:
            return Problem(OriginRefused())
        allowed = {"access-control-allow-methods": _METHODS, "access-control-max-age": "600"}
        allowed["access-control-allow-headers"] = (
            "authorization, content-type, idempotency-key, last-event-id, x-api-key, x-interlock-session"
        )
        return Response(status_code=204, headers=allowed)

    def _add_headers(self, headers: MutableHeaders, origin: str | None) -> None:
        for name, value in _HEADERS.items():
            headers.setdefault(name, value)
        headers.setdefault("cache-control", "no-store")
        if self._server.settings.server_origins:
            headers.add_vary_header("Origin")
        if origin is not None:
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = _EXPOSED

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        self._server.metrics.requests[scope["method"] if scope["method"] in _METHODS else "other", status] += 1
        if not LOGGER.isEnabledFor(logging.INFO):
            return
        # Without the query, which a client may have put a secret into.
        state, parameters = scope.get("state", {}), scope.get("path_params", {})
        fields = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(seconds * 1000, 1)}
        # LangGraph's names for a turn and a session are `run` and `thread`.
        for name, other in (("turn", "run"), ("session", "thread")):
            fields[name] = state.get(name) or parameters.get(name) or parameters.get(other)
        principal = state.get("principal")
        fields["principal"] = None if principal is None else principal.name
        LOGGER.info("request", extra={"fields": fields})


def same_origin(origin: str, host: str, scheme: str) -> bool:
    """Return whether a page of `origin` comes from the server itself."""
    parts = urlsplit(origin)
    return parts.scheme in {scheme, "https"} and parts.netloc.lower() == host.strip().lower()
