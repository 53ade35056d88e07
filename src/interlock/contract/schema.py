"""Validation and serialization by declared types. This is the only module that works with the schemas of pydantic-core.

A type has several schemas, because different rules apply to the same value in different places:

    strict_validator      what a node writes: nothing is converted, records are validated again field by field
    structure_validator   the same without the validators that the type's author added: for defaults
    stored_validator      what a store returns: lists become tuples and dicts become records
    exact_validator       the fields of one record, not converted, and nothing beside them: for checkpoints
    Codec                 JSON from which the value is known to come back equal: for records of turns
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Container, Mapping
from typing import Any, Generic, TypeAlias, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic import JsonValue as JsonValue  # noqa: PLC0414 - see `_schema_of`
from pydantic_core import CoreConfig, SchemaError, SchemaSerializer, SchemaValidator, core_schema, from_json, to_jsonable_python
from pydantic_core import to_json as serialize
from typing_extensions import TypedDict

from interlock.errors import RecordInvalid, StateUnstorable

__all__ = [
    "Codec",
    "ValidationError",
    "Validator",
    "error_summary",
    "exact_validator",
    "record_validator",
    "regex_test",
    "stored_validator",
    "strict_validator",
    "structure_validator",
    "to_json",
    "try_validate",
    "write_json",
]

T = TypeVar("T")
Validator: TypeAlias = Callable[[Any], dict[str, Any]]
_Schema: TypeAlias = dict[str, Any]

_RECORDS = frozenset({"model", "dataclass", "typed-dict"})
_VALUE_KEYS = frozenset({"config", "default", "expected", "metadata", "serialization"})
"""The keys of a schema whose contents are values, not schemas."""
_STRICT = CoreConfig(strict=True)
_ROUND_TRIP = CoreConfig(
    strict=True,
    validate_by_name=True,
    validate_by_alias=True,
    ser_json_bytes="base64",
    val_json_bytes="base64",
    ser_json_inf_nan="constants",
)


# Validation


def record_validator(name: str, fields: Mapping[str, Any], *, partial: bool = False) -> Validator:
    """Make a function that validates a mapping of exactly these fields strictly and returns a new dict.

    If `partial`, fields may be missing.
    """
    return strict_validator(_make_typed_dict(name, fields, strict=True, partial=partial))


def strict_validator(hint: Any) -> Callable[[Any], Any]:
    """Make a function that validates a value without converting it and returns it, with new containers and records.

    Records are validated again field by field, because a plain dataclass accepts anything when it is created and a pydantic
    model can be changed afterwards.
    """
    return _validator(_rewrite(_schema_of(hint), _strict), _STRICT)


def structure_validator(hint: Any) -> Callable[[Any], Any]:
    """Make a strict validator that does not run the validators that the type's author added."""
    return _validator(_rewrite(_schema_of(hint), lambda schema: _strict(_without_custom_validators(schema))), _STRICT)


def stored_validator(name: str, hint: Any) -> Validator:
    """Make a function that converts a stored field to its type: lists to tuples, dicts to records.

    The value was valid when it was stored, so the validators that the type's author added are not run again.
    """
    record = _make_typed_dict("Stored", {name: hint}, strict=False, partial=False)
    return _validator(_rewrite(_schema_of(record), _lax), CoreConfig())


def exact_validator(kind: type[Any]) -> Callable[[Any], Any]:
    """Make a function that creates a record from its fields: no field is converted, and no other field is accepted."""
    return _validator(_rewrite(_schema_of(kind), _exact), _STRICT)


def _make_typed_dict(name: str, fields: Mapping[str, Any], *, strict: bool, partial: bool) -> Any:
    """Make a TypedDict that has these fields and no others."""
    # No type checker follows the functional form with computed fields.
    functional: Any = TypedDict
    record = functional(name, dict(fields), total=not partial)
    record.__pydantic_config__ = ConfigDict(strict=strict, extra="forbid")
    return record


def try_validate(validate: Callable[[Any], T], value: Any) -> T | ValidationError:
    """Validate a value; return the error instead of raising it.

    The caller raises an error of its own outside of any `except` block, so that `__context__` does not carry the rejected
    value, which may be secret.
    """
    try:
        return validate(value)
    except ValidationError as error:
        return error


def error_summary(error: ValidationError, *, secret: Container[str] = ()) -> str:
    """Describe what is wrong with a value without quoting it. For a secret field, name only the field."""
    found = (
        (e["loc"][:1] if e["loc"] and str(e["loc"][0]) in secret else e["loc"], e["msg"])
        for e in error.errors(include_url=False, include_input=False, include_context=False)
    )
    return "; ".join(dict.fromkeys(f"'{'.'.join(map(str, where))}': {what}" for where, what in found))


def regex_test(pattern: str) -> Callable[[object], bool] | None:
    """Compile a pattern with the Rust engine; return a test for text that contains a match.

    It takes a tenth of the time of Python's engine. Returns None for a pattern that is too large for it or not in its syntax.
    """
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")).isinstance_python
    except SchemaError:
        return None


# Serialization


class Codec(Generic[T]):
    """Converts values of one declared type to JSON data and back."""

    def __init__(self, hint: Any) -> None:
        schema = _rewrite(_schema_of(hint), lambda part: _configured(_without_custom_validators(part), {**_ROUND_TRIP}))
        self._serializer = SchemaSerializer(schema, _ROUND_TRIP, _use_prebuilt=False)
        self._validator = SchemaValidator(schema, _ROUND_TRIP, _use_prebuilt=False)

    def encode(self, value: T) -> Any:
        """Return the value as JSON data. Raises StateUnstorable where decoding that data would not return an equal value."""
        try:
            text = self._serializer.to_json(value, warnings="error")
            if self._validator.validate_json(text) == value:
                return from_json(text)
        except Exception as error:
            raise StateUnstorable(f"A value of class '{type(value).__name__}' cannot be recorded: {type(error).__name__}.") from error
        raise StateUnstorable(f"A value of class '{type(value).__name__}' cannot be recorded: it would come back as something else.")

    def decode(self, data: Any) -> T:
        """Return the value that JSON data represents. Raises RecordInvalid for data of another type."""
        try:
            return cast("T", self._validator.validate_json(json.dumps(data)))
        except ValidationError as error:
            raise RecordInvalid(f"What was recorded does not fit: {error_summary(error)}.") from error
        except RecursionError as error:
            raise RecordInvalid("What was recorded is nested too deep.") from error


def to_json(value: Any, *, levels: int = 3) -> Any:
    """Convert a value to JSON data by its runtime type.

    NaN and infinity become null, bytes become base64, and an object that has no JSON form becomes its `repr`. So does a value in one
    of the outer `levels` of mappings that cannot be converted: a pydantic model with bytes that are not UTF-8, or one nested too deep.
    """
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=repr)
    except ValueError:
        if levels and isinstance(value, dict):
            return {name: to_json(part, levels=levels - 1) for name, part in cast("dict[str, Any]", value).items()}
        return repr(value)


def write_json(value: Any) -> bytes:
    """Serialize a value by its runtime type, with the same conversions as `to_json`. Raises ValueError where it cannot."""
    return serialize(value, bytes_mode="base64", inf_nan_mode="null", fallback=repr)


# The schemas of pydantic-core


def _schema_of(hint: Any) -> Any:
    # `JsonValue` refers to itself by name, which pydantic resolves in the module that creates the adapter.
    return TypeAdapter[Any](hint).core_schema


def _validator(schema: Any, config: CoreConfig) -> Callable[[Any], Any]:
    # A prebuilt validator of a model would be used in place of the rewritten part of the schema.
    return SchemaValidator(schema, config, _use_prebuilt=False).validate_python


def _rewrite(schema: Any, rewrite: Callable[[_Schema], _Schema]) -> Any:
    """Apply a function to every schema inside a schema, innermost first. Values such as defaults and literals are left alone."""
    if isinstance(schema, list | tuple):
        items = cast("list[Any]", schema)
        return type(items)(_rewrite(item, rewrite) for item in items)
    if not isinstance(schema, dict):
        return schema
    parts = cast("_Schema", schema)
    made = {key: part if key in _VALUE_KEYS else _rewrite(part, rewrite) for key, part in parts.items()}
    return rewrite(made) if isinstance(made.get("type"), str) else made


def _configured(schema: _Schema, config: Mapping[str, Any]) -> _Schema:
    """Change the configuration of a record inside the schema. Other schemas are left alone."""
    if schema["type"] in _RECORDS:
        return {**schema, "config": {**schema.get("config", {}), **config}}
    return schema


def _strict(schema: _Schema) -> _Schema:
    if schema["type"] == "str":
        # With a maximum length pydantic inspects the characters and so finds a lone surrogate, which no store can keep.
        return {"max_length": sys.maxsize, **schema}
    if schema["type"] == "typed-dict":
        schema = {**schema, "extra_behavior": schema.get("config", {}).get("extra_fields_behavior", "forbid")}
    return _configured(schema, {"strict": True, "revalidate_instances": "always", "validate_by_name": True})


def _lax(schema: _Schema) -> _Schema:
    return _configured(_without_custom_validators(schema), {"strict": False, "revalidate_instances": "always"})


def _exact(schema: _Schema) -> _Schema:
    schema = _configured(_without_custom_validators(schema), {"strict": True, "revalidate_instances": "never", "validate_by_name": True})
    if schema["type"] not in _RECORDS:
        return schema
    if schema["config"].get("extra_fields_behavior", "ignore") == "ignore":
        schema["config"]["extra_fields_behavior"] = "forbid"
    # A strict model takes no dict of its fields; only the fields themselves are not converted.
    return (
        schema
        if schema["type"] == "typed-dict"
        else {**schema, "strict": False, **({"custom_init": False} if schema["type"] == "model" else {})}
    )


def _without_custom_validators(schema: _Schema) -> _Schema:
    """Remove a validator that the type's author added. The validators of pydantic itself are part of a type's structure."""
    if schema["type"] not in {"function-after", "function-before", "function-wrap"}:
        return schema
    function = schema["function"]["function"]
    if getattr(getattr(function, "func", function), "__module__", "").startswith("pydantic."):
        return schema
    return {**schema["schema"], **({"ref": schema["ref"]} if "ref" in schema else {})}
