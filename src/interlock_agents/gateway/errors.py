"""The errors that only this agent raises."""

from __future__ import annotations

from interlock.errors import CapabilityError, ToolError, TurnError

__all__ = ["BridgeAccessError", "PathDenied", "SecretUnavailable"]


class BridgeAccessError(TurnError, PermissionError):
    """The caller is not allowed to send through the bridge: only the supervisor is."""

    code = "bridge_denied"


class PathDenied(ToolError, code="path_denied"):
    """A path leads outside of the permitted folder, or is not a plain file or folder in it."""


class SecretUnavailable(CapabilityError, code="secret_unavailable"):
    """A required secret is not available."""
