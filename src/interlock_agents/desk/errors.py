"""The errors that only this agent raises."""

from __future__ import annotations

from interlock.errors import TurnError

__all__ = ["StateInvalid"]


class StateInvalid(TurnError):
    """The state of the session is invalid."""

    code = "state_invalid"
