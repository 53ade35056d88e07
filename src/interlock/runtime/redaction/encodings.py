"""The texts in which a secret value can occur: as it is, and inside JSON, a repr, base64 or a URL."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from interlock.contract.schema import to_json
from interlock.secrets import parts_of

__all__ = ["encodings", "text_content"]

_MIN_LENGTH = 4  # a shorter secret is hidden in its own field, but not searched for in other texts


def encodings(secret: Any) -> set[str]:
    """Return every text by which a value can be recognised inside another text."""
    return {encoded for text in _texts(secret) for encoded in _encodings_of(text) if len(encoded) >= _MIN_LENGTH}


def text_content(value: Any) -> str:
    """Return the concatenated texts inside a value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    return "".join(text_content(part) for part in _parts(value) or ())


def _texts(value: Any) -> Iterable[str]:
    """Find every text inside a value, and numbers and other scalars as they are written. Field names are not part of a secret."""
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
    """Return the values inside a container, or None for a scalar."""
    return [value.get_secret_value()] if hasattr(value, "get_secret_value") else parts_of(value)


def _texts_of_bytes(value: bytes) -> Iterable[str]:
    yield base64.b64encode(value).decode()
    yield repr(value)[2:-1]
    try:
        yield value.decode()
    except UnicodeDecodeError:
        yield value.decode("latin-1")


def _encodings_of(text: str) -> set[str]:
    if len(text) < _MIN_LENGTH:
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
