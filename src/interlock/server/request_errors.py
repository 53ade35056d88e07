"""Requests that the server refuses. The statuses are in `problems`.

    InputError
      RequestError             request_invalid
        NotAuthenticated         not_authenticated
        NotAllowed               not_allowed
        HostRefused              host_refused
        OriginRefused            origin_refused
        NotFound                 not_found
        MethodRefused            method_refused
        SessionUnknown           session_unknown
        SessionExists            session_exists
        TooManyRequests          too_many_requests
        Overloaded               overloaded

The errors of everything else are in `interlock.errors`.
"""

from __future__ import annotations

from interlock.errors import InputError

__all__ = [
    "HostRefused",
    "MethodRefused",
    "NotAllowed",
    "NotAuthenticated",
    "NotFound",
    "OriginRefused",
    "Overloaded",
    "RequestError",
    "SessionExists",
    "SessionUnknown",
    "TooManyRequests",
]


class RequestError(InputError, code="request_invalid"):
    """The request cannot be understood."""

    retry_after: int | None = None
    """After how many seconds the same request may succeed, where that is known."""


class NotAuthenticated(RequestError, code="not_authenticated"):
    """The request has no valid API key, token or session cookie."""


class NotAllowed(RequestError, code="not_allowed"):
    """The caller does not have the role that this needs."""


class HostRefused(RequestError, code="host_refused"):
    """The request names a host that this server does not serve."""


class OriginRefused(RequestError, code="origin_refused"):
    """The request comes from a page of another site."""


class NotFound(RequestError, code="not_found"):
    """There is nothing at this address."""


class MethodRefused(RequestError, code="method_refused"):
    """The address does not have that method."""


class SessionUnknown(RequestError, code="session_unknown"):
    """There is no such session."""


class SessionExists(RequestError, code="session_exists"):
    """There is such a session already."""


class TooManyRequests(RequestError, code="too_many_requests", transient=True):
    """The caller has reached one of its limits."""

    def __init__(self, message: str | None = None, *, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Overloaded(RequestError, code="overloaded", transient=True):
    """The server has as many open turns as it may have, or is about to stop."""

    retry_after = 2
