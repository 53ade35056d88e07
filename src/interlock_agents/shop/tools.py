"""The tools of the demo shop, over its catalogue, its articles and its handbook."""

from __future__ import annotations

from pathlib import Path

from interlock.tools.arithmetic import evaluate
from interlock.tools.functions import FunctionTool
from interlock_agents.shop.catalogue import Catalogue
from interlock_agents.shop.knowledge import ARTICLES, DOCUMENTS, Knowledge

__all__ = ["analyst_tools", "desk_tools"]


def desk_tools(folder: Path, *, catalogue_path: Path | None = None, knowledge_path: Path | None = None) -> tuple[FunctionTool, ...]:
    """Return the tools of desk. Your own files replace the demo files; indexes are created in `folder`."""
    folder = folder.expanduser()
    articles = Knowledge(folder, path=_expanded(knowledge_path), collection=ARTICLES)
    return (
        FunctionTool("math.evaluate", evaluate),
        FunctionTool("inventory.query", Catalogue(folder, path=_expanded(catalogue_path)).query, effect="asks"),
        FunctionTool("knowledge_base.search", articles.search, description=ARTICLES.description, effect="asks"),
    )


def analyst_tools(folder: Path, *, documents_path: Path | None = None) -> tuple[FunctionTool, ...]:
    """Return the tools of analyst beside its warehouse. Your own folder replaces the demo handbook."""
    documents = Knowledge(folder.expanduser(), path=_expanded(documents_path), collection=DOCUMENTS)
    return (
        FunctionTool("calculate", evaluate),
        FunctionTool("search", documents.look_up, description=DOCUMENTS.description, effect="asks"),
    )


def _expanded(path: Path | None) -> Path | None:
    return None if path is None else path.expanduser()
