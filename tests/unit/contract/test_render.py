from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import Annotated, Literal

from interlock import END, Control, Graph, Outcome, Present, Untrusted, node
from interlock.capabilities import Clock, Memory
from interlock.contract.render import COLUMNS, as_data, cells, markdown, mermaid
from interlock_agents.sam.capabilities import ModelBackend


@dataclass
class Desk:
    text: Annotated[str, Untrusted]
    log: Annotated[list[str], operator.add, Untrusted]
    kind: Annotated[Literal["bug", "wish"] | None, Control] = None


class Sorted(Outcome):
    kind: Literal["bug", "wish"]
    log: list[str]


class Unclear(Outcome):
    log: list[str]


class Closed(Outcome):
    pass


async def sort(text: str, *, model: ModelBackend, clock: Clock) -> Sorted | Unclear:
    return Unclear(log=[])


async def close(kind: Literal["bug", "wish"] | None, text: Present) -> Closed:
    """Close the ticket.

    It can be opened again.
    """
    return Closed()


desk = Graph(
    "desk",
    state=Desk,
    entry=sort,
    nodes=[node(sort, goes={Sorted: close, Unclear: sort}), node(close, goes={Closed: END})],
    takes=["text"],
    gives="kind",
    max_steps=9,
    forbids=[Memory],
)


def test_the_contract_table_says_what_each_node_may_and_may_not_do():
    assert markdown(desk) == (
        "| node | reads | uses | writes | goes | may not |\n"
        "|---|---|---|---|---|---|\n"
        "| `sort` | `text` | `ModelBackend`, `Clock` | `kind`, `log` | `Sorted -> close`, `Unclear -> sort` | `Memory` |\n"
        "| `close` | `kind`, `text?` | - | - | `Closed -> END` | `ModelBackend`, `Clock`, `Memory`, `branch` |\n"
    )


def test_a_line_of_the_table_has_a_cell_for_each_column():
    assert all(len(cells(desk, line)) == len(COLUMNS) for line in desk.nodes.values())


def test_the_diagram_has_exactly_the_edges_of_the_rows():
    assert mermaid(desk) == (
        "flowchart TD\n"
        "    START([START]) --> sort\n"
        "    sort -->|Sorted| close\n"
        "    sort -->|Unclear| sort\n"
        "    close -->|Closed| END([END])\n"
    )


def test_a_graph_as_data_is_plain_json_in_the_order_of_the_rows():
    data = as_data(desk)
    assert json.loads(json.dumps(data)) == data
    assert data == {
        "name": "desk",
        "entry": "sort",
        "state": {
            "text": {"type": "str", "labels": ["Untrusted"]},
            "log": {"type": "list[str]", "labels": ["Untrusted"]},
            "kind": {"type": "Literal['bug', 'wish'] | None", "labels": ["Control"]},
        },
        "nodes": [
            {
                "name": "sort",
                "reads": ["text"],
                "uses": ["ModelBackend", "Clock"],
                "writes": ["kind", "log"],
                "goes": {"Sorted": "close", "Unclear": "sort"},
                "may_not": ["Memory"],
            },
            {
                "name": "close",
                "reads": ["kind", "text?"],
                "uses": [],
                "writes": [],
                "goes": {"Closed": "END"},
                "may_not": ["ModelBackend", "Clock", "Memory", "branch"],
            },
        ],
    }


def test_a_node_is_summed_up_by_the_first_line_of_its_docstring():
    assert desk.nodes["close"].summary == "Close the ticket."
    assert desk.nodes["sort"].summary == ""
