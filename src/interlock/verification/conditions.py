"""Conditions: what decides whether they hold, and what is known where they do."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from interlock.verification.attributes import Attributes
from interlock.verification.body import Fact, Frame, State, has_part, merge
from interlock.verification.sources import NOTHING, Sources
from interlock.verification.values import NONE_YET, Const, Value, join, kind_of

__all__ = ["BOTH", "Conditions"]

_COMPARES: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.NotEq: ast.Eq, ast.IsNot: ast.Is, ast.NotIn: ast.In}
BOTH = frozenset({Const(True), Const(False)})


class Conditions(Attributes):
    """Reads conditions."""

    def _compare(self, node: ast.Compare, state: State, frame: Frame) -> Value:
        left = self.evaluate(node.left, state, frame)
        values: list[Value] = []
        way, ends, decided = state, list[State](), left.sources
        for one in node.comparators:
            value = self.evaluate(one, way, frame)
            self.consume(value, way, left.sources)
            values.append(value)
            decided |= value.sources
            if len(values) < len(node.comparators):
                # A chain of comparisons stops at the first that does not hold.
                ends.append(way)
                way = way.copy()
                self.point(one, decided, frame, "chain", way)
        if ends:
            way.points = state.points
            state.become(merge([*ends, way], decided) or state)
        sources, consts = NOTHING, BOTH
        for index, (operation, right) in enumerate(zip(node.ops, values, strict=True)):
            one = left if index == 0 else values[index - 1]
            is_none = isinstance(operation, ast.Is | ast.IsNot) and (right.only == Const(None) or one.only == Const(None))
            found = one.choosing | right.choosing if is_none else one.sources | right.sources
            sources |= found
            self.fails(found, state)
            consts = self._compared(operation, one, right) if len(values) == 1 else BOTH
        return Value(made=sources, shape=sources, consts=consts)

    def _compared(self, operation: ast.cmpop, left: Value, right: Value) -> frozenset[Const]:
        if isinstance(operation, ast.Is | ast.IsNot) and right.only == Const(None):
            answers = {(kind == "none") == isinstance(operation, ast.Is) for kind in left.kinds}
            return frozenset(map(Const, answers)) or BOTH
        choices = self._members(right) if isinstance(operation, ast.In | ast.NotIn) else right.consts
        if left.consts is None or choices is None:
            return BOTH
        answers = set[Const]()
        for one in left.consts:
            for other in [choices] if isinstance(operation, ast.In | ast.NotIn) else choices:
                against = tuple(part.value for part in other) if isinstance(other, frozenset) else other.value
                if isinstance(operation, ast.Is | ast.IsNot) and not isinstance(against, bool | type(None)):
                    return BOTH
                try:
                    answers.add(Const(bool(_COMPARES[type(operation)](one.value, against))))
                except Exception:  # noqa: BLE001 - constants may not be comparable; then nothing is known
                    return BOTH
        return frozenset(answers) or BOTH

    def _members(self, value: Value) -> frozenset[Const] | None:
        """Return the constants of a literal tuple, list or set, or of a constant of the module."""
        if value.origins or value.made:
            return None
        if value.only is not None and isinstance(value.only.value, tuple | list | set | frozenset | dict):
            return frozenset(Const(one) for one in value.only.value)  # pyright: ignore[reportUnknownVariableType]
        if value.items is not None:
            parts = [part.only for part in value.items.values()]
            return frozenset(part for part in parts if part is not None) if None not in parts else None
        return None

    def split(self, test: ast.expr, state: State, frame: Frame) -> tuple[list[State], list[State], Sources]:
        """Evaluate a condition. Return the states in which it holds, those in which it does not, and what decides."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            holds, fails, sources = self.split(test.operand, state, frame)
            return fails, holds, sources
        if isinstance(test, ast.BoolOp):
            return self._split_bool(test, state, frame)
        value = self.evaluate(test, state, frame)
        can, cannot = self.truth(value)
        holds = [self._learned(test, state.copy(), frame, value, holds=True)] if can else []
        fails = [self._learned(test, state.copy(), frame, value, holds=False)] if cannot else []
        return holds, fails, self.truth_sources(value)

    def _split_bool(self, test: ast.BoolOp, state: State, frame: Frame) -> tuple[list[State], list[State], Sources]:
        is_and = isinstance(test.op, ast.And)
        current, done, sources = [state], list[State](), NOTHING
        for part in test.values:
            following: list[State] = []
            for one in current:
                way = one.copy()
                if sources:
                    self.point(part, sources, frame, "and", way)
                holds, fails, decided = self.split(part, way, frame)
                sources |= decided
                go_on, stop = (holds, fails) if is_and else (fails, holds)
                for each in (*go_on, *stop):
                    each.points = one.points
                following += go_on
                done += stop
            current = self.joined(following, sources)
        return (current, self.joined(done, sources), sources) if is_and else (self.joined(done, sources), current, sources)

    def joined(self, states: list[State], sources: Sources) -> list[State]:
        """Merge states of one place, unless ways are followed one by one."""
        if self.forking and len(states) <= 48:  # noqa: PLR2004 - a bound, like any other
            return states
        merged = merge(states, sources)
        return [] if merged is None else [merged]

    def _learned(self, test: ast.expr, state: State, frame: Frame, value: Value, *, holds: bool) -> State:
        if not isinstance(test, ast.Compare):
            self.learn(value, Fact(frozenset({"full"}) if holds else frozenset({"none", "empty"}), None), state)
            return state
        if len(test.ops) != 1 or has_part(test, (ast.Call, ast.Await, ast.NamedExpr)):
            return state
        quiet, self.tables.catchers = self.tables.catchers, []
        left = self.evaluate(test.left, state.copy(), frame)
        right = self.evaluate(test.comparators[0], state.copy(), frame)
        self.tables.catchers = quiet
        operation = type(test.ops[0])
        if operation in _NEGATED:
            operation, holds = _NEGATED[operation], not holds
        if operation is ast.Is and right.only == Const(None):
            self.learn(left, Fact(frozenset({"none"}) if holds else frozenset({"empty", "full"}), None), state)
        elif left.consts is not None:
            kept = {one for one in left.consts if Const(holds) in self._compared(operation(), Value(consts=frozenset({one})), right)}
            self.learn(left, Fact(frozenset(kind_of(one.value) for one in kept), frozenset(kept)), state)
        elif operation is ast.Eq and holds and right.only is not None:
            self.learn(left, Fact(frozenset({kind_of(right.only.value)}), frozenset({right.only})), state)
        return state

    def _boolop(self, node: ast.BoolOp, state: State, frame: Frame) -> Value:
        is_and = isinstance(node.op, ast.And)
        result, sources = NONE_YET, NOTHING
        way, ends = state.copy(), list[State]()
        for index, part in enumerate(node.values):
            if sources:
                self.point(part, sources, frame, "value", way)
            value = self.evaluate(part, way, frame)
            way.points = state.points
            ends.append(way.copy())
            last = index == len(node.values) - 1
            can, cannot = self.truth(value)
            if last or (cannot if is_and else can):
                # An operand that stops the evaluation is a result only as a falsy or a truthy value.
                result = join(result, value if last else _stopping(value, truthy=not is_and), sources)
            if not last and not (can if is_and else cannot):
                break
            sources |= self.truth_sources(value)
        state.become(merge(ends, sources) or state)
        return result.under(sources)

    def _ifexp(self, node: ast.IfExp, state: State, frame: Frame) -> Value:
        holds, fails, sources = self.split(node.test, state, frame)
        points = state.points
        result, ends = NONE_YET, list[State]()
        for part, states in ((node.body, holds), (node.orelse, fails)):
            for way in states:
                self.point(node, sources, frame, "choice", way)
                result = join(result, self.evaluate(part, way, frame), sources)
                way.points = points
                ends.append(way)
        state.become(merge(ends, sources) or state)
        return result if len(holds) + len(fails) == 1 else result.under(sources)


def _stopping(value: Value, *, truthy: bool) -> Value:
    """Return a value that is known to be true, or to be false."""
    kinds = value.kinds & (frozenset({"full"}) if truthy else frozenset({"none", "empty"}))
    consts = None if value.consts is None else frozenset(one for one in value.consts if (kind_of(one.value) == "full") == truthy)
    return replace(value, consts=consts or None, kinds=kinds or value.kinds)
