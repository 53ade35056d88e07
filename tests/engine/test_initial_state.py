"""A run of a graph starts with the persisted fields, then with the input, on both engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from interlock import END, Graph, Outcome, node
from interlock.contract.node import Node, StepResult
from interlock.engine.direct import DirectGraph
from interlock.engine.langgraph import LangGraphGraph


def added(log: list[str], new: list[str]) -> list[str]:
    return [*log, "+", *new]


class Diary(TypedDict, total=False):
    page: str
    log: Annotated[list[str], added]


class Written(Outcome):
    log: list[str]


async def write(page: str | None) -> Written:
    return Written(log=[page or "nothing"])


diary = Graph("diary", state=Diary, entry=write, nodes=[node(write, goes={Written: END})], takes=["page"])


async def run_node(found: Node, state: Mapping[str, Any]) -> StepResult:
    return found.validate_outcome(await found.run(*found.read(state)))


@pytest.mark.parametrize(
    ("given", "persisted", "final"),
    [
        ({"page": "tuesday"}, {"log": ["monday"]}, {"page": "tuesday", "log": ["monday", "+", "tuesday"]}),
        ({"page": "tuesday"}, None, {"page": "tuesday", "log": ["+", "tuesday"]}),
        ({}, {"page": "monday", "log": ["monday"]}, {"page": "monday", "log": ["monday", "+", "monday"]}),
        ({"log": ["monday"]}, {"log": ["sunday"]}, {"log": ["sunday", "+", "monday", "+", "nothing"]}),
        ({}, None, {"log": ["+", "nothing"]}),
    ],
)
async def test_persisted_fields_are_there_first_and_are_not_reduced_twice(
    given: dict[str, Any], persisted: dict[str, Any] | None, final: dict[str, Any]
):
    for compiled in (DirectGraph(diary), LangGraphGraph(diary)):
        assert await compiled.run(given, run_node, persisted) == final
