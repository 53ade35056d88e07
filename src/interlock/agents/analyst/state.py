"""What the analyst knows, and what can have happened in its nodes."""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from pydantic import JsonValue

from interlock.agents.analyst.plan import PlannedCall
from interlock.capabilities import Tool
from interlock.contract import Control, Outcome, Trusted, Untrusted

__all__ = [
    "ANYBODY",
    "Admitted",
    "AgentState",
    "Ai",
    "Complex",
    "Executed",
    "Failure",
    "Generated",
    "Good",
    "Human",
    "Lacking",
    "Message",
    "NextStep",
    "Phase",
    "Scratchpad",
    "Selected",
    "Simple",
    "Summarised",
    "ToolOutput",
    "Trim",
    "Untrimmed",
    "UserContext",
    "appended",
    "came_after",
    "marked",
]

ANYBODY = "anybody"
"""Who asks, where nobody says."""

Phase = Literal["plan", "execute", "verify", "generate"]
NextStep = Literal["generate", "tool_use"]


@dataclass(frozen=True, kw_only=True)
class Human:
    """What the user said."""

    content: str
    id: str | None = None
    type: Literal["human"] = "human"


@dataclass(frozen=True, kw_only=True)
class Ai:
    """What the analyst said."""

    content: str
    id: str | None = None
    type: Literal["ai"] = "ai"


@dataclass(frozen=True, kw_only=True)
class Trim:
    """No message: written to the messages, it drops all but the last so many of them."""

    keep: int
    type: Literal["trim"] = "trim"


Message: TypeAlias = Human | Ai | Trim


def appended(messages: tuple[Message, ...], new: tuple[Message, ...]) -> tuple[Message, ...]:
    """Add messages; only a trim takes some away, and only the oldest."""
    for one in new:
        messages = (*messages, one) if not isinstance(one, Trim) else messages[max(0, len(messages) - one.keep) :]
    return messages


def marked(messages: tuple[Message, ...]) -> str:
    """Mark where a turn ends: how many messages there are, and which."""
    said = json.dumps([vars(one) for one in messages], sort_keys=True)
    return f"{len(messages)}:{hashlib.sha256(said.encode()).hexdigest()}"


def came_after(messages: tuple[Message, ...], mark: str) -> tuple[Message, ...] | None:
    """Return the messages behind a mark; None where those before it are not the ones that it was put behind."""
    count = int(mark.partition(":")[0] or 0)
    if mark and marked(messages[:count]) != mark:
        return None
    return messages[count:]


@dataclass(frozen=True, kw_only=True)
class UserContext:
    """What this turn may do for this user."""

    permissions: tuple[str, ...] = ()
    preferences: dict[str, str] = field(default_factory=dict[str, str])
    tools: tuple[Tool, ...] = ()
    """Those that there are and that the user may use."""
    max_retries: int = 0
    window: int = 20
    refusal: str = ""
    """Why the question is not worked on."""


@dataclass(frozen=True, kw_only=True)
class ToolOutput:
    """What came of a call: a result, or why there is none."""

    id: str
    tool: str
    args: dict[str, JsonValue]
    result: JsonValue = None
    error: str | None = None
    code: str | None = None
    part: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A call that did not help, and why."""

    call: PlannedCall
    reason: str


@dataclass(frozen=True, kw_only=True)
class Scratchpad:
    """What was tried in this turn without success, and what the verifier makes of it."""

    failures: tuple[Failure, ...] = ()
    hint: str = ""


@dataclass
class AgentState:
    """analyst."""

    messages: Annotated[tuple[Message, ...], Untrusted, appended]
    user_context: Annotated[UserContext, Trusted]
    question: Annotated[str, Untrusted]
    session_id: Annotated[str, Untrusted] = ""
    user_id: Annotated[str, Untrusted] = ANYBODY
    today: Annotated[str, Trusted] = ""
    plan: Annotated[str, Untrusted] = ""
    parts: Annotated[tuple[str, ...], Untrusted] = ()
    notes: Annotated[tuple[str, ...], Untrusted] = ()
    ask: Annotated[str, Untrusted] = ""
    tool_calls: Annotated[tuple[PlannedCall, ...], Untrusted] = ()
    tool_outputs: Annotated[tuple[ToolOutput, ...], Untrusted] = ()
    used: Annotated[tuple[str, ...], Untrusted] = ()
    scratchpad: Annotated[Scratchpad, Untrusted] = field(default_factory=Scratchpad)
    summary: Annotated[str, Untrusted] = ""
    safety_check: Annotated[bool, Control] = False
    next_step: Annotated[NextStep, Control] = "generate"
    phase: Annotated[Phase, Control] = "plan"
    retry_count: Annotated[int, Trusted] = 0
    tokens_used: Annotated[int, Trusted, operator.add] = 0
    start_time: Annotated[float | None, Trusted] = None
    owner: Annotated[str | None, Trusted] = None
    sources: Annotated[tuple[PlannedCall, ...], Untrusted] = ()
    """The calls that the last answer with data came from."""
    seen: Annotated[str, Trusted] = ""
    """The mark of the messages that the last turn left."""


class Admitted(Outcome):
    """A question that may be worked on, or not; nothing of earlier questions is left but the conversation."""

    safety_check: bool
    user_context: UserContext
    question: str
    today: str
    owner: str
    start_time: float
    phase: Literal["plan"] = "plan"
    next_step: Literal["generate"] = "generate"
    plan: str = ""
    parts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ask: str = ""
    tool_calls: tuple[PlannedCall, ...] = ()
    tool_outputs: tuple[ToolOutput, ...] = ()
    used: tuple[str, ...] = ()
    scratchpad: Scratchpad = field(default_factory=Scratchpad)
    retry_count: int = 0


class Simple(Outcome):
    """It can be answered now, or has to be: from what there is, by a question, by a refusal."""

    plan: str
    ask: str = ""
    tokens_used: int = 0
    next_step: Literal["generate"] = "generate"
    phase: Literal["generate"] = "generate"


class Complex(Outcome):
    """Tools are needed first."""

    plan: str
    parts: tuple[str, ...]
    notes: tuple[str, ...]
    tool_calls: tuple[PlannedCall, ...]
    tokens_used: int
    next_step: Literal["tool_use"] = "tool_use"
    phase: Literal["execute"] = "execute"


class Selected(Outcome):
    """The calls that can be made; the others have their errors already, and good results of earlier plans are kept."""

    tool_calls: tuple[PlannedCall, ...]
    tool_outputs: tuple[ToolOutput, ...]


class Executed(Outcome):
    """What came of all calls."""

    tool_outputs: tuple[ToolOutput, ...]
    phase: Literal["verify"] = "verify"


class Good(Outcome):
    """There is something to answer from."""

    scratchpad: Scratchpad
    phase: Literal["generate"] = "generate"


class Lacking(Outcome):
    """For a part of the question the tools found nothing, or failed: another plan is needed for that part."""

    scratchpad: Scratchpad
    retry_count: int
    phase: Literal["plan"] = "plan"


class Generated(Outcome):
    """The answer, and which outputs it is from."""

    messages: tuple[Ai, ...]
    used: tuple[str, ...]
    sources: tuple[PlannedCall, ...]
    tokens_used: int


class Summarised(Outcome):
    """The oldest messages are in the summary, and no longer in the history."""

    summary: str
    messages: tuple[Trim, ...]
    seen: str
    tokens_used: int


class Untrimmed(Outcome):
    """The history stays as it is."""

    seen: str
