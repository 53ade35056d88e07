"""Claims of a document about the paths of a graph: parsed, and checked on every path of its machine."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from interlock.verification.body import MANY, Fact
from interlock.verification.machine import Machine, MachineState, Step, Visit
from interlock.verification.values import Const, kind_of

__all__ = ["Claim", "ClaimResult", "ClaimUnknown", "Names", "check_claim", "parse_claim", "parse_given"]

_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("at", r"at (?P<node>\S+): (?P<path>\S+) = (?P<value>.+)"),
        ("guarded", r"(?P<a>.+) only if (?P<not>not )?(?P<guard>\w+(?:\(.*\))?)"),
        ("chosen", r"(?P<a>.+) only if (?P<path>\S+) = (?P<value>.+)"),
        ("between", r"(?P<c>.+) between (?P<a>.+) and (?P<b>.+)"),
        ("directly", r"(?P<a>.+) directly before (?P<b>.+)"),
        ("before", r"(?P<a>.+) before (?P<b>.+)"),
        ("leads", r"(?P<a>.+) leads to (?P<b>.+)"),
        ("most", r"at most (?P<n>\d+) (?P<a>.+?)(?: without (?P<b>.+))?"),
        ("never", r"never (?P<a>.+?)(?: after (?P<b>.+))?"),
        ("passes", r"every path passes (?P<a>.+)"),
        ("ends", r"every path ends with (?P<a>.+)"),
        ("reach", r"(?P<a>.+) can reach (?P<b>.+)"),
    )
)


class ClaimUnknown(Exception):
    """A claim that cannot be read, with a suggestion."""


@dataclass(frozen=True)
class Thing:
    """What a claim is about: nodes, outcomes, calls of capabilities, or writes of fields. Several are alternatives."""

    nodes: frozenset[str] = frozenset()
    outcomes: frozenset[tuple[str, str]] = frozenset()
    calls: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Claim:
    """A claim: its form, what it is about, and its text."""

    text: str
    kind: str
    things: Mapping[str, Thing]
    number: int = 0
    node: str = ""
    path: str = ""
    value: Any = None
    guard: str = ""
    negated: bool = False

    @property
    def paths(self) -> set[str]:
        """The paths that the machine has to keep track of for this claim."""
        return {self.path} if self.path else set()


@dataclass(frozen=True)
class ClaimResult:
    """Whether a claim holds. A path that breaks it is the shortest one; a vacuous claim is about something that never happens."""

    holds: bool
    path: tuple[str, ...] = ()
    vacuous: bool = False


def parse_given(text: str) -> list[tuple[str, Fact]]:
    """Parse `user_context.max_retries = 0..4` into the facts to check one after the other. Empty text gives no fact."""
    if not text:
        return []
    found = re.fullmatch(r"(\S+) = (-?\d+)\.\.(-?\d+)", text)
    if found is None:
        raise ClaimUnknown(f"'given {text}' cannot be read. Write 'given PATH = 0..4'.")
    return [(found[1], _fact(number)) for number in range(int(found[2]), int(found[3]) + 1)]


def parse_claim(text: str, machine_names: Names) -> Claim:
    """Parse a line. Raises ClaimUnknown with a suggestion."""
    for kind, pattern in _FORMS:
        match = pattern.fullmatch(text)
        if match is None:
            continue
        parts = match.groupdict()
        if kind in {"at", "chosen"}:
            machine_names.check_path(parts["path"])
        if kind == "at" and parts["node"] not in machine_names.nodes:
            raise machine_names.unknown(parts["node"])
        if kind == "guarded" and parts["guard"].partition("(")[0] not in machine_names.guards:
            raise ClaimUnknown(f"no node uses a guard '{parts['guard']}'{_close(parts['guard'], machine_names.guards)}.")
        things = {name: machine_names.thing(parts[name]) for name in ("a", "b", "c") if parts.get(name)}
        return Claim(
            text,
            kind,
            things,
            int(parts.get("n") or 0),
            parts.get("node") or "",
            parts.get("path") or "",
            _value(parts["value"]) if parts.get("value") else None,
            parts.get("guard") or "",
            bool(parts.get("not")),
        )
    raise ClaimUnknown("it has none of the forms of a claim, such as 'A before B' or 'at most 1 A'.")


class Names:
    """The names that claims about a graph can use."""

    def __init__(
        self, nodes: Mapping[str, Iterable[str]], capabilities: Mapping[str, Iterable[str]], fields: Iterable[str], guards: Iterable[str]
    ) -> None:
        self.nodes = {name: frozenset(outcomes) for name, outcomes in nodes.items()}
        self.capabilities = {name: frozenset(methods) for name, methods in capabilities.items()}
        self.fields = frozenset(fields)
        self.guards = frozenset(guards)

    def unknown(self, name: str) -> ClaimUnknown:
        known = [*self.nodes, *self.capabilities, *(f"{node}.{one}" for node, outcomes in self.nodes.items() for one in outcomes)]
        return ClaimUnknown(f"'{name}' is not a node, an outcome, a capability or a field of this graph{_close(name, known)}.")

    def check_path(self, path: str) -> None:
        if path.partition(".")[0] not in self.fields:
            raise ClaimUnknown(f"'{path}' does not begin with a field{_close(path.partition('.')[0], self.fields)}.")

    def thing(self, text: str) -> Thing:
        """Parse what a claim is about."""
        nodes, outcomes, calls, fields = set[str](), set[tuple[str, str]](), set[str](), set[str]()
        for part in (one.strip() for one in text.split(",")):
            first, _, rest = part.partition(".")
            if part.startswith("writes "):
                name = part.removeprefix("writes ").strip()
                if name not in self.fields:
                    raise ClaimUnknown(f"'{name}' is not a field{_close(name, self.fields)}.")
                fields.add(name)
            elif part in self.nodes:
                nodes.add(part)
            elif part in self.capabilities:
                calls |= {f"{part}.{method}" for method in self.capabilities[part]}
            elif rest in self.nodes.get(first, ()):
                outcomes.add((first, rest))
            elif rest in self.capabilities.get(first, ()):
                calls.add(part)
            else:
                raise self.unknown(part)
        return Thing(frozenset(nodes), frozenset(outcomes), frozenset(calls), frozenset(fields))


def _close(name: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(name, list(known), n=1)
    return f"; do you mean '{found[0]}'?" if found else ""


def _value(text: str) -> Any:
    words = {"True": True, "False": False, "None": None, "none": None}
    if text in words:
        return words[text]
    return int(text) if re.fullmatch(r"-?\d+", text) else text.strip("'\"")


def _fact(value: Any) -> Fact:
    return Fact(frozenset({kind_of(value)}), frozenset({Const(value)}))


# Events: what happens in a node, in three moments

Flag: TypeAlias = Any
_BROKEN = object()


@dataclass(frozen=True)
class Moment:
    """A moment of a step: the node is entered, calls are made, or it ends. `may` and `must` say what happens then."""

    state: MachineState
    visit: Visit
    step: Step | None
    at: int

    def most(self, thing: Thing) -> int:
        """Return how often it happens here at most."""
        if self.at == 0:
            return int(self.state.node in thing.nodes)
        if self.at == 1:
            known = self.visit.most if self.step is None else {name: most for name, (_, most) in self.step.calls.items()}
            return min(MANY, sum(known.get(name, 0) for name in thing.calls))
        if self.step is None:
            return 0
        return int((self.state.node, self.step.outcome) in thing.outcomes or not thing.fields.isdisjoint(self.step.writes))

    def may(self, thing: Thing) -> bool:
        return self.most(thing) > 0

    def preceded(self, one: Thing, other: Thing) -> bool:
        """Return whether each call of the other in this node comes after a call of the one in it, for certain."""
        calls = [call for call in self.visit.calls if call.name in other.calls]
        direct = {name for name in other.calls if self.visit.most.get(name, 0)} <= {call.name for call in calls}
        return direct and all(any(call.before.get(name, (0, 0))[0] > 0 for name in one.calls) for call in calls)

    def must(self, thing: Thing) -> bool:
        """Return whether it happens here for certain."""
        if self.at == 1:
            return self.step is not None and any(self.step.calls.get(name, (0, 0))[0] > 0 for name in thing.calls)
        return self.may(thing)


OnMoment: TypeAlias = Callable[[Flag, Moment], Flag]


def _explore(machine: Machine, start: Flag, on: OnMoment, at_end: Callable[[Flag], bool] = lambda _: True) -> tuple[str, ...] | None:
    """Follow every path of the machine with a flag. Return a shortest path on which it breaks, or None."""
    first = (machine.entry, start)
    parents: dict[tuple[MachineState, Flag], tuple[tuple[MachineState, Flag], str] | None] = {first: None}
    queue = [first]
    for key in queue:
        state, flag = key
        visit = machine.visits[state]
        entered = on(flag, Moment(state, visit, None, 0))
        # A node that fails has made any of its calls, and what was still to come is excused.
        if entered is _BROKEN or on(entered, Moment(state, visit, None, 1)) is _BROKEN:
            return _shown(machine, parents, key, "")
        for step in visit.steps:
            after = on(entered, Moment(state, visit, step, 1))
            after = after if after is _BROKEN else on(after, Moment(state, visit, step, 2))
            if after is _BROKEN:
                return _shown(machine, parents, key, step.outcome)
            if step.target is None:
                if not at_end(after):
                    return (*_shown(machine, parents, key, step.outcome), "END")
            elif (step.target, after) not in parents:
                parents[step.target, after] = (key, step.outcome)
                queue.append((step.target, after))
    return None


def _shown(machine: Machine, parents: Mapping[Any, Any], key: Any, outcome: str) -> tuple[str, ...]:
    def named(node: str, by: str) -> str:
        return f"{node} ({by})" if by and len(machine.graph.nodes[node].transitions) > 1 else node

    path = [named(key[0].node, outcome)]
    while parents[key] is not None:
        key, by = parents[key]
        path.insert(0, named(key[0].node, by))
    return tuple(path)


def _happens(machine: Machine, thing: Thing) -> bool:
    return _explore(machine, False, lambda _, moment: _BROKEN if moment.may(thing) else False) is not None


def check_claim(claim: Claim, machine: Machine) -> ClaimResult:
    """Check a claim on every path of a machine."""
    found = _CHECKS[claim.kind](claim, machine)
    if found.holds and _subject(claim) is not None and not _happens(machine, _subject(claim) or Thing()):
        return ClaimResult(holds=False, vacuous=True)
    return found


def _subject(claim: Claim) -> Thing | None:
    """Return what has to happen on some path, or the claim says nothing."""
    if claim.kind in {"before", "directly"}:
        return claim.things["b"]
    if claim.kind == "never":
        return claim.things.get("b")
    if claim.kind in {"leads", "guarded", "chosen"} or (claim.kind == "most" and claim.number > 0):
        return claim.things["a"]
    return None


def _found(path: tuple[str, ...] | None) -> ClaimResult:
    return ClaimResult(path is None, path or ())


def _before(claim: Claim, machine: Machine) -> ClaimResult:
    a, b = claim.things["a"], claim.things["b"]

    def on(seen: bool, moment: Moment) -> Flag:  # noqa: FBT001 - a flag
        if not seen and moment.may(b) and not (moment.at == 1 and moment.preceded(a, b)):
            return _BROKEN
        return seen or moment.must(a)

    return _found(_explore(machine, False, on))


def _leads(claim: Claim, machine: Machine) -> ClaimResult:
    a, b = claim.things["a"], claim.things["b"]
    return _found(_explore(machine, False, lambda owed, moment: moment.may(a) or (owed and not moment.must(b)), lambda owed: not owed))


def _between(claim: Claim, machine: Machine) -> ClaimResult:
    a, b, c = claim.things["a"], claim.things["b"], claim.things["c"]

    def on(armed: bool, moment: Moment) -> Flag:  # noqa: FBT001 - a flag
        return _BROKEN if armed and moment.may(b) else moment.may(a) or (armed and not moment.must(c))

    def meets(armed: bool, moment: Moment) -> Flag:  # noqa: FBT001 - a flag
        return _BROKEN if armed and moment.may(b) else armed or moment.may(a)

    if _explore(machine, False, meets) is None:
        return ClaimResult(holds=False, vacuous=True)
    return _found(_explore(machine, False, on))


def _directly(claim: Claim, machine: Machine) -> ClaimResult:
    a, b = claim.things["a"], claim.things["b"]

    def on(flag: tuple[bool, bool], moment: Moment) -> Flag:
        last, now = (flag[1], False) if moment.at == 0 else flag
        return _BROKEN if not last and moment.may(b) else (last, now or moment.must(a))

    return _found(_explore(machine, (False, False), on))


def _never(claim: Claim, machine: Machine) -> ClaimResult:
    a, b = claim.things["a"], claim.things.get("b")

    def on(after: bool, moment: Moment) -> Flag:  # noqa: FBT001 - a flag
        return _BROKEN if after and moment.may(a) else after or (b is not None and moment.may(b))

    return _found(_explore(machine, b is None, on))


def _most(claim: Claim, machine: Machine) -> ClaimResult:
    a, b = claim.things["a"], claim.things.get("b")

    def on(count: int, moment: Moment) -> Flag:
        count = 0 if b is not None and moment.must(b) else count + moment.most(a)
        return _BROKEN if count > claim.number else count

    return _found(_explore(machine, 0, on))


def _passes(claim: Claim, machine: Machine) -> ClaimResult:
    a = claim.things["a"]
    return _found(_explore(machine, False, lambda seen, moment: seen or moment.must(a), bool))


def _ends(claim: Claim, machine: Machine) -> ClaimResult:
    a = claim.things["a"]
    return _found(_explore(machine, False, lambda seen, moment: (moment.at != 0 and seen) or moment.must(a), bool))


def _reach(claim: Claim, machine: Machine) -> ClaimResult:
    a, b = claim.things["a"], claim.things["b"]

    def on(seen: bool, moment: Moment) -> Flag:  # noqa: FBT001 - a flag
        return _BROKEN if seen and moment.may(b) else seen or moment.may(a)

    return ClaimResult(_explore(machine, False, on) is not None)


def _at(claim: Claim, machine: Machine) -> ClaimResult:
    states = [state for state in machine.visits if state.node == claim.node]
    if not states:
        return ClaimResult(holds=False, vacuous=True)
    wrong = [state for state in states if not _is(state.known(claim.path), claim.value)]
    return ClaimResult(not wrong, tuple(machine.path_to(wrong[0])) if wrong else ())


def _is(fact: Fact | None, value: Any) -> bool:
    if fact is None:
        return False
    return fact.consts == frozenset({Const(value)}) or (value is None and fact.kinds == frozenset({"none"}))


def _only_if(claim: Claim, machine: Machine) -> ClaimResult:
    a = claim.things["a"]

    def holds(facts: Iterable[tuple[str, Fact]]) -> bool:
        known = dict(facts)
        if claim.kind == "chosen":
            return _is(known.get(claim.path), claim.value)
        answers = [fact for path, fact in known.items() if path == claim.guard or path.startswith(f"{claim.guard}(")]
        return any(fact.consts == frozenset({Const(not claim.negated)}) for fact in answers)

    for state, visit in machine.visits.items():
        wrong = state.node in a.nodes and not holds(state.facts)
        for call in visit.calls:
            wrong |= call.name in a.calls and not holds(call.facts.items())
        for step in visit.steps:
            happens = (state.node, step.outcome) in a.outcomes or not a.fields.isdisjoint(step.writes)
            wrong |= happens and not holds(step.facts)
        if wrong:
            return ClaimResult(holds=False, path=tuple(machine.path_to(state)))
    return ClaimResult(holds=True)


_CHECKS: dict[str, Callable[[Claim, Machine], ClaimResult]] = {
    "before": _before,
    "leads": _leads,
    "between": _between,
    "directly": _directly,
    "never": _never,
    "most": _most,
    "passes": _passes,
    "ends": _ends,
    "reach": _reach,
    "at": _at,
    "guarded": _only_if,
    "chosen": _only_if,
}
