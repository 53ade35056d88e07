"""Errors of capability calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from interlock.errors.turns import TurnError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ApprovalNeeded",
    "CapabilityError",
    "CapabilityResultInvalid",
    "CapabilityTimeout",
    "MatchAmbiguous",
    "MediaBomb",
    "MediaMalformed",
    "MediaUnsupported",
    "ModelCutOff",
    "ModelError",
    "ModelOutputInvalid",
    "ModelRefused",
    "ModelTimeout",
    "ModelUnavailable",
    "NodeHasEdges",
    "NotInGraph",
    "PathDenied",
    "QueryDenied",
    "QueryTimeout",
    "RateLimited",
    "RejectedAnswer",
    "SecretUnavailable",
    "SessionBusy",
    "StateConflict",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreUnavailable",
    "ToolDenied",
    "ToolError",
    "ToolInputInvalid",
    "ToolTimeout",
    "ToolUnavailable",
]


class CapabilityError(TurnError, code="capability_failed"):
    """A capability call failed."""


class CapabilityResultInvalid(CapabilityError, code="capability_result_invalid"):
    """A capability returned something other than what its Protocol declares."""


class CapabilityTimeout(CapabilityError, code="capability_timeout", transient=True):
    """A capability call exceeded its time limit."""


class RateLimited(CapabilityError, code="rate_limited", transient=True):
    """A capability was called as often as its rate limit allows."""


class SecretUnavailable(CapabilityError, code="secret_unavailable"):
    """A required secret is not available."""


@dataclass(frozen=True, kw_only=True)
class RejectedAnswer:
    """What an answer that cannot be used cost. Tokens are None where the model did not report them."""

    output_bytes: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None


class ModelError(CapabilityError, code="model_failed"):
    """The model could not be called, or returned no usable answer."""

    rejected: RejectedAnswer | None = None
    """Set where the model did answer: the answer is charged to the turn."""


class ModelTimeout(ModelError, code="model_timeout", transient=True):
    """The model did not answer in time."""


class ModelUnavailable(ModelError, code="model_unavailable", transient=True):
    """The model cannot be reached, or is failing or overloaded."""


class ModelRefused(ModelError, code="model_refused"):
    """The model's server rejected the request: the key, the model's name or the content."""


class ModelOutputInvalid(ModelError, code="model_output_invalid"):
    """The model's answer is empty, too large, or does not match the requested schema."""


class ModelCutOff(ModelOutputInvalid, code="model_cut_off"):
    """The model's answer was cut off before its end. Raise INTERLOCK_MODEL_MAX_TOKENS, or ask for a shorter answer."""


class StoreError(CapabilityError, code="store_failed"):
    """A store failed."""


class StoreUnavailable(StoreError, code="store_unavailable", transient=True):
    """A store cannot be reached or written."""


class StoreFull(StoreError, code="store_full", transient=True):
    """A store has no space left."""


class StoreCorrupt(StoreError, code="store_corrupt"):
    """A store holds data that cannot be read. The data is left unchanged."""


class StateConflict(StoreError, code="state_conflict", transient=True):
    """Another writer saved the session state first."""


class SessionBusy(StoreError, code="session_busy", transient=True):
    """Another turn holds this session and did not finish in time."""


class ToolError(CapabilityError, code="tool_failed"):
    """A tool could not be run."""


class ToolDenied(ToolError, code="tool_denied"):
    """The caller is not allowed to use that tool."""


class ToolInputInvalid(ToolError, code="tool_input_invalid"):
    """The arguments of a tool do not match its parameters."""


class ToolTimeout(ToolError, code="tool_timeout", transient=True):
    """A tool exceeded its time limit."""


class ToolUnavailable(ToolError, code="tool_unavailable", transient=True):
    """A service that a tool needs cannot be reached."""


class PathDenied(ToolError, code="path_denied"):
    """A path leads outside of the permitted folder, or is not a plain file or folder in it."""


class QueryDenied(ToolError, code="query_denied"):
    """A query writes, or reads something that it may not read."""


class QueryTimeout(ToolError, code="query_timeout", transient=True):
    """A query exceeded its time limit."""


class NotInGraph(ToolError, code="not_in_graph"):
    """The named node or edge is not in the graph."""


class NodeHasEdges(ToolError, code="node_has_edges"):
    """A node that still has edges cannot be deleted without them."""


class MatchAmbiguous(ToolError, code="match_ambiguous"):
    """The name matches several nodes."""

    def __init__(self, message: str | None = None, *, named: str = "", candidates: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.named = named
        self.candidates = tuple(candidates)


class ApprovalNeeded(ToolError, code="approval_needed"):
    """A person has to approve this call before it is made."""


class MediaUnsupported(CapabilityError, code="unsupported_media"):
    """No configured adapter accepts this kind of media."""


class MediaMalformed(CapabilityError, code="media_malformed"):
    """The media is damaged, or is not of the declared type."""


class MediaBomb(MediaMalformed, code="media_bomb"):
    """The media is small but would unpack to more than the limit."""
