"""Where values come from: paths into state fields, results of capabilities and errors, with how far each may be trusted."""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache, cached_property
from typing import Any, get_args, get_origin

from interlock.contract.type_hints import alternatives, is_named_tuple, is_record, resolve_hints, unwrap_annotated

__all__ = ["NOTHING", "Level", "Path", "Source", "Sources", "element_hint", "hint_classes", "is_choice", "is_fixed", "part_hint", "worst"]


class Level(enum.IntEnum):
    """How far a value may be trusted: it comes from code and settings, it is one of finitely many things, or it is anything."""

    TRUSTED = 0
    CHOICE = 1
    TEXT = 2


@dataclass(frozen=True, order=True)
class Source:
    """What a value depends on: `field`, `field?`, `Model.decide().value.ask`, `Model.decide()!` or `is_blank(goal)`."""

    name: str
    level: Level
    secret: bool = False
    root: str = ""

    def __str__(self) -> str:
        return self.name


Sources = frozenset[Source]
NOTHING: Sources = frozenset()


def worst(sources: Iterable[Source]) -> Level:
    """Return the level of a value that depends on these sources."""
    return max((source.level for source in sources), default=Level.TRUSTED)


def is_choice(hint: Any) -> bool:
    """Return whether a type has finitely many values: a Literal, a bool, None, an enum, or a union of them."""
    return hint is not None and hint is not Any and _is_choice(hint)


@cache
def _is_choice(hint: Any) -> bool:
    return all(
        get_origin(member) is typing.Literal or member in {bool, type(None)} or (inspect.isclass(member) and issubclass(member, enum.Enum))
        for member in alternatives(hint)
    )


@dataclass(frozen=True)
class Path:
    """A path into what a node is given: a root (`plan`, `Model.decide()`, `Model.decide()!`) and the parts below it.

    `instance` tells two results of the same call apart where that is known.
    """

    root: str
    parts: tuple[str, ...]
    hint: Any
    trusted: bool = False
    secret: bool = False
    instance: int = 0

    def __hash__(self) -> int:
        return hash((self.root, self.parts, self.instance))

    @property
    def name(self) -> str:
        return "".join([self.root, *(part if part == "[]" else f".{part}" for part in self.parts)])

    @property
    def is_error(self) -> bool:
        return self.root.endswith("!")

    @cached_property
    def whole(self) -> Source:
        """The source of the value at this path."""
        if self.is_error and self.parts and self.parts[0] in {"code", "transient"}:
            return self.presence
        if self.is_error and not self.parts:
            # As text it is its message.
            return Source(f"{self.root}.message", Level.TEXT, self.secret, self.root)
        level = Level.TRUSTED if self.trusted else Level.CHOICE if is_choice(self.hint) else Level.TEXT
        return Source(self.name, level, self.secret, self.root)

    @cached_property
    def presence(self) -> Source:
        """The source of what kind of value is at this path: None, empty or not, and its class."""
        if self.is_error:
            return Source(self.root, Level.CHOICE, self.secret, self.root)
        if is_choice(self.hint) or self.trusted:
            return self.whole
        return Source(f"{self.name}?", Level.CHOICE, self.secret, self.root)

    def part(self, name: str, hint: Any) -> Path:
        """Return the path of a part of the value. Below six parts everything is one part, so that recursive types end."""
        parts = self.parts if len(self.parts) >= 6 else (*self.parts, name)  # noqa: PLR2004 - a bound, like any other
        return Path(self.root, parts, hint if len(parts) > len(self.parts) else None, self.trusted, self.secret, self.instance)


@cache
def is_fixed(hint: Any) -> bool:
    """Return whether nothing changes a value of this type."""
    return hint is not None and all(_is_fixed(member) for member in alternatives(hint))


def _is_fixed(hint: Any) -> bool:
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in {tuple, frozenset}:
        return bool(arguments) and all(is_fixed(one) for one in arguments if one is not Ellipsis)
    frozen = getattr(getattr(kind, "__dataclass_params__", None), "frozen", False)
    return kind is typing.Literal or kind in {str, int, float, bool, bytes, type(None), datetime, date} or (frozen and not arguments)


@cache
def hint_classes(hint: Any) -> list[type]:
    """Return the classes that a value of this type can have, as far as the type says."""
    if hint is None:
        return []
    found = [get_origin(member) or member for member in alternatives(hint)]
    return [member for member in found if inspect.isclass(member) and member is not type(None)]


@cache
def _fields(record: type) -> dict[str, Any]:
    return resolve_hints(record).resolved


@cache
def part_hint(hint: Any, name: str) -> Any:
    """Return the type of an attribute or key of a record; None if the type does not say."""
    found: list[Any] = []
    for member in alternatives(hint) if hint is not None else ():
        record = get_origin(member) or member
        if not (is_record(record) or is_named_tuple(record)):
            continue
        part = _fields(record).get(name)
        if part is None:
            continue
        arguments = dict(zip(getattr(record, "__parameters__", ()), get_args(member), strict=False))
        found.append(arguments.get(unwrap_annotated(part)[0], part))
    if not found:
        return None
    return found[0] if len(found) == 1 else typing.Union[tuple(found)]  # noqa: UP007 - the members are in a list


@cache
def element_hint(hint: Any, *, keys: bool = False) -> Any:
    """Return the type of the elements of a sequence, or of the values (or `keys`) of a mapping; None if the type does not say."""
    found: list[Any] = []
    for member in alternatives(hint) if hint is not None else ():
        arguments = [part for part in get_args(member) if part is not Ellipsis]
        if get_origin(member) is typing.Literal or not arguments:
            return None
        origin = get_origin(member)
        if origin is tuple and Ellipsis not in get_args(member):
            found += arguments
        else:
            found.append(arguments[0 if keys else -1])
    if not found:
        return None
    return found[0] if len(found) == 1 else typing.Union[tuple(found)]  # noqa: UP007 - the members are in a list
