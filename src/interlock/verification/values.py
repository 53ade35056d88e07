"""Abstract values: what the interpreter knows of a value, and what the value depends on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from interlock.verification.sources import NOTHING, Path, Source, Sources, is_fixed

__all__ = ["ANY_KIND", "FULL", "NONE_YET", "TUPLE", "UNKNOWN", "Cell", "Const", "Kinds", "Value", "join", "join_all", "kind_of"]

Kinds = frozenset[str]
"""What a value can be: `none`, `empty` (falsy) or `full` (truthy)."""

ANY_KIND: Kinds = frozenset({"none", "empty", "full"})
FULL: Kinds = frozenset({"full"})
TUPLE: frozenset[type] = frozenset({tuple})
_MAX_CONSTS, _MAX_DEPTH = 12, 4
_PLAIN = (str, int, float, bool, bytes, type(None))


class Const:
    """A constant. Plain ones are compared by type and value, all others by identity."""

    __slots__ = ("_key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = _key(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def _key(value: object) -> tuple[object, object]:
    plain = _are_plain(cast("tuple[object, ...]", value)) if type(value) is tuple else isinstance(value, _PLAIN)
    same = cast("object", value)
    return (cast("object", type(same)), same) if plain else (None, id(same))


def _are_plain(parts: tuple[object, ...]) -> bool:
    return all(isinstance(part, _PLAIN) for part in parts)


def kind_of(value: Any) -> str:
    """Return the kind of a constant."""
    if value is None:
        return "none"
    try:
        return "full" if value else "empty"
    except Exception:  # noqa: BLE001 - objects of libraries may refuse to be a condition
        return "full"


class Cell:
    """The contents of a container that can be changed: everything that is ever put into it, whenever that happens.

    All names of the container share the cell, so that a change through one of them is a change of all. `size` is what decides which
    elements are there. A cell only grows; bodies are interpreted again until no cell does. An iterator is used up `once`.
    """

    __slots__ = ("content", "once", "size", "tables")

    def __init__(self, tables: Callable[[], None]) -> None:
        self.content = NONE_YET
        self.size: Sources = NOTHING
        self.once = False
        self.tables = tables

    def put(self, content: Value, size: Sources) -> None:
        """Add an element, and what decides whether it is added."""
        joined = join(self.content, content).shallow(_MAX_DEPTH)
        if joined != self.content or not size <= self.size:
            self.content = joined
            self.size |= size
            self.tables()


@dataclass(frozen=True, slots=True)
class Value:
    """An abstract value.

    `origins` are paths that it can be a copy of, `made` is what its content is computed from, `shape` is what decides which value it is,
    whether it is None or empty, and of which class. `attrs` are the parts of a record or tuple that was made in the body. A value is
    `known` if it can be nothing but what `consts`, `classes`, `functions`, `handles` and `cells` say. `parts_of` are the roots of the paths
    that a computed value may be a part of, so that a change of it may change what stands there.
    """

    origins: frozenset[Path] = frozenset()
    made: Sources = NOTHING
    shape: Sources = NOTHING
    consts: frozenset[Const] | None = None
    kinds: Kinds = ANY_KIND
    attrs: Mapping[str, Value] | None = field(default=None, hash=False)
    classes: frozenset[type] = frozenset()
    handles: frozenset[type] = frozenset()
    functions: frozenset[Any] = frozenset()
    cells: frozenset[Cell] = frozenset()
    presence_of: Path | None = None
    known: bool = False
    parts_of: frozenset[str] = frozenset()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Value):
            return False
        return (
            self.origins == other.origins
            and self.made == other.made
            and self.shape == other.shape
            and self.consts == other.consts
            and self.kinds == other.kinds
            and self.cells == other.cells
            and self.classes == other.classes
            and self.functions == other.functions
            and self.handles == other.handles
            and self.known == other.known
            and self.presence_of == other.presence_of
            and self.parts_of == other.parts_of
            and self.attrs == other.attrs
        )

    def __hash__(self) -> int:
        return hash((self.origins, self.made, self.shape))

    @property
    def is_more(self) -> bool:
        """Whether a record can be something else, of which nothing is known."""
        return self.attrs is not None and not self.known and not self.origins

    @property
    def items(self) -> Mapping[str, Value] | None:
        """The parts of a value that can be nothing but a tuple of this length; None for all others."""
        is_other = self.classes != TUPLE or not self.known or self.origins or self.cells or self.made
        return None if is_other else self.attrs

    @property
    def only(self) -> Const | None:
        """The constant, if there is only one that this value can be."""
        return next(iter(self.consts)) if self.consts is not None and len(self.consts) == 1 else None

    @property
    def sources(self) -> Sources:
        """Everything that the value depends on."""
        if not self.attrs and not self.cells:
            plain = self.shape if self.made <= self.shape else self.made | self.shape
            return plain.union(origin.whole for origin in self.origins) if self.origins else plain
        found: set[Source] = set()
        for value in self.reach():
            found |= value.made
            found |= value.shape
            found.update(origin.whole for origin in value.origins)
            for cell in value.cells:
                found |= cell.size
        return frozenset(found)

    @property
    def choosing(self) -> Sources:
        """What decides whether the value is None, empty or not, and its class."""
        found = self.shape | {origin.presence for origin in self.origins}
        for cell in self.cells:
            found |= cell.size
        return found

    @property
    def changeable(self) -> frozenset[str]:
        """The roots of the paths of which a change of the value can be a change."""
        return self.parts_of | {origin.root for origin in self.origins if not is_fixed(origin.hint)}

    @property
    def length(self) -> Sources:
        """What decides how many elements the value has."""
        if self.origins:
            return self.sources
        found = self.shape | self.made
        for cell in self.cells:
            found |= cell.size
        return found

    def reach(self) -> list[Value]:
        """Return the value and every value inside it."""
        if not self.attrs and not self.cells:
            return [self]
        found: list[Value] = []
        seen: set[int] = set()
        queue: list[Value] = [self]
        for value in queue:
            if id(value) in seen:
                continue
            seen.add(id(value))
            found.append(value)
            queue.extend((value.attrs or {}).values())
            queue.extend(cell.content for cell in value.cells)
        return found

    def under(self, sources: Sources) -> Value:
        """Return the value as it is where these sources have decided that it is this one."""
        return self if sources <= self.shape else replace(self, shape=self.shape | sources)

    def without_consts(self) -> Value:
        """Return the value with its constants forgotten, also in its parts: this is what ends loops that count."""
        if self.consts is None and not self.attrs:
            return self
        attrs = None if self.attrs is None else {name: part.without_consts() for name, part in self.attrs.items()}
        numeric = self.consts is not None and not all(one.value is None or isinstance(one.value, bool) for one in self.consts)
        return replace(self, consts=None if numeric else self.consts, kinds=ANY_KIND if numeric else self.kinds, attrs=attrs)

    def shallow(self, depth: int) -> Value:
        """Return the value with its parts below a depth computed instead of known: this is what ends values that grow."""
        if not self.attrs:
            return self
        if depth == 0:
            reached = self.reach()
            return Value(
                made=self.sources,
                shape=self.sources,
                classes=self.classes,
                handles=frozenset(one for value in reached for one in value.handles),
                functions=frozenset(one for value in reached for one in value.functions),
                cells=frozenset(one for value in reached for one in value.cells),
                parts_of=frozenset(one for value in reached for one in value.changeable),
            )
        return replace(self, attrs={name: part.shallow(depth - 1) for name, part in self.attrs.items()})


UNKNOWN = Value()
"""A value of which nothing is known and which depends on nothing."""
NONE_YET = Value(consts=frozenset(), kinds=frozenset(), known=True)
"""No value at all: the unit of `join`."""


def _is_forgotten(one: Value, other: Value) -> bool:
    """Return whether a joined value does not say all that it can be: constants of one side, or tuples of two lengths.

    None is a kind, and functions are listed.
    """
    if one.attrs is not None and other.attrs is not None and TUPLE in {one.classes, other.classes} and len(one.attrs) != len(other.attrs):
        return True
    dropped = (one.consts or ()) if other.consts is None else (other.consts or ()) if one.consts is None else ()
    return any(not (const.value is None or callable(const.value)) for const in dropped)


def join(one: Value, other: Value, chosen_by: Sources = NOTHING) -> Value:
    """Return a value that is one of two. `chosen_by` decides which."""
    if one == other:
        return one
    if NONE_YET in (one, other):
        return (other if one == NONE_YET else one).under(chosen_by)
    consts = None if one.consts is None or other.consts is None else one.consts | other.consts
    if consts is not None and len(consts) > _MAX_CONSTS:
        consts = None
    attrs: Mapping[str, Value] | None = None
    if one.attrs is not None or other.attrs is not None:
        attrs = {}
        for name in {**(one.attrs or {}), **(other.attrs or {})}:
            parts = [known.attrs[name] for known in (one, other) if known.attrs and name in known.attrs]
            attrs[name] = parts[0] if len(parts) == 1 else join(parts[0], parts[1])
    return Value(
        origins=one.origins | other.origins,
        made=one.made | other.made,
        shape=one.shape | other.shape | chosen_by,
        consts=consts,
        kinds=one.kinds | other.kinds,
        attrs=attrs,
        classes=one.classes | other.classes,
        handles=one.handles | other.handles,
        functions=one.functions | other.functions,
        cells=one.cells | other.cells,
        presence_of=one.presence_of if one.presence_of == other.presence_of else None,
        known=one.known and other.known and not _is_forgotten(one, other),
        parts_of=one.parts_of | other.parts_of,
    )


def join_all(values: Iterable[Value], chosen_by: Sources = NOTHING) -> Value:
    """Return a value that is one of these."""
    joined = NONE_YET
    for value in values:
        joined = join(joined, value)
    return joined.under(chosen_by) if chosen_by else joined
