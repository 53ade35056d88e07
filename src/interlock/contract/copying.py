"""Copies of values, so that a node that changes what it was passed does not change the state."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import operator
import types
import uuid
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue

from interlock.contract.type_hints import is_record, resolve_hints, unwrap_annotated

__all__ = ["copied_by_validation", "deep_copy", "is_immutable"]

T = TypeVar("T")
Copier: TypeAlias = Callable[[Any], Any]

_ATOMS = frozenset(
    {
        *(str, bytes, int, float, bool, complex, types.NoneType, decimal.Decimal, uuid.UUID),
        *(dt.date, dt.datetime, dt.time, dt.timedelta),
    }
)


def deep_copy(value: T) -> T:
    """Copy a value like `copy.deepcopy`, but return it unchanged where nothing in it can change.

    How the instances of a class are copied is worked out once per class. For the records of a state that takes a fraction of
    the time of `copy.deepcopy`.
    """
    kind = type(value)
    return value if kind in _ATOMS else (_copiers.get(kind) or _add_copier(kind))(value)


def is_immutable(hint: Any, *, inside: tuple[Any, ...] = ()) -> bool:
    """Return whether no value of this type can be changed in place, so that it can be shared."""
    hint, _ = unwrap_annotated(hint)
    origin = get_origin(hint)
    if origin is Literal or hint is None or hint in _ATOMS or hint in inside:
        return True
    if origin in (Union, types.UnionType, tuple, frozenset):
        return all(arg is Ellipsis or is_immutable(arg, inside=inside) for arg in get_args(hint))
    if not inspect.isclass(hint):
        return False
    if issubclass(hint, enum.Enum):
        return True
    if dataclasses.is_dataclass(hint) or _is_plain_model(hint):
        return _is_frozen(hint) and all(is_immutable(part, inside=(*inside, hint)) for part in _field_types(hint).values())
    return False


def copied_by_validation(hint: Any, *, inside: tuple[Any, ...] = ()) -> bool:
    """Return whether a validated value of this type shares nothing mutable with the value that was validated.

    Validation creates new containers and records. It passes other objects through as they are, which is safe only where they
    are immutable.
    """
    if hint is JsonValue or (get_origin(hint) is Annotated and get_args(hint)[0] is JsonValue):
        return True
    hint, _ = unwrap_annotated(hint)
    origin = get_origin(hint)
    if hint in inside or is_immutable(hint):
        return True
    if origin in (Union, types.UnionType, list, dict, set, tuple, frozenset):
        return all(arg is Ellipsis or copied_by_validation(arg, inside=inside) for arg in get_args(hint))
    return is_record(hint) and all(copied_by_validation(part, inside=(*inside, hint)) for part in resolve_hints(hint).resolved.values())


def _add_copier(kind: type[Any]) -> Copier:
    copier: Copier = copy.deepcopy
    if _is_plain_model(kind):
        copier = _record_copier(kind, _create_model)
    elif dataclasses.is_dataclass(kind) and not hasattr(kind, "__slots__"):
        copier = _record_copier(kind, _create_instance)
    _copiers[kind] = copier
    return copier


def _record_copier(kind: type[Any], create: Callable[[Any, dict[str, Any]], Any]) -> Copier:
    """Make a function that copies the fields of a record whose types are mutable.

    A frozen record is returned unchanged where the copies turn out to be the same objects.
    """
    mutable = tuple(name for name, hint in _field_types(kind).items() if not is_immutable(hint))
    is_frozen = _is_frozen(kind)

    def copy_record(value: Any) -> Any:
        old = value.__dict__
        new = {name: deep_copy(old[name]) for name in mutable if name in old}
        if is_frozen and all(copied is old[name] for name, copied in new.items()):
            return value
        return create(value, {**old, **new})

    return copy_record


def _create_instance(value: Any, attributes: dict[str, Any]) -> Any:
    made: Any = object.__new__(value.__class__)
    made.__dict__.update(attributes)
    return made


def _create_model(value: Any, attributes: dict[str, Any]) -> Any:
    """Create a pydantic model without validation. Its slots are set on `object`, because a frozen model refuses assignment."""
    made: Any = object.__new__(value.__class__)
    object.__setattr__(made, "__dict__", attributes)
    object.__setattr__(made, "__pydantic_fields_set__", set(value.__pydantic_fields_set__))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


def _field_types(kind: type[Any]) -> dict[str, Any]:
    if issubclass(kind, BaseModel):
        return {name: field.annotation for name, field in kind.model_fields.items()}
    return resolve_hints(kind).resolved


def _is_frozen(kind: type[Any]) -> bool:
    if issubclass(kind, BaseModel):
        return kind.model_config.get("frozen", False)
    parameters: Any = getattr(kind, "__dataclass_params__")  # noqa: B009 - typeshed does not declare it
    return parameters.frozen


def _is_plain_model(kind: type[Any]) -> TypeGuard[type[BaseModel]]:
    """Return whether a class is a pydantic model whose instances consist of their fields alone."""
    if not inspect.isclass(kind) or not issubclass(kind, BaseModel):
        return False
    has_default_copy = kind.__deepcopy__ is BaseModel.__deepcopy__ and kind.__copy__ is BaseModel.__copy__
    return has_default_copy and not kind.__private_attributes__ and kind.model_config.get("extra") != "allow" and not _has_other_state(kind)


def _has_other_state(kind: type[Any]) -> bool:
    """Return whether instances have slots, or cached properties, which a copy of the fields would lose or keep stale."""
    below = kind.__mro__[: kind.__mro__.index(BaseModel)]
    return any(vars(base).get("__slots__") for base in below) or any(
        isinstance(member, cached_property) for base in below for member in vars(base).values()
    )


def _copy_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    copied = [deep_copy(item) for item in value]
    return value if all(map(operator.is_, value, copied)) else tuple(copied)


_copiers: dict[type[Any], Copier] = {
    dict: lambda value: {key: item if type(item) in _ATOMS else deep_copy(item) for key, item in value.items()},
    list: lambda value: [item if type(item) in _ATOMS else deep_copy(item) for item in value],
    tuple: _copy_tuple,
    set: lambda value: {deep_copy(item) for item in value},
    frozenset: lambda value: frozenset([deep_copy(item) for item in value]),
}
"""How the instances of a class are copied. `_add_copier` adds each other class when it is first seen."""
