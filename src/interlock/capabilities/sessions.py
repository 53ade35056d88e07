"""Session documents: one JSON object per session, with a version number.

A document is passed as the stored text. It is parsed once, by the caller, who knows its schema.
"""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability, asks, keyed

__all__ = ["SessionReader", "SessionStore", "SessionWriter"]


class SessionReader(Capability, Protocol):
    """Reads session documents."""

    @asks
    async def load(self, session_id: str) -> str | None:
        """Return the session's document, the text of a JSON object, or None for a new session.

        Raises StoreUnavailable where the store cannot be reached and StoreCorrupt for text that is not such a document,
        which is left unchanged.
        """
        ...


class SessionWriter(Capability, Protocol):
    """Writes session documents. The caller passes the version that the new document is based on."""

    @keyed
    async def save(self, session_id: str, document: str, *, expected: int) -> None:
        """Replace the document if its version is still `expected`; 0 means that the session has none yet.

        The document contains its own `version`, which is higher. The comparison is atomic: of two concurrent writers, one gets
        StateConflict.
        Raises StateUnstorable for a text that is not such a document, or is too large.
        """
        ...


class SessionStore(SessionReader, SessionWriter, Protocol):
    """Reads and writes session documents."""
