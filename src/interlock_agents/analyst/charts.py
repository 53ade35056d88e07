"""Charts of a result with one grouping: bars, or a line where the grouping is time; as text for a terminal and as SVG."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Literal, cast

from pydantic import JsonValue

from interlock_agents.analyst.tables import ColumnKind, heading, kind_of, written

__all__ = ["Chart", "ChartKind", "chart_of", "chart_wanted", "svg_of", "text_of", "without_chart"]

ChartKind = Literal["bars", "line"]

_CHART = r"(?:bar |line |column )?(?:chart|graph|plot|diagram)"
# Bounded: an unbounded repetition takes quadratic time on "and, and, and".
_POLITE = r"(?:(?:and|please|can you|could you|now|ok|okay)[ ,]{1,3}){0,4}"
_WANTED = re.compile(
    rf",?\s*\b{_POLITE}(?:"
    rf"(?:(?:show|give|make|draw|print|create)(?: me| us)? )?(?:it |that |this |them )?"
    rf"(?:(?:as|in) (?:an? )?(?P<as>{_CHART})|as (?:an? )?(?P<shape>bars|line))\b"
    rf"|(?:(?:show|give|make|draw|print|create|plot)(?: me| us)? )?(?:an? |the )?(?P<of>{_CHART})"
    r"(?: (?:of|for|with)\b)?(?: (?:it|that|this|them)\b)?"
    r"|(?:draw|plot|chart|graph|visuali[sz]e)\b(?: (?:me|it|that|this|them)\b)?(?: as (?:an? )?(?P<kind>bars?|line)\b)?)",
    re.IGNORECASE,
)
_TIME = re.compile(r"\d{4}(?:-(?:\d\d(?:-\d\d)?|Q[1-4]|W\d\d))?")
_NO_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")
_MIN_ROWS, _MAX_SHOWN = 2, 60
# Columns and lines of a chart in a terminal.
_NAME, _BAR, _HIGH = 24, 34, 9


@dataclass(frozen=True)
class Chart:
    """One value for each name."""

    kind: ChartKind
    group: str
    figure: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    labels: tuple[str, ...]
    """The values as a table shows them."""
    omitted: int = 0


def chart_wanted(question: str) -> ChartKind | Literal["any"] | None:
    """Return the kind of chart that a question asks for, or None."""
    found = _WANTED.search(_one_line(question))
    if found is None:
        return None
    how = (found["kind"] or found["as"] or found["shape"] or found["of"] or "").lower()
    return "line" if how.startswith("line") else "bars" if how.startswith("bar") else "any"


def without_chart(question: str) -> str:
    """Remove the words that ask for a chart. What is left is the question about the data."""
    return _one_line(_WANTED.sub(" ", _one_line(question)))


def _one_line(text: str) -> str:
    """Collapse white space: the pattern takes quadratic time on long runs of it."""
    return " ".join(text.split())


def chart_of(result: JsonValue, wanted: ChartKind | Literal["any"] = "any") -> Chart | None:
    """Build a chart from a table. Return None unless it has one grouping, at least two rows and only numbers as values."""
    match result:
        case {"columns": [str(group), str(figure), *_], "rows": [*rows]} if len(rows) >= _MIN_ROWS:
            pass
        case _:
            return None
    lists = cast("list[list[Any]]", rows)
    names, values = [row[0] for row in lists], [row[1] if len(row) > 1 else None for row in lists]
    others = len(cast("list[Any]", cast("dict[str, Any]", result)["columns"])) - 2
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in values) or len(set(map(str, names))) < len(names):
        return None
    if others and not _are_shares(cast("dict[str, Any]", result)):
        return None
    kind: ColumnKind = kind_of(figure, values)
    grouped: ColumnKind = kind_of(group, names)
    is_time = all(_TIME.fullmatch(str(name)) for name in names) and grouped != "identifier"
    shown = slice(None) if is_time else slice(_MAX_SHOWN)
    return Chart(
        kind=wanted if wanted != "any" else "line" if is_time else "bars",
        group=heading(group),
        figure=heading(figure),
        names=tuple(written(name, grouped) for name in names)[shown],
        values=tuple(float(cast("float", one)) for one in values)[shown],
        labels=tuple(written(one, kind, figure) for one in values)[shown],
        omitted=0 if is_time else max(0, len(names) - _MAX_SHOWN),
    )


def _are_shares(result: dict[str, Any]) -> bool:
    """Return whether every column after the second is a share of the total."""
    return all(name == "share_percent" for name in result["columns"][2:])


def text_of(chart: Chart) -> str:
    """Draw a chart with characters, about seventy columns wide at most."""
    title = f"{chart.figure} by {chart.group}"
    if chart.kind == "line" and len(chart.values) <= _MAX_SHOWN:
        return "\n".join([title, *_text_line(chart)])
    more = chart.omitted + max(0, len(chart.values) - _MAX_SHOWN)
    return "\n".join([title, *_text_bars(chart), *([f"... and {more:,} more"] if more else [])])


def _text_bars(chart: Chart) -> list[str]:
    width = min(_NAME, max(map(len, chart.names)))
    largest = max(map(abs, chart.values)) or 1.0
    lines: list[str] = []
    for name, value, label in list(zip(chart.names, chart.values, chart.labels, strict=True))[:_MAX_SHOWN]:
        eighths = round(abs(value) / largest * _BAR * 8)
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        short = name if len(name) <= width else f"{name[: width - 1]}…"
        lines.append(f"{short:<{width}}  {'-' if value < 0 else ''}{bar} {label}")
    return lines


def _text_line(chart: Chart) -> list[str]:
    """Draw a point for each value, the largest at the top, zero or the smallest negative one at the bottom."""
    low, high = min(0.0, *chart.values), max(0.0, *chart.values)
    step = max(1, min(5, 60 // len(chart.values)))
    rows = [[" "] * (step * len(chart.values)) for _ in range(_HIGH)]
    heights = [round((value - low) / ((high - low) or 1.0) * (_HIGH - 1)) for value in chart.values]
    for at, height in enumerate(heights):
        rows[_HIGH - 1 - height][at * step] = "●"
    for at, (one, after) in enumerate(pairwise(heights)):
        for height in range(min(one, after) + 1, max(one, after)):
            rows[_HIGH - 1 - height][at * step + step // 2] = "·"
    top, bottom = (
        chart.labels[chart.values.index(max(chart.values))],
        "0" if low == 0 else chart.labels[chart.values.index(min(chart.values))],
    )
    width = max(len(top), len(bottom))
    marks = {0: top if high == max(chart.values) else "0", _HIGH - 1: bottom}
    lines = [f"{marks.get(at, ''):>{width}} ┤{''.join(row)}".rstrip() for at, row in enumerate(rows)]
    between = max(1, step * (len(chart.values) - 1) + 1 - len(chart.names[0]) - len(chart.names[-1]))
    return [*lines, f"{'':>{width}}  {chart.names[0]}{' ' * between}{chart.names[-1]}"]


_STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.value { fill: #57606a; }
.bar { fill: #4269d0; }
.line { fill: none; stroke: #4269d0; stroke-width: 2; }
.point { fill: #4269d0; }
.axis { stroke: #d0d7de; stroke-width: 1; }
"""
_WIDE, _EDGE, _ROW = 760, 24, 26
_PLOT_HIGH, _LABELS = 300, 12


def svg_of(chart: Chart, title: str = "") -> str:
    """Draw a chart as a self-contained SVG, without scripts, external fonts or external styles."""
    named = title or f"{chart.figure} by {chart.group}"
    height, drawn = _svg_line(chart) if chart.kind == "line" else _svg_bars(chart)
    more = [f'<text class="value" x="{_EDGE}" y="{height - 10}">and {chart.omitted:,} more</text>'] if chart.omitted else []
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDE}" height="{height}" viewBox="0 0 {_WIDE} {height}" role="img">',
            f"<title>{_safe(named)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect width="{_WIDE}" height="{height}" fill="#ffffff"/>',
            f'<text class="title" x="{_EDGE}" y="32">{_safe(named)}</text>',
            f'<text class="value" x="{_WIDE - _EDGE}" y="32" text-anchor="end">{_safe(chart.figure)}</text>',
            *drawn,
            *more,
            "</svg>\n",
        ]
    )


def _svg_bars(chart: Chart) -> tuple[int, list[str]]:
    names = [name if len(name) <= _NAME + 10 else f"{name[: _NAME + 9]}…" for name in chart.names]
    left = _EDGE + 12 + 7 * max(map(len, names))
    right = _WIDE - _EDGE - 8 - 7 * max(map(len, chart.labels))
    low, high = min(0.0, *chart.values), max(0.0, *chart.values)
    span, room = (high - low) or 1.0, right - left
    zero = left - low / span * room
    made: list[str] = []
    for at, (name, value, label) in enumerate(zip(names, chart.values, chart.labels, strict=True)):
        middle = 60 + at * _ROW
        start, width = zero + min(0.0, value) / span * room, abs(value) / span * room
        made += [
            f'<text x="{left - 10}" y="{middle + 4}" text-anchor="end">{_safe(name)}</text>',
            f'<rect class="bar" x="{start:.1f}" y="{middle - 8}" width="{width:.1f}" height="16"/>',
            f'<text class="value" x="{start + width + 6:.1f}" y="{middle + 4}">{_safe(label)}</text>',
        ]
    bottom = 60 + len(names) * _ROW
    made.append(f'<line class="axis" x1="{zero:.1f}" y1="46" x2="{zero:.1f}" y2="{bottom - 12}"/>')
    return bottom + (_EDGE if chart.omitted else 4), made


def _svg_line(chart: Chart) -> tuple[int, list[str]]:
    left, right = _EDGE + 12 + 7 * max(map(len, chart.labels)), _WIDE - _EDGE - 20
    top, bottom = 56, 56 + _PLOT_HIGH
    low, high = min(0.0, *chart.values), max(0.0, *chart.values)
    span, room = (high - low) or 1.0, bottom - top
    spacing = (right - left) / (len(chart.values) - 1)
    points = [(left + at * spacing, bottom - (value - low) / span * room) for at, value in enumerate(chart.values)]
    every = -(-len(points) // _LABELS)
    zero = bottom + low / span * room
    largest, smallest = chart.values.index(max(chart.values)), chart.values.index(min(chart.values))
    made = [f'<line class="axis" x1="{left}" y1="{zero:.1f}" x2="{right}" y2="{zero:.1f}"/>']
    made.append(f'<text class="value" x="{left - 10}" y="{zero + 4:.1f}" text-anchor="end">0</text>')
    for at in dict.fromkeys((largest, smallest)):
        made.append(
            f'<line class="axis" stroke-dasharray="3 4" x1="{left}" y1="{points[at][1]:.1f}" x2="{right}" y2="{points[at][1]:.1f}"/>'
        )
        made.append(f'<text class="value" x="{left - 10}" y="{points[at][1] + 4:.1f}" text-anchor="end">{_safe(chart.labels[at])}</text>')
    made.append(f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
    for at, ((x, y), name, label) in enumerate(zip(points, chart.names, chart.labels, strict=True)):
        made.append(f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{_safe(name)}: {_safe(label)}</title></circle>')
        if at % every == 0:
            made.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{_safe(name)}</text>')
    return bottom + 40, made


def _safe(text: str) -> str:
    """Escape text for XML, and drop characters that XML does not allow."""
    return escape(_NO_XML.sub("", text))
