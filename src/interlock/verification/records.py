"""Classes of records: their fields, the defaults of these, and whether they check them."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from pydantic import BaseModel

from interlock.contract.type_hints import is_named_tuple
from interlock.verification.reader import wrap
from interlock.verification.values import Value

__all__ = ["field_defaults", "has_validators", "record_fields"]


def record_fields(kind: type[Any]) -> list[str] | None:
    """Return the fields that a class of records takes when one is made; None for all other classes."""
    if is_named_tuple(kind):
        return list(getattr(kind, "_fields", ()))
    if issubclass(kind, BaseModel):
        return list(kind.model_fields) if kind.__init__ is BaseModel.__init__ else None
    if dataclasses.is_dataclass(kind):
        made = getattr(kind.__init__, "__code__", None)
        return [one.name for one in dataclasses.fields(kind)] if made is not None and made.co_filename == "<string>" else None
    return None


@cache
def field_defaults(kind: type[Any]) -> dict[str, Value]:
    """Return the defaults of the fields of a record."""
    found: dict[str, Value] = {}
    if issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            if not info.is_required():
                found[name] = wrap(info.get_default(call_default_factory=True, validated_data={}))
    elif dataclasses.is_dataclass(kind):
        for one in dataclasses.fields(kind):
            if one.default is not dataclasses.MISSING:
                found[one.name] = wrap(one.default)
            elif one.default_factory is not dataclasses.MISSING:
                found[one.name] = wrap(one.default_factory())
    else:
        found = {name: wrap(value) for name, value in getattr(kind, "_field_defaults", {}).items()}
    return found


@cache
def has_validators(kind: type[Any]) -> bool:
    """Return whether a class of records has code that sees the fields of each new one."""
    if hasattr(kind, "__post_init__"):
        return True
    declared = getattr(kind, "__pydantic_decorators__", None)
    return declared is not None and bool(
        declared.field_validators or declared.model_validators or declared.validators or declared.root_validators
    )
