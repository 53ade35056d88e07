"""Updates of nodes, as JSON data, are combined as the graph's own reducers combine values."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

from interlock import END, Graph, Outcome, Secret, Untrusted, node
from interlock.server.updates import apply_update


@dataclass(frozen=True)
class Line:
    number: int


def newest(known: dict[str, int], update: dict[str, int]) -> dict[str, int]:
    return {name: max(known.get(name, 0), update.get(name, 0)) for name in known | update}


@dataclass
class State:
    text: Annotated[str, Untrusted]
    tokens: Annotated[int, Untrusted, operator.add] = 0
    lines: Annotated[tuple[Line, ...], Untrusted, operator.add] = ()
    seen: Annotated[dict[str, int], Untrusted, newest] = field(default_factory=dict[str, int])
    pins: Annotated[tuple[int, ...], Secret, operator.add] = ()


class Counted(Outcome):
    tokens: Annotated[int, Untrusted]


async def count(text: str) -> Counted:
    return Counted(tokens=len(text))


graph = Graph("counts", state=State, entry=count, takes=("text",), gives="tokens", nodes=[node(count, goes={Counted: END})])


def applied(*updates: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for update in updates:
        apply_update(graph.state, values, update)
    return values


def test_numbers_are_summed_and_other_reducers_are_called():
    assert applied({"tokens": 3, "seen": {"a": 5}}, {"tokens": 4, "seen": {"a": 2, "b": 1}}) == {"tokens": 7, "seen": {"a": 5, "b": 1}}


def test_records_in_sequences_stay_json_data():
    assert applied({"lines": [{"number": 1}]}, {"lines": [{"number": 2}]}) == {"lines": [{"number": 1}, {"number": 2}]}


def test_a_field_without_a_reducer_is_replaced():
    assert applied({"text": "a"}, {"text": "b"}) == {"text": "b"}


def test_the_mark_of_a_hidden_value_is_shown_as_it_is():
    assert applied({"pins": "[hidden]"}, {"pins": "[hidden]"}) == {"pins": "[hidden]"}


def test_the_values_that_a_client_has_are_not_modified():
    values = applied({"lines": [{"number": 1}], "seen": {"a": 1}})
    before = dict(values)
    apply_update(graph.state, values, {"lines": [{"number": 2}], "seen": {"b": 1}})
    assert before == {"lines": [{"number": 1}], "seen": {"a": 1}}
