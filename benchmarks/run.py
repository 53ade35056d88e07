"""Measure what Interlock costs. Every figure is a ratio of things measured in turns in the same run; medians."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from analyst import measure_analyst
from comparison import compared, measure_comparison, noticed
from desk import measure_desk
from figures import Figure
from gateway import measure_gateway
from puntini import measure_puntini
from rich.console import Console
from rich.table import Table
from sam import measure_sam
from server import measure_server
from turns import measure_turns

Measure = Callable[[], Awaitable[list[Figure]]]
MEASURES: tuple[Measure, ...] = (
    measure_sam,
    measure_desk,
    measure_analyst,
    measure_gateway,
    measure_puntini,
    measure_turns,
    measure_server,
)
RESULTS = Path("build/bench.json")


def figures_of(measure: Measure) -> list[Figure]:
    """Measure in a process of its own: what another one left in memory would be paid for by this one."""

    async def measured() -> list[Figure]:
        return await measure()

    return asyncio.run(measured())


def main() -> int:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as alone:
        figures = [figure for one in MEASURES for figure in alone.submit(figures_of, one).result()]
    comparison = measure_comparison()
    figures += compared(comparison)
    table = Table(title="what a turn costs")
    for column in ("what", "measured", "target", ""):
        table.add_column(column, justify="right" if column == "measured" else "left")
    for figure in figures:
        mark = "" if figure.met is None else "met" if figure.met else "MISSED"
        table.add_row(figure.name, f"{figure.value:,.2f} {figure.unit}", figure.target, mark)
    screen = Console()
    screen.print(table, noticed(comparison))
    for name, reason in comparison["skipped"].items():
        screen.print(f"{name} is left out: {reason}", markup=False)
    RESULTS.parent.mkdir(exist_ok=True)
    results = {"figures": [asdict(figure) for figure in figures], "comparison": comparison}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    return 1 if any(figure.met is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
