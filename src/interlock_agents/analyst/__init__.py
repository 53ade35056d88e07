"""analyst: plans, runs tools concurrently, verifies, plans again if needed, streams the answer and summarises old messages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.agent import Agent
from interlock.reply import Reply
from interlock_agents.analyst.exports import EXPORTS
from interlock_agents.analyst.graph import analyst
from interlock_agents.analyst.input import parse_input
from interlock_agents.analyst.invariants import INVARIANTS
from interlock_agents.analyst.native import NATIVE
from interlock_agents.analyst.nodes import is_useful
from interlock_agents.analyst.offline import AnalystRules
from interlock_agents.analyst.providers import PROVIDERS
from interlock_agents.analyst.settings import AnalystSettings
from interlock_agents.analyst.state import Ai

__all__ = ["agent"]


def _reply(state: Mapping[str, Any]) -> Reply:
    metadata = {
        "used": list(state["used"]),
        "tools": [{"id": one.id, "tool": one.tool, "input": one.args, "code": one.code} for one in state["tool_outputs"]],
        "retries": state["retry_count"],
        "tokens_used": state["tokens_used"],
    }
    return Reply(output=state["messages"][-1].content, metadata=metadata)


def _partial(state: Mapping[str, Any], spoken: str) -> str | None:
    """Return the best answer so far: the whole one, the part that was streamed, or the tool results."""
    last = next(iter(state.get("messages", ())[-1:]), None)
    if isinstance(last, Ai):
        return last.content
    if spoken.strip():
        return spoken
    found = [f"{one.tool}: {str(one.result)[:1000]}" for one in state.get("tool_outputs", ()) if is_useful(one)]
    return "Found so far:\n" + "\n".join(found) if found else None


agent = Agent(
    name="analyst",
    summary="plans, runs tools in parallel, verifies, plans again where needed, streams its answer",
    graphs=(analyst,),
    entries={None: analyst},
    parse_input=parse_input,
    identity="user_id",
    reply=_reply,
    speaks="generator",
    offline=AnalystRules(),
    has_sessions=True,
    persists=("messages", "summary", "session_id", "user_id", "owner", "seen", "sources", "tokens_used", "start_time"),
    partial=_partial,
    native=NATIVE,
    providers=PROVIDERS,
    settings=AnalystSettings,
    exports=EXPORTS,
    document=Path(__file__).with_name("document.md"),
    invariants=INVARIANTS,
    scenes=Path(__file__).with_name("scenes.toml"),
)
