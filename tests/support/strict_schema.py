"""OpenAI's published rules for the schemas of strict structured outputs, and values that fit such a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator

__all__ = ["fitted", "violations"]

KEYWORDS = frozenset(
    {
        *("type", "title", "description", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const"),
        *("$ref", "$defs", "definitions", "pattern", "format", "multipleOf", "minItems", "maxItems"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
MAX_PROPERTIES, MAX_LEVELS, MAX_ENUM, MAX_CHARACTERS = 5_000, 10, 1_000, 120_000

Schema = Mapping[str, Any]
Where = tuple[str, ...]


def violations(schema: Schema) -> list[str]:
    """Say what OpenAI would not take, each in the words of its error."""
    found = [f"In context={where!r}, {what}." for where, what in _wrong(schema, ())]
    if schema.get("type") != "object" or "anyOf" in schema:
        found.insert(0, f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'.")
    return found or list(_over_limits(schema))


def _wrong(schema: Schema, where: Where) -> Iterator[tuple[Where, str]]:
    for name in sorted(schema.keys() - KEYWORDS):
        yield where, f"'{name}' is not permitted"
    if "$ref" in schema and len(schema) > 1:
        yield where, f"$ref cannot have keywords {sorted(schema.keys() - {'$ref'})}"
    if not schema.keys() & {"type", "anyOf", "$ref", "enum", "const"}:
        yield where, "schema must have a 'type' key"
    if schema.get("format", "date") not in FORMATS:
        yield where, f"'{schema['format']}' is not a supported format"
    types = schema.get("type", ())
    if "object" in ([types] if isinstance(types, str) else types):
        yield from _wrong_object(schema, where)
    if types == "array" and "items" not in schema:
        yield where, "array schema missing items"
    for more, part in _parts(schema):
        yield from _wrong(part, (*where, *more))


def _wrong_object(schema: Schema, where: Where) -> Iterator[tuple[Where, str]]:
    if schema.get("additionalProperties") is not False:
        yield where, "'additionalProperties' is required to be supplied and to be false"
    properties = schema.get("properties", {})
    missing = [name for name in properties if name not in schema.get("required", ())]
    if missing:
        yield where, f"'required' is required to be supplied and to be an array including every key in properties. Missing '{missing[0]}'"
    if set(schema.get("required", ())) - set(properties):
        yield where, "'required' names what is not in properties"


def _parts(schema: Schema) -> Iterator[tuple[Where, Schema]]:
    for holder in ("properties", "$defs", "definitions"):
        for name, part in schema.get(holder, {}).items():
            yield (holder, name), part
    for number, part in enumerate(schema.get("anyOf", ())):
        yield ("anyOf", str(number)), part
    if isinstance(schema.get("items"), Mapping):
        yield ("items",), schema["items"]


def _over_limits(schema: Schema) -> Iterator[str]:
    every = list(_all(schema))
    if sum(len(part.get("properties", {})) for part in every) > MAX_PROPERTIES:
        yield f"more than {MAX_PROPERTIES} object properties."
    if sum(len(part.get("enum", ())) for part in every) > MAX_ENUM:
        yield f"more than {MAX_ENUM} enum values."
    names = [name for part in every for holder in ("properties", "$defs") for name in part.get(holder, {})]
    values = [str(value) for part in every for value in (*part.get("enum", ()), part.get("const", ""))]
    if sum(map(len, names + values)) > MAX_CHARACTERS:
        yield f"more than {MAX_CHARACTERS} characters of names and values."
    if _levels(schema, schema, frozenset()) > MAX_LEVELS:
        yield f"more than {MAX_LEVELS} levels of nesting."


def _all(schema: Schema) -> Iterator[Schema]:
    yield schema
    for _, part in _parts(schema):
        yield from _all(part)


def _levels(schema: Schema, root: Schema, inside: frozenset[str]) -> int:
    """Count how deep objects are in one another; a definition that is inside itself counts once."""
    reference = schema.get("$ref")
    if reference is not None:
        return 0 if reference in inside else _levels(_target(schema, root), root, inside | {reference})
    below = [_levels(part, root, inside) for (holder, *_), part in _parts(schema) if holder not in {"$defs", "definitions"}]
    return max(below, default=0) + ("properties" in schema)


def _target(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        place: Any = root
        for name in schema["$ref"].removeprefix("#").strip("/").split("/"):
            place = place[name] if name else place
        schema = place
    return schema


def fitted(value: Any, schema: Schema) -> Any:
    """Write a value as a model does that is held to a schema: whatever the schema has a place for, and nothing else."""
    made = _fitted(value, schema, schema)
    Draft202012Validator(schema).validate(made)
    return made


def _fitted(value: Any, schema: Schema, root: Schema) -> Any:
    schema = _target(schema, root)
    if "anyOf" in schema:
        made = [_fitted(value, branch, root) for branch in schema["anyOf"]]
        with_definitions = [{**branch, "$defs": root.get("$defs", {})} for branch in schema["anyOf"]]
        fits = (one for one, branch in zip(made, with_definitions, strict=True) if Draft202012Validator(branch).is_valid(one))
        return next(fits, value)
    if schema.get("type") == "object":
        return _fitted_object(value, schema["properties"], root)
    if schema.get("type") == "array":
        parts = [{"name": name, "value": part} for name, part in _dict(value).items()] if isinstance(value, dict) else value
        return [_fitted(part, schema["items"], root) for part in cast("list[Any]", parts)] if isinstance(parts, list) else parts
    return value


def _fitted_object(value: Any, properties: Mapping[str, Schema], root: Schema) -> Any:
    if list(properties) == ["json_text"] and isinstance(value, dict | list):
        return {"json_text": json.dumps(value)}
    if not isinstance(value, dict):
        return value
    given = _dict(value)
    known = {name: _fitted(given.get(name), part, root) for name, part in properties.items()}
    return {**given, **known}


def _dict(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value)
