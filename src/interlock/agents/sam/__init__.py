"""sam: text, audio or image in; one model call; typed failures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.agent import Agent
from interlock.agents.sam.graph import sam
from interlock.agents.sam.invariants import INVARIANTS
from interlock.agents.sam.offline import SamRules
from interlock.agents.sam.state import Response
from interlock.reply import Fault, Reply

__all__ = ["agent"]


def _admit(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
    """Take text, the fields of the graph, or `text` and `file` as short for a `raw_input` that has both."""
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
    parse_input=_admit,
    reply=_reply,
    offline=SamRules(),
    least_steps=sam.max_steps,
    document=Path(__file__).with_name("document.md"),
    invariants=INVARIANTS,
    scenes=Path(__file__).with_name("scenes.toml"),
)
