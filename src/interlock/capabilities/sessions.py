"""The documents of sessions: one JSON object for each, with the version that says which one it is.

A document is passed on as text, as it is stored: so it is read once, by whoever knows what has to be in it.
"""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability

__all__ = ["SessionReader", "SessionStore", "SessionWriter"]


class SessionReader(Capability, Protocol):
    """Reads the documents of sessions."""

    async def load(self, session_id: str) -> str | None:
        """Return the session's document, the text of a JSON object, or None where there is none.

        Raises StoreUnavailable where the store cannot be reached and StoreCorrupt for what is no such document; what is
        stored stays as it is.
        """
        ...


class SessionWriter(Capability, Protocol):
    """Writes the documents of sessions. Whoever saves says which version the document was made from."""

    async def save(self, session_id: str, document: str, *, expected: int) -> None:
        """Replace the document if its version is still `expected`; 0 is a session that has none yet.

        The document says its own `version`, which is higher. In one step: of two who save at once, one gets StateConflict.
        Raises StateUnstorable for a text that is no such document, or too large.
        """
        ...


class SessionStore(SessionReader, SessionWriter, Protocol):
    """Keeps one document a session."""
