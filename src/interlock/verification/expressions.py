"""Expressions of a body: what each evaluates to, and what the result depends on."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from interlock.contract.outcome import Outcome
from interlock.verification.body import MANY, Frame, State, has_part, merge
from interlock.verification.conditions import BOTH, Conditions
from interlock.verification.libraries import Arguments
from interlock.verification.reader import Closure, computed, unreadable, wrap
from interlock.verification.sources import NOTHING, element_hint, part_hint
from interlock.verification.values import NONE_YET, TUPLE, UNKNOWN, Const, Value, join, kind_of

__all__ = ["Expressions"]

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class Expressions(Conditions):
    """Reads expressions."""

    def evaluate(self, node: ast.expr, state: State, frame: Frame) -> Value:
        found = getattr(self, f"_{type(node).__name__.lower()}", None)
        if found is None:
            raise unreadable(f"'{type(node).__name__}' is not read", node)
        return found(node, state, frame)

    def _constant(self, node: ast.Constant, state: State, frame: Frame) -> Value:
        del state, frame
        return wrap(node.value)

    def _name(self, node: ast.Name, state: State, frame: Frame) -> Value:
        return self.load(node.id, state, frame, node)

    def _await(self, node: ast.Await, state: State, frame: Frame) -> Value:
        self.awaited.add(id(node.value))
        value = self.evaluate(node.value, state, frame)
        if value.cells.isdisjoint(self.tables.later):
            return value
        self.consume(value, state)
        return replace(value, cells=value.cells - self.tables.later)

    def _starred(self, node: ast.Starred, state: State, frame: Frame) -> Value:
        return self.evaluate(node.value, state, frame)

    def _namedexpr(self, node: ast.NamedExpr, state: State, frame: Frame) -> Value:
        value = self.evaluate(node.value, state, frame)
        self.store(node.target.id, value, state, frame)
        return value

    def _lambda(self, node: ast.Lambda, state: State, frame: Frame) -> Value:
        return self.closure(node, state, frame)

    def closure(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, state: State, frame: Frame) -> Value:
        declared = node.args
        positional = [one.arg for one in (*declared.posonlyargs, *declared.args)]
        values = [self.evaluate(one, state, frame) for one in declared.defaults]
        defaults = dict(zip(positional[len(positional) - len(values) :], values, strict=True))
        for one, default in zip(declared.kwonlyargs, declared.kw_defaults, strict=True):
            if default is not None:
                defaults[one.arg] = self.evaluate(default, state, frame)
        key = (frame.key, id(node))
        known = self.tables.closures.get(key)
        if known is None or dict(known.defaults) != defaults:
            known = self.tables.closures[key] = Closure(node, frame, defaults)
        return Value(functions=frozenset({known}), kinds=frozenset({"full"}), known=True)

    # Text and arithmetic

    def _joinedstr(self, node: ast.JoinedStr, state: State, frame: Frame) -> Value:
        parts = [self.evaluate(part, state, frame) for part in node.values]
        self.fails(NOTHING.union(*(part.sources for part in parts)), state)
        made = computed(NOTHING, *parts)
        full = any(isinstance(part, ast.Constant) and part.value for part in node.values)
        return Value(
            made=made.made, shape=NOTHING.union(*(part.shape for part in parts)) if full else made.shape, kinds=_text_kinds(full=full)
        )

    def _formattedvalue(self, node: ast.FormattedValue, state: State, frame: Frame) -> Value:
        value = self.evaluate(node.value, state, frame)
        return computed(self.evaluate(node.format_spec, state, frame).sources if node.format_spec else NOTHING, value)

    def _binop(self, node: ast.BinOp, state: State, frame: Frame) -> Value:
        left, right = self.evaluate(node.left, state, frame), self.evaluate(node.right, state, frame)
        return self.operate(node.op, left, right, node, state, frame)

    def operate(self, operation: ast.operator, left: Value, right: Value, node: ast.AST, state: State, frame: Frame) -> Value:
        self.fails(left.sources | right.sources, state)
        one, other, fold = left.only, right.only, _OPERATIONS.get(type(operation))
        if one is not None and other is not None and fold is not None and isinstance(one.value, int) and isinstance(other.value, int):
            try:
                made = Const(fold(one.value, other.value))
            except (ArithmeticError, ValueError):
                return computed(NOTHING, left, right)
            sources = left.sources | right.sources
            return Value(made=sources, shape=sources, consts=frozenset({made}), kinds=frozenset({kind_of(made.value)}))
        if left.cells or right.cells or left.classes == TUPLE:
            cell = self.tables.cell(frame.key, id(node), "operation")
            for value in (left, right):
                cell.put(join(self.elements(value), self.elements(value, keys=False)), value.length)
            return Value(cells=frozenset({cell}), kinds=frozenset({"empty", "full"}))
        parts = computed(NOTHING, *(self.elements(value, keys=False) for value in (left, right)))
        return replace(computed(NOTHING, left, right), parts_of=parts.parts_of)

    def _unaryop(self, node: ast.UnaryOp, state: State, frame: Frame) -> Value:
        value = self.evaluate(node.operand, state, frame)
        if isinstance(node.op, ast.Not):
            can, cannot = self.truth(value)
            consts = frozenset(Const(one) for one, holds in ((False, can), (True, cannot)) if holds)
            sources = self.truth_sources(value)
            return Value(made=sources, shape=sources, consts=consts or BOTH)
        self.fails(value.sources, state)
        if value.only is not None and isinstance(node.op, ast.USub) and isinstance(value.only.value, int):
            return Value(made=value.made, shape=value.shape, consts=frozenset({Const(-value.only.value)}))
        return computed(NOTHING, value)

    # Containers

    def _tuple(self, node: ast.Tuple, state: State, frame: Frame) -> Value:
        values = [self.evaluate(part, state, frame) for part in node.elts]
        if not any(isinstance(part, ast.Starred) for part in node.elts):
            attrs = {str(index): value for index, value in enumerate(values)}
            kinds = frozenset({"full" if values else "empty"})
            return Value(attrs=attrs, classes=frozenset({tuple}), kinds=kinds, known=True)
        return self._collected(node, node.elts, values, state, frame)

    def _list(self, node: ast.List | ast.Set, state: State, frame: Frame) -> Value:
        return self._collected(node, node.elts, [self.evaluate(part, state, frame) for part in node.elts], state, frame)

    _set = _list

    def _collected(self, node: ast.expr, parts: list[ast.expr], values: list[Value], state: State, frame: Frame) -> Value:
        cell = self.tables.cell(frame.key, id(node), "made")
        full = any(not isinstance(part, ast.Starred) for part in parts)
        # Equal elements are one, so what a set is made of decides how many there are, and in which order they come.
        is_set = isinstance(node, ast.Set)
        for part, value in zip(parts, values, strict=True):
            if isinstance(part, ast.Starred):
                self.fails(value.sources, state)
                self.consume(value, state)
                cell.put(self.elements(value), value.sources if is_set else value.length)
            else:
                cell.put(value, value.sources if is_set else NOTHING)
        kinds = frozenset({"full"}) if full and isinstance(node, ast.Tuple) else frozenset({"full", "empty"})
        return Value(cells=frozenset({cell}), kinds=kinds, known=True)

    def _dict(self, node: ast.Dict, state: State, frame: Frame) -> Value:
        cell = self.tables.cell(frame.key, id(node), "made")
        for key, part in zip(node.keys, node.values, strict=True):
            value = self.evaluate(part, state, frame)
            if key is None:
                cell.put(self.elements(value, keys=False), value.length)
            else:
                cell.put(value, self.evaluate(key, state, frame).sources)
        return Value(cells=frozenset({cell}), kinds=frozenset({"full", "empty"}), known=True)

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, state: State, frame: Frame) -> Value:
        if has_part(node, (ast.NamedExpr,)):
            raise unreadable("':=' inside of a comprehension is not read", node)
        cell = self.tables.cell(frame.key, id(node), "made")
        first = self.evaluate(node.generators[0].iter, state, frame)
        way = state.copy()
        self.loops += 1
        for index, generator in enumerate(node.generators):
            iterable = self.evaluate(generator.iter, way, frame) if index else first
            self.fails(iterable.sources, way)
            self.point(generator.iter, iterable.length, frame, "each", way)
            if isinstance(node, ast.GeneratorExp):
                # It does something only when it is used up.
                self.point(generator.iter, cell.size, frame, "lazy", way)
            self.consume(iterable, way)
            self.assign(generator.target, self.elements(iterable), way, frame)
            for condition in generator.ifs:
                holds, _, sources = self.split(condition, way, frame)
                way = merge(holds, sources) or way
                self.point(condition, sources, frame, "if", way)
        if isinstance(node, ast.DictComp):
            key = self.evaluate(node.key, way, frame)
            cell.put(self.evaluate(node.value, way, frame), way.control | key.sources)
        else:
            element = self.evaluate(node.elt, way, frame)
            cell.put(element, way.control | element.sources if isinstance(node, ast.SetComp) else way.control)
        cell.once = isinstance(node, ast.GeneratorExp)
        self.loops -= 1
        for name, (_, most) in way.calls.items():
            least, before = state.calls.get(name, (0, 0))
            state.calls[name] = least, MANY if most > before else before
        return Value(cells=frozenset({cell}), kinds=frozenset({"full", "empty"}), known=True)

    _setcomp = _generatorexp = _dictcomp = _listcomp

    def _yield(self, node: ast.Yield, state: State, frame: Frame) -> Value:
        value = self.evaluate(node.value, state, frame) if node.value is not None else wrap(None)
        if frame.yields is None:
            raise unreadable("a generator is not read here", node)
        frame.yields.put(value, state.control)
        return UNKNOWN

    def _yieldfrom(self, node: ast.YieldFrom, state: State, frame: Frame) -> Value:
        value = self.evaluate(node.value, state, frame)
        if frame.yields is None:
            raise unreadable("a generator is not read here", node)
        self.consume(value, state)
        frame.yields.put(self.elements(value), state.control | value.length)
        return UNKNOWN

    def assign(self, target: ast.expr, value: Value, state: State, frame: Frame) -> None:
        raise NotImplementedError

    # Parts

    def _subscript(self, node: ast.Subscript, state: State, frame: Frame) -> Value:
        value, index = self.evaluate(node.value, state, frame), self.evaluate(node.slice, state, frame)
        self.fails(value.sources | index.sources, state)
        if isinstance(node.slice, ast.Slice):
            return self._sliced(value, index, node, frame)
        if any(hasattr(kind, "__missing__") for kind in value.classes):
            # A mapping with defaults has the key from now on, and may call a function for its value.
            self.unknown_call(value, Arguments([index]), node, state, frame, keeps=True)
            self.change(value, NONE_YET, index.sources, node, state, plainly=False)
        only = index.only
        if value.items is not None and only is not None:
            keys = list(value.items)
            try:
                return value.items[keys[only.value]].under(value.shape)
            except (IndexError, TypeError):
                return UNKNOWN
        if (
            value.origins
            and only is not None
            and isinstance(only.value, str)
            and part_hint(next(iter(value.origins)).hint, only.value) is not None
        ):
            return self.attribute(value, only.value, node, state, frame)
        if value.only is not None and only is not None and not value.origins:
            try:
                return wrap(value.only.value[only.value]).under(value.shape | index.shape)
            except Exception:  # noqa: BLE001 - what is not there raises an error when it runs
                return UNKNOWN
        return self.elements(value, keys=False).under(index.sources | (value.length if value.cells else NOTHING))

    def _sliced(self, value: Value, index: Value, node: ast.AST, frame: Frame) -> Value:
        cell = self.tables.cell(frame.key, id(node), "slice")
        if value.origins and not value.cells and not value.attrs and not value.made:
            element = element_hint(next(iter(value.origins)).hint)
            if element is None:
                return computed(NOTHING, value, index)
        cell.put(self.elements(value, keys=False), value.length | index.sources)
        return Value(cells=frozenset({cell}), made=value.made, kinds=frozenset({"full", "empty"}), shape=value.shape, known=not value.made)

    def _slice(self, node: ast.Slice, state: State, frame: Frame) -> Value:
        return computed(NOTHING, *(self.evaluate(part, state, frame) for part in (node.lower, node.upper, node.step) if part is not None))

    def _attribute(self, node: ast.Attribute, state: State, frame: Frame) -> Value:
        return self.attribute(self.evaluate(node.value, state, frame), node.attr, node, state, frame)

    def _call(self, node: ast.Call, state: State, frame: Frame) -> Value:
        if isinstance(node.func, ast.Attribute):
            owner = self.evaluate(node.func.value, state, frame)
            called = self.attribute(owner, node.func.attr, node.func, state, frame, called=True)
        else:
            called = self.evaluate(node.func, state, frame)
        arguments = Arguments()
        for part in node.args:
            value = self.evaluate(part, state, frame)
            if not isinstance(part, ast.Starred):
                if arguments.rest:
                    arguments.rest.append(value)
                else:
                    arguments.positional.append(value)
            elif value.items is not None and not arguments.rest:
                arguments.positional += [one.under(value.shape) for one in value.items.values()]
            else:
                arguments.rest.append(self.elements(value).under(value.length))
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, state, frame)
            if keyword.arg is None:
                arguments.rest.append(self.elements(value, keys=False).under(value.length))
            else:
                arguments.named[keyword.arg] = value
        if arguments.rest:
            # How many there are decides whether they fit the parameters.
            self.fails(NOTHING.union(*(value.sources for value in arguments.rest)), state)
        return self.call(called, arguments, node, state, frame)


def _text_kinds(*, full: bool) -> frozenset[str]:
    return frozenset({"full"}) if full else frozenset({"full", "empty"})


def outcome_classes(value: Value) -> list[type[Outcome]]:
    """Return the outcomes that a value can be."""
    return sorted((one for one in value.classes if issubclass(one, Outcome)), key=lambda one: one.__name__)
