"""Errors of capability calls."""

from __future__ import annotations

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


class CapabilityError(TurnError):
    """A capability call failed."""

    code = "capability_failed"


class CapabilityResultInvalid(CapabilityError):
    """A capability returned something other than what its Protocol declares."""

    code = "capability_result_invalid"


class CapabilityTimeout(CapabilityError):
    """A capability call exceeded its time limit."""

    code = "capability_timeout"
    transient = True


class RateLimited(CapabilityError):
    """A capability was called as often as its rate limit allows."""

    code = "rate_limited"
    transient = True


class SecretUnavailable(CapabilityError):
    """A required secret is not available."""

    code = "secret_unavailable"


class ModelError(CapabilityError):
    """The model could not be called, or returned no usable answer."""

    code = "model_failed"


class ModelTimeout(ModelError):
    """The model did not answer in time."""

    code = "model_timeout"
    transient = True


class ModelUnavailable(ModelError):
    """The model cannot be reached, or is failing or overloaded."""

    code = "model_unavailable"
    transient = True


class ModelRefused(ModelError):
    """The model's server rejected the request: the key, the model's name or the content."""

    code = "model_refused"


class ModelOutputInvalid(ModelError):
    """The model's answer is empty, too large, or does not match the requested schema."""

    code = "model_output_invalid"


class ModelCutOff(ModelOutputInvalid):
    """The model's answer was cut off before its end. Raise INTERLOCK_MODEL_MAX_TOKENS, or ask for a shorter answer."""

    code = "model_cut_off"


class StoreError(CapabilityError):
    """A store failed."""

    code = "store_failed"


class StoreUnavailable(StoreError):
    """A store cannot be reached or written."""

    code = "store_unavailable"
    transient = True


class StoreFull(StoreError):
    """A store has no space left."""

    code = "store_full"
    transient = True


class StoreCorrupt(StoreError):
    """A store holds data that cannot be read. The data is left unchanged."""

    code = "store_corrupt"


class StateConflict(StoreError):
    """Another writer saved the session state first."""

    code = "state_conflict"
    transient = True


class SessionBusy(StoreError):
    """Another turn holds this session and did not finish in time."""

    code = "session_busy"
    transient = True


class ToolError(CapabilityError):
    """A tool could not be run."""

    code = "tool_failed"


class ToolDenied(ToolError):
    """The caller is not allowed to use that tool."""

    code = "tool_denied"


class ToolInputInvalid(ToolError):
    """The arguments of a tool do not match its parameters."""

    code = "tool_input_invalid"


class ToolTimeout(ToolError):
    """A tool exceeded its time limit."""

    code = "tool_timeout"
    transient = True


class ToolUnavailable(ToolError):
    """A service that a tool needs cannot be reached."""

    code = "tool_unavailable"
    transient = True


class PathDenied(ToolError):
    """A path leads outside of the permitted folder, or is not a plain file or folder in it."""

    code = "path_denied"


class QueryDenied(ToolError):
    """A query writes, or reads something that it may not read."""

    code = "query_denied"


class QueryTimeout(ToolError):
    """A query exceeded its time limit."""

    code = "query_timeout"
    transient = True


class NotInGraph(ToolError):
    """The named node or edge is not in the graph."""

    code = "not_in_graph"


class NodeHasEdges(ToolError):
    """A node that still has edges cannot be deleted without them."""

    code = "node_has_edges"


class MatchAmbiguous(ToolError):
    """The name matches several nodes."""

    code = "match_ambiguous"

    def __init__(self, message: str | None = None, *, named: str = "", candidates: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.named = named
        self.candidates = tuple(candidates)


class ApprovalNeeded(ToolError):
    """A person has to approve this call before it is made."""

    code = "approval_needed"


class MediaUnsupported(CapabilityError):
    """No configured adapter accepts this kind of media."""

    code = "unsupported_media"


class MediaMalformed(CapabilityError):
    """The media is damaged, or is not of the declared type."""

    code = "media_malformed"


class MediaBomb(MediaMalformed):
    """The media is small but would unpack to more than the limit."""

    code = "media_bomb"
