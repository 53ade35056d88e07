"""Errors that end a turn."""

from __future__ import annotations

from interlock.errors.base import InterlockError

__all__ = [
    "BudgetExceeded",
    "ContractViolation",
    "Fenced",
    "Internal",
    "JournalFailed",
    "NodeFailed",
    "PersonAwaited",
    "ReplayDiverged",
    "StateIncompatible",
    "StateUnstorable",
    "TurnError",
]


class TurnError(InterlockError):
    """A turn failed."""

    code = "turn_failed"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.node: str | None = None
        self.turn: str | None = None

    def at(self, node: str, *, turn: str) -> TurnError:
        """Set the node path and the turn, unless the error already has the path of a node inside this one."""
        if self.turn != turn or self.node is None or not self.node.startswith(f"{node}/"):
            self.node, self.turn = node, turn
        return self


class ContractViolation(TurnError):
    """A node did something that its contract does not allow."""

    code = "contract_violation"


class BudgetExceeded(TurnError):
    """A turn reached one of its limits."""

    code = "budget_exceeded"


class NodeFailed(TurnError):
    """A node raised an exception that is not one of its outcomes."""

    code = "node_failed"


class Internal(TurnError):
    """A bug in Interlock itself."""

    code = "internal"


class StateIncompatible(TurnError):
    """The stored state does not match the graph."""

    code = "state_incompatible"


class StateUnstorable(TurnError):
    """The state holds a value that the store cannot keep."""

    code = "state_unstorable"


class ReplayDiverged(TurnError):
    """A replayed turn made a call that differs from its record."""

    code = "replay_diverged"


class PersonAwaited(TurnError):
    """The turn is suspended until a person answers."""

    code = "person_awaited"

    def __init__(self, message: str | None = None, *, question: object = None) -> None:
        super().__init__(message)
        self.question = question


class JournalFailed(BaseException):
    """Ends a turn whose journal cannot be written. It is not an Exception, so that a node that catches errors and retries cannot catch it.

    `reason` is the typed error that the turn ends with.
    """

    def __init__(self, reason: InterlockError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class Fenced(TurnError):
    """Another worker has taken the turn over; this one may not write any more."""

    code = "fenced"
