"""Turns with no application around them: what the gate, the journal and a graph inside do by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pytest
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Outcome, Subgraph, TurnResult, node
from interlock.capabilities import Message, Model
from interlock.contract.schema import Codec
from interlock.contract.state import Values
from interlock.engine import RunNode
from interlock.engine.direct import DirectGraph
from interlock.reply import Reply
from interlock.runtime.events import Event
from interlock.runtime.gate import Gate
from interlock.runtime.journal import Entry, Journal, key_of
from interlock.runtime.targets import ReadySubgraph
from interlock.runtime.turn import Turn, TurnOptions, TurnRequest
from interlock.testing import ScriptedModel

ASKED = [Message(role="user", text="?")]


class Talk(TypedDict, total=False):
    text: str
    out: str


class Done(Outcome):
    out: str


class Helper(Capability, Protocol):
    async def help(self, text: str) -> str: ...


async def ask(text: str, *, model: Model) -> Done:
    return Done(out=(await model.reply(ASKED)).text)


async def delegate(text: str, *, helper: Helper) -> Done:
    return Done(out=await helper.help(text))


async def echo(text: str) -> Done:
    return Done(out=text)


def graph(run: Any) -> Graph:
    return Graph("talk", state=Talk, entry=run, nodes=[node(run, goes={Done: END})], takes=["text"], gives="out")


def replied(state: Mapping[str, Any]) -> Reply:
    return Reply(output=state["out"])


async def take(run: Any, gate: Gate, *, journal: Journal | None = None, events: list[Event] | None = None) -> TurnResult:
    request = TurnRequest(agent="talk", graph=graph(run), role=None, session="s", turn="t", given={"text": "x"}, reply=replied)
    listener = None if events is None else events.append
    return await Turn(request, gate, options=TurnOptions(), listener=listener, journal=journal).run(DirectGraph(request.graph))


async def test_a_gate_without_grants_lets_nothing_out():
    result = await take(ask, Gate(graph(ask), {}))
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("replay_diverged", "ask")


@pytest.mark.parametrize("events", [None, []])
async def test_what_was_emitted_on_the_way_is_emitted_again_to_a_new_listener(events: list[Event] | None):
    said = await ScriptedModel("all of it").reply(ASKED)
    entry = Entry(
        turn="t",
        sequence=1,
        node="ask",
        capability="Model",
        method="reply",
        key=key_of((ASKED,), {}),
        told=("all ", "of it"),
        result=Codec[Any](type(said)).encode(said),
    )
    result = await take(ask, Gate(graph(ask), {}), journal=Journal("t", entries=[entry], complete=True), events=events)
    assert (result.error, result.output) == (None, "all of it")
    if events is not None:
        assert [event["data"]["chunk"]["text"] for event in events if event["event"] == "on_chat_model_stream"] == ["all ", "of it"]


async def test_a_ledger_that_is_not_stored_does_not_hold_up_a_call():
    journal = Journal("t")
    result = await take(ask, Gate(graph(ask), {Model: ScriptedModel("hello")}), journal=journal)
    assert (result.output, journal.unused) == ("hello", [])


class Broken:
    """An engine that fails in a way of its own."""

    async def run(self, given: Values, run_node: RunNode, persisted: Values | None = None) -> Values:
        raise ZeroDivisionError("by itself")


@pytest.mark.parametrize("events", [None, []])
async def test_an_engine_that_fails_inside_a_node_is_a_typed_error(events: list[Event] | None):
    inner = ReadySubgraph(Subgraph(graph(echo)), Gate(graph(echo), {}), Broken())
    result = await take(delegate, Gate(graph(delegate), {Helper: inner}), events=events)
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("internal", "delegate")
    assert "ZeroDivisionError" in result.error.message
    if events is not None:
        assert [event["name"] for event in events if event["event"] == "on_chain_error"] == ["talk", "delegate"]
