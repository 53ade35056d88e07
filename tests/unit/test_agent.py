from __future__ import annotations

from dataclasses import dataclass

import pytest

from interlock import END, Agent, Graph, Outcome, Reply, node
from interlock.errors import ContractError


@dataclass
class State:
    text: str
    said: str = ""


class Done(Outcome):
    said: str


async def say(text: str) -> Done:
    return Done(said=text)


graph = Graph("saying", state=State, entry=say, nodes=[node(say, goes={Done: END})])


def test_an_agent_that_keeps_what_is_no_field_is_not_made():
    with pytest.raises(ContractError) as caught:
        Agent(name="a", summary="", graphs=(graph,), entries={None: graph}, reply=lambda _: Reply(), persists=("said", "sayd"))
    assert [problem.rule for problem in caught.value.problems] == ["unknown_field"]
    assert "'sayd'" in str(caught.value)
