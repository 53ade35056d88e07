"""Configures DeepAgents so that a worker has its file tools and nothing else.

Left out: `execute`; `task`, whose subagents would have other tools; the summary of a long conversation and the offloading
of large results, both of which write into the worker's files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, cast

from deepagents import (
    GeneralPurposeSubagentProfile,
    HarnessProfile,
    create_deep_agent,  # pyright: ignore[reportUnknownVariableType] - generics without arguments in its signature
    register_harness_profile,
)
from deepagents.backends.protocol import BackendProtocol
from deepagents.middleware.filesystem import FilesystemMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command
from typing_extensions import override

from interlock_agents.gateway.workers.chat import PROVIDER, GatedChatModel
from interlock_agents.gateway.workers.tools import Handler, pass_the_gate

__all__ = ["build"]

_Wrapped = Callable[[ToolCallRequest, Handler], Awaitable[ToolMessage | Command[Any]]]


@cache
def _register() -> None:
    register_harness_profile(
        PROVIDER,
        HarnessProfile(
            excluded_middleware=frozenset({"SummarizationMiddleware"}),
            general_purpose_subagent=GeneralPurposeSubagentProfile(enabled=False),
        ),
    )


class GatedFiles(FilesystemMiddleware[Any, Any]):
    """DeepAgents' file tools. Every call passes the gate first, also those that the middleware answers itself."""

    @property
    @override
    def name(self) -> str:
        """Return the name of the middleware that this one replaces."""
        return FilesystemMiddleware.__name__

    @override
    async def awrap_tool_call(self, request: ToolCallRequest, handler: Handler) -> ToolMessage | Command[Any]:
        upstream = cast("_Wrapped", super().awrap_tool_call)
        return await pass_the_gate(request, lambda let_in: upstream(let_in, handler))


def build(backend: BackendProtocol | None, *, name: str, prompt: str, tools: Sequence[str]) -> Any:
    """Build a worker."""
    _register()
    files = GatedFiles(
        backend=backend,
        tools=cast("Any", list(tools)),
        tool_token_limit_before_evict=None,
        human_message_token_limit_before_evict=None,
    )
    return create_deep_agent(
        GatedChatModel(),
        system_prompt=prompt,
        middleware=cast("Any", [files]),
        backend=backend,
        name=name,
        checkpointer=False,
    )
