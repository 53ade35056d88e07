"""The errors that only this agent raises."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.errors import ToolError

__all__ = ["ApprovalNeeded", "MatchAmbiguous", "NodeHasEdges", "NotInGraph"]


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
