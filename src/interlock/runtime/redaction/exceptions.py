"""What an exception tells: its own text, and that of everything it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.errors import InterlockError
from interlock.runtime.redaction import Redactor

__all__ = ["said", "tells", "without_secrets"]


def said(error: BaseException) -> str:
    """Return the text of an exception, also of one that cannot say what it is."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception may do anything
        return "it cannot be told"


def tells(redactor: Redactor, error: BaseException) -> bool:
    """Tell whether an exception, or anything that a traceback would show with it, has a secret in it."""
    return any(redactor.text(text) != text for one in _all(error) for text in _texts(one))


def without_secrets(redactor: Redactor, error: InterlockError) -> InterlockError:
    """Make an error say nothing secret, and come from nothing."""
    error.args = (redactor.text(said(error)),)
    error.__cause__ = error.__context__ = None
    error.__dict__.pop("__notes__", None)
    return error


def _texts(error: BaseException) -> Iterator[str]:
    yield said(error)
    yield from getattr(error, "__notes__", ())
    try:
        yield repr(error.args)
    except Exception:  # noqa: BLE001 - an argument may do anything
        return


def _all(error: BaseException) -> Iterator[BaseException]:
    """Find an exception and all that it comes from, each once."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inside: Sequence[BaseException] = getattr(one, "exceptions", ())  # of a group
        waiting += [other for other in (one.__cause__, one.__context__, *inside) if other is not None]
