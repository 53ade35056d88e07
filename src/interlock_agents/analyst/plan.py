"""The schemas of the decisions that the analyst requests from a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

__all__ = ["MAX_CALLS", "PlannedCall", "PlannerDecision", "Summary", "WantedCall"]

MAX_CALLS = 16
"""How many tools one plan may call."""

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
    """A call of a tool, as the planner asks for it."""

    tool: str
    args: dict[str, JsonValue]
    id: str | None = None
    part: Annotated[str, Field(description="the part of the question that the call serves, as `parts` names it")] = ""


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
            description="what the answer has to say first: what is left out or taken for granted",
        ),
    ]
    reason: str = ""
    ask: Annotated[str, Field(description="a question to the user, where the request is not clear; else empty")] = ""


class Summary(_Answer):
    """The conversation so far, in short."""

    summary: Annotated[str, Field(min_length=1, max_length=_MAX_SUMMARY)]
