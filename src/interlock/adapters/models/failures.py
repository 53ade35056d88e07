"""What goes wrong with a model's server, as one of our errors that names the cause and what to do about it.

The cause is found by the HTTP status together with words of the server's answer, else by the class of the exception. What
the server said is only searched and never shown: it may repeat the request or the key.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from interlock.errors import ModelCutOff, ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable

__all__ = ["translated", "translating"]


@dataclass(frozen=True)
class _Cause:
    """A row of the table: the statuses, words of which the server's answer must have one, and what a person is told."""

    statuses: range | frozenset[int]
    words: str
    kind: type[ModelError]
    says: str


def _of(*statuses: int) -> frozenset[int]:
    return frozenset(statuses)


_CLIENT = range(400, 500)
_KEY = "The model's server does not accept the key. Check INTERLOCK_MODEL_API_KEY."
_UNREACHABLE = (
    "The model's server cannot be reached, or broke off. Check that it runs and that INTERLOCK_MODEL_BASE_URL is its address; "
    "where that is not set, check the network."
)
_CREDIT = "The account at the model's provider has no credit or quota left. Add credit there, or set the key of another account."
_CONTEXT = "The request is longer than the model's context. Ask for less, begin a new session, or set INTERLOCK_MODEL to a larger model."
_FILTER = "The model's server filtered this: its content rules do not allow the request or the answer."
_SCHEMA = "The model's server does not take the schema of a structured answer. Set INTERLOCK_MODEL to a model with structured output."

_CAUSES: tuple[_Cause, ...] = (
    _Cause(_CLIENT, r"insufficient_quota|exceeded your current quota|credit balance|billing|payment", ModelRefused, _CREDIT),
    _Cause(_of(402), "", ModelRefused, _CREDIT),
    _Cause(_CLIENT, r"context_length|context length|context window|context size|prompt is too long|input token", ModelRefused, _CONTEXT),
    _Cause(_of(413), "", ModelRefused, _CONTEXT),
    _Cause(_CLIENT, r"content_filter|content_policy|content management policy|responsible ?ai", ModelRefused, _FILTER),
    _Cause(_CLIENT, r"invalid_api_key|incorrect api key|api key not valid|api_key_invalid|authentication_error", ModelRefused, _KEY),
    _Cause(_of(401), "", ModelRefused, _KEY),
    _Cause(_of(403), "", ModelRefused, "The key may not use this model or this server. Check INTERLOCK_MODEL_API_KEY and INTERLOCK_MODEL."),
    _Cause(_CLIENT, r"model_not_found|does not exist|unknown model|not_found_error|model .{0,80}not found", ModelRefused,
           "The model's server does not know the model. Check the name in INTERLOCK_MODEL."),
    _Cause(_of(404), "", ModelRefused,
           "There is no such model at the server, or no server at the address. Check INTERLOCK_MODEL and INTERLOCK_MODEL_BASE_URL."),
    _Cause(_of(400, 422), r"invalid schema|response_format|json_schema|structured output", ModelRefused, _SCHEMA),
    _Cause(_of(400, 422), "", ModelRefused,
           "The model's server does not take the request: it may be too long for the model, or ask for what the model cannot do."),
    _Cause(_of(408, 504), "", ModelTimeout, "The model did not answer its server in time. Try again."),
    _Cause(_of(429), "", ModelUnavailable,
           "The model's server has too many requests for the moment (rate limit). Wait a little, then try again."),
    _Cause(_of(503, 529), "", ModelUnavailable, "The model's server is overloaded, or is starting. Wait a little, then try again."),
    _Cause(range(500, 600), "", ModelUnavailable, "The model's server failed. Try again; if it keeps failing, look at the server."),
    _Cause(_CLIENT, "", ModelRefused, "The model's server does not take the request."),
    _Cause(range(300, 400), "", ModelRefused,
           "The model's server sends elsewhere, which is not followed. Check INTERLOCK_MODEL_BASE_URL."),
)  # fmt: skip
"""The first row that fits."""

# By name, because every provider's package has classes of its own for the same few things, and most are not installed.
_CLASSES: tuple[tuple[frozenset[str], type[ModelError], str | None], ...] = (
    (
        frozenset({"TimeoutError", "TimeoutException", "APITimeoutError", "Timeout", "ReadTimeoutError", "ConnectTimeoutError"}),
        ModelTimeout,
        "The model did not answer in time. Try again, or raise INTERLOCK_MAX_CALL_SECONDS.",
    ),
    (frozenset({"ContentFilterFinishReasonError"}), ModelRefused, _FILTER),
    (frozenset({"NotImplementedError"}), ModelRefused, "The model cannot do what is asked of it, such as calling tools."),
    (frozenset({"LengthFinishReasonError"}), ModelCutOff, None),
    (frozenset({"APIResponseValidationError", "DecodingError"}), ModelOutputInvalid, "The model's answer cannot be read."),
    (frozenset({"APIConnectionError", "APIError", "TransportError", "OSError", "EndOfStream"}), ModelUnavailable, _UNREACHABLE),
    (
        # A Warning: pydantic's, of a wrong shape, where warnings are errors.
        frozenset({"ValueError", "TypeError", "LookupError", "AttributeError", "RecursionError", "Warning"}),
        ModelOutputInvalid,
        "The model's server answered with something that is not a reply. Check INTERLOCK_MODEL_BASE_URL: it must speak OpenAI's protocol.",
    ),
)
_MOST_SEARCHED = 4096


@contextlib.contextmanager
def translating() -> Generator[None, None, None]:
    """Raise whatever is raised inside as a ModelError. Cancelling is not an Exception and passes."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise translated(error) from error


def translated(error: Exception) -> ModelError:
    """Say what happened without what the model said, the request or the key: the exception's own text may hold any of them."""
    links = list(_chain(error))
    for link in links:
        if isinstance(link, ModelError):  # raised below a client which wrapped it
            return link
    for link in links:
        made = _by_status(link) or _by_class(link)
        if made is not None:
            return made
    return ModelUnavailable("The model could not be asked: the provider's client failed in an unexpected way.")


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
    said = f"{getattr(error, 'body', None)} {error}"[:_MOST_SEARCHED]
    cause = next(row for row in _CAUSES if status in row.statuses and re.search(row.words, said, re.IGNORECASE))
    return cause.kind(f"{cause.says} (status {status})")


def _status(error: BaseException) -> int | None:
    """Find the status: of the response, or as the code of an error that came in the body of a good one."""
    response: Any = getattr(error, "response", None)
    bodies: list[Any] = [getattr(error, "body", None), *error.args[:1]]
    codes = [cast("Mapping[str, Any]", body).get("code") for body in bodies if isinstance(body, Mapping)]
    for found in (getattr(error, "status_code", None), getattr(response, "status_code", None), getattr(error, "code", None), *codes):
        if isinstance(found, int) and 300 <= found <= 599:  # noqa: PLR2004 - what HTTP calls a failure
            return int(found)
    return None


def _by_class(error: BaseException) -> ModelError | None:
    names = {base.__name__ for base in type(error).__mro__}
    return next((kind(says) for known, kind, says in _CLASSES if names & known), None)
