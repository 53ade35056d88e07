"""Values of fields: validated strictly against their types, copied so that nobody shares them."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import sys
import types
import uuid
from collections.abc import Callable, Container, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError
from pydantic_core import CoreConfig, SchemaValidator
from typing_extensions import TypedDict

from interlock.contract.type_hints import is_record, resolve_hints, unwrap_annotated

__all__ = [
    "ATOMS",
    "ValidationError",
    "Validator",
    "attempt",
    "changed_schema",
    "copied_by_validation",
    "core_schema",
    "deep_copy",
    "immutable",
    "is_plain_model",
    "make_record",
    "reasons",
    "restorer",
    "strip_schema",
    "structure_validator",
    "validator",
    "value_validator",
]

Validator = Callable[[Any], dict[str, Any]]

ATOMS = frozenset(
    {
        *(str, bytes, int, float, bool, complex, types.NoneType, decimal.Decimal, uuid.UUID),
        *(dt.date, dt.datetime, dt.time, dt.timedelta),
    }
)
Copier: TypeAlias = Callable[[Any], Any]
T = TypeVar("T")


def validator(name: str, fields: Mapping[str, Any], *, partial: bool = False) -> Validator:
    """Make a function that validates a mapping of exactly these fields and returns a new dict."""
    return value_validator(make_record(name, fields, strict=True, partial=partial))


def value_validator(hint: Any) -> Callable[[Any], Any]:
    """Make a function that validates a value of this type and returns it, made anew where it is a container or record.

    Nothing is converted: an int is not a str. Records are validated again, field by field, because a plain dataclass
    takes anything when it is made and a pydantic model can be changed afterwards.
    """
    return _compiled(hint, _harden, CoreConfig(strict=True))


def structure_validator(hint: Any) -> Callable[[Any], Any]:
    """Make a function that validates what a value is made of, without the rules that a type adds to its structure."""
    return _compiled(hint, lambda schema: _harden(strip_schema(schema)), CoreConfig(strict=True))


def restorer(name: str, hint: Any) -> Validator:
    """Make a function that turns a stored field back into its type: lists into tuples, dicts into records.

    What was stored was valid, so the rules that a type adds to its structure are not run again.
    """
    record = make_record("Stored", {name: hint}, strict=False, partial=False)
    return _compiled(record, _loosen, CoreConfig())


def make_record(name: str, fields: Mapping[str, Any], *, strict: bool, partial: bool) -> Any:
    """Make a TypedDict that has these fields and no others."""
    functional: Any = TypedDict  # its functional form takes any name and fields, which no type checker follows
    record = functional(name, dict(fields), total=not partial)
    record.__pydantic_config__ = ConfigDict(strict=strict, extra="forbid")
    return record


def _compiled(hint: Any, change: Callable[[dict[str, Any]], Any], config: CoreConfig) -> Callable[[Any], Any]:
    """Compile pydantic's schema of a type, changed. Without prebuilt parts: a model's own validator knows no change."""
    schema = changed_schema(core_schema(hint), change)
    return SchemaValidator(schema, config, _use_prebuilt=False).validate_python


def core_schema(hint: Any) -> Any:
    """Return pydantic's schema of a type. Made here, where `JsonValue` has a name: its parts refer to it by that name."""
    return TypeAdapter[Any](hint).core_schema


def changed_schema(schema: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """Change every part of a pydantic schema that describes a type; values in it (defaults, literals) stay as they are."""
    if isinstance(schema, list | tuple):
        items = cast("list[Any]", schema)
        return type(items)(changed_schema(item, change) for item in items)
    if not isinstance(schema, dict):
        return schema
    parts = cast("dict[str, Any]", schema)
    made = {key: part if key in _VALUE_KEYS else changed_schema(part, change) for key, part in parts.items()}
    return change(made) if isinstance(made.get("type"), str) else made


_VALUE_KEYS = frozenset({"config", "default", "expected", "metadata", "serialization"})


def _harden(schema: dict[str, Any]) -> dict[str, Any]:
    """Make a type strict to its last part."""
    config = {**schema.get("config", {}), "strict": True, "revalidate_instances": "always", "validate_by_name": True}
    if schema["type"] in {"model", "dataclass"}:
        return {**schema, "config": config, "strict": True, "revalidate_instances": "always"}
    if schema["type"] == "typed-dict":
        extra = config.get("extra_fields_behavior", "forbid")
        return {**schema, "config": config, "strict": True, "extra_behavior": extra}
    if schema["type"] == "str":
        # A limit makes pydantic look at the characters, and so find a lone surrogate, which no store can keep.
        return {"max_length": sys.maxsize, **schema}
    return schema


def _loosen(schema: dict[str, Any]) -> dict[str, Any]:
    """Make a type take what a store made of it, in the fields of a record too."""
    if schema["type"] in {"model", "dataclass"}:
        config = {**schema.get("config", {}), "revalidate_instances": "always", "strict": False}
        return {**schema, "config": config, "revalidate_instances": "always", "strict": False}
    return strip_schema(schema)


def strip_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Take the functions off a type that its author put there; pydantic's own are part of the structure."""
    if schema["type"] not in {"function-after", "function-before", "function-wrap"}:
        return schema
    function = schema["function"]["function"]
    if getattr(getattr(function, "func", function), "__module__", "").startswith("pydantic."):
        return schema
    return {**schema["schema"], **({"ref": schema["ref"]} if "ref" in schema else {})}


def reasons(error: ValidationError, *, secret: Container[str] = ()) -> str:
    """Say what is wrong with a value, without the value: it may be secret. Of a secret field not even where in it."""
    told = (
        (e["loc"][:1] if e["loc"] and str(e["loc"][0]) in secret else e["loc"], e["msg"])
        for e in error.errors(include_url=False, include_input=False, include_context=False)
    )
    return "; ".join(dict.fromkeys(f"'{'.'.join(map(str, where))}': {what}" for where, what in told))


def attempt(validate: Callable[[Any], T], value: Any) -> T | ValidationError:
    """Validate a value; return what is wrong with it, so that no error of ours is raised while that one is about.

    It would be dragged along, and tells the value.
    """
    try:
        return validate(value)
    except ValidationError as error:
        return error


def immutable(hint: Any, *, inside: tuple[Any, ...] = ()) -> bool:
    """Tell whether no value of this type can be changed in place, so that it may be shared."""
    hint, _ = unwrap_annotated(hint)
    origin = get_origin(hint)
    if origin is Literal or hint is None or hint in ATOMS or hint in inside:
        return True
    if origin in (Union, types.UnionType, tuple, frozenset):
        return all(arg is Ellipsis or immutable(arg, inside=inside) for arg in get_args(hint))
    if not inspect.isclass(hint):
        return False
    if issubclass(hint, enum.Enum):
        return True
    if dataclasses.is_dataclass(hint):
        parameters: Any = getattr(hint, "__dataclass_params__")  # noqa: B009 - typeshed does not know it
        return parameters.frozen and all(immutable(part, inside=(*inside, hint)) for part in resolve_hints(hint).resolved.values())
    if is_plain_model(hint):
        frozen = hint.model_config.get("frozen", False)
        return frozen and all(immutable(field.annotation, inside=(*inside, hint)) for field in hint.model_fields.values())
    return False


def is_plain_model(kind: type[Any]) -> TypeGuard[type[BaseModel]]:
    """Tell whether a class is a pydantic model whose instances are their fields and nothing else."""
    if not issubclass(kind, BaseModel):
        return False
    is_own = kind.__deepcopy__ is BaseModel.__deepcopy__ and kind.__copy__ is BaseModel.__copy__
    return is_own and not kind.__private_attributes__ and kind.model_config.get("extra") != "allow" and not _keeps_more(kind)


def _keeps_more(kind: type[Any]) -> bool:
    """Tell whether instances keep something beside their dictionary, or something in it that is worked out."""
    below = kind.__mro__[: kind.__mro__.index(BaseModel)]
    return any(vars(base).get("__slots__") for base in below) or any(
        isinstance(member, cached_property) for base in below for member in vars(base).values()
    )


def copied_by_validation(hint: Any, *, inside: tuple[Any, ...] = ()) -> bool:
    """Tell whether a validated value of this type shares nothing with the value that went in.

    Validation makes every container and record anew; what it takes as it is may be shared if it cannot change.
    """
    if _is_json(hint):
        return True
    hint, _ = unwrap_annotated(hint)
    origin = get_origin(hint)
    if hint in inside or immutable(hint):
        return True
    if origin in (Union, types.UnionType, list, dict, set, tuple, frozenset):
        return all(arg is Ellipsis or copied_by_validation(arg, inside=inside) for arg in get_args(hint))
    return is_record(hint) and all(copied_by_validation(part, inside=(*inside, hint)) for part in resolve_hints(hint).resolved.values())


def _is_json(hint: Any) -> bool:
    return hint is JsonValue or (get_origin(hint) is Annotated and get_args(hint)[0] is JsonValue)


def deep_copy(value: T) -> T:
    """Copy a value so that changing the copy changes nothing else; what cannot change is returned as it is."""
    kind = type(value)
    return value if kind in ATOMS else (_COPIERS.get(kind) or _learn(kind))(value)


def _learn(kind: type[Any]) -> Copier:
    """Find out once how values of a class are copied: a record by its changeable fields, which is much faster."""
    copier: Copier = copy.deepcopy
    if inspect.isclass(kind) and is_plain_model(kind):
        copier = _model_copier(kind)
    elif dataclasses.is_dataclass(kind) and not hasattr(kind, "__slots__"):
        changeable = tuple(name for name, hint in resolve_hints(kind).resolved.items() if not immutable(hint))

        def copy_fields(value: Any) -> Any:
            made: Any = object.__new__(kind)
            attributes: dict[str, Any] = made.__dict__
            attributes.update(value.__dict__)
            for name in changeable:
                attributes[name] = deep_copy(attributes[name])
            return made

        copier = copy_fields
    _COPIERS[kind] = copier
    return copier


def _model_copier(kind: type[BaseModel]) -> Copier:
    changeable = tuple(name for name, field in kind.model_fields.items() if not immutable(field.annotation))

    def copy_model(value: Any) -> Any:
        attributes = dict(value.__dict__)
        for name in changeable:
            attributes[name] = deep_copy(attributes[name])
        made: Any = kind.__new__(kind)
        set_attribute(made, "__dict__", attributes)
        set_attribute(made, "__pydantic_fields_set__", set(value.__pydantic_fields_set__))
        set_attribute(made, "__pydantic_extra__", None)
        set_attribute(made, "__pydantic_private__", None)
        return made

    set_attribute = object.__setattr__
    return copy_model


_COPIERS: dict[type[Any], Copier] = {
    dict: lambda value: {key: item if type(item) in ATOMS else deep_copy(item) for key, item in value.items()},
    list: lambda value: [item if type(item) in ATOMS else deep_copy(item) for item in value],
    tuple: lambda value: tuple([deep_copy(item) for item in value]) if value else value,
    set: lambda value: {deep_copy(item) for item in value},
    frozenset: lambda value: frozenset([deep_copy(item) for item in value]),
}
