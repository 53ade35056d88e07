"""The graph that an architecture document describes: what a generated agent is made of.

A document says which fields a node may write, not which of its outcomes writes them, and it gives no types. Where it leaves a
choice, this takes the one with which the rows build and agree with the document.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import interlock.capabilities as library
from interlock.capabilities.capability import is_capability, methods
from interlock.contract.dataflow import distances
from interlock.contract.document import DUTY_COLUMNS, Document, Duties, Edge, read_document, read_document_text
from interlock.errors import DocumentInvalid
from interlock.providers.library import LIBRARY
from interlock.spelling import closest

__all__ = ["Blueprint", "BlueprintNode", "library_methods", "read_blueprint", "similar_capabilities"]

_READ, _WRITE, _USE, _MUST_NOT = DUTY_COLUMNS
_BRANCH = "branch"
_CHART = re.compile(r"^```mermaid", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")
_TAKEN = {"Agent", "Annotated", "Any", "Capability", "END", "Graph", "Outcome", "Present", "Protocol", "Provider", "State", "Untrusted"}
"""Names that the generated files import or define themselves."""


@dataclass(frozen=True, kw_only=True)
class BlueprintNode:
    """A node: its contract, and its duties in the words of the document."""

    name: str
    reads: tuple[str, ...]
    """The fields whose value the node reads."""
    present: tuple[str, ...]
    """The fields of which the node reads only whether they have a value."""
    uses: tuple[str, ...]
    goes: dict[str, str]
    """The outcomes with their targets."""
    duty: str


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """A graph: everything that is needed to write an agent with it."""

    graph: str
    entry: str
    nodes: tuple[BlueprintNode, ...]
    outcomes: dict[str, tuple[str, ...]]
    """The outcomes with the fields that they write."""
    fields: tuple[str, ...]
    takes: tuple[str, ...]
    optional: frozenset[str]
    """The fields that some path reads before a node has written them."""
    gives: str | None
    forbids: tuple[str, ...]
    text: str = field(repr=False)
    """The document, with everything that follows from it in its last column."""
    added: tuple[str, ...] = ()
    """What the last column of the document lacked, a sentence for each node."""

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Every capability that a node uses or the graph forbids."""
        return tuple(dict.fromkeys([*(name for node in self.nodes for name in node.uses), *self.forbids]))

    @property
    def own(self) -> tuple[str, ...]:
        """The capabilities that the library does not have."""
        return tuple(name for name in self.capabilities if _library_capability(name) is None)

    @property
    def unprovided(self) -> tuple[str, ...]:
        """The capabilities that a node uses and for which the library has no adapter."""
        used = dict.fromkeys(name for node in self.nodes for name in node.uses)
        return tuple(name for name in used if not _is_provided(name))


def read_blueprint(path: Path, *, graph: str) -> Blueprint:
    """Read the document of a graph. Raises DocumentInvalid if no rows can agree with it, with every reason."""
    text = read_document_text(path)
    if len(_CHART.findall(text)) > 1 and f"`{graph}`" not in text:
        raise DocumentInvalid(f"'{path.name}' has several flowcharts. Fix: name the graph by '--graph', as the heading of its part does.")
    document = read_document(text, graph=graph)
    problems = [*_shape_problems(document), *_name_problems(document)]
    _stop(path, problems)
    made = _blueprint(document, text, graph)
    _stop(path, [*_write_problems(made, document), *_prohibition_problems(made, document)])
    missing = {node.name: _in_order(_prohibitions(made, node) - document.duties[node.name][_MUST_NOT], text) for node in made.nodes}
    missing = {name: what for name, what in missing.items() if what}
    completed = _with_prohibitions(text, document, missing)
    if read_document(completed, graph=graph) != read_document(text, graph=graph):
        made = _blueprint(read_document(completed, graph=graph), completed, graph)
    return replace(made, added=tuple(f"`{name}`: {', '.join(f'`{one}`' for one in what)}" for name, what in missing.items()))


def _stop(path: Path, problems: Iterable[str]) -> None:
    found = list(problems)
    if found:
        raise DocumentInvalid("\n  ".join([f"No rows can agree with '{path.name}':", *(f"{one}." for one in found)]))


def _shape_problems(document: Document) -> Iterator[str]:
    if len(document.entry) != 1:
        yield f"START leads to {len(document.entry)} nodes, and has to lead to one"
    for name in sorted(document.nodes - document.duties.keys()):
        yield f"node '{name}' of the flowchart has no line in the table"
    for name in sorted(document.duties.keys() - document.nodes):
        yield f"node '{name}' of the table is not in the flowchart"
    forward = {name: {edge.target for edge in document.edges if edge.source == name} for name in {*document.nodes, "END"}}
    backward = {name: {edge.source for edge in document.edges if edge.target == name} for name in forward}
    for name in sorted(document.nodes - distances(forward, [*document.entry]).keys()):
        yield f"no path leads from START to node '{name}'"
    for name in sorted(document.nodes - distances(backward, ["END"]).keys()):
        yield f"no path leads from node '{name}' to END"


def _name_problems(document: Document) -> Iterator[str]:
    fields = {name.removesuffix("?") for duties in document.duties.values() for name in (*duties[_READ], *duties[_WRITE])}
    outcomes = {edge.outcome for edge in document.edges if edge.outcome}
    capabilities = {name for duties in document.duties.values() for name in (*duties[_USE], *duties[_MUST_NOT])} - {_BRANCH}
    for what, names in (("node", document.nodes), ("field", fields), ("outcome", outcomes), ("capability", capabilities)):
        for name in sorted(names):
            if not name.isidentifier() or keyword.iskeyword(name):
                yield f"'{name}' is not a Python name, so it cannot be the name of a {what}"
    for name in sorted(document.nodes & fields):
        yield f"'{name}' is the name of a node and of a field"
    for name in sorted(outcomes & capabilities):
        yield f"'{name}' is the name of an outcome and of a capability"
    for name in sorted((outcomes | capabilities) & _TAKEN):
        yield f"'{name}' is a name of Interlock or Python; use another one"


def _blueprint(document: Document, text: str, graph: str) -> Blueprint:
    names = [*document.duties]
    goes = {name: _goes(document, text, name) for name in names}
    writes = {name: document.duties[name][_WRITE] for name in names}
    returning = {outcome: [name for name in names if outcome in goes[name]] for name in names for outcome in goes[name]}
    outcomes = {outcome: _in_order(written, text) for outcome, written in _written(returning, goes, writes).items()}
    nodes = tuple(_node(name, document.duties[name], goes[name], text) for name in names)
    fields = _in_order(
        {one for node in nodes for one in (*node.reads, *node.present)} | {one for all_ in writes.values() for one in all_}, text
    )
    [entry] = document.entry
    written = {one for fields_ in outcomes.values() for one in fields_}
    inputs = {one for node in nodes for one in node.reads if node.name == entry or one not in written}
    used = {name for node in nodes for name in node.uses}
    forbidden = {name for duties in document.duties.values() for name in duties[_MUST_NOT]} - used - {_BRANCH}
    final = [frozenset(outcomes[outcome]) for node in nodes for outcome, target in node.goes.items() if target == "END"]
    results = _in_order(frozenset[str].intersection(*final) if final else frozenset[str](), text)
    return Blueprint(
        graph=graph,
        entry=entry,
        nodes=nodes,
        outcomes=outcomes,
        fields=fields,
        takes=_in_order(inputs, text),
        optional=frozenset(_read_unwritten(nodes, entry, outcomes)) - inputs,
        gives=results[-1] if results else None,
        forbids=_in_order(forbidden, text),
        text=text,
    )


def _written(
    returning: Mapping[str, Sequence[str]], goes: Mapping[str, Mapping[str, str]], writes: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Divide the fields that nodes may write among their outcomes.

    The most that an outcome can write is what every node that returns it may write. A field that each of these nodes can also
    write by an outcome with fewer fields is left to that one.
    """
    most = {outcome: frozenset[str].intersection(*(writes[name] for name in nodes)) for outcome, nodes in returning.items()}

    def is_left(field: str, outcome: str) -> bool:
        return all(any(field in most[one] and len(most[one]) < len(most[outcome]) for one in goes[name]) for name in returning[outcome])

    return {outcome: frozenset(one for one in fields if not is_left(one, outcome)) for outcome, fields in most.items()}


def _node(name: str, duties: Duties, goes: dict[str, str], text: str) -> BlueprintNode:
    read = duties[_READ]
    return BlueprintNode(
        name=name,
        reads=_in_order((one for one in read if not one.endswith("?")), text),
        present=_in_order((one.removesuffix("?") for one in read if one.endswith("?")), text),
        uses=_in_order(duties[_USE], text),
        goes=goes,
        duty=_duty(name, duties, text),
    )


def _goes(document: Document, text: str, name: str) -> dict[str, str]:
    """Return the outcomes of a node with their targets, in the order of the text. An arrow without a label gets a name."""
    edges = [edge for edge in document.edges if edge.source == name]
    # Where a labelled and an unlabelled arrow have the same target, the label is enough.
    labelled = {edge.target for edge in edges if edge.outcome}
    found: dict[str, str] = {}
    lines = text.splitlines()

    def position(edge: Edge) -> tuple[int, str]:
        drawn = (number for number, line in enumerate(lines) if name in line and edge.outcome in line and "--" in line)
        return next(drawn, len(lines)), edge.target

    for edge in sorted(edges, key=position):
        if edge.outcome:
            found[edge.outcome] = edge.target
        elif edge.target not in labelled:
            found["".join(map(str.title, f"{name}_to_{edge.target}".lower().split("_")))] = edge.target
    return found


def _duty(name: str, duties: Duties, text: str) -> str:
    """Return the line of the table about a node as a sentence. A document of several graphs may have several nodes of a name."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == f"`{name}`" and [frozenset(_CODE.findall(cell)) for cell in cells[1:]] == [duties[one] for one in DUTY_COLUMNS]:
            said = zip(DUTY_COLUMNS, cells[1:], strict=True)
            return "; ".join(f"{column}: {cell.replace('`', '')}" for column, cell in said) + "."
    return "; ".join(f"{column}: {', '.join(sorted(duties[column])) or 'nothing'}" for column in DUTY_COLUMNS) + "."


def _read_unwritten(nodes: Iterable[BlueprintNode], entry: str, outcomes: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the fields that some path from the entry reads before an outcome has written them."""
    known = {node.name: node for node in nodes}
    for one in {one for node in known.values() for one in node.reads}:
        reached = [entry]
        for name in reached:
            if one in known[name].reads:
                yield one
                break
            goes = known[name].goes.items()
            reached += [target for outcome, target in goes if target != "END" and one not in outcomes[outcome] and target not in reached]


def _write_problems(made: Blueprint, document: Document) -> Iterator[str]:
    for node in made.nodes:
        written = {one for outcome in node.goes for one in made.outcomes[outcome]}
        for one in sorted(document.duties[node.name][_WRITE] - written):
            yield (
                f"node '{node.name}' may write '{one}', but all of its outcomes are also returned by nodes that may not."
                " Give the node an outcome of its own"
            )


def _prohibition_problems(made: Blueprint, document: Document) -> Iterator[str]:
    """Find prohibitions that contradict the rest of the document."""
    for node in made.nodes:
        for name in sorted(document.duties[node.name][_MUST_NOT] - _prohibitions(made, node)):
            yield f"node '{node.name}' has `{name}` under '{_MUST_NOT}', and may do it by the rest of the document"


def _prohibitions(made: Blueprint, node: BlueprintNode) -> frozenset[str]:
    """Return what a node must not do, by what the rest of the document allows."""
    branch = {_BRANCH} if len(set(node.goes.values())) == 1 else set[str]()
    return frozenset({name for name in made.capabilities if name not in node.uses} | branch)


def _with_prohibitions(text: str, document: Document, missing: Mapping[str, Sequence[str]]) -> str:
    """Return the document with what is missing in the last column of the duties of these nodes."""
    lines, column = text.splitlines(keepends=True), None
    for number, line in enumerate(lines):
        cells = line.split("|")
        header = [cell.strip().lower() for cell in cells]
        if not line.strip().startswith("|"):
            column = None
        elif header[1] == "node" and _MUST_NOT in header:
            column = header.index(_MUST_NOT)
        if column is None or len(cells) <= column:
            continue
        name = next(iter(_CODE.findall(cells[1])), "")
        if name in missing and frozenset(_CODE.findall(cells[column])) == document.duties[name][_MUST_NOT]:
            said = re.sub(r"^(nothing( else)?|none|-|–|—)$", "", cells[column].strip().rstrip(";,."))  # noqa: RUF001 - dashes of tables
            added = ", ".join(f"`{one}`" for one in missing[name])
            cells[column] = f" {said}; {added} " if said else f" {added} "
            lines[number] = "|".join(cells)
    return "".join(lines)


def _library_capability(name: str) -> type | None:
    found = getattr(library, name, None) if name in library.__all__ else None
    return found if inspect.isclass(found) and is_capability(found) else None


def library_methods(name: str) -> list[str]:
    """Return the methods of a capability of the library."""
    capability = _library_capability(name)
    return [] if capability is None else [*methods(capability)]


def similar_capabilities(name: str) -> list[str]:
    """Return the capabilities of the library whose names are close to this one."""
    return closest(name, filter(_library_capability, library.__all__))


def _is_provided(name: str) -> bool:
    capability = _library_capability(name)
    return capability is not None and any(provider.provides(capability) for provider in LIBRARY)


def _in_order(names: Iterable[str], text: str) -> tuple[str, ...]:
    """Sort names by where the document first has them in backticks."""

    def position(name: str) -> tuple[int, str]:
        places = [place for place in (text.find(f"`{name}`"), text.find(f"`{name}?`")) if place >= 0]
        return min(places, default=len(text)), name

    return tuple(sorted(set(names), key=position))
