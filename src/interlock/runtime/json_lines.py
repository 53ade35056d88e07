"""JSON of the journal, of events and of record files. Half of a surrogate pair, which a model or a tool may return, is kept as it is."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

__all__ = ["decode_json", "encode_json"]


def encode_json(data: Any, *, is_ascii: bool = False) -> bytes:
    """Return data as JSON. Numbers that are infinite or not a number are written as constants."""
    try:
        return to_json(data, ensure_ascii=is_ascii, inf_nan_mode="constants")
    except PydanticSerializationError:  # Half of a surrogate pair, which json.dumps() escapes.
        return json.dumps(data).encode()


def decode_json(written: bytes) -> Any:
    """Return what was written as JSON. Raises ValueError where it is damaged."""
    try:
        return from_json(written)
    except ValueError:  # Perhaps half of a surrogate pair, which json.loads() accepts.
        return json.loads(written)
