"""Tables in an answer. The format of a column depends on the kind of its values."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from json import dumps
from typing import Any, Literal, cast

from pydantic import JsonValue

__all__ = ["ColumnKind", "csv_of", "fitting", "heading", "kind_of", "table", "written"]

ColumnKind = Literal["identifier", "year", "quantity", "money", "share", "time", "text"]

_IDENTIFIER = re.compile(r"(?:^|_)(?:id|ids|sku|number|no|code|zip|key|line|phone)$", re.IGNORECASE)
_YEAR = re.compile(r"(?:^|_)(?:year|yr|jahr)$", re.IGNORECASE)
_MONEY = re.compile(
    r"(?:^|_)(?:revenue|price|cost|costs|amount|sales|turnover|shipping|value|spend|spent|eur|usd|gbp|chf|fee|fees)(?:_|$)", re.IGNORECASE
)
_SHARE = re.compile(r"(?:^|_)(?:share|percent|percentage|pct|rate)$", re.IGNORECASE)
_PERCENT = re.compile(r"(?:^|_)(?:percent|percentage|pct)$", re.IGNORECASE)
_UNIT = re.compile(r"_(eur|usd|gbp|chf)$", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?)?")
_FIRST_YEAR, _LAST_YEAR = 1900, 2100


def kind_of(name: str, values: Sequence[Any]) -> ColumnKind:
    """Return the kind of a column, by its name and its values."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, str) for value in present):
        return "time" if present and all(_TIME.fullmatch(value) for value in present) else "text"
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in present):
        return "text"
    if _YEAR.search(name) and all(isinstance(value, int) and _FIRST_YEAR <= value <= _LAST_YEAR for value in present):
        return "year"
    if _IDENTIFIER.search(name) and all(isinstance(value, int) for value in present):
        return "identifier"
    if _SHARE.search(name):
        return "share"
    return "money" if _MONEY.search(name) else "quantity"


def written(value: Any, kind: ColumnKind, name: str = "") -> str:
    """Format a value: years and identifiers without separators, money with cents, percentages with a sign."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("|", "\\|").replace("\n", " ")
    if kind in {"identifier", "year"}:
        return str(value)
    if kind == "money" and (isinstance(value, float) or _UNIT.search(name)):
        return f"{value:,.2f}"
    return f"{value:,}{'%' if kind == 'share' and _PERCENT.search(name) else ''}"


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Format rows as a Markdown table. A single value gets its unit."""
    kinds: list[ColumnKind] = [kind_of(name, [row[at] if at < len(row) else None for row in rows]) for at, name in enumerate(columns)]
    if len(rows) == len(columns) == len(rows[0]) == 1:
        unit = _UNIT.search(columns[0])
        return written(rows[0][0], kinds[0], columns[0]) + (f" {unit[1].upper()}" if unit else "")
    lines = [[heading(name) for name in columns], ["---:" if _is_number(kind) else "---" for kind in kinds]]
    lines += [[written(cell, kind, name) for cell, kind, name in zip(row, kinds, columns, strict=False)] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fitting(result: JsonValue, most: int) -> JsonValue | None:
    """Return a table with the rows that fit into `most` characters and the row count, or None if the result is not a table."""
    match result:
        case {"columns": [*columns], "rows": [*rows]} if all(isinstance(row, list) for row in rows):
            pass
        case _:
            return None
    left, shown = most - len(dumps(columns)), 0
    for row in rows:
        left -= len(dumps(row, ensure_ascii=False)) + 2
        if left < 0:
            break
        shown += 1
    found = cast("dict[str, JsonValue]", result)
    shown = max(1, shown)
    return found if shown >= len(rows) else {**found, "rows": rows[:shown], "shown": shown, "row_count": len(rows)}


def csv_of(result: JsonValue) -> str | None:
    """Return all rows of a table as CSV, or None if the result is not a table."""
    match result:
        case {"columns": [*columns], "rows": [*rows]} if all(isinstance(row, list) for row in rows):
            out = io.StringIO()
            writer = csv.writer(out)
            writer.writerow(map(str, columns))
            writer.writerows(cast("list[list[Any]]", rows))
            return out.getvalue()
        case _:
            return None


def heading(name: str) -> str:
    """Return the name of a column for a reader, with its unit."""
    unit = _UNIT.search(name)
    plain = (name[: unit.start()] if unit else name).replace("_", " ").replace("|", "\\|")
    if _PERCENT.search(name):
        plain = plain.rsplit(" ", 1)[0] if " " in plain else plain
    return f"{plain} ({unit[1].upper()})" if unit else plain


def _is_number(kind: ColumnKind) -> bool:
    return kind in {"quantity", "money", "share"}
