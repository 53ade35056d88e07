"""The rows of the desk's five graphs. The graphs of the planner and the specialists implement capabilities of the others."""

from __future__ import annotations

from interlock.capabilities import Memory, Model, SessionStore, ToolGateway
from interlock.contract import END, Graph, node
from interlock.runtime.targets import Subgraph
from interlock_agents.desk import roles, state
from interlock_agents.desk.nodes import orchestrator as turn
from interlock_agents.desk.nodes import planner, runtime, structured, tool_planning

__all__ = ["GRAPHS", "SUBGRAPHS", "handle_message", "planner_graph", "runtime_graph", "structured_graph", "tool_planning_graph"]

# fmt: off
planner_graph = Graph(
    "planner.model_graph", state=state.PlannerState, entry=planner.prompt, max_steps=3,
    takes=("request",), gives="response", forbids=(SessionStore, Memory, ToolGateway),
    nodes=[
        node(planner.prompt,     goes={state.Asked: planner.model}),
        node(planner.model,      goes={state.Said: planner.parse_json}),
        node(planner.parse_json, goes={state.Understood: END}),
    ],
)

structured_graph = Graph(
    "specialist.structured_graph", state=state.StructuredState, entry=structured.prompt, max_steps=3,
    takes=("specialist", "payload"), gives="response", forbids=(SessionStore, Memory, ToolGateway),
    nodes=[
        node(structured.prompt,     goes={state.Asked: structured.model}),
        node(structured.model,      goes={state.Said: structured.parse_json}),
        node(structured.parse_json, goes={state.Parsed: END}),
    ],
)

tool_planning_graph = Graph(
    "specialist.tool_planning_graph", state=state.ToolPlanningState, entry=tool_planning.prompt, max_steps=2,
    takes=("specialist", "payload"), gives="reply", forbids=(SessionStore, Memory, ToolGateway),
    nodes=[
        node(tool_planning.prompt, goes={state.Asked: tool_planning.model}),
        node(tool_planning.model,  goes={state.Chosen: END}),
    ],
)

runtime_graph = Graph(
    "specialist.runtime_graph", state=state.RuntimeState, entry=runtime.validate_and_prepare, max_steps=3,
    takes=("specialist", "request"), gives="response", forbids=(Model, SessionStore, Memory, ToolGateway),
    nodes=[
        node(runtime.validate_and_prepare, goes={state.Free: runtime.tool_path, state.Blocked: runtime.structured_path}),
        node(runtime.tool_path,            goes={state.Offered: END, state.Spoken: runtime.structured_path}),
        node(runtime.structured_path,      goes={state.Responded: END}),
    ],
)

handle_message = Graph(
    "orchestrator.handle_message", state=state.OrchestratorState, entry=turn.validate_request, max_steps=10,
    takes=("session_id", "text", "workspace_id", "customer_id", "channel_type"), gives="reply", forbids=(Model,),
    nodes=[
        node(turn.validate_request,        goes={state.Accepted: turn.load_or_create_state}),
        node(turn.load_or_create_state,    goes={state.Loaded: turn.read_memory}),
        node(turn.read_memory,             goes={state.Recalled: turn.plan_goal}),
        node(turn.plan_goal,               goes={state.Planned: turn.apply_plan}),
        node(turn.apply_plan,              goes={state.PlanApplied: turn.dispatch_specialist}),
        node(turn.dispatch_specialist,     goes={state.Dispatched: turn.apply_state_updates}),
        node(turn.apply_state_updates,     goes={state.UpdatesApplied: turn.validate_and_save_state}),
        node(turn.validate_and_save_state, goes={state.Saved: turn.write_memory}),
        node(turn.write_memory,            goes={state.Remembered: turn.finalize_reply}),
        node(turn.finalize_reply,          goes={state.Replied: END}),
    ],
)
# fmt: on

GRAPHS = (planner_graph, structured_graph, tool_planning_graph, runtime_graph, handle_message)

SUBGRAPHS = {
    roles.Planner: Subgraph(planner_graph),
    roles.SalesSpecialist: Subgraph(runtime_graph, specialist="sales"),
    roles.SupportSpecialist: Subgraph(runtime_graph, specialist="support"),
    roles.StructuredSpecialist: Subgraph(structured_graph),
    roles.ToolPlanner: Subgraph(tool_planning_graph),
}
