"""Calls: of capabilities, guards, functions of the project, which are read in place, and functions of libraries, which are not."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from interlock.capabilities.capability import is_stream, methods
from interlock.contract.guards import is_guard
from interlock.contract.labels import Trusted, is_secret
from interlock.contract.outcome import Outcome
from interlock.contract.type_hints import class_parameter, is_generic, resolve_hints, substitute_type, unwrap_annotated
from interlock.verification.body import (
    MANY,
    Call,
    Frame,
    Returned,
    State,
    Unreadable,
    has_part,
    is_project,
    keeps_state,
    merge,
    outer_names,
    parse,
    shared_names,
)
from interlock.verification.libraries import Arguments, Libraries
from interlock.verification.reader import BoundMethod, CapabilityMethod, Closure, computed, unreadable, wrap
from interlock.verification.records import field_defaults, has_validators, record_fields
from interlock.verification.sources import NOTHING, Level, Path, Source
from interlock.verification.values import FULL, NONE_YET, UNKNOWN, Value, join, join_all

__all__ = ["Calls"]

_MAX_DEPTH, _MAX_STEPS = 24, 60_000


class Calls(Libraries):
    """Reads calls of capabilities, guards, functions of the project, and classes."""

    def call(self, called: Value, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        """Call a value: everything that it can be, one after the other."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise unreadable("it is too long to be read", node)
        if not called.functions and (methods_ := _call_methods(called, self.package)):
            called = Value(functions=frozenset(BoundMethod(called, "__call__", one) for one in methods_), shape=called.shape, known=True)
        if not called.functions:
            if called.handles:
                raise unreadable("a capability is called like a function", node)
            for source in called.made:
                # It may be a method that changes what it was taken from.
                self.tables.change(source.root, arguments.sources | state.control)
            return self.unknown_call(called, arguments, node, state, frame)
        targets = sorted(called.functions, key=lambda one: getattr(one, "__qualname__", "") or str(getattr(one, "name", "")))
        if len(targets) == 1 and called.known:
            points = state.points
            if called.shape and isinstance(targets[0], Closure | BoundMethod):
                # It is one of several that differ in what they belong to, or in the variables that they see.
                self.point(node, called.shape, frame, "call", state)
            result = self.call_one(targets[0], arguments, node, state, frame).under(called.shape)
            state.points = points
            return result
        ends: list[State] = []
        results: list[Value] = []
        for target in targets:
            way = state.copy()
            self.point(node, called.sources, frame, "call", way)
            results.append(self.call_one(target, arguments, node, way, frame))
            way.points = state.points
            ends.append(way)
        if not called.known:
            results.append(self.unknown_call(called, arguments, node, state, frame))
        state.become(merge(ends, called.sources) or state)
        return join_all(results, called.sources)

    def call_one(self, target: Any, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        if isinstance(target, CapabilityMethod):
            return self._capability(target, arguments, node, state, frame)
        if isinstance(target, Closure):
            return self._closure(target, arguments, node, state, frame)
        if isinstance(target, BoundMethod):
            return self._method(target, arguments, node, state, frame)
        if isinstance(target, types.MethodType):
            owner = wrap(target.__self__)
            return self.call_function(
                target.__func__, Arguments([owner, *arguments.positional], arguments.named, arguments.rest), node, state, frame
            )
        if inspect.isclass(target):
            return self._construct(target, arguments, node, state, frame)
        if isinstance(target, types.MethodDescriptorType | types.WrapperDescriptorType) and arguments.positional:
            owner, *others = arguments.positional
            return self._method(BoundMethod(owner, target.__name__), Arguments(others, arguments.named, arguments.rest), node, state, frame)
        return self.call_function(target, arguments, node, state, frame)

    def _capability(self, target: CapabilityMethod, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        declared = methods(target.capability)[target.name]
        hints = dict(resolve_hints(declared).resolved)
        returned = hints.pop("return")
        name = f"{target.capability.__name__}.{target.name}"
        control = state.control
        parameters = list(inspect.signature(declared).parameters)[1:]
        bound = dict(zip(parameters, arguments.positional, strict=False)) | arguments.named
        for value in arguments.rest:
            for parameter in parameters:
                bound[parameter] = join(bound.get(parameter, NONE_YET), value)
        for value in arguments.all:
            for inner in value.reach():
                if inner.handles:
                    raise unreadable(f"a capability is passed to '{name}'", node)
        made = state.calls.get(name, (0, 0))
        self.tables.calls.append(
            Call(target.capability, target.name, getattr(node, "lineno", 0), bound, control, dict(state.facts), dict(state.calls))
        )
        state.calls[name] = made[0] + 1, min(MANY, made[1] + 1)
        failed = Path(f"{name}()!", (), None, instance=0)
        self.tables.raises(frozenset({failed.presence}), Value(origins=frozenset({failed})), None, state)
        hint, labels = unwrap_annotated(returned)
        stream, trust = is_stream(declared), Trusted in labels
        hint = get_args(hint)[0] if stream else hint
        of_class = class_parameter(hints)
        if is_generic(hint) and of_class is not None:
            wanted = [one for one in bound.get(of_class, UNKNOWN).functions if inspect.isclass(one)]
            hint = substitute_type(hint, wanted[0]) if len(wanted) == 1 else None
        # In a loop, one place is many calls, of which different things are known.
        instance = -1 if self.loops else self.tables.instance(frame.key, id(node))
        path = Path(f"{name}()", (), hint, trust, is_secret(returned), instance)
        if stream:
            return Value(origins=frozenset({replace(path, hint=None if hint is None else list[hint])}))
        return self.at(path, state)

    def call_function(self, function: Any, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        while isinstance(function, functools.partial):
            inner: functools.partial[Any] = function  # pyright: ignore[reportUnknownVariableType]
            arguments = Arguments(
                [*map(wrap, inner.args), *arguments.positional],
                {**{name: wrap(value) for name, value in inner.keywords.items()}, **arguments.named},
                arguments.rest,
            )
            function = inner.func
        if is_guard(function):
            return self._guard(function, arguments, node, state)
        if isinstance(function, types.FunctionType) and is_project(function, self.package):
            return self._project(function, arguments, node, state, frame)
        return self.call_library(function, arguments, node, state, frame)

    def _guard(self, function: Any, arguments: Arguments, node: ast.AST, state: State) -> Value:
        """Call a guard. It says one of finitely many things about what it is given, and that is a choice."""
        self.tables.guards[function.__name__] = function
        given = arguments.explicit
        names = sorted({str(source) for source in given})
        name = f"{function.__name__}({', '.join(names)})"
        exact = all(len(value.origins) == 1 and not value.made and not value.shape for value in arguments.all if value.only is None)
        exact = exact and not any(source.root in self.tables.changed for source in given)
        hint = resolve_hints(function).resolved.get("return")
        said = frozenset({Source(name, Level.CHOICE, root=name)})
        self.tables.raises(said, computed(said), None, state)
        if any(inner.handles for value in arguments.all for inner in value.reach()):
            raise unreadable(f"a capability is passed to the guard '{function.__name__}'", node)
        said = self.at(Path(name, (), unwrap_annotated(hint)[0], instance=0 if exact else -1), state)
        return said.under(NOTHING.union(*(inner.shape for value in arguments.all for inner in value.reach())) - given)

    def _project(self, function: types.FunctionType, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        handles = any(inner.handles or inner.functions for value in arguments.all for inner in value.reach())
        if not self.follows or handles or self.tables.catchers or self.running:
            return self._read(function, arguments, node, state, frame)
        key = (
            id(node),
            function,
            tuple(arguments.positional),
            tuple(sorted(arguments.named.items(), key=lambda one: one[0])),
            tuple(arguments.rest),
        )
        if key not in self.memo:
            alone = State({}, state.points, {}, {})
            self.memo[key] = self._read(function, arguments, node, alone, frame)
        return self.memo[key]

    def _read(self, function: types.FunctionType, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        if function.__code__ in self.running:
            return self._recursive(function, arguments, node, state)
        if len(self.stack) > _MAX_DEPTH:
            return self._unread(function, arguments, node, state, frame)
        closed = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
        if closed and keeps_state(function, self.package):
            raise unreadable(f"'{function.__qualname__}' may keep something between turns", node)
        scope = {**function.__globals__, **{name: cell.cell_contents for name, cell in closed.items()}} if closed else function.__globals__
        try:
            tree = parse(function)
        except Unreadable:
            return self._unread(function, arguments, node, state, frame)
        self.tables.read[f"{function.__module__}.{function.__qualname__}"] = function
        key = (*frame.key, id(node), function.__qualname__)
        inner = Frame(tree, key, scope, function.__module__, shared_names(tree))
        defaults = {
            name: wrap(parameter.default)
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default is not parameter.empty
        }
        self.stack.append(function.__code__)
        self.running[function.__code__] = key
        before = state.copy()
        try:
            result = self._run(tree, inner, defaults, arguments, state)
        except Unreadable:
            if any(one.handles or one.functions & {Outcome} for value in arguments.all for one in value.reach()):
                raise
            state.become(before)
            return self._unread(function, arguments, node, state, frame)
        finally:
            self.stack.pop()
            self.running.pop(function.__code__, None)
        if key in self.tables.recursive:
            self.tables.cell(key, "result").put(result, NOTHING)
        return result

    def _recursive(self, function: types.FunctionType, arguments: Arguments, node: ast.AST, state: State) -> Value:
        """Call a function that is being run: its parameters are what any of the calls passes, its result is what any of them returns."""
        key = self.running[function.__code__]
        self.tables.recursive.add(key)
        if any(inner.handles for value in arguments.all for inner in value.reach()):
            raise unreadable("a function with a capability calls itself", node)
        names = list(inspect.signature(function).parameters)
        bound = dict(zip(names, arguments.positional, strict=False)) | {
            name: value for name, value in arguments.named.items() if name in names
        }
        others = [
            *arguments.rest,
            *arguments.positional[len(names) :],
            *(value for name, value in arguments.named.items() if name not in names),
        ]
        for name in names:
            value = join_all([*([bound[name]] if name in bound else []), *others])
            self.tables.cell(key, "parameter", name).put(value.under(state.control), NOTHING)
        result = self.tables.cell(key, "result").content
        return result.under(state.control) if result != NONE_YET else result

    def _closure(self, closure: Closure, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        key = (*frame.key, id(node), id(closure.node))
        if len(frame.key) > 3 * _MAX_DEPTH or key.count(id(closure.node)) > 1:
            raise unreadable("a function inside the body calls itself", node)
        shared, outer = shared_names(closure.node), outer_names(closure.node)
        inner = Frame(closure.node, key, closure.frame.scope, closure.frame.module, shared - outer, outer, closure.frame)
        return self._run(closure.node, inner, closure.defaults, arguments, state)

    def _run(
        self,
        tree: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        frame: Frame,
        defaults: Mapping[str, Value],
        arguments: Arguments,
        state: State,
    ) -> Value:
        """Run a function in place. All of its ends become one."""
        caller, points = state.variables, state.points
        bound = self.bind(tree.args, defaults, arguments, frame)
        for name in bound if frame.key in self.tables.recursive else ():
            bound[name] = join(bound[name], self.tables.cell(frame.key, "parameter", name).content)
        state.variables = {}
        for name, value in bound.items():
            if name in frame.shared:
                self.tables.cell(frame.key, "variable", name).put(value, NOTHING)
            state.variables[name] = value
        forking, self.forking = self.forking, False
        later = None
        try:
            if isinstance(tree, ast.Lambda):
                result = self.evaluate(tree.body, state, frame)
            else:
                if has_part(tree, (ast.Yield, ast.YieldFrom)):
                    later = frame.yields = self.tables.cell(frame.key, "yields")
                elif isinstance(tree, ast.AsyncFunctionDef) and self.awaited.isdisjoint(frame.key):
                    later = self.tables.cell(frame.key, "later")
                    self.tables.later.add(later)
                if later is not None:
                    # It runs only where it is used up, or awaited.
                    later.once = True
                    self.point(tree, later.size, frame, "later", state)
                result = self._ends(tree, state, frame)
                result = result if later is None else replace(result, cells=result.cells | {later})
        finally:
            self.forking = forking
        state.variables, state.points = caller, points
        return result

    def _ends(self, tree: ast.FunctionDef | ast.AsyncFunctionDef, state: State, frame: Frame) -> Value:
        left = self.execute(tree.body, [state.copy()], frame)
        ends = [*frame.returned, *(Returned(wrap(None), one, tree.lineno) for one in left)]
        if not ends:
            # Every way through the function raises an error.
            return NONE_YET
        chosen = NOTHING.union(*(end.state.control - state.control for end in ends)) if len(ends) > 1 else NOTHING
        result = join_all([end.value.under(end.state.control - state.control) for end in ends])
        state.become(merge((end.state for end in ends), chosen) or state)
        if frame.yields is not None:
            return Value(cells=frozenset({frame.yields}), known=True)
        return result

    def bind(self, declared: ast.arguments, defaults: Mapping[str, Value], arguments: Arguments, frame: Frame) -> dict[str, Value]:
        """Return the value of each parameter."""
        positional = [one.arg for one in (*declared.posonlyargs, *declared.args)]
        names = [*positional, *(one.arg for one in declared.kwonlyargs)]
        bound: dict[str, Value] = dict(zip(positional, arguments.positional, strict=False))
        extra: dict[str, Value] = {}
        for name, value in arguments.named.items():
            (bound if name in names else extra)[name] = value
        for value in arguments.rest:
            for name in names:
                if name not in arguments.named:
                    bound[name] = join(bound.get(name, defaults.get(name, NONE_YET)), value)
        for name in names:
            if name not in bound:
                bound[name] = defaults.get(name, UNKNOWN)
        for name, values in (
            (declared.vararg, [*arguments.positional[len(positional) :], *arguments.rest]),
            (declared.kwarg, [*extra.values(), *arguments.rest]),
        ):
            if name is not None:
                cell = self.tables.cell(frame.key, "rest", name.arg)
                cell.put(join_all(values), NOTHING.union(*(value.shape for value in values)))
                bound[name.arg] = Value(cells=frozenset({cell}), known=True)
        return bound

    def _unread(self, function: types.FunctionType, arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        if keeps_state(function, self.package):
            raise unreadable(f"'{function.__qualname__}' cannot be read and may keep something between turns", node)
        self.tables.unread.add(f"{function.__module__}.{function.__qualname__}")
        self.tables.raises(arguments.sources, computed(arguments.sources), None, state)
        return self._object(self.unknown_call(NONE_YET, arguments, node, state, frame), node, frame, once=True)

    def _construct(self, kind: type[Any], arguments: Arguments, node: ast.AST, state: State, frame: Frame) -> Value:
        """Make a record: its parts stay apart. Other objects are computed from what they are given."""
        if kind in {
            tuple,
            list,
            set,
            frozenset,
            dict,
            str,
            int,
            float,
            bool,
            bytes,
            type,
            object,
            range,
            zip,
            map,
            filter,
            enumerate,
            reversed,
        }:
            return self.call_library(kind, arguments, node, state, frame)
        if issubclass(kind, BaseException):
            return Value(made=arguments.sources, classes=frozenset({kind}), kinds=frozenset({"full"}), known=True)
        names = record_fields(kind)
        if names is None or arguments.rest:
            if self.is_ambient(kind.__module__, kind.__qualname__):
                return self.outside(f"{kind.__module__}.{kind.__qualname__}", node)
            if issubclass(kind, Outcome):
                raise unreadable(f"the fields of outcome '{kind.__name__}' are not named", node)
            if _keeps(kind, self.package):
                raise unreadable(f"making a '{kind.__qualname__}' may keep something between turns", node)
            made = self._object(self.unknown_call(NONE_YET, arguments, node, state, frame), node, frame, once=hasattr(kind, "__next__"))
            if kind.__module__.partition(".")[0] not in sys.stdlib_module_names:
                self.tables.raises(arguments.sources, computed(arguments.sources), None, state)
            return replace(made, classes=made.classes | {kind})
        self.fails(arguments.sources, state)
        defaults = field_defaults(kind)
        attrs = {
            name: arguments.named[name] if name in arguments.named else self._default(defaults.get(name, UNKNOWN), name, node, frame)
            for name in names
        }
        attrs |= dict(zip(names, arguments.positional, strict=False))
        if has_validators(kind):
            self.tables.raises(arguments.sources, computed(arguments.sources), None, state)
            mixed = computed(arguments.sources)
            attrs = {name: join(value, mixed) for name, value in attrs.items()}
        sized = hasattr(kind, "__len__") or hasattr(kind, "__bool__")
        kinds = frozenset({"full", "empty"}) if sized else frozenset({"full"})
        return Value(attrs=attrs, classes=frozenset({kind}), kinds=kinds, known=True)

    def _default(self, value: Value, name: str, node: ast.AST, frame: Frame) -> Value:
        """Return the default of a field. A container is a new one for each record."""
        if value.only is None or type(value.only.value) not in {list, dict, set}:
            return value
        cell = self.tables.cell(frame.key, id(node), "default", name)
        if value.kinds == FULL:
            cell.put(self.elements(value), NOTHING)
        return Value(cells=frozenset({cell}), kinds=frozenset({"full", "empty"}), known=True)


def _call_methods(called: Value, package: str) -> list[types.FunctionType]:
    """Return what is called if objects of the project's classes are called like functions."""
    kinds = {*called.classes, *(type(one.value) for one in called.consts or () if not called.origins)}
    found = [inspect.getattr_static(kind, "__call__", None) for kind in kinds]
    return [one for one in found if isinstance(one, types.FunctionType) and is_project(one, package)]


@functools.cache
def _keeps(kind: type[Any], package: str) -> bool:
    """Return whether the constructor of a class of the project could keep something between turns, other than in the new object."""
    made = [getattr(kind, name, None) for name in ("__init__", "__new__", "__post_init__")]
    written = [one for one in made if isinstance(one, types.FunctionType) and one.__code__.co_filename != "<string>"]
    return any(is_project(one, package) and keeps_state(one, package) for one in written)
