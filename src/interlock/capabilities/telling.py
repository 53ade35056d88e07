"""What an adapter tells while a call is under way: the beginning of an answer, ahead of the whole."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["hearing", "is_heard", "tell"]

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("interlock_listener", default=None)


def is_heard() -> bool:
    """Tell whether anybody listens, so that it is worth while to ask for an answer in pieces."""
    return _listener.get() is not None


def tell(text: str) -> None:
    """Pass on a piece of an answer. It only shows: what counts is what the call returns."""
    listener = _listener.get()
    if listener is not None:
        listener(text)


@contextmanager
def hearing(listener: Callable[[str], None]) -> Generator[None]:
    """Listen while a call is under way."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
