"""A worker: a DeepAgent with the files of a scope, built at first use. Its model and tool calls pass the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from interlock.capabilities import Model
from interlock.engine.ambient import alone
from interlock.errors import BudgetExceeded
from interlock_agents.gateway.file_tools import READING, FileTools

if TYPE_CHECKING:
    from collections.abc import Generator

    from deepagents.backends.protocol import BackendProtocol

__all__ = ["WRITING", "DeepWorker"]

WRITING = (*READING, "write_file", "edit_file", "delete")

_STEPS = 200  # of the worker's own graph: a backstop, the turn's budgets are tighter


class DeepWorker:
    """Carries out a task with its file tools and reports the result.

    Without a backend it can only replay a recorded turn, in which no tool runs.
    """

    def __init__(self, open_backend: Callable[[], BackendProtocol] | None, *, name: str, prompt: str, tools: Sequence[str]) -> None:
        self._open_backend = open_backend
        self._name = name
        self._prompt = prompt
        self._tools = tuple(tools)
        self._agent: Any = None
        self._building = asyncio.Lock()

    async def work(self, task: str, secret: str = "", *, model: Model, files: FileTools) -> str:
        """Work on a task; `secret` is for the tools, never for the model."""
        from langgraph.errors import GraphRecursionError  # noqa: PLC0415 - takes most of a second

        from interlock_agents.gateway.workers.chat import asking  # noqa: PLC0415 - takes most of a second
        from interlock_agents.gateway.workers.tools import granted, holding, one_by_one  # noqa: PLC0415 - takes most of a second

        agent = await self._built()
        given = {"messages": [{"role": "user", "content": task}]}
        with (
            _set(asking, model),
            _set(granted, files),
            _set(holding, secret),
            _set(one_by_one, asyncio.Lock()),
            alone(),
        ):
            try:
                final = await agent.ainvoke(given, config={"callbacks": [], "recursion_limit": _STEPS})
            except GraphRecursionError as error:
                raise BudgetExceeded(f"The worker took more than {_STEPS} steps of its own.") from error
        return str(final["messages"][-1].text)

    async def _built(self) -> Any:
        async with self._building:
            if self._agent is None:
                self._agent = await asyncio.to_thread(self._build)
        return self._agent

    def _build(self) -> Any:
        from interlock_agents.gateway.workers.harness import build  # noqa: PLC0415 - deepagents takes more than a second

        backend = None if self._open_backend is None else self._open_backend()
        return build(backend, name=self._name, prompt=self._prompt, tools=self._tools)


@contextmanager
def _set(variable: ContextVar[Any], value: Any) -> Generator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
