"""Input validation: text, fields, session ids and listeners as a caller passes them. Invalid input is refused, never repaired."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from interlock.errors import InputEmpty, InputEncoding, InputSchema, InputTooLarge

__all__ = [
    "MAX_DEPTH",
    "MAX_PARTS",
    "MAX_PRINCIPAL",
    "check_characters",
    "check_id",
    "check_listener",
    "check_session",
    "check_size",
    "check_text",
]

MAX_DEPTH = 100
"""How deep the values of an input may be nested."""

MAX_PARTS = 250_000
"""How many values an input may have. Validation runs in the event loop, so its time has to be bounded."""

MAX_PRINCIPAL = 1024
"""Characters of the id of a caller, which may be the subject of a token with its tenant."""

_SCALARS = frozenset({int, float, bool, type(None)})
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ID = re.compile(r"[\x21-\x7e]+")


def check_text(text: str, *, max_bytes: int) -> str:
    """Return the text. Raises InputEmpty, InputTooLarge, InputEncoding or InputSchema where it is no valid input."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise InputSchema(f"The input is a '{type(text).__name__}': pass text.")
    check_characters(text, max_bytes=max_bytes)
    if not text or text.isspace():
        raise InputEmpty
    return text


def check_characters(text: str, *, max_bytes: int) -> None:
    """Refuse text that is too large, is not valid Unicode, or has a NUL character, which stores do not accept."""
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
    """Refuse fields that are too large together, have too many values, or are nested too deep, as a value that contains itself is."""
    bytes_left, parts_left = max_bytes, MAX_PARTS
    pending: list[tuple[int, Any]] = [(1, value) for value in given.values()]
    while pending:
        depth, value = pending.pop()
        if isinstance(value, str):
            bytes_left -= len(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, bytes):
            bytes_left -= len(value)
        elif parts := _parts(value):
            if depth > MAX_DEPTH:
                raise InputTooLarge(f"The input is nested more than {MAX_DEPTH} levels deep, or contains itself.")
            bytes_left -= len(parts)
            parts_left -= len(parts)
            pending += [(depth + 1, part) for part in parts if type(part) not in _SCALARS]
        if bytes_left < 0:
            raise InputTooLarge(f"The input is over {max_bytes:,} bytes.")
        if parts_left < 0:
            raise InputTooLarge(f"The input has over {MAX_PARTS:,} parts.")


def _parts(value: Any) -> list[Any]:
    """Return the values inside a container, a mapping, a pydantic model or a dataclass."""
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Iterable[Any]", value))
    if isinstance(value, Mapping):
        return [part for pair in cast("Mapping[Any, Any]", value).items() for part in pair]
    if isinstance(value, BaseModel):
        return [*vars(value).values(), value.__pydantic_extra__]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return []


def check_listener(listener: object) -> None:
    """Refuse a listener that is not callable."""
    if listener is not None and not callable(listener):
        raise InputSchema(f"'on_event' is a '{type(listener).__name__}', which cannot be called with an event.")


def check_id(id_: str, kind: str, *, most: int = 128) -> str:
    """Return the id of a turn or a principal. Raises InputSchema where it is not printable ASCII without spaces, or too long."""
    is_text = isinstance(id_, str)  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
    if not is_text or len(id_) > most or not _ID.fullmatch(id_):
        raise InputSchema(f"The id of a {kind} is 1 to {most} printable ASCII characters without spaces.")
    return id_


def check_session(session: str) -> str:
    """Return the session id. Raises InputSchema where it is not a plain name."""
    if not isinstance(session, str) or not _SESSION.fullmatch(session):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        raise InputSchema("A session id is 1 to 64 letters, digits, '_' and '-'.")
    return session
