"""sam: text, audio or image in; one model call; typed failures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.agent import Agent
from interlock.reply import Fault, Reply
from interlock_agents.sam.graph import sam
from interlock_agents.sam.invariants import INVARIANTS
from interlock_agents.sam.offline import SamRules
from interlock_agents.sam.providers import PROVIDERS
from interlock_agents.sam.settings import SamSettings
from interlock_agents.sam.state import Response

__all__ = ["agent"]


def _parse_input(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
    """Accept text, the graph's fields, or `text` and `file` as a short form of a `raw_input` with both."""
    if isinstance(given, str):
        return {"conversation_id": session, "raw_input": given}
    if given.keys() >= {"text", "file"} and "raw_input" not in given:
        both = {"text": given["text"], "file": given["file"]}
        given = {"raw_input": both, **{name: value for name, value in given.items() if name not in both}}
    return {"conversation_id": session, **given}


def _reply(state: Mapping[str, Any]) -> Reply:
    response: Response = state["response"]
    fault = None
    if response.error_type is not None:
        fault = Fault(code=response.error_type, message=response.output, node="error_router_node")
    return Reply(status=response.status, output=response.output, error=fault, metadata=response.metadata or {})


agent = Agent(
    name="sam",
    summary="text, audio or image in; one model call; typed failures",
    graphs=(sam,),
    entries={None: sam},
    parse_input=_parse_input,
    reply=_reply,
    speaks="model_call_node",
    offline=SamRules(),
    least_steps=sam.max_steps,
    providers=PROVIDERS,
    settings=SamSettings,
    document=Path(__file__).with_name("document.md"),
    invariants=INVARIANTS,
    scenes=Path(__file__).with_name("scenes.toml"),
)
