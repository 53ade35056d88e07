"""Attributes: parts of records and paths, properties, methods, and names of modules."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from typing import Any, cast

from interlock.capabilities.capability import methods
from interlock.verification.body import Frame, State, is_project
from interlock.verification.functions import Calls
from interlock.verification.libraries import Arguments
from interlock.verification.purity import CHANGES
from interlock.verification.reader import BoundMethod, CapabilityMethod, computed, unreadable, wrap
from interlock.verification.records import record_fields
from interlock.verification.sources import NOTHING, Path, hint_classes, part_hint
from interlock.verification.values import NONE_YET, TUPLE, Const, Value, join

__all__ = ["Attributes"]

_MODULES_READ = frozenset({"path", "sep", "maxsize", "maxunicode"})


class Attributes(Calls):
    """Reads attributes."""

    def attribute(self, value: Value, name: str, node: ast.AST, state: State, frame: Frame, *, called: bool = False) -> Value:
        """Return an attribute of a value: a method of a capability, a part of a record, a property or a method."""
        self.fails(value.choosing | value.made, state)
        if name == "__dict__":
            raise unreadable("the attributes of an object are taken as a dict", node)
        found = NONE_YET
        for capability in value.handles:
            if name not in methods(capability):
                raise unreadable(f"'{name}' is not a method of '{capability.__name__}'", node)
            found = join(found, Value(functions=frozenset({CapabilityMethod(capability, name)}), kinds=frozenset({"full"}), known=True))
        for origin in value.origins:
            found = join(found, self._part_of(origin, name, node, state, frame, called=called))
        if value.attrs is not None and name in value.attrs and value.classes != TUPLE:
            found = join(found, value.attrs[name])
            # It may be a record of another class as well, in which the name is a property or a method.
            others = frozenset(kind for kind in value.classes if name not in (record_fields(kind) or ())) if len(value.classes) > 1 else ()
            found = join(found, self._member(value, frozenset(others), name, node, state, frame, called=called)) if others else found
        elif value.classes and not value.origins:
            found = join(found, self._member(value, value.classes, name, node, state, frame, called=called))
        for const in value.consts or () if not value.origins else ():
            found = join(found, self._real_part(const, name, node, state, frame))
        if value.cells or value.made or value.is_more or found == NONE_YET:
            if called or name in CHANGES:
                method = BoundMethod(value, name)
                found = join(found, Value(made=value.made, shape=value.made, functions=frozenset({method}), known=True))
            else:
                found = join(found, computed(NOTHING, value))
        return found.under(value.shape)

    def _part_of(self, origin: Path, name: str, node: ast.AST, state: State, frame: Frame, *, called: bool) -> Value:
        hint = part_hint(origin.hint, name)
        if hint is not None or origin.is_error:
            return self.at(origin.part(name, hint), state)
        exact = Value(origins=frozenset({origin}))
        return self._member(exact, frozenset(hint_classes(origin.hint)), name, node, state, frame, called=called)

    def _member(
        self, value: Value, classes: frozenset[type], name: str, node: ast.AST, state: State, frame: Frame, *, called: bool
    ) -> Value:
        """Return a property or a method of the classes that a value can have."""
        found = NONE_YET
        for kind in sorted(classes, key=lambda one: one.__qualname__):
            declared = inspect.getattr_static(kind, name, None)
            if isinstance(declared, property) and isinstance(declared.fget, types.FunctionType) and is_project(declared.fget, self.package):
                found = join(found, self.call_function(declared.fget, Arguments([value]), node, state, frame))
            elif isinstance(declared, types.FunctionType):
                found = join(found, Value(functions=frozenset({BoundMethod(value, name, declared)}), known=True))
            elif (cached := _cached(declared)) is not None:
                found = join(found, self.call_function(cached, Arguments([value]), node, state, frame))
            elif isinstance(declared, classmethod | staticmethod) or _is_plain(declared):
                found = join(found, wrap(getattr(kind, name)))
            elif isinstance(declared, property) or (not called and not callable(declared)):
                found = join(found, computed(NOTHING, value))
            else:
                found = join(found, Value(functions=frozenset({BoundMethod(value, name)}), known=True))
        if found != NONE_YET:
            return found
        if not called:
            return computed(NOTHING, value)
        return Value(functions=frozenset({BoundMethod(value, name)}), made=value.sources, shape=value.sources, known=True)

    def _real_part(self, const: Const, name: str, node: ast.AST, state: State, frame: Frame) -> Value:
        owner = const.value
        if owner is None:
            return NONE_YET
        if inspect.ismodule(owner):
            if self.is_ambient(owner.__name__, name) and name not in _MODULES_READ and not callable(getattr(owner, name, None)):
                return self.outside(f"{owner.__name__}.{name}", node)
            return wrap(getattr(owner, name, None))
        if inspect.isclass(owner) and not isinstance(inspect.getattr_static(owner, name, None), classmethod):
            return wrap(getattr(owner, name, None))
        declared = inspect.getattr_static(cast("type[Any]", type(owner)), name, None)
        if isinstance(declared, property) and isinstance(declared.fget, types.FunctionType) and is_project(declared.fget, self.package):
            return self.call_function(declared.fget, Arguments([Value(consts=frozenset({const}))]), node, state, frame)
        found = getattr(owner, name, None)
        if inspect.isroutine(found) and not inspect.isclass(owner) and not isinstance(found, types.MethodType):
            return Value(functions=frozenset({BoundMethod(Value(consts=frozenset({const}), known=True), name)}), known=True)
        return wrap(found)


def _is_plain(declared: object) -> bool:
    """Return whether an attribute of a class is a value, and not something that computes one."""
    return declared is not None and not hasattr(type(declared), "__get__") and not callable(declared)


def _cached(declared: object) -> types.FunctionType | None:
    """Return the function of a cached property."""
    function: object = getattr(cast("object", declared), "func", None) if type(declared) is functools.cached_property else None
    return function if isinstance(function, types.FunctionType) else None
