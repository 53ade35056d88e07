"""The errors that only this agent raises."""

from __future__ import annotations

from interlock.errors import TurnError

__all__ = ["BridgeAccessError"]


class BridgeAccessError(TurnError, PermissionError):
    """The caller is not allowed to send through the bridge: only the supervisor is."""

    code = "bridge_denied"
