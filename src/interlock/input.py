"""What may come in: text that is text, of a size that can be handled, for a session that can be named."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from interlock.errors import InputEmpty, InputEncoding, InputSchema, InputTooLarge

__all__ = ["MAX_DEPTH", "MAX_PARTS", "check_characters", "check_session", "check_sink", "check_size", "check_text"]

MAX_DEPTH = 100
"""How deep values may be nested in each other."""

MAX_PARTS = 250_000
"""How many values the input may consist of: looking at them takes time, during which nothing else runs."""

_PLAIN = frozenset({int, float, bool, type(None)})
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_text(text: str, *, max_bytes: int) -> str:
    """Refuse input that is empty, too large or not text; it is never repaired."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
        raise InputSchema(f"The input is a '{type(text).__name__}': pass text.")
    check_characters(text, max_bytes=max_bytes)
    if not text or text.isspace():
        raise InputEmpty
    return text


def check_characters(text: str, *, max_bytes: int) -> None:
    """Refuse text that is too large or that no store can keep."""
    if len(text) > max_bytes:
        raise InputTooLarge(f"The input is over {max_bytes:,} bytes.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InputEncoding(f"The input is not valid Unicode: a lone surrogate at position {error.start}.") from error
    if size > max_bytes:
        raise InputTooLarge(f"The input is over {max_bytes:,} bytes.")
    if "\0" in text:
        raise InputEncoding(f"The input has a NUL character at position {text.index(chr(0))}.")


def check_size(given: Mapping[str, Any], *, max_bytes: int) -> None:
    """Refuse input whose texts are too large together, that has too many parts, or that is nested too deep, as what contains itself is."""
    left, parts_left = max_bytes, MAX_PARTS
    waiting: list[tuple[int, Any]] = [(1, one) for one in given.values()]
    while waiting:
        depth, one = waiting.pop()
        if isinstance(one, str):
            left -= len(one.encode("utf-8", "surrogatepass"))
        elif isinstance(one, bytes):
            left -= len(one)
        elif parts := _parts(one):
            if depth > MAX_DEPTH:
                raise InputTooLarge(f"The input is nested more than {MAX_DEPTH} levels deep, or contains itself.")
            left -= len(parts)
            parts_left -= len(parts)
            waiting += [(depth + 1, part) for part in parts if type(part) not in _PLAIN]
        if left < 0:
            raise InputTooLarge(f"The input is over {max_bytes:,} bytes.")
        if parts_left < 0:
            raise InputTooLarge(f"The input has over {MAX_PARTS:,} parts.")


def _parts(value: Any) -> list[Any]:
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Iterable[Any]", value))
    if isinstance(value, Mapping):
        return [part for pair in cast("Mapping[Any, Any]", value).items() for part in pair]
    if isinstance(value, BaseModel):
        return [*vars(value).values(), value.__pydantic_extra__]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return []


def check_sink(sink: object) -> None:
    """Refuse to tell events to what cannot be called."""
    if sink is not None and not callable(sink):
        raise InputSchema(f"'on_event' is a '{type(sink).__name__}', which cannot be called with an event.")


def check_session(session: str) -> str:
    """Refuse a session id that is not a plain name."""
    if not isinstance(session, str) or not _SESSION.fullmatch(session):  # pyright: ignore[reportUnnecessaryIsInstance] - likewise
        raise InputSchema("A session id is 1 to 64 letters, digits, '_' and '-'.")
    return session
