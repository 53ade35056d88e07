"""A walk begins with what is kept of earlier turns, then with what comes in, on every engine alike."""

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


async def run_node(taken: Node, state: Mapping[str, Any]) -> StepResult:
    return taken.validate_outcome(await taken.run(*taken.read(state)))


async def loose(taken: Node, state: Mapping[str, Any], *_: object) -> StepResult:
    return await run_node(taken, state)


@pytest.mark.parametrize(
    ("given", "kept", "final"),
    [
        ({"page": "tuesday"}, {"log": ["monday"]}, {"page": "tuesday", "log": ["monday", "+", "tuesday"]}),
        ({"page": "tuesday"}, None, {"page": "tuesday", "log": ["+", "tuesday"]}),
        ({}, {"page": "monday", "log": ["monday"]}, {"page": "monday", "log": ["monday", "+", "monday"]}),
        ({"log": ["monday"]}, {"log": ["sunday"]}, {"log": ["sunday", "+", "monday", "+", "nothing"]}),
        ({}, None, {"log": ["+", "nothing"]}),
    ],
)
async def test_what_is_kept_is_there_first_and_is_not_added_twice(
    given: dict[str, Any], kept: dict[str, Any] | None, final: dict[str, Any]
):
    for compiled in (DirectGraph(diary), LangGraphGraph(diary, standalone=loose)):
        assert await compiled.run(given, run_node, kept) == final
