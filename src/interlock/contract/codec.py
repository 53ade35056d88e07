"""Values as JSON by their declared types: for stores, which give them back, and for whoever listens."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, cast

from pydantic_core import CoreConfig, SchemaSerializer, SchemaValidator, from_json, to_jsonable_python
from pydantic_core import to_json as serialize

from interlock.contract.values import ValidationError, changed_schema, core_schema, make_record, reasons, strip_schema
from interlock.errors import RecordInvalid, StateUnstorable

__all__ = ["Codec", "Write", "record_writer", "to_json", "write_any", "writer"]

T = TypeVar("T")
Write: TypeAlias = Callable[[Any], bytes]
_TOLD = CoreConfig(ser_json_bytes="base64", ser_json_inf_nan="null")
_CONFIG = CoreConfig(
    strict=True,
    validate_by_name=True,
    validate_by_alias=True,
    ser_json_bytes="base64",
    val_json_bytes="base64",
    ser_json_inf_nan="constants",
)


class Codec(Generic[T]):
    """Turns values of one declared type into plain JSON data, and such data into equal values."""

    def __init__(self, hint: Any) -> None:
        schema = changed_schema(core_schema(hint), lambda part: _configured(strip_schema(part), _CONFIG))
        self._serializer = SchemaSerializer(schema, _CONFIG, _use_prebuilt=False)
        self._validator = SchemaValidator(schema, _CONFIG, _use_prebuilt=False)

    def encode(self, value: T) -> Any:
        """Return the value as JSON data, from which it is known to come back equal."""
        try:
            text = self._serializer.to_json(value, warnings="error")
            if self._validator.validate_json(text) == value:
                return from_json(text)
        except Exception as error:
            raise StateUnstorable(f"A value of class '{type(value).__name__}' cannot be recorded: {type(error).__name__}.") from error
        raise StateUnstorable(f"A value of class '{type(value).__name__}' cannot be recorded: it would come back as something else.")

    def decode(self, data: Any) -> T:
        """Return the value that JSON data stands for."""
        try:
            return cast("T", self._validator.validate_json(json.dumps(data)))
        except ValidationError as error:
            raise RecordInvalid(f"What was recorded does not fit: {reasons(error)}.") from error
        except RecursionError as error:
            raise RecordInvalid("What was recorded is nested too deep.") from error


def to_json(value: Any) -> Any:
    """Convert a value to JSON data by its runtime type.

    NaN and infinity become null, bytes become base64, and an object that has no JSON form becomes its `repr`.
    """
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null", fallback=repr)
    except ValueError:
        # A pydantic model may hold bytes that are not UTF-8, and a value may be nested too deep.
        return repr(value)


def write_any(value: Any) -> bytes:
    """Serialize a value by its runtime type, with the same conversions as `to_json`. Raises ValueError where it cannot."""
    return serialize(value, bytes_mode="base64", inf_nan_mode="null", fallback=repr)


def writer(hint: Any) -> Write:
    """Make a function that writes values of a type as JSON for others to see: several times as fast as finding out what they are.

    A number that JSON does not have becomes null, and what is no data is written as its `repr`.
    """
    schema = changed_schema(core_schema(hint), lambda part: _configured(part, _TOLD))
    return partial(SchemaSerializer(schema, _TOLD, _use_prebuilt=False).to_json, warnings=False, fallback=repr)


def record_writer(name: str, fields: Mapping[str, Any]) -> Write:
    """Make a function that writes a mapping of some of these fields."""
    return writer(make_record(name, fields, strict=False, partial=True))


def _configured(schema: dict[str, Any], config: CoreConfig) -> dict[str, Any]:
    """Let a record's own part of the schema write as the whole does."""
    if schema["type"] in {"model", "dataclass", "typed-dict"}:
        return {**schema, "config": {**schema.get("config", {}), **config}}
    return schema
