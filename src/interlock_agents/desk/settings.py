"""The settings of the desk: the tools of its specialists, and their data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from interlock.settings import AgentSettings

__all__ = ["DeskSettings"]


class DeskSettings(AgentSettings):
    """Settings of the desk only."""

    sales_tools: Annotated[tuple[str, ...], Field(description="the tools that desk's sales specialist may use")] = (
        "inventory.query",
        "math.evaluate",
    )
    support_tools: Annotated[tuple[str, ...], Field(description="the tools that desk's support specialist may use")] = (
        "knowledge_base.search",
        "math.evaluate",
    )
    catalogue_path: Annotated[Path | None, Field(description="a SQLite file with your products, instead of the demo catalogue")] = None
    knowledge_path: Annotated[Path | None, Field(description="a folder with your articles, instead of the demo ones")] = None
