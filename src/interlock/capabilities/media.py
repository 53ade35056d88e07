"""Audio and images, made into something that a model can be asked about."""

from __future__ import annotations

from typing import Protocol

from interlock.capabilities.capability import Capability

__all__ = ["Images", "Transcriber"]


class Transcriber(Capability, Protocol):
    """Turns speech into text."""

    async def transcribe(self, audio: bytes, *, media_type: str) -> str:
        """Return the words that are spoken.

        Raises MediaUnsupported where no transcriber is configured and MediaMalformed for damaged audio.
        """
        ...


class Images(Capability, Protocol):
    """Checks images and makes them small and uniform."""

    async def normalise(self, image: bytes, *, media_type: str) -> str:
        """Return the image as a data URI, upright, without metadata and no larger than a model needs.

        Raises MediaUnsupported for other kinds of media, MediaMalformed for damaged images and MediaBomb for those that unpack
        to more than the limit.
        """
        ...
