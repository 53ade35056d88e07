"""Answers of the offline rules: tool results as sentences, tables and charts."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, cast

from interlock_agents.analyst.charts import ChartKind, chart_of, chart_wanted, text_of
from interlock_agents.analyst.small_talk import ABOUT, answer_to, small_talk_in
from interlock_agents.analyst.tables import table

__all__ = ["answer", "is_query"]

_QUERY = re.compile(r"\s*(?:select\b|with\s+\w+\s+as\s*\()", re.IGNORECASE)


def is_query(question: str) -> bool:
    """Return whether a question is a SQL query."""
    return _QUERY.match(question) is not None


def answer(payload: dict[str, Any]) -> str:
    """Return an answer from the tool outputs, or a reply to small talk."""
    question: str = payload["question"]
    outputs: list[dict[str, Any]] = payload.get("outputs", [])
    notes = "".join(f"{note}\n\n" for note in payload.get("notes", []))
    wanted = None if is_query(question) else chart_wanted(question)
    if outputs and wanted is not None:
        return notes + "\n\n".join(f"{_drawn(one, wanted)}\n[{one['id']}]" for one in outputs)
    if outputs:
        return notes + "\n\n".join(
            f"{text}{'' if text.endswith(chr(10)) else ' '}[{one['id']}]" for one in outputs for text in [_described(one)]
        )
    if payload.get("failures"):
        return f"{notes}I could not find this out."
    kind = small_talk_in(question)
    return answer_to(kind, payload) if kind is not None else ABOUT


def _drawn(output: dict[str, Any], wanted: ChartKind | Literal["any"]) -> str:
    """Draw a result as a chart, or as text with the reason if it has no chart."""
    chart = chart_of(output["result"], wanted) if output["tool"] == "bq_query" else None
    part = str(output.get("part") or "")
    if chart is None:
        return f"This cannot be drawn: a chart takes a figure by one grouping, such as revenue by month.\n\n{_described(output)}"
    title = f"{part}:\n\n" if part and part != "your query" else ""
    return f"{title}{text_of(chart)}{_cut_short(output['result'])}"


def _described(output: dict[str, Any]) -> str:
    result: Any = output["result"]
    part = str(output.get("part") or "")
    match output["tool"], result:
        case "bq_query", {"columns": [*columns], "rows": [*rows]} if rows and all(isinstance(row, list) for row in rows):
            return _rows([str(column) for column in columns], rows, result, part)
        case "search", {"documents": [{"title": title, "passage": passage, **more}, *_]}:
            lacking = ", ".join(f"'{word}'" for word in cast("list[str]", more.get("lacks", [])))
            return (
                f"The nearest page of the handbook, which does not have {lacking}: {title}: {passage}" if lacking else f"{title}: {passage}"
            )
        case "calculate", {"expression": expression, "value": value}:
            return f"{expression} = {value}" if not part or part == expression else f"{part}: {expression} = {value}"
        case _:
            return f"{output['tool']}: {result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)}"


def _rows(columns: list[str], rows: list[list[Any]], result: dict[str, Any], part: str) -> str:
    text = table(columns, rows)
    if len(rows) == len(columns) == len(rows[0]) == 1:
        return f"{part if part and part != 'your query' else columns[0].replace('_', ' ').capitalize()}: {text}"
    heading = f"{part}:\n\n" if part and part != "your query" else ""
    return f"{heading}{text}{_cut_short(result)}\n"


def _cut_short(result: dict[str, Any]) -> str:
    """Return lines that say how many rows are not shown."""
    shown, count = result.get("shown"), result.get("row_count")
    text = f"\nShown: {shown:,} of {count:,} rows. Ask for the top few or for less, or save all of them as FILE.csv." if shown else ""
    return f"{text}\n{result['cut']}" if result.get("cut") else text
