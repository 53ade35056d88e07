from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.runtime import Runtime
from langgraph.types import Command

from interlock import END, Graph
from interlock.capabilities import Memory
from interlock.contract.node import Node, Row
from interlock.contract.render import mermaid
from interlock.discovery import AGENTS, load_agent
from interlock.engine import RunNode, langgraph
from interlock.engine.direct import DirectGraph
from interlock.invariants import Finding, Invariant, Lab, Observed
from interlock.reply import Fault
from interlock.runtime.events import Event
from interlock.verification.verdicts import (
    EngineLab,
    Verdict,
    compare_compiled,
    compare_document,
    follow_outcomes,
    verify_agent,
    verify_graph,
)
from interlock_agents.sam import invariants
from interlock_agents.sam.graph import sam
from interlock_agents.sam.state import AgentState

Doctor = Callable[[Observed], Observed]
Check = Callable[[Lab], Awaitable[Finding]]


async def test_sam_keeps_everything_it_promises():
    verdicts = [verdict async for verdict in verify_agent(load_agent("sam"))]
    proved = [verdict for verdict in verdicts if verdict.how in {"proved", "trusted"} or "decisions and guards are" in verdict.invariant]
    assert [verdict.invariant for verdict in verdicts if verdict not in proved] == [
        "sam: signatures, state and rows fit together",
        "sam: LangGraph draws the nodes and edges of the rows",
        "sam: every outcome leads where its row says, on both engines",
        "sam: the rows are the document's",
        *(invariant.statement for invariant in invariants.INVARIANTS),
    ]
    assert [verdict for verdict in verdicts if not verdict.holds] == []
    assert all(verdict.proof for verdict in verdicts)


async def test_a_lab_takes_the_same_turn_on_every_engine(tmp_path: Path):
    first, second = await EngineLab(load_agent("sam"), tmp_path).observe("hello", "hi")
    assert first == second
    assert first.result.output == "hi"
    assert first.events


class DoctoredLab:
    """Shows turns that went wrong: each one is taken as it should be, and then falsified."""

    def __init__(self, doctor: Doctor) -> None:
        self._doctor = doctor
        self._lab = EngineLab(load_agent("sam"), Path("nowhere"))

    async def observe(
        self, text: str | Mapping[str, Any], *replies: Any, session: str | None = None, role: str | None = None, **settings: Any
    ) -> Sequence[Observed]:
        first, *others = await self._lab.observe(text, *replies, session=session, role=role, **settings)
        return [first, *map(self._doctor, others)]

    async def observe_at_once(self, text: str, *replies: Any, session: str, times: int) -> Sequence[Observed]:
        return [self._doctor(one) for one in await self._lab.observe_at_once(text, *replies, session=session, times=times)]


def overlap(observed: Observed) -> Observed:
    """Let the second node start before the first one has ended."""
    events = list(observed.events)
    ended = next(i for i, event in enumerate(events) if event["event"] == "on_chain_end")
    events[ended], events[ended + 1] = events[ended + 1], events[ended]
    return Observed(observed.result, events)


def skip(observed: Observed) -> Observed:
    """Leave a node out of the path."""
    return Observed(replace(observed.result, path=(observed.result.path[0], *observed.result.path[2:])), observed.events)


def stop_early(observed: Observed) -> Observed:
    """End before END."""
    return Observed(replace(observed.result, path=observed.result.path[:-1]), observed.events)


def begin_late(observed: Observed) -> Observed:
    """Begin after the entry."""
    return Observed(replace(observed.result, path=observed.result.path[1:]), observed.events)


def obey(observed: Observed) -> Observed:
    """Take another path when the model says 'failure'."""
    output = observed.result.state["model_response"].output
    return skip(observed) if output == "failure" else observed


def changed(observed: Observed, node: str, **written: Any) -> Observed:
    """Let a node write something else."""

    def change(event: Event) -> Event:
        if event["event"] != "on_chain_end" or event["name"] != node:
            return event
        copy = event.copy()
        copy["data"] = {"output": {**event["data"]["output"], **written}}
        return copy

    return Observed(observed.result, [change(event) for event in observed.events])


def write_more(observed: Observed) -> Observed:
    """Let the router write the command."""
    return changed(observed, "router_node", command="success")


def tamper(observed: Observed) -> Observed:
    """Change the final state behind the back of the outcomes."""
    return Observed(replace(observed.result, state={**observed.result.state, "command": "preprocess"}), observed.events)


def untype(observed: Observed) -> Observed:
    """Let a failure have a code that nobody knows."""
    fault = Fault(code="internal", message="oops", node="model_call_node")
    return observed if observed.result.error is None else Observed(replace(observed.result, error=fault), observed.events)


def pass_by(observed: Observed) -> Observed:
    """Let a failure go around the error router."""
    path = tuple(name for name in observed.result.path if name != "error_router_node")
    return Observed(replace(observed.result, path=path), observed.events)


def forgive(observed: Observed) -> Observed:
    """Let a failure pass for a success."""
    return Observed(replace(observed.result, status="success", error=None), observed.events)


def ask_again(observed: Observed) -> Observed:
    """Let the model be asked a second time."""
    more = [event for event in observed.events for _ in range(1 + (event["event"] == "on_chat_model_start"))]
    return Observed(observed.result, more)


def embellish(observed: Observed) -> Observed:
    """Let the model be asked something else than what preprocessing made."""

    def change(event: Event) -> Event:
        if event["event"] != "on_chat_model_start":
            return event
        copy = event.copy()
        copy["data"] = {"input": [{**one, "prompt": f"Think step by step. {one['prompt']}"} for one in event["data"]["input"]]}
        return copy

    return Observed(observed.result, [change(event) for event in observed.events])


BROKEN: list[tuple[Check, Doctor, str]] = [
    (invariants.one_node_at_a_time, overlap, "two nodes ran at once"),
    (invariants.every_transition_is_a_row, skip, "'router_node' went to 'decision_logic_node', which is no row"),
    (invariants.every_transition_is_a_row, stop_early, "went to 'None', which is no row"),
    (invariants.every_transition_is_a_row, begin_late, "a turn began at 'state_init_node'"),
    (invariants.model_text_never_routes, obey, "the path changed when the model said 'failure'"),
    (invariants.only_outcomes_write, write_more, "'router_node' wrote ['command']"),
    (invariants.only_outcomes_write, tamper, "the final state holds something that no outcome wrote"),
    (invariants.failures_are_typed, untype, "when the model raises, the turn ended with Fault(code='internal'"),
    (invariants.failures_are_typed, pass_by, "when the model raises"),
    (invariants.failures_are_typed, forgive, "ended with None"),
    (invariants.model_is_asked_once, ask_again, "where preprocessing made"),
    (invariants.model_is_asked_once, embellish, "Think step by step."),
]


@pytest.mark.parametrize(("check", "doctor", "proof"), BROKEN, ids=[f"{case[0].__name__}-{case[1].__name__}" for case in BROKEN])
async def test_an_invariant_that_is_broken_on_one_engine_is_found_and_reported(check: Check, doctor: Doctor, proof: str):
    finding = await check(DoctoredLab(doctor))
    assert not finding.holds
    assert proof in finding.proof


def sam_with(**options: Any) -> Graph:
    """Build sam again with other options."""
    rows = [
        Row(node.run, {ending.outcome: sam.nodes[ending.target].run if ending.target else END for ending in node.transitions})
        for node in sam.nodes.values()
    ]
    entry = sam.nodes[sam.entry].run
    return Graph("sam", state=AgentState, entry=entry, nodes=rows, takes=sam.state.takes, gives="response", max_steps=10, **options)


async def test_sam_without_its_ban_on_memory_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert (await invariants.no_memory(EngineLab(load_agent("sam"), tmp_path))).holds
    monkeypatch.setattr(invariants, "sam", sam_with())
    assert not (await invariants.no_memory(EngineLab(load_agent("sam"), tmp_path))).holds
    monkeypatch.setattr(invariants, "sam", sam_with(forbids=(Memory,)))
    assert (await invariants.no_memory(EngineLab(load_agent("sam"), tmp_path))).holds


CHANGED_ROWS: list[tuple[Check, Any]] = [
    (invariants.the_decision_reads_no_text, SimpleNamespace(nodes={"decision_logic_node": sam.nodes["model_call_node"]})),
    (
        invariants.failures_pass_the_error_router,
        SimpleNamespace(edges=[*sam.edges, ("model_call_node", "Refused", "format_response_node")]),
    ),
]


@pytest.mark.parametrize(("check", "rows"), CHANGED_ROWS, ids=[case[0].__name__ for case in CHANGED_ROWS])
async def test_rows_that_break_what_is_decided_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, check: Check, rows: Any):
    lab = EngineLab(load_agent("sam"), tmp_path)
    assert (await check(lab)).holds
    monkeypatch.setattr(invariants, "sam", rows)
    assert not (await check(lab)).holds


def test_each_of_sams_invariants_can_fail():
    checks = {check for check, _, _ in BROKEN} | {check for check, _ in CHANGED_ROWS} | {invariants.no_memory}
    assert checks == {invariant.check for invariant in invariants.INVARIANTS}


NODES = set(sam.nodes)
EDGES = {(source, target or "__end__") for source, _, target in sam.edges} | {("__start__", sam.entry)}

COMPILED: dict[str, tuple[set[str], set[tuple[str, str]], str]] = {
    "a node is missing": (NODES - {"router_node"}, EDGES, "router_node"),
    "a node is extra": (NODES | {"stranger"}, EDGES, "stranger"),
    "an edge is missing": (NODES, EDGES - {("router_node", "state_init_node")}, "('router_node', 'state_init_node')"),
    "an edge is extra": (NODES, EDGES | {("router_node", "__end__")}, "('router_node', '__end__')"),
    "it starts elsewhere": (
        NODES,
        EDGES - {("__start__", "router_node")} | {("__start__", "model_call_node")},
        "('__start__', 'model_call_node')",
    ),
}


@pytest.mark.parametrize(("nodes", "edges", "named"), COMPILED.values(), ids=COMPILED.keys())
def test_a_compiled_graph_that_differs_from_the_rows_is_found_and_named(
    monkeypatch: pytest.MonkeyPatch, nodes: set[str], edges: set[tuple[str, str]], named: str
):
    monkeypatch.setattr(langgraph, "drawn", lambda _graph: (nodes, edges))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    finding = compare_compiled(sam)
    assert not finding.holds
    assert named in finding.proof


def test_the_compiled_graph_of_sam_is_the_rows():
    assert langgraph.drawn(sam) == (NODES, EDGES)
    assert compare_compiled(sam).holds


@pytest.mark.parametrize("taken", [0, -1], ids=["the first", "the last"])
async def test_an_engine_that_always_takes_one_target_is_found(monkeypatch: pytest.MonkeyPatch, taken: int):
    """Its picture is right: it is drawn from the targets that it was handed."""

    def misled(node: Node) -> Any:
        real = run_in_turn(node)

        async def run(state: Any, runtime: Runtime[Any]) -> Command[str]:
            command = await real(state, runtime)
            return Command(update=command.update, goto=node.transitions[taken].target or "__end__")

        return run

    run_in_turn = langgraph._run_in_turn  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(langgraph, "_run_in_turn", misled)
    assert compare_compiled(sam).holds
    finding = await follow_outcomes(sam)
    assert (finding.holds, finding.how) == (False, "decided")
    assert "on langgraph, '" in finding.proof


async def test_the_direct_engine_is_followed_too(monkeypatch: pytest.MonkeyPatch):
    async def run(self: DirectGraph, given: Any, run_node: RunNode, kept: Any = None) -> Any:
        await run_node(sam.nodes[sam.entry], {})
        await run_node(sam.nodes["format_response_node"], {})

    monkeypatch.setattr(DirectGraph, "run", run)
    finding = await follow_outcomes(sam)
    assert not finding.holds
    assert "on direct, 'Routed' of 'router_node' leads to 'format_response_node' instead of 'state_init_node'" in finding.proof


@pytest.mark.parametrize("name", AGENTS)
async def test_every_outcome_of_every_agent_leads_where_its_row_says(name: str):
    for graph in load_agent(name).graphs:
        assert (await follow_outcomes(graph)).holds


# What a line says, and what its check looks at

UNIVERSAL = re.compile(r"\b(?:never|always|every|all|only|no|none|nothing|nobody|any|each|cannot|exactly)\b", re.IGNORECASE)


@pytest.mark.parametrize("name", AGENTS)
async def test_no_line_says_more_than_its_check_does(name: str):
    """Examples prove nothing about all cases: what was only seen is not worded as if it were always so, and says how much was seen."""
    verdicts = [verdict async for verdict in verify_agent(load_agent(name))]
    assert [verdict for verdict in verdicts if not verdict.holds] == []
    seen = [verdict for verdict in verdicts if verdict.how == "seen"]
    assert [verdict.invariant for verdict in seen if UNIVERSAL.search(verdict.invariant)] == []
    assert [verdict.proof for verdict in seen if not re.search(r"\d", verdict.proof)] == []
    assert [verdict.invariant for verdict in verdicts if "proof" in verdict.invariant or "holds" in verdict.invariant] == []


async def test_what_turns_have_shown_is_seen_even_if_the_check_claims_more(tmp_path: Path):
    async def boasts(lab: Lab) -> Finding:
        await lab.observe("hello", "hi")
        return Finding(True, "all is well", "decided")

    async def decides(_lab: Lab) -> Finding:
        return Finding(True, "all rows", "decided")

    agent = replace(load_agent("sam"), invariants=(Invariant("boasts", boasts), Invariant("decides", decides)))
    *_, boasting, deciding = [verdict async for verdict in verify_agent(agent)]
    assert (boasting.how, boasting.proof) == ("seen", "2 turns: all is well")
    assert (deciding.how, deciding.proof) == ("decided", "all rows")


def document_of(graph: Graph) -> str:
    """Write a document that agrees with a graph."""
    head = "| node | may read | may write | may use | must not |\n|---|---|---|---|---|\n"
    lines = [
        "| " + " | ".join([f"`{name}`", *(", ".join(f"`{item}`" for item in cell) or "-" for cell in cells)]) + " |"
        for name, node in graph.nodes.items()
        for cells in [[[str(read) for read in node.reads], node.writes, [grant.name for grant in node.grants], graph.may_not(name)]]
    ]
    return f"```mermaid\n{mermaid(graph)}```\n\n{head}" + "\n".join(lines) + "\n"


def test_the_drawn_flowchart_is_one_that_can_be_read_back(tmp_path: Path):
    file = tmp_path / "sam.md"
    file.write_text(document_of(sam))
    assert compare_document(sam, file) == Finding(True, "nodes, edges, duties and prohibitions agree with sam.md", "agrees")


async def test_a_document_that_differs_or_cannot_be_read_breaks_the_verdict(tmp_path: Path):
    file = tmp_path / "sam.md"
    file.write_text(document_of(sam).replace("`Clock`, `Ids`", "`Ids`", 1))
    *_, differs = [verdict async for verdict in verify_graph(sam, file)]
    assert (differs.invariant, differs.holds) == ("sam: the rows are the document's", False)
    assert "'Clock' is in the rows but not in the document" in differs.proof
    *_, missing = [verdict async for verdict in verify_graph(sam, tmp_path / "none.md")]
    assert (missing.holds, "cannot be read" in missing.proof) == (False, True)


async def test_a_graph_without_a_document_is_checked_for_the_rest():
    verdicts: list[Verdict] = [verdict async for verdict in verify_graph(sam, None)]
    assert [(verdict.holds, verdict.how) for verdict in verdicts[:3]] == [(True, "agrees"), (True, "agrees"), (True, "decided")]
    assert all(verdict.holds and verdict.how in {"proved", "trusted"} for verdict in verdicts[3:])
    assert sam.fingerprint[:12] in verdicts[0].proof
