from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

from interlock.models.langchain import LangChainModel, open_provider
from interlock.models.local import LocalModel, open_local

Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def requests() -> list[tuple[bytes, bytes]]:
    """What the servers of a test were asked: head and body."""
    return []


@pytest.fixture
async def served(requests: list[tuple[bytes, bytes]]) -> AsyncIterator[Callable[[Behaviour], Awaitable[str]]]:
    """Start servers that read a request and then do what a test wants. Returns the base URL."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(behaviour: Behaviour) -> str:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
                    requests.append((head, await reader.readexactly(length)))
                    await behaviour(writer)
                    writer.close()
                    await writer.wait_closed()
                except (ConnectionError, asyncio.IncompleteReadError):
                    pass
                finally:
                    writer.transport.abort()

            tasks: set[asyncio.Task[None]] = set()

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.create_task(answer(reader, writer))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

            async def stop() -> None:
                server.close()
                for task in list(tasks):
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await server.wait_closed()

            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            stack.push_async_callback(stop)
            return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

        yield start


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., LangChainModel]]:
    """Open models that are closed when the test ends."""
    async with contextlib.AsyncExitStack() as stack:

        def open_model(base_url: str | None, **options: Any) -> LangChainModel:
            given: dict[str, Any] = {"api_key": "sk-secret", "timeout_s": 5.0, "max_tokens": 100, "max_reply_bytes": 10_000} | options
            model = open_provider("openai:tiny", base_url=base_url, **given)
            stack.push_async_callback(model.aclose)
            return model

        yield open_model


@pytest.fixture(scope="session")
def smollm2() -> LocalModel:
    """A real model: one for each process that runs tests, started by the first who asks, ended with the process."""
    return cast("LocalModel", open_local(None, max_tokens=96, max_reply_bytes=10_000, timeout_s=120))
