"""The rules of a graph, checked when it is built. Each broken rule is a Problem with the place and a fix."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, PydanticSchemaGenerationError, PydanticUserError

from interlock.capabilities.capability import is_capability, methods
from interlock.contract.capability_rules import method_problem
from interlock.contract.dataflow import distances, unwritten_reads
from interlock.contract.labels import PRESENCE, Control
from interlock.contract.node import END, Grant, Node, Read, Row, Transition
from interlock.contract.outcome import Outcome
from interlock.contract.schema import ValidationError, error_summary, record_validator, structure_validator
from interlock.contract.state import Field, State, is_state_class, read_fields, strays
from interlock.contract.type_hints import (
    Hints,
    alternatives,
    format_type,
    is_assignable,
    is_closed,
    resolve_hints,
    unwrap_annotated,
)
from interlock.errors import ContractError, Problem

__all__ = ["Declaration", "build"]

_GRAPH_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_LANGGRAPHS_OWN = {"configurable", "checkpoint_id", "checkpoint_ns", "checkpoint_map"}
# Mermaid ends a block with 'end'.
_RESERVED = {"END", "__start__", "__end__", "end", *_LANGGRAPHS_OWN}


@dataclass(frozen=True)
class Declaration:
    """The arguments of a Graph, before they are checked."""

    name: str
    state: type
    entry: object
    rows: Sequence[Row]
    max_steps: int
    takes: tuple[str, ...] | None
    takes_from_parent: tuple[str, ...]
    gives: str | None
    forbids: tuple[type, ...]


def build(declaration: Declaration) -> tuple[State, dict[str, Node], str]:
    """Check a declaration and build its state and nodes. Raises ContractError with every problem found."""
    return _Builder(declaration).build()


def _name(run: object) -> str:
    return getattr(run, "__name__", repr(run))


@dataclass
class _Builder:
    declared: Declaration
    problems: list[Problem] = field(default_factory=list[Problem])

    def say(self, rule: str, says: str, fix: str, *, node: str | None = None, field: str | None = None) -> None:
        self.problems.append(Problem(rule, says, fix, self.declared.name, node, field))

    def build(self) -> tuple[State, dict[str, Node], str]:
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
        return State(self.declared.state, fields, takes=takes, takes_from_parent=self.declared.takes_from_parent), nodes, entry

    def _stop_on_problems(self) -> None:
        if self.problems:
            raise ContractError(self.problems)

    # The state

    def _fields(self) -> dict[str, Field]:
        name, state = self.declared.name, self.declared.state
        if not _GRAPH_NAME.fullmatch(name):
            self.say("bad_name", f"'{name}' is not a valid name for a graph.", "use letters, digits, '_', '-' and '.'.")
        if not is_state_class(state):
            self.say(
                "not_a_state",
                f"state '{_name(state)}' is not a state class.",
                "pass a TypedDict, a dataclass or a pydantic model.",
            )
            return {}
        fields, failed = read_fields(state)
        for field_name, reason in failed.items():
            self.say(
                "unresolved_annotation",
                f"in state '{state.__name__}', annotation {reason}.",
                "import the type at module level, outside any TYPE_CHECKING block.",
                field=field_name,
            )
        outside = strays(state, fields)
        for found in fields.values():
            if found.name not in outside:
                self._field(found)
        for stray in sorted(outside):
            self.say(
                "not_a_field",
                f"state '{state.__name__}' annotates it, but it is not a field of the dataclass.",
                "decorate the class with @dataclass, or remove the annotation.",
                field=stray,
            )
        if issubclass(state, BaseModel) and _has_validators(state):
            self.say(
                "state_validators",
                f"state '{state.__name__}' has validators, which do not run when a node writes one field.",
                "put the rule into the field's type: Annotated[..., AfterValidator(...)].",
            )
        return fields

    def _field(self, found: Field) -> None:
        try:
            record_validator("Field", {found.name: found.annotated})
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            self.say(
                "not_data",
                f"type '{format_type(found.hint)}' is not plain data ({str(error).splitlines()[0]}).",
                "keep plain data in the state; make clients and callables capabilities.",
                field=found.name,
            )
            return
        if found.default is not None:
            self._default(found)
        if found.name in _LANGGRAPHS_OWN:
            self.say("name_taken", "LangGraph reserves this name.", "rename the field.", field=found.name)
        if len(found.reducers) > 1:
            self.say("two_reducers", "it has more than one reducer.", "keep one.", field=found.name)
        if found.reducer is not None and found.default is not None and found.default() != (found.initial and found.initial()):
            self.say(
                "reducer_default",
                "a field with a reducer starts with the empty value of its type, so its default is never used.",
                "remove the default.",
                field=found.name,
            )
        if Control in found.labels and not is_closed(found.hint):
            self.say(
                "open_control",
                f"it is labelled Control but its type '{format_type(found.hint)}' is open.",
                "make it a Literal.",
                field=found.name,
            )

    def _default(self, found: Field) -> None:
        try:
            structure_validator(found.annotated)(found.default and found.default())
        except ValidationError as error:
            self.say(
                "bad_default",
                f"its default is not of its type '{format_type(found.hint)}': {error_summary(error)}.",
                "change the default or the type.",
                field=found.name,
            )

    # The rows

    def _nodes(self, fields: Mapping[str, Field]) -> dict[str, Node]:
        nodes: dict[str, Node] = {}
        seen: set[str] = set()
        known = {id(row.run) for row in self.declared.rows}
        for row in self.declared.rows:
            name = _name(row.run)
            if name in seen:
                self.say("duplicate_node", "two rows have this name.", "rename one function or remove one row.", node=name)
                continue
            seen.add(name)
            if name in fields or name in _RESERVED or not name.isidentifier():
                self.say(
                    "name_taken",
                    "a node cannot have the name of a state field, or a name that is reserved.",
                    "rename the function.",
                    node=name,
                )
            bound = self._node(name, row, fields, known)
            if bound is not None:
                nodes[name] = bound
        return nodes

    def _node(self, name: str, row: Row, fields: Mapping[str, Field], known: set[int]) -> Node | None:
        before = len(self.problems)
        if not (inspect.isfunction(row.run) and inspect.iscoroutinefunction(row.run)):
            fix = "write it as 'async def' at module level: a method or a partial hides what it depends on."
            self.say("not_async", "it is not an async function.", fix, node=name)
            return None
        found = resolve_hints(row.run)
        for parameter, reason in found.failed.items():
            self.say(
                "unresolved_annotation",
                f"the annotation {reason}.",
                "import the type at module level, outside any TYPE_CHECKING block.",
                node=name,
                field=parameter,
            )
        reads: list[Read] = []
        grants: list[Grant] = []
        for parameter in inspect.signature(row.run).parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self.say(
                    "open_signature",
                    f"'*{parameter.name}' hides what it reads or is granted.",
                    "name each parameter.",
                    node=name,
                    field=parameter.name,
                )
            elif parameter.name in found.failed:
                continue
            elif parameter.name not in found.resolved:
                self.say(
                    "no_annotation",
                    "the parameter has no annotation.",
                    "annotate it with the type of the state field, or of the capability.",
                    node=name,
                    field=parameter.name,
                )
            elif parameter.default is not parameter.empty:
                self.say(
                    "parameter_default",
                    "the parameter has a default, which would never be used.",
                    "give the state field a default instead.",
                    node=name,
                    field=parameter.name,
                )
            elif parameter.kind is parameter.KEYWORD_ONLY:
                grants += self._grant(name, parameter.name, found.resolved[parameter.name])
            else:
                reads += self._read(name, parameter.name, found.resolved[parameter.name], fields)
        transitions = self._transitions(name, row, found, fields, known)
        if len(self.problems) > before:
            return None
        return Node(name, row.run, reads=tuple(reads), grants=tuple(grants), transitions=tuple(transitions))

    def _read(self, node: str, name: str, hint: Any, fields: Mapping[str, Field]) -> Iterator[Read]:
        if name not in fields:
            says = f"it reads '{name}', which is not a field of state '{self.declared.state.__name__}'."
            self.say("unknown_field", says, _suggest(name, fields, "rename the parameter"), node=node, field=name)
            return
        wanted, metadata = unwrap_annotated(hint)
        if PRESENCE in metadata:
            yield Read(fields[name], bool, presence=True)
            return
        if not is_assignable(wanted, fields[name].hint):
            self.say(
                "differing_type",
                f"it reads '{name}' as '{format_type(wanted)}', but the state has '{format_type(fields[name].hint)}'.",
                f"declare the parameter as '{format_type(fields[name].hint)}'.",
                node=node,
                field=name,
            )
            return
        yield Read(fields[name], wanted, presence=False)

    def _grant(self, node: str, name: str, hint: Any) -> Iterator[Grant]:
        capability, _ = unwrap_annotated(hint)
        if not is_capability(capability):
            self.say(
                "unknown_capability",
                f"it asks for '{name}: {format_type(capability)}', which is not a capability.",
                "annotate it with a Protocol that inherits from interlock.Capability, or make it positional to read a field.",
                node=node,
                field=name,
            )
            return
        for method, run in methods(capability).items():
            problem = method_problem(run)
            if problem is not None:
                says, fix = problem
                says = f"method '{method}' of capability '{capability.__name__}' {says}"
                self.say("bad_capability", says, fix, node=node, field=name)
                return
        # Entries of `forbids` that are not capabilities are reported for the graph.
        forbids = [forbidden for forbidden in self.declared.forbids if is_capability(forbidden)]
        if any(capability in forbidden.__mro__ or forbidden in capability.__mro__ for forbidden in forbids):
            self.say(
                "forbidden_capability",
                f"it asks for '{capability.__name__}', which this graph forbids.",
                "remove the parameter, or take the capability out of 'forbids'.",
                node=node,
                field=name,
            )
            return
        yield Grant(name, capability)

    def _transitions(
        self,
        node: str,
        row: Row,
        found: Hints,
        fields: Mapping[str, Field],
        known: set[int],
    ) -> Iterable[Transition]:
        if "return" in found.failed:
            return ()
        returned = alternatives(found.resolved["return"]) if "return" in found.resolved else []
        outcomes = [outcome for outcome in returned if inspect.isclass(outcome) and issubclass(outcome, Outcome)]
        if not outcomes or len(outcomes) != len(returned) or Outcome in outcomes:
            self.say(
                "no_outcome",
                "its return annotation is not a union of Outcome classes.",
                "annotate what can have happened: '-> Answered | Refused'.",
                node=node,
            )
            return ()
        for stranger in set(row.goes) - set(outcomes):
            self.say(
                "stranger_outcome",
                f"its row routes '{_name(stranger)}', which the node does not return.",
                "remove it from 'goes', or add it to the return annotation.",
                node=node,
            )
        transitions: list[Transition] = []
        for outcome in outcomes:
            if outcome not in row.goes:
                says, fix = f"outcome '{outcome.__name__}' leads nowhere.", f"add '{outcome.__name__}: ...' to 'goes'."
                self.say("unrouted_outcome", says, fix, node=node)
                continue
            target = row.goes[outcome]
            if target is not END and id(target) not in known:
                self.say(
                    "stranger_target",
                    f"outcome '{outcome.__name__}' leads to '{_name(target)}', which is not a node of this graph.",
                    "add a row for it, or lead to a node that is here, or to END.",
                    node=node,
                )
                continue
            written = self._written(node, outcome, fields)
            if written is not None:
                transitions.append(Transition(outcome, written, None if target is END else _name(target), fields))
        return transitions

    def _written(self, node: str, outcome: type[Outcome], fields: Mapping[str, Field]) -> dict[str, Any] | None:
        before = len(self.problems)
        found = resolve_hints(outcome)
        for name, reason in found.failed.items():
            self.say(
                "unresolved_annotation",
                f"in outcome '{outcome.__name__}', annotation {reason}.",
                "import the type at module level, outside any TYPE_CHECKING block.",
                node=node,
                field=name,
            )
        for name, hint in found.resolved.items():
            if name not in fields:
                says = f"outcome '{outcome.__name__}' writes '{name}', which is not a field of state '{self.declared.state.__name__}'."
                self.say("outcome_field", says, _suggest(name, fields, "rename it"), node=node, field=name)
            elif not is_assignable(fields[name].hint, hint):
                declared = format_type(fields[name].hint)
                self.say(
                    "differing_type",
                    f"outcome '{outcome.__name__}' writes '{name}' as '{format_type(hint)}', but the state has '{declared}'.",
                    f"declare it as '{declared}' or a part of that.",
                    node=node,
                    field=name,
                )
        return {name: unwrap_annotated(hint)[0] for name, hint in found.resolved.items()} if len(self.problems) == before else None

    # The graph as a whole

    def _entry(self) -> str:
        entry = self.declared.entry
        if not any(row.run is entry for row in self.declared.rows):
            says, fix = f"the entry '{_name(entry)}' is not a node of this graph.", "pass the function of one of the rows."
            self.say("entry_not_a_node", says, fix)
        return _name(entry)

    def _flow(self, nodes: Mapping[str, Node], entry: str) -> None:
        forward: dict[str, set[str]] = {name: {t for t in bound.targets if t is not None} for name, bound in nodes.items()}
        for name in nodes.keys() - distances(forward, [entry]).keys():
            self.say("unreachable_node", "no path from the entry leads to it.", "lead an outcome to it, or remove its row.", node=name)
        backward: dict[str, set[str]] = {name: set() for name in nodes}
        for name, targets in forward.items():
            for target in targets:
                backward[target].add(name)
        to_end = distances(backward, [name for name, bound in nodes.items() if None in bound.targets])
        for name in nodes.keys() - to_end.keys():
            self.say("no_way_out", "no path leads from it to END.", "lead one of its outcomes towards END.", node=name)
        if entry in to_end and self.declared.max_steps < to_end[entry] + 1:
            needed = to_end[entry] + 1
            self.say(
                "step_budget",
                f"a budget of {self.declared.max_steps} steps cannot reach END, which is {needed} steps away.",
                f"declare max_steps={needed} or more.",
            )

    def _reads_before_writes(self, nodes: Mapping[str, Node], entry: str) -> None:
        """Report each node that some path reaches before a field that the node reads has been written or passed in.

        Fields in `takes` are required from the caller where a path needs them (`Graph.needs`). A graph that does not declare
        `takes` requires what its entry reads.
        """
        takes = self.declared.takes
        passed = {read.field.name for read in nodes[entry].reads} if takes is None else {*takes, *self.declared.takes_from_parent}
        for found in unwritten_reads(nodes, entry):
            if found.field not in passed:
                self.say(
                    "read_before_write",
                    f"it reads '{found.field}', which {found.describe(nodes)}.",
                    "write the field on every path to this node, give it a default, name it in 'takes', or allow None for the parameter.",
                    node=found.node,
                    field=found.field,
                )

    def _surface(self, fields: Mapping[str, Field]) -> tuple[str, ...]:
        takes, gives = self.declared.takes, self.declared.gives
        for name in (*(takes or ()), *self.declared.takes_from_parent):
            if name not in fields:
                says = f"it takes '{name}', which is not a field of the state."
                self.say("unknown_field", says, _suggest(name, fields, "rename it in 'takes'"), field=name)
        for name in self.declared.takes_from_parent:
            if takes is None or name in takes:
                says = f"'{name}' is in 'takes' and in 'takes_from_parent'."
                self.say("taken_twice", says, "remove it from one of them.", field=name)
        if gives is not None and gives not in fields:
            says = f"it gives '{gives}', which is not a field of the state."
            self.say("unknown_field", says, _suggest(gives, fields, "rename it in 'gives'"), field=gives)
        for capability in self.declared.forbids:
            if not is_capability(capability):
                says = f"it forbids '{_name(capability)}', which is not a capability."
                self.say("unknown_capability", says, "name a Protocol that inherits from interlock.Capability.")
        return tuple(fields) if takes is None else takes


def _has_validators(state: type[BaseModel]) -> bool:
    declared = state.__pydantic_decorators__
    return bool(declared.field_validators or declared.model_validators or declared.validators or declared.root_validators)


def _suggest(name: str, fields: Mapping[str, Field], otherwise: str) -> str:
    close = difflib.get_close_matches(name, fields, n=1)
    known = ", ".join(f"'{field}'" for field in fields)
    return f"write '{close[0]}'." if close else f"{otherwise}; the fields are {known}."
