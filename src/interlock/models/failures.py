"""Translates errors of model providers into a ModelError that gives the cause and what to do about it.

The cause is found by the HTTP status together with words of the response, or else by the class of the exception. The response
is only searched and never shown, because it may repeat the request or the key.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from interlock.errors import ModelCutOff, ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable
from interlock.models.usage import cost_of_completion

__all__ = ["translated", "translating"]


@dataclass(frozen=True)
class _Cause:
    """A row of the table: HTTP statuses, a pattern for the response, the error and its message."""

    statuses: range | frozenset[int]
    words: str
    kind: type[ModelError]
    message: str


def _statuses(*statuses: int) -> frozenset[int]:
    return frozenset(statuses)


_CLIENT = range(400, 500)
_KEY = "The model's server does not accept the key. Check INTERLOCK_MODEL_API_KEY."
_UNREACHABLE = (
    "The model's server cannot be reached, or closed the connection. Check that it runs and that INTERLOCK_MODEL_BASE_URL is its "
    "address; if that is not set, check the network."
)
_CREDIT = "The account at the model's provider has no credit or quota left. Add credit there, or set the key of another account."
_CONTEXT = "The request is longer than the model's context. Shorten it, start a new session, or set INTERLOCK_MODEL to a larger model."
_FILTER = "The model's server filtered this: its content rules do not allow the request or the answer."
_SCHEMA = "The model's server rejects the schema of a structured answer. Set INTERLOCK_MODEL to a model with structured output."

_CAUSES: tuple[_Cause, ...] = (
    _Cause(_CLIENT, r"insufficient_quota|exceeded your current quota|credit balance|billing|payment", ModelRefused, _CREDIT),
    _Cause(_statuses(402), "", ModelRefused, _CREDIT),
    _Cause(_CLIENT, r"context_length|context length|context window|context size|prompt is too long|input token", ModelRefused, _CONTEXT),
    _Cause(_statuses(413), "", ModelRefused, _CONTEXT),
    _Cause(_CLIENT, r"content_filter|content_policy|content management policy|responsible ?ai", ModelRefused, _FILTER),
    _Cause(_CLIENT, r"invalid_api_key|incorrect api key|api key not valid|api_key_invalid|authentication_error", ModelRefused, _KEY),
    _Cause(_statuses(401), "", ModelRefused, _KEY),
    _Cause(_statuses(403), "", ModelRefused,
           "The key may not use this model or this server. Check INTERLOCK_MODEL_API_KEY and INTERLOCK_MODEL."),
    _Cause(_CLIENT, r"model_not_found|does not exist|unknown model|not_found_error|model .{0,80}not found", ModelRefused,
           "The model's server does not know the model. Check the name in INTERLOCK_MODEL."),
    _Cause(_statuses(404), "", ModelRefused,
           "The server does not have the model, or the address is wrong. Check INTERLOCK_MODEL and INTERLOCK_MODEL_BASE_URL."),
    _Cause(_statuses(400, 422), r"invalid schema|response_format|json_schema|structured output", ModelRefused, _SCHEMA),
    _Cause(_statuses(400, 422), "", ModelRefused,
           "The model's server rejects the request: it may be too long for the model, or need a feature that the model lacks."),
    _Cause(_statuses(408, 504), "", ModelTimeout, "The model did not answer its server in time. Try again."),
    _Cause(_statuses(429), "", ModelUnavailable,
           "The model's server has received too many requests (rate limit). Wait a little, then try again."),
    _Cause(_statuses(503, 529), "", ModelUnavailable, "The model's server is overloaded, or is starting. Wait a little, then try again."),
    _Cause(range(500, 600), "", ModelUnavailable, "The model's server failed. Try again; if it keeps failing, look at the server."),
    _Cause(_CLIENT, "", ModelRefused, "The model's server rejects the request."),
    _Cause(range(300, 400), "", ModelRefused,
           "The model's server answers with a redirect, which is not followed. Check INTERLOCK_MODEL_BASE_URL."),
)  # fmt: skip
"""The first matching row applies."""

# By name, because every provider's package has its own classes for the same few errors, and most are not installed.
_CLASSES: tuple[tuple[frozenset[str], type[ModelError], str | None], ...] = (
    (
        frozenset({"TimeoutError", "TimeoutException", "APITimeoutError", "Timeout", "ReadTimeoutError", "ConnectTimeoutError"}),
        ModelTimeout,
        "The model did not answer in time. Try again, or raise INTERLOCK_MAX_CALL_SECONDS.",
    ),
    (frozenset({"ContentFilterFinishReasonError"}), ModelRefused, _FILTER),
    (frozenset({"NotImplementedError"}), ModelRefused, "The model lacks a feature that the request needs, such as calling tools."),
    (frozenset({"LengthFinishReasonError"}), ModelCutOff, None),
    (frozenset({"APIResponseValidationError", "DecodingError"}), ModelOutputInvalid, "The model's answer cannot be read."),
    (frozenset({"APIConnectionError", "APIError", "TransportError", "OSError", "EndOfStream"}), ModelUnavailable, _UNREACHABLE),
    (
        # A Warning: pydantic's, about a wrong type, if warnings are errors.
        frozenset({"ValueError", "TypeError", "LookupError", "AttributeError", "RecursionError", "Warning"}),
        ModelOutputInvalid,
        "The model's server answered with something that is not a reply. Check INTERLOCK_MODEL_BASE_URL: it must speak OpenAI's protocol.",
    ),
)
_MAX_SEARCHED = 4096


@contextlib.contextmanager
def translating() -> Generator[None, None, None]:
    """Raise every exception of the block as a ModelError. Cancellation is not an Exception and passes."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise translated(error) from error


def translated(error: Exception) -> ModelError:
    """Return the ModelError for an exception. Its own text is left out: it may contain the answer, the request or the key."""
    links = list(_chain(error))
    for link in links:
        if isinstance(link, ModelError):  # raised inside a client that wrapped it
            return link
    for link in links:
        translation = _by_status(link) or _by_class(link)
        if translation is not None:
            translation.rejected = cost_of_completion(link)
            return translation
    return ModelUnavailable("The model could not be called: the provider's client failed in an unexpected way.")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        yield link
        seen.add(id(link))
        link = link.__cause__ or link.__context__


def _by_status(error: BaseException) -> ModelError | None:
    status = _status(error)
    if status is None:
        return None
    response = f"{getattr(error, 'body', None)} {error}"[:_MAX_SEARCHED]
    cause = next(row for row in _CAUSES if status in row.statuses and re.search(row.words, response, re.IGNORECASE))
    return cause.kind(f"{cause.message} (status {status})")


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of the response, or the error code in the body of a successful one."""
    response: Any = getattr(error, "response", None)
    bodies: list[Any] = [getattr(error, "body", None), *error.args[:1]]
    codes = [cast("Mapping[str, Any]", body).get("code") for body in bodies if isinstance(body, Mapping)]
    for found in (getattr(error, "status_code", None), getattr(response, "status_code", None), getattr(error, "code", None), *codes):
        if isinstance(found, int) and 300 <= found <= 599:  # noqa: PLR2004 - what HTTP calls a failure
            return int(found)
    return None


def _by_class(error: BaseException) -> ModelError | None:
    names = {base.__name__ for base in type(error).__mro__}
    return next((kind(message) for known, kind, message in _CLASSES if names & known), None)
