"""The tools of the demo shop as desk and analyst have them together, for tests of tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock.tools import runner
from interlock.tools.runner import OneTool, Tools
from interlock_agents.shop.tools import analyst_tools, desk_tools

ALLOWED: Mapping[str, Sequence[str]] = {
    "sales": ("inventory.query", "math.evaluate"),
    "support": ("knowledge_base.search", "math.evaluate"),
    "analyst": ("bq_query", "search", "calculate"),
}


def open_tools(
    folder: Path,
    *,
    extra: Iterable[OneTool] = (),
    allowed: Mapping[str, Sequence[str]] | None = None,
    documents_path: Path | None = None,
    catalogue_path: Path | None = None,
    knowledge_path: Path | None = None,
    **options: Any,
) -> Tools:
    own = (
        *desk_tools(folder, catalogue_path=catalogue_path, knowledge_path=knowledge_path),
        *analyst_tools(folder, documents_path=documents_path),
        *extra,
    )
    known = {one.tool.name for one in own} | set(options.get("functions") or {})
    if allowed is None:
        allowed = {specialist: [name for name in names if name in known] for specialist, names in ALLOWED.items()}
    return runner.open_tools(own, allowed=allowed, **options)
