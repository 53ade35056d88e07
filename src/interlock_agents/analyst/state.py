"""The state of the analyst, its reducers and its outcomes."""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from pydantic import JsonValue

from interlock.capabilities import Tool
from interlock.contract import Control, Outcome, Trusted, Untrusted
from interlock_agents.analyst.plan import PlannedCall

__all__ = [
    "ANYBODY", "Admitted", "AgentState", "Ai", "Complex", "Executed", "Failure", "Generated", "Good", "Human", "Lacking", "Message",
    "NextStep", "Phase", "Scratchpad", "Selected", "Simple", "Summarised", "ToolOutput", "Trim", "Untrimmed", "UserContext", "appended",
    "came_after", "marked",
]  # fmt: skip

ANYBODY = "anybody"
"""The user id of a turn that names no user."""

Phase = Literal["plan", "execute", "verify", "generate"]
NextStep = Literal["generate", "tool_use"]


@dataclass(frozen=True, kw_only=True)
class Human:
    """A user message."""

    content: str
    id: str | None = None
    type: Literal["human"] = "human"


@dataclass(frozen=True, kw_only=True)
class Ai:
    """An answer of the analyst."""

    content: str
    id: str | None = None
    type: Literal["ai"] = "ai"


@dataclass(frozen=True, kw_only=True)
class Trim:
    """An instruction to the reducer of `messages`: drop all but the last `keep` messages."""

    keep: int
    type: Literal["trim"] = "trim"


Message: TypeAlias = Human | Ai | Trim


def appended(messages: tuple[Message, ...], new: tuple[Message, ...]) -> tuple[Message, ...]:
    """Append messages. A Trim drops the oldest ones."""
    for one in new:
        messages = (*messages, one) if not isinstance(one, Trim) else messages[max(0, len(messages) - one.keep) :]
    return messages


def marked(messages: tuple[Message, ...]) -> str:
    """Return the number of messages and a hash of them, to detect later changes."""
    said = json.dumps([vars(one) for one in messages], sort_keys=True)
    return f"{len(messages)}:{hashlib.sha256(said.encode()).hexdigest()}"


def came_after(messages: tuple[Message, ...], mark: str) -> tuple[Message, ...] | None:
    """Return the messages that follow a mark, or None if the messages before it have changed."""
    count = int(mark.partition(":")[0] or 0)
    if mark and marked(messages[:count]) != mark:
        return None
    return messages[count:]


@dataclass(frozen=True, kw_only=True)
class UserContext:
    """What the policy permits in this turn, and the preferences of the user."""

    permissions: tuple[str, ...] = ()
    preferences: dict[str, str] = field(default_factory=dict[str, str])
    tools: tuple[Tool, ...] = ()
    """The available tools that the user may use."""
    max_retries: int = 0
    window: int = 20
    refusal: str = ""
    """The reason why the policy refused the question."""


@dataclass(frozen=True, kw_only=True)
class ToolOutput:
    """The result of a tool call, or its error."""

    id: str
    tool: str
    args: dict[str, JsonValue]
    result: JsonValue = None
    error: str | None = None
    code: str | None = None
    part: str = ""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A tool call that failed or found nothing, with the reason."""

    call: PlannedCall
    reason: str


@dataclass(frozen=True, kw_only=True)
class Scratchpad:
    """The failed calls of this turn, and the hint of the verifier for the next plan."""

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
    tokens_used: Annotated[int, Untrusted, operator.add] = 0
    start_time: Annotated[float | None, Trusted] = None
    owner: Annotated[str | None, Untrusted] = None
    sources: Annotated[tuple[PlannedCall, ...], Untrusted] = ()
    """The tool calls behind the last answer that used data."""
    seen: Annotated[str, Untrusted] = ""
    """The mark of the messages at the end of the last turn; see `marked`."""


class Admitted(Outcome):
    """The question was validated and judged by the policy. The fields of the previous turn are reset."""

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
    """No tools are needed: answer, ask back or refuse."""

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
    """The calls to make. Refused calls have error outputs, and useful outputs of earlier plans are kept."""

    tool_calls: tuple[PlannedCall, ...]
    tool_outputs: tuple[ToolOutput, ...]


class Executed(Outcome):
    """Every call has an output."""

    tool_outputs: tuple[ToolOutput, ...]
    phase: Literal["verify"] = "verify"


class Good(Outcome):
    """Every part of the question has a useful result."""

    scratchpad: Scratchpad
    phase: Literal["generate"] = "generate"


class Lacking(Outcome):
    """At least one part of the question has no useful result, so the planner has to plan it again."""

    scratchpad: Scratchpad
    retry_count: int
    phase: Literal["plan"] = "plan"


class Generated(Outcome):
    """The answer, and the ids of the outputs that it uses."""

    messages: tuple[Ai, ...]
    used: tuple[str, ...]
    sources: tuple[PlannedCall, ...]
    tokens_used: int


class Summarised(Outcome):
    """The oldest messages were moved into the summary."""

    summary: str
    messages: tuple[Trim, ...]
    seen: str
    tokens_used: int


class Untrimmed(Outcome):
    """The messages are unchanged."""

    seen: str
