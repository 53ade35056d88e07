"""The rows of the analyst's graph."""

from __future__ import annotations

from interlock.capabilities import Memory, SessionStore
from interlock.contract import END, Graph, node
from interlock_agents.analyst.nodes import generator, ingress, planner, summarizer, tool_executor, tool_router, verifier
from interlock_agents.analyst.state import (
    Admitted,
    AgentState,
    Complex,
    Executed,
    Generated,
    Good,
    Lacking,
    Selected,
    Simple,
    Summarised,
    Untrimmed,
)

__all__ = ["analyst"]

# fmt: off
analyst = Graph(
    "analyst", state=AgentState, entry=ingress, max_steps=100,
    takes=("messages", "user_id", "session_id"), gives="messages", forbids=(Memory, SessionStore),
    nodes=[
        node(ingress,       goes={Admitted: planner}),
        node(planner,       goes={Simple: generator, Complex: tool_router}),
        node(tool_router,   goes={Selected: tool_executor}),
        node(tool_executor, goes={Executed: verifier}),
        node(verifier,      goes={Good: generator, Lacking: planner}),
        node(generator,     goes={Generated: summarizer}),
        node(summarizer,    goes={Summarised: END, Untrimmed: END}),
    ],
)
# fmt: on
