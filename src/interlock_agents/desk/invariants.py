"""The desk's guarantees: decided from the rows, or observed in turns with scripted models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from interlock.capabilities import Human, MemoryWriter, Model, ModelReply, SessionWriter, ToolCall, ToolGateway
from interlock.invariants import Finding, Invariant, Lab, Observed
from interlock_agents.desk.graph import GRAPHS, SUBGRAPHS, handle_message

__all__ = ["INVARIANTS"]

ASK = json.dumps({"goal": {"goal_type": "sales.order", "missing": ["quantity"], "next_question": "How many?"}})
HELP = json.dumps({"goal": {"goal_type": "support.question"}})
HOW_MANY = json.dumps({"message": "How many?"})
SEARCH = ModelReply(calls=(ToolCall(id="1", name="knowledge_base.search", arguments={"query": "return a product"}),))
DONE = json.dumps({"message": "Done.", "state_updates": {"mark_done": True}})

NO_PLANS: dict[str, str] = {
    "fenced": f"```json\n{HELP}\n```",
    "cut off": HELP[:-2],
    "with something behind it": f"{HELP} Sure!",
    "not JSON": "support.question",
    "of another department": json.dumps({"goal": {"goal_type": "hr.leave"}}),
    "of no priority": json.dumps({"goal": {"goal_type": "sales.order", "priority": 0}}),
    "with something missing and no question": json.dumps({"goal": {"goal_type": "sales.order", "missing": ["quantity"]}}),
    "with a key of its own": json.dumps({"goal": {"goal_type": "sales.order"}, "route": "finalize_reply"}),
}


async def grants_are_narrow(_lab: Lab) -> Finding:
    """Compare the grants of all five graphs with the expected nodes."""
    expected = {
        SessionWriter: {"orchestrator.handle_message/validate_and_save_state"},
        MemoryWriter: {"orchestrator.handle_message/write_memory"},
        ToolGateway: {"orchestrator.handle_message/dispatch_specialist"},
        Human: {"orchestrator.handle_message/dispatch_specialist"},
        Model: {f"{name}/model" for name in ("planner.model_graph", "specialist.structured_graph", "specialist.tool_planning_graph")},
    }
    for capability, nodes in expected.items():
        granted = {f"{graph.name}/{node.name}" for graph in GRAPHS for node in graph.nodes.values() if _uses(node.grants, capability)}
        if granted != nodes:
            return Finding(False, f"'{capability.__name__}' is granted to {', '.join(sorted(granted))}", "decided")
    counts = "; ".join(f"{capability.__name__}: {len(nodes)}" for capability, nodes in expected.items())
    return Finding(True, f"{counts} nodes in five graphs", "decided")


def _uses(grants: Iterable[Any], capability: type) -> bool:
    """Return whether one of the grants is the capability or contains it."""
    return any(capability in grant.capability.__mro__ for grant in grants)


async def five_graphs(lab: Lab) -> Finding:
    """Run a turn through all five graphs, and look for their nodes in the path."""
    names = {graph.name for graph in GRAPHS}
    seen: set[str] = set()
    for observed in [*await lab.observe("Lamps", ASK, HOW_MANY), *await lab.observe("Returns?", HELP, SEARCH, DONE)]:
        seen |= {event["name"] for event in observed.emitted("on_chain_start")} & names
        wrong = _walked_wrongly(observed)
        if wrong is not None:
            return Finding(False, wrong)
    behind = ", ".join(f"{capability.__name__}" for capability in SUBGRAPHS)
    return Finding(seen == names, f"{len(seen)} of five were walked, inside their nodes; behind {behind}")


def _walked_wrongly(observed: Observed) -> str | None:
    outer = [node for node in observed.result.path if "/" not in node]
    expected = list(handle_message.nodes)
    return None if outer == expected else f"a turn went {' > '.join(outer)}"


async def an_invalid_session_is_not_saved(lab: Lab) -> Finding:
    """Let a specialist block a goal without a missing field, then compare the stored session."""
    blocked = json.dumps({"message": "Wait.", "state_updates": {"set_status": "blocked"}})
    first = await lab.observe("Returns?", HELP, SEARCH, blocked, session="invalid")
    after = await lab.observe("Returns?", HELP, SEARCH, DONE, session="invalid")
    codes = {(one.result.error.code, one.result.error.node) for one in first if one.result.error is not None}
    versions = {one.result.state["session"].version for one in after}
    kept = codes == {("state_invalid", "validate_and_save_state")} and versions == {1}
    return Finding(kept, f"{', '.join(sorted(f'{code} in {node}' for code, node in codes))}; the next turn is version {max(versions)}")


async def saved_before_remembered(_lab: Lab) -> Finding:
    """Find the rows that lead to the node that writes the memory."""
    leading = [(source, outcome) for source, outcome, target in handle_message.edges if target == "write_memory"]
    summary = ", ".join(f"{outcome} of {source}" for source, outcome in leading)
    return Finding(leading == [("validate_and_save_state", "Saved")], f"write_memory is reached by {summary}", "decided")


async def goals_are_resumed(lab: Lab) -> Finding:
    """Interrupt an order by a question, and check that the order is resumed."""
    await lab.observe("A lamp, please", ASK, HOW_MANY, session="resume")
    goals: list[str] = []
    for observed in await lab.observe("Returns?", HELP, SEARCH, DONE, session="resume"):
        session, reply = observed.result.state["session"], observed.result.output
        goal = session.active_goal
        if goal is None or goal.type != "sales.order" or "How many?" not in reply:
            return Finding(False, f"after the interruption the desk is at {goal}")
        goals += [f"{one.type} {one.status}" for one in session.goals.values()]
    return Finding(True, f"after an interruption: {', '.join(dict.fromkeys(goals))}, and its question is asked again")


async def model_output_is_exact(lab: Lab) -> Finding:
    """Let the planner answer with JSON that is almost valid."""
    for how, text in NO_PLANS.items():
        for observed in await lab.observe("Hello", text, HOW_MANY, session="exact"):
            error = observed.result.error
            if error is None or (error.code, error.node) != ("model_output_invalid", "plan_goal/parse_json"):
                return Finding(False, f"a plan {how} ended with {error}")
    kept = {one.result.state["session"].version for one in await lab.observe("Hello", ASK, HOW_MANY, session="exact")}
    return Finding(kept == {1}, f"{len(NO_PLANS)} answers that are no plan, each model_output_invalid, nothing saved")


async def tools_are_bounded(lab: Lab) -> Finding:
    """Let a specialist request the tool of another one, and request tools twice."""
    other = ModelReply(calls=(ToolCall(id="1", name="inventory.query", arguments={"query": "lamp"}),))
    again = json.dumps({"message": "", "tool_requests": [{"tool": "math.evaluate", "args": {"expression": "1"}}]})
    cases: Sequence[tuple[tuple[Any, ...], str]] = (((HELP, other), "tool_denied"), ((HELP, SEARCH, again), "model_output_invalid"))
    for replies, code in cases:
        for observed in await lab.observe("Returns?", *replies):
            error = observed.result.error
            if error is None or error.code != code:
                return Finding(False, f"instead of {code} the turn ended with {error}")
    return Finding(True, "another specialist's tool: tool_denied; tools again in the second pass: model_output_invalid")


async def no_empty_reply(lab: Lab) -> Finding:
    """Let a specialist answer with an empty message."""
    for observed in await lab.observe("Lamps", ASK, json.dumps({"message": " \n"})):
        error = observed.result.error
        if error is None or (error.code, error.node) != ("model_output_invalid", "finalize_reply"):
            return Finding(False, f"an empty message ended with {error}")
    return Finding(True, "an empty message is refused in finalize_reply")


async def no_update_is_lost(lab: Lab) -> Finding:
    """Run concurrent turns on one session in separate applications, and count the stored ones."""
    taken = await lab.observe_at_once("A lamp, please", ASK, HOW_MANY, session="race", times=8)
    accepted = sum(one.result.error is None for one in taken)
    codes = {one.result.error.code for one in taken if one.result.error is not None}
    after = await lab.observe("And?", ASK, HOW_MANY, session="race")
    versions = sum(one.result.state["session"].version - 1 for one in after)
    summary = f"{len(taken)} at once: {accepted} accepted, {len(taken) - accepted} refused with {', '.join(sorted(codes)) or 'no error'}"
    return Finding(versions == accepted == len(taken), f"{summary}; {versions} versions kept")


INVARIANTS = (
    Invariant("turns pass the ten nodes in order, and the other graphs inside them", five_graphs),
    Invariant("one node writes the session, one the memory, one runs tools and asks a person, three call a model", grants_are_narrow),
    Invariant("a session that breaks its rules is not saved", an_invalid_session_is_not_saved),
    Invariant("the memory is written only after the session is saved", saved_before_remembered),
    Invariant("a goal that was interrupted is resumed", goals_are_resumed),
    Invariant("malformed plans end the turn, and the session stays as it was", model_output_is_exact),
    Invariant("a specialist is refused the tools of another, and tools in its second pass", tools_are_bounded),
    Invariant("an empty message is refused", no_empty_reply),
    Invariant("turns at once on one session run one after the other and are kept", no_update_is_lost),
)
