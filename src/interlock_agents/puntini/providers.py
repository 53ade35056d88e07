"""The providers of puntini: the store of property graphs, and the tools that work on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from interlock.errors import InterlockError
from interlock.providers.provider import Check, Context, Provider
from interlock.secrets import without_password
from interlock.settings import Settings
from interlock_agents.puntini.graph_store import GraphStore
from interlock_agents.puntini.settings import PuntiniSettings
from interlock_agents.puntini.tool_registry import GraphUndo, ToolCatalogue, ToolRegistry

__all__ = ["PROVIDERS"]

# The dot keeps it from being the name of a session.
_NO_SESSION = ".doctor"


def _url(settings: PuntiniSettings) -> str | None:
    return None if settings.graph_url is None else settings.graph_url.get_secret_value()


def _missing_graphs(settings: Settings) -> str | None:
    return "graph_url" if settings.of(PuntiniSettings).graph_url is None else None


def _open_graphs(context: Context) -> GraphStore:
    """Open the store of property graphs: files, or a Bolt server."""
    settings = context.settings.of(PuntiniSettings)
    limits: dict[str, Any] = {"timeout_s": settings.graph_seconds, "max_rows": 1000, "max_bytes": settings.graph_bytes}
    url = _url(settings)
    if url is None:
        from interlock_agents.puntini.graphs.ladybug import open_ladybug  # noqa: PLC0415 - takes a while

        return context.closing(open_ladybug(context.settings.folder / "graphs", **limits))
    from interlock_agents.puntini.graphs.bolt import open_bolt  # noqa: PLC0415 - an extra

    password = "" if settings.graph_password is None else settings.graph_password.get_secret_value()
    return context.closing(open_bolt(url, user=settings.graph_user, password=password, database=settings.graph_database, **limits))


def _open_graph_tools(_: Context) -> object:
    """Return the tools of a property graph. The store is passed to each call."""
    from interlock_agents.puntini.graphs.registry import GraphTools  # noqa: PLC0415 - takes a while

    return GraphTools()


async def _check_graphs(context: Context) -> AsyncIterator[Check]:
    """Query the graph server for one node. Files need no check: they exist, or are created when needed."""
    folder, url = context.settings.folder / "graphs", _url(context.settings.of(PuntiniSettings))
    if url is None:
        made = "" if folder.exists() else " (made when they are needed)"
        yield Check(what="graphs", state="ok", found=f"files in {folder}{made}", fix="INTERLOCK_GRAPH_URL=bolt://...")
        return
    shown = without_password(url)
    try:
        await _open_graphs(context).nodes(_NO_SESSION, limit=1)
    except InterlockError as error:
        yield Check(what="graphs", state="broken", found=f"{shown}: {error.message}")
    else:
        yield Check(what="graphs", state="ok", found=f"{shown} answers")


PROVIDERS = (
    Provider(capabilities=(GraphStore,), open=_open_graphs, check=_check_graphs, missing=_missing_graphs),
    Provider(capabilities=(ToolCatalogue, ToolRegistry, GraphUndo), open=_open_graph_tools, parts=(GraphStore,)),
)
