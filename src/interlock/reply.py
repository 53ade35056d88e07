"""The reply of an agent: a status, an output, and the error of a turn that did not succeed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = ["Fault", "Reply", "Status"]

Status: TypeAlias = Literal["success", "error", "waiting", "cancelled"]
"""How a turn ended. `cancelled` occurs only in records, because a cancelled turn returns nothing."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Why a turn did not succeed: a stable error code, a message, and the node that failed."""

    code: str
    message: str
    node: str | None = None


@dataclass(kw_only=True)
class Reply:
    """The reply that an agent makes from the final state of a turn."""

    status: Status = "success"
    output: Any = None
    error: Fault | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
