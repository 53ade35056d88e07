"""Values of fields: validated strictly against their types, copied so that nobody shares them."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import types
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from interlock.contract.shapes import hints, parts, peel

__all__ = ["ValidationError", "Validator", "copied_by_validation", "detached", "immutable", "reasons", "validator", "value_validator"]

Validator = Callable[[Any], dict[str, Any]]

_ATOMS = frozenset(
    {
        *(str, bytes, int, float, bool, complex, types.NoneType, decimal.Decimal, uuid.UUID),
        *(dt.date, dt.datetime, dt.time, dt.timedelta),
    }
)
Copier: TypeAlias = Callable[[Any], Any]
T = TypeVar("T")


def validator(name: str, fields: Mapping[str, Any], *, strict: bool = True, partial: bool = False) -> Validator:
    """Make a function that validates a mapping of exactly these fields and returns a new dict."""
    make_record: Any = TypedDict  # its functional form takes any name and fields, which no type checker follows
    record = make_record(name, dict(fields), total=not partial)
    record.__pydantic_config__ = _config(strict=strict)
    return value_validator(record, inside=fields.values())


def value_validator(hint: Any, *, inside: Iterable[Any] = ()) -> Callable[[Any], Any]:
    """Make a function that validates a value of this type and returns it, made anew where it is a container or record.

    Nothing is converted: an int is not a str. Records are validated again, field by field, because a plain dataclass
    takes anything when it is made and a pydantic model can be changed afterwards.
    """
    config = None if hasattr(hint, "__pydantic_config__") else _config(strict=True)
    try:
        validate = TypeAdapter[Any](hint, config=config).validator.validate_python
    except PydanticUserError:  # a pydantic model has its own configuration
        validate = TypeAdapter[Any](hint).validator.validate_python
    if any(_mentions_model(part) for part in (hint, *inside)):
        return lambda value: _rebuilt(validate(value))
    return validate


def _config(*, strict: bool) -> ConfigDict:
    return ConfigDict(strict=strict, extra="forbid", revalidate_instances="always")


def reasons(error: ValidationError) -> str:
    """Say what is wrong with a value, without the value: it may be secret."""
    return "; ".join(
        f"'{'.'.join(str(part) for part in e['loc'])}': {e['msg']}" for e in error.errors(include_url=False, include_input=False)
    )


def _rebuilt(value: Any) -> Any:
    """Validate pydantic models again: inside other types pydantic takes an instance as it is, whatever it has become."""
    if isinstance(value, BaseModel):
        inner = {name: _rebuilt(item) for name, item in vars(value).items()}
        fresh = copy.copy(value)
        type(value).__pydantic_validator__.validate_python(inner, strict=True, self_instance=fresh, by_name=True)
        return fresh
    if isinstance(value, dict):
        return {key: _rebuilt(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = cast("list[Any]", value)
        return type(items)(_rebuilt(item) for item in items)
    return value


def _mentions_model(hint: Any) -> bool:
    return any(inspect.isclass(part) and issubclass(part, BaseModel) for part in parts(hint))


def immutable(hint: Any) -> bool:
    """Tell whether no value of this type can be changed in place, so that it may be shared."""
    hint, _ = peel(hint)
    origin = get_origin(hint)
    if origin is Literal or hint is None or hint in _ATOMS:
        return True
    if origin in (Union, types.UnionType, tuple, frozenset):
        return all(arg is Ellipsis or immutable(arg) for arg in get_args(hint))
    if not inspect.isclass(hint):
        return False
    if issubclass(hint, enum.Enum):
        return True
    if dataclasses.is_dataclass(hint):
        parameters: Any = getattr(hint, "__dataclass_params__")  # noqa: B009 - typeshed does not know it
        return parameters.frozen and all(immutable(field) for field in hints(hint).resolved.values())
    return False


def copied_by_validation(hint: Any) -> bool:
    """Tell whether a validated value of this type shares nothing with the value that went in.

    Validation makes every container and record anew; what it takes as it is may be shared if it cannot change.
    """
    hint, _ = peel(hint)
    origin = get_origin(hint)
    if immutable(hint):
        return True
    if origin in (Union, types.UnionType, list, dict, set, tuple, frozenset, Mapping, Sequence):
        return all(arg is Ellipsis or copied_by_validation(arg) for arg in get_args(hint))
    return inspect.isclass(hint) and dataclasses.is_dataclass(hint) and all(map(copied_by_validation, hints(hint).resolved.values()))


def detached(value: T) -> T:
    """Copy a value so that changing the copy changes nothing else; what cannot change is returned as it is."""
    kind = type(value)
    return value if kind in _ATOMS else (_COPIERS.get(kind) or _learn(kind))(value)


def _learn(kind: type[Any]) -> Copier:
    """Find out once how values of a class are copied: a dataclass by its changeable fields, which is much faster."""
    copier: Copier = copy.deepcopy
    if dataclasses.is_dataclass(kind) and not hasattr(kind, "__slots__"):
        changeable = tuple(name for name, hint in hints(kind).resolved.items() if not immutable(hint))

        def copy_fields(value: Any) -> Any:
            made: Any = object.__new__(kind)
            attributes: dict[str, Any] = made.__dict__
            attributes.update(value.__dict__)
            for name in changeable:
                attributes[name] = detached(attributes[name])
            return made

        copier = copy_fields
    _COPIERS[kind] = copier
    return copier


_COPIERS: dict[type[Any], Copier] = {
    dict: lambda value: {key: item if type(item) in _ATOMS else detached(item) for key, item in value.items()},
    list: lambda value: [item if type(item) in _ATOMS else detached(item) for item in value],
    tuple: lambda value: tuple([detached(item) for item in value]),
    set: set,
    frozenset: lambda value: value,
}
