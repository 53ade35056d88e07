"""sam: text, audio or image in; one model call; typed failures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.agents.sam.graph import sam
from interlock.agents.sam.invariants import INVARIANTS
from interlock.agents.sam.offline import SamRules
from interlock.agents.sam.state import Response
from interlock.runtime.agent import Agent
from interlock.runtime.reply import Fault, Reply

__all__ = ["agent"]


def _admit(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
    fields = {"raw_input": given} if isinstance(given, str) else given
    return {"conversation_id": session, **fields}


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
    admit=_admit,
    reply=_reply,
    offline=SamRules(),
    document=Path(__file__).with_name("document.md"),
    invariants=INVARIANTS,
    scenes=Path(__file__).with_name("scenes.toml"),
)
