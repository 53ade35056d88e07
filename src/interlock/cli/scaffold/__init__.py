"""scaffold: answers questions from a list of facts, and refuses the others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock import Agent, Fault, Reply

from .graph import graph
from .offline import OfflineRules

__all__ = ["agent"]


def _reply(state: Mapping[str, Any]) -> Reply:
    """Make the reply from the final state. A refusal is an error with a code."""
    text, refusal = state["reply"], state.get("refusal")
    if refusal is None:
        return Reply(output=text, metadata={"topic": state.get("topic")})
    fault = Fault(code=refusal, message=text, node="refuse")
    return Reply(status="error", output=text, error=fault)


agent = Agent(
    name="scaffold",
    summary="answers questions from a list of facts, and refuses the others",
    graphs=(graph,),
    entries={None: graph},
    reply=_reply,
    offline=OfflineRules(),
    document=Path(__file__).with_name("document.md"),
)
