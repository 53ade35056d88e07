"""gateway: an admin side and a customer side, kept apart by a bridge; workers in scopes of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.agent import Agent
from interlock.reply import Reply
from interlock_agents.gateway.graph import SUBGRAPHS, admin_graph, user_graph
from interlock_agents.gateway.invariants import INVARIANTS
from interlock_agents.gateway.offline import GatewayRules
from interlock_agents.gateway.providers import PROVIDERS
from interlock_agents.gateway.settings import GatewaySettings

__all__ = ["agent"]


def _reply(state: Mapping[str, Any]) -> Reply:
    if "response" in state:
        return Reply(output=state["response"], metadata={"origin": state["origin"]})
    output = state["customer_response"] if state["route"] == "route_bridge" else state["supervisor_response"]
    return Reply(output=output, metadata={"route": state["route"], "origin": state["origin"]})


agent = Agent(
    name="gateway",
    summary="admin and customer graphs kept apart by a bridge; workers in scopes of files",
    graphs=(admin_graph, user_graph),
    entries={"admin": admin_graph, "user": user_graph},
    reply=_reply,
    speaks=("supervisor", "customer"),
    answers_empty=True,
    offline=GatewayRules(),
    subgraphs=SUBGRAPHS,
    providers=PROVIDERS,
    settings=GatewaySettings,
    document=Path(__file__).with_name("document.md"),
    invariants=INVARIANTS,
    scenes=Path(__file__).with_name("scenes.toml"),
)
