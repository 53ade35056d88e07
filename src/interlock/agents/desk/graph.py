"""The desk: five graphs. Those of the planner and the specialists stand behind capabilities of the others."""

from __future__ import annotations

from interlock.agents.desk.nodes import planner, runtime, structured, tool_planning
from interlock.agents.desk.nodes.orchestrator import (
    apply_plan,
    apply_state_updates,
    dispatch_specialist,
    finalize_reply,
    load_or_create_state,
    plan_goal,
    read_memory,
    validate_and_save_state,
    validate_request,
    write_memory,
)
from interlock.agents.desk.roles import Planner, SalesSpecialist, StructuredSpecialist, SupportSpecialist, ToolPlanner
from interlock.agents.desk.state import (
    Accepted,
    Asked,
    Blocked,
    Chosen,
    Dispatched,
    Free,
    Loaded,
    Offered,
    OrchestratorState,
    Parsed,
    PlanApplied,
    Planned,
    PlannerState,
    Recalled,
    Remembered,
    Replied,
    Responded,
    RuntimeState,
    Said,
    Saved,
    StructuredState,
    ToolPlanningState,
    Understood,
    UpdatesApplied,
)
from interlock.capabilities import Memory, Model, SessionStore, ToolGateway
from interlock.contract import END, Graph, node
from interlock.runtime.subgraph import Subgraph

__all__ = ["GRAPHS", "SUBGRAPHS", "handle_message", "planner_graph", "runtime_graph", "structured_graph", "tool_planning_graph"]

# fmt: off
planner_graph = Graph(
    "planner.model_graph", state=PlannerState, entry=planner.prompt, steps=3,
    takes=("request",), gives="response", forbids=(SessionStore, Memory, ToolGateway),
    nodes=[
        node(planner.prompt,     goes={Asked: planner.model}),
        node(planner.model,      goes={Said: planner.parse_json}),
        node(planner.parse_json, goes={Understood: END}),
    ],
)

structured_graph = Graph(
    "specialist.structured_graph", state=StructuredState, entry=structured.prompt, steps=3,
    takes=("specialist", "payload"), gives="response", forbids=(SessionStore, Memory, ToolGateway),
    nodes=[
        node(structured.prompt,     goes={Asked: structured.model}),
        node(structured.model,      goes={Said: structured.parse_json}),
        node(structured.parse_json, goes={Parsed: END}),
    ],
)

tool_planning_graph = Graph(
    "specialist.tool_planning_graph", state=ToolPlanningState, entry=tool_planning.prompt, steps=2,
    takes=("specialist", "payload", "tools"), gives="reply", forbids=(SessionStore, Memory, ToolGateway),
    nodes=[
        node(tool_planning.prompt, goes={Asked: tool_planning.model}),
        node(tool_planning.model,  goes={Chosen: END}),
    ],
)

runtime_graph = Graph(
    "specialist.runtime_graph", state=RuntimeState, entry=runtime.validate_and_prepare, steps=2,
    takes=("specialist", "request"), gives="response", forbids=(Model, SessionStore, Memory, ToolGateway),
    nodes=[
        node(runtime.validate_and_prepare, goes={Free: runtime.tool_path,
                                                 Blocked: runtime.structured_path}),
        node(runtime.tool_path,            goes={Offered: END}),
        node(runtime.structured_path,      goes={Responded: END}),
    ],
)

handle_message = Graph(
    "orchestrator.handle_message", state=OrchestratorState, entry=validate_request, steps=10,
    takes=("session_id", "text", "workspace_id", "customer_id", "channel_type"), gives="reply", forbids=(Model,),
    nodes=[
        node(validate_request,        goes={Accepted: load_or_create_state}),
        node(load_or_create_state,    goes={Loaded: read_memory}),
        node(read_memory,             goes={Recalled: plan_goal}),
        node(plan_goal,               goes={Planned: apply_plan}),
        node(apply_plan,              goes={PlanApplied: dispatch_specialist}),
        node(dispatch_specialist,     goes={Dispatched: apply_state_updates}),
        node(apply_state_updates,     goes={UpdatesApplied: validate_and_save_state}),
        node(validate_and_save_state, goes={Saved: write_memory}),
        node(write_memory,            goes={Remembered: finalize_reply}),
        node(finalize_reply,          goes={Replied: END}),
    ],
)
# fmt: on

GRAPHS = (planner_graph, structured_graph, tool_planning_graph, runtime_graph, handle_message)

SUBGRAPHS = {
    Planner: Subgraph(planner_graph),
    SalesSpecialist: Subgraph(runtime_graph, specialist="sales"),
    SupportSpecialist: Subgraph(runtime_graph, specialist="support"),
    StructuredSpecialist: Subgraph(structured_graph),
    ToolPlanner: Subgraph(tool_planning_graph),
}
