"""A result says what the turn used of its models: calls, tokens as far as models report them, and bytes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock import END, Capability, Graph, Interlock, Outcome, Secret, Settings, Subgraph, TurnResult, node
from interlock.capabilities import Human, Message, Model, ModelReply, Question, Usage
from interlock.engine import ENGINES, EngineName
from interlock.errors import ModelOutputInvalid, ModelUnavailable, RejectedAnswer
from interlock.human import LaterHuman
from interlock.runtime.events import Event
from interlock.runtime.limits import TurnUsage
from interlock.testing import ScriptedModel

ASKED = [Message(role="user", text="?")]


@dataclass
class State:
    text: str
    pin: Annotated[int, Secret] = 0
    said: str = ""


class Said(Outcome):
    said: str


class Way(BaseModel):
    way: str


class Inside(Capability, Protocol):
    async def ask(self, text: str) -> str: ...


async def say(text: str, *, model: Model) -> Said:
    return Said(said=(await model.reply(ASKED)).text)


async def stream(text: str, *, model: Model) -> Said:
    return Said(said="".join([chunk.text async for chunk in model.stream(ASKED)]))


async def decide(text: str, *, model: Model) -> Said:
    return Said(said=(await model.decide(ASKED, schema=Way)).value.way)


async def say_often(text: str, *, model: Model) -> Said:
    return Said(said=" ".join([(await model.reply(ASKED)).text for _ in range(int(text))]))


async def say_inside(text: str, *, model: Model, inside: Inside) -> Said:
    first = await model.reply(ASKED)
    return Said(said=first.text + await inside.ask(text))


async def consult(text: str, *, model: Model, human: Human) -> Said:
    asked = await model.reply(ASKED)
    return Said(said=await human.ask(Question(text=asked.text)) or "")


async def keep_quiet(text: str) -> Said:
    return Said(said=text)


def graph_of(run: Any, *takes: str) -> Graph:
    return Graph("saying", state=State, entry=run, nodes=[node(run, goes={Said: END})], takes=["text", *takes], gives="said")


def reply(text: str, tokens: tuple[int, int] | None = None) -> ModelReply:
    return ModelReply(text=text, usage=None if tokens is None else Usage(input_tokens=tokens[0], output_tokens=tokens[1]))


async def run(engine: EngineName, of: Any, *replies: Any, text: str = "1", **settings: Any) -> TurnResult:
    grants: dict[type, object] = {Model: ScriptedModel(*replies), Inside: Subgraph(graph_of(say))}
    return await Interlock(Settings(engine=engine, **settings), grants=grants).run(graph_of(of), text)


async def test_tokens_are_those_that_the_model_reports(engine: EngineName):
    for of in (say, stream):
        result = await run(engine, of, reply("grüß dich", (7, 5)))
        assert result.usage == TurnUsage(model_calls=1, input_tokens=7, output_tokens=5, output_bytes=11)


async def test_tokens_that_no_model_reports_are_not_guessed(engine: EngineName):
    result = await run(engine, stream, ["one ", "two ", "three"])
    assert result.usage == TurnUsage(model_calls=1, output_bytes=13)
    assert (await run(engine, decide, Way(way="left"))).usage.model_calls == 1


async def test_a_turn_that_asks_no_model_used_nothing(engine: EngineName):
    assert (await run(engine, keep_quiet)).usage == TurnUsage()


async def test_usage_is_counted_where_nothing_is_limited(engine: EngineName):
    without = {"max_tokens": None, "max_output_bytes": None, "max_model_calls": None}
    result = await run(engine, say_often, reply("yes", (2, 1)), text="3", **without)
    assert result.usage == TurnUsage(model_calls=3, input_tokens=6, output_tokens=3, output_bytes=9)


async def test_a_failed_turn_says_what_it_used_and_a_refused_call_is_not_counted(engine: EngineName):
    refused = await run(engine, say_often, reply("yes", (2, 1)), text="9", max_model_calls=2)
    assert refused.error is not None
    assert (refused.error.code, refused.usage.model_calls, refused.usage.input_tokens) == ("budget_exceeded", 2, 4)
    failed = await run(engine, say_often, reply("yes", (2, 1)), ModelUnavailable("It is down."), text="2")
    assert failed.error is not None
    assert failed.usage == TurnUsage(model_calls=2, input_tokens=2, output_tokens=1, output_bytes=3)


def rejected(**cost: int) -> ModelOutputInvalid:
    error = ModelOutputInvalid("It is not JSON.")
    error.rejected = RejectedAnswer(**cost)
    return error


async def test_an_answer_that_the_adapter_rejects_is_counted(engine: EngineName):
    failed = await run(engine, say, rejected(output_bytes=400, input_tokens=7, output_tokens=5))
    assert failed.usage == TurnUsage(model_calls=1, input_tokens=7, output_tokens=5, output_bytes=400)
    unreported = await run(engine, say, rejected(output_bytes=400))
    assert unreported.usage == TurnUsage(model_calls=1, output_bytes=400)


async def test_a_replay_counts_a_rejected_answer_as_the_turn_did(engine: EngineName, tmp_path: Path):
    graph = Graph("counted", state=State, entry=say, nodes=[node(say, goes={Said: END})], takes=("text",), gives="said")
    app = Interlock(Settings(engine=engine), grants={Model: ScriptedModel(rejected(output_bytes=400, input_tokens=7, output_tokens=5))})
    failed = await app.run(graph, "?", record=tmp_path / "turn.jsonl")
    replay = await app.replay(tmp_path / "turn.jsonl", graph=graph)
    assert replay.result.usage == failed.usage == TurnUsage(model_calls=1, input_tokens=7, output_tokens=5, output_bytes=400)


async def test_a_rejected_answer_is_charged_to_the_budget_by_its_size_where_the_model_reports_no_tokens(engine: EngineName):
    for cost, code in ((400, "model_output_invalid"), (404, "budget_exceeded")):
        failed = await run(engine, say, rejected(output_bytes=cost), max_tokens=100)
        assert failed.error is not None
        assert failed.error.code == code


async def test_a_graph_inside_a_node_counts_for_the_turn(engine: EngineName):
    result = await run(engine, say_inside, reply("one", (1, 2)), reply("two", (3, 4)))
    assert result.usage == TurnUsage(model_calls=2, input_tokens=4, output_tokens=6, output_bytes=6)


REPLIES = st.lists(st.tuples(st.text(max_size=5), st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99))), min_size=1, max_size=4)


@given(replies=REPLIES)
def test_usage_is_the_sum_of_the_calls_on_both_engines(replies: list[tuple[str, tuple[int, int] | None]]):
    said = [reply(text or "x", tokens) for text, tokens in replies]
    reported = [tokens for _, tokens in replies if tokens is not None]
    for engine in ENGINES:
        result = asyncio.run(run(engine, say_often, *said, text=str(len(said))))
        assert result.usage.model_calls == len(said)
        assert result.usage.input_tokens == (sum(given for given, _ in reported) if reported else None)
        assert result.usage.output_tokens == (sum(made for _, made in reported) if reported else None)
        assert result.usage.output_bytes == sum(len(one.text.encode()) for one in said)


async def test_usage_is_in_the_json_of_the_result_and_in_the_last_event(engine: EngineName):
    events: list[Event] = []
    app = Interlock(Settings(engine=engine), grants={Model: ScriptedModel(reply("hello", (4000, 5)))})
    result = await app.run(graph_of(say, "pin"), {"text": "x", "pin": 4000}, on_event=events.append)
    usage = {"model_calls": 1, "input_tokens": 4000, "output_tokens": 5, "output_bytes": 5}
    assert result.to_json()["usage"] == usage, "a secret number that happens to be the same does not hide it"
    assert events[-1]["data"]["output"]["usage"] == usage


async def test_a_replay_counts_the_recorded_calls_and_notices_another_count(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    app = Interlock(Settings(engine=engine), grants={Model: ScriptedModel(["hel", "lo"])})
    first = await app.run(graph_of(stream), "x", record=path)
    again = await Interlock(Settings(engine=engine)).replay(path, graph=graph_of(stream))
    assert (again.result.usage, again.differences) == (first.usage, ())
    path.write_text(path.read_text().replace('"model_calls":1', '"model_calls":2'))
    changed = await Interlock(Settings(engine=engine)).replay(path, graph=graph_of(stream))
    assert [one for one in changed.differences if one.startswith("usage:")]


async def test_a_resumed_turn_counts_what_it_used_before_it_stopped(engine: EngineName, tmp_path: Path):
    path = tmp_path / "turn.jsonl"
    model = ScriptedModel(reply("Shall I?", (3, 2)))
    grants: dict[type, object] = {Model: model, Human: LaterHuman()}
    waiting = await Interlock(Settings(engine=engine), grants=grants).run(graph_of(consult), "x", record=path)
    assert (waiting.status, waiting.usage.input_tokens) == ("waiting", 3)
    resumed = await Interlock(Settings(engine=engine), grants={**grants, Human: Yes()}).resume(path, graph=graph_of(consult))
    assert (resumed.status, resumed.usage, len(model.messages)) == ("success", waiting.usage, 1)


class Yes:
    async def ask(self, question: Question) -> str:
        return "yes"
