"""Errors that end a turn."""

from __future__ import annotations

from interlock.errors.base import InputError, InterlockError

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
    "create_error",
]


class TurnError(InterlockError, code="turn_failed"):
    """A turn failed."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.node: str | None = None
        self.turn: str | None = None

    def at(self, node: str, *, turn: str) -> TurnError:
        """Set the node path and the turn, unless the error already has the path of a node inside this one."""
        if self.turn != turn or self.node is None or not self.node.startswith(f"{node}/"):
            self.node, self.turn = node, turn
        return self


class ContractViolation(TurnError, code="contract_violation"):
    """A node did something that its contract does not allow."""


class BudgetExceeded(TurnError, code="budget_exceeded"):
    """A turn reached one of its limits."""


class NodeFailed(TurnError, code="node_failed"):
    """A node raised an exception that is not one of its outcomes."""


class Internal(TurnError, code="internal"):
    """A bug in Interlock itself."""


class StateIncompatible(TurnError, code="state_incompatible"):
    """The stored state does not match the graph."""


class StateUnstorable(TurnError, code="state_unstorable"):
    """The state holds a value that the store cannot keep."""


class ReplayDiverged(TurnError, code="replay_diverged"):
    """A replayed turn made a call that differs from its record."""


class PersonAwaited(TurnError, code="person_awaited"):
    """The turn is suspended until a person answers."""

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


class Fenced(TurnError, code="fenced"):
    """Another worker has taken the turn over; this one may not write any more."""


def create_error(code: str, message: str, *, name: str | None = None) -> InterlockError | None:
    """Create an error from its recorded code and message; return None where no class has the code.

    Where several classes have it, `name` selects one.
    """
    classes: list[type[InterlockError]] = [TurnError, InputError]
    for one in classes:
        classes.extend(one.__subclasses__())
    known = [one for one in classes if one.code == code]
    if not known:
        return None
    found = next((one for one in known if one.__name__ == name), known[0])
    made = found.__new__(found, message)
    # Not by the class's own __init__, which may take more than a message.
    if isinstance(made, TurnError):
        TurnError.__init__(made, message)
    else:
        InterlockError.__init__(made, message)
    return made
