"""What a turn of the analyst may use up, what is left to say when it has, and the history, which stays within its window."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock import TurnResult
from interlock.capabilities import Chunk, Decision, Message, Model, ModelReply, Tool, Usage
from interlock.engine import EngineName
from interlock.errors import ModelOutputInvalid, ModelRefused, ModelTimeout, ModelUnavailable
from interlock.testing import ScriptedModel
from interlock_agents.analyst.plan import PlannerDecision, Summary
from tests.support.analyst import LONG, SHORT, add, app, call, said, search, take, talk, tools, wants
from tests.support.passing import ENOUGH, run_out

T = TypeVar("T", bound=BaseModel)
SESSIONS = (f"budget-{number}" for number in itertools.count())


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder; every test has a session of its own in it."""
    return tmp_path_factory.mktemp("analyst-budgets")


@pytest.fixture
def session() -> str:
    return next(SESSIONS)


class Counted:
    """A model that says how many tokens each call took, and hangs for ever where it is told to."""

    def __init__(self, *plans: dict[str, Any], answer: Sequence[str] = ("It ", "is ", "so."), hangs: str = "") -> None:
        self._plans = list(plans) or [talk()]
        self._answer = answer
        self._hangs = hangs
        self.calls: list[str] = []
        self.running = 0

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: type[BaseModel] | None = None) -> ModelReply:
        raise AssertionError

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        kind = "planner" if schema is PlannerDecision else "summarizer"
        self.calls.append(kind)
        await self._hang(kind)
        if schema is Summary:
            return Decision(value=schema.model_validate({"summary": "In short."}), usage=Usage(input_tokens=100, output_tokens=11))
        plan = self._plans.pop(0) if len(self._plans) > 1 else self._plans[0]
        return Decision(value=schema.model_validate(plan), usage=Usage(input_tokens=1000, output_tokens=1))

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        self.calls.append("generator")
        for piece in self._answer:
            yield Chunk(text=piece)
        await self._hang("generator")
        yield Chunk(usage=Usage(input_tokens=10000, output_tokens=5))

    async def _hang(self, kind: str) -> None:
        if kind != self._hangs:
            return
        self.running += 1
        try:
            await run_out()
        finally:
            self.running -= 1


async def spend(engine: EngineName, folder: Path, session: str, *replies: Any, model: Any = None, **limits: Any) -> TurnResult:
    """Take a turn that has too little of something, after one that has not, and see that the session is as it was."""
    first = await take(engine, folder, "One.", talk(), "First.", session=session)
    assert first.status == "success"
    grants = {} if model is None else {Model: model}
    async with app(engine, folder, *replies, grants=grants, **limits) as running:
        result = await running.run("analyst", "Two.", session=session)
        assert len(asyncio.all_tasks()) == 1
    third = await take(engine, folder, "Three.", talk(), "Third.", session=session)
    assert said(third) == ["One.", "First.", "Three.", "Third."]
    assert third.state["tokens_used"] < 10 * first.state["tokens_used"]
    return result


def exceeded(result: TurnResult, limit: str, node: str) -> None:
    assert result.error is not None
    assert (result.status, result.error.code, result.error.node) == ("error", "budget_exceeded", node)
    assert limit in result.error.message


@pytest.mark.parametrize(("steps", "node"), list(enumerate(LONG[1:], 1)))
async def test_steps(engine: EngineName, folder: Path, session: str, steps: int, node: str):
    result = await spend(engine, folder, session, wants(add("20 + 1"), search("zzqx")), "Much [call-1].", max_steps=steps)
    exceeded(result, "max_steps", node)
    assert result.path == LONG[:steps]
    if steps < 4:
        assert result.output is None
    elif steps < 6:
        assert result.output.startswith("Found so far:\ncalculate: ")
        assert "21" in result.output
    else:
        assert result.output == "Much [call-1].\n\nNot found:\n- search(zzqx): It found nothing."


async def test_a_refusal_is_answered_with_the_last_step(engine: EngineName, folder: Path, session: str):
    result = await spend(engine, folder, session, talk(), "First.", max_steps=3, analyst_denied=("Two",))
    exceeded(result, "max_steps", "summarizer")
    assert result.output.startswith("I cannot help with this")


@pytest.mark.parametrize(("calls", "node"), [(0, "planner"), (1, "planner"), (2, "generator")])
async def test_model_calls(engine: EngineName, folder: Path, session: str, calls: int, node: str):
    result = await spend(engine, folder, session, wants(search("zzqx")), wants(add("20 + 1")), "Much.", max_model_calls=calls)
    exceeded(result, "max_model_calls", node)
    assert result.output is None if calls < 2 else result.output.startswith("Found so far:\ncalculate: ")


async def test_a_partial_answer_lists_only_useful_results(engine: EngineName, folder: Path, session: str):
    result = await spend(engine, folder, session, wants(search("zzqx"), add("1 / 0")), max_model_calls=1)
    exceeded(result, "max_model_calls", "planner")
    assert result.output is None


ANSWER = [f"word{number} " for number in range(2000)]


@pytest.mark.parametrize(("limit", "most"), [("max_output_bytes", 5000), ("max_tokens", 1000)])
async def test_the_streamed_part_of_an_answer_is_kept(engine: EngineName, folder: Path, session: str, limit: str, most: int):
    result = await spend(engine, folder, session, talk(), list(ANSWER), **{limit: most})
    exceeded(result, limit, "generator")
    assert "".join(ANSWER).startswith(result.output)
    assert 2000 < len(result.output) < 6000


async def test_reported_tokens_are_charged(engine: EngineName, folder: Path, session: str):
    result = await spend(engine, folder, session, model=Counted(), max_tokens=500)
    exceeded(result, "max_tokens", "planner")
    model = Counted()
    result = await spend(engine, folder, next(SESSIONS), model=model, max_tokens=5000)
    exceeded(result, "max_tokens", "generator")
    assert (model.calls, result.output) == (["planner", "generator"], "It is so.")


async def test_an_answer_of_ten_megabytes_exceeds_the_budget(engine: EngineName, folder: Path, session: str):
    result = await spend(engine, folder, session, talk(), ["x" * 1_000_000] * 10)
    assert result.error is not None
    assert result.error.code in {"budget_exceeded", "model_output_invalid"}
    assert len(result.output) < 6_000_000


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("node", ["planner", "generator"])
async def test_time_with_a_model_that_hangs(engine: EngineName, folder: Path, session: str, node: str):
    model = Counted(wants(add("20 + 1")), hangs=node)
    result = await spend(engine, folder, session, model=model, max_turn_seconds=ENOUGH)
    exceeded(result, "max_turn_seconds", node)
    assert model.running == 0
    assert result.output == (None if node == "planner" else "It is so.")


@pytest.mark.usefixtures("time_passes")
async def test_time_with_a_tool_that_hangs(engine: EngineName, folder: Path, session: str):
    plan = wants(call("slow", text="x", id="a"), add(id="b"), add("{{a.x}}", id="c"))
    result = await spend(engine, folder, session, plan, "Two.", max_turn_seconds=ENOUGH, tool_seconds=60.0, **tools(slow="runs_out"))
    exceeded(result, "max_turn_seconds", "tool_executor")


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize("node", ["planner", "generator"])
async def test_a_slow_model_is_a_timeout(engine: EngineName, folder: Path, session: str, node: str):
    model = Counted(hangs=node)
    result = await spend(engine, folder, session, model=model, max_call_seconds=ENOUGH)
    assert result.error is not None
    assert (result.error.code, result.error.node) == ("model_timeout", node)
    assert (model.running, result.output) == (0, None if node == "planner" else "It is so.")


@pytest.mark.parametrize("retries", [0, 1, 4])
async def test_plans(engine: EngineName, folder: Path, session: str, retries: int):
    model = Counted(*[wants(search(f"zzqx{number}")) for number in range(9)])
    result = await take(engine, folder, "Find it.", session=session, grants={Model: model}, analyst_retries=retries)
    assert (result.status, result.path.count("planner")) == ("success", retries + 2)
    assert model.calls == ["planner"] * (retries + 1) + ["generator"]


async def test_every_model_call_is_counted(engine: EngineName, folder: Path, session: str):
    model = Counted(wants(search("zzqx")), wants(add("20 + 1")), talk())
    first = await take(engine, folder, "One.", session=session, grants={Model: model}, analyst_window=2)
    assert (model.calls, first.state["tokens_used"]) == (["planner", "planner", "generator"], 2 * 1001 + 10005)
    second = await take(engine, folder, "Two.", session=session, grants={Model: model}, analyst_window=2)
    assert model.calls[3:] == ["planner", "generator", "summarizer"]
    assert second.state["tokens_used"] == first.state["tokens_used"] + 1001 + 10005 + 111
    assert second.metadata["tokens_used"] == second.state["tokens_used"]


async def test_unreported_tokens_are_estimated(engine: EngineName, folder: Path, session: str):
    short = await take(engine, folder, "One.", talk(), "First.", session=session)
    long = await take(engine, folder, "One.", talk(), "First." * 1000, session=next(SESSIONS))
    replanned = await take(engine, folder, "One.", wants(search("zzqx")), talk(), "First.", session=next(SESSIONS))
    assert 0 < short.state["tokens_used"] < 5000
    assert long.state["tokens_used"] == short.state["tokens_used"] + 1498 + 1
    assert replanned.state["tokens_used"] > 1.5 * short.state["tokens_used"]


# summarizer


async def test_a_summary_replaces_old_messages_in_later_prompts(engine: EngineName, folder: Path, session: str):
    model = ScriptedModel(talk(), "A1.", talk(), "A2.", talk(), "A3.", {"summary": "They asked Q1 and Q2."}, talk(), "A4.")
    async with app(engine, folder, grants={Model: model}, analyst_window=4) as running:
        results = [await running.run("analyst", f"Q{number}.", session=session) for number in range(1, 5)]
    assert [said(result) for result in results] == [
        ["Q1.", "A1."],
        ["Q1.", "A1.", "Q2.", "A2."],
        ["Q3.", "A3."],
        ["Q3.", "A3.", "Q4.", "A4."],
    ]
    assert results[2].output == "A3."
    for messages in model.messages[-2:]:
        told = json.loads(messages[-1].text)
        assert told["summary"] == "They asked Q1 and Q2."
        assert told["conversation"] == [{"role": "human", "text": "Q3."}, {"role": "ai", "text": "A3."}]
    assert all("summary" not in json.loads(messages[-1].text) for messages in model.messages[:6])


@pytest.mark.parametrize(
    "failure",
    [ModelUnavailable(), ModelTimeout(), ModelRefused(), ModelOutputInvalid(), RuntimeError("odd"), {"summary": ""}, "no JSON", {"s": 1}],
)
async def test_a_failed_summarizer_does_not_lose_the_answer(engine: EngineName, folder: Path, session: str, failure: Any):
    replies = (talk(), "A1.", talk(), "A2.", failure, talk(), "A3.", {"summary": "In short."})
    async with app(engine, folder, *replies, analyst_window=2) as running:
        results = [await running.run("analyst", f"Q{number}.", session=session) for number in range(1, 4)]
    assert [result.status for result in results] == ["success"] * 3
    assert [result.path for result in results] == [SHORT] * 3
    assert said(results[1]) == ["Q1.", "A1.", "Q2.", "A2."]
    assert (said(results[2]), results[2].state["summary"], results[2].output) == (["A3."], "In short.", "A3.")


@pytest.mark.usefixtures("time_passes")
@pytest.mark.parametrize(
    "limits", [{"max_model_calls": 2}, {"max_call_seconds": ENOUGH}, {"max_turn_seconds": ENOUGH}, {"max_tokens": 11_020}]
)
async def test_a_summarizer_over_budget_does_not_lose_the_answer(engine: EngineName, folder: Path, session: str, limits: dict[str, Any]):
    model = Counted(hangs="" if "max_tokens" in limits else "summarizer")
    await take(engine, folder, "Q1.", talk(), "A1.", session=session)
    async with app(engine, folder, grants={Model: model}, analyst_window=2, **limits) as running:
        result = await running.run("analyst", "Q2.", session=session)
    assert (result.status, result.path, result.output) == ("success", SHORT, "It is so.")
    assert model.running == 0
    third = await take(engine, folder, "Q3.", talk(), "A3.", session=session)
    assert said(third) == ["Q1.", "A1.", "Q2.", "It is so.", "Q3.", "A3."]


@settings(max_examples=12)
@given(st.integers(2, 6), st.integers(1, 12))
async def test_offline_the_history_stays_within_its_window(window: int, turns: int):
    async with app("direct", Path("/nonexistent"), checkpoint_url="memory:", analyst_window=window) as running:
        result = await running.run("analyst", "Hello 0!", session="s")
        for number in range(1, turns):
            result = await running.run("analyst", f"Hello {number}!", session="s")
            assert result.status == "success"
            assert len(result.state["messages"]) <= window
            assert said(result)[-1] == result.output
        assert bool(result.state["summary"]) == (2 * turns > window)
        if result.state["summary"] and turns < 8:
            assert "Hello 0!" in result.state["summary"]
