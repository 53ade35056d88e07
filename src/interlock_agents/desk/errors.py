"""The errors that only this agent raises."""

from __future__ import annotations

from interlock.errors import TurnError

__all__ = ["StateInvalid"]


class StateInvalid(TurnError):
    """The session's state breaks one of its own rules."""

    code = "state_invalid"
