"""Values as plain JSON data, and text as plain characters, for people and for listeners."""

from __future__ import annotations

import unicodedata
from typing import Any

from pydantic_core import to_jsonable_python

__all__ = ["harmless", "plain"]


def plain(value: Any) -> Any:
    """Turn a value into plain JSON data; a number that JSON does not have becomes null, and what cannot be written its `repr`."""
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=repr)
    except ValueError:  # a pydantic model of the user's own with bytes that are no text, or nested too deep
        return repr(value)


def harmless(text: str) -> str:
    """Make text harmless for a terminal: no control characters but line breaks and tabs, no direction overrides."""
    return "".join(c if c in "\n\t" or unicodedata.category(c) not in {"Cc", "Cf"} else "\N{REPLACEMENT CHARACTER}" for c in text)
