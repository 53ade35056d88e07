"""Turns of puntini that wait for a person, and go on with the answer: in this process or another, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from interlock import TurnResult
from interlock.adapters.people import LaterHuman, ScriptedHuman
from interlock.agents.puntini.spec import ABORT, MORE, OPTIONS, RETRY, SKIP
from interlock.capabilities import Decision, Human, Message, Model, Question
from interlock.engine import ENGINES, EngineName
from interlock.errors import InputError, InterlockError, NothingWaits, RecordInvalid, StateIncompatible, TurnWaiting
from interlock.runtime.events import Event
from interlock.testing import ScriptedModel
from tests.support.puntini import ESCALATED, Desk, Watched, final, many, opened, simple, step, told

T = TypeVar("T", bound=BaseModel)

OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}
ADD, NEXT = step("add_node", label="Task", key="a"), step("add_node", number=2, label="Task", key="b")
EDGE = step("add_edge", number=2, from_node="a", to_node="missing", relationship="NEEDS")
PLAN = many("add a", "join it", "add b"), ADD, EDGE, EDGE
"""One step succeeds, the next fails twice the same way."""


class Silent(ScriptedModel):
    """A model that must not be asked."""

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        raise AssertionError("the model was asked")


@pytest.fixture
async def desk(engine: EngineName, tmp_path: Path) -> AsyncGenerator[Desk]:
    store = opened("ladybug", tmp_path / "graphs")
    yield Desk(engine, tmp_path, Watched(store), "s")
    await store.aclose()


def files(desk: Desk) -> list[str]:
    return sorted(path.name for path in (desk.folder / "turns").iterdir())


async def waiting(desk: Desk, **more: Any) -> TurnResult:
    return await desk.take("Do it.", *PLAN, human="wait", **more)


async def silent(desk: Desk, text: str, **more: Any) -> TurnResult:
    return await desk.answer(text, grants={Model: Silent()}, **more)


async def test_a_turn_waits_with_its_question_and_goes_on_without_doing_anything_twice(desk: Desk):
    events: list[Event] = []
    result = await waiting(desk, on_event=events.append)
    assert (result.status, result.error, result.path[-1]) == ("waiting", None, "escalate")
    asked = result.metadata["waiting"]
    assert (asked["options"], asked["recommended"]) == (list(OPTIONS), RETRY)
    assert asked["question"] == result.output
    assert "Step 2 of 'Do it.'" in asked["question"]
    assert "'missing'" in asked["question"]
    assert json.loads(json.dumps(result.to_json()))["metadata"]["waiting"] == asked
    assert len(result.state["done"]) == 1
    assert files(desk) == ["puntini-s.waiting"]
    assert (desk.folder / "turns" / "puntini-s.waiting").stat().st_mode & 0o077 == 0, "only its owner may read it"
    assert events[-1]["event"] == "on_chain_end"
    applied = len(desk.store.applied)
    assert applied == 1
    desk.engine = OTHER[desk.engine]
    again: list[Event] = []
    answered = await silent(desk, "Leave it.", on_event=again.append)
    assert (answered.status, answered.path, answered.turn) == ("success", (*result.path, "answer"), result.turn)
    assert len(desk.store.applied) == applied
    assert "You said: Leave it." in answered.output
    assert "added Task a" in answered.output
    assert await desk.nodes() == [("Task", "a", {})]
    assert files(desk) == []
    assert [event["event"] for event in again[:5]] == [event["event"] for event in events[:5]], "it is told from its beginning"


async def test_the_same_application_can_go_on_too(desk: Desk):
    async with desk.app(*PLAN) as app:
        result = await app.run("puntini", "Do it.", session="s")
        assert result.status == "waiting"
        answered = await app.answer("puntini", "3", session="s")
        assert answered.state["escalation"].choice == ABORT, "a number stands for an option"
        assert len(desk.store.applied) == 1
        with pytest.raises(NothingWaits):
            await app.answer("puntini", "3", session="s")


async def test_a_turn_can_wait_twice(desk: Desk):
    first = await waiting(desk)
    second = await silent(desk, MORE)
    assert (second.status, second.turn, files(desk)) == ("waiting", first.turn, ["puntini-s.waiting"])
    assert second.metadata["waiting"] == {"question": "What should I know?", "options": [], "recommended": ""}
    third = await silent(desk, "There is no such task.")
    assert (third.status, third.state["carried"], third.path[-2:]) == ("success", "There is no such task.", ESCALATED)
    assert (len(desk.store.applied), files(desk)) == (1, [])


@pytest.mark.parametrize("engine", ["direct"], indirect=True)
@pytest.mark.parametrize(("said", "carried"), [(RETRY, RETRY), ("It is Task:b.", "It is Task:b."), (SKIP, f"{SKIP}: join it"), (ABORT, "")])
async def test_what_a_person_chooses_is_there_in_the_next_turn_and_only_there(desk: Desk, said: str, carried: str):
    await waiting(desk)
    answered = await silent(desk, said)
    assert answered.metadata["next"] == ("Do it." if carried else None)
    await desk.take("Do it.", many("b"), final("add_node", label="Task", key="b"))
    assert desk.model is not None
    assert [one.get("person", "") for one in told(desk.model)] == [carried, carried]
    await desk.take("Do it.", simple("query_graph"))
    assert [one.get("person", "") for one in told(desk.model)] == [""]


async def test_before_the_answer_no_other_turn_is_taken(desk: Desk):
    await waiting(desk)
    before, kept = await desk.all(), (desk.folder / "turns" / "puntini-s.waiting").read_bytes()
    with pytest.raises(TurnWaiting) as refused:
        await desk.take("Add.", simple("add_node", label="Task", key="x"))
    assert refused.value.code == "turn_waiting"
    assert "--answer" in refused.value.message
    assert await desk.all() == before
    assert (desk.folder / "turns" / "puntini-s.waiting").read_bytes() == kept
    other = Desk(desk.engine, desk.folder, desk.store, "other")
    assert (await other.take("Add.", simple("add_node", label="Task", key="x"))).status == "success"
    assert (await silent(desk, ABORT)).status == "success"
    assert (await desk.take("Look.", simple("query_graph"))).status == "success"


async def test_an_answer_needs_a_question_and_words(desk: Desk):
    with pytest.raises(NothingWaits) as refused:
        await desk.answer("Yes.")
    assert refused.value.code == "nothing_waits"
    await waiting(desk)
    for text in ("", " ", "\0", "\ud800", "x" * 2_000):
        with pytest.raises(InputError):
            await silent(desk, text, max_input_bytes=1_000)
    for session in ("", "../s", "s.waiting"):
        async with desk.app() as app:
            with pytest.raises(InputError):
                await app.answer("puntini", "Yes.", session=session)
    assert files(desk) == ["puntini-s.waiting"]


async def test_with_nobody_there_the_turn_goes_on(desk: Desk):
    result = await waiting(desk, grants={Human: ScriptedHuman()})
    assert (result.status, result.path[-2:], files(desk)) == ("success", ESCALATED, [])
    alone = await desk.take("Do it.", *PLAN)
    assert (alone.status, alone.state["escalation"].choice) == ("success", None)
    assert "Nobody was there to be asked." in alone.output
    scripted = await waiting(desk, grants={Human: ScriptedHuman(SKIP)})
    assert scripted.state["carried"] == f"{SKIP}: join it"


async def test_a_turn_of_other_contracts_is_not_gone_on_with(desk: Desk):
    await waiting(desk)
    path = desk.folder / "turns" / "puntini-s.waiting"
    heading, *rest = path.read_text().splitlines(keepends=True)
    changed = json.loads(heading)
    changed["heading"]["fingerprint"] = "0" * 64
    path.write_text("".join([json.dumps(changed) + "\n", *rest]))
    with pytest.raises(StateIncompatible):
        await silent(desk, "Yes.")
    assert (path.exists(), len(desk.store.applied)) == (True, 1)


async def test_a_damaged_file_is_refused_and_kept(desk: Desk):
    await waiting(desk)
    path = desk.folder / "turns" / "puntini-s.waiting"
    for damage in (b"", b"\xff\xfe", b"{}\n", b'{"heading": {}}\n', b'{"entry": {}}\n', b"[[[[\n", b"\0" * 100):
        path.write_bytes(damage)
        with pytest.raises(RecordInvalid) as refused:
            await silent(desk, "Yes.")
        assert str(path) in refused.value.message
        assert (path.read_bytes(), len(desk.store.applied)) == (damage, 1)


async def test_two_answers_at_once_are_one(desk: Desk):
    await waiting(desk)

    async def say(text: str) -> TurnResult | InterlockError:
        try:
            return await silent(desk, text)
        except InterlockError as error:
            return error

    said = await asyncio.gather(say("One."), say("Two."))
    results = [one for one in said if isinstance(one, TurnResult)]
    [refused] = [one for one in said if isinstance(one, InterlockError)]
    assert [one.status for one in results] == ["success"]
    assert refused.code in {"nothing_waits", "record_invalid", "store_unavailable"}
    assert (len(desk.store.applied), files(desk)) == (1, [])


async def test_two_answers_to_one_application_are_one(desk: Desk):
    await waiting(desk)
    async with desk.app(grants={Model: Silent()}) as app:
        said = await asyncio.gather(*(app.answer("puntini", text, session="s") for text in ("One.", "Two.")), return_exceptions=True)
    assert sorted(type(one).__name__ for one in said)[1:] == ["TurnResult"]
    [refused] = [one for one in said if not isinstance(one, TurnResult)]
    assert isinstance(refused, InterlockError)
    assert files(desk) == []


async def test_an_answer_is_not_taken_for_one_to_the_next_question(desk: Desk):
    await waiting(desk)
    both = asyncio.Event()

    class Slow(LaterHuman):
        """Hears the first answer only when the second one has come."""

        async def ask(self, question: Question) -> str | None:
            await both.wait()
            return await super().ask(question)

    async with desk.app(grants={Model: Silent(), Human: Slow()}) as app:
        tasks = [asyncio.create_task(app.answer("puntini", text, session="s")) for text in (MORE, "Two.")]
        await asyncio.sleep(0)
        both.set()
        first, second = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(first, TurnResult)
        assert first.status == "waiting"
        assert isinstance(second, RecordInvalid)
        third = await app.answer("puntini", "Three.", session="s")
    assert (third.state["escalation"].choice, files(desk)) == ("Three.", [])


async def test_an_answer_that_was_cut_short_can_be_given_again(desk: Desk):
    await waiting(desk)
    task = asyncio.create_task(silent(desk, "One."))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert files(desk) == ["puntini-s.waiting"]
    answered = await silent(desk, "Two.")
    assert answered.status == "success"
    assert answered.state["escalation"].choice in {"One.", "Two."}, "the first one, if it was heard already"
    assert (len(desk.store.applied), files(desk)) == (1, [])


CRASHING = """
    import asyncio, os, signal, sys
    from pathlib import Path

    from interlock import Interlock, Settings
    from interlock.adapters.graphs.ladybug import open_ladybug
    from interlock.capabilities import Model
    from interlock.capabilities.graph_store import GraphStore
    from interlock.testing import ScriptedModel
    from tests.support.puntini import LIMITS, Watched, final, many, step

    folder, engine = Path(sys.argv[1]), sys.argv[2]

    class Dying(ScriptedModel):
        async def decide(self, messages, *, schema):
            if len(self.messages) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return await super().decide(messages, schema=schema)

    async def main():
        model = Dying(many("add a", "add b"), step("add_node", label="Task", key="a"), final("add_node", label="Task", key="b"))
        async with Interlock(Settings(engine=engine, data_dir=folder), grants={Model: model}) as app:
            await app.run("puntini", "Do it.", session="s")

    asyncio.run(main())
"""


async def test_a_process_that_was_killed_leaves_a_whole_graph_and_room_for_the_next_turn(engine: EngineName, tmp_path: Path):
    command = [sys.executable, "-c", textwrap.dedent(CRASHING), str(tmp_path), engine]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False, timeout=120)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    store = opened("ladybug", tmp_path / "graphs")
    desk = Desk(engine, tmp_path, Watched(store), "s")
    assert [name.endswith(".running") for name in files(desk)] == [True]
    assert await desk.nodes() == [("Task", "a", {})]
    with pytest.raises(NothingWaits):
        await desk.answer("Yes.")
    result = await waiting(desk)
    assert (result.status, files(desk)) == ("waiting", ["puntini-s.waiting"])
    await store.aclose()


async def test_what_is_not_understood_is_answered_at_once_and_the_next_line_is_a_new_goal(desk: Desk):
    result = await desk.take("Frobnicate Design", human="wait")
    assert (result.status, result.path[-2:]) == ("success", ("escalate", "answer"))
    assert "Frobnicate Design" in result.output
    assert not result.metadata["next"]
    assert (await desk.take("Create a task Design", human="wait")).status == "success"


async def test_a_model_can_reply_to_what_is_no_goal(desk: Desk):
    greeting = {
        "goal": {"original_goal": "hi", "intent": "greeting", "complexity": "simple", "reply": "Hello. What is to be in the graph?"}
    }
    result = await desk.take("hi", greeting, human="wait")
    assert (result.status, result.output) == ("success", "Hello. What is to be in the graph?")
