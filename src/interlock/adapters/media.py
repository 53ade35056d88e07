"""What stands in where no adapter for a kind of media is configured."""

from __future__ import annotations

from interlock.errors import MediaUnsupported

__all__ = ["NoImages", "NoTranscriber"]


class NoTranscriber:
    """Refuses audio."""

    async def transcribe(self, audio: bytes, *, media_type: str) -> str:  # noqa: ARG002 - it is refused unseen
        """Refuse."""
        raise MediaUnsupported(f"No transcriber is configured for '{media_type}'.")


class NoImages:
    """Refuses images."""

    async def normalise(self, image: bytes, *, media_type: str) -> str:  # noqa: ARG002 - it is refused unseen
        """Refuse."""
        raise MediaUnsupported(f"No image adapter is configured for '{media_type}'.")
