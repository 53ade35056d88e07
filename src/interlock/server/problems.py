"""Errors as `application/problem+json` (RFC 9457), with Interlock's codes. They name no path of the server and no command."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response

from interlock.errors import (
    AgentUnknown,
    ExtraMissing,
    InputError,
    InputTooLarge,
    InterlockError,
    KeyReused,
    NothingWaits,
    RecordInvalid,
    RoleUnknown,
    SessionBusy,
    SettingsInvalid,
    StateIncompatible,
    StoreError,
    TurnCancelled,
    TurnUnknown,
    TurnWaiting,
)
from interlock.server.request_errors import (
    HostRefused,
    MethodRefused,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    OriginRefused,
    Overloaded,
    RequestError,
    SessionExists,
    SessionUnknown,
    TooManyRequests,
)

__all__ = ["MEDIA_TYPE", "Problem", "problem_of", "status_of"]

MEDIA_TYPE = "application/problem+json"

_STATUS: tuple[tuple[type[InterlockError], int], ...] = (
    (NotAuthenticated, 401),
    (NotAllowed, 403),
    (OriginRefused, 403),
    (NotFound, 404),
    (SessionUnknown, 404),
    (AgentUnknown, 404),
    (RoleUnknown, 404),
    (TurnUnknown, 404),
    (MethodRefused, 405),
    (TurnWaiting, 409),
    (NothingWaits, 409),
    (TurnCancelled, 409),
    (RecordInvalid, 409),
    (SessionBusy, 409),
    (SessionExists, 409),
    (StateIncompatible, 409),
    (InputTooLarge, 413),
    (HostRefused, 421),
    (KeyReused, 422),
    (TooManyRequests, 429),
    (Overloaded, 503),
    (StoreError, 503),
    (ExtraMissing, 501),
    (SettingsInvalid, 500),
    (RequestError, 400),
    (InputError, 422),
)
"""The first class that an error belongs to decides its status."""

_RETRY_S = 2
_PRIVATE = re.compile(r"(?:^|[\s'\"(=:])/\w|\s--?\w|Run: |[A-Za-z]:\\\\|\.py\b|\.db\b|://")
"""What a message for the command line may have, and a client must not see: paths, options, commands, URLs."""


def status_of(error: InterlockError) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _detail(error: InterlockError) -> str:
    """Return the message of an error, or the description of its class where the message is for the command line."""
    message = error.message.partition(" Fix: ")[0]
    status = status_of(error)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, Overloaded):
        return (type(error).__doc__ or "").partition("\n")[0]
    return (type(error).__doc__ or "").partition("\n")[0] if _PRIVATE.search(message) else message


def problem_of(error: InterlockError) -> dict[str, Any]:
    """Return an error as problem details."""
    status = status_of(error)
    return {
        "type": f"urn:interlock:error:{error.code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _detail(error),
        "code": error.code,
    }


class Problem(Response):
    """The response for an error."""

    media_type = MEDIA_TYPE

    def __init__(self, error: InterlockError, headers: dict[str, str] | None = None) -> None:
        content = problem_of(error)
        headers = dict(headers or {})
        after = getattr(error, "retry_after", None) or (_RETRY_S if content["status"] == HTTPStatus.SERVICE_UNAVAILABLE else None)
        if after is not None:
            headers["retry-after"] = str(after)
        if content["status"] == HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        if content["status"] == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            # The rest of the body is not read.
            headers["connection"] = "close"
        super().__init__(to_json(content), status_code=content["status"], headers=headers)
