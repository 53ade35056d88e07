"""The machine of a graph: every path that a turn can take.

A state is a node and what is known of the fields that routing depends on. A step is one way through the node's body. The machine has every
path of every turn, and some that no turn takes, where less is known than would be needed to rule them out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from interlock.capabilities.capability import methods
from interlock.contract import Graph
from interlock.verification.body import MANY, Call, Counts, Fact, Tables, Unreadable
from interlock.verification.flows import GraphFlow
from interlock.verification.nodes import End, follow_node
from interlock.verification.values import ANY_KIND, FULL, Const, Value, kind_of

__all__ = ["Facts", "Machine", "MachineState", "Step"]

Facts: TypeAlias = frozenset[tuple[str, Fact]]
"""What is known of the paths that routing depends on."""

_MAX_NUMBER, _MAX_STATES, _MAX_COUNT = 4, 4_000, 60
_PLAIN = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class MachineState:
    """A node that is about to run, and what is known."""

    node: str
    facts: Facts

    def known(self, path: str) -> Fact | None:
        return dict(self.facts).get(path)


@dataclass(frozen=True)
class Step:
    """One way through a node: its outcome, what is known then, the calls that were made, and the next state (None is END)."""

    outcome: str
    writes: frozenset[str]
    calls: Counts = field(hash=False)
    facts: Facts
    target: MachineState | None


@dataclass
class Visit:
    """A node in one state: its steps, and every call that it can make, also on a way that fails."""

    steps: list[Step]
    most: dict[str, int]
    calls: list[Call]


@dataclass
class Followed:
    """The nodes of a graph that were followed already, with what was known then."""

    ends: dict[tuple[str, Facts], tuple[list[End], list[Call]]] = field(
        default_factory=dict[tuple[str, Facts], tuple[list[End], list[Call]]]
    )
    tables: dict[str, Tables] = field(default_factory=dict[str, Tables])


class Machine:
    """The machine of a graph, for one value of what is given. `inside` are the counts of graphs behind capabilities."""

    def __init__(
        self,
        flow: GraphFlow,
        paths: Iterable[str] = (),
        *,
        given: Mapping[str, Fact] | None = None,
        inside: Mapping[str, Counts] | None = None,
        known: Followed | None = None,
    ) -> None:
        self.flow = flow
        self.graph: Graph = flow.graph
        self.given = dict(given or {})
        self.inside = dict(inside or {})
        self.asked = {*paths, *self.given}
        self.paths = routing_paths(flow) | self.asked
        self.known = known if known is not None else Followed()
        self.live = self._live()
        self.visits: dict[MachineState, Visit] = {}
        self.before: dict[MachineState, tuple[MachineState, str] | None] = {}
        self.entry = MachineState(self.graph.entry, self._initial())
        self._build()

    def _build(self) -> None:
        queue = [self.entry]
        self.before[self.entry] = None
        for state in queue:
            if len(queue) > _MAX_STATES:
                raise Unreadable(f"the machine has more than {_MAX_STATES:,} states", 0)
            visit = self.visits[state] = self._visit(state)
            for step in visit.steps:
                if step.target is not None and step.target not in self.before:
                    self.before[step.target] = (state, step.outcome)
                    queue.append(step.target)

    def _initial(self) -> Facts:
        """Return what is known when a turn starts: the initial values of fields that no caller sets and no session keeps."""
        found: dict[str, Fact] = {}
        outside = {*self.graph.state.takes, *self.graph.state.takes_from_parent, *self.flow.persists}
        for path in self.paths:
            root, *parts = path.split(".")
            declared = self.graph.state.fields.get(root)
            if declared is not None and root not in outside and declared.initial is not None:
                fact = _real_fact(declared.initial(), parts)
                if fact is not None:
                    found[path] = fact
        return frozenset((found | self.given).items())

    def _visit(self, state: MachineState) -> Visit:
        node = self.graph.nodes[state.node]
        reads = {read.field.name for read in node.reads}
        if not self._matters(state.node):
            reads = set[str]()
        relevant = frozenset((path, fact) for path, fact in state.facts if path.partition(".")[0] in reads)
        key = (state.node, relevant)
        if key not in self.known.ends:
            self.known.ends[key] = self._follow(state.node, dict(relevant))
        ends, calls = self.known.ends[key]
        steps = {step: None for end in ends for step in self._steps(state, end)}
        most: dict[str, int] = {}
        for call in calls:
            count = min(MANY, call.before.get(call.name, (0, 0))[1] + 1)
            most[call.name] = max(count, most.get(call.name, 0))
        for end in ends:
            for name, (_, greatest) in end.calls.items():
                most[name] = max(greatest, most.get(name, 0))
        return Visit(list(steps), _spread(most, self.inside), calls)

    def _live(self) -> dict[str, set[str]]:
        """Return for each node the fields that it, or a node after it, reads before they are written again, and for which that matters."""
        roots = {path.partition(".")[0] for path in self.paths}
        live: dict[str, set[str]] = {name: set() for name in self.graph.nodes}
        changed = True
        while changed:
            changed = False
            for name, node in self.graph.nodes.items():
                found = set[str]()
                for transition in node.transitions:
                    after = live[transition.target] if transition.target is not None else set[str]()
                    found |= after - (transition.fields.keys() - self.graph.state.reduced)
                    if self.flow.nodes[name].decisions or not (after & roots).isdisjoint(transition.fields):
                        found |= {read.field.name for read in node.reads}
                if not found <= live[name]:
                    live[name] |= found
                    changed = True
        return live

    def _matters(self, name: str) -> bool:
        """Return whether what is known can make a difference in a node: it decides, or writes what others decide on."""
        flow = self.flow.nodes[name]
        after = set[str]().union(*(self.live[target] for target in flow.node.targets if target is not None))
        asked = {path.partition(".")[0] for path in self.asked}
        return bool(flow.decisions) or not (after | asked).isdisjoint(flow.node.writes)

    def _follow(self, name: str, facts: dict[str, Fact]) -> tuple[list[End], list[Call]]:
        node = self.graph.nodes[name]
        if self.flow.nodes[name].is_read:
            forking = bool(self.flow.nodes[name].decisions)
            return follow_node(node, facts, self.known.tables.setdefault(name, Tables()), forking=forking)
        counts = {f"{grant.name}.{method}": (0, MANY) for grant in node.grants for method in methods(grant.capability)}
        ends = [
            End(one.name, one.target, 0, {written: Value() for written in one.fields}, frozenset(), frozenset(), counts, {})
            for one in node.transitions
        ]
        return ends, []

    def _steps(self, state: MachineState, end: End) -> Iterator[Step]:
        known = {**dict(state.facts), **end.facts}
        after: dict[str, Fact] = {}
        for path, fact in known.items():
            if (
                path in self.paths
                and (limited := _limited(fact)) is not None
                and not any(name in end.fields for name in re.findall(r"[A-Za-z_]\w*", path.split(".")[0] if "(" not in path else path))
            ):
                after[path] = limited
        for path in self.paths:
            root, *parts = path.split(".")
            if root in end.fields and root not in self.graph.state.reduced and "(" not in path:
                fact = _value_fact(end.fields[root], parts, end.facts)
                if fact is not None:
                    after[path] = fact
        after |= self.given
        live = self.live[end.target] if end.target is not None else set[str]()
        kept = frozenset(
            (path, fact) for path, fact in after.items() if "(" in path or path.partition(".")[0] in live or path in self.asked
        )
        target = None if end.target is None else MachineState(end.target, kept)
        at_end = frozenset((path, fact) for path, fact in known.items() if "#" not in path or path in self.paths)
        yield Step(end.outcome, frozenset(end.fields), _spread_counts(end.calls, self.inside), at_end, target)

    def path_to(self, state: MachineState) -> list[str]:
        """Return the nodes of a shortest path to a state."""
        path = [state.node]
        earlier = self.before[state]
        while earlier is not None:
            state, outcome = earlier
            path.insert(0, state.node if len(self.graph.nodes[state.node].transitions) == 1 else f"{state.node} ({outcome})")
            earlier = self.before[state]
        return path

    def counts(self) -> Counts:
        """Return how often each capability is called in a turn that ends, at least and at most."""
        names = {name for visit in self.visits.values() for name in visit.most}
        return {name: (self._extreme(name, least=True), self._extreme(name, least=False)) for name in sorted(names)}

    def _extreme(self, name: str, *, least: bool) -> int:
        best: dict[MachineState, int] = {}
        choose: Callable[[int, int], int] = min if least else max
        changed = True
        while changed:
            changed = False
            for state, visit in self.visits.items():
                for step in visit.steps:
                    rest = 0 if step.target is None else best.get(step.target)
                    if rest is None:
                        continue
                    count = step.calls.get(name, (0, 0))[0 if least else 1] + rest
                    count = MANY if count > _MAX_COUNT else count
                    known = best.get(state)
                    if known is None or choose(count, known) != known:
                        best[state] = count
                        changed = True
        return best.get(self.entry, 0)


def routing_paths(flow: GraphFlow) -> set[str]:
    """Return the paths into fields that decisions depend on."""
    found: set[str] = set()
    for node in flow.nodes.values():
        for source in node.decisions:
            if source.root in flow.fields and "[]" not in source.name:
                found.add(source.name.removesuffix("?"))
    return found


def _limited(fact: Fact) -> Fact | None:
    consts = fact.consts
    if consts is not None:
        numbers = [one.value for one in consts if isinstance(one.value, int) and not isinstance(one.value, bool)]
        if len(consts) != 1 or not all(isinstance(one.value, _PLAIN) for one in consts) or any(abs(one) > _MAX_NUMBER for one in numbers):
            consts = None
    # What leaves more than one question open is forgotten, so that the machine stays small.
    kinds = fact.kinds if "full" not in fact.kinds or fact.kinds == FULL else ANY_KIND
    found = Fact(kinds, consts)
    return None if found == Fact() else found


def _value_fact(value: Value, parts: list[str], facts: Mapping[str, Fact]) -> Fact | None:
    """Return what is known of a part of a value that is written to a field."""
    if not parts:
        if len(value.origins) == 1 and value.attrs is None and not value.cells and value.consts is None:
            (origin,) = value.origins
            known = facts.get(f"{origin.name}#{origin.instance}" if origin.instance else origin.name)
            if known is not None:
                return _limited(known)
        return _limited(Fact(value.kinds, value.consts)) if value.kinds or value.consts else None
    first, *rest = parts
    if value.attrs is not None and first in value.attrs and not value.origins:
        return _value_fact(value.attrs[first], rest, facts)
    if value.only is not None and not value.origins:
        return _real_fact(value.only.value, parts)
    if len(value.origins) == 1 and value.attrs is None:
        (origin,) = value.origins
        known = facts.get(".".join([origin.name, *parts]) + (f"#{origin.instance}" if origin.instance else ""))
        return None if known is None else _limited(known)
    return None


def _real_fact(value: Any, parts: list[str]) -> Fact | None:
    for part in parts:
        if value is None or not hasattr(value, part):
            return None
        value = getattr(value, part)
    kinds = frozenset({kind_of(value)})
    return _limited(Fact(kinds, frozenset({Const(value)}) if isinstance(value, _PLAIN) else None))


def _spread(most: Mapping[str, int], inside: Mapping[str, Counts]) -> dict[str, int]:
    counts = _spread_counts({name: (0, count) for name, count in most.items()}, inside)
    return {name: greatest for name, (_, greatest) in counts.items()}


def _spread_counts(calls: Counts, inside: Mapping[str, Counts]) -> Counts:
    """Add the calls that graphs behind capabilities make."""
    found = dict(calls)
    for name, (least, most) in calls.items():
        for inner, (fewest, greatest) in inside.get(name.partition(".")[0], {}).items():
            low, high = found.get(inner, (0, 0))
            found[inner] = min(MANY, low + least * fewest), min(MANY, high + most * greatest)
    return found
