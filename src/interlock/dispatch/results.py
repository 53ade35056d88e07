"""The results of stored turns."""

from __future__ import annotations

from typing import Any, Literal, cast

from pydantic_core import from_json

from interlock.errors import InterlockError, TurnStopped
from interlock.reply import Fault
from interlock.runtime.limits import TurnUsage
from interlock.runtime.turn import TurnResult
from interlock.runtime.turns import StoredTurn

__all__ = ["failed_result", "result_of"]


def result_of(turn: StoredTurn) -> TurnResult:
    """Return the stored result of a turn that has ended or waits. Its values are JSON data, without secrets."""
    if turn.result is None:
        return failed_result(turn, "cancelled", TurnStopped("The turn was cancelled."))
    data = cast("dict[str, Any]", from_json(turn.result))
    changed: dict[str, Any] = {"path": tuple(data["path"]), "usage": TurnUsage(**data["usage"])}
    if data["error"] is not None:
        changed["error"] = Fault(**data["error"])
    return TurnResult(**{**data, **changed})


def failed_result(turn: StoredTurn, status: Literal["error", "cancelled"], error: InterlockError) -> TurnResult:
    """Return the result of a turn that ended without running."""
    return TurnResult(
        agent=turn.agent,
        session=turn.session,
        turn=turn.turn,
        status=status,
        output=None,
        error=Fault(code=error.code, message=error.message),
        path=(),
        state={},
        metadata={},
    )
