"""What goes wrong with a model's server, as one of our errors: by HTTP status, else by class of exception."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping
from typing import Any, cast

from interlock.errors import ModelError, ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable

__all__ = ["translated", "translating"]

_KEY = "Check INTERLOCK_MODEL_API_KEY."
_PLACE = "Check INTERLOCK_MODEL and INTERLOCK_MODEL_BASE_URL."

_STATUSES: Mapping[int, tuple[type[ModelError], str]] = {
    400: (ModelRefused, "The request may be too long for the model, or ask for what the model cannot do."),
    401: (ModelRefused, _KEY),
    403: (ModelRefused, _KEY),
    404: (ModelRefused, _PLACE),
    408: (ModelTimeout, ""),
    413: (ModelRefused, "The request is too long."),
    422: (ModelRefused, "The request may ask for what the model cannot do."),
    429: (ModelUnavailable, "It has too many requests, or the account has no credit left."),
}
_RANGES: tuple[tuple[int, type[ModelError], str], ...] = (
    (500, ModelUnavailable, ""),
    (400, ModelRefused, ""),
    (300, ModelRefused, f"It sends elsewhere, which is not followed. {_PLACE}"),
)

# By name, because every provider's package has classes of its own for the same few things, and most are not installed.
_CLASSES: tuple[tuple[frozenset[str], type[ModelError], str], ...] = (
    (
        frozenset({"TimeoutError", "TimeoutException", "APITimeoutError", "Timeout", "ReadTimeoutError", "ConnectTimeoutError"}),
        ModelTimeout,
        "The model did not answer in time",
    ),
    (frozenset({"ContentFilterFinishReasonError"}), ModelRefused, "The model's server filtered the answer"),
    (frozenset({"NotImplementedError"}), ModelRefused, "The model cannot do what is asked of it"),
    (
        frozenset({"LengthFinishReasonError", "APIResponseValidationError", "DecodingError"}),
        ModelOutputInvalid,
        "The model's answer cannot be used",
    ),
    (
        frozenset({"APIConnectionError", "APIError", "TransportError", "OSError", "EndOfStream"}),
        ModelUnavailable,
        "The model's server cannot be reached or broke off",
    ),
    (
        # A Warning: pydantic's, of a wrong shape, where warnings are errors.
        frozenset({"ValueError", "TypeError", "LookupError", "AttributeError", "RecursionError", "Warning"}),
        ModelOutputInvalid,
        "The model's server answered with something that is not a reply",
    ),
)


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
    return ModelUnavailable(f"The model could not be asked ({type(error).__name__}).")


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
    for least, kind, fix in _RANGES:
        if status >= least:
            kind, fix = _STATUSES.get(status, (kind, fix))  # noqa: PLW2901 - the range is what holds where the table is silent
            return kind(f"The model's server answered with status {status}. {fix}".rstrip())
    return None


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
    for known, kind, says in _CLASSES:
        if names & known:
            return kind(f"{says} ({type(error).__name__}).")
    return None
