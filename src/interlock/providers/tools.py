"""Tools of agents that call them by lists: the functions and servers of the settings, and what an agent adds to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from interlock.contract.policies import ArgumentPolicy, Guarded
from interlock.errors import InterlockError
from interlock.providers.provider import Check, Context
from interlock.settings import ToolArgument

if TYPE_CHECKING:
    from interlock.tools.runner import OneTool, Tools

__all__ = ["check_tools", "open_tools"]


def open_tools(context: Context, tools: Iterable[OneTool] = (), *, allowed: Mapping[str, Sequence[str]], closed: bool = False) -> Tools:
    """Open an agent's tools, with the functions and servers of the settings. `allowed` says which tools each specialist may use.

    `closed` is for agents that plan again after they have read results, unless the settings say otherwise (`tool_policy`).
    """
    from interlock.tools import runner  # noqa: PLC0415 - only for agents with tools

    settings = context.settings
    return context.closing(
        runner.open_tools(
            tools,
            allowed=allowed,
            functions=settings.tool_functions,
            servers={name: server.to_dict() for name, server in settings.tool_servers.items()},
            timeout_s=settings.tool_seconds,
            retries=settings.tool_retries,
            redact=context.redactor.data,
            effects=settings.tool_effects,
            policies={tool: {name: _policy(tool, one) for name, one in args.items()} for tool, args in settings.tool_policies.items()},
            closed=closed if settings.tool_policy is None else settings.tool_policy == "closed",
        )
    )


def _policy(tool: str, argument: ToolArgument) -> ArgumentPolicy:
    from interlock.tools.functions import load_target  # noqa: PLC0415 - only for agents with tools

    guards = () if argument.guard is None else (Guarded(load_target(tool, argument.guard)),)
    return ArgumentPolicy(allowed=frozenset(argument.allow), guards=guards, approval=argument.approve, data_only=argument.data)


async def check_tools(what: str, open_them: Callable[[], Tools], specialists: Iterable[str]) -> Check:
    """List the tools of each specialist. Servers are asked for theirs."""
    try:
        tools = open_them()
        found = {specialist: [tool.name for tool in await tools.offered(specialist)] for specialist in specialists}
    except InterlockError as error:
        return Check(what=what, state="broken", found=error.message)
    return Check(what=what, state="ok", found="; ".join(f"{name}: {', '.join(offered)}" for name, offered in found.items()))
