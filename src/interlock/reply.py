"""What a turn comes to: a status, an output, and why it did not succeed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["Fault", "Reply", "Status"]

Status: TypeAlias = Literal["success", "error", "waiting", "cancelled"]
"""How a turn ended. `cancelled` is in records only: a turn that is cancelled returns nothing."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why a turn did not succeed: a stable code, a sentence, the node that said so."""

    code: str
    message: str
    node: str | None = None


@dataclass(kw_only=True)
class Reply:
    """What an agent makes of the final state."""

    status: Status = "success"
    output: Any = None
    error: Fault | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
