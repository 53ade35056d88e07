"""Providers of the analyst's capabilities: profiles, policy, and tools with the warehouse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.capabilities import Toolbox, ToolGateway
from interlock.errors import InterlockError, StoreCorrupt
from interlock.providers.provider import Check, Context, Provider
from interlock.providers.tools import check_tools, open_tools
from interlock.tools.functions import FunctionTool
from interlock.tools.runner import Tools
from interlock_agents.analyst.capabilities import Policy, Profiles
from interlock_agents.analyst.policies import FileProfiles, OpenProfiles, RulePolicy
from interlock_agents.analyst.settings import AnalystSettings
from interlock_agents.shop.tools import analyst_tools

if TYPE_CHECKING:
    from interlock_agents.analyst.warehouse.warehouse import Warehouse

__all__ = ["PROVIDERS"]


def _open_profiles(context: Context) -> Profiles:
    path = context.settings.of(AnalystSettings).profiles_path
    return OpenProfiles() if path is None else FileProfiles(path.expanduser())


def _open_policy(context: Context) -> Policy:
    settings = context.settings.of(AnalystSettings)
    return RulePolicy(
        denied=settings.analyst_denied,
        max_characters=settings.analyst_characters,
        max_retries=settings.analyst_retries,
        window=settings.analyst_window,
    )


def _open_warehouse(context: Context) -> Warehouse:
    from interlock_agents.analyst.warehouse.warehouse import open_warehouse  # noqa: PLC0415 - slow import

    settings, common = context.settings.of(AnalystSettings), context.settings
    return open_warehouse(
        settings.warehouse, folder=common.folder, timeout_s=common.tool_seconds, max_bytes_billed=settings.warehouse_bytes
    )


def _open_tools(context: Context) -> Tools:
    settings = context.settings.of(AnalystSettings)
    warehouse = _open_warehouse(context)
    context.at_close(lambda: asyncio.to_thread(warehouse.close))
    query_tool = FunctionTool("bq_query", warehouse.query, description=warehouse.description, effect="asks")
    tools = (*analyst_tools(context.settings.folder, documents_path=settings.documents_path), query_tool)
    return open_tools(context, tools, allowed={"analyst": settings.analyst_tools}, closed=True)


async def _check_tools(context: Context) -> AsyncIterator[Check]:
    """Check the warehouse, then the tools. Skip the tools if the warehouse is broken, so that the problem is reported once."""
    warehouse = await _check_warehouse(context)
    yield warehouse
    if warehouse.state != "broken":
        yield await check_tools("analyst tools", lambda: _open_tools(context), ("analyst",))


async def _check_warehouse(context: Context) -> Check:
    """Read the tables of the warehouse. Does not create missing demo data or replace damaged demo data."""
    name, demo = context.settings.of(AnalystSettings).warehouse, context.settings.folder / "warehouse.duckdb"
    is_demo = name == "demo"
    where, fix = (f"demo data in {demo}", "INTERLOCK_WAREHOUSE=duckdb:PATH or bigquery:PROJECT.DATASET") if is_demo else (name, "")
    if is_demo and not demo.exists():
        return Check(what="warehouse", state="ok", found=f"{where} (created when it is needed)", fix=fix)
    try:
        await asyncio.to_thread(_read_tables, context, demo if is_demo else None)
    except StoreCorrupt as error:
        if is_demo:
            return Check(what="warehouse", state="ok", found=f"{where} (damaged; made again when it is needed)", fix=fix)
        return Check(what="warehouse", state="broken", found=f"{where}: {error.message}", fix=fix)
    except InterlockError as error:
        return Check(what="warehouse", state="broken", found=f"{where}: {error.message}", fix=fix)
    return Check(what="warehouse", state="ok", found=f"{where} answers", fix=fix)


def _read_tables(context: Context, demo: Path | None) -> None:
    from interlock_agents.analyst.warehouse.demo import DATASET  # noqa: PLC0415 - slow import
    from interlock_agents.analyst.warehouse.warehouse import DuckWarehouse  # noqa: PLC0415 - slow import

    # Open the demo data as a user's file, because user files are never replaced.
    opened = _open_warehouse(context) if demo is None else DuckWarehouse(context.settings.folder, path=demo, dataset=DATASET)
    try:
        _ = opened.description
    finally:
        opened.close()


PROVIDERS = (
    Provider(capabilities=(Profiles,), open=_open_profiles),
    Provider(capabilities=(Policy,), open=_open_policy),
    Provider(capabilities=(Toolbox, ToolGateway), open=_open_tools, check=_check_tools),
)
