"""Charts of a result with one grouping: bars, or a line if the grouping is time; as text for a terminal and as SVG."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any, Literal, cast

from pydantic import JsonValue

from interlock_agents.analyst.tables import heading, kind_of, written
from interlock_agents.analyst.vocabulary import PATTERNS

__all__ = ["Chart", "ChartKind", "chart_of", "chart_wanted", "svg_of", "text_of", "without_chart"]

ChartKind = Literal["bars", "line"]

_TIME = re.compile(r"\d{4}(?:-(?:\d\d(?:-\d\d)?|Q[1-4]|W\d\d))?")
_NO_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")
_MIN_ROWS, _MAX_ROWS = 2, 60
# Columns and lines of a chart in a terminal.
_NAME_WIDTH, _BAR_WIDTH, _LINE_HEIGHT = 24, 34, 9


@dataclass(frozen=True)
class Chart:
    """One value for each name."""

    kind: ChartKind
    group: str
    figure: str
    names: tuple[str, ...]
    values: tuple[float, ...]
    labels: tuple[str, ...]
    """The values as in a table."""
    omitted: int = 0

    @property
    def title(self) -> str:
        return f"{self.figure} by {self.group}"

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest point of the scale, which includes zero."""
        return min(0.0, *self.values), max(0.0, *self.values)


def chart_wanted(question: str) -> ChartKind | Literal["any"] | None:
    """Return the kind of chart that a question asks for, or None."""
    found = PATTERNS["chart"].search(_one_line(question))
    if found is None:
        return None
    how = (found["kind"] or found["as"] or found["shape"] or found["of"] or "").lower()
    return "line" if how.startswith("line") else "bars" if how.startswith("bar") else "any"


def without_chart(question: str) -> str:
    """Remove the words that ask for a chart."""
    return _one_line(PATTERNS["chart"].sub(" ", _one_line(question)))


def _one_line(text: str) -> str:
    """Collapse white space: the pattern takes quadratic time on long runs of it."""
    return " ".join(text.split())


def chart_of(result: JsonValue, wanted: ChartKind | Literal["any"] = "any") -> Chart | None:
    """Build a chart from a table. Return None unless it has one grouping, at least two rows and only numbers as values."""
    match result:
        case {"columns": [str(group), str(figure), *others], "rows": [*found]} if len(found) >= _MIN_ROWS:
            rows = cast("list[list[Any]]", found)
        case _:
            return None
    names, values = [row[0] for row in rows], [row[1] if len(row) > 1 else None for row in rows]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in values) or len(set(map(str, names))) < len(names):
        return None
    if any(name != "share_percent" for name in others):
        return None
    grouped, kind = kind_of(group, names), kind_of(figure, values)
    is_time = all(_TIME.fullmatch(str(name)) for name in names) and grouped != "identifier"
    shown = slice(None) if is_time else slice(_MAX_ROWS)
    return Chart(
        kind=wanted if wanted != "any" else "line" if is_time else "bars",
        group=heading(group),
        figure=heading(figure),
        names=tuple(written(name, grouped) for name in names)[shown],
        values=tuple(float(cast("float", one)) for one in values)[shown],
        labels=tuple(written(one, kind, figure) for one in values)[shown],
        omitted=0 if is_time else max(0, len(names) - _MAX_ROWS),
    )


def text_of(chart: Chart) -> str:
    """Draw a chart with characters, at most about seventy columns wide."""
    if chart.kind == "line" and len(chart.values) <= _MAX_ROWS:
        return "\n".join([chart.title, *_text_line(chart)])
    more = chart.omitted + max(0, len(chart.values) - _MAX_ROWS)
    return "\n".join([chart.title, *_text_bars(chart), *([f"... and {more:,} more"] if more else [])])


def _text_bars(chart: Chart) -> list[str]:
    width = min(_NAME_WIDTH, max(map(len, chart.names)))
    largest = max(map(abs, chart.values)) or 1.0
    lines: list[str] = []
    for name, value, label in list(zip(chart.names, chart.values, chart.labels, strict=True))[:_MAX_ROWS]:
        eighths = round(abs(value) / largest * _BAR_WIDTH * 8)
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        lines.append(f"{_short(name, width):<{width}}  {'-' if value < 0 else ''}{bar} {label}")
    return lines


def _short(name: str, width: int) -> str:
    return name if len(name) <= width else f"{name[: width - 1]}…"


def _text_line(chart: Chart) -> list[str]:
    """Draw a point for each value, with the largest at the top, and zero or the smallest negative value at the bottom."""
    low, high = chart.range
    step = max(1, min(5, 60 // len(chart.values)))
    rows = [[" "] * (step * len(chart.values)) for _ in range(_LINE_HEIGHT)]
    heights = [round((value - low) / ((high - low) or 1.0) * (_LINE_HEIGHT - 1)) for value in chart.values]
    for at, height in enumerate(heights):
        rows[_LINE_HEIGHT - 1 - height][at * step] = "●"
    for at, (one, after) in enumerate(pairwise(heights)):
        for height in range(min(one, after) + 1, max(one, after)):
            rows[_LINE_HEIGHT - 1 - height][at * step + step // 2] = "·"
    marks = {"0" if value == 0 else chart.labels[chart.values.index(value)]: at for value, at in ((low, _LINE_HEIGHT - 1), (high, 0))}
    width = max(map(len, marks))
    scale = {at: mark for mark, at in marks.items()}
    lines = [f"{scale.get(at, ''):>{width}} ┤{''.join(row)}".rstrip() for at, row in enumerate(rows)]
    between = max(1, step * (len(chart.values) - 1) + 1 - len(chart.names[0]) - len(chart.names[-1]))
    return [*lines, f"{'':>{width}}  {chart.names[0]}{' ' * between}{chart.names[-1]}"]


_STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 12px; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.value { fill: #57606a; }
.bar, .point { fill: #4269d0; }
.line { fill: none; stroke: #4269d0; stroke-width: 2; }
.axis { stroke: #d0d7de; stroke-width: 1; }
"""
_WIDTH, _MARGIN, _ROW_HEIGHT, _PLOT_HEIGHT = 760, 24, 26, 300
_MAX_LABELS = 12
# The width of a character, estimated for the layout.
_CHARACTER = 7


def svg_of(chart: Chart, title: str = "") -> str:
    """Draw a chart as a self-contained SVG, without scripts, external fonts or external styles."""
    height, drawn = _svg_line(chart) if chart.kind == "line" else _svg_bars(chart)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{_safe(title or chart.title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(_MARGIN, 32, title or chart.title, 'class="title"'),
        _text(_WIDTH - _MARGIN, 32, chart.figure, 'class="value" text-anchor="end"'),
        *drawn,
        *([_text(_MARGIN, height - 10, f"and {chart.omitted:,} more", 'class="value"')] if chart.omitted else []),
    ]
    return "\n".join([*lines, "</svg>\n"])


def _svg_bars(chart: Chart) -> tuple[int, list[str]]:
    names = [_short(name, _NAME_WIDTH + 10) for name in chart.names]
    left = _MARGIN + 12 + _CHARACTER * max(map(len, names))
    low, high = chart.range
    scale = (_WIDTH - _MARGIN - 8 - _CHARACTER * max(map(len, chart.labels)) - left) / ((high - low) or 1.0)
    zero = left - low * scale
    made: list[str] = []
    for at, (name, value, label) in enumerate(zip(names, chart.values, chart.labels, strict=True)):
        middle, start, width = 60 + at * _ROW_HEIGHT, zero + min(0.0, value) * scale, abs(value) * scale
        made += [
            _text(left - 10, middle + 4, name, 'text-anchor="end"'),
            f'<rect class="bar" x="{start:.1f}" y="{middle - 8}" width="{width:.1f}" height="16"/>',
            _text(start + width + 6, middle + 4, label, 'class="value"'),
        ]
    bottom = 60 + len(names) * _ROW_HEIGHT
    made.append(_axis(zero, 46, zero, bottom - 12))
    return bottom + (_MARGIN if chart.omitted else 4), made


def _svg_line(chart: Chart) -> tuple[int, list[str]]:
    left, right = _MARGIN + 12 + _CHARACTER * max(map(len, chart.labels)), _WIDTH - _MARGIN - 20
    bottom = 56 + _PLOT_HEIGHT
    low, high = chart.range
    scale, spacing = _PLOT_HEIGHT / ((high - low) or 1.0), (right - left) / (len(chart.values) - 1)
    points = [(left + at * spacing, bottom - (value - low) * scale) for at, value in enumerate(chart.values)]
    extremes = (chart.values.index(max(chart.values)), chart.values.index(min(chart.values)))
    marks = {bottom + low * scale: "0"} | {points[at][1]: chart.labels[at] for at in extremes}
    made: list[str] = []
    for height, label in marks.items():
        made += [_axis(left, height, right, height), _text(left - 10, height + 4, label, 'class="value" text-anchor="end"')]
    made.append(f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>')
    every = -(-len(points) // _MAX_LABELS)
    for at, ((x, y), name, label) in enumerate(zip(points, chart.names, chart.labels, strict=True)):
        made.append(f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{_safe(name)}: {_safe(label)}</title></circle>')
        if at % every == 0:
            made.append(_text(x, bottom + 20, name, 'text-anchor="middle"'))
    return bottom + 40, made


def _text(x: float, y: float, text: str, attributes: str) -> str:
    return f'<text {attributes} x="{x:.1f}" y="{y:.1f}">{_safe(text)}</text>'


def _axis(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="axis" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _safe(text: str) -> str:
    """Escape text for XML, and drop characters that XML does not allow."""
    return escape(_NO_XML.sub("", text))
