"""The studio: a page at / for people, made of static files of this package. It uses the REST API like any other client."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Encoded:
    """The content of a file in one encoding. Each has an ETag of its own, because their bytes differ."""

    content: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class _File:
    media_type: str
    plain: _Encoded
    compressed: _Encoded


def _read() -> dict[str, _File]:
    """Return the files of the page, which are compressed once."""
    found: dict[str, _File] = {}
    for file in files("interlock.server").joinpath("page").iterdir():
        kind = _TYPES.get(file.name.rpartition(".")[2])
        if kind is not None:
            content = file.read_bytes()
            version = hashlib.sha256(content).hexdigest()[:20]
            compressed = gzip.compress(content, mtime=0)
            found[file.name] = _File(kind, _encoded(content, version), _encoded(compressed, f"{version}-gzip", encoding="gzip"))
    return found


def _encoded(content: bytes, version: str, encoding: str | None = None) -> _Encoded:
    headers = {"etag": f'"{version}"', "cache-control": "no-cache", "vary": "Accept-Encoding", "content-security-policy": POLICY}
    return _Encoded(content, headers if encoding is None else {**headers, "content-encoding": encoding})


def _response(request: Request, file: _File) -> Response:
    """Return a file in the encoding that the client accepts, or 304 where the client has that already."""
    chosen = file.compressed if "gzip" in request.headers.get("accept-encoding", "") else file.plain
    known = {tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")}
    if chosen.headers["etag"] in known:
        headers = {name: value for name, value in chosen.headers.items() if name != "content-encoding"}
        return Response(status_code=304, headers=headers)
    return Response(chosen.content, media_type=file.media_type, headers=chosen.headers)


def routes(_: Server) -> list[ServerRoute]:
    """Return the routes of the page. Its files say nothing about agents or turns, so every caller may read them."""
    page = _read()

    def respond(request: Request, name: str) -> Response:
        if name not in page:
            raise NotFound
        return _response(request, page[name])

    async def index(request: Request) -> Response:
        return respond(request, "index.html")

    async def file(request: Request) -> Response:
        return respond(request, request.path_params["name"])

    return [
        ServerRoute("GET", "/", index, access=Access.OPEN),
        ServerRoute("GET", "/page/{name}", file, access=Access.OPEN),
    ]
