"""What the analyst provides for itself: its users, its policy, and its tools with the warehouse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from interlock.adapters.tools.functions import FunctionTool
from interlock.adapters.tools.gateway import Tools
from interlock.adapters.users import FileProfiles, OpenProfiles, RulePolicy
from interlock.agents.analyst.settings import AnalystSettings
from interlock.capabilities import Policy, Profiles, Toolbox, ToolGateway
from interlock.errors import InterlockError, StoreCorrupt
from interlock.providers.provider import Check, Context, Provider
from interlock.providers.tools import check_tools, open_tools

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


def _open_tools(context: Context) -> Tools:
    from interlock.adapters.tools.warehouses import open_warehouse  # noqa: PLC0415 - takes a while

    settings = context.settings.of(AnalystSettings)
    warehouse = open_warehouse(
        settings.warehouse,
        folder=context.settings.folder,
        timeout_s=context.settings.tool_seconds,
        max_bytes_billed=settings.warehouse_bytes,
    )
    context.at_close(lambda: asyncio.to_thread(warehouse.close))
    asking = FunctionTool("bq_query", warehouse.query, description=warehouse.description)
    return open_tools(context, allowed={"analyst": settings.analyst_tools}, extra=(asking,), documents_path=settings.documents_path)


async def _check_tools(context: Context) -> AsyncIterator[Check]:
    """Ask the warehouse, and then for the tools. They cannot be opened without the warehouse, so it is named once."""
    warehouse = await _check_warehouse(context)
    yield warehouse
    if warehouse.state != "broken":
        yield await check_tools("analyst tools", lambda: _open_tools(context), ("analyst",))


async def _check_warehouse(context: Context) -> Check:
    """Ask the warehouse for its tables. Demo data that does not exist yet is not made, and damaged demo data is not replaced."""
    name, demo = context.settings.of(AnalystSettings).warehouse, context.settings.folder / "warehouse.duckdb"
    is_demo = name == "demo"
    where, fix = (f"demo data in {demo}", "INTERLOCK_WAREHOUSE=duckdb:PATH or bigquery:PROJECT.DATASET") if is_demo else (name, "")
    if is_demo and not demo.exists():
        return Check(what="warehouse", state="ok", found=f"{where} (made when it is needed)", fix=fix)
    try:
        await asyncio.to_thread(_ask_warehouse, context, demo if is_demo else None)
    except StoreCorrupt as error:
        if is_demo:
            return Check(what="warehouse", state="ok", found=f"{where} (damaged; made again when it is needed)", fix=fix)
        return Check(what="warehouse", state="broken", found=f"{where}: {error.message}", fix=fix)
    except InterlockError as error:
        return Check(what="warehouse", state="broken", found=f"{where}: {error.message}", fix=fix)
    return Check(what="warehouse", state="ok", found=f"{where} answers", fix=fix)


def _ask_warehouse(context: Context, demo: Path | None) -> None:
    from interlock.adapters.tools.warehouse import DuckWarehouse  # noqa: PLC0415 - takes a while
    from interlock.adapters.tools.warehouse_demo import DATASET  # noqa: PLC0415 - likewise
    from interlock.adapters.tools.warehouses import open_warehouse  # noqa: PLC0415 - likewise

    settings, folder, seconds = context.settings.of(AnalystSettings), context.settings.folder, context.settings.tool_seconds
    opened = (
        open_warehouse(settings.warehouse, folder=folder, timeout_s=seconds, max_bytes_billed=settings.warehouse_bytes)
        if demo is None
        # Opened as a file of the user's own, because those are never replaced.
        else DuckWarehouse(folder, path=demo, dataset=DATASET)
    )
    try:
        _ = opened.description
    finally:
        opened.close()


PROVIDERS = (
    Provider(capabilities=(Profiles,), open=_open_profiles),
    Provider(capabilities=(Policy,), open=_open_policy),
    Provider(capabilities=(Toolbox, ToolGateway), open=_open_tools, check=_check_tools),
)
