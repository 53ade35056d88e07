"""Copies of values that are known to be of their declared types, as those of the state are: made at every step, so made fast.

`deep_copy` in values.py copies anything, and finds out on the way what it is. Here that is read off the type, once, and
written down as Python, as dataclasses write __init__. Wherever a value turns out to be something else, `deep_copy` copies it.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from interlock.contract.type_hints import resolve_hints, unwrap_annotated
from interlock.contract.values import ATOMS, deep_copy, immutable, is_plain_model

__all__ = ["copier"]

_NAMES: dict[str, Any] = {"atoms": ATOMS, "deep_copy": deep_copy, "new": object.__new__, "set_attribute": object.__setattr__}
"""What the functions that are written here can name: one another too."""

_SLOTS = ("__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
for _slot in _SLOTS:
    _NAMES[f"set{_slot}"] = vars(BaseModel)[_slot].__set__  # a frozen model is set no other way

_RECORDS: dict[type[Any], str] = {}


def copier(hint: Any) -> Callable[[Any], Any]:
    """Make a function that copies values of a type, so that changing a copy changes nothing else.

    What cannot change is not copied: a frozen record that has nothing in it that could be changed is returned as it is.
    """
    hint = _only_changeable(hint)
    if _is_copied_by_fields(hint):
        return _NAMES[_record(hint)]
    return _written("copy_value", f"def copy_value(item):\n    return {_copy(hint)}\n")


def _copy(hint: Any) -> str:
    """Write the expression that copies `item`, which can be changed."""
    hint = _only_changeable(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin is list:
        made = "item.copy()" if immutable(args[0]) else f"[{_copy(args[0])} for item in item] if item else []"
        return f"(({made}) if item.__class__ is list else deep_copy(item))"
    if origin is dict and immutable(args[0]):
        made = "item.copy()" if immutable(args[1]) else f"{{key: {_copy(args[1])} for key, item in item.items()}} if item else {{}}"
        return f"(({made}) if item.__class__ is dict else deep_copy(item))"
    if origin is tuple and args[1:] == (Ellipsis,):
        # All parts are the same objects where none of them can change: then so is the whole.
        return f"(item and copy_tuple(item, [{_copy(args[0])} for item in item]) if item.__class__ is tuple else deep_copy(item))"
    if _is_copied_by_fields(hint):
        return f"(None if item is None else {_record(hint)}(item))"
    return "(item if item.__class__ in atoms else deep_copy(item))"


def _only_changeable(hint: Any) -> Any:
    """Return the one part of a union that can be changed, if there is one: whatever is something else is found out then."""
    hint, _ = unwrap_annotated(hint)
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    changeable = [arg for arg in get_args(hint) if not immutable(arg)]
    return unwrap_annotated(changeable[0])[0] if len(changeable) == 1 else hint


def _is_copied_by_fields(kind: Any) -> bool:
    """Tell whether instances of a class are their fields and nothing else."""
    if not inspect.isclass(kind):
        return False
    return is_plain_model(kind) or (dataclasses.is_dataclass(kind) and not hasattr(kind, "__slots__"))


def _record(kind: type[Any]) -> str:
    """Write the function that copies a record by its changeable fields, once; return its name."""
    if kind in _RECORDS:
        return _RECORDS[kind]
    number = len(_RECORDS)
    _RECORDS[kind] = name = f"copy_{number}"
    _NAMES[f"kind_{number}"] = kind
    is_model = issubclass(kind, BaseModel)
    fields = {one: info.annotation for one, info in kind.model_fields.items()} if is_model else resolve_hints(kind).resolved
    changeable = {field: _copy(hint) for field, hint in fields.items() if not immutable(hint)}
    lines = [f"def {name}(value):", f"    if value.__class__ is not kind_{number}:", "        return deep_copy(value)"]
    lines += ["    attributes = value.__dict__"]
    for at, (field, copied) in enumerate(changeable.items()):
        lines += [f"    item = old_{at} = attributes[{field!r}]", f"    new_{at} = {copied}"]
    if _is_frozen(kind):
        same = " and ".join(f"new_{at} is old_{at}" for at in range(len(changeable)))
        lines += [f"    if {same or True}:", "        return value"]
    lines += ["    attributes = attributes.copy()"]
    lines += [f"    attributes[{field!r}] = new_{at}" for at, field in enumerate(changeable)]
    lines += [f"    made = new(kind_{number})", "    set_attribute(made, '__dict__', attributes)"]
    if is_model:
        lines += ["    set__pydantic_fields_set__(made, value.__pydantic_fields_set__.copy())"]
        lines += ["    set__pydantic_extra__(made, None)", "    set__pydantic_private__(made, None)"]
    lines += ["    return made"]
    _written(name, "\n".join(lines))
    return name


def _is_frozen(kind: type[Any]) -> bool:
    if issubclass(kind, BaseModel):
        return kind.model_config.get("frozen", False)
    parameters: Any = getattr(kind, "__dataclass_params__")  # noqa: B009 - typeshed does not know it
    return parameters.frozen


def _written(name: str, source: str) -> Callable[[Any], Any]:
    exec(source, _NAMES)  # noqa: S102 - our own text
    return _NAMES[name]


def _copy_tuple(value: tuple[Any, ...], copied: list[Any]) -> tuple[Any, ...]:
    return value if all(map(operator.is_, value, copied)) else tuple(copied)


_NAMES["copy_tuple"] = _copy_tuple
