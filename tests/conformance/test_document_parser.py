from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contract.document import Document, Edge, read_document, read_document_file, without_proofs
from interlock.errors import DocumentInvalid

TABLE = """
| node | may read | may write | may use | must not |
|---|---|---|---|---|
| `a` | - | - | - | - |
"""


def page(chart: str, table: str = TABLE, kind: str = "mermaid") -> str:
    return f"# A page\n\n```{kind}\n{chart}\n```\n\nSome prose.\n{table}\n"


def read(chart: str, table: str = TABLE) -> Document:
    return read_document(page(chart, table), graph="g")


def edges(document: Document) -> set[tuple[str, str, str]]:
    return {(edge.source, edge.outcome, edge.target) for edge in document.edges}


A_TO_B = {("a", "", "b")}
X = {("a", "x", "b")}
KEYWORDS = ("end_turn", "ending", "style_reply", "click_node", "direction_node", "classify", "subgraph_node", "linkStyles", "accTitles")

CHARTS: dict[str, tuple[str, set[tuple[str, str, str]]]] = {
    "plain": ("a --> b", A_TO_B),
    "no spaces": ("a-->b", A_TO_B),
    "long": ("a ----> b", A_TO_B),
    "thick": ("a ==> b", A_TO_B),
    "dotted": ("a -.-> b", A_TO_B),
    "label in bars": ("a -->|x| b", X),
    "label in bars after a space": ("a --> |x| b", X),
    "label in bars with spaces": ("a -->| x | b", X),
    "label in quotes": ('a -->|"x"| b', X),
    "label on a thick arrow": ("a ==>|x| b", X),
    "label on a dotted arrow": ("a -.->|x| b", X),
    "label in text": ("a -- x --> b", X),
    "label in quoted text": ('a -- "x" --> b', X),
    "label in thick text": ("a == x ==> b", X),
    "label in dotted text": ("a -. x .-> b", X),
    "label with dashes in text": ("a -- it-is --> b", {("a", "it-is", "b")}),
    "label close to its arrow": ("a --x--> b", X),
    "label with a full stop": ("a -- v1.2 --> b -- y=2 --> c", {("a", "v1.2", "b"), ("b", "y=2", "c")}),
    "label of two words": ("a -->|x y| b", {("a", "x y", "b")}),
    "chain": ("a --> b --> c", {("a", "", "b"), ("b", "", "c")}),
    "chain with labels": ("a -->|x| b -- y --> c", {("a", "x", "b"), ("b", "y", "c")}),
    "several targets": ("a -->|x| b & c", {("a", "x", "b"), ("a", "x", "c")}),
    "several sources": ("a & b --> c", {("a", "", "c"), ("b", "", "c")}),
    "several of both": ("a & b --> c & d", {(one, "", other) for one in "ab" for other in "cd"}),
    "chain through several": ("a --> b & c --> d", {("a", "", "b"), ("a", "", "c"), ("b", "", "d"), ("c", "", "d")}),
    "shapes": ("a[A box] --> b(round)", A_TO_B),
    "more shapes": ("a([stadium]) --> b[[subroutine]]", A_TO_B),
    "yet more shapes": ("a[(database)] --> b((circle))", A_TO_B),
    "decisions": ("a{why?} --> b{{hexagon}}", A_TO_B),
    "flags and slants": ("a>flag] --> b[/slanted/]", A_TO_B),
    "double circle": ("a --> b(((done)))", A_TO_B),
    "quoted text in a shape": ('a["a (b) --> c"] --> b', A_TO_B),
    "a semicolon in a shape": ('a["first; then"] --> b', A_TO_B),
    "shapes that name nodes": ("a[b] --> b[a]", A_TO_B),
    "class of a node": ("a:::red --> b[B]:::blue", A_TO_B),
    "end of a line": ("a --> b;", A_TO_B),
    "two on a line": ("a --> b; b --> c", {("a", "", "b"), ("b", "", "c")}),
    "comment": ("%% a --> c\na --> b", A_TO_B),
    "subgraph": ("subgraph one [One part]\ndirection LR\na --> b\nend", A_TO_B),
    "styles": (
        "a --> b\nclassDef red fill:#f00\nclass a red\nstyle a fill:#f9f\nlinkStyle 0 stroke:#ff3\nclick a callback",
        A_TO_B,
    ),
    "accessibility": ("accTitle: a --> c\naccDescr: a --> d\na --> b", A_TO_B),
    "blank lines": ("\n\n   a --> b   \n\n", A_TO_B),
    "itself": ("a --> a", {("a", "", "a")}),
    "the same twice": ("a --> b\na --> b", A_TO_B),
    "dotted names": ("desk.plan --> desk.act", {("desk.plan", "", "desk.act")}),
    "names like keywords": (
        "\n".join(f"{name} --> a" for name in KEYWORDS),
        {(name, "", "a") for name in KEYWORDS},
    ),
}


@pytest.mark.parametrize(("chart", "expected"), CHARTS.values(), ids=CHARTS.keys())
@pytest.mark.parametrize("head", ["flowchart TD", "graph LR"])
def test_every_form_of_an_arrow_is_read(head: str, chart: str, expected: set[tuple[str, str, str]]):
    document = read(f"{head}\n{chart}")
    assert edges(document) == expected
    assert document.nodes == {name for source, _, target in expected for name in (source, target)}


@pytest.mark.parametrize("head", ["flowchart", "flowchart TB", "flowchart  LR", "graph TD", "graph RL;", "  flowchart TD"])
def test_every_direction_of_a_flowchart_is_read(head: str):
    assert edges(read(f"{head}\na --> b")) == A_TO_B


@pytest.mark.parametrize(
    "before",
    ["%% what this shows\n", "%%{init: {'theme': 'base'}}%%\n\n", "---\ntitle: what this shows\n---\n", "---\ntitle: x\n---\n%% y\n"],
)
def test_what_stands_before_a_flowchart_is_no_part_of_it(before: str):
    assert edges(read(f"{before}flowchart TD\na --> b")) == A_TO_B


@pytest.mark.parametrize("chart", ["flowchart TD; a --> b", "graph LR; a --> b;", "flowchart TD; a\na --> b"])
def test_what_follows_on_the_first_line_counts(chart: str):
    assert edges(read(chart)) == A_TO_B


def test_a_node_without_an_arrow_is_a_node():
    assert read("flowchart TD\na\nb[B]\nc & d").nodes == {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("START", "END"),
        ("__start__", "__end__"),
        ("START([START])", "END([END])"),
        ("__start__([<p>start</p>]):::first", "__end__((x)):::last"),
    ],
)
def test_where_a_graph_starts_and_ends_is_no_node(start: str, end: str):
    document = read(f"flowchart TD\n{start} --> a\na -->|x| b\nb --> {end}")
    assert document.entry == {"a"}
    assert document.nodes == {"a", "b"}
    assert edges(document) == {("a", "x", "b"), ("b", "", "END")}


def test_two_entries_are_two_entries():
    assert read("flowchart TD\nSTART --> a & b").entry == {"a", "b"}


@pytest.mark.parametrize(
    "line",
    [
        "a -->",
        "--> b",
        "a b",
        "a --> b c",
        "a -->|x b",
        "a => b",
        "a <--> b",
        "a --- b",
        "a --x b",
        "a --> 1b",
        "a & --> b",
        "a --> b &",
        "a[ --> b",
    ],
)
def test_a_line_that_cannot_be_read_is_refused_and_quoted(line: str):
    with pytest.raises(DocumentInvalid, match="flowchart line") as caught:
        read(f"flowchart TD\n{line}")
    assert f"'{line}'" in caught.value.message
    assert caught.value.code == "document_invalid"


def test_an_edge_is_written_like_an_arrow():
    assert str(Edge("a", "x", "b")) == "a - x -> b"
    assert str(Edge("a", "", "b")) == "a -> b"


def test_in_the_table_only_what_is_in_backticks_counts():
    table = """
Before the table, `x` is not in it.

| Node | May read | May write | May use | Must not | Why |
|:---|:---:|---|---|---:|---|
| the `a`, first | the ids: `one`, `two?`; and more | `three` and nothing else | nothing | `branch`; ask `Model` again | `y` |
| `b` | | | | | |

After it, `z` is not in it either.
"""
    duties = read("flowchart TD\na --> b", table).duties
    assert duties.keys() == {"a", "b"}
    assert duties["a"] == {"may read": {"one", "two?"}, "may write": {"three"}, "may use": set(), "must not": {"branch", "Model"}}
    assert all(cell == set() for cell in duties["b"].values())


def test_columns_may_stand_in_any_order():
    table = "| node | must not | may use | may write | may read |\n|---|---|---|---|---|\n| `a` | `m` | `u` | `w` | `r` |"
    cells = read("flowchart TD\na --> b", table).duties["a"]
    assert cells == {"may read": {"r"}, "may write": {"w"}, "may use": {"u"}, "must not": {"m"}}


@pytest.mark.parametrize(
    "other", ["| word | meaning |\n|---|---|\n| `a` | a node |", "| a | b | c | d | e |\n|---|---|---|---|---|\n| `q` | | | | |"]
)
def test_other_tables_of_the_page_are_left_alone(other: str):
    for table in (f"{other}\n\nThe duties:\n{TABLE}", f"{TABLE}\nThe words:\n\n{other}"):
        assert read("flowchart TD\na --> b", table).duties.keys() == {"a"}


def test_other_diagrams_and_code_of_the_page_are_left_alone():
    others = (
        "```mermaid\nsequenceDiagram\na->>b: hi\n```\n\n```python\n# `g`\nflowchart = 1\n```\n\n```\nflowchart TD\nx --> y\n| node |\n```\n"
    )
    assert edges(read_document(others + page("flowchart TD\na --> b"), graph="g")) == A_TO_B


SEVERAL = "\n".join(
    [
        "# Two graphs",
        "## The `shop.plan` graph",
        page("flowchart TD\nSTART --> a\na --> b").removeprefix("# A page\n"),
        "### Details",
        "Nothing.",
        "## The `shop.act` graph",
        page("flowchart TD\nSTART --> c\nc -->|x| d", TABLE.replace("`a`", "`c`")).removeprefix("# A page\n"),
    ]
)


def test_each_of_several_graphs_is_read_under_its_heading():
    plan, act = read_document(SEVERAL, graph="shop.plan"), read_document(SEVERAL, graph="shop.act")
    assert (plan.entry, edges(plan), set(plan.duties)) == ({"a"}, A_TO_B, {"a"})
    assert (act.entry, edges(act), set(act.duties)) == ({"c"}, {("c", "x", "d")}, {"c"})


def test_a_graph_that_none_of_several_headings_names_is_refused():
    with pytest.raises(DocumentInvalid, match="'shop' the document has 2 Mermaid flowcharts"):
        read_document(SEVERAL, graph="shop")


REFUSED = {
    "nothing": ("", "0 Mermaid flowcharts"),
    "no flowchart": (f"# A page\n{TABLE}", "0 Mermaid flowcharts"),
    "a flowchart that is no diagram": (page("flowchart TD\na --> b", kind="text"), "0 Mermaid flowcharts"),
    "another diagram": (page("stateDiagram-v2\na --> b"), "0 Mermaid flowcharts"),
    "two flowcharts": (page("flowchart TD\na --> b") + page("graph LR\na --> b"), "2 Mermaid flowcharts"),
    "no table": (page("flowchart TD\na --> b", ""), "no table"),
    "a table without a column": (page("flowchart TD\na --> b", TABLE.replace("may use", "uses")), "no table"),
    "a table inside code": (page("flowchart TD\na --> b", f"```\n{TABLE}\n```"), "no table"),
    "two lines for a node": (page("flowchart TD\na --> b", f"{TABLE.rstrip()}\n| `a` | - | - | - | - |"), "two lines for node 'a'"),
    "a line without a node": (page("flowchart TD\na --> b", f"{TABLE.rstrip()}\n| b | - | - | - | - |"), "one node in backticks"),
    "a line with two nodes": (page("flowchart TD\na --> b", f"{TABLE.rstrip()}\n| `b` `c` | - | - | - | - |"), "one node in backticks"),
    "a line with too few cells": (page("flowchart TD\na --> b", f"{TABLE.rstrip()}\n| `b` | - | - | - |"), "needs 5 cells"),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_a_document_that_cannot_be_held_against_anything_is_refused(text: str, says: str):
    with pytest.raises(DocumentInvalid, match=says):
        read_document(text, graph="g")


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path):
    (tmp_path / "latin.md").write_bytes(page("flowchart TD\na --> b").encode() + b"\xff\xfe")
    for name in ("missing.md", "latin.md", "."):
        with pytest.raises(DocumentInvalid, match="cannot be read") as caught:
            read_document_file(tmp_path / name, graph="g")
        assert str(tmp_path / name) in caught.value.message


def test_line_endings_of_any_system_are_read(tmp_path: Path):
    (tmp_path / "page.md").write_bytes(page("flowchart TD\na -->|x| b").replace("\n", "\r\n").encode())
    assert edges(read_document_file(tmp_path / "page.md", graph="g")) == X


@given(chart=st.text(alphabet="ab->|[](){}&;:=. \n\"'`%", max_size=40), table=st.text(alphabet="|`ab- \n", max_size=40))
def test_any_page_is_read_or_refused(chart: str, table: str):
    for text in (page(f"flowchart TD\n{chart}", table), page("flowchart TD\na --> b", TABLE + table), chart + table):
        try:
            document = read_document(text, graph="a")
        except DocumentInvalid as error:
            assert error.message  # noqa: PT017 - one of two good endings
        else:
            assert {edge.source for edge in document.edges} <= document.nodes | {"END", "__end__"}


DECISIONS = """
| node | may read | may write | may use | must not | decides on |
|---|---|---|---|---|---|
| `a` | - | - | - | - | `kind` |

| guard | says |
|---|---|
| `is_late` | whether it is late |

| effect | node | argument | comes from |
|---|---|---|---|
| `Mail.send` | `a` | `to` | `address` |

```claims
every path passes a
```
"""


def test_a_document_without_its_proofs_keeps_everything_else():
    whole = page("flowchart TD\n  a --> END", DECISIONS)
    assert (read_document(whole, graph="g").decisions, read_document(whole, graph="g").claims) != (None, ())
    less = without_proofs(whole)
    document = read_document(less, graph="g")
    assert (document.decisions, document.guards, document.effects, document.claims) == (None, None, None, ())
    assert document == replace(read_document(whole, graph="g"), decisions=None, guards=None, effects=None, claims=())
    assert "Some prose." in less


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("| `Mail.send` | `a` | `to` |", "needs 4 cells"),
        ("| `Mail.send` | `a` and `b` | `to` | `address` |", "one effect, one node and one argument"),
    ],
)
def test_a_line_of_the_table_of_effects_that_cannot_be_read_is_quoted(line: str, says: str):
    with pytest.raises(DocumentInvalid, match=says):
        read("flowchart TD\n  a --> END", DECISIONS.replace("| `Mail.send` | `a` | `to` | `address` |", line))
