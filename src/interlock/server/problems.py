"""Errors as `application/problem+json` (RFC 9457), with Interlock's codes, and the errors of turns.

They name no path, address, setting or command of the server. Who operates it finds these with `interlock turns show`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast

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
    TurnError,
    TurnUnknown,
    TurnWaiting,
    create_error,
)
from interlock.reply import Fault
from interlock.runtime.events import Event
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

__all__ = ["MEDIA_TYPE", "Problem", "fault_message", "problem_of", "public_event", "status_of", "turn_error"]

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
_PRIVATE = re.compile(r"(?:^|[\s'\"(=:])/\w|\s--?\w|Run: |[A-Za-z]:\\\\|\.py\b|\.db\b|://|INTERLOCK_[A-Z]|'[\w.-]+:\d+'")
"""What a message for the command line may have, and a client must not see: paths, options, commands, URLs, addresses, settings."""
_OPERATORS = (StoreError, SettingsInvalid, ExtraMissing)
"""Errors whose messages are about the server's own machine."""


def status_of(error: InterlockError) -> int:
    """Return the HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _detail(error: InterlockError) -> str:
    """Return the message of an error, or the description of its class where the message is for the command line."""
    if status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, Overloaded):
        return _description(error)
    return _public_message(error)


def _description(error: InterlockError) -> str:
    return (type(error).__doc__ or "").partition("\n")[0]


def _public_message(error: InterlockError) -> str:
    message = error.message.partition(" Fix: ")[0]
    return _description(error) if isinstance(error, _OPERATORS) or _PRIVATE.search(message) else message


def turn_error(code: str, message: str) -> InterlockError:
    """Return the error that a turn ended with, as a client may see it."""
    error = create_error(code, message)
    if error is None:
        # The code is an agent's own.
        error = TurnError(message)
        error.code = code  # pyright: ignore[reportAttributeAccessIssue] - of this one error
    InterlockError.__init__(error, _public_message(error))
    return error


def fault_message(fault: Fault | None) -> str:
    """Return the message of a turn's error as a client may see it."""
    return "" if fault is None else turn_error(fault.code, fault.message).message


def public_event(event: Event) -> Event:
    """Return an event with its error, or that of the turn that it ends, as a client may see it."""
    data = event["data"]
    output = data.get("output")
    if "error" in data:
        return cast("Event", {**event, "data": {**data, "error": _public_fault(data["error"])}})
    if not event["parent_ids"] and isinstance(output, Mapping) and cast("Mapping[str, Any]", output).get("error") is not None:
        ended = cast("Mapping[str, Any]", output)
        return cast("Event", {**event, "data": {**data, "output": {**ended, "error": _public_fault(ended["error"])}}})
    return event


def _public_fault(fault: Any) -> Any:
    return {**fault, "message": turn_error(fault["code"], fault["message"]).message}


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
