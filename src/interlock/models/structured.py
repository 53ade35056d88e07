"""Structured output: converts a pydantic class to a strict JSON schema, and the model's JSON back.

Servers with strict schemas accept only objects whose properties are all required, without additional ones. So an optional
property becomes nullable, a map becomes a list of entries with a name and a value, and a value of any type becomes a string, a
number, a boolean, null, or an object whose `json_text` is JSON. Answers are converted back. An answer in the original schema
is accepted too, because lenient servers ignore the strict one.
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
_KEYWORDS = (
    *("type", "enum", "description", "pattern", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
"""The keywords that strict servers accept, besides the structural ones."""

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_STRUCTURE = ("$ref", "type", "enum", "const", "anyOf", "oneOf", "properties", "items")
_FENCED = re.compile(r"^[ \t]*```[ \t]*\w*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_THINKING = re.compile(r"^\s*<think>.*?</think>", re.DOTALL)
_MOST_REASONS = 500
_NO_JSON = object()


class StructuredOutput:
    """The strict schema of a pydantic class, and the parser of its answers."""

    def __init__(self, kind: type[BaseModel]) -> None:
        self._kind = kind
        self._open: Schema = kind.model_json_schema()
        self._definitions: Mapping[str, Schema] = self._open.get("$defs", {})

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The strict schema. Its title is the name of the schema in requests."""
        closed = dict(self._to_strict(self._target(self._open)))
        definitions = {name: self._to_strict(definition) for name, definition in self._definitions.items()}
        used = {name: definitions[name] for name in sorted(_references(closed, definitions))}
        title = re.sub(r"[^A-Za-z0-9_-]", "_", self._kind.__name__)[:64]
        described = {"description": closed.pop("description", title)}
        return {"title": title, **described, **closed, **({"$defs": used} if used else {})}

    def read(self, text: str, kind: type[T]) -> T:
        """Parse a model's answer into an instance of the class. Raises ModelOutputInvalid with the reason if it does not validate."""
        found = _json_in(text)
        if found is _NO_JSON:
            raise ModelOutputInvalid(f"The model's answer is not a '{kind.__name__}': it is not JSON.")
        try:
            return kind.model_validate_json(to_json(self._from_strict(found, self._open)), strict=True)
        except ValidationError as error:
            wrong = error_summary(error)[:_MOST_REASONS]
        except ValueError:
            wrong = "it is not valid JSON"
        raise ModelOutputInvalid(f"The model's answer is not a '{kind.__name__}': {wrong}.")

    def as_class_json(self, text: str) -> str:
        """Convert a model's answer to JSON in the original schema. An answer that is not JSON is returned unchanged."""
        found = _json_in(text)
        if found is _NO_JSON:
            return text
        try:
            opened = self._from_strict(found, self._open)
        except ValueError:
            return text
        is_unchanged = opened == found and _parsed(text) is not _NO_JSON
        return text if is_unchanged else to_json(opened).decode()

    def _target(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._definitions[schema["$ref"].removeprefix("#/$defs/")]
        return schema

    def _to_strict(self, schema: Schema) -> Schema:
        """Convert a schema to its strict form."""
        if "$ref" in schema:
            is_any = _is_any(self._target(schema))
            return _ANY if is_any else {"$ref": schema["$ref"]}
        if _is_any(schema):
            return _ANY
        keywords = {name: schema[name] for name in _KEYWORDS if name in schema}
        if schema.get("format") in _FORMATS:
            keywords["format"] = schema["format"]
        if "const" in schema:
            keywords["enum"] = [schema["const"]]
        if _branches(schema):
            return {**keywords, "anyOf": [self._to_strict(branch) for branch in _branches(schema)]}
        if _is_map(schema):
            return self._to_strict_map(schema, keywords)
        if "properties" in schema or schema.get("type") == "object":
            return self._to_strict_object(schema, keywords)
        if schema.get("type") == "array":
            return {**keywords, "items": self._to_strict_items(schema)}
        return keywords

    def _to_strict_object(self, schema: Schema, keywords: Schema) -> Schema:
        required = schema.get("required", ())
        properties = {
            name: self._to_strict(part) if name in required or self._allows_null(part) else _or_null(self._to_strict(part))
            for name, part in schema.get("properties", {}).items()
        }
        return {**keywords, "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}

    def _to_strict_map(self, schema: Schema, keywords: Schema) -> Schema:
        entry = {
            "type": "object",
            "properties": {"name": {"type": "string"}, "value": self._to_strict(_map_values(schema))},
            "required": ["name", "value"],
            "additionalProperties": False,
        }
        described = {"description": keywords["description"]} if "description" in keywords else {}
        return {**described, "type": "array", "items": entry}

    def _to_strict_items(self, schema: Schema) -> Schema:
        places = schema.get("prefixItems")
        if places is None:
            return self._to_strict(schema.get("items", {}))
        return {"anyOf": [self._to_strict(place) for place in places]}

    def _allows_null(self, schema: Schema) -> bool:
        target = self._target(schema)
        if _is_any(target) or target.get("type") == "null" or None in target.get("enum", ()):
            return True
        return any(self._allows_null(branch) for branch in _branches(target))

    def _from_strict(self, value: Any, schema: Schema) -> Any:
        """Convert a value from the strict form. A value of neither form is returned unchanged, and validation rejects it."""
        schema = self._target(schema)
        if _is_any(schema):
            return _from_json_text(value)
        if _branches(schema):
            branch = next((one for one in map(self._target, _branches(schema)) if self._matches(value, one)), None)
            return value if branch is None else self._from_strict(value, branch)
        if _is_map(schema):
            return self._from_strict_map(value, _map_values(schema))
        if isinstance(value, dict) and "properties" in schema:
            return self._from_strict_object(cast("dict[str, Any]", value), schema)
        if isinstance(value, list) and schema.get("type") == "array":
            items, places = schema.get("items", {}), schema.get("prefixItems", [])
            parts = enumerate(cast("list[Any]", value))
            return [self._from_strict(part, places[number] if number < len(places) else items) for number, part in parts]
        return cast("Any", value)

    def _from_strict_object(self, value: dict[str, Any], schema: Schema) -> dict[str, Any]:
        properties, required = schema["properties"], schema.get("required", ())
        opened: dict[str, Any] = {}
        for name, part in value.items():
            known = properties.get(name)
            if part is None and known is not None and name not in required and not self._allows_null(known):
                continue  # null means that the property is absent
            opened[name] = part if known is None else self._from_strict(part, known)
        return opened

    def _from_strict_map(self, value: Any, values: Schema) -> Any:
        if isinstance(value, dict):
            return {name: self._from_strict(part, values) for name, part in cast("dict[str, Any]", value).items()}
        if not _are_entries(value):
            return value
        opened = {entry["name"]: self._from_strict(entry["value"], values) for entry in value}
        if len(opened) < len(value):
            raise ValueError("a name occurs twice")
        return opened

    def _matches(self, value: Any, schema: Schema) -> bool:
        """Return whether a value matches this branch of a union, by its type and by the constants of an object."""
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
    "": lambda value: True,  # noqa: ARG005 - a schema without a type
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
    """Return the definitions that a strict schema refers to, directly or indirectly."""
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
    """Return the JSON value of an answer: the whole text, or the only fenced block that is JSON."""
    answer = _THINKING.sub("", text, count=1)
    whole = _parsed(answer)
    if whole is not _NO_JSON:
        return whole
    found = [value for block in _FENCED.findall(answer) if (value := _parsed(block)) is not _NO_JSON]
    return found[0] if len(found) == 1 else _NO_JSON


def _parsed(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return _NO_JSON
