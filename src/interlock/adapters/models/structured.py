"""Structured output: a pydantic class as a closed JSON schema, and a model's JSON back in the shape of the class.

Servers with strict schemas take only closed objects: every property is named and required, nothing else may be there.
So an optional property becomes one that may be null, a map becomes a list of entries with a name and a value, and a value
that may be any JSON becomes a text, a number, a boolean, null, or an object whose `json_text` is JSON. What comes back is
read the same way backwards. An answer in the shape of the class itself is taken too: lenient servers ignore the schema.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from interlock.contract.schema import error_summary
from interlock.errors import ModelOutputInvalid

__all__ = ["StructuredOutput"]

T = TypeVar("T", bound=BaseModel)
Schema = Mapping[str, Any]

_JSON_TEXT = "json_text"
_NULL: Schema = {"type": "null"}
_ANY: Schema = {
    "anyOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        _NULL,
        {
            "type": "object",
            "description": "A list or an object, written as JSON text.",
            "properties": {_JSON_TEXT: {"type": "string"}},
            "required": [_JSON_TEXT],
            "additionalProperties": False,
        },
    ]
}
_KEPT = (
    *("type", "enum", "description", "pattern", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
"""The keywords that strict servers know, besides those that make up the structure."""

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_STRUCTURE = ("$ref", "type", "enum", "const", "anyOf", "oneOf", "properties", "items")
_FENCED = re.compile(r"^[ \t]*```[ \t]*\w*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_THINKING = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)
_MOST_REASONS = 500
_MISSING = object()


class StructuredOutput:
    """What a server is told about a pydantic class, and how its answer is read."""

    def __init__(self, kind: type[BaseModel]) -> None:
        self._kind = kind
        self._open: Schema = kind.model_json_schema()
        self._definitions: Mapping[str, Schema] = self._open.get("$defs", {})

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The closed schema, with a title: that is the name under which servers are told of it."""
        closed = dict(self._closed(self._target(self._open)))
        definitions = {name: self._closed(definition) for name, definition in self._definitions.items()}
        used = {name: definitions[name] for name in sorted(_references(closed, definitions))}
        title = re.sub(r"[^A-Za-z0-9_-]", "_", self._kind.__name__)[:64]
        described = {"description": closed.pop("description", title)}
        return {"title": title, **described, **closed, **({"$defs": used} if used else {})}

    def read(self, text: str, kind: type[T]) -> T:
        """Make an instance of the class from a model's answer, or say what is wrong with it."""
        found = _json_in(text)
        if found is _MISSING:
            raise ModelOutputInvalid(f"The model's answer is not a '{kind.__name__}': it is not JSON.")
        try:
            return kind.model_validate_json(to_json(self._opened(found, self._open)), strict=True)
        except ValidationError as error:
            wrong = error_summary(error)[:_MOST_REASONS]
        except ValueError:
            wrong = "it is not valid JSON"
        raise ModelOutputInvalid(f"The model's answer is not a '{kind.__name__}': {wrong}.")

    def as_class_json(self, text: str) -> str:
        """Return a model's answer as JSON in the shape of the class; an answer that is not JSON as it is."""
        found = _json_in(text)
        if found is _MISSING:
            return text
        try:
            opened = self._opened(found, self._open)
        except ValueError:
            return text
        is_as_said = opened == found and _parsed(text) is not _MISSING
        return text if is_as_said else to_json(opened).decode()

    def _target(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].removeprefix("#/$defs/")]
        return schema

    def _closed(self, schema: Schema) -> Schema:
        """Write a schema as strict servers take it."""
        if "$ref" in schema:
            is_any = _is_any(self._target(schema))
            return _ANY if is_any else {"$ref": schema["$ref"]}
        if _is_any(schema):
            return _ANY
        kept = {name: schema[name] for name in _KEPT if name in schema}
        if schema.get("format") in _FORMATS:
            kept["format"] = schema["format"]
        if "const" in schema:
            kept["enum"] = [schema["const"]]
        if _branches(schema):
            return {**kept, "anyOf": [self._closed(branch) for branch in _branches(schema)]}
        if _is_map(schema):
            return self._closed_map(schema, kept)
        if "properties" in schema or schema.get("type") == "object":
            return self._closed_object(schema, kept)
        if schema.get("type") == "array":
            return {**kept, "items": self._closed_items(schema)}
        return kept

    def _closed_object(self, schema: Schema, kept: Schema) -> Schema:
        required = schema.get("required", ())
        properties = {
            name: self._closed(part) if name in required or self._takes_null(part) else _or_null(self._closed(part))
            for name, part in schema.get("properties", {}).items()
        }
        return {**kept, "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}

    def _closed_map(self, schema: Schema, kept: Schema) -> Schema:
        entry = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "value": self._closed(_map_values(schema))},
            "required": ["name", "value"],
            "additionalProperties": False,
        }
        described = {"description": kept["description"]} if "description" in kept else {}
        return {**described, "type": "array", "items": entry}

    def _closed_items(self, schema: Schema) -> Schema:
        places = schema.get("prefixItems")
        if places is None:
            return self._closed(schema.get("items", {}))
        return {"anyOf": [self._closed(place) for place in places]}

    def _takes_null(self, schema: Schema) -> bool:
        target = self._target(schema)
        if _is_any(target) or target.get("type") == "null" or None in target.get("enum", ()):
            return True
        return any(self._takes_null(branch) for branch in _branches(target))

    def _opened(self, value: Any, schema: Schema) -> Any:
        """Read a value that may have the closed shape; what fits neither shape is left for the class to refuse."""
        schema = self._target(schema)
        if _is_any(schema):
            return _from_json_text(value)
        if _branches(schema):
            branch = next((one for one in map(self._target, _branches(schema)) if self._fits(value, one)), None)
            return value if branch is None else self._opened(value, branch)
        if _is_map(schema):
            return self._opened_map(value, _map_values(schema))
        if isinstance(value, dict) and "properties" in schema:
            return self._opened_object(cast("dict[str, Any]", value), schema)
        if isinstance(value, list) and schema.get("type") == "array":
            items, places = schema.get("items", {}), schema.get("prefixItems", [])
            parts = enumerate(cast("list[Any]", value))
            return [self._opened(part, places[number] if number < len(places) else items) for number, part in parts]
        return cast("Any", value)

    def _opened_object(self, value: dict[str, Any], schema: Schema) -> dict[str, Any]:
        properties, required = schema["properties"], schema.get("required", ())
        opened: dict[str, Any] = {}
        for name, part in value.items():
            known = properties.get(name)
            if part is None and known is not None and name not in required and not self._takes_null(known):
                continue  # null stands for a property that was left out
            opened[name] = part if known is None else self._opened(part, known)
        return opened

    def _opened_map(self, value: Any, values: Schema) -> Any:
        if isinstance(value, dict):
            return {name: self._opened(part, values) for name, part in cast("dict[str, Any]", value).items()}
        if not _are_entries(value):
            return value
        opened = {entry["name"]: self._opened(entry["value"], values) for entry in value}
        if len(opened) < len(value):
            raise ValueError("a name occurs twice")
        return opened

    def _fits(self, value: Any, schema: Schema) -> bool:
        """Tell whether a value can only be meant for this branch of a union: by its type, and by constants in an object."""
        if _is_any(schema) or _branches(schema):
            return True
        allowed = [schema["const"]] if "const" in schema else schema.get("enum")
        if allowed is not None:
            return value in allowed
        if _is_map(schema):
            return isinstance(value, dict) or _are_entries(value)
        if isinstance(value, dict):
            properties: Schema = schema.get("properties", {})
            given = cast("dict[str, Any]", value)
            fixed = [(name, self._target(part)) for name, part in properties.items() if "const" in part]
            is_known = (
                schema.get("type") == "object" and given.keys() <= properties.keys() and {*schema.get("required", ())} <= given.keys()
            )
            return is_known and all(given.get(name) == part["const"] for name, part in fixed)
        return _TYPES[schema.get("type", "")](value)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "": lambda value: True,  # noqa: ARG005 - it says nothing about its type
}


def _is_any(schema: Schema) -> bool:
    return not any(name in schema for name in _STRUCTURE)


def _is_map(schema: Schema) -> bool:
    if schema.get("type") != "object" or schema.get("properties"):
        return False
    return "patternProperties" in schema or schema.get("additionalProperties", True) is not False


def _map_values(schema: Schema) -> Schema:
    values = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties", True))
    return cast("Schema", values) if isinstance(values, Mapping) else {}


def _branches(schema: Schema) -> list[Schema]:
    return schema.get("anyOf") or schema.get("oneOf") or []


def _or_null(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], _NULL]}
    return {"anyOf": [schema, _NULL]}


def _references(closed: Schema, definitions: Mapping[str, Schema]) -> set[str]:
    """Find the definitions that a closed schema uses, directly or by another."""
    found: set[str] = set()
    waiting: list[Any] = [closed]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(cast("list[Any]", part))
        if not isinstance(part, Mapping):
            continue
        waiting.extend(cast("Mapping[str, Any]", part).values())
        name = str(cast("Mapping[str, Any]", part).get("$ref", "")).removeprefix("#/$defs/")
        if name and name not in found:
            found.add(name)
            waiting.append(definitions[name])
    return found


def _are_entries(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return all(
        isinstance(one, dict) and one.keys() == {"name", "value"} and isinstance(one["name"], str) for one in cast("list[Any]", value)
    )


def _from_json_text(value: Any) -> Any:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    text = given.get(_JSON_TEXT)
    return from_json(text) if isinstance(text, str) and len(given) == 1 else cast("Any", value)


def _json_in(text: str) -> Any:
    """Find the one JSON value of an answer: all of it, or the only fenced block that is JSON, with talk around it."""
    said = _THINKING.sub("", text, count=1)
    whole = _parsed(said)
    if whole is not _MISSING:
        return whole
    found = [value for block in _FENCED.findall(said) if (value := _parsed(block)) is not _MISSING]
    return found[0] if len(found) == 1 else _MISSING


def _parsed(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return _MISSING
