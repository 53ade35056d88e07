"""Library functions and methods, which are not read: what their results depend on, and what they change."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, cast

from interlock.contract.guards import is_guard
from interlock.contract.type_hints import resolve_hints, unwrap_annotated
from interlock.verification.body import MANY, Ambient, Frame, State, is_project, keeps_state
from interlock.verification.purity import (
    AMBIENT_BUILTINS,
    AMBIENT_METHODS,
    AMBIENT_MODULES,
    CHANGES,
    CHANGING,
    CONTAINERS,
    NO_CHANGE,
    PLAIN_MODULES,
    READS,
    SCALAR_FUNCTIONS,
    SCALAR_NAMES,
    SCALARS,
    can_change,
)
from interlock.verification.reader import BoundMethod, CapabilityMethod, Closure, Reader, ambient, computed, scalar, unreadable, wrap
from interlock.verification.sources import NOTHING, Sources, element_hint, hint_classes, is_fixed
from interlock.verification.values import ANY_KIND, FULL, NONE_YET, TUPLE, UNKNOWN, Cell, Const, Value, join, join_all

__all__ = ["Arguments", "Libraries"]

_FEW, _MAX_BACK, _MAX_ITEMS = 8, 6, 200
_ITERATORS: frozenset[object] = frozenset({iter, reversed, zip, enumerate})
_CALLED_BACK = (Closure, CapabilityMethod, BoundMethod, types.MethodDescriptorType, types.WrapperDescriptorType)
_BACK = computed.__code__
"""Stands on the stack for a function that something unread calls back."""


@dataclass
class Arguments:
    """The arguments of a call: by position, by name, and those of which it is not known which parameter they are."""

    positional: list[Value] = field(default_factory=list[Value])
    named: dict[str, Value] = field(default_factory=dict[str, Value])
    rest: list[Value] = field(default_factory=list[Value])

    @property
    def all(self) -> list[Value]:
        return [*self.positional, *self.named.values(), *self.rest]

    @property
    def sources(self) -> Sources:
        return NOTHING.union(*(value.sources for value in self.all))

    @property
    def explicit(self) -> Sources:
        """What the arguments are made of, without what only decides which values they are."""
        reached = [inner for value in self.all for inner in value.reach()]
        return NOTHING.union(*(inner.made | {origin.whole for origin in inner.origins} for inner in reached))


class Libraries(Reader):
    """Reads calls of functions and methods whose bodies are not read."""

    def call_one(self, target: Any, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        raise NotImplementedError

    def call_function(self, function: Any, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        raise NotImplementedError

    def call_library(self, function: Any, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "") or ""
        if self.is_ambient(module, name) and not (function is vars and arguments.positional):
            return self.outside(f"{module}.{name}".removeprefix("builtins."), node)
        special = self._special(function, arguments, node, state, frame)
        if special is not None:
            return special
        copies = any(function is one for one in CONTAINERS)
        plain = copies or any(function is one for one in NO_CHANGE)
        self._check_library(function, f"{module}.{name}", arguments, node, plain=plain)
        if function is next and arguments.positional:
            self.change(arguments.positional[0], NONE_YET, arguments.positional[0].length, node, state)
        changes = module in CHANGING or name.rpartition(".")[2] in {"insort", "insort_left", "insort_right", "shuffle"}
        lazy = function in {map, filter} or module == "itertools" or name == "finditer"
        points = state.points
        if lazy or function in _ITERATORS:
            # What it calls and uses up, it calls and uses up when it is used up itself.
            self.point(node, self.tables.cell(frame.key, id(node), "copy" if copies else "object").size, frame, "lazy", state)
        result = self.unknown_call(NONE_YET, arguments, node, state, frame, keeps=not changes)
        state.points = points
        if module.partition(".")[0] not in sys.stdlib_module_names:
            self.tables.raises(result.sources, result, None, state)
        folded = self._folded(function, arguments)
        if folded is not None:
            return Value(made=result.made, shape=result.shape, consts=frozenset({folded}), kinds=ANY_KIND)
        if copies:
            return self._copied(function, arguments, result, node, frame)
        if function in SCALAR_FUNCTIONS or f"{module}.{name}" in SCALAR_NAMES:
            return scalar(result)
        if (plain and not lazy) or _returns_fixed(function):
            return result
        return self._object(result, node, frame, once=lazy)

    def _check_library(self, function: Any, name: str, arguments: Arguments, node: ast.AST, *, plain: bool) -> None:
        """Note a function that is not read, and refuse one that could keep something or call a capability."""
        wrapped, top = getattr(function, "__wrapped__", None), name.partition(".")[0]
        if isinstance(wrapped, types.FunctionType) and is_project(wrapped, self.package) and keeps_state(wrapped, self.package):
            raise unreadable(f"'{name}' cannot be read and may keep something between turns", node)
        if inspect.isroutine(function) and top and top not in sys.stdlib_module_names and not top.startswith("_"):
            self.tables.unread.add(name)
        if not plain and any(inner.handles for value in arguments.all for inner in value.reach()):
            raise unreadable(f"a capability is passed to '{name}', which is not read", node)

    def _special(self, function: Any, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value | None:
        """Call one of the functions of which more is known than that its result depends on its arguments."""
        if function is isinstance and len(arguments.positional) == 2:  # noqa: PLR2004 - a value and classes
            return self._isinstance(arguments, state)
        if function is getattr or function is hasattr:
            return self._getattr(function, arguments, node, state, frame)
        if function is bool and len(arguments.positional) == 1:
            return self._bool(arguments.positional[0], state)
        if function is dataclasses.replace and arguments.positional:
            return self._replaced(arguments, state)
        if function is typing.cast and arguments.positional:
            return arguments.positional[-1]
        if function is vars and len(arguments.positional) == 1:
            # It is no copy: who changes it changes the record.
            (record,) = arguments.positional
            roots = frozenset(origin.root for origin in record.origins)
            return replace(computed(NOTHING, record), attrs=record.attrs, classes=frozenset({dict}), parts_of=record.parts_of | roots)
        if function is range and (numbers := _few(arguments)) is not None:
            attrs = {str(number): wrap(number) for number in numbers}
            return Value(shape=arguments.sources, attrs=attrs, classes=TUPLE, known=True)
        return None

    def is_ambient(self, module: str, name: str) -> bool:
        if module == "builtins":
            return name in AMBIENT_BUILTINS
        if module == "datetime" or name.startswith(("datetime.", "date.")):
            return name.rpartition(".")[2] in AMBIENT_METHODS
        top = module.partition(".")[0]
        return top in AMBIENT_MODULES or (
            top in {"pathlib", "posixpath", "genericpath", "asyncio"} and name.rpartition(".")[2] in AMBIENT_METHODS
        )

    def outside(self, what: str, node: ast.AST) -> Value:
        """Note that a body reaches something outside without a capability."""
        self.tables.ambient.append(Ambient(what, getattr(node, "lineno", 0)))
        return ambient(f"{what}()")

    def unknown_call(self, called: Value, arguments: Arguments, node: ast.AST, state: State, frame: Frame, *, keeps: bool = False) -> Value:
        """Call something that is not read: its result depends on all it is given, and it may change and call all it is given."""
        values = [called, *arguments.all] if called != NONE_YET else arguments.all
        reached = [inner for value in values for inner in value.reach()]
        if not keeps and any(inner.handles for inner in reached):
            raise unreadable("a capability is passed to a function that is not read", node)
        sources = NOTHING.union(*(value.sources for value in values))
        self.fails(sources, state)
        for value in reached:
            self.consume(value, state, sources)
        for inner in reached:
            for function in inner.functions:
                if isinstance(function, _CALLED_BACK) or (
                    isinstance(function, types.FunctionType) and not is_guard(function) and is_project(function, self.package)
                ):
                    values.append(self._called_back(function, values, sources, node, state, frame))
                    sources |= values[-1].sources
        if not keeps:
            content = computed(sources, *values)
            for inner in reached:
                for cell in inner.cells:
                    cell.put(content, sources | state.control)
                for origin in inner.origins:
                    self.tables.change(origin.root, sources | state.control)
        return computed(sources, *values)

    def _called_back(self, function: Any, values: Sequence[Value], sources: Sources, node: ast.AST, state: State, frame: Frame) -> Value:
        """Call a function that was passed to one that is not read: at any time, any number of times, with anything it was given.

        Return what it returns, which the one that is not read can return as well.
        """
        given = computed(sources, *(value for value in values if not value.functions))
        if isinstance(function, BoundMethod) and function.function is None:
            if function.name not in READS:
                self.change(function.owner, given, sources, node, state)
            return computed(NOTHING, function.owner)
        if isinstance(function, types.MethodDescriptorType | types.WrapperDescriptorType):
            for value in values if function.__name__ in CHANGES else ():
                for inner in value.reach():
                    self.change(inner, given, sources, node, state, plainly=False)
            return NONE_YET
        if self.stack.count(_BACK) > _MAX_BACK:
            raise unreadable("functions are passed on and on", node)
        way = state.copy()
        self.point(node, sources, frame, "back", way)
        self.loops += 1
        self.stack.append(_BACK)
        inner = Frame(frame.function, (*frame.key, "back"), frame.scope, frame.module)
        try:
            result = self.call_one(function, Arguments(rest=[given]), node, way, inner)
        finally:
            self.loops -= 1
            self.stack.pop()
        for name, (_, most) in way.calls.items():
            least, before = state.calls.get(name, (0, 0))
            state.calls[name] = least, MANY if most > before else before
        return result

    def _isinstance(self, arguments: Arguments, state: State) -> Value:
        value, kinds = arguments.positional
        self.fails(value.choosing, state)
        sources = value.choosing | kinds.sources
        classes = [one for one in kinds.functions if inspect.isclass(one)]
        is_record = value.known and value.kinds == FULL and not (value.cells or value.functions or value.handles)
        if value.classes and len(classes) == 1 and value.attrs is not None and is_record and not value.origins and value.consts is None:
            answers = {issubclass(one, classes[0]) for one in value.classes}
            if len(answers) == 1 and not value.made:
                return Value(shape=sources, consts=frozenset(map(Const, answers)))
        return Value(shape=sources, made=sources, consts=frozenset({Const(True), Const(False)}))

    def _bool(self, value: Value, state: State) -> Value:
        del state
        can, cannot = self.truth(value)
        consts = frozenset(Const(one) for one, holds in ((True, can), (False, cannot)) if holds)
        sources = self.truth_sources(value)
        return Value(shape=sources, made=sources, consts=consts)

    def _getattr(self, function: Any, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        values = arguments.positional
        if any(inner.handles for value in values for inner in value.reach()):
            raise unreadable("a method of a capability is looked up by name", node)
        name = values[1].only if len(values) > 1 else None
        if function is getattr and name is not None and isinstance(name.value, str) and len(values) == 2:  # noqa: PLR2004 - an object and a name
            return self.attribute(values[0], name.value, node, state, frame)
        return computed(NOTHING, *values)

    def attribute(self, value: Value, name: str, node: ast.AST, state: State, frame: Frame, *, called: bool = False) -> Value:
        raise NotImplementedError

    def _replaced(self, arguments: Arguments, state: State) -> Value:
        (record, *_), named = arguments.positional, arguments.named
        self.fails(arguments.sources, state)
        if arguments.rest or record.made or record.consts is not None or not (record.origins or record.attrs):
            return computed(NOTHING, *arguments.all)
        if record.origins:
            # A part that is replaced counts as the old one or the new one.
            named = {name: join(value, (record.attrs or {}).get(name, NONE_YET)) for name, value in named.items()}
        return replace(record, attrs={**(record.attrs or {}), **named}, kinds=record.kinds - {"none"})

    def _copied(self, function: Any, arguments: Arguments, result: Value, node: ast.AST, frame: Frame) -> Value:
        """Return a new container with the elements of what is given."""
        values = arguments.all
        cell: Cell = self.tables.cell(frame.key, id(node), "copy")
        cell.once = function in _ITERATORS
        # What is sorted or compared, and what a function says of it, decides the order and how many there are.
        decided = result.sources if function in {sorted, set, frozenset, dict} or result.functions else NOTHING
        if function in {zip, enumerate}:
            parts = [UNKNOWN, *map(self.elements, values[:1])] if function is enumerate else [*map(self.elements, values)]
            element = Value(attrs={str(index): part for index, part in enumerate(parts)}, classes=TUPLE, kinds=FULL, known=True)
            element = computed(NOTHING, *values) if arguments.rest else element
            cell.put(element.under(decided), decided.union(*(value.length for value in values)))
        for value in values if function not in {zip, enumerate} else ():
            element = self.elements(value)
            if function is dict:
                pairs = [self.elements(pair, keys=False) for pair in (value, element)]
                element = join_all([element, *pairs, *arguments.named.values()])
            # An iterator with a sentinel has what the function returns.
            element = join(element, result) if function is iter and result.functions else element
            cell.put(element.under(decided), value.length | decided)
        return Value(cells=frozenset({cell}), kinds=frozenset({"empty", "full"}), known=True)

    def _object(self, value: Value, node: ast.AST, frame: Frame, *, once: bool = False) -> Value:
        """Return the result of something that is not read as an object of its own, which can be changed."""
        cell = self.tables.cell(frame.key, id(node), "object")
        cell.once = once
        return replace(value, cells=value.cells | {cell})

    def consume(self, value: Value, state: State, sources: Sources = NOTHING) -> None:
        """Use up an iterator: what decides that this happens, and which one it is, decides what is left."""
        for cell in value.cells:
            if cell.once:
                cell.put(NONE_YET, state.control | sources | value.shape)

    def elements(self, value: Value, *, keys: bool = True) -> Value:
        """Return what the elements of a value can be."""
        found = NONE_YET
        for origin in value.origins:
            found = join(found, Value(origins=frozenset({origin.part("[]", element_hint(origin.hint, keys=keys))})))
        for part in (value.attrs or {}).values() if value.classes <= TUPLE else ():
            found = join(found, part)
        for cell in value.cells:
            found = join(found, cell.content)
        if value.consts is not None and not value.origins:
            for const in value.consts:
                items = cast("Any", const.value) if isinstance(const.value, tuple | list | set | frozenset | dict) else None
                if items is not None and len(items) <= _MAX_ITEMS:
                    for item in items if keys or not isinstance(items, dict) else cast("dict[Any, Any]", items).values():
                        found = join(found, wrap(item))
                else:
                    found = join(found, UNKNOWN)
        if value.classes - TUPLE or (not value.known and not value.origins):
            # It may be any object that was put into it, or a part of one.
            found = join(found, computed(NOTHING, value))
        elif value.made:
            found = join(found, computed(value.made))
        return (found if found != NONE_YET else UNKNOWN).under(value.shape)

    def _folded(self, function: Any, arguments: Arguments) -> Const | None:
        if function is len and len(arguments.positional) == 1:
            value = arguments.positional[0]
            if value.items is not None:
                return Const(len(value.items))
        if function in {max, min, abs, str, int} and not arguments.named and not arguments.rest:
            known = [value.only for value in arguments.positional]
            if known and all(one is not None and isinstance(one.value, int) for one in known):
                return Const(function(*(one.value for one in known if one is not None)))
        return None

    def _method(self, target: BoundMethod, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        owner = target.owner
        if target.function is not None:
            given = Arguments([owner, *arguments.positional], arguments.named, arguments.rest)
            return self.call_function(target.function, given, node, state, frame)
        for const in owner.consts or ():
            kind = cast("type[Any]", type(const.value))
            if self.is_ambient(kind.__module__, kind.__qualname__) or (kind.__module__ == "pathlib" and target.name in AMBIENT_METHODS):
                return self.outside(f"{kind.__qualname__}.{target.name}", node)
        if target.name in {"items", "values", "keys"} and not arguments.all:
            return self._view(target, node, frame)
        if target.name in {"get", "pop", "setdefault"} and (owner.origins or owner.cells):
            self.fails(owner.sources | arguments.sources, state)
            if target.name != "get":
                self.change(owner, join_all(arguments.positional[1:]), arguments.sources, node, state)
            element = self.elements(owner, keys=False).under(arguments.sources | owner.length)
            return join_all([element, *(arguments.positional[1:] or [wrap(None)])]).under(owner.length)
        keeps = target.name in READS or (target.name not in CHANGES and _is_builtin(owner))
        # A method of a container changes the container and nothing that is put into it.
        result = self.unknown_call(owner, arguments, node, state, frame, keeps=keeps or target.name in CHANGES)
        if target.name not in READS and target.name not in CHANGES and not _is_builtin(owner):
            self.tables.raises(result.sources, result, None, state)
        if not keeps:
            self._change_by(target, arguments, result, node, state)
        if target.name not in SCALARS:
            return self._object(self._without_owner(result, target, arguments), node, frame)
        return result if owner.cells or owner.classes else scalar(result)

    def _without_owner(self, result: Value, target: BoundMethod, arguments: Arguments) -> Value:
        """Return the result of a method that only reads as a new object, which may have the same elements."""
        if target.name not in READS:
            return result
        return replace(result, parts_of=computed(NOTHING, self.elements(target.owner, keys=False), *arguments.all).parts_of)

    def _change_by(self, target: BoundMethod, arguments: Arguments, result: Value, node: ast.AST, state: State) -> None:
        """Change what a method belongs to by what it is given."""
        compares = target.name == "sort" or any(value.functions for value in arguments.all)
        content = join_all(arguments.all)
        if target.name in {"append", "appendleft"} and not compares:
            # There is one more, whatever it is.
            self.change(target.owner, content, NOTHING, node, state, is_added=True)
            return
        if target.name in {"extend", "extendleft", "update", "__iadd__", "__ior__"}:
            inner = [self.elements(value, keys=False) for value in arguments.all]
            content = join_all([content, *inner, *(self.elements(value, keys=False) for value in inner)])
        sources = arguments.sources | (result.sources if compares else NOTHING)
        self.change(target.owner, content, sources, node, state, plainly=target.name in CHANGES)

    def _view(self, target: BoundMethod, node: ast.AST, frame: Frame) -> Value:
        owner = target.owner
        cell = self.tables.cell(frame.key, id(node), target.name)
        value = self.elements(owner, keys=target.name == "keys")
        content = value
        if target.name == "items":
            content = Value(attrs={"0": self.elements(owner), "1": value}, classes=TUPLE, kinds=FULL, known=True)
        cell.put(content, owner.length)
        return Value(cells=frozenset({cell}), known=True)

    def change(
        self,
        value: Value,
        content: Value,
        sources: Sources,
        node: ast.AST,
        state: State,
        *,
        plainly: bool = True,
        is_added: bool = False,
    ) -> None:
        """Change a container: every name of it has the new content. Changing an object of a module keeps something between turns."""
        # What chose the container decides which one is changed.
        decided = sources | state.control | value.shape
        for const in value.consts or () if not value.origins else ():
            if can_change(const.value):
                kind = type(const.value).__name__
                self.tables.ambient.append(Ambient(f"a {kind} of the module, which it changes", getattr(node, "lineno", 0)))
        if plainly and not value.known and not value.cells and not value.origins and value.consts is None:
            raise unreadable("something is changed of which it is not known what it is", node)
        for cell in value.cells:
            cell.put(content.under(decided) if content != NONE_YET else NONE_YET, decided if is_added else decided | content.shape)
        for root in value.parts_of:
            self.tables.change(root, decided | content.sources)
        for origin in value.origins:
            # Whether it is empty depends on all of it, once something is taken away.
            self.tables.change(origin.root, decided | content.sources | {origin.whole})
        if value.attrs is not None and value.classes - {tuple}:
            raise unreadable("a record that the body made is changed", node)


@cache
def _returns_fixed(function: Any) -> bool:
    """Return whether the annotation of a function says that its result cannot be changed."""
    if not isinstance(function, types.FunctionType):
        return False
    try:
        hint = resolve_hints(function).resolved.get("return")
    except Exception:  # noqa: BLE001 - annotations of libraries may not resolve
        return False
    return hint is not None and is_fixed(unwrap_annotated(hint)[0])


def _is_builtin(value: Value) -> bool:
    """Return whether a value can only be of types of Python itself, of which it is known which methods change them."""
    if value.made or value.cells or value.attrs is not None:
        return False
    hints = [origin.hint for origin in value.origins]
    classes = [one for hint in hints for one in hint_classes(hint)]
    known = all(hint is not None and hint_classes(hint) for hint in hints) and all(one.__module__ in PLAIN_MODULES for one in classes)
    return known and (bool(hints) or value.consts is not None)


def _few(arguments: Arguments) -> range | None:
    """Return a range of constants, if it is short."""
    known = [value.only for value in arguments.positional]
    if not known or arguments.rest or not all(one is not None and isinstance(one.value, int) for one in known):
        return None
    numbers = range(*(one.value for one in known if one is not None))
    return numbers if len(numbers) <= _FEW else None
