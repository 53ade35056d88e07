"""What may come in: text that is text, of a size that can be handled, for a session that can be named."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from interlock.errors import InputEmpty, InputEncoding, InputSchema, InputTooLarge

__all__ = ["check_characters", "check_session", "check_size", "check_text"]

_SESSION = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_text(text: str, *, max_bytes: int) -> str:
    """Refuse input that is empty, too large or not text; it is never repaired."""
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
    """Refuse input whose texts are too large together, however deep they lie in it."""
    left = max_bytes
    waiting: list[Any] = list(given.values())
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            left -= len(one.encode("utf-8", "surrogatepass"))
        elif isinstance(one, bytes):
            left -= len(one)
        else:
            parts = _parts(one)
            left -= len(parts)  # also for what holds itself, which would never end
            waiting += parts
        if left < 0:
            raise InputTooLarge(f"The input is over {max_bytes:,} bytes.")


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [part for pair in cast("Mapping[Any, Any]", value).items() for part in pair]
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Iterable[Any]", value))
    if isinstance(value, BaseModel):
        return [*vars(value).values(), value.__pydantic_extra__]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    return []


def check_session(session: str) -> str:
    """Refuse a session id that is not a plain name."""
    if not _SESSION.fullmatch(session):
        raise InputSchema("A session id is 1 to 64 letters, digits, '_' and '-'.")
    return session
