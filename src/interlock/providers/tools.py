"""Tools of agents that call them by lists: the functions and servers of the settings, and what an agent adds to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.errors import InterlockError
from interlock.providers.provider import Check, Context

if TYPE_CHECKING:
    from interlock.adapters.tools.gateway import OneTool, Tools

__all__ = ["check_tools", "open_tools"]


def open_tools(
    context: Context,
    *,
    allowed: Mapping[str, Sequence[str]],
    extra: Iterable[OneTool] = (),
    catalogue_path: Path | None = None,
    knowledge_path: Path | None = None,
    documents_path: Path | None = None,
) -> Tools:
    """Open the tools for the specialists of an agent. `allowed` says which tools each specialist may use."""
    from interlock.adapters.tools import gateway  # noqa: PLC0415 - only for agents with tools

    settings = context.settings
    return context.closing(
        gateway.open_tools(
            folder=settings.folder,
            allowed=allowed,
            functions=settings.tool_functions,
            servers={name: server.to_dict() for name, server in settings.tool_servers.items()},
            extra=extra,
            catalogue_path=catalogue_path,
            knowledge_path=knowledge_path,
            documents_path=documents_path,
            timeout_s=settings.tool_seconds,
            retries=settings.tool_retries,
            redact=context.redactor.data,
        )
    )


async def check_tools(what: str, open_them: Callable[[], Tools], specialists: Iterable[str]) -> Check:
    """List the tools of each specialist. Servers are asked for theirs."""
    try:
        tools = open_them()
        found = {specialist: [tool.name for tool in await tools.offered(specialist)] for specialist in specialists}
    except InterlockError as error:
        return Check(what=what, state="broken", found=error.message)
    return Check(what=what, state="ok", found="; ".join(f"{name}: {', '.join(offered)}" for name, offered in found.items()))
