from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pytest
from rich.console import Console

from interlock import END, Agent, Graph, Outcome, Reply, node
from interlock.cli.live import Live
from interlock.errors import ContractError
from interlock.runtime.events import Event


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


def speaking(speaks: str | tuple[str, ...]) -> Agent:
    return Agent(name="a", summary="", graphs=(graph,), entries={None: graph}, reply=lambda _: Reply(), speaks=speaks)


def test_an_agent_that_speaks_by_what_is_no_node_is_not_made():
    with pytest.raises(ContractError) as caught:
        speaking(("say", "shout"))
    (problem,) = caught.value.problems
    assert (problem.rule, problem.fix) == ("unknown_node", "name one of its nodes: say.")
    assert "'shout'" in str(problem)


def test_an_agent_speaks_by_one_node_or_by_several():
    assert speaking("say").speakers == ("say",)
    assert speaking(("say", "say")).speakers == ("say", "say")
    assert speaking(()).speakers == ()


def streamed(text: str, node: str) -> Event:
    metadata = {"langgraph_node": node, "langgraph_step": 1}
    chunk: dict[str, Any] = {"chunk": {"text": text, "calls": [], "model": "", "usage": None}}
    return {
        "event": "on_chat_model_stream",
        "name": "Model.stream",
        "run_id": "1",
        "parent_ids": [],
        "tags": [],
        "metadata": metadata,
        "data": chunk,
    }


@pytest.mark.parametrize(("speakers", "shown"), [((), "plan answer"), (("say",), "answer"), (("inner",), "")])
def test_what_a_node_that_does_not_speak_streams_is_not_shown_as_the_reply(speakers: tuple[str, ...], shown: str):
    written = io.StringIO()
    live = Live(Console(file=written, width=80), speakers)
    with live:
        live.listen(streamed("plan ", "think"))
        live.listen(streamed("answer\n", "outer/say"))
    assert written.getvalue().strip() == shown
