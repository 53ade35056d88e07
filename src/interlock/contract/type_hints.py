"""Type hints: resolve, compare and format annotations, and describe them for the fingerprint."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NotRequired, Required, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, JsonValue
from typing_extensions import ReadOnly, TypeAliasType, is_typeddict

from interlock.contract.labels import Label

__all__ = [
    "Hints",
    "alternatives",
    "class_parameter",
    "describe",
    "format_type",
    "is_assignable",
    "is_closed",
    "is_generic",
    "is_record",
    "nested_types",
    "resolve_hints",
    "stable_repr",
    "substitute_type",
    "unwrap_annotated",
]

_QUALIFIERS = (Required, NotRequired, ReadOnly)


@dataclasses.dataclass(frozen=True)
class Hints:
    """The resolved annotations of a function or class, and those that do not resolve with the reason."""

    resolved: dict[str, Any]
    failed: dict[str, str]


def resolve_hints(owner: Any) -> Hints:
    """Resolve each annotation separately, so that one that fails does not hide the others. Class variables are skipped."""
    resolved: dict[str, Any] = {}
    failed: dict[str, str] = {}
    for holder in reversed(inspect.getmro(owner)) if inspect.isclass(owner) else (owner,):
        scope: dict[str, Any] = getattr(holder, "__globals__", None) or vars(sys.modules[holder.__module__])
        for name, annotation in inspect.get_annotations(holder).items():
            try:
                hint = _resolve(name, annotation, scope)
            except Exception as error:  # noqa: BLE001 - an annotation is an expression that can raise anything
                failed[name] = f"{annotation!r} does not resolve ({type(error).__name__}: {error})"
                continue
            if ClassVar not in (hint, get_origin(hint)):
                resolved[name] = hint
    return Hints(resolved, failed)


def _resolve(name: str, annotation: Any, scope: dict[str, Any]) -> Any:
    carrier = type("Carrier", (), {"__annotations__": {name: annotation}})
    return typing.get_type_hints(carrier, globalns=scope, include_extras=True)[name]


def unwrap_annotated(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Remove `Annotated`, `Required` and type aliases from a hint; return the type and the metadata."""
    metadata: tuple[Any, ...] = ()
    while True:
        if isinstance(hint, TypeAliasType):
            hint = hint.__value__
        elif get_origin(hint) is Annotated:
            hint, *found = get_args(hint)
            metadata = (*found, *metadata)
        elif get_origin(hint) in _QUALIFIERS:
            (hint,) = get_args(hint)
        else:
            return hint, metadata


def nested_types(hint: Any, *, inside: tuple[Any, ...] = ()) -> list[Any]:
    """List a type and every type inside it, including the types of a record's fields. JSON data and literals have none."""
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    is_json = hint is JsonValue
    hint, _ = unwrap_annotated(hint)
    if is_json or hint in inside or get_origin(hint) is Literal:
        return []
    inner = [*get_args(hint), *(resolve_hints(hint).resolved.values() if is_record(hint) else ())]
    return [hint, *(part for item in inner for part in nested_types(item, inside=(*inside, hint)))]


def alternatives(hint: Any) -> list[Any]:
    """List the alternatives of a type: the members of a union, the values of a Literal."""
    hint, _ = unwrap_annotated(hint)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return [member for part in get_args(hint) for member in alternatives(part)]
    if origin is Literal:
        return [Literal[value] for value in get_args(hint)]
    return [types.NoneType if hint is None else hint]


def is_assignable(wide: Any, narrow: Any) -> bool:
    """Return whether every value of type `narrow` is a value of type `wide`, judging by the annotations alone."""
    return all(any(_is_assignable_member(option, member) for option in alternatives(wide)) for member in alternatives(narrow))


def _is_assignable_member(wide: Any, narrow: Any) -> bool:
    if wide in (Any, object) or wide == narrow:
        return True
    if get_origin(narrow) is Literal:
        return wide is type(get_args(narrow)[0])
    wide_class, narrow_class = get_origin(wide) or wide, get_origin(narrow) or narrow
    wide_args, narrow_args = get_args(wide), get_args(narrow)
    if not (inspect.isclass(wide_class) and inspect.isclass(narrow_class)) or len(wide_args) != len(narrow_args):
        return False
    related = wide_class is narrow_class or (bool(wide_args) and issubclass(narrow_class, wide_class))
    # A tuple is immutable, so its types may be covariant.
    may_narrow = narrow_class is tuple
    return related and all(is_assignable(w, n) and (may_narrow or is_assignable(n, w)) for w, n in zip(wide_args, narrow_args, strict=True))


def format_type(hint: Any) -> str:
    """Format a type for a message: `str | None`, `list[str]`, `ModelResponse`."""
    hint, _ = unwrap_annotated(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " | ".join(format_type(arg) for arg in args)
    if origin is Literal:
        return f"Literal[{', '.join(repr(arg) for arg in args)}]"
    if hint in (None, types.NoneType):
        return "None"
    if hint is Ellipsis:
        return "..."
    name = getattr(origin or hint, "__qualname__", None) or str(hint).removeprefix("typing.")
    return f"{name}[{', '.join(format_type(arg) for arg in args)}]" if args else name


def describe(hint: Any, *, inside: tuple[Any, ...] = ()) -> Any:
    """Describe the structure of a type as JSON data. It is equal in every process and differs when the type differs.

    Labels are left out: they say what is proved about a value, not how it is stored.
    """
    hint, metadata = unwrap_annotated(hint)
    notes = sorted(stable_repr(item) for item in metadata if not isinstance(item, Label))
    return [_structure(hint, inside), *notes] if notes else _structure(hint, inside)


def _structure(hint: Any, inside: tuple[Any, ...]) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"literal": sorted(repr(arg) for arg in args)}
    if origin in (Union, types.UnionType):
        return {"union": sorted((describe(arg, inside=inside) for arg in args), key=repr)}
    if origin is not None:
        return {"generic": format_type(origin), "of": [describe(arg, inside=inside) for arg in args]}
    if hint in inside or not inspect.isclass(hint):
        return format_type(hint)
    if issubclass(hint, enum.Enum):
        return {"enum": hint.__qualname__, "values": {member.name: repr(member.value) for member in hint}}
    if is_record(hint) or is_named_tuple(hint):
        fields = {name: describe(part, inside=(*inside, hint)) for name, part in resolve_hints(hint).resolved.items()}
        rules = {name: stable_repr(info.metadata) for name, info in getattr(hint, "__pydantic_fields__", {}).items() if info.metadata}
        return {"record": hint.__qualname__, "fields": fields, **({"rules": rules} if rules else {})}
    return format_type(hint)


def is_record(hint: Any) -> bool:
    """Return whether a type has named, typed fields: a TypedDict, a dataclass or a pydantic model."""
    if not inspect.isclass(hint):
        return False
    return is_typeddict(hint) or dataclasses.is_dataclass(hint) or issubclass(hint, BaseModel)


def is_named_tuple(hint: Any) -> bool:
    """Return whether a type is a tuple with named fields."""
    return hasattr(hint, "_fields") and inspect.isclass(hint) and tuple in hint.__mro__


def stable_repr(item: Any) -> str:
    """Format metadata or a default value identically in every process."""
    if isinstance(item, functools.partial):
        made = cast("functools.partial[Any]", item)
        return f"partial({stable_repr(made.func)}, {stable_repr(made.args)}, {stable_repr(made.keywords)})"
    if isinstance(item, dict):
        return f"{{{', '.join(sorted(f'{stable_repr(k)}: {stable_repr(v)}' for k, v in cast('dict[Any, Any]', item).items()))}}}"
    if isinstance(item, set | frozenset):
        return f"{{{', '.join(sorted(stable_repr(part) for part in cast('set[Any]', item)))}}}"
    if isinstance(item, list | tuple):
        return f"[{', '.join(stable_repr(part) for part in cast('list[Any]', item))}]"
    if callable(item) and not inspect.isclass(item):
        return f"{getattr(item, '__module__', '')}.{getattr(item, '__qualname__', type(item).__qualname__)}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(item))


def is_closed(hint: Any) -> bool:
    """Return whether a type has a fixed list of values: a Literal, a bool, None, or a union of them."""
    return all(get_origin(member) is Literal or member in {bool, type(None)} for member in alternatives(hint))


def is_generic(hint: Any) -> bool:
    """Return whether a type has a free type variable."""
    return isinstance(hint, TypeVar) or bool(getattr(hint, "__parameters__", ()))


def substitute_type(hint: Any, part: Any) -> Any:
    """Replace the type variable of a generic type with a class."""
    return part if isinstance(hint, TypeVar) else hint[part]


def class_parameter(parameters: Mapping[str, Any]) -> str | None:
    """Return the name of the parameter that takes the class to be returned, as in `schema: type[T]`."""
    return next((name for name, hint in parameters.items() if get_origin(hint) is type), None)
