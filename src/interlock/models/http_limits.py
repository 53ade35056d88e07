"""An HTTP client for one server that limits the size of responses."""

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
    """Create a client with size limits that uses the environment's proxy and follows no redirects.

    Connections are not reused: one that the server has just closed would fail a call, which is not retried, and so would one
    that belongs to an event loop that has ended.
    """
    inner = httpx.AsyncHTTPTransport(proxy=_proxy(base_url), limits=httpx.Limits(max_keepalive_connections=0))
    return httpx.AsyncClient(
        transport=_BoundedTransport(inner, max_body_bytes),
        timeout=timeout_s,
        follow_redirects=False,
        headers={"accept-encoding": "identity"},  # a small compressed body can expand to a large one
    )


def _proxy(base_url: str) -> str | None:
    """Return the environment's proxy for a URL, but none for a server on this machine."""
    url = urlsplit(base_url)
    host = url.hostname or ""
    if _is_local(host) or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(url.scheme) or proxies.get("all")


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _BoundedTransport(httpx.AsyncBaseTransport):
    """Limits the bodies of responses while they are read."""

    def __init__(self, inner: httpx.AsyncBaseTransport, max_body_bytes: int) -> None:
        self._inner = inner
        self._max_body_bytes = max_body_bytes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise ModelOutputInvalid("The model's server sent a compressed response, which was not requested.")
        assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 - an async transport returns nothing else
        if not response.is_success:
            response.stream = _TruncatedBody(response.stream)
        elif _is_event_stream(request):
            response.stream = _BoundedEvents(response.stream, self._max_body_bytes)
        else:
            response.stream = _BoundedBody(response.stream, self._max_body_bytes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_event_stream(request: httpx.Request) -> bool:
    """Return whether the client will read the response event by event. The response's content type is not trusted."""
    is_json = request.headers.get("content-type") == "application/json"  # an upload is not, and its content may be a stream
    return is_json and b"stream" in request.content and json.loads(request.content).get("stream") is True


class _BoundedBody(httpx.AsyncByteStream):
    """Raises ModelOutputInvalid as soon as the body exceeds the limit."""

    def __init__(self, body: httpx.AsyncByteStream, max_bytes: int) -> None:
        self._body = body
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        unbroken, tail = 0, b""
        async for chunk in self._body:
            unbroken, tail = self._count(unbroken, tail, chunk)
            if unbroken > self._max_bytes:
                raise ModelOutputInvalid(f"The model's server sent more than {self._max_bytes:,} bytes.")
            yield chunk

    def _count(self, unbroken: int, tail: bytes, chunk: bytes) -> tuple[int, bytes]:
        """Count all bytes: the whole body is buffered."""
        return unbroken + len(chunk), tail

    async def aclose(self) -> None:
        await self._body.aclose()


class _BoundedEvents(_BoundedBody):
    """Raises ModelOutputInvalid as soon as one event exceeds the limit: only one event is buffered at a time."""

    def _count(self, unbroken: int, tail: bytes, chunk: bytes) -> tuple[int, bytes]:
        """Count the bytes since the last empty line, which may start in the previous chunk."""
        seen = tail + chunk
        end = max(seen.rfind(empty) for empty in _EMPTY_LINES)
        return (unbroken + len(chunk) if end < 0 else len(seen) - end), seen[-3:]


class _TruncatedBody(httpx.AsyncByteStream):
    """Cuts the body of an error response without an error, because its status matters more."""

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
