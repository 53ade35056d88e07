"""Draws graphs as SVG with Graphviz. The output depends only on the rows, not on fonts, time or version."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, cast

from interlock.capabilities.capability import marks_of, methods
from interlock.contract import Graph
from interlock.contract.node import Node
from interlock.extras import require

__all__ = ["draw"]

_KINDS = {
    "model": "calls a model",
    "tool": "runs tools",
    "graph": "runs a subgraph",
    "other": "uses other capabilities",
    "none": "reads and writes fields only",
}
"""The colour classes of nodes with their legend. A node gets the first class that applies."""

_STYLE = """
text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; }
.card { fill: #ffffff; stroke: #d0d7de; }
.name { font-size: 13px; text-anchor: middle; }
.uses, .goes, .word { font-size: 11px; fill: #57606a; }
.uses, .goes { text-anchor: middle; }
.goes { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round; }
.title { font-size: 15px; font-weight: bold; }
.edge { fill: none; stroke: #8c959f; stroke-width: 1.4; }
.head, .end { fill: #8c959f; stroke: none; }
.ring { fill: none; stroke: #8c959f; stroke-width: 1.4; }
.node { stroke-width: 1.4; }
.model { fill: #ddf4ff; stroke: #0969da; }
.tool { fill: #fff1d6; stroke: #bc6c00; }
.graph { fill: #f3e8ff; stroke: #8250df; }
.other { fill: #dafbe1; stroke: #1a7f37; }
.none { fill: #f6f8fa; stroke: #8c959f; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .card { fill: #0d1117; stroke: #30363d; }
  .uses, .goes, .word { fill: #9da7b3; }
  .goes { stroke: #0d1117; }
  .model { fill: #0c2d4f; stroke: #58a6ff; }
  .tool { fill: #40290a; stroke: #d29922; }
  .graph { fill: #2e1f4d; stroke: #a371f7; }
  .other { fill: #0f3019; stroke: #3fb950; }
  .none { fill: #1c2128; stroke: #6e7681; }
}
""".strip()

_TITLE_LETTER, _LETTER, _SMALL = 9.1, 7.9, 6.7
"""Largest width of a letter: in a title, in a name, in other text."""
_MARGIN, _GAP, _TITLE, _LEGEND, _LINE = 24, 32, 30, 34, 15
_MAX_WIDTH = 960
_DOT = 14


def draw(graphs: Sequence[Graph], *, behind: Collection[type] = ()) -> str:
    """Draw graphs side by side, in rows, as one SVG. `behind` are the capabilities that a graph implements."""
    drawings = [_lay_out(graph, behind) for graph in graphs]
    legend_width, legend = _legend([kind for kind in _KINDS if any(box.kind == kind for drawing in drawings for box in drawing.boxes)])
    rows = _rows(drawings)
    width = max([_width_of(row) for row in rows] + [legend_width]) + 2 * _MARGIN
    top, parts = _MARGIN, list[str]()
    for row in rows:
        left = _MARGIN
        spare = (width - 2 * _MARGIN - _width_of(row)) // len(row)
        for drawing in row:
            parts += [f'<text class="title" x="{left}" y="{top + 8}">{escape(drawing.name)}</text>']
            parts += [f'<g transform="translate({left + spare // 2 + drawing.inset} {top + _TITLE})">', *drawing.parts(), "</g>"]
            left += drawing.room + spare + _GAP
        top += max(drawing.height for drawing in row) + _TITLE + _MARGIN
    parts += [f'<g transform="translate({_MARGIN} {top})">', *legend, "</g>"]
    height = top + _LEGEND
    names = escape(", ".join(graph.name for graph in graphs))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
            f"<title>{names}: nodes, and the outcomes that lead from one to another</title>",
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"/>',
            *parts,
            "</svg>\n",
        ]
    )


@dataclass(frozen=True)
class _Box:
    """A node: its centre, its size and its text."""

    name: str
    uses: str
    kind: str
    width: int
    height: int
    x: int = 0
    y: int = 0

    def parts(self) -> Iterator[str]:
        yield (
            f'<rect class="node {self.kind}" x="{self.x - self.width // 2}" y="{self.y - self.height // 2}" '
            f'width="{self.width}" height="{self.height}" rx="7"/>'
        )
        first = self.y - 4 if self.uses else self.y + 4
        yield f'<text class="name" x="{self.x}" y="{first}">{escape(self.name)}</text>'
        if self.uses:
            yield f'<text class="uses" x="{self.x}" y="{self.y + 13}">{escape(self.uses)}</text>'


@dataclass(frozen=True)
class _Arrow:
    """An edge: its curve, its tip, and its outcomes with their position."""

    curve: Sequence[tuple[int, int]]
    tip: tuple[int, int]
    outcomes: Sequence[str]
    label: tuple[int, int]

    def parts(self) -> Iterator[str]:
        (x, y), *rest = self.curve
        yield f'<path class="edge" d="M{x} {y}C{" ".join(f"{a} {b}" for a, b in rest)}"/>'
        yield _head(self.curve[-1], self.tip)

    def words(self) -> Iterator[str]:
        x, y = self.label
        first = y + 4 - (len(self.outcomes) - 1) * _LINE // 2
        for number, outcome in enumerate(self.outcomes):
            yield f'<text class="goes" x="{x}" y="{first + number * _LINE}">{escape(outcome)}</text>'


@dataclass
class _Drawing:
    """A laid out graph."""

    name: str
    width: int
    height: int
    boxes: list[_Box] = field(default_factory=list[_Box])
    arrows: list[_Arrow] = field(default_factory=list[_Arrow])
    start: tuple[int, int] = (0, 0)
    end: tuple[int, int] | None = None

    @property
    def room(self) -> int:
        """The width including the title."""
        return max(self.width, round(len(self.name) * _TITLE_LETTER))

    @property
    def inset(self) -> int:
        return (self.room - self.width) // 2

    def parts(self) -> Iterator[str]:
        for arrow in self.arrows:
            yield from arrow.parts()
        for box in self.boxes:
            yield from box.parts()
        yield _circle(self.start, _DOT // 2, "end")
        if self.end is not None:
            yield _circle(self.end, _DOT // 2, "ring")
            yield _circle(self.end, _DOT // 4 + 1, "end")
        for arrow in self.arrows:
            yield from arrow.words()


def _rows(drawings: Sequence[_Drawing]) -> list[list[_Drawing]]:
    """Arrange drawings in rows, in their order, up to the maximum width."""
    rows: list[list[_Drawing]] = []
    for drawing in drawings:
        if rows and _width_of([*rows[-1], drawing]) <= _MAX_WIDTH:
            rows[-1].append(drawing)
        else:
            rows.append([drawing])
    return rows


def _width_of(row: Sequence[_Drawing]) -> int:
    return sum(drawing.room for drawing in row) + _GAP * (len(row) - 1)


def _legend(kinds: Sequence[str]) -> tuple[int, list[str]]:
    """Return the width and the parts of the legend of the colours."""
    parts, x = list[str](), 0
    for kind in kinds:
        words = _KINDS[kind]
        parts.append(f'<rect class="node {kind}" x="{x}" y="0" width="14" height="14" rx="3"/>')
        parts.append(f'<text class="word" x="{x + 20}" y="11">{words}</text>')
        x += 20 + round(len(words) * _SMALL) + 22
    return x, parts


def _lay_out(graph: Graph, behind: Collection[type]) -> _Drawing:
    """Lay out boxes and labels of fixed sizes with Graphviz, so that the installed fonts have no effect."""
    require("pygraphviz", extra="svg", what="Graphviz, which places the nodes of a picture,")
    import pygraphviz  # noqa: PLC0415 - only for this

    boxes = {node.name: _box(node, behind) for node in graph.nodes.values()}
    laid: Any = cast("Any", pygraphviz).AGraph(directed=True, strict=False, rankdir="TB", nodesep="0.45", ranksep="0.38")
    laid.node_attr.update(shape="box", fixedsize="true", label="")
    laid.add_node("start", shape="circle", **_size(_DOT, _DOT))
    names = {name: f"node{number}" for number, name in enumerate(boxes)}
    for name, box in boxes.items():
        laid.add_node(names[name], **_size(box.width, box.height))
    grouped = _grouped_edges(graph)
    if any(target is None for _, target in grouped):
        laid.add_node("end", shape="circle", **_size(_DOT, _DOT))
    laid.add_edge("start", names[graph.entry], key="start")
    for number, ((source, target), outcomes) in enumerate(grouped.items()):
        laid.add_edge(names[source], names[target] if target is not None else "end", key=f"way{number}", label=_room(outcomes))
    laid.layout(prog="dot")

    _, _, width, height = _numbers(laid.graph_attr["bb"])

    def place(written: str) -> tuple[int, int]:
        """Convert Graphviz coordinates, whose origin is at the bottom, to SVG coordinates in whole points."""
        x, y = _numbers(written)
        return round(x), round(height - y)

    drawing = _Drawing(graph.name, round(width), round(height))
    drawing.start = place(laid.get_node("start").attr["pos"])
    if laid.has_node("end"):
        drawing.end = place(laid.get_node("end").attr["pos"])
    for name, box in boxes.items():
        x, y = place(laid.get_node(names[name]).attr["pos"])
        drawing.boxes.append(_Box(box.name, box.uses, box.kind, box.width, box.height, x, y))
    drawing.arrows.append(_arrow(laid.get_edge("start", names[graph.entry], "start"), (), place))
    for number, ((source, target), outcomes) in enumerate(grouped.items()):
        edge = laid.get_edge(names[source], names[target] if target is not None else "end", f"way{number}")
        drawing.arrows.append(_arrow(edge, outcomes, place))
    return drawing


def _grouped_edges(graph: Graph) -> dict[tuple[str, str | None], list[str]]:
    """Group the outcomes by source and target."""
    grouped: dict[tuple[str, str | None], list[str]] = {}
    for source, outcome, target in graph.edges:
        grouped.setdefault((source, target), []).append(outcome)
    return grouped


def _box(node: Node, behind: Collection[type]) -> _Box:
    capabilities = [grant.capability for grant in node.grants]
    uses = ", ".join(grant.name for grant in node.grants)
    found = {_kind(capability, behind) for capability in capabilities} or {"none"}
    kind = next(kind for kind in _KINDS if kind in found)
    width = round(max(len(node.name) * _LETTER, len(uses) * _SMALL)) + 26
    return _Box(node.name, uses, kind, width + width % 2, 46 if uses else 34)


def _kind(capability: type, behind: Collection[type]) -> str:
    kinds = {marks_of(method).event for method in methods(capability).values()}
    if "chat_model" in kinds:
        return "model"
    if "tool" in kinds:
        return "tool"
    return "graph" if capability in behind else "other"


def _arrow(edge: Any, outcomes: Sequence[str], place: Callable[[str], tuple[int, int]]) -> _Arrow:
    written = str(edge.attr["pos"]).replace("\\\n", "").split()
    tip = place(written[0].removeprefix("e,"))
    curve = [place(point) for point in written[1:]]
    return _Arrow(curve, tip, outcomes, place(edge.attr["lp"]) if outcomes else tip)


def _size(width: int, height: int) -> dict[str, str]:
    return {"width": f"{width / 72:.4f}", "height": f"{height / 72:.4f}"}


def _room(outcomes: Sequence[str]) -> str:
    """Return an empty label of the size of these lines: a table without text."""
    width = round(max(map(len, outcomes)) * _SMALL) + 10
    size = f'fixedsize="true" width="{width}" height="{len(outcomes) * _LINE}"'
    return f'<<table border="0" cellborder="0" cellspacing="0" cellpadding="0" {size}><tr><td {size}></td></tr></table>>'


def _numbers(written: str) -> list[float]:
    return [float(number) for number in written.replace(",", " ").split()]


def _circle(at: tuple[int, int], radius: int, kind: str) -> str:
    return f'<circle class="{kind}" cx="{at[0]}" cy="{at[1]}" r="{radius}"/>'


def _head(base: tuple[int, int], tip: tuple[int, int]) -> str:
    """Draw the head of an arrow."""
    along = (tip[0] - base[0], tip[1] - base[1])
    across = (round(along[1] * 0.42), round(-along[0] * 0.42))
    points = (tip, (base[0] + across[0], base[1] + across[1]), (base[0] - across[0], base[1] - across[1]))
    return f'<polygon class="head" points="{" ".join(f"{x},{y}" for x, y in points)}"/>'
