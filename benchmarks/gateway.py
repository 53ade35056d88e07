"""What a worker of the gateway costs over the DeepAgent that it is: a turn beside the bare agent, with one tool call each."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, cast

from deepagents import create_deep_agent  # pyright: ignore[reportUnknownVariableType] - generics without arguments in its signature
from deepagents.backends import FilesystemBackend
from figures import Figure, at_most
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import BaseModel

from interlock import Interlock, Settings
from interlock.capabilities import Message, Model, ModelReply, Tool, ToolCall
from interlock.models.stub import StubModel

ROUNDS = 40


class InstantModel(StubModel):
    """Reads one page, then says so."""

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        del tools, schema
        if messages[-1].role == "tool":
            return ModelReply(text="Done.")
        return ModelReply(calls=(ToolCall(id="1", name="read_file", arguments={"file_path": "/welcome.md"}),))


class InstantChat(BaseChatModel):
    """The same, for LangChain."""

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        del tools, kwargs
        return self

    def _generate(self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        del stop, run_manager, kwargs
        call = {"name": "read_file", "args": {"file_path": "/welcome.md"}, "id": "1", "type": "tool_call"}
        said = AIMessage("Done.") if isinstance(messages[-1], ToolMessage) else AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


async def measure_gateway() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        settings = {engine: Settings.model_validate({"engine": engine, "data_dir": folder}) for engine in ("direct", "langgraph")}
        apps = {engine: Interlock(one, grants={Model: InstantModel()}) for engine, one in settings.items()}
        works: dict[str, Callable[[], Awaitable[object]]] = {
            engine: lambda app=app: app.run("gateway", "Read it.", role="user") for engine, app in apps.items()
        }
        for work in works.values():
            await work()  # which makes the files, too
        root = Path(folder, "gateway", "docs")
        bare = cast("Any", create_deep_agent(InstantChat(), backend=FilesystemBackend(root_dir=root, virtual_mode=True)))
        works["bare"] = lambda: bare.ainvoke({"messages": [{"role": "user", "content": "Read it."}]})
        times = await _timed(works)
        for app in apps.values():
            await app.close()
    figures = [Figure("gateway: a bare DeepAgent, one tool call", statistics.median(times["bare"]) * 1e3, "ms")]
    for engine in apps:
        more = [(ours - its) * 1e3 for ours, its in zip(times[engine], times["bare"], strict=True)]
        figures.append(at_most(f"the worker in a turn on {engine}: more than that", statistics.median(more), 10, "ms"))
    return figures


async def _timed(works: dict[str, Callable[[], Awaitable[object]]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in works}
    await works["bare"]()
    for _ in range(ROUNDS):
        for name, work in works.items():
            start = time.perf_counter()
            await work()
            times[name].append(time.perf_counter() - start)
    return times
