"""The schemas of the decisions that the analyst requests from a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

__all__ = ["MAX_CALLS", "PlannedCall", "PlannerDecision", "Summary", "WantedCall"]

MAX_CALLS = 16
"""The maximum number of tool calls of a plan."""

_MAX_SUMMARY = 4000


@dataclass(frozen=True, kw_only=True)
class PlannedCall:
    """A tool call with a unique id. `after` are the ids of the calls whose results it needs; `part` is a part of the question."""

    id: str
    tool: str
    args: dict[str, JsonValue]
    after: tuple[str, ...] = ()
    part: str = ""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class WantedCall(_Answer):
    """A tool call as the planner requests it."""

    tool: str
    args: dict[str, JsonValue]
    id: str | None = None
    part: Annotated[str, Field(description="the part of the question that the call answers, as named in `parts`")] = ""


class PlannerDecision(_Answer):
    """Whether tools are needed, and which."""

    next_step: Literal["generate", "tool_use"]
    tool_calls: Annotated[list[WantedCall], Field(default_factory=list, max_length=MAX_CALLS)]
    parts: Annotated[
        list[str], Field(default_factory=list, max_length=MAX_CALLS, description="the parts of the question, in a few words each")
    ]
    notes: Annotated[
        list[str],
        Field(
            default_factory=list,
            max_length=MAX_CALLS,
            description="what the answer has to say first: what is left out or assumed",
        ),
    ]
    reason: str = ""
    ask: Annotated[str, Field(description="a question to the user if the request is not clear, or empty")] = ""


class Summary(_Answer):
    """A summary of the conversation so far."""

    summary: Annotated[str, Field(min_length=1, max_length=_MAX_SUMMARY)]
