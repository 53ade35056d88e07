"""A property graph as a picture: Mermaid text, or SVG drawn by Graphviz."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from interlock_agents.puntini.graph_store import Edge, Node

__all__ = ["as_mermaid", "as_svg"]

_COLOURS = ("#cfe8ff", "#d8f2d0", "#ffe3c2", "#f3d9f2", "#fff3b0", "#d5ecec", "#fadadd", "#e2e2f7")
_MOST_PROPERTIES = 4
_LONGEST = 40
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def as_mermaid(nodes: Sequence[Node], edges: Sequence[Edge]) -> str:
    """Write a graph as a Mermaid flowchart."""
    names = {node.ref: f"n{number}" for number, node in enumerate(nodes)}
    lines = ["flowchart LR"]
    lines += [f'    {names[node.ref]}["{_mermaid(_title(node))}"]' for node in nodes]
    for edge in edges:
        if {edge.start, edge.end} <= names.keys():
            lines.append(f'    {names[edge.start]} -->|"{_mermaid([edge.relationship])}"| {names[edge.end]}')
    return "\n".join(lines) + "\n"


def as_svg(nodes: Sequence[Node], edges: Sequence[Edge]) -> str:
    """Draw a graph."""
    import pygraphviz  # noqa: PLC0415 - only for this

    graph: Any = cast("Any", pygraphviz).AGraph(directed=True, strict=False, rankdir="LR", nodesep="0.25", ranksep="0.6", bgcolor="white")
    graph.node_attr.update(shape="box", style="rounded,filled", fontname="Helvetica", fontsize="11", color="#888888")
    graph.edge_attr.update(fontname="Helvetica", fontsize="9", color="#666666", fontcolor="#444444")
    names = {node.ref: f"n{number}" for number, node in enumerate(nodes)}
    for node in nodes:
        colour = _COLOURS[zlib.crc32(node.label.encode()) % len(_COLOURS)]
        graph.add_node(names[node.ref], label=_plain("\n".join(_title(node))), fillcolor=colour)
    for edge in edges:
        if {edge.start, edge.end} <= names.keys():
            graph.add_edge(names[edge.start], names[edge.end], label=_plain(edge.relationship))
    with _quiet():
        return cast("bytes", graph.draw(format="svg", prog="dot")).decode()


def _title(node: Node) -> list[str]:
    shown = [f"{name}: {_short(value)}" for name, value in list(node.properties.items())[:_MOST_PROPERTIES]]
    return [f"{node.label} {_cut(node.key)}", *shown]


def _short(value: Any) -> str:
    return _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def _plain(text: str) -> str:
    """Escape text for a label of Graphviz, and replace characters that XML cannot have or that reverse text."""
    return _UNSEEN.sub("\ufffd", text).replace("&", "&amp;").replace("\\", "\\\\")


def _mermaid(lines: Sequence[str]) -> str:
    """Escape text for Mermaid: every special character as a number."""
    safe = ["".join(letter if letter.isalnum() or letter in " _-.,:/" else f"#{ord(letter)};" for letter in line) for line in lines]
    return "<br>".join(safe)


@contextmanager
def _quiet() -> Generator[None]:
    """Suppress the warnings of Graphviz about fonts."""
    stderr, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)
