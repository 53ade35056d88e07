"""Answers of a person that are data: a JSON schema that can be shown as a form, and the check of an answer against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field, StrictBool, StrictInt, StrictStr, TypeAdapter, ValidationError, create_model
from pydantic_core import to_json

from interlock.errors import ContractViolation, InputSchema

__all__ = ["check_answer", "check_schema"]

_TYPES: dict[str, Any] = {
    "string": StrictStr,
    "boolean": StrictBool,
    "integer": StrictInt,
    "number": Annotated[float, Field(strict=True, allow_inf_nan=False)],
}
_LIMITS = {"minLength": "min_length", "maxLength": "max_length", "minimum": "ge", "maximum": "le"}
_SHOWN = frozenset({"title", "description", "default", "type", "enum"})
_OBJECT = _SHOWN | {"properties", "required", "additionalProperties"}


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raise ContractViolation unless a schema can be shown as a form: a plain value, a choice, or an object of those."""
    _adapter(schema)


def check_answer(schema: Mapping[str, Any], text: str) -> str:
    """Return an answer as JSON text if it fits the schema, otherwise raise InputSchema. A string and a choice of texts need no quotes."""
    adapter = _adapter(schema)
    try:
        return to_json(adapter.validate_json(text)).decode()
    except ValidationError as refused:
        if schema.get("type") == "string" or all(isinstance(one, str) for one in schema.get("enum", (None,))):
            return _check_text(adapter, text)
        reason = _reason(refused)
    raise InputSchema(f"The answer does not fit its form: {reason}. Fix: answer with JSON that fits the schema of the question.")


def _check_text(adapter: TypeAdapter[Any], text: str) -> str:
    try:
        return to_json(adapter.validate_python(text)).decode()
    except ValidationError as refused:
        reason = _reason(refused)
    raise InputSchema(f"The answer does not fit its form: {reason}.")


def _reason(refused: ValidationError) -> str:
    """Return what is wrong without the value that was given."""
    first = refused.errors(include_input=False, include_url=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{f'{place!r}: ' if place else ''}{first['msg'][:1].lower()}{first['msg'][1:]}"


def _adapter(schema: Mapping[str, Any]) -> TypeAdapter[Any]:
    if schema.get("type") != "object":
        return TypeAdapter(_plain(schema, "the answer"))
    _refuse_others(schema, _OBJECT, "the answer")
    required = set(schema.get("required", ()))
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
    if not properties or not required <= properties.keys():
        raise ContractViolation("A form needs properties, and requires only those. Fix: correct the schema of the question.")
    # Fields get names of their own, because a property may have a name that a class cannot have.
    given: dict[str, Any] = {}
    for number, (name, one) in enumerate(properties.items()):
        kind = _plain(one, f"'{name}'")
        given[f"field_{number}"] = (kind, Field(alias=name)) if name in required else (kind | None, Field(None, alias=name))
    config = ConfigDict(extra="forbid", serialize_by_alias=True, hide_input_in_errors=True)
    return TypeAdapter(create_model("Answer", __config__=config, **given))


def _plain(schema: Mapping[str, Any], what: str) -> Any:
    options = schema.get("enum")
    if options:
        _refuse_others(schema, _SHOWN, what)
        return Literal[tuple(options)]
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ContractViolation(f"A form cannot show {what}. Fix: give it an enum, or the type {', '.join(_TYPES)}.")
    _refuse_others(schema, _SHOWN | _LIMITS.keys(), what)
    limits = {ours: schema[theirs] for theirs, ours in _LIMITS.items() if theirs in schema}
    return Annotated[_TYPES[kind], Field(**limits)] if limits else _TYPES[kind]


def _refuse_others(schema: Mapping[str, Any], known: frozenset[str] | set[str], what: str) -> None:
    others = sorted(schema.keys() - known)
    if others:
        raise ContractViolation(f"A form cannot show '{others[0]}' of {what}. Fix: remove it from the schema of the question.")
