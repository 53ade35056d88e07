"""What an answer came from, saved to a file: a table as CSV, or a chart of it as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.cli.screen import print_error, safe
from interlock.runtime.turn import TurnResult

__all__ = ["save_result"]


def save_result(path: Path, result: TurnResult) -> bool:
    """Write each table that the tools of a turn found to a new file of its own. Return whether there was one and all were written."""
    from interlock.agents.analyst.charts import chart_of, svg_of  # noqa: PLC0415 - the agent, which no other command needs
    from interlock.agents.analyst.tables import csv_of  # noqa: PLC0415

    is_picture = path.suffix.lower() == ".svg"
    made: list[tuple[str, str]] = []
    for one in result.state.get("tool_outputs", ()):
        found: Any = getattr(one, "result", None)
        part = str(getattr(one, "part", ""))
        if is_picture and (chart := chart_of(found)) is not None:
            made.append((svg_of(chart, "" if part == "your query" else part), f"a chart of {len(chart.values):,} values"))
        elif not is_picture and (table := csv_of(found)) is not None:
            made.append((table, f"{len(found['rows']):,} rows"))
    if not made:
        lacking = "no figure by one grouping to draw, such as revenue by month" if is_picture else "no table to save"
        print_error(f"There is {lacking}: the answer did not come from one.")
    for number, (text, what) in enumerate(made, 1):
        file = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        try:
            with file.open("x", encoding="utf-8", newline="") as out:
                out.write(text)
        except OSError as error:
            print_error(f"'{safe(file.name)}' cannot be written: {error.strerror}. Name a new file in a folder that you may write to.")
            return False
        print_error(f"Saved {what} to '{safe(file.name)}'.")
    return bool(made)
