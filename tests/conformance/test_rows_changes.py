"""sam's rows, changed in every single place: each change is refused at once, or found by holding the rows to the document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

import pytest

from interlock import END, Graph, Outcome
from interlock.capabilities import Clock, Ids, Memory
from interlock.contract.conformance import differences
from interlock.contract.document import read_document_file
from interlock.contract.node import Row
from interlock.discovery import load_agent
from interlock.errors import ContractError
from interlock_agents.sam.capabilities import Images, ModelBackend, Transcriber
from interlock_agents.sam.graph import sam
from interlock_agents.sam.state import AgentState

FILE = load_agent("sam").document
assert FILE is not None
DOCUMENT = read_document_file(FILE, graph="sam")
NODES = list(sam.nodes)
CAPABILITIES: dict[str, type] = {one.__name__: one for one in (Clock, Ids, Transcriber, Images, ModelBackend)}


@dataclass
class Sketch:
    """One node, as it is to be declared."""

    reads: dict[str, Any]
    grants: dict[str, Any]
    outcomes: dict[str, dict[str, Any]]
    goes: dict[str, str | None]


Change = Callable[[dict[str, Sketch]], None]


def resolved(node: str, hint: Any) -> Any:
    """Resolve an annotation where sam's nodes are written."""
    if not isinstance(hint, str):
        return hint
    return eval(hint, sam.nodes[node].run.__globals__)  # noqa: S307 - an annotation of our own source


def sketches() -> dict[str, Sketch]:
    """Take sam's rows apart."""
    return {
        name: Sketch(
            reads={read.field.name: resolved(name, node.run.__annotations__[read.field.name]) for read in node.reads},
            grants={grant.parameter: grant.capability for grant in node.grants},
            outcomes={ending.name: dict(ending.fields) for ending in node.transitions},
            goes={ending.name: ending.target for ending in node.transitions},
        )
        for name, node in sam.nodes.items()
    }


def task(name: str, sketch: Sketch, outcomes: Mapping[str, type[Any]]) -> Any:
    """Make a function with the signature of a sketch."""

    async def run(*_reads: Any, **_grants: Any) -> Any:
        raise NotImplementedError

    made: Any = run
    made.__name__ = name
    union: Any = None
    for outcome in outcomes.values():
        union = outcome if union is None else union | outcome
    made.__annotations__ = {**sketch.reads, **sketch.grants, "return": union}
    parameters = [Parameter(field, Parameter.POSITIONAL_OR_KEYWORD) for field in sketch.reads]
    made.__signature__ = Signature([*parameters, *(Parameter(grant, Parameter.KEYWORD_ONLY) for grant in sketch.grants)])
    return made


def build(change: Change, **options: Any) -> Graph:
    """Put sam together again with a change."""
    plan = sketches()
    change(plan)
    outcomes = {
        name: {
            outcome: type(outcome, (Outcome,), {"__annotations__": fields, "__module__": __name__})
            for outcome, fields in sketch.outcomes.items()
        }
        for name, sketch in plan.items()
    }
    tasks = {name: task(name, sketch, outcomes[name]) for name, sketch in plan.items()}
    rows = [
        Row(tasks[name], {outcomes[name][o]: END if target is None else tasks[target] for o, target in sketch.goes.items()})
        for name, sketch in plan.items()
    ]
    settings: dict[str, Any] = {"entry": sam.entry, "forbids": sam.forbids, **options}
    entry = tasks[settings.pop("entry")]
    return Graph(
        "sam", state=AgentState, entry=entry, nodes=rows, takes=sam.state.takes, gives="response", max_steps=sam.max_steps, **settings
    )


def found(change: Change, **options: Any) -> list[str]:
    return differences(build(change, **options), DOCUMENT)


def nothing(_plan: dict[str, Sketch]) -> None:
    """Change nothing."""


def only_rows(node: str, column: str, item: str) -> str:
    return f"node '{node}', '{column}': '{item}' is in the rows but not in the document"


def only_document(node: str, column: str, item: str) -> str:
    return f"node '{node}', '{column}': '{item}' is in the document but not in the rows"


def test_rows_that_are_put_together_again_agree_with_the_document():
    assert found(nothing) == []


@pytest.mark.parametrize(("source", "outcome", "target"), sam.edges)
def test_an_edge_that_leads_elsewhere_is_refused_or_named(source: str, outcome: str, target: str | None):
    changed = 0
    for other in {"error_router_node", "format_response_node", "router_node", None} - {target}:

        def retarget(plan: dict[str, Sketch], other: str | None = other) -> None:
            plan[source].goes[outcome] = other

        try:
            said = found(retarget)
        except ContractError as error:
            assert {problem.rule for problem in error.problems} <= {"unreachable_node", "no_way_out"}  # noqa: PT017 - refused is as good
            continue
        changed += 1
        assert f"edge '{source} - {outcome} -> {other or 'END'}' is in the rows but not in the document" in said
        assert f"edge '{source} - {outcome} -> {target or 'END'}' is in the document but not in the rows" in said
    assert changed or (source, target) in {
        ("router_node", "state_init_node"),
        ("state_init_node", "decision_logic_node"),
        ("decision_logic_node", "task_preprocessing_node"),
        ("decision_logic_node", "model_call_node"),
        ("model_call_node", "result_handling_node"),
        ("format_response_node", None),
    }


@pytest.mark.parametrize("name", [name for name in NODES if name != sam.entry])
def test_a_node_that_is_dropped_is_named(name: str):
    def drop(plan: dict[str, Sketch]) -> None:
        dropped = plan.pop(name)
        onward = next(iter(dropped.goes.values()))
        for sketch in plan.values():
            sketch.goes = {outcome: onward if target == name else target for outcome, target in sketch.goes.items()}
        if name == "decision_logic_node":  # or three others could not be reached
            plan["state_init_node"].goes["Initialised"] = "task_preprocessing_node"
            plan["task_preprocessing_node"].goes["Preprocessed"] = "model_call_node"
            plan["result_handling_node"].goes["Handled"] = "format_response_node"
        if name == "model_call_node":
            plan["task_preprocessing_node"].goes["Preprocessed"] = "result_handling_node"

    said = found(drop)
    assert f"node '{name}' is in the document but not in the rows" in said
    assert f"line of the table '{name}' is in the document but not in the rows" in said
    assert any(edge.startswith(f"edge '{name} - ") and edge.endswith("is in the document but not in the rows") for edge in said)


def test_a_node_that_is_added_is_named():
    def add(plan: dict[str, Sketch]) -> None:
        plan["stranger_node"] = Sketch({}, {}, {"Passed": {}}, {"Passed": "state_init_node"})
        plan["router_node"].goes["Routed"] = "stranger_node"

    assert set(found(add)) == {
        "node 'stranger_node' is in the rows but not in the document",
        "line of the table 'stranger_node' is in the rows but not in the document",
        "edge 'router_node - Routed -> stranger_node' is in the rows but not in the document",
        "edge 'router_node - Routed -> state_init_node' is in the document but not in the rows",
        "edge 'stranger_node - Passed -> state_init_node' is in the rows but not in the document",
    }


def test_another_entry_is_named():
    def go_back(plan: dict[str, Sketch]) -> None:
        plan["state_init_node"].goes["Initialised"] = "router_node"
        plan["router_node"].goes["Routed"] = "decision_logic_node"

    said = found(go_back, entry="state_init_node")
    assert "entry 'state_init_node' is in the rows but not in the document" in said
    assert "entry 'router_node' is in the document but not in the rows" in said


@pytest.mark.parametrize("name", NODES)
def test_an_outcome_that_is_added_is_named(name: str):
    def add(plan: dict[str, Sketch]) -> None:
        plan[name].outcomes["Stranger"] = {}
        plan[name].goes["Stranger"] = None

    assert f"edge '{name} - Stranger -> END' is in the rows but not in the document" in found(add)


def reads() -> Iterator[tuple[str, str]]:
    yield from ((name, field) for name, sketch in sketches().items() for field in sketch.reads)


@pytest.mark.parametrize(("name", "field"), list(reads()))
def test_a_read_that_is_removed_is_named(name: str, field: str):
    shown = next(str(read) for read in sam.nodes[name].reads if read.field.name == field)
    assert found(lambda plan: plan[name].reads.__delitem__(field)) == [only_document(name, "may read", shown)]


@pytest.mark.parametrize("name", NODES)
def test_a_read_that_is_added_is_named(name: str):
    # A field that has no value yet at some node could not be read there: that graph is not built at all.
    readable = [field for field, declared in sam.state.fields.items() if declared.initial is not None or field in sam.state.takes]
    field = next(field for field in readable if field not in sketches()[name].reads)
    hint = sam.state.fields[field].hint
    assert found(lambda plan: plan[name].reads.update({field: hint})) == [only_rows(name, "may read", field)]


@pytest.mark.parametrize("field", ["preprocessing_result", "final_output"])
def test_reading_a_value_in_the_place_of_its_presence_is_named(field: str):
    hint = sam.state.fields[field].hint
    said = found(lambda plan: plan["decision_logic_node"].reads.update({field: hint}))
    assert set(said) == {
        only_rows("decision_logic_node", "may read", field),
        only_document("decision_logic_node", "may read", f"{field}?"),
    }


def grants() -> Iterator[tuple[str, str]]:
    yield from ((name, parameter) for name, sketch in sketches().items() for parameter in sketch.grants)


@pytest.mark.parametrize(("name", "parameter"), list(grants()))
def test_a_grant_that_is_removed_is_named(name: str, parameter: str):
    capability = sketches()[name].grants[parameter].__name__
    said = found(lambda plan: plan[name].grants.__delitem__(parameter))
    assert only_document(name, "may use", capability) in said


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_grant_that_is_added_is_named(name: str, capability: str):
    if CAPABILITIES[capability] in sketches()[name].grants.values():
        return
    said = found(lambda plan: plan[name].grants.update({"extra": CAPABILITIES[capability]}))
    assert set(said) == {only_rows(name, "may use", capability), only_document(name, "must not", capability)}


@pytest.mark.parametrize("name", NODES)
def test_memory_is_refused_for_every_node(name: str):
    with pytest.raises(ContractError, match=f"node '{name}', field 'memory'.*forbids"):
        build(lambda plan: plan[name].grants.update({"memory": Memory}))


def test_memory_that_is_no_longer_forbidden_is_named_for_every_node():
    assert set(found(nothing, forbids=())) == {only_document(name, "must not", "Memory") for name in NODES}


def writes() -> Iterator[tuple[str, str, str]]:
    for name, sketch in sketches().items():
        for outcome, fields in sketch.outcomes.items():
            yield from ((name, outcome, field) for field in fields)


@pytest.mark.parametrize(("name", "outcome", "field"), list(writes()))
def test_a_write_that_is_removed_is_named_unless_another_outcome_has_it(name: str, outcome: str, field: str):
    others = [fields for other, fields in sketches()[name].outcomes.items() if other != outcome and field in fields]
    try:
        said = found(lambda plan: plan[name].outcomes[outcome].__delitem__(field))
    except ContractError as error:
        assert {(problem.rule, problem.field) for problem in error.problems} == {("read_before_write", field)}  # noqa: PT017 - as above
        return
    assert said == ([] if others else [only_document(name, "may write", field)])


@pytest.mark.parametrize("name", NODES)
def test_a_write_that_is_added_is_named(name: str):
    outcome = next(iter(sketches()[name].outcomes))
    field = next(field for field in sam.state.fields if field not in sam.nodes[name].writes)
    hint = sam.state.fields[field].hint
    said = found(lambda plan: plan[name].outcomes[outcome].update({field: hint}))
    assert said == [only_rows(name, "may write", field)]


@pytest.mark.parametrize("name", NODES)
def test_a_node_that_begins_or_ceases_to_branch_is_named(name: str):
    branches = len(sam.nodes[name].targets) > 1

    def change(plan: dict[str, Sketch]) -> None:
        if not branches:
            plan[name].outcomes["Stranger"] = {}
            elsewhere = "error_router_node" if "format_response_node" in plan[name].goes.values() else "format_response_node"
            plan[name].goes["Stranger"] = elsewhere
        else:
            plan[name].goes = dict.fromkeys(plan[name].goes, "format_response_node")
            plan["state_init_node"].outcomes |= {"A": {}, "B": {}, "C": {}, "D": {}}  # so that all can still be reached
            ways = ("decision_logic_node", "task_preprocessing_node", "model_call_node", "error_router_node", "result_handling_node")
            plan["state_init_node"].goes = dict(zip(("Initialised", "A", "B", "C", "D"), ways, strict=True))

    said = found(change)
    assert (only_rows if branches else only_document)(name, "must not", "branch") in said
