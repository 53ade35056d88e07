"""Secrets in exceptions: in their messages, and in everything that a traceback would show with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.errors import InterlockError
from interlock.runtime.redaction.redactor import Redactor

__all__ = ["contains_secret", "message_of", "redact_error"]


def message_of(error: BaseException) -> str:
    """Return the message of an exception, also of one whose `__str__` fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - `__str__` of another library's class may raise anything
        return "its message cannot be shown"


def contains_secret(redactor: Redactor, error: BaseException) -> bool:
    """Return whether an exception, or anything that a traceback would show with it, contains a secret."""
    return any(redactor.text(text) != text for one in _chain(error) for text in _texts(one))


def redact_error(redactor: Redactor, error: InterlockError) -> InterlockError:
    """Remove secrets from an error's message, and drop its cause, its context and its notes."""
    error.args = (redactor.text(message_of(error)),)
    error.__cause__ = error.__context__ = None
    error.__dict__.pop("__notes__", None)
    return error


def _texts(error: BaseException) -> Iterator[str]:
    yield message_of(error)
    yield from getattr(error, "__notes__", ())
    try:
        yield repr(error.args)
    except Exception:  # noqa: BLE001 - `__repr__` of an argument may raise anything
        return


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Find an exception, its causes, its contexts and the members of its groups, each once."""
    seen: set[int] = set()
    pending = [error]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        members: Sequence[BaseException] = getattr(one, "exceptions", ())
        pending += [other for other in (one.__cause__, one.__context__, *members) if other is not None]
