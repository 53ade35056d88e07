"""Architecture documents: the flowchart and the table of duties that an agent's rows are compared with.

A document is Markdown with one Mermaid flowchart and one table whose columns are node, may read, may write, may use and
must not. In the table only names in backticks are read; the rest is prose. A document of several graphs has a heading for
each graph, with its name in backticks.

A column `decides on`, a table of guards, a table of effects and blocks of claims are optional. `interlock verify` proves what they say.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from interlock.errors import DocumentInvalid

__all__ = ["Claims", "Document", "Duties", "Edge", "read_document", "read_document_file", "read_document_text", "without_proofs"]

Duties: TypeAlias = dict[str, frozenset[str]]
"""A row of the table: the names in its cells, by column."""

DUTY_COLUMNS = ("may read", "may write", "may use", "must not")
_START, _END = ("START", "__start__"), ("END", "__end__")

_FENCE = re.compile(r"^```(\w*)[^\S\n]*([^\n]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_EFFECT_COLUMNS = ("effect", "node", "argument", "comes from")
_HEADING = re.compile(r"^#+\s+(.*)$", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_ID = r"[A-Za-z_][\w.]*"
_WORDS = re.compile(r"[A-Za-z_]\w*(?:[- ]\w+)+")
_SHAPE = r"(?:\(\(\(.*?\)\)\)|\(\[.*?\]\)|\[\[.*?\]\]|\[\(.*?\)\]|\(\(.*?\)\)|\{\{.*?\}\}|\[.*?\]|\(.*?\)|\{.*?\}|>.*?\])"
_NODE = re.compile(rf"\s*({_ID})\s*{_SHAPE}?(?::::\w+)?\s*")
_ARROW = re.compile(
    r"(?:--+>|==+>|-\.+->)\s*(?:\|\s*\"?(?P<bar>[^|\"]*)\"?\s*\|)?|(?:--|==|-\.)\s*\"?(?P<text>[^-=.>\s\"].*?)\"?\s*(?:--+>|==+>|\.+->)"
)
# Front matter and comments before a chart.
_PREAMBLE = re.compile(r"\s*(?:---\n.*?\n---\s*\n\s*)?(?:%%[^\n]*\n\s*)*", re.DOTALL)
_IGNORED = re.compile(r"%%|(?:subgraph|end|classDef|class|style|linkStyle|click|direction|accTitle|accDescr)\b(?!\s*(?:--|==|-\.))")


@dataclass(frozen=True, order=True)
class Edge:
    """An edge from a node, by an outcome (empty if the document gives none), to a node or END."""

    source: str
    outcome: str
    target: str

    def __str__(self) -> str:
        return f"{self.source} -{f' {self.outcome} -' if self.outcome else ''}> {self.target}"


@dataclass(frozen=True)
class Document:
    """The contents of a document about one graph."""

    entry: frozenset[str]
    nodes: frozenset[str]
    edges: frozenset[Edge]
    duties: dict[str, Duties] = field(default_factory=dict[str, Duties])
    decisions: dict[str, frozenset[str]] | None = None
    """What each node decides on; None if the table of duties has no such column."""
    guards: frozenset[str] | None = None
    """The guards; None if there is no table of them."""
    effects: dict[tuple[str, str, str], frozenset[str]] | None = None
    """Where each argument of an effect comes from, by effect, node and argument; None if there is no table of effects."""
    claims: tuple[Claims, ...] = ()


@dataclass(frozen=True)
class Claims:
    """A block of claims: one a line, with what is `given` (`user_context.max_retries = 0..4`) if it is."""

    given: str
    lines: tuple[str, ...]


def read_document(text: str, *, graph: str) -> Document:
    """Parse the part of a document about a graph. Raises DocumentInvalid for a document that cannot be parsed."""
    part = _part(text, graph)
    bodies = [_PREAMBLE.sub("", body, count=1) for kind, _, body in _FENCE.findall(part) if kind == "mermaid"]
    charts = [body for body in bodies if re.match(r"(flowchart|graph)\b", body)]
    if len(charts) != 1:
        raise DocumentInvalid(f"For graph '{graph}' the document has {len(charts)} Mermaid flowcharts; it needs one.")
    edges, nodes = _flowchart(charts[0])
    text = _FENCE.sub("", part)
    duties, decisions = _table(text, graph)
    guards = _rows(text, ("guard",))
    effects = _rows(text, _EFFECT_COLUMNS)
    entry = frozenset(edge.target for edge in edges if edge.source in _START)
    return Document(
        entry=entry,
        nodes=frozenset(nodes - {*_START, *_END}),
        edges=frozenset(
            Edge(edge.source, edge.outcome, "END" if edge.target in _END else edge.target) for edge in edges if edge.source not in _START
        ),
        duties=duties,
        decisions=decisions,
        guards=None if guards is None else frozenset(name for row in guards for name in _CODE.findall(row["guard"])),
        effects=None if effects is None else dict(map(_effect, effects)),
        claims=tuple(
            Claims(info.removeprefix("given").strip(), tuple(line.strip() for line in body.splitlines() if line.strip()))
            for kind, info, body in _FENCE.findall(part)
            if kind == "claims"
        ),
    )


def without_proofs(text: str) -> str:
    """Return a document without its claims, guards, effects and decisions: what can be said before the bodies of the nodes are written."""
    lines: list[str] = []
    table, drop, last = "", False, False
    for line in re.sub(r"^```claims.*?^```[^\S\n]*\n?", "", text, flags=re.MULTILINE | re.DOTALL).splitlines():
        if line.strip().startswith("|"):
            if not table:
                header = [cell.lower() for cell in _cells(line)]
                table = line
                drop = header[0] == "guard" or tuple(header[: len(_EFFECT_COLUMNS)]) == _EFFECT_COLUMNS
                last = header[-1] == "decides on"
            if not drop:
                lines.append(line.rstrip().rstrip("|").rpartition("|")[0] + "|" if last else line)
        else:
            table, drop, last = "", False, False
            lines.append(line)
    return "\n".join(lines) + "\n"


def read_document_file(path: Path, *, graph: str) -> Document:
    """Read a document from a file."""
    return read_document(read_document_text(path), graph=graph)


def read_document_text(path: Path) -> str:
    """Return the text of a document. Raises DocumentInvalid where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentInvalid(f"The document '{path}' cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DocumentInvalid(f"The document '{path}' cannot be read: it is not valid UTF-8 at byte {error.start}.") from error


def _part(text: str, graph: str) -> str:
    """Return the section whose heading names the graph, or the whole document."""
    headings = list(_HEADING.finditer(_FENCE.sub(lambda fence: " " * len(fence[0]), text)))
    for index, heading in enumerate(headings):
        if f"`{graph}`" in heading[1]:
            level = len(heading[0]) - len(heading[0].lstrip("#"))
            later = (other for other in headings[index + 1 :] if len(other[0]) - len(other[0].lstrip("#")) <= level)
            end = next(later, None)
            return text[heading.start() : end.start() if end else len(text)]
    return text


def _flowchart(chart: str) -> tuple[list[Edge], set[str]]:
    """Parse the edges and nodes of a Mermaid flowchart."""
    edges: list[Edge] = []
    nodes: set[str] = set()
    for line in _statements(chart)[1:]:
        if line and not _IGNORED.match(line):
            _statement(line, edges, nodes)
    return edges, nodes


def _statements(chart: str) -> list[str]:
    """Split a chart into statements at line ends, and at semicolons outside of quotes and shapes."""
    statements, depth, quoted = [""], 0, False
    for character in chart.strip():
        quoted ^= character == '"'
        depth += (character in "[({") - (character in "])}")
        if character == "\n" or (character == ";" and depth <= 0 and not quoted):
            statements.append("")
            depth, quoted = 0, False
        else:
            statements[-1] += character
    return [statement.strip() for statement in statements]


def _statement(line: str, edges: list[Edge], nodes: set[str]) -> None:
    """Parse one statement: `a`, `a --> b`, `a -->|x| b & c`, `a -- x --> b --> c`."""
    sources, at = _group(line, 0)
    nodes.update(sources)
    while at < len(line):
        arrow = _ARROW.match(line, at)
        if arrow is None:
            raise DocumentInvalid(f"The flowchart line '{line}' cannot be read at '{line[at:]}'.{_name_hint(line, at)}")
        targets, at = _group(line, arrow.end())
        nodes.update(targets)
        label = (arrow["bar"] or arrow["text"] or "").strip()
        edges += [Edge(source, label, target) for source in sources for target in targets]
        sources = targets


def _name_hint(line: str, at: int) -> str:
    """Explain an error inside a word with hyphens or blanks, which was probably meant as the name of a node."""
    meant = next((found[0] for found in _WORDS.finditer(line) if found.start() < at < found.end()), None)
    if meant is None:
        return ""
    return f" The name of a node is a Python name. Fix: write '{re.sub(r'[- ]', '_', meant)}' instead of '{meant}'."


def _group(line: str, at: int) -> tuple[list[str], int]:
    names: list[str] = []
    while True:
        found = _NODE.match(line, at)
        if found is None:
            raise DocumentInvalid(f"The flowchart line '{line}' has no node at '{line[at:]}'.")
        names.append(found[1])
        at = found.end()
        if line[at : at + 1] != "&":
            return names, at
        at += 1


def _rows(text: str, columns: tuple[str, ...]) -> list[dict[str, str]] | None:
    """Return the rows of the table whose first columns are these, each by column; None if there is no such table."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        header = [cell.lower() for cell in _cells(line)]
        if line.strip().startswith("|") and tuple(header[: len(columns)]) == columns:
            table = itertools.takewhile(lambda following: following.strip().startswith("|"), lines[index + 2 :])
            rows = [_cells(row) for row in table]
            for row in rows:
                if len(row) != len(header):
                    raise DocumentInvalid(f"The line '{' | '.join(row)}' of the table needs {len(header)} cells.")
            return [dict(zip(header, row, strict=True)) for row in rows]
    return None


def _effect(row: dict[str, str]) -> tuple[tuple[str, str, str], frozenset[str]]:
    names = [_CODE.findall(row[column]) for column in _EFFECT_COLUMNS]
    if any(len(cell) != 1 for cell in names[:3]):
        raise DocumentInvalid(
            f"The line '{' | '.join(row.values())}' of the table needs one effect, one node and one argument in backticks."
        )
    (effect,), (node,), (argument,), sources = names
    return (effect, node, argument), frozenset(sources)


def _table(text: str, graph: str) -> tuple[dict[str, Duties], dict[str, frozenset[str]] | None]:
    """Parse the table of duties, and its column of decisions."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        header = [cell.lower() for cell in _cells(line)]
        if header[0] == "node" and set(DUTY_COLUMNS) <= set(header):
            table = itertools.takewhile(lambda following: following.strip().startswith("|"), lines[index + 2 :])
            rows = [_cells(row) for row in table]
            duties = _duties(header, rows)
            if "decides on" not in header:
                return duties, None
            column = header.index("decides on")
            return duties, {_CODE.findall(row[0])[0]: frozenset(_CODE.findall(row[column])) for row in rows}
    raise DocumentInvalid(f"For graph '{graph}' the document has no table with the columns node, {', '.join(DUTY_COLUMNS)}.")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _duties(header: list[str], rows: list[list[str]]) -> dict[str, Duties]:
    duties: dict[str, Duties] = {}
    for row in rows:
        names = _CODE.findall(row[0])
        if len(row) != len(header) or len(names) != 1:
            raise DocumentInvalid(f"The line '{' | '.join(row)}' of the table needs {len(header)} cells and one node in backticks.")
        if names[0] in duties:
            raise DocumentInvalid(f"The table has two lines for node '{names[0]}'.")
        duties[names[0]] = {column: frozenset(_CODE.findall(row[header.index(column)])) for column in DUTY_COLUMNS}
    return duties
