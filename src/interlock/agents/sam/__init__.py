"""sam: text, audio or image in; one model call; typed failures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.agents.sam import offline
from interlock.agents.sam.graph import sam
from interlock.agents.sam.invariants import INVARIANTS, NOT_A_PICTURE
from interlock.agents.sam.state import Response
from interlock.runtime.agent import Agent, Scene
from interlock.runtime.reply import Fault, Reply

__all__ = ["agent"]


def _admit(text: str, session: str) -> dict[str, Any]:
    return {"raw_input": text, "conversation_id": session}


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
    offline=offline.reply,
    document=Path(__file__).with_name("document.md"),
    invariants=INVARIANTS,
    scenes=(
        Scene(title="text in, one model call, a reply", text="What does an interlocking do?"),
        Scene(title="a damaged image: typed, and the model is never asked", text=NOT_A_PICTURE, error="media_malformed"),
    ),
)
