"""The page's own sign-in: a key becomes a session cookie, because a browser's EventSource cannot send headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from interlock.server.auth import COOKIE, LOCAL, Principal
from interlock.server.routing import Access, Json, Operation, ServerRoute, principal_of, read_body, server_of
from interlock.server.shapes import Me

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["routes"]


class SignIn(BaseModel):
    """An API key or a token."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    key: str


def _me(principal: Principal) -> Me:
    return Me(name=principal.name, tenant=principal.tenant, roles=sorted(principal.roles), is_local=principal.is_local)


async def sign_in(request: Request) -> Response:
    """Exchange a key for a cookie."""
    server = server_of(request)
    server.check_origin(request)
    given = (await read_body(request, SignIn)).key
    principal = LOCAL if await server.auth.is_open() else await server.auth.by_credential(given)
    response = Json(_me(principal))
    if not principal.is_local:
        value, seconds = server.auth.cookie(principal)
        response.set_cookie(
            COOKIE, value, max_age=seconds, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict"
        )
    return response


async def sign_out(request: Request) -> Response:
    """Delete the cookie."""
    server_of(request).check_origin(request)
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict")
    return response


async def me(request: Request) -> Response:
    """Return who calls."""
    return Json(_me(principal_of(request)))


def routes(_: Server) -> list[ServerRoute]:
    """Return the routes of the page's session."""
    signing = Operation(summary="Exchange an API key for a session cookie", body=SignIn, responses={200: Me})
    leaving = Operation(summary="Delete the session cookie", responses={204: None})
    return [
        ServerRoute("POST", "/session", sign_in, access=Access.OPEN, operation=signing),
        ServerRoute("DELETE", "/session", sign_out, access=Access.OPEN, operation=leaving),
        ServerRoute("GET", "/api/me", me, operation=Operation(summary="Who calls", responses={200: Me})),
    ]
