"""What can be said after a turn that failed: as far as the model had come, and nothing that it said before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Secret, Settings, Subgraph, TurnResult, discovery, node
from interlock import app as app_module
from interlock.agent import Agent
from interlock.capabilities import Chunk, Ids, Message, Model, Tool
from interlock.engine import ENGINES, EngineName
from interlock.errors import ModelError, ModelUnavailable
from interlock.runtime.events import Event
from interlock.testing import CountingIds, Scripted, ScriptedModel
from tests.support.analyst import KEY, add, talk, wants
from tests.support.analyst import take as take_analyst
from tests.support.passing import ENOUGH, run_out

TOKEN = "hunter2-" + "q7w8e9"
OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}
DOWN = ModelUnavailable("The line is dead.")


class Talk(TypedDict, total=False):
    text: str
    token: Annotated[str, Secret]
    first: str
    out: str


class Begun(Outcome):
    first: str
    token: str


class Done(Outcome):
    out: str


async def heard(model: Model, text: str) -> str:
    return "".join([piece.text async for piece in model.stream([Message(role="user", text=text)])])


async def begin(text: str, *, model: Model) -> Begun:
    return Begun(first=await heard(model, text), token=TOKEN)


async def finish(text: str, first: str, token: str, *, model: Model) -> Done:
    if text == "dies":
        raise RuntimeError("broken")
    if text == "at once":
        return Done(out="".join(await asyncio.gather(heard(model, "a"), heard(model, "b"))))
    if text == "again":
        try:
            await heard(model, "a")
        except ModelError:
            return Done(out=await heard(model, "b"))
    return Done(out=await heard(model, first))


talking = Graph(
    "talking",
    state=Talk,
    entry=begin,
    nodes=[node(begin, goes={Begun: finish}), node(finish, goes={Done: END})],
    takes=["text"],
    gives="out",
)


def shown(state: Mapping[str, Any], spoken: str) -> Any:
    """Show all that there is."""
    return {"fields": sorted(state), "first": state.get("first"), "spoken": spoken}


Choose = Callable[..., None]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Choose:
    """Say what an agent says after a turn that failed."""
    bare = discovery.agent_of

    def set_partial(partial: Any) -> None:
        def agent_of(graph: Graph) -> Agent:
            return replace(bare(graph), partial=partial)

        monkeypatch.setattr(app_module, "agent_of", agent_of)

    set_partial(shown)
    return set_partial


def app(engine: EngineName, *replies: Scripted, model: object | None = None, **settings: Any) -> Interlock:
    return Interlock(Settings(engine=engine, **settings), grants={Model: model or ScriptedModel(*replies), Ids: CountingIds()})


def ending(result: TurnResult) -> tuple[str, Any]:
    assert result.error is not None
    assert result.status == "error"
    return result.error.code, result.output


@pytest.mark.usefixtures("choose")
async def test_it_has_what_was_streamed_before_the_error_and_the_state_so_far(engine: EngineName):
    result = await app(engine, ["The answer ", "is forty-", DOWN]).run(talking, "hi")
    assert ending(result) == ("model_unavailable", {"fields": ["text"], "first": None, "spoken": "The answer is forty-"})


@pytest.mark.usefixtures("choose")
async def test_it_has_letters_of_every_alphabet(engine: EngineName):
    result = await app(engine, "first", ["Grüße, ", "мир", DOWN]).run(talking, "x", session="s")
    assert result.output["spoken"] == "Grüße, мир"


@pytest.mark.usefixtures("choose")
async def test_every_node_begins_with_a_new_config(engine: EngineName):
    result = await app(engine, "The first.", ["The sec", DOWN]).run(talking, "hi")
    assert ending(result) == ("model_unavailable", {"fields": ["first", "text", "token"], "first": "The first.", "spoken": "The sec"})
    result = await app(engine, "The first.").run(talking, "dies")
    assert ending(result)[1]["spoken"] == ""


@pytest.mark.usefixtures("choose")
async def test_a_node_that_asks_again_has_said_both(engine: EngineName):
    result = await app(engine, "First.", ["one ", DOWN], ["two ", DOWN]).run(talking, "again")
    assert ending(result)[1]["spoken"] == "one two "


class Choir:
    """Streams two texts at once, a letter each in turn, until one breaks off."""

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        text = messages[-1].text
        for number in range(5):
            await asyncio.sleep(0)
            yield Chunk(text=f"{text}{number}")
        if text == "b":
            raise DOWN

    async def reply(self, *_: Any, **__: Any) -> Any: ...

    async def decide(self, *_: Any, **__: Any) -> Any: ...


@pytest.mark.usefixtures("choose")
async def test_of_streams_at_once_everything_is_there_in_its_order(engine: EngineName):
    result = await app(engine, model=Choir()).run(talking, "at once")
    code, output = ending(result)
    assert code == "model_unavailable"
    for letter in "ab":
        assert [digit for one, digit in zip(output["spoken"][::2], output["spoken"][1::2], strict=True) if one == letter] == list("01234")


@pytest.mark.usefixtures("choose")
@pytest.mark.parametrize("limits", [{"max_tokens": 6}, {"max_output_bytes": 24}], ids=str)
async def test_a_budget_that_is_used_up_leaves_what_was_said(engine: EngineName, limits: dict[str, Any]):
    result = await app(engine, "First.", [f"word{number} " for number in range(9)], **limits).run(talking, "hi")
    code, output = ending(result)
    assert code == "budget_exceeded"
    assert output["spoken"].startswith("word0 word1 ")
    assert "word8" not in output["spoken"]


class Slow(Choir):
    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        yield Chunk(text="I was ")
        yield Chunk(text="about to ")
        await run_out()


@pytest.mark.usefixtures("choose", "time_passes")
@pytest.mark.parametrize("limits", [{"max_turn_seconds": ENOUGH}, {"max_call_seconds": ENOUGH}], ids=str)
async def test_time_that_runs_out_leaves_what_was_said(engine: EngineName, limits: dict[str, Any]):
    result = await app(engine, model=Slow(), **limits).run(talking, "hi")
    assert ending(result)[1]["spoken"] == "I was about to "


@pytest.mark.usefixtures("choose")
async def test_it_is_repeated_by_a_replay(engine: EngineName, tmp_path: Path):
    scripts: list[tuple[Scripted, ...]] = [("First.", ["a ", DOWN]), (["a ", "b ", DOWN],), ("First.", "x")]
    for number, replies in enumerate(scripts):
        text = "dies" if number == 2 else "hi"
        path = tmp_path / str(number)
        before = await app(engine, *replies).run(talking, text, record=path)
        replay = await app(OTHER[engine]).replay(path, graph=talking)
        assert (replay.differences, replay.result.output) == ((), before.output)


@pytest.mark.parametrize("secret", [TOKEN, KEY], ids=["labelled", "pattern"])
@pytest.mark.usefixtures("choose")
async def test_a_secret_in_it_is_in_no_event(engine: EngineName, secret: str):
    events: list[Event] = []
    half = len(secret) // 2
    replies: list[Scripted] = ["First.", [f"It is {secret[:half]}", f"{secret[half:]}.", f" Or {secret}", DOWN]]
    result = await app(engine, *replies).run(talking, "hi", on_event=events.append)
    assert ending(result)[0] == "model_unavailable"
    assert secret not in json.dumps(events)
    told = events[-1]["data"]["output"]["output"]["spoken"]
    assert told == "It is [redacted]. Or [redacted]"
    if secret == TOKEN:
        assert secret not in json.dumps(result.to_json())


async def test_a_secret_of_the_state_in_it_is_in_no_event(choose: Choose, engine: EngineName):
    def careless(state: Mapping[str, Any], _spoken: str) -> Any:
        return {"token": state["token"], state["token"]: [f"<{state['token']}>"]}

    choose(careless)
    events: list[Event] = []
    result = await app(engine, "First.", ["x", DOWN]).run(talking, "hi", on_event=events.append)
    assert TOKEN not in json.dumps(events) + json.dumps(result.to_json())


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyError(TOKEN), DOWN, RecursionError()], ids=lambda error: type(error).__name__)
async def test_where_it_cannot_be_made_the_turn_ends_as_it_would(choose: Choose, engine: EngineName, error: Exception):
    def broken(_state: Mapping[str, Any], _spoken: str) -> Any:
        raise error

    choose(broken)
    events: list[Event] = []
    result = await app(engine, "First.", ["x", ModelUnavailable("Really down.")]).run(talking, "hi", on_event=events.append)
    assert ending(result) == ("model_unavailable", None)
    assert result.error is not None
    assert result.error.message == "Really down."
    assert events[-1]["data"]["output"]["status"] == "error"


@pytest.mark.usefixtures("time_passes")
async def test_it_is_asked_for_once_and_only_after_a_failure(choose: Choose, engine: EngineName):
    calls: list[str] = []

    def count(_state: Mapping[str, Any], spoken: str) -> str:
        calls.append(spoken)
        return spoken

    choose(count)
    assert (await app(engine, "First.", "Second.").run(talking, "hi")).output == "Second."
    assert calls == []
    assert ending(await app(engine, ["x", DOWN]).run(talking, "hi")) == ("model_unavailable", "x")
    assert calls == ["x"]
    task = asyncio.create_task(app(engine, model=Slow()).run(talking, "hi"))
    for _ in range(50):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls == ["x"]


async def test_without_it_a_failed_turn_says_nothing(engine: EngineName):
    scripts: list[tuple[Scripted, ...]] = [(["a ", DOWN],), ("First.", ["b ", DOWN])]
    for replies in scripts:
        assert ending(await app(engine, *replies).run(talking, "hi")) == ("model_unavailable", None)
    assert ending(await app(engine, "First.").run(talking, "dies")) == ("node_failed", None)
    for agent in ("sam", "desk"):
        assert discovery.load_agent(agent).partial is None


@pytest.mark.usefixtures("choose")
async def test_turns_at_once_do_not_hear_one_another(engine: EngineName):
    running = app(engine, model=Echo())
    results = await asyncio.gather(*(running.run(talking, f"t{number}") for number in range(20)))
    assert [ending(result)[1]["spoken"] for result in results] == [f"t{number} " * 3 for number in range(20)]


class Echo(Choir):
    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        for _ in range(3):
            await asyncio.sleep(0)
            yield Chunk(text=f"{messages[-1].text} ")
        raise DOWN


class Low(Capability, Protocol):
    async def fetch(self, text: str) -> str: ...


@pytest.mark.usefixtures("choose")
async def test_what_a_graph_inside_streamed_counts(engine: EngineName):
    async def outer(text: str, *, low: Low) -> Done:
        found = await low.fetch(text)
        if text == "after":
            raise RuntimeError(found)
        return Done(out=found)

    graph = Graph("top", state=Talk, entry=outer, nodes=[node(outer, goes={Done: END})], takes=["text"], gives="out")
    scripts: list[tuple[str, tuple[Scripted, ...], str]] = [
        ("hi", (["in", DOWN],), "in"),
        ("hi", ("First.", ["sec", DOWN]), "sec"),
        ("after", ("First.", "Second."), "Second."),
    ]
    for text, replies, spoken in scripts:
        grants: dict[type, object] = {Low: Subgraph(talking), Model: ScriptedModel(*replies)}
        result = await Interlock(Settings(engine=engine), grants=grants).run(graph, text)
        assert ending(result)[1]["spoken"] == spoken


@given(st.lists(st.text(max_size=8), max_size=6), st.lists(st.text(max_size=8), max_size=6))
def test_all_that_is_streamed_is_there_letter_for_letter(first: list[str], second: list[str]):
    with pytest.MonkeyPatch.context() as patch:
        bare = discovery.agent_of

        def agent_of(graph: Graph) -> Agent:
            return replace(bare(graph), partial=shown)

        patch.setattr(app_module, "agent_of", agent_of)
        result = asyncio.run(app("direct", [*first], [*second, DOWN]).run(talking, "hi"))
    assert ending(result)[1]["spoken"] == "".join(second)


# The analyst


async def test_the_analyst_says_as_much_of_its_answer_as_it_had(engine: EngineName, tmp_path: Path):
    result = await take_analyst(engine, tmp_path, "Sums.", wants(add("2 + 3")), ["Five, ", "that is", DOWN])
    assert ending(result) == ("model_unavailable", "Five, that is")
    result = await take_analyst(engine, tmp_path, "Sums.", wants(add("2 + 3")), [" ", DOWN])
    code, output = ending(result)
    assert (code, output.splitlines()[0]) == ("model_unavailable", "Found so far:")
    assert "calculate" in output
    assert "5" in output
    assert ending(await take_analyst(engine, tmp_path, "Sums.", DOWN)) == ("model_unavailable", None)
    after = await take_analyst(engine, tmp_path, "Hello.", talk(), "Good day.")
    assert [message.content for message in after.state["messages"]] == ["Hello.", "Good day."]
