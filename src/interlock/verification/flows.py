"""The flows of a graph: what its nodes decide on, what its fields and the arguments of its effects are made of, and what that breaks."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from interlock.capabilities.capability import marks_of, methods
from interlock.contract import Graph
from interlock.contract.labels import Control, Secret, Trusted, is_secret
from interlock.contract.node import Node
from interlock.contract.state import Field
from interlock.contract.type_hints import resolve_hints, unwrap_annotated
from interlock.verification.body import Call, Unreadable, parse
from interlock.verification.faults import Fault
from interlock.verification.nodes import NodeReading, read_node
from interlock.verification.sources import NOTHING, Level, Source, Sources, is_choice

__all__ = ["EffectRow", "GraphFlow", "NodeFlow"]


@dataclass(frozen=True, order=True)
class EffectRow:
    """An argument of a call that has an effect outside, and where it comes from."""

    effect: str
    node: str
    argument: str
    sources: tuple[str, ...]


@dataclass
class NodeFlow:
    """What was found of one node."""

    node: Node
    reading: NodeReading

    @property
    def is_read(self) -> bool:
        return self.reading.reason is None

    @cached_property
    def decisions(self) -> dict[Source, int]:
        """What decides which node runs next, each with the line."""
        if len(self.node.targets) < 2:  # noqa: PLR2004 - with one target there is nothing to decide
            return {}
        if not self.is_read:
            return dict.fromkeys(sorted(self.reading.signature), self.reading.reason.line if self.reading.reason else 0)
        targets: dict[Any, set[str | None]] = {}
        for end in self.reading.ends:
            for point in end.points:
                targets.setdefault(point, set()).add(end.target)
        found: dict[Source, int] = {}
        for point, reached in targets.items():
            if len(reached) > 1:
                for source in self.reading.changed(point.sources):
                    found[source] = min(point.line, found.get(source, point.line))
        for end in self.reading.ends:
            others = {other.target for other in self.reading.ends if other.line == end.line}
            if len(others) > 1:
                found |= {source: end.line for source in self.reading.changed(end.chosen_by) if source not in found}
        return dict(sorted(found.items()))

    @cached_property
    def written(self) -> dict[str, Sources]:
        """What each field that the node writes is made of, with what decides which value it gets."""
        if not self.is_read:
            return dict.fromkeys(self.node.writes, self.reading.signature)
        found: dict[str, Sources] = {}
        for end in self.reading.ends:
            decided = end.chosen_by.union(*(point.sources for point in end.points))
            for name, value in end.fields.items():
                found[name] = found.get(name, NOTHING) | self.reading.changed(value.sources | decided)
        return found

    def line_of(self, name: str) -> int:
        """Return a line at which a field is written, with the text that it must not have if there is one."""
        lines = [end.line for end in self.reading.ends if name in end.fields]
        return lines[0] if lines else self.first_line

    @property
    def first_line(self) -> int:
        return self.node.run.__code__.co_firstlineno


@dataclass
class GraphFlow:
    """The flows of a graph. `inside` are the capabilities that other graphs of the agent provide."""

    graph: Graph
    inside: Mapping[type, Graph] = field(default_factory=dict[type, Graph])
    persists: tuple[str, ...] = ()
    is_entry: bool = True
    nodes: dict[str, NodeFlow] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = {name: NodeFlow(node, read_node(node)) for name, node in self.graph.nodes.items()}

    @property
    def fields(self) -> Mapping[str, Field]:
        return self.graph.state.fields

    @cached_property
    def guards(self) -> dict[str, Any]:
        """The guards that the nodes use, by name."""
        return {name: function for flow in self.nodes.values() for name, function in sorted(flow.reading.guards.items())}

    @cached_property
    def effects(self) -> list[EffectRow]:
        """The arguments of calls with effects, in row order."""
        found: dict[tuple[str, str, str], set[str]] = {}
        for name, flow in self.nodes.items():
            for call in flow.reading.calls:
                if is_effect(call) and call.capability not in self.inside:
                    for argument, value in call.arguments.items():
                        # What the node decides on is in the document already, and decides whether the call is made at all.
                        sources = flow.reading.changed(value.sources) - flow.decisions.keys()
                        names = {source.root or source.name for source in sources}
                        found.setdefault((call.name, name, argument), set()).update(names)
        return [EffectRow(*key, tuple(sorted(names))) for key, names in found.items()]

    def made_of(self, name: str) -> Sources:
        """Return everything that a field is ever made of."""
        return NOTHING.union(*(flow.written.get(name, NOTHING) for flow in self.nodes.values()))

    def origin(self, source: Source) -> tuple[str, ...]:
        """Return the path of a value from where it entered the graph to a source: `Model.decide().value.text`, `plan`."""
        path, seen = [source.name], {source.root}
        while source.root in self.fields and source.root not in self.graph.state.takes:
            earlier = [one for one in sorted(self.made_of(source.root)) if one.level == Level.TEXT and one.root not in seen]
            if not earlier:
                break
            outside = [one for one in earlier if one.root not in self.fields]
            source = (outside or earlier)[0]
            seen.add(source.root)
            path.insert(0, source.name)
        if source.root in self.graph.state.takes:
            path.insert(0, "the caller")
        return tuple(path)

    # Faults

    @property
    def is_labelled(self) -> bool:
        """Whether the state says what may be trusted. Without a single label there is nothing that could be broken."""
        return any(one.labels for one in self.fields.values())

    def faults(self) -> list[Fault]:
        """List what breaks a guarantee, whatever the document says."""
        if not self.is_labelled:
            return []
        found = [*self._fields()]
        for name, flow in self.nodes.items():
            found += [*self._decisions(name, flow), *self._writes(name, flow), *self._calls(name, flow), *self._signature(name, flow)]
            for raised in flow.reading.raised if flow.is_read else ():
                secret = [source for source in sorted(flow.reading.changed(raised.sources)) if source.secret]
                if secret:
                    message = f"an error is made of '{secret[0]}' or raised because of it."
                    found.append(self._fault("secret_raised", name, raised.line, message, "let a guard say what is wrong.", secret[0]))
        for name, function in self.guards.items():
            problem = _guard_problem(function)
            if problem:
                fix = "annotate a synchronous function with a Literal, a bool, None or an enum."
                found.append(Fault("open_guard", self.graph.name, f"the guard '{name}' {problem}.", fix))
        return found

    def _fault(
        self,
        code: str,
        node: str,
        line: int,
        message: str,
        fix: str,
        source: Source | None = None,
        *,
        to: str = "",
        field: str | None = None,
    ) -> Fault:
        flow = self.nodes[node]
        file = flow.node.run.__code__.co_filename
        if flow.reading.reason is not None and code not in {"unused_grant", "unused_read", "dead_outcome"}:
            why = flow.reading.reason
            message = f"{message} Its body cannot be read ({why.why}), so it counts as depending on everything that it is given."
            code, fix, line = "body_unread", f"write it in a way that can be read, or: {fix}", why.line or line
        path = () if source is None else (*self.origin(source), *([to] if to else []))
        return Fault(code, self.graph.name, message, fix, node, field, line, file, path)

    def _fields(self) -> Iterator[Fault]:
        state = self.graph.state
        for name, found in self.fields.items():
            if not found.labels:
                fix = "label it Untrusted, Trusted, Control or Secret: Annotated[..., Untrusted]."
                yield Fault("unlabelled_field", self.graph.name, f"field '{name}' has no label.", fix, field=name)
            if self.is_entry and name in state.takes and (Trusted in found.labels or Control in found.labels):
                fix = "label it Untrusted, or take it out of 'takes'."
                yield Fault(
                    "control_taken", self.graph.name, f"a caller may set '{name}', which is labelled {found.labels[0]}.", fix, field=name
                )
            if is_secret(found.declared) and (name == self.graph.gives or name in self.persists):
                how = "the result of the graph" if name == self.graph.gives else "kept between turns"
                fix = "give and keep other fields."
                yield Fault("secret_given", self.graph.name, f"the secret field '{name}' is {how}.", fix, field=name)

    def _decisions(self, name: str, flow: NodeFlow) -> Iterator[Fault]:
        for source, line in flow.decisions.items():
            if source.secret:
                message = f"'{source}' is secret and decides which node runs next."
                yield self._fault("secret_decides", name, line, message, "let a guard say what the secret decides.", source)
            elif source.level == Level.TEXT:
                message = f"decides on '{source}', which is text from outside."
                fix = (
                    "decide on a field of a closed type, on whether it is there (Present), or let a @guard say one of finitely many things."
                )
                yield self._fault("untrusted_decision", name, line, message, fix, source, to=f"{name} decides")

    def _writes(self, name: str, flow: NodeFlow) -> Iterator[Fault]:
        for written, sources in flow.written.items():
            labels, line = self.fields[written].labels, flow.line_of(written)
            secret = [source for source in sorted(sources) if source.secret]
            if secret and not is_secret(self.fields[written].declared) and Secret not in labels:
                message = f"writes '{secret[0]}', which is secret, to '{written}'."
                yield self._fault(
                    "secret_written",
                    name,
                    line,
                    message,
                    f"label '{written}' Secret, or leave it out.",
                    secret[0],
                    to=written,
                    field=written,
                )
            text = [source for source in sorted(sources) if source.level == Level.TEXT]
            if text and (Trusted in labels or Control in labels):
                message = f"makes '{written}', which is labelled {labels[0]}, of '{text[0]}', which is text from outside."
                fix = f"label '{written}' Untrusted, or let a @guard choose its value."
                yield self._fault("label_exceeded", name, line, message, fix, text[0], to=written, field=written)

    def _calls(self, name: str, flow: NodeFlow) -> Iterator[Fault]:
        for call in flow.reading.calls if flow.is_read else ():
            hints = resolve_hints(methods(call.capability)[call.method]).resolved
            control = [source for source in sorted(flow.reading.changed(call.control)) if source.secret]
            for argument, value in call.arguments.items():
                labels = unwrap_annotated(hints.get(argument))[1]
                sources = flow.reading.changed(value.sources)
                secret = [source for source in sorted(sources) if source.secret]
                if secret and not is_secret(hints.get(argument)):
                    message = f"tells '{call.name}' '{secret[0]}', which is secret, as '{argument}'."
                    fix = f"annotate the parameter '{argument}' with Secret, or leave it out."
                    yield self._fault("secret_told", name, call.line, message, fix, secret[0], to=f"{call.name}({argument})")
                text = [source for source in sorted(sources) if source.level == Level.TEXT]
                target = self.inside.get(call.capability)
                inner = target.state.fields.get(argument) if target is not None else None
                if text and (Trusted in labels or (inner is not None and (Trusted in inner.labels or Control in inner.labels))):
                    message = f"passes '{text[0]}', which is text from outside, to '{call.name}' as '{argument}', which has to be trusted."
                    fix = "pass a trusted value or a choice, or let a @guard choose it."
                    yield self._fault("untrusted_argument", name, call.line, message, fix, text[0], to=f"{call.name}({argument})")
            if control:
                message = f"'{control[0]}' is secret and decides whether '{call.name}' is called."
                yield self._fault(
                    "secret_told", name, call.line, message, "let a guard say what the secret decides.", control[0], to=call.name
                )

    def _signature(self, name: str, flow: NodeFlow) -> Iterator[Fault]:
        for found in flow.reading.ambient:
            fix = "use a capability: Clock, Ids, or one of your own."
            yield self._fault("ambient", name, found.line, f"reaches {found.what} without a capability.", fix)
        if not flow.is_read or not flow.reading.ends:
            # A body that always raises an error is still to be written.
            return
        called = {call.capability for call in flow.reading.calls}
        for grant in flow.node.grants:
            if grant.capability not in called:
                yield self._fault(
                    "unused_grant", name, flow.first_line, f"never calls '{grant.name}'.", f"remove the parameter '{grant.parameter}'."
                )
        try:
            names = {part.id for part in ast.walk(parse(flow.node.run)) if isinstance(part, ast.Name)}
        except Unreadable:
            return
        for read in flow.node.reads:
            if read.field.name not in names:
                fix = f"remove the parameter '{read.field.name}'."
                yield self._fault("unused_read", name, flow.first_line, f"never uses '{read.field.name}'.", fix, field=read.field.name)
        ended = {end.outcome for end in flow.reading.ends}
        for transition in flow.node.transitions:
            if transition.name not in ended:
                fix = "remove the outcome from its annotation and its row, or return it."
                yield self._fault("dead_outcome", name, flow.first_line, f"never returns '{transition.name}'.", fix)


def is_effect(call: Call) -> bool:
    """Return whether a call does something outside."""
    marks = marks_of(methods(call.capability)[call.method])
    return marks.effect != "asks" and not marks.instant


def _guard_problem(function: Any) -> str | None:
    if inspect.iscoroutinefunction(function):
        return "is asynchronous"
    hints = resolve_hints(function).resolved
    missing = [name for name in inspect.signature(function).parameters if name not in hints]
    if "return" not in hints or missing:
        return "has no annotation for " + ", ".join(f"'{name}'" for name in missing or ["return"])
    return None if is_choice(unwrap_annotated(hints["return"])[0]) else "returns more than finitely many things"
