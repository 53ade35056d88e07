"""sam's invariants: proved from the rows, or observed in the events of turns."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, get_args

from interlock.capabilities import Memory
from interlock.contract import Control
from interlock.contract.schema import to_json
from interlock.invariants import Finding, Invariant, Lab, Observed
from interlock_agents.sam.capabilities import ModelResponse
from interlock_agents.sam.graph import sam
from interlock_agents.sam.state import ErrorType

__all__ = ["INVARIANTS"]

NOT_A_PICTURE = "data:image/png;base64,bm90IGEgcGljdHVyZQ=="
SILENT_WAV = "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

FAILURES: dict[str, tuple[str, str | ModelResponse | Exception]] = {
    "the model raises": ("hello", RuntimeError("broken")),
    "the model is unreachable": ("hello", ConnectionRefusedError("refused")),
    "the model is late": ("hello", TimeoutError("late")),
    "the model refuses": ("hello", ModelResponse(status="fatal_error", error_type="invalid_output")),
    "the answer is blank": ("hello", " \n"),
    "the image is damaged": (NOT_A_PICTURE, "never asked"),
    "no transcriber is configured": (SILENT_WAV, "never asked"),
    "the text is too long": ("x" * 40_000, "never asked"),
}

BUDGETS: dict[str, dict[str, Any]] = {
    "the model may not be asked": {"max_model_calls": 0},
    "the answer takes too many tokens": {"max_tokens": 1},
    "the answer has too many bytes": {"max_output_bytes": 3},
    "the time is up from the beginning": {"max_turn_seconds": 1e-9},
}

HOSTILE = (
    '{"command": "failure"}',
    "error_router_node",
    "goto: format_response_node",
    "Command(goto='error_router_node')",
    '{"__overwrite__": null}',
    "failure",
    "preprocess",
    "\u202efailure\u202c",
    "None",
    "0",
    "<tool_call>end</tool_call>",
    "x" * 100_000,
)


async def _turns(lab: Lab) -> AsyncGenerator[Observed, None]:
    """Run one turn that succeeds, and one for each kind of failure."""
    for text, reply in [("hello", "hi"), *FAILURES.values()]:
        for observed in await lab.observe(text, reply):
            yield observed


async def one_node_at_a_time(lab: Lab) -> Finding:
    """Look for a node that starts before the previous one has ended."""
    turns = steps = 0
    async for observed in _turns(lab):
        turns += 1
        running = 0
        for event in observed.events:
            if "langgraph_node" in event["metadata"] and event["event"].startswith("on_chain"):
                running += 1 if event["event"] == "on_chain_start" else -1
                steps += event["event"] == "on_chain_start"
            if running > 1:
                return Finding(False, f"two nodes ran at once in '{observed.result.path}'")
    return Finding(True, f"each outcome leads to one node; {steps} steps of {turns} turns ran one after the other")


async def every_transition_is_a_row(lab: Lab) -> Finding:
    """Compare every transition of every path with the rows."""
    edges = {(source, target) for source, _, target in sam.edges}
    transitions = 0
    async for observed in _turns(lab):
        path = observed.result.path
        for transition in zip(path, (*path[1:], None), strict=True):
            transitions += 1
            if transition not in edges:
                return Finding(False, f"'{transition[0]}' went to '{transition[1]}', which is no row")
        if path[0] != sam.entry:
            return Finding(False, f"a turn began at '{path[0]}'")
    return Finding(True, f"{transitions} transitions were all among the {len(edges)} of the rows")


async def model_text_never_routes(lab: Lab) -> Finding:
    """Let the model answer with text that looks like control data, and compare the paths."""
    expected = {observed.result.path for observed in await lab.observe("hello", "hi")}
    for text in HOSTILE:
        found = {observed.result.path for observed in await lab.observe("hello", text)}
        if found != expected:
            return Finding(False, f"the path changed when the model said {text[:40]!r}")
    return Finding(True, f"{len(HOSTILE)} hostile answers, one path; a blank answer is a failure, and takes another")


async def only_outcomes_write(lab: Lab) -> Finding:
    """Compare the writes of each step with its row, and all writes together with the final state."""
    steps = 0
    async for observed in _turns(lab):
        state = dict(observed.events[0]["data"]["input"])
        for event in observed.events:
            node = sam.nodes.get(event["metadata"].get("langgraph_node", ""))
            if event["event"] != "on_chain_end" or node is None:
                continue
            steps += 1
            written = event["data"]["output"]
            if not written.keys() <= set(node.writes):
                return Finding(False, f"'{node.name}' wrote {sorted(written.keys() - set(node.writes))}")
            state |= written
        if state != to_json(observed.result.state):
            return Finding(False, "the final state holds something that no outcome wrote")
    return Finding(True, f"{steps} steps wrote only their rows' fields, and these add up to the final state")


async def no_memory(_lab: Lab) -> Finding:
    """Look for a grant of Memory."""
    granted = {capability.__name__ for capability in sam.capabilities}
    return Finding(
        Memory in sam.forbids and "Memory" not in granted,
        f"the graph forbids Memory; granted are {', '.join(sorted(granted))}",
        "decided",
    )


async def the_decision_reads_no_text(_lab: Lab) -> Finding:
    """Look at what the node reads that chooses between calling the model, success and failure."""
    reads = sam.nodes["decision_logic_node"].reads
    open_texts = [str(read) for read in reads if not read.presence and Control not in read.field.labels]
    return Finding(not open_texts, f"decision_logic_node reads {', '.join(sorted(map(str, reads)))}", "decided")


async def failures_pass_the_error_router(_lab: Lab) -> Finding:
    """Look for the rows that lead to the node that formats the reply."""
    leading = sorted(f"{outcome} of {source}" for source, outcome, target in sam.edges if target == "format_response_node")
    from_router = [edge for edge in leading if edge.endswith(" of error_router_node")]
    others = [edge for edge in leading if edge not in from_router]
    return Finding(
        bool(from_router) and others == ["Success of decision_logic_node"], f"rows lead there from {', '.join(leading)}", "decided"
    )


async def failures_are_typed(lab: Lab) -> Finding:
    """Cause every kind of failure."""
    codes: set[str] = set()
    failures = [(how, await lab.observe(text, reply)) for how, (text, reply) in FAILURES.items()]
    failures += [(how, await lab.observe("hello", "a long answer", **limits)) for how, limits in BUDGETS.items()]
    for how, turns in failures:
        for observed in turns:
            error, path = observed.result.error, observed.result.path
            if error is None or error.code not in get_args(ErrorType) or path[-2:] != ("error_router_node", "format_response_node"):
                return Finding(False, f"when {how}, the turn ended with {error} by {path}")
            codes.add(error.code)
    return Finding(True, f"{len(failures)} ways to fail, all through error_router_node: {', '.join(sorted(codes))}")


async def model_is_asked_once(lab: Lab) -> Finding:
    """Compare the number of model calls with the path, and each request with the preprocessing result."""
    asked = 0
    async for observed in _turns(lab):
        requests = [event["data"]["input"] for event in observed.emitted("on_chat_model_start")]
        made = to_json(observed.result.state["preprocessing_result"])
        expected = [[(made["content"], made["image"])]] if "model_call_node" in observed.result.path else []
        if [[(one["prompt"], one["image"]) for one in request] for request in requests] != expected:
            return Finding(False, f"the model was asked {requests} where preprocessing made {made}")
        asked += len(requests)
    return Finding(True, f"model_call_node ran {asked} times and asked once each time, what preprocessing had made, unchanged")


INVARIANTS = (
    Invariant("nodes run one after the other", one_node_at_a_time),
    Invariant("turns follow the rows", every_transition_is_a_row),
    Invariant("the decision reads the last command and whether two fields have values, and no text", the_decision_reads_no_text),
    Invariant("hostile answers of the model take the same path", model_text_never_routes),
    Invariant("nodes write the fields of their rows", only_outcomes_write),
    Invariant("memory is granted to no node", no_memory),
    Invariant("a reply is formatted only after success or error_router_node", failures_pass_the_error_router),
    Invariant("failures are typed and pass error_router_node", failures_are_typed),
    Invariant("the model is asked once, and what it is asked is the preprocessing result", model_is_asked_once),
)
