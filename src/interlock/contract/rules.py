"""The rules of a graph, checked when it is built. Each broken rule is a Problem with the place and a fix."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError

from interlock.capabilities.capability import is_capability, is_stream, methods
from interlock.contract.dataflow import distances, unwritten_reads
from interlock.contract.labels import PRESENCE, Control
from interlock.contract.node import END, Grant, Node, Read, Row, Transition
from interlock.contract.outcome import Outcome
from interlock.contract.rule_messages import MESSAGES
from interlock.contract.schema import ValidationError, error_summary, record_validator, strict_validator, structure_validator, try_validate
from interlock.contract.state import Field, State, read_fields, strays
from interlock.contract.type_hints import (
    Hints,
    alternatives,
    class_parameter,
    format_type,
    is_assignable,
    is_closed,
    is_generic,
    is_record,
    resolve_hints,
    unwrap_annotated,
)
from interlock.errors import ContractError, Problem

__all__ = ["Declaration"]

_GRAPH_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_LANGGRAPHS_OWN = {"configurable", "checkpoint_id", "checkpoint_ns", "checkpoint_map"}
# Mermaid ends a block with 'end'.
_RESERVED = {"END", "__start__", "__end__", "end", *_LANGGRAPHS_OWN}


def _name(run: object) -> str:
    return getattr(run, "__name__", repr(run))


@dataclass(kw_only=True)
class Declaration:
    """The arguments of a Graph. `build` checks them."""

    name: str
    state: type
    entry: object
    rows: Sequence[Row]
    max_steps: int
    takes: tuple[str, ...] | None
    takes_from_parent: tuple[str, ...]
    gives: str | None
    forbids: tuple[type, ...]
    problems: list[Problem] = field(default_factory=list[Problem])

    def say(self, rule: str, place: str = "", *, node: str | None = None, field: str | None = None, **details: object) -> None:
        """Add a problem, with the message of the rule."""
        says, fix = MESSAGES[f"{rule}:{place}" if place else rule]
        details |= {"field": field}
        self.problems.append(Problem(rule, says.format(**details), fix.format(**details), self.name, node, field))

    def build(self) -> tuple[State, dict[str, Node], str]:
        """Return the state, the nodes and the name of the entry. Raises ContractError with every problem found."""
        fields = self._fields()
        self._stop_on_problems()
        nodes = self._nodes(fields)
        entry = self._entry()
        self._stop_on_problems()
        self._flow(nodes, entry)
        takes = self._surface(fields)
        self._stop_on_problems()
        self._reads_before_writes(nodes, entry)
        self._stop_on_problems()
        return State(fields, takes=takes, takes_from_parent=self.takes_from_parent), nodes, entry

    def _stop_on_problems(self) -> None:
        if self.problems:
            raise ContractError(self.problems)

    # The state

    def _fields(self) -> dict[str, Field]:
        state = self.state
        if not _GRAPH_NAME.fullmatch(self.name):
            self.say("bad_name", name=self.name)
        if not is_record(state):
            self.say("not_a_state", state=_name(state))
            return {}
        fields, failed = read_fields(state)
        for field_name, reason in failed.items():
            self.say("unresolved_annotation", field=field_name, where=f"in state '{state.__name__}',", reason=reason)
        outside = strays(state, fields)
        for found in fields.values():
            if found.name not in outside:
                self._field(found)
        for stray in sorted(outside):
            self.say("not_a_field", field=stray, state=state.__name__)
        if issubclass(state, BaseModel) and _has_validators(state):
            self.say("state_validators", state=state.__name__)
        return fields

    def _field(self, found: Field) -> None:
        name, shown = found.name, format_type(found.hint)
        try:
            record_validator("Field", {name: found.annotated})
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            self.say("not_data", field=name, type=shown, reason=str(error).splitlines()[0])
            return
        if found.default is not None:
            wrong = try_validate(structure_validator(found.annotated), found.default())
            if isinstance(wrong, ValidationError):
                self.say("bad_default", field=name, type=shown, reason=error_summary(wrong))
        if name in _LANGGRAPHS_OWN:
            self.say("name_taken", "field", field=name)
        if len(found.reducers) > 1:
            self.say("two_reducers", field=name)
        if found.reducer is not None and found.default is not None and found.default() != (found.initial and found.initial()):
            self.say("reducer_default", field=name)
        if Control in found.labels and not is_closed(found.hint):
            self.say("open_control", field=name, type=shown)

    # The rows

    def _nodes(self, fields: Mapping[str, Field]) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        seen: set[str] = set()
        known = {id(row.run) for row in self.rows}
        for row in self.rows:
            name = _name(row.run)
            if name in seen:
                self.say("duplicate_node", node=name)
                continue
            seen.add(name)
            if name in fields or name in _RESERVED or not name.isidentifier():
                self.say("name_taken", "node", node=name)
            bound = self._node(name, row, fields, known)
            if bound is not None:
                nodes[name] = bound
        return nodes

    def _node(self, name: str, row: Row, fields: Mapping[str, Field], known: set[int]) -> Node | None:
        before = len(self.problems)
        if not (inspect.isfunction(row.run) and inspect.iscoroutinefunction(row.run)):
            self.say("not_async", node=name)
            return None
        found = resolve_hints(row.run)
        for parameter, reason in found.failed.items():
            self.say("unresolved_annotation", node=name, field=parameter, where="the", reason=reason)
        reads: list[Read] = []
        grants: list[Grant] = []
        for parameter in inspect.signature(row.run).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self.say("open_signature", node=name, field=parameter.name)
            elif parameter.name in found.failed:
                continue
            elif parameter.name not in found.resolved:
                self.say("no_annotation", node=name, field=parameter.name)
            elif parameter.default is not parameter.empty:
                self.say("parameter_default", node=name, field=parameter.name)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                grants += self._grant(name, parameter.name, found.resolved[parameter.name])
            else:
                reads += self._read(name, parameter.name, found.resolved[parameter.name], fields)
        transitions = tuple(self._transitions(name, row, found, fields, known))
        if len(self.problems) > before:
            return None
        return Node(name, row.run, reads=tuple(reads), grants=tuple(grants), transitions=transitions)

    def _read(self, node: str, name: str, hint: Any, fields: Mapping[str, Field]) -> Iterator[Read]:
        wanted, metadata = unwrap_annotated(hint)
        if name not in fields:
            self._unknown_field("reads", name, fields, f"state '{self.state.__name__}'", "rename the parameter", node=node)
        elif PRESENCE in metadata:
            yield Read(fields[name], bool, presence=True)
        elif not is_assignable(wanted, fields[name].hint):
            declared = format_type(fields[name].hint)
            self.say("differing_type", "read", node=node, field=name, type=format_type(wanted), declared=declared)
        else:
            yield Read(fields[name], wanted, presence=False)

    def _grant(self, node: str, name: str, hint: Any) -> Iterator[Grant]:
        capability, _ = unwrap_annotated(hint)
        if not is_capability(capability):
            self.say("unknown_capability", "node", node=node, field=name, type=format_type(capability))
            return
        for method, run in methods(capability).items():
            found = _method_problem(run)
            if found is not None:
                problem, solution = found
                details = {"method": method, "capability": capability.__name__, "problem": problem, "solution": solution}
                self.say("bad_capability", node=node, field=name, **details)
                return
        # Entries of `forbids` that are not capabilities are reported for the graph.
        forbids = [forbidden for forbidden in self.forbids if is_capability(forbidden)]
        if any(capability in forbidden.__mro__ or forbidden in capability.__mro__ for forbidden in forbids):
            self.say("forbidden_capability", node=node, field=name, capability=capability.__name__)
            return
        yield Grant(name, capability)

    def _transitions(self, node: str, row: Row, found: Hints, fields: Mapping[str, Field], known: set[int]) -> Iterable[Transition]:
        if "return" in found.failed:
            return
        returned = alternatives(found.resolved["return"]) if "return" in found.resolved else []
        outcomes = [outcome for outcome in returned if inspect.isclass(outcome) and issubclass(outcome, Outcome)]
        if not outcomes or len(outcomes) != len(returned) or Outcome in outcomes:
            self.say("no_outcome", node=node)
            return
        for stranger in set(row.goes) - set(outcomes):
            self.say("stranger_outcome", node=node, outcome=_name(stranger))
        for outcome in outcomes:
            target = row.goes.get(outcome)
            if target is None:
                self.say("unrouted_outcome", node=node, outcome=outcome.__name__)
            elif target is not END and id(target) not in known:
                self.say("stranger_target", node=node, outcome=outcome.__name__, target=_name(target))
            elif (written := self._written(node, outcome, fields)) is not None:
                yield Transition(outcome, written, None if target is END else _name(target), fields)

    def _written(self, node: str, outcome: type[Outcome], fields: Mapping[str, Field]) -> dict[str, Any] | None:
        before = len(self.problems)
        found = resolve_hints(outcome)
        for name, reason in found.failed.items():
            self.say("unresolved_annotation", node=node, field=name, where=f"in outcome '{outcome.__name__}',", reason=reason)
        for name, hint in found.resolved.items():
            if name not in fields:
                details = {"state": self.state.__name__, "suggestion": _suggest(name, fields, "rename it")}
                self.say("outcome_field", node=node, field=name, outcome=outcome.__name__, **details)
            elif not is_assignable(fields[name].hint, hint):
                details = {"type": format_type(hint), "declared": format_type(fields[name].hint)}
                self.say("differing_type", "write", node=node, field=name, outcome=outcome.__name__, **details)
        return {name: unwrap_annotated(hint)[0] for name, hint in found.resolved.items()} if len(self.problems) == before else None

    # The graph as a whole

    def _entry(self) -> str:
        if not any(row.run is self.entry for row in self.rows):
            self.say("entry_not_a_node", entry=_name(self.entry))
        return _name(self.entry)

    def _flow(self, nodes: Mapping[str, Node], entry: str) -> None:
        forward: dict[str, set[str]] = {name: {t for t in bound.targets if t is not None} for name, bound in nodes.items()}
        for name in nodes.keys() - distances(forward, [entry]).keys():
            self.say("unreachable_node", node=name)
        backward: dict[str, set[str]] = {name: set() for name in nodes}
        for name, targets in forward.items():
            for target in targets:
                backward[target].add(name)
        to_end = distances(backward, [name for name, bound in nodes.items() if None in bound.targets])
        for name in nodes.keys() - to_end.keys():
            self.say("no_way_out", node=name)
        if entry in to_end and self.max_steps < to_end[entry] + 1:
            self.say("step_budget", max_steps=self.max_steps, needed=to_end[entry] + 1)

    def _reads_before_writes(self, nodes: Mapping[str, Node], entry: str) -> None:
        """Report each node that some path reaches before a field that the node reads has been written or passed in.

        Fields in `takes` are required from the caller where a path needs them (`Graph.needs`). A graph that does not declare
        `takes` requires what its entry reads.
        """
        takes = self.takes
        passed = {read.field.name for read in nodes[entry].reads} if takes is None else {*takes, *self.takes_from_parent}
        for found in unwritten_reads(nodes, entry):
            if found.field not in passed:
                self.say("read_before_write", node=found.node, field=found.field, path=found.describe(nodes))

    def _surface(self, fields: Mapping[str, Field]) -> tuple[str, ...]:
        takes, gives = self.takes, self.gives
        for name in (*(takes or ()), *self.takes_from_parent):
            if name not in fields:
                self._unknown_field("takes", name, fields, "the state", "rename it in 'takes'")
        for name in self.takes_from_parent:
            if takes is None or name in takes:
                self.say("taken_twice", field=name)
        if gives is not None and gives not in fields:
            self._unknown_field("gives", gives, fields, "the state", "rename it in 'gives'")
        for capability in self.forbids:
            if not is_capability(capability):
                self.say("unknown_capability", "graph", capability=_name(capability))
        return tuple(fields) if takes is None else takes

    def _unknown_field(
        self, verb: str, name: str, fields: Mapping[str, Field], state: str, otherwise: str, *, node: str | None = None
    ) -> None:
        self.say("unknown_field", node=node, field=name, verb=verb, state=state, suggestion=_suggest(name, fields, otherwise))


def _method_problem(run: Callable[..., Any]) -> tuple[str, str] | None:
    """Return what is wrong with a method of a capability, and the fix; None if it is valid."""
    streams = is_stream(run)
    if not streams and not inspect.iscoroutinefunction(run):
        return "is not a coroutine function.", "write 'async def', or return an AsyncIterator."
    found = resolve_hints(run)
    if "return" not in found.resolved:
        reason = "".join(f": {reason}" for reason in found.failed.values())
        return f"has no return annotation that resolves{reason}.", "annotate it with a type that resolves: the gate validates every result."
    returned = found.resolved["return"]
    if is_generic(returned) and class_parameter(found.resolved) is None:
        return f"returns '{format_type(returned)}', whose type variable no parameter determines.", "take the class: 'schema: type[T]'."
    try:
        strict_validator(get_args(returned)[0] if streams else returned)
    except (PydanticSchemaGenerationError, PydanticUserError):
        return f"returns '{format_type(returned)}', which is not plain data.", "return plain data; keep clients in the adapter."
    return None


def _has_validators(state: type[BaseModel]) -> bool:
    declared = state.__pydantic_decorators__
    return bool(declared.field_validators or declared.model_validators or declared.validators or declared.root_validators)


def _suggest(name: str, fields: Mapping[str, Field], otherwise: str) -> str:
    close = difflib.get_close_matches(name, fields, n=1)
    known = ", ".join(f"'{field}'" for field in fields)
    return f"write '{close[0]}'." if close else f"{otherwise}; the fields are {known}."
