"""Statements of a body: which ways lead through it, and what decides between them."""

from __future__ import annotations

import ast
from typing import Any

from interlock.contract.type_hints import is_named_tuple
from interlock.verification.body import MANY, Catcher, Frame, Raised, Returned, State, merge
from interlock.verification.expressions import Expressions
from interlock.verification.reader import computed, unreadable, wrap
from interlock.verification.sources import NOTHING, Sources
from interlock.verification.values import NONE_YET, UNKNOWN, Value, join

__all__ = ["Statements"]

_MAX_ROUNDS, _UNROLLED = 24, 8


class Statements(Expressions):
    """Reads statements. Each takes the states before it and returns the states after it."""

    def execute(self, body: list[ast.stmt], states: list[State], frame: Frame) -> list[State]:
        for statement in body:
            if not states:
                return []
            following: list[State] = []
            for state in states:
                following += self._statement(statement, state, frame)
            states = self.joined(following, NOTHING) if len(following) > 1 and not self.forking else following
            if self.forking and len(states) > 64:  # noqa: PLR2004 - a bound, like any other
                states = [merged] if (merged := merge(states, NOTHING)) else []
        return states

    def _statement(self, node: ast.stmt, state: State, frame: Frame) -> list[State]:
        found = getattr(self, f"_do_{type(node).__name__.lower()}", None)
        if found is None:
            raise unreadable(f"'{type(node).__name__.lower()}' is not read", node)
        return found(node, state, frame)

    def _do_expr(self, node: ast.Expr, state: State, frame: Frame) -> list[State]:
        self.evaluate(node.value, state, frame)
        return [state]

    def _do_pass(self, node: ast.stmt, state: State, frame: Frame) -> list[State]:
        del node, frame
        return [state]

    _do_nonlocal = _do_pass
    _do_import = _do_importfrom = None

    # Assignment

    def _do_assign(self, node: ast.Assign, state: State, frame: Frame) -> list[State]:
        states = [state]
        if isinstance(node.value, ast.IfExp) and self.forking:
            states = self._branches(node.value, node, state, frame)
            ends: list[State] = []
            for branch, way in states:
                value = self.evaluate(branch, way, frame)
                for target in node.targets:
                    self.assign(target, value, way, frame)
                ends.append(way)
            return ends
        value = self.evaluate(node.value, state, frame)
        for target in node.targets:
            self.assign(target, value, state, frame)
        return [state]

    def _branches(self, node: ast.IfExp, place: ast.AST, state: State, frame: Frame) -> list[Any]:
        holds, fails, _ = self.split(node.test, state, frame)
        del place
        return [*((node.body, way) for way in holds), *((node.orelse, way) for way in fails)]

    def _do_annassign(self, node: ast.AnnAssign, state: State, frame: Frame) -> list[State]:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, state, frame), state, frame)
        return [state]

    def _do_augassign(self, node: ast.AugAssign, state: State, frame: Frame) -> list[State]:
        if not isinstance(node.target, ast.Name):
            target = self.evaluate(_loading(node.target), state, frame)
            value = self.operate(node.op, target, self.evaluate(node.value, state, frame), node, state, frame)
            self.assign(node.target, value, state, frame)
            return [state]
        left, right = self.load(node.target.id, state, frame, node), self.evaluate(node.value, state, frame)
        if left.cells or left.origins:
            # A list or a dict is changed in place, and every name of it sees that.
            self.change(left, self.elements(right, keys=False), right.sources, node, state)
        self.store(
            node.target.id,
            self.operate(node.op, left, right, node, state, frame) if not left.cells else left.under(state.control | right.sources),
            state,
            frame,
        )
        return [state]

    def assign(self, target: ast.expr, value: Value, state: State, frame: Frame) -> None:
        if isinstance(target, ast.Name):
            self.store(target.id, value, state, frame)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value, state, frame)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, state, frame)
        elif isinstance(target, ast.Subscript):
            owner, index = self.evaluate(target.value, state, frame), self.evaluate(target.slice, state, frame)
            self.fails(owner.sources | index.sources, state)
            self.change(owner, value, index.sources | value.shape, target, state)
        else:
            raise unreadable("an attribute is assigned", target)

    def _unpack(self, target: ast.Tuple | ast.List, value: Value, state: State, frame: Frame) -> None:
        parts = target.elts
        is_record = len(value.classes) == 1 and is_named_tuple(next(iter(value.classes))) and value.known
        known = value.attrs if is_record and not value.origins and not value.cells and not value.made else value.items
        if known is not None and len(known) == len(parts) and not any(isinstance(part, ast.Starred) for part in parts):
            for part, one in zip(parts, known.values(), strict=True):
                self.assign(part, one.under(value.shape), state, frame)
            return
        self.fails(value.sources, state)
        self.consume(value, state)
        for part in parts:
            element = self.elements(value)
            if isinstance(part, ast.Starred):
                cell = self.tables.cell(frame.key, id(part), "rest")
                cell.put(element, value.length)
                element = Value(cells=frozenset({cell}), known=True)
            self.assign(part, element.under(value.shape), state, frame)

    def _do_delete(self, node: ast.Delete, state: State, frame: Frame) -> list[State]:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.store(target.id, UNKNOWN, state, frame)
            elif isinstance(target, ast.Subscript):
                owner, index = self.evaluate(target.value, state, frame), self.evaluate(target.slice, state, frame)
                self.fails(owner.sources | index.sources, state)
                self.change(owner, NONE_YET, index.sources, target, state)
            else:
                raise unreadable("an attribute is deleted", target)
        return [state]

    def _do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, state: State, frame: Frame) -> list[State]:
        if node.decorator_list:
            raise unreadable("a function inside the body has a decorator", node)
        self.store(node.name, self.closure(node, state, frame), state, frame)
        return [state]

    _do_asyncfunctiondef = _do_functiondef

    # Ways that leave

    def _do_return(self, node: ast.Return, state: State, frame: Frame) -> list[State]:
        if node.value is None:
            self._return(wrap(None), node, state, frame)
        else:
            self._return_expression(node.value, node, state, frame)
        return []

    def _return_expression(self, value: ast.expr, node: ast.Return, state: State, frame: Frame) -> None:
        if not isinstance(value, ast.IfExp):
            self._return(self.evaluate(value, state, frame), value, state, frame)
            return
        holds, fails, sources = self.split(value.test, state, frame)
        for part, states in ((value.body, holds), (value.orelse, fails)):
            for way in states:
                self.point(value, sources, frame, "return", way)
                self._return_expression(part, node, way, frame)

    def _return(self, value: Value, node: ast.expr | ast.Return, state: State, frame: Frame) -> None:
        frame.leaves += 1
        frame.exits += 1
        for iterable in self.iterating:
            self.consume(iterable, state)
        frame.returned.append(Returned(value, state, node.lineno))

    def _do_raise(self, node: ast.Raise, state: State, frame: Frame) -> list[State]:
        value = self.evaluate(node.exc, state, frame) if node.exc is not None else UNKNOWN
        if node.cause is not None:
            self.evaluate(node.cause, state, frame)
        classes = [one for one in (*value.classes, *value.functions) if isinstance(one, type) and issubclass(one, BaseException)]
        self.tables.raised.append(Raised(node.lineno, value.sources | state.control))
        error = value if node.exc is not None else computed(state.control)
        if self.tables.raises(value.sources, error, classes[0] if len(classes) == 1 else None, state):
            frame.leaves += 1
            frame.exits += 1
        return []

    def _do_assert(self, node: ast.Assert, state: State, frame: Frame) -> list[State]:
        holds, fails, sources = self.split(node.test, state, frame)
        for way in fails:
            if self.tables.raises(sources, computed(sources), AssertionError, way):
                frame.leaves += 1
                frame.exits += 1
        self.tables.raised.append(Raised(node.lineno, sources | state.control))
        return holds

    def _do_break(self, node: ast.Break, state: State, frame: Frame) -> list[State]:
        del node
        frame.leaves += 1
        for iterable in self.iterating[-1:]:
            self.consume(iterable, state)
        frame.broken.append(state)
        return []

    def _do_continue(self, node: ast.Continue, state: State, frame: Frame) -> list[State]:
        del node
        frame.leaves += 1
        frame.continued.append(state)
        return []

    # Choices

    def _do_if(self, node: ast.If, state: State, frame: Frame) -> list[State]:
        before, points = frame.leaves, state.points
        holds, fails, sources = self.split(node.test, state, frame)
        ends: list[State] = []
        for body, states in ((node.body, holds), (node.orelse, fails)):
            for way in states:
                self.point(node, sources, frame, "if", way)
            ends += self.execute(body, states, frame)
        if frame.leaves == before:
            for end in ends:
                end.points = points
        return self.joined(ends, sources)

    def _do_for(self, node: ast.For | ast.AsyncFor, state: State, frame: Frame) -> list[State]:
        iterable = self.evaluate(node.iter, state, frame)
        self.fails(iterable.sources, state)
        self.consume(iterable, state)
        times = _times(iterable)
        if times is not None:
            return self._unrolled(node, times, iterable, state, frame)

        def enter(way: State) -> list[State]:
            self.point(node, iterable.length, frame, "loop", way)
            self.assign(node.target, self.elements(iterable), way, frame)
            return [way]

        return self._loop(node, enter, iterable, state, frame)

    _do_asyncfor = _do_for

    def _unrolled(self, node: ast.For | ast.AsyncFor, times: list[Value], iterable: Value, state: State, frame: Frame) -> list[State]:
        """Run a loop over a literal once for each of its elements."""
        points, leaves, exits = state.points, frame.leaves, frame.exits
        broken, continued = frame.broken, frame.continued
        frame.broken = []
        states = [state]
        for value in times:
            frame.continued = []
            for way in states:
                self.assign(node.target, value.under(iterable.shape), way, frame)
            states = self.joined([*self.execute(node.body, states, frame), *frame.continued], NOTHING)
            if not states:
                break
        return self._left(node, states, (points, leaves, exits, broken, continued), NOTHING, frame)

    def _left(
        self, node: ast.For | ast.AsyncFor | ast.While, states: list[State], before: Any, chosen: Sources, frame: Frame
    ) -> list[State]:
        """Go on after a loop: from its end through `else`, and from every `break`."""
        points, leaves, exits, broken, continued = before
        ends = frame.broken
        # What leaves the `else` of a loop leaves the loop around it.
        frame.broken, frame.continued = broken, continued
        frame.leaves = leaves + frame.exits - exits
        count = frame.leaves
        ends = [*self.execute(node.orelse, states, frame), *ends]
        sources = chosen.union(*(end.control for end in ends))
        if frame.exits == exits and frame.leaves == count:
            for end in ends:
                end.points = points
        return self.joined(ends, sources)

    def _do_while(self, node: ast.While, state: State, frame: Frame) -> list[State]:
        decided: list[Sources] = []

        def enter(way: State) -> list[State]:
            holds, _, sources = self.split(node.test, way, frame)
            decided.append(sources)
            for one in holds:
                self.point(node, sources, frame, "loop", one)
            return holds

        return self._loop(node, enter, UNKNOWN, state, frame)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, enter: Any, iterable: Value, state: State, frame: Frame) -> list[State]:
        """Run a body until nothing new is learned of its variables."""
        length = iterable.length
        points, leaves, exits = state.points, frame.leaves, frame.exits
        broken, continued, forking = frame.broken, frame.continued, self.forking
        frame.broken, frame.continued, self.forking = [], [], False
        self.loops += 1
        self.iterating.append(iterable)
        start = state.copy()
        head = state.copy()
        for round_ in range(_MAX_ROUNDS):
            frame.broken, frame.continued = [], []
            ends = self.execute(node.body, enter(head.copy()), frame)
            after = merge([head, *ends, *frame.continued], length)
            if after is None:
                break
            if round_ > 1:
                after.variables = {name: value.without_consts().shallow(3) for name, value in after.variables.items()}
            after.calls = {name: (start.calls.get(name, (0, 0))[0], most) for name, (_, most) in after.calls.items()}
            after.calls = {
                name: (least, MANY if most > start.calls.get(name, (0, 0))[1] else most) for name, (least, most) in after.calls.items()
            }
            if after.variables == head.variables and after.points == head.points and after.calls == head.calls:
                break
            head = after
        else:
            raise unreadable("a loop does not come to rest", node)
        self.iterating.pop()
        self.loops -= 1
        self.forking = forking
        if isinstance(node, ast.While):
            # The condition is evaluated once more, and does not hold.
            _, left, chosen = self.split(node.test, head, frame)
        else:
            left, chosen = [head], length
        for way in left:
            # What comes after the loop is reached because it ends.
            self.point(node, chosen, frame, "loop", way)
        return self._left(node, left, (points, leaves, exits, broken, continued), head.control | length, frame)

    # Errors

    def _do_try(self, node: ast.Try, state: State, frame: Frame) -> list[State]:
        before, points = frame.leaves, state.points
        point = self.tables.point(node.lineno, NOTHING, frame.key, id(node), "try")
        handled = [one for handler in node.handlers for one in self._handled(handler, state, frame)]
        catcher, start = Catcher(point, tuple(handled)), state.copy()
        log: dict[str, Value] = {}
        forking = self.forking
        if node.handlers:
            state.points |= {point}
            self.tables.catchers.append(catcher)
            self.forking = False
        frame.logs.append(log)
        try:
            ends = self.execute(node.body, [state.copy()], frame)
        finally:
            self.forking = forking
            if node.handlers:
                self.tables.catchers.pop()
        ends = self.execute(node.orelse, ends, frame)
        for handler in node.handlers:
            if catcher.calls is not None:
                ends += self.execute(handler.body, [self._arrived(handler, catcher, start, log, frame)], frame)
        frame.logs.pop()
        if frame.leaves == before:
            for end in ends:
                end.points = points
        if node.finalbody:
            if any(isinstance(part, ast.Return | ast.Break | ast.Continue | ast.Raise) for one in node.finalbody for part in ast.walk(one)):
                raise unreadable("'finally' changes where the body goes", node)
            # It runs wherever the body goes, also where it leaves: with any value that the variables have had.
            leaving = start.copy()
            for name, value in log.items():
                leaving.variables[name] = join(start.variables.get(name, NONE_YET), value, point.sources)
            self.execute(node.finalbody, [leaving], frame)
            ends = self.execute(node.finalbody, ends, frame)
        return self.joined(ends, point.sources)

    def _arrived(self, handler: ast.ExceptHandler, catcher: Catcher, start: State, log: dict[str, Value], frame: Frame) -> State:
        """Return the state in which a handler begins: the body can have stopped anywhere."""
        arrived = start.copy()
        arrived.points = start.points | {catcher.point}
        arrived.calls = dict(catcher.calls or {})
        for name, value in log.items():
            arrived.variables[name] = join(start.variables.get(name, NONE_YET), value, catcher.point.sources).without_consts()
        if handler.name is not None:
            self.assign(ast.Name(handler.name, ast.Store()), catcher.error if catcher.error != NONE_YET else UNKNOWN, arrived, frame)
        return arrived

    def _handled(self, handler: ast.ExceptHandler, state: State, frame: Frame) -> list[type[BaseException]]:
        if handler.type is None:
            return [BaseException]
        value = self.evaluate(handler.type, state.copy(), frame)
        parts = value.attrs.values() if value.attrs is not None else self._constants(value)
        found = [one for part in parts for one in part.functions if isinstance(one, type) and issubclass(one, BaseException)]
        return found or [BaseException]

    def _constants(self, value: Value) -> list[Value]:
        if value.only is not None and isinstance(value.only.value, tuple):
            return [wrap(one) for one in value.only.value]  # pyright: ignore[reportUnknownVariableType]
        return [value]


def _times(iterable: Value) -> list[Value] | None:
    """Return the elements of a literal, or of a range of constants, if they are few."""
    return list(iterable.items.values()) if iterable.items is not None and len(iterable.items) <= _UNROLLED else None


def _loading(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Subscript):
        return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    raise unreadable("an attribute is assigned", target)
