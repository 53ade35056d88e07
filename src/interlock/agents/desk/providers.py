"""What the desk provides for itself: the tools of its two specialists."""

from __future__ import annotations

from collections.abc import AsyncIterator

from interlock.adapters.tools.gateway import Tools
from interlock.agents.desk.settings import DeskSettings
from interlock.capabilities import Toolbox, ToolGateway
from interlock.providers.provider import Check, Context, Provider
from interlock.providers.tools import check_tools, open_tools

__all__ = ["PROVIDERS"]


def _open_tools(context: Context) -> Tools:
    settings = context.settings.of(DeskSettings)
    return open_tools(
        context,
        allowed={"sales": settings.sales_tools, "support": settings.support_tools},
        catalogue_path=settings.catalogue_path,
        knowledge_path=settings.knowledge_path,
    )


async def _check_tools(context: Context) -> AsyncIterator[Check]:
    yield await check_tools("desk tools", lambda: _open_tools(context), ("sales", "support"))


PROVIDERS = (Provider(capabilities=(Toolbox, ToolGateway), open=_open_tools, check=_check_tools),)
