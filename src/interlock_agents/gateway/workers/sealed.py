"""A scope whose files may contain the secret: a worker can write it there, but never read it back."""

from __future__ import annotations

from interlock_agents.gateway.errors import PathDenied
from interlock_agents.gateway.files.paths import shown
from interlock_agents.gateway.files.scope import Scope
from interlock_agents.gateway.workers.tools import holding

__all__ = ["SealedScope"]


class SealedScope(Scope):
    """A scope in which a file that contains the secret cannot be read, searched or edited, only replaced or deleted."""

    def read(self, path: str) -> bytes:
        """Read a file that does not hold the secret."""
        data = super().read(path)
        secret = holding.get()
        if secret and _one_kind_of_newline(secret.encode()) in _one_kind_of_newline(data):
            raise PathDenied(f"The file {shown(path)} holds the secret: it can be replaced or deleted, not read.")
        return data


def _one_kind_of_newline(data: bytes) -> bytes:
    """Normalise newlines as an edit of a file does, so that a secret of several lines is still found."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data
