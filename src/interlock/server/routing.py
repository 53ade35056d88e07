"""Routes that say what they need. Around every handler: authentication, roles, the Origin of pages, limits of the body, typed errors."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from interlock.contract.schema import error_summary
from interlock.errors import InputTooLarge, InterlockError
from interlock.server.auth import OPERATOR, Principal
from interlock.server.problems import Problem
from interlock.server.request_errors import NotAllowed, RequestError, TooManyRequests

if TYPE_CHECKING:
    from starlette.types import Message, Receive

    from interlock.server.app import Server

__all__ = ["Access", "Json", "Operation", "Parameter", "RateLimit", "ServerRoute", "principal_of", "read_body", "read_number", "server_of"]

Handler = Callable[[Request], Awaitable[Response]]
B = TypeVar("B", bound=BaseModel)
_SAFE = ("GET", "HEAD", "OPTIONS")
_MAX_DEPTH = 200


class Access(Enum):
    """What a caller needs for a route."""

    OPEN = "open"
    """Nothing: probes of a load balancer, the description of the API."""
    AUTHENTICATED = "authenticated"
    OPERATOR = "operator"
    """The role `operator`."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter in the query or a header."""

    name: str
    description: str
    where: str = "query"
    type: str = "string"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The description of a route for OpenAPI. A route without one is not part of the published API."""

    summary: str
    body: type[BaseModel] | None = None
    parameters: Sequence[Parameter] = ()
    responses: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """The type of the JSON body by status; None where there is no body."""
    media_type: str = "application/json"
    """Of the successful response."""
    events: bool = False
    """Whether the response may be server-sent events."""


class ServerRoute(Route):
    """A route with one method. `on_error` makes the response for an error, where a protocol has a form of its own."""

    def __init__(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        access: Access = Access.AUTHENTICATED,
        operation: Operation | None = None,
        on_error: Callable[[InterlockError], Response] = Problem,
    ) -> None:
        guarded = _guarded(handler, access, method, on_error)
        super().__init__(path, guarded, methods=[method], include_in_schema=False, name=f"{method} {path}")
        self.method = method
        self.access = access
        self.operation = operation


def server_of(request: Request) -> Server:
    """Return the server that a request is for."""
    return cast("Server", request.app.state.server)


def principal_of(request: Request) -> Principal:
    """Return who calls."""
    return cast("Principal", request.state.principal)


def _guarded(handler: Handler, access: Access, method: str, on_error: Callable[[InterlockError], Response]) -> Handler:
    async def guarded(request: Request) -> Response:
        try:
            return await checked(request)
        except InterlockError as error:
            return on_error(error)

    async def checked(request: Request) -> Response:
        server = server_of(request)
        limit = server.settings.server_body_bytes
        if access is not Access.OPEN:
            principal, by_cookie = await server.auth.authenticate(request)
            request.state.principal = principal
            if by_cookie and method not in _SAFE:
                server.check_origin(request)
            if access is Access.OPERATOR and not principal.has(OPERATOR):
                raise NotAllowed
            if principal.key is not None and principal.key.body_bytes is not None:
                limit = min(limit, principal.key.body_bytes)
        return await handler(_limited(request, limit))

    return guarded


def _limited(request: Request, limit: int) -> Request:
    """Return the request with a body that is refused as soon as it is over the limit."""
    length = request.headers.get("content-length")
    if length is not None and (not length.isdigit() or int(length) > limit):
        raise _too_large(limit)
    return Request(request.scope, _counted(request.receive, limit))


def _counted(receive: Receive, limit: int) -> Receive:
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise _too_large(limit)
        return message

    return counted


def _too_large(limit: int) -> InputTooLarge:
    return InputTooLarge(f"The body of the request is over {limit:,} bytes.")


async def read_body(request: Request, shape: type[B]) -> B:
    """Return the JSON body of a request as a model. Raises RequestError."""
    body = await request.body()
    try:
        return shape.model_validate(from_json(body or b"{}"), strict=True)
    except ValidationError as error:
        problem = error_summary(error)
    except (ValueError, RecursionError):
        problem = "it is not JSON"
    raise RequestError(f"The body of the request cannot be used: {problem}.")


def read_number(request: Request, name: str, default: float, *, most: float) -> float:
    """Return a number from 0 to `most` of the query. Raises RequestError."""
    given = request.query_params.get(name)
    if given is None:
        return default
    try:
        number = float(given) if len(given) < 20 else math.nan  # noqa: PLR2004 - longer ones are no sensible number
    except ValueError:
        number = math.nan
    if not 0 <= number <= most:
        raise RequestError(f"'{name}' is a number from 0 to {most:g}.")
    return number


class Json(Response):
    """JSON data. Numbers that JSON does not have become null."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        if isinstance(content, BaseModel):
            content = content.model_dump(mode="json", by_alias=True)
        super().__init__(_dump(content), status_code=status_code, headers=dict(headers or {}))


_ANY: TypeAdapter[Any] = TypeAdapter(Any)


def _dump(content: Any) -> bytes:
    try:
        return to_json(content, inf_nan_mode="null")
    except ValueError:  # A lone surrogate, which escapes keep.
        return _ANY.dump_json(content, ensure_ascii=True)


class RateLimit:
    """Counts calls by caller: at most `rate` in a minute, as a bucket that fills again steadily."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str, rate: int) -> None:
        """Count a call. Raises TooManyRequests."""
        now = self._now()
        left, at = self._buckets.get(caller, (float(rate), now))
        left = min(float(rate), left + (now - at) * rate / 60)
        if left < 1:
            self._buckets[caller] = (left, now)
            raise TooManyRequests("The key has reached its limit of turns a minute.", retry_after=math.ceil((1 - left) * 60 / rate))
        self._buckets[caller] = (left - 1, now)
