"""Read a node: every way in which its body ends, every call it makes, and what decides all of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interlock.contract.labels import Secret, Trusted, is_secret
from interlock.contract.node import Node, Read
from interlock.contract.outcome import Outcome
from interlock.verification.body import (
    Ambient,
    Call,
    Counts,
    Fact,
    Frame,
    Point,
    Raised,
    State,
    Tables,
    Unreadable,
    outer_names,
    parse,
    shared_names,
)
from interlock.verification.expressions import outcome_classes
from interlock.verification.sources import NOTHING, Path, Source, Sources
from interlock.verification.statements import Statements
from interlock.verification.values import FULL, Const, Value

__all__ = ["End", "NodeReading", "follow_node", "read_node"]

_MAX_PASSES = 30


@dataclass(frozen=True)
class End:
    """One way in which a node ends: the outcome, the fields that it writes, what decided, and the calls that were made."""

    outcome: str
    target: str | None
    line: int
    fields: Mapping[str, Value]
    points: frozenset[Point]
    chosen_by: Sources
    calls: Counts
    facts: Mapping[str, Fact]


@dataclass
class NodeReading:
    """What was read of a node. A node that cannot be read has a reason, and is judged by its signature."""

    node: Node
    ends: list[End] = field(default_factory=list[End])
    calls: list[Call] = field(default_factory=list[Call])
    raised: list[Raised] = field(default_factory=list[Raised])
    ambient: list[Ambient] = field(default_factory=list[Ambient])
    guards: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    unread: set[str] = field(default_factory=set[str])
    read: dict[str, Any] = field(default_factory=dict[str, Any])
    """The node and the functions of the project that were read with it."""
    changed: Callable[[Sources], Sources] = lambda sources: sources
    reason: Unreadable | None = None
    signature: Sources = NOTHING
    """Everything that the node can know, for a node that is judged by its signature."""


def read_node(node: Node) -> NodeReading:
    """Read a node, whatever its fields hold: what its decisions, fields and arguments depend on."""
    tables = Tables()
    reading = NodeReading(node, signature=_signature(node))
    try:
        reading.ends = _to_rest(node, tables, {}, forking=False)
    except Unreadable as error:
        reading.reason = error
    except RecursionError:
        reading.reason = Unreadable("it is nested too deeply", 0)
    except Exception as error:  # noqa: BLE001 - what the reader cannot cope with is not read, which is always sound
        reading.reason = Unreadable(f"the reader failed: {type(error).__name__}", 0)
    reading.calls, reading.raised, reading.ambient = tables.calls, tables.raised, tables.ambient
    reading.guards, reading.unread, reading.changed = tables.guards, tables.unread, tables.expand
    reading.read = {node.name: node.run, **tables.read}
    return reading


def follow_node(node: Node, facts: Mapping[str, Fact], tables: Tables, *, forking: bool) -> tuple[list[End], list[Call]]:
    """Follow the ways through a node with what is known of the fields, one by one if `forking`. Raises Unreadable.

    The tables may be those of an earlier time: they only grow.
    """
    ends = _to_rest(node, tables, facts, forking=forking)
    return ends, tables.calls


def _to_rest(node: Node, tables: Tables, facts: Mapping[str, Fact], *, forking: bool) -> list[End]:
    """Read a body until its tables no longer grow."""
    for _ in range(_MAX_PASSES):
        tables.begin()
        ends = _ends(node, tables, facts, forking=forking)
        if not tables.grown:
            return ends
    raise Unreadable("what it depends on does not come to rest", 0)


def _ends(node: Node, tables: Tables, facts: Mapping[str, Fact], *, forking: bool) -> list[End]:
    run: Any = node.run
    tree = parse(run)
    reader = Statements(tables, run.__module__.partition(".")[0], forking=forking)
    frame = Frame(tree, (run.__qualname__,), run.__globals__, run.__module__, shared_names(tree), outer_names(tree))
    state = State({}, facts=dict(facts))
    for read in node.reads:
        reader.store(read.field.name, _given(reader, read, state), state, frame)
    for grant in node.grants:
        handle = Value(handles=frozenset({grant.capability}), kinds=frozenset({"full"}), known=True)
        reader.store(grant.parameter, handle, state, frame)
    closed = dict(zip(run.__code__.co_freevars, run.__closure__ or (), strict=False))
    if closed:
        frame.scope = {**run.__globals__, **{name: cell.cell_contents for name, cell in closed.items()}}
    left = reader.execute(getattr(tree, "body", []), [state], frame)
    del left  # A body that ends without an outcome fails when it runs.
    transitions = {transition.outcome: transition for transition in node.transitions}
    ends: list[End] = []
    for returned in frame.returned:
        value = returned.value
        if value.consts is not None and value.known and not value.classes and not value.cells:
            continue
        found = outcome_classes(value)
        if not value.known or not found or len(found) != len(value.classes) or value.cells:
            raise Unreadable("it returns something that is not plainly one of its outcomes", returned.line)
        for outcome in found:
            if outcome not in transitions:
                continue
            fields = {name: _field(value, name, outcome) for name in transitions[outcome].fields}
            chosen = value.choosing if len(found) > 1 or value.shape else NOTHING
            at = returned.state
            ends.append(
                End(outcome.__name__, transitions[outcome].target, returned.line, fields, at.points, chosen, dict(at.calls), dict(at.facts))
            )
    return ends


def _field(value: Value, name: str, outcome: type[Outcome]) -> Value:
    part = (value.attrs or {}).get(name)
    if part is None:
        raise Unreadable(f"field '{name}' of '{outcome.__name__}' is not plainly given", 0)
    return part.under(value.shape)


def _path(read: Read) -> Path:
    labels = read.field.labels
    secret = Secret in labels or is_secret(read.field.declared)
    return Path(read.field.name, (), read.hint if not read.presence else read.field.hint, Trusted in labels, secret)


def _given(reader: Statements, read: Read, state: State) -> Value:
    path = _path(read)
    if not read.presence:
        return reader.at(path, state)
    fact = state.facts.get(path.name)
    consts = frozenset({Const(True), Const(False)})
    if fact is not None and (fact.kinds == FULL or "full" not in fact.kinds):
        consts = frozenset({Const(fact.kinds == FULL)})
    sources = frozenset({path.presence})
    return Value(made=sources, shape=sources, consts=consts, kinds=frozenset({"empty", "full"}), presence_of=path, known=True)


def _signature(node: Node) -> Sources:
    found: set[Source] = set()
    for read in node.reads:
        found.add(_path(read).presence if read.presence else _path(read).whole)
    for grant in node.grants:
        found.add(Path(f"{grant.name}()", (), None).whole)
    return frozenset(found)
