"""sam's document, changed in every single place: each change is found, and named."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from interlock.contract.conformance import differences
from interlock.contract.document import DUTY_COLUMNS, read_document
from interlock.discovery import load_agent
from interlock_agents.sam.graph import sam

DOCUMENT = load_agent("sam").document
assert DOCUMENT is not None
TEXT = DOCUMENT.read_text(encoding="utf-8")
NODES = list(sam.nodes)
EDGES = [(source, outcome, target or "END") for source, outcome, target in sam.edges]
CAPABILITIES = ["Clock", "Ids", "Transcriber", "Images", "ModelBackend", "Memory"]


def found(text: str) -> list[str]:
    return differences(sam, read_document(text, graph="sam"))


def without_lines(text: str, matches: Callable[[str], object]) -> str:
    kept = [line for line in text.splitlines(keepends=True) if not matches(line)]
    assert len(kept) < len(text.splitlines())
    return "".join(kept)


def in_chart(text: str, line: str) -> str:
    """Add a line to the flowchart."""
    return text.replace("flowchart TD\n", f"flowchart TD\n    {line}\n")


def edge_line(source: str, outcome: str, target: str) -> str:
    (line,) = [line for line in TEXT.splitlines() if re.match(rf"\s+{source} -->\|{outcome}\| {target}\b", line)]
    return line


def in_cell(node: str, column: str, change: Callable[[str], str]) -> str:
    """Change one cell of the table of duties."""
    lines = TEXT.splitlines()
    (at,) = [index for index, line in enumerate(lines) if line.startswith(f"| `{node}` |")]
    cells = lines[at].split("|")
    index = 2 + DUTY_COLUMNS.index(column)
    assert cells[index] != change(cells[index])
    cells[index] = change(cells[index])
    return "\n".join([*lines[:at], "|".join(cells), *lines[at + 1 :]])


def duties() -> Iterator[tuple[str, str, set[str]]]:
    """List each cell of the table with what the rows say."""
    for name, node in sam.nodes.items():
        yield name, "may read", {str(read) for read in node.reads}
        yield name, "may write", set(node.writes)
        yield name, "may use", {grant.name for grant in node.grants}
        yield name, "must not", set(sam.may_not(name))


def additions() -> Iterator[tuple[str, str, str]]:
    fields = list(sam.state.fields)
    universe = {
        "may read": [*fields, *(f"{field}?" for field in fields), "stranger"],
        "may write": [*fields, "stranger"],
        "may use": [*CAPABILITIES, "Stranger"],
        "must not": [*CAPABILITIES, "branch", "Stranger"],
    }
    for node, column, items in duties():
        yield from ((node, column, item) for item in universe[column] if item not in items)


PRESENT = [(node, column, item) for node, column, items in duties() for item in sorted(items)]


def test_the_document_and_the_rows_agree():
    assert found(TEXT) == []


@pytest.mark.parametrize(("source", "outcome", "target"), EDGES)
def test_an_edge_that_the_document_forgets_is_named(source: str, outcome: str, target: str):
    line = edge_line(source, outcome, target)
    expected = f"edge '{source} - {outcome} -> {target}' is in the rows but not in the document"
    assert found(TEXT.replace(line, "")) == [expected]


@pytest.mark.parametrize(("source", "outcome", "target"), EDGES)
def test_an_edge_that_the_document_leads_elsewhere_is_named_both_ways(source: str, outcome: str, target: str):
    line = edge_line(source, outcome, target)
    for other in {*NODES, "END"} - {target}:
        assert set(found(TEXT.replace(line, f"{source} -->|{outcome}| {other}"))) == {
            f"edge '{source} - {outcome} -> {other}' is in the document but not in the rows",
            f"edge '{source} - {outcome} -> {target}' is in the rows but not in the document",
        }


@pytest.mark.parametrize(("source", "outcome", "target"), EDGES)
def test_an_outcome_of_another_name_is_named_both_ways(source: str, outcome: str, target: str):
    line = edge_line(source, outcome, target)
    assert set(found(TEXT.replace(line, line.replace(f"|{outcome}|", "|Stranger|")))) == {
        f"edge '{source} - Stranger -> {target}' is in the document but not in the rows",
        f"edge '{source} - {outcome} -> {target}' is in the rows but not in the document",
    }


@pytest.mark.parametrize(("source", "outcome", "target"), EDGES)
def test_an_edge_need_not_name_its_outcome(source: str, outcome: str, target: str):
    line = edge_line(source, outcome, target)
    assert found(TEXT.replace(line, line.replace(f"|{outcome}|", ""))) == []


@pytest.mark.parametrize("source", NODES)
def test_an_edge_that_only_the_document_has_is_named(source: str):
    for target in [*NODES, "END"]:
        expected = f"edge '{source} - Stranger -> {target}' is in the document but not in the rows"
        assert found(in_chart(TEXT, f"{source} -->|Stranger| {target}")) == [expected]


@pytest.mark.parametrize("source", NODES)
def test_an_edge_without_an_outcome_that_only_the_document_has_is_named(source: str):
    for target in {*NODES, "END"} - {edge[2] for edge in EDGES if edge[0] == source}:
        expected = f"edge '{source} -> {target}' is in the document but not in the rows"
        assert found(in_chart(TEXT, f"{source} --> {target}")) == [expected]


def test_a_missing_entry_is_named():
    assert found(without_lines(TEXT, lambda line: "START(" in line)) == ["entry 'router_node' is in the rows but not in the document"]


@pytest.mark.parametrize("other", NODES[1:])
def test_another_entry_is_named(other: str):
    expected = f"entry '{other}' is in the document but not in the rows"
    assert found(in_chart(TEXT, f"START --> {other}")) == [expected]
    moved = TEXT.replace("START([START]) --> router_node", f"START([START]) --> {other}")
    assert set(found(moved)) == {expected, "entry 'router_node' is in the rows but not in the document"}


@pytest.mark.parametrize("name", NODES)
def test_a_node_that_the_document_forgets_is_named_with_all_that_belongs_to_it(name: str):
    others = in_chart(TEXT, "; ".join(other for other in NODES if other != name))
    said = found(without_lines(others, lambda line: re.search(rf"\b{name}\b.*-->|-->.*\b{name}$|^\| `{name}`", line.rstrip())))
    edges = {f"edge '{s} - {o} -> {t}' is in the rows but not in the document" for s, o, t in EDGES if name in (s, t)}
    entry = {f"entry '{name}' is in the rows but not in the document"} if name == sam.entry else set[str]()
    assert set(said) == edges | entry | {
        f"node '{name}' is in the rows but not in the document",
        f"line of the table '{name}' is in the rows but not in the document",
    }


@pytest.mark.parametrize("name", NODES)
def test_a_node_that_the_table_forgets_is_named(name: str):
    said = found(without_lines(TEXT, lambda line: line.startswith(f"| `{name}`")))
    assert said == [f"line of the table '{name}' is in the rows but not in the document"]


def test_a_node_that_only_the_flowchart_has_is_named():
    expected = "node 'stranger' is in the document but not in the rows"
    assert found(in_chart(TEXT, "stranger")) == [expected]
    assert expected in found(in_chart(TEXT, "router_node --> stranger"))


def test_a_node_that_only_the_table_has_is_named():
    line = "| `stranger` | - | - | - | - | - |"
    text = TEXT.replace("| `router_node` |", f"{line}\n| `router_node` |", 1)
    assert found(text) == ["line of the table 'stranger' is in the document but not in the rows"]


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_another_name_is_named_both_ways(name: str):
    said = found(re.sub(rf"\b{name}\b", "stranger_node", TEXT))
    assert f"node '{name}' is in the rows but not in the document" in said
    assert "node 'stranger_node' is in the document but not in the rows" in said


@pytest.mark.parametrize(("node", "column", "item"), PRESENT)
def test_a_duty_that_the_document_forgets_is_named(node: str, column: str, item: str):
    text = in_cell(node, column, lambda cell: cell.replace(f"`{item}`", ""))
    assert found(text) == [f"node '{node}', '{column}': '{item}' is in the rows but not in the document"]


def test_a_duty_that_is_only_prose_does_not_count():
    text = in_cell("router_node", "may read", lambda cell: cell.replace("`", ""))
    assert found(text) == ["node 'router_node', 'may read': 'raw_input' is in the rows but not in the document"]


@pytest.mark.parametrize("node", NODES)
def test_a_duty_that_only_the_document_has_is_named(node: str):
    for name, column, item in additions():
        if name == node:
            text = in_cell(node, column, lambda cell, item=item: f"{cell} and `{item}`")
            assert found(text) == [f"node '{node}', '{column}': '{item}' is in the document but not in the rows"]


def test_every_kind_of_duty_was_changed():
    assert {column for _, column, _ in PRESENT} == set(DUTY_COLUMNS)
    assert {column for _, column, _ in additions()} == set(DUTY_COLUMNS)
