"""Exports of an answer: its tables as CSV, and charts of them as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.agent import Export
from interlock_agents.analyst.charts import chart_of, svg_of
from interlock_agents.analyst.tables import csv_of

__all__ = ["EXPORTS"]


def _results(state: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each tool result with the part of the question that it answers."""
    for output in state.get("tool_outputs", ()):
        yield str(getattr(output, "part", "")), getattr(output, "result", None)


def _tables(state: Mapping[str, Any]) -> Sequence[Export]:
    return [Export(table, f"{len(result['rows']):,} rows") for _, result in _results(state) if (table := csv_of(result)) is not None]


def _charts(state: Mapping[str, Any]) -> Sequence[Export]:
    return [
        Export(svg_of(chart, "" if part == "your query" else part), f"a chart of {len(chart.values):,} values")
        for part, result in _results(state)
        if (chart := chart_of(result)) is not None
    ]


EXPORTS = {".csv": _tables, ".svg": _charts}
