"""The studio: a page at / for people, made of static files of this package. It uses the REST API like any other client."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from interlock.server.request_errors import NotFound
from interlock.server.routing import Access, ServerRoute

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["POLICY", "routes"]

POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self'; "
    "connect-src 'self'; "
    "base-uri 'none'; "
    "form-action 'none'; "
    "frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
"""The page runs its own scripts only, and asks its own server only. No text can become an element, because no sink accepts text."""

_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def _read() -> dict[str, tuple[bytes, str, str]]:
    """Return the content, the media type and the version of each file."""
    found: dict[str, tuple[bytes, str, str]] = {}
    for file in files("interlock.server").joinpath("page").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            found[file.name] = (content, kind, f'"{hashlib.sha256(content).hexdigest()[:20]}"')
    return found


def routes(_: Server) -> list[ServerRoute]:
    """Return the routes of the page. Its files say nothing about agents or turns, so every caller may read them."""
    page = _read()

    def respond(request: Request, name: str) -> Response:
        if name not in page:
            raise NotFound
        content, kind, version = page[name]
        headers = {"etag": version, "cache-control": "no-cache", "content-security-policy": POLICY}
        if request.headers.get("if-none-match") == version:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    async def index(request: Request) -> Response:
        return respond(request, "index.html")

    async def file(request: Request) -> Response:
        return respond(request, request.path_params["name"])

    return [
        ServerRoute("GET", "/", index, access=Access.OPEN),
        ServerRoute("GET", "/page/{name}", file, access=Access.OPEN),
    ]
