"""The key of a call: a hash of its arguments, the same for equal arguments in every process."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from interlock.contract.type_hints import format_type

__all__ = ["key_of"]

_encode_text = json.encoder.encode_basestring_ascii
"""What json.dumps() does with a str, at a tenth of the cost."""


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return a hash of a call's arguments: the same for equal arguments in every process."""
    return _hashed(_canonical((args, kwargs))) if args or kwargs else _NO_ARGUMENTS


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_NO_ARGUMENTS = _hashed("[[],{}]")


def _canonical(value: Any) -> str:
    """Return the canonical text of a value. The exact classes that most arguments have are checked first: isinstance() is slower."""
    kind = cast("type[Any]", type(value))
    if kind is str:
        return _encode_text(value)
    if value is None:
        return "null"
    if kind is tuple or kind is list:
        return f"[{','.join([_canonical(item) for item in value])}]"
    if kind is dict:
        return _pairs(cast("dict[Any, Any]", value))
    if kind in _RECORDS:
        return _pairs(value.__dict__)
    return _of_instance(value)


def _of_instance(value: Any) -> str:
    if isinstance(value, type):
        return format_type(value)
    if isinstance(value, bool | int | float | str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return _pairs(cast("Mapping[Any, Any]", value))
    if isinstance(value, list | tuple):
        return f"[{','.join(_canonical(item) for item in cast('Iterable[Any]', value))}]"
    if isinstance(value, set | frozenset):
        return f"({','.join(sorted(_canonical(item) for item in cast('Iterable[Any]', value)))})"
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        if not hasattr(value, "__dict__"):
            return _canonical(dataclasses.asdict(cast("Any", value)))
        _RECORDS.add(type(value))
        return _pairs(vars(value))
    return json.dumps(to_jsonable_python(value, bytes_mode="base64"))


_RECORDS: set[type[Any]] = set()
"""Classes whose instances are known to have all of their fields in `__dict__`."""


def _pairs(value: Mapping[Any, Any]) -> str:
    pairs = [(_canonical(key), _canonical(item)) for key, item in value.items()]
    pairs.sort()
    return f"{{{','.join([f'{key}:{item}' for key, item in pairs])}}}"
