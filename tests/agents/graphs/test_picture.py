"""A property graph as a picture: everything in it, and nothing that a name could do to it."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock_agents.puntini.graph_store import Edge, Node, NodeRef
from interlock_agents.puntini.graphs.picture import as_mermaid, as_svg

HOSTILE = [
    "\"quoted\" 'too'",
    "<b>",
    "<<table>>",
    "</text><script>alert(1)</script>",
    "&lt; &foo; &#1; & ;",
    "back\\slash \\N \\G \\n \\",
    "new\nline\r\ttab",
    "end",
    "subgraph",
    "]]> --> -- |x| %%{init}%%",
    "ünï 天気 🚂",
    "\x01\x1b[31m\x7f\ufffe\u202e",
    "]; }",
    "#quot; #35;",
    "`x`",
    "x" * 500,
]


def pair(start: Node, end: Node, relationship: str = "NEXT") -> Edge:
    return Edge(start=NodeRef(label=start.label, key=start.key), end=NodeRef(label=end.label, key=end.key), relationship=relationship)


def shown(svg: str) -> list[str]:
    """Every text of a picture."""
    root = ET.fromstring(svg)  # noqa: S314 - ours
    return ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]


def tags(svg: str) -> set[str]:
    return {element.tag.rpartition("}")[2] for element in ET.fromstring(svg).iter()}  # noqa: S314 - ours


ADA, DESIGN = Node(label="Person", key="Ada"), Node(label="Task", key="Design", properties={"status": "done", "size": 3, "tags": ["a"]})


def test_every_node_edge_and_property_is_drawn():
    svg = as_svg([ADA, DESIGN], [pair(ADA, DESIGN, "ASSIGNED_TO")])
    texts = shown(svg)
    assert {"Person Ada", "Task Design", "status: done", "size: 3", "ASSIGNED_TO"} <= set(texts)
    mermaid = as_mermaid([ADA, DESIGN], [pair(ADA, DESIGN, "ASSIGNED_TO")])
    assert mermaid.splitlines()[0] == "flowchart LR"
    assert 'n0["Person Ada"]' in mermaid
    assert 'n0 -->|"ASSIGNED_TO"| n1' in mermaid
    assert "Task Design<br>status: done<br>size: 3" in mermaid


def test_an_empty_graph_is_drawn():
    assert shown(as_svg([], [])) == []
    assert as_mermaid([], []) == "flowchart LR\n"


def test_an_edge_to_a_node_that_is_not_drawn_is_not_drawn():
    assert shown(as_svg([ADA], [pair(ADA, DESIGN)])) == ["Person Ada"]
    assert "-->" not in as_mermaid([ADA], [pair(ADA, DESIGN), pair(DESIGN, ADA)])


def test_edges_between_the_same_two_nodes_and_of_a_node_with_itself_are_all_drawn():
    edges = [pair(ADA, DESIGN, "A"), pair(ADA, DESIGN, "B"), pair(DESIGN, ADA, "C"), pair(ADA, ADA, "D")]
    assert {"A", "B", "C", "D"} <= set(shown(as_svg([ADA, DESIGN], edges)))
    assert as_mermaid([ADA, DESIGN], edges).count("-->") == 4


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_the_picture(name: str):
    node = Node(label="Task", key=name, properties={"p": name})
    svg = as_svg([node, ADA], [pair(node, ADA)])
    assert tags(svg) <= {"svg", "g", "title", "polygon", "path", "text"}
    assert sum(text.startswith("Task ") for text in shown(svg)) == 1
    lines = as_mermaid([node, ADA], [pair(node, ADA)]).splitlines()
    assert len(lines) == 4
    assert re.fullmatch(r'    n0\["Task [^"\[\]{}|<>`&]*<br>p: [^"\[\]{}|<>`&]*"\]', lines[1])


def test_an_ordinary_name_is_shown_as_it_is():
    for name in ("<b>", "&lt;", "&foo;", 'say "x"', "a\\b", "\\N", "天気"):
        assert f"Task {name}" in shown(as_svg([Node(label="Task", key=name)], []))


@settings(max_examples=40)
@given(
    key=st.text(min_size=1, max_size=30), value=st.one_of(st.text(max_size=60), st.integers(), st.lists(st.text(max_size=5), max_size=3))
)
def test_the_picture_of_any_graph_is_xml(key: str, value: str | int | list[str]):
    node = Node(label="Task", key=key, properties={"p": value})  # pyright: ignore[reportArgumentType] - a list of texts is JSON
    assert tags(as_svg([node], [])) <= {"svg", "g", "title", "polygon", "path", "text"}
    mermaid = as_mermaid([node], [])
    assert mermaid.count('"') == 2
    assert mermaid.isprintable() or len(mermaid.split("\n")) == 3


def test_a_hundred_nodes_are_drawn_in_time():
    nodes = [Node(label=f"Label{number % 7}", key=f"key {number}", properties={"n": number}) for number in range(100)]
    edges = [pair(nodes[number], nodes[(number * 7 + 1) % 100]) for number in range(100)]
    begun = time.process_time()
    texts = shown(as_svg(nodes, edges))
    assert time.process_time() - begun < 10
    assert {f"Label{number % 7} key {number}" for number in range(100)} <= set(texts)


def test_long_texts_are_shortened():
    svg = as_svg([Node(label="Task", key="k" * 300, properties={f"p{number}": "v" * 300 for number in range(20)})], [])
    assert max(map(len, shown(svg))) < 60
    assert len(shown(svg)) <= 6
