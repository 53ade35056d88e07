"""What makes a graph an agent: how text comes in, and what of the final state is the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from interlock.capabilities.model import ModelRequest
from interlock.contract import Graph

__all__ = ["Agent", "Fault", "Reply", "Status"]

Status: TypeAlias = Literal["success", "error", "waiting"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why a turn did not succeed: a stable code, a sentence, the node that said so."""

    code: str
    message: str
    node: str | None = None


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What an agent makes of the final state."""

    status: Status = "success"
    output: Any = None
    error: Fault | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A named agent.

    `entries` says which graph a role enters (None is the caller who names no role), `admit` turns text and session id
    into input fields, `reply` turns the final state into the reply. `offline` are the rules that stand in for a model,
    `document` the architecture document that the rows are held to.
    """

    name: str
    summary: str
    graphs: Sequence[Graph]
    entries: Mapping[str | None, Graph]
    admit: Callable[[str, str], Mapping[str, Any]]
    reply: Callable[[Mapping[str, Any]], Reply]
    offline: Callable[[ModelRequest], str] | None = None
    document: Path | None = None
