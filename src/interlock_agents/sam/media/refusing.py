"""Adapters for kinds of media that are not configured: each raises MediaUnsupported."""

from __future__ import annotations

from interlock.errors import MediaUnsupported

__all__ = ["NoImages", "NoTranscriber"]


class NoImages:
    """Refuses images."""

    async def normalise(self, image: bytes, *, media_type: str) -> str:  # noqa: ARG002 - it is refused unseen
        """Refuse."""
        raise MediaUnsupported(f"No image adapter is configured for '{media_type}'.")


class NoTranscriber:
    """Refuses audio."""

    async def transcribe(self, audio: bytes, *, media_type: str) -> str:  # noqa: ARG002 - it is refused unseen
        """Refuse."""
        raise MediaUnsupported(f"No transcriber is configured for '{media_type}'.")
