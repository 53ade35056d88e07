"""The state of a graph: its fields, their initial values and reducers, and which of them callers may set."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, TypeAlias, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from interlock.contract.copying import copied_by_validation, deep_copy
from interlock.contract.labels import Label, is_secret
from interlock.contract.schema import (
    Codec,
    ValidationError,
    Validator,
    error_summary,
    record_validator,
    stored_validator,
    strict_validator,
    try_validate,
)
from interlock.contract.type_hints import is_assignable, is_record, nested_types, resolve_hints, unwrap_annotated
from interlock.errors import ContractViolation, InputEncoding, InputSchema, StateIncompatible

__all__ = ["Field", "State", "Values", "read_fields", "strays"]

Values = dict[str, Any]
Reducer: TypeAlias = Callable[[Any, Any], Any]
Factory: TypeAlias = Callable[[], Any]


_CONCRETE: dict[Any, type] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


@dataclass(frozen=True)
class Field:
    """One field of the state."""

    name: str
    hint: Any
    metadata: tuple[Any, ...]
    default: Factory | None
    reducers: tuple[Reducer, ...]

    @property
    def labels(self) -> tuple[Label, ...]:
        return tuple(item for item in self.metadata if isinstance(item, Label))

    @property
    def reducer(self) -> Reducer | None:
        return self.reducers[0] if self.reducers else None

    @property
    def declared(self) -> Any:
        """The type with all of its metadata."""
        return Annotated[self.hint, *self.metadata] if self.metadata else self.hint

    @property
    def annotated(self) -> Any:
        """The type with its constraints but without labels and reducers, for validation."""
        return self.constrain(self.hint)

    def constrain(self, hint: Any) -> Any:
        """Add this field's constraints to a narrower type."""
        kept = tuple(item for item in self.metadata if not isinstance(item, Label) and item not in self.reducers)
        return Annotated[hint, *kept] if kept else hint

    @cached_property
    def initial(self) -> Factory | None:
        """A function that makes the initial value; None if the field has no value before it is written.

        A field with a reducer starts with the empty value of its type, as in LangGraph.
        """
        if self.reducers:
            kind: Any = get_origin(self.hint) or self.hint
            kind = _CONCRETE.get(kind, kind)
            try:
                kind()
            except Exception:  # noqa: BLE001 - a type that cannot be created without arguments starts unset
                return None
            return kind
        if self.default is None and is_assignable(self.hint, None):
            return lambda: None
        return self.default

    def reduce(self, current: Any, update: Any) -> Any:
        """Combine the current value with an update by the reducer, and validate the result."""
        return operator.add(current, update) if self.concatenates else self._reduce(current, update)

    def _reduce(self, current: Any, update: Any) -> Any:
        reducer = cast("Reducer", self.reducer)
        try:
            made = try_validate(self._validate, reducer(current, update))
        except Exception as error:
            raise ContractViolation(f"The reducer of field '{self.name}' raised {type(error).__name__}.") from error
        if isinstance(made, ValidationError):
            details = "" if is_secret(self.declared) else f": {error_summary(made)}"
            raise ContractViolation(f"The reducer of field '{self.name}' returned a value of another type{details}.")
        return made

    def reduce_stored(self, current: Any, update: Any) -> Any:
        """Apply the reducer to an update that comes from a store or over the network."""
        return self._reduce(current, self.restore(update))

    def restore(self, value: Any) -> Any:
        """Convert a stored value to the declared type. A store returns lists for tuples and dicts for records."""
        found = try_validate(self._restore, {self.name: value})
        if isinstance(found, ValidationError):
            secret = frozenset({self.name} if is_secret(self.declared) else ())
            raise StateIncompatible(f"The stored state does not fit: {error_summary(found, secret=secret)}.")
        return found[self.name]

    @cached_property
    def codec(self) -> Codec[Any]:
        return Codec(self.annotated)

    @cached_property
    def concatenates(self) -> bool:
        """Whether the reducer concatenates sequences of any length. Both parts are valid, so the result is.

        Validating the whole sequence with every update would take quadratic time.
        """
        origin, args = get_origin(self.hint), get_args(self.hint)
        is_sequence = origin is list or (origin is tuple and args[-1:] == (Ellipsis,))
        return self.reducer is operator.add and is_sequence and self.annotated is self.hint

    @cached_property
    def _restore(self) -> Validator:
        return stored_validator(self.name, self.annotated)

    @cached_property
    def _validate(self) -> Callable[[Any], Any]:
        return strict_validator(self.annotated)


def read_fields(state: type[Any]) -> tuple[dict[str, Field], dict[str, str]]:
    """Return the fields of a state class, and the annotations that do not resolve with the reasons."""
    found, defaults = resolve_hints(state), _defaults(state)
    models: dict[str, FieldInfo] = state.model_fields if issubclass(state, BaseModel) else {}
    fields: dict[str, Field] = {}
    for name, annotation in found.resolved.items():
        if name.startswith("_"):
            continue
        hint, metadata = unwrap_annotated(annotation)
        if name in models:
            # Constraints can be part of the annotation or of the default value `Field(...)`; pydantic has collected both.
            own = tuple(item for item in metadata if not isinstance(item, FieldInfo))
            metadata = (*own, *(item for item in models[name].metadata if item not in metadata))
        reducers = tuple(item for item in metadata if callable(item) and not inspect.isclass(item))
        fields[name] = Field(name, hint, metadata, defaults.get(name), reducers)
    return fields, found.failed


def strays(state: type[Any], names: Iterable[str]) -> set[str]:
    """Return the annotations of a dataclass that are not fields of it."""
    return set(names) - {field.name for field in dataclasses.fields(state)} if dataclasses.is_dataclass(state) else set()


def _defaults(state: type[Any]) -> dict[str, Factory]:
    """Return a function for each field with a default that makes a new copy of it."""
    if issubclass(state, BaseModel):
        return {name: partial(_model_default, info) for name, info in state.model_fields.items() if not info.is_required()}
    found: dict[str, Factory] = {}
    for field in dataclasses.fields(state) if dataclasses.is_dataclass(state) else ():
        if field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory
        elif field.default is not dataclasses.MISSING:
            found[field.name] = partial(deep_copy, field.default)
    return found


def _model_default(info: FieldInfo) -> Any:
    return deep_copy(info.get_default(call_default_factory=True, validated_data={}))


class State:
    """The fields of a graph's state, with the operations that both engines share."""

    def __init__(self, fields: Mapping[str, Field], *, takes: tuple[str, ...], takes_from_parent: tuple[str, ...] = ()) -> None:
        self.fields = dict(fields)
        self.takes = takes
        self.takes_from_parent = takes_from_parent
        taken = (*takes, *takes_from_parent)
        self._open, self._open_inside = frozenset(takes), frozenset(taken)
        self._admit: Validator = record_validator("Input", {n: fields[n].annotated for n in taken}, partial=True)
        self._admits_copies = all(copied_by_validation(fields[name].hint) for name in taken)
        self.names = frozenset(fields)
        self.reduced = frozenset(name for name, field in fields.items() if field.reducer is not None)
        self.mutable_reduced = frozenset(name for name in self.reduced if not fields[name].concatenates)
        """The fields whose reducers might modify their arguments."""
        self.secret = frozenset(name for name, field in fields.items() if is_secret(field.declared))

    @cached_property
    def classes(self) -> frozenset[type]:
        """The records and enumerations that the fields can hold, which a store has to be able to create."""
        found = {part for field in self.fields.values() for part in nested_types(field.hint) if inspect.isclass(part)}
        return frozenset(part for part in found if is_record(part) or issubclass(part, enum.Enum))

    def parse_input(self, given: Mapping[str, Any], *, inside: bool = False) -> Values:
        """Validate input from a caller or, if `inside`, from the parent graph. Raises InputSchema or InputEncoding."""
        open_to_it = self._open_inside if inside else self._open
        for name in given:
            if name not in open_to_it:
                why = "cannot be set from outside" if name in self.fields else "is unknown"
                raise InputSchema(f"Field '{name}' {why}; this graph takes {_listed(self.takes)}.")
        admitted = try_validate(self._admit, dict(given))
        if isinstance(admitted, ValidationError):
            kinds = {one["type"] for one in admitted.errors(include_url=False, include_input=False)}
            refused = InputEncoding if kinds == {"string_unicode"} else InputSchema
            raise refused(f"The input does not fit: {error_summary(admitted, secret=self.secret)}.")
        return admitted if self._admits_copies else deep_copy(admitted)

    def initial(self, given: Mapping[str, Any], kept: Mapping[str, Any] | None = None) -> Values:
        """Return the state that a turn starts with: the persisted fields, updated with the input."""
        values: Values = dict(kept or {})
        self.apply(values, given)
        return values

    def apply(self, values: Values, update: Mapping[str, Any]) -> None:
        """Apply an update to the state in place, using the reducers."""
        if not self.reduced:
            values.update(update)
            return
        for name, value in update.items():
            field = self.fields[name]
            if name not in self.reduced or (name not in values and field.initial is None):
                values[name] = value
            else:
                values[name] = field.reduce(values[name] if name in values else cast("Factory", field.initial)(), value)

    def with_defaults(self, values: Mapping[str, Any]) -> Values:
        """Return every field that has a value or an initial value, in declaration order."""
        complete: Values = {}
        for name, field in self.fields.items():
            if name in values:
                complete[name] = values[name]
            elif field.initial is not None:
                complete[name] = field.initial()
        return complete

    def restore(self, values: Mapping[str, Any]) -> Values:
        """Convert stored values to the declared types. A store returns lists for tuples and dicts for records."""
        return {name: self.fields[name].restore(value) for name, value in values.items()}


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "no fields"
