"""Providers of the desk's capabilities: the tools of its two specialists."""

from __future__ import annotations

from collections.abc import AsyncIterator

from interlock.capabilities import Toolbox, ToolGateway
from interlock.providers.provider import Check, Context, Provider
from interlock.providers.tools import check_tools, open_tools
from interlock.tools.runner import Tools
from interlock_agents.desk.settings import DeskSettings
from interlock_agents.shop.tools import desk_tools

__all__ = ["PROVIDERS"]


def _open_tools(context: Context) -> Tools:
    settings = context.settings.of(DeskSettings)
    tools = desk_tools(context.settings.folder, catalogue_path=settings.catalogue_path, knowledge_path=settings.knowledge_path)
    return open_tools(context, tools, allowed={"sales": settings.sales_tools, "support": settings.support_tools})


async def _check_tools(context: Context) -> AsyncIterator[Check]:
    yield await check_tools("desk tools", lambda: _open_tools(context), ("sales", "support"))


PROVIDERS = (Provider(capabilities=(Toolbox, ToolGateway), open=_open_tools, check=_check_tools),)
