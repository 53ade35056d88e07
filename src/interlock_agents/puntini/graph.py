"""The rows of puntini's graph: a goal becomes actions on a property graph; failures are diagnosed, retried, or escalated to a person."""

from __future__ import annotations

from interlock.capabilities import Memory, SessionStore
from interlock.contract import END, Graph, node
from interlock_agents.puntini.graph_store import GraphStore
from interlock_agents.puntini.nodes import answer, call_tool, diagnose, escalate, evaluate, parse_goal, plan_step, route_tool
from interlock_agents.puntini.state import (
    Called,
    Complete,
    ComplexGoal,
    Escalated,
    Exhausted,
    GiveUp,
    NotCalled,
    NotPlanned,
    PuntiniState,
    Refused,
    Reported,
    Resumed,
    Retry,
    Routed,
    SimpleGoal,
    StepDone,
    StepFailed,
    StepPlanned,
    Unclear,
)

__all__ = ["puntini"]

# fmt: off
puntini = Graph(
    "puntini", state=PuntiniState, entry=parse_goal, max_steps=600,
    takes=("goal", "session_id"), gives="final_answer", forbids=(GraphStore, Memory, SessionStore),
    nodes=[
        node(parse_goal, goes={SimpleGoal: route_tool, ComplexGoal: plan_step, Resumed: plan_step, Unclear: diagnose}),
        node(plan_step,  goes={StepPlanned: route_tool, NotPlanned: diagnose}),
        node(route_tool, goes={Routed: call_tool, Refused: diagnose}),
        node(call_tool,  goes={Called: evaluate, NotCalled: diagnose}),
        node(evaluate,   goes={StepDone: plan_step, Complete: answer, StepFailed: diagnose, Exhausted: escalate}),
        node(diagnose,   goes={Retry: plan_step, GiveUp: escalate}),
        node(escalate,   goes={Escalated: answer}),
        node(answer,     goes={Reported: END}),
    ],
)
# fmt: on
