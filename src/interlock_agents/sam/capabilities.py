"""The capabilities of sam alone: a model whose failure is a value, a transcriber, and images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pydantic import JsonValue

from interlock.capabilities.capability import Capability, asks, emits
from interlock.capabilities.model import Usage

__all__ = ["Images", "Metadata", "ModelBackend", "ModelErrorType", "ModelRequest", "ModelResponse", "ModelStatus", "Transcriber"]

ModelStatus = Literal["success", "recoverable_error", "fatal_error"]
Metadata: TypeAlias = dict[str, JsonValue]
ModelErrorType = Literal["timeout", "backend_unavailable", "invalid_output", "budget_exceeded"]


@dataclass(kw_only=True)
class ModelRequest:
    """A request to the model."""

    task: str = "respond"
    prompt: str
    image: str | None = None
    """A normalised image as a data URI. It is sent as a content block beside the prompt."""
    context: str | None = None
    constraints: Metadata | None = None
    timeout_s: float = 30.0
    trace_id: str | None = None


@dataclass(kw_only=True)
class ModelResponse:
    """The model's response. A failure is a value here, not an exception."""

    status: ModelStatus
    output: str | None = None
    error_type: ModelErrorType | None = None
    metadata: Metadata | None = None

    @property
    def usage(self) -> Usage | None:
        """The number of tokens used, if the backend reports it in the metadata."""
        metadata = self.metadata or {}
        if "input_tokens" not in metadata and "output_tokens" not in metadata:
            return None
        counts = [metadata.get(name) for name in ("input_tokens", "output_tokens")]
        given, made = (count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0 for count in counts)
        return Usage(input_tokens=given, output_tokens=made)


class ModelBackend(Capability, Protocol):
    """Answers one request and never raises for a failure of the model."""

    @asks
    @emits("chat_model")
    async def generate(self, request: ModelRequest) -> ModelResponse:
        """Call the model once."""
        ...


class Transcriber(Capability, Protocol):
    """Turns speech into text."""

    @asks
    async def transcribe(self, audio: bytes, *, media_type: str) -> str:
        """Return the words that are spoken.

        Raises MediaUnsupported where no transcriber is configured and MediaMalformed for damaged audio.
        """
        ...


class Images(Capability, Protocol):
    """Checks images and makes them small and uniform."""

    @asks
    async def normalise(self, image: bytes, *, media_type: str) -> str:
        """Return the image as a data URI, upright, without metadata and no larger than a model needs.

        Raises MediaUnsupported for other kinds of media, MediaMalformed for damaged images and MediaBomb for those that unpack
        to more than the limit.
        """
        ...
