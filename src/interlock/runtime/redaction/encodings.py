"""What a secret value looks like where it gets into other texts."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import quote

from pydantic import BaseModel

from interlock.contract.codec import to_json

__all__ = ["forms", "text_of"]

_SHORTEST = 4  # characters: what is shorter is hidden in its field, but not looked for in other texts


def forms(secret: Any) -> set[str]:
    """Write a value in the ways in which it gets into other texts: as it is, and inside JSON, a repr, base64 or a URL."""
    return {form for text in _texts(secret) for form in _written(text) if len(form) >= _SHORTEST}


def text_of(value: Any) -> str:
    """Return the texts in a value, and nothing else, one after the other."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    return "".join(text_of(part) for part in _parts(value) or ())


def _texts(value: Any) -> Iterable[str]:
    """Find every text in a value, and everything else as it is written. The names of a record's fields are not part of it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes | bytearray):
        yield from _texts_of_bytes(bytes(value))
    elif value is None or isinstance(value, bool):
        return
    elif (parts := _parts(value)) is not None:
        for part in parts:
            yield from _texts(part)
    else:
        written = to_json(value)
        yield from {str(value), written if isinstance(written, str) else json.dumps(written)}


def _parts(value: Any) -> Iterable[Any] | None:
    """Return what a value is made of; None where it is of one piece."""
    if hasattr(value, "get_secret_value"):
        return [value.get_secret_value()]
    if isinstance(value, BaseModel) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        return vars(value).values() if hasattr(value, "__dict__") else dataclasses.asdict(cast("Any", value)).values()
    if isinstance(value, Mapping):
        return itertools.chain.from_iterable(cast("Mapping[Any, Any]", value).items())
    return cast("Iterable[Any]", value) if isinstance(value, list | tuple | set | frozenset) else None


def _texts_of_bytes(value: bytes) -> Iterable[str]:
    yield base64.b64encode(value).decode()
    yield repr(value)[2:-1]
    try:
        yield value.decode()
    except UnicodeDecodeError:
        yield value.decode("latin-1")


def _written(text: str) -> set[str]:
    if len(text) < _SHORTEST:
        return set()
    raw = text.encode("utf-8", "surrogatepass")
    return {
        text,
        text.strip(),
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        repr(text)[1:-1].replace("'", "\\'"),
        base64.b64encode(raw).decode(),
        quote(raw),
    }
