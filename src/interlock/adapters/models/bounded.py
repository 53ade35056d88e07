"""An HTTP client for one server that takes no more of an answer than it may."""

from __future__ import annotations

import ipaddress
import json
import urllib.request
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx

from interlock.errors import ModelOutputInvalid

__all__ = ["bounded_client"]

_MAX_ERROR_BYTES = 64 * 1024
_EMPTY_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")


def bounded_client(base_url: str, *, max_body_bytes: int, timeout_s: float) -> httpx.AsyncClient:
    """Make a client for a server: bounded, through the environment's proxy if there is one, not redirected to elsewhere.

    Connections are not kept: one that the server has just closed would fail a call, which is not made twice, and one
    that belongs to an event loop that has ended would fail too.
    """
    inner = httpx.AsyncHTTPTransport(proxy=_proxy(base_url), limits=httpx.Limits(max_keepalive_connections=0))
    return httpx.AsyncClient(
        transport=_BoundedTransport(inner, max_body_bytes),
        timeout=timeout_s,
        follow_redirects=False,
        headers={"accept-encoding": "identity"},  # a small body can unpack to a large one
    )


def _proxy(base_url: str) -> str | None:
    """Choose the environment's proxy, as other programs do, but never for a server on this machine."""
    url = urlsplit(base_url)
    host = url.hostname or ""
    if _is_here(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(url.scheme) or proxies.get("all")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _BoundedTransport(httpx.AsyncBaseTransport):
    """Bounds the bodies of responses before anybody keeps them."""

    def __init__(self, inner: httpx.AsyncBaseTransport, max_body_bytes: int) -> None:
        self._inner = inner
        self._max_body_bytes = max_body_bytes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise ModelOutputInvalid("The model's server answered in a packed form that was not asked for.")
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - an async transport gives nothing else
        if not response.is_success:
            response.stream = _CutBody(response.stream)
        elif _asks_for_events(request):
            response.stream = _BoundedEvents(response.stream, self._max_body_bytes)
        else:
            response.stream = _BoundedBody(response.stream, self._max_body_bytes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _asks_for_events(request: httpx.Request) -> bool:
    """Tell whether the answer will be read event by event. Its own word for that does not count: it may be a lie."""
    return b"stream" in request.content and json.loads(request.content).get("stream") is True


class _BoundedBody(httpx.AsyncByteStream):
    """Fails as soon as there is too much."""

    def __init__(self, body: httpx.AsyncByteStream, most: int) -> None:
        self._body = body
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        unbroken, tail = 0, b""
        async for chunk in self._body:
            unbroken, tail = self._count(unbroken, tail, chunk)
            if unbroken > self._most:
                raise ModelOutputInvalid(f"The model's server sent more than {self._most:,} bytes.")
            yield chunk

    def _count(self, unbroken: int, tail: bytes, chunk: bytes) -> tuple[int, bytes]:
        """Count what must be kept before it can be used: everything."""
        return unbroken + len(chunk), tail

    async def aclose(self) -> None:
        await self._body.aclose()


class _BoundedEvents(_BoundedBody):
    """Fails as soon as there is too much of one event: events are read one by one, so only one is kept."""

    def _count(self, unbroken: int, tail: bytes, chunk: bytes) -> tuple[int, bytes]:
        """Count what came since the last empty line, which may be half in the chunk before."""
        seen = tail + chunk
        end = max(seen.rfind(empty) for empty in _EMPTY_LINES)
        return (unbroken + len(chunk) if end < 0 else len(seen) - end), seen[-3:]


class _CutBody(httpx.AsyncByteStream):
    """Ends early without a failure: of an error, the status is what counts."""

    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = _MAX_ERROR_BYTES
        async for chunk in self._body:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._body.aclose()
