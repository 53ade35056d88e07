"""A model backend over a Model: one question and its answer, a failure as a value."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import cast

from interlock.adapters.models.guarded import guarded
from interlock.capabilities.backend import Metadata, ModelRequest, ModelResponse
from interlock.capabilities.model import Chunk, Message, Model, ModelReply, join_chunks

__all__ = ["BackendOverModel"]


class BackendOverModel:
    """Puts a request to a model: its context as what the system says, its prompt and image as what the user says."""

    def __init__(self, model: Model, *, name: str) -> None:
        self._model = model
        self._name = name

    async def generate(self, request: ModelRequest, *, on_chunk: Callable[[str], None] | None = None) -> ModelResponse:
        """Ask the model once, within the request's time limit. `on_chunk` gets the answer in chunks while it comes."""
        return await guarded(partial(self._ask, on_chunk=on_chunk), request, name=self._name)

    async def _ask(self, request: ModelRequest, *, on_chunk: Callable[[str], None] | None) -> ModelResponse:
        context = [Message(role="system", text=request.context)] if request.context else []
        images = () if request.image is None else (request.image,)
        reply = await self._answer([*context, Message(role="user", text=request.prompt, images=images)], on_chunk)
        metadata: Metadata = {"backend": self._name, "trace_id": request.trace_id, "model": reply.model}
        if reply.usage is not None:
            metadata |= {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens}
        return ModelResponse(status="success", output=reply.text, metadata=metadata)

    async def _answer(self, messages: list[Message], on_chunk: Callable[[str], None] | None) -> ModelReply:
        """Ask for the whole answer, or for its chunks where a listener wants them as they come."""
        if on_chunk is None:
            return await self._model.reply(messages)
        pieces: list[Chunk] = []
        async with aclosing(cast("AsyncGenerator[Chunk, None]", self._model.stream(messages))) as stream:
            async for piece in stream:
                on_chunk(piece.text)
                pieces.append(piece)
        return join_chunks(pieces)
