"""Turns of puntini that wait for a person, and go on with the answer: in this process or another, and nothing twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import BaseModel

from interlock import TurnResult
from interlock.capabilities import Decision, Human, Message, Model, Question
from interlock.engine import ENGINES, EngineName
from interlock.errors import InputError, InterlockError, ModelRefused, NothingWaits, StateIncompatible, StoreUnavailable
from interlock.human import LaterHuman, ScriptedHuman
from interlock.runtime.events import Event
from interlock.runtime.turns import TurnFilter
from interlock.testing import ScriptedModel
from interlock_agents.puntini.nodes import MAX_STEPS
from interlock_agents.puntini.spec import ABORT, MORE, OPTIONS, RETRY, RUN, SKIP
from tests.support.puntini import ESCALATED, STEP, Desk, Watched, final, many, opened, simple, step, told, tool

T = TypeVar("T", bound=BaseModel)

OTHER: dict[EngineName, EngineName] = {ENGINES[0]: ENGINES[1], ENGINES[1]: ENGINES[0]}
ADD, NEXT = step("add_node", label="Task", key="a"), step("add_node", number=2, label="Task", key="b")
EDGE = step("add_edge", number=2, from_node="a", to_node="missing", relationship="NEEDS")
PLAN = many("add a", "join it"), ADD, EDGE, EDGE
"""One step succeeds, the next fails twice the same way."""
FOR_NOW = many("add a", "join it"), ADD, EDGE
"""The same where the graph cannot be read: the call that failed is made again without asking the model."""
LONGER = many("add a", "join it", "add b"), ADD, EDGE
AMBIGUOUS = simple("update_props", target="Design", properties={"priority": 3})


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
    """The open turns in the store, with their status."""
    if not (desk.folder / "turns.db").exists():
        return []
    with contextlib.closing(sqlite3.connect(desk.folder / "turns.db")) as connection:
        joined = "SELECT agent, session, status FROM turns JOIN sessions ON sessions.number = turns.place"
        rows = connection.execute(f"{joined} WHERE status IN ('queued', 'ready', 'running', 'waiting')")
        return sorted(f"{agent}-{session}.{status}" for agent, session, status in rows)


async def waiting(desk: Desk, **more: Any) -> TurnResult:
    """Take a turn that has done one step, and waits for what a person says about the next one."""
    with desk.store.unreadable():
        return await desk.take("Do it.", *FOR_NOW, human="wait", **more)


async def silent(desk: Desk, text: str, **more: Any) -> TurnResult:
    return await desk.answer(text, grants={Model: Silent()}, **more)


async def test_a_suspended_turn_resumes_without_repeating_calls(desk: Desk):
    events: list[Event] = []
    result = await waiting(desk, on_event=events.append)
    assert (result.status, result.error, result.path[-1]) == ("waiting", None, "escalate")
    asked = result.metadata["waiting"]
    assert (asked["options"], asked["recommended"]) == (list(OPTIONS), RETRY)
    assert asked["question"] == result.output
    assert "step 2 of 'Do it.'" in asked["question"]
    assert "The disk is away." in asked["question"]
    assert json.loads(json.dumps(result.to_json()))["metadata"]["waiting"] == asked
    assert len(result.state["done"]) == 1
    assert files(desk) == ["puntini-s.waiting"]
    assert (desk.folder / "turns.db").stat().st_mode & 0o077 == 0, "only its owner may read it"
    assert events[-1]["event"] == "on_chain_end"
    applied = len(desk.store.applied)
    assert applied == 1
    desk.engine = OTHER[desk.engine]
    again: list[Event] = []
    answered = await silent(desk, "skip", on_event=again.append)
    assert (answered.status, answered.path, answered.turn) == ("success", (*result.path, "answer"), result.turn)
    assert len(desk.store.applied) == applied
    assert "Left out, as you said: join it." in answered.output
    assert "Added Task a." in answered.output
    assert await desk.nodes() == [("Task", "a", {})]
    assert files(desk) == []
    assert [event["event"] for event in again[:5]] == [event["event"] for event in events[:5]], "it is told from its beginning"


async def test_the_same_application_can_resume(desk: Desk):
    async with desk.app(*FOR_NOW) as app:
        with desk.store.unreadable():
            result = await app.run("puntini", "Do it.", session="s")
        assert result.status == "waiting"
        answered = await app.answer("puntini", "3", session="s")
        assert answered.state["escalation"].choice == ABORT, "a number stands for an option"
        assert (len(desk.store.applied), await desk.nodes()) == (2, []), "what had been added is taken back"
        with pytest.raises(NothingWaits):
            await app.answer("puntini", "3", session="s")


async def test_a_turn_can_be_suspended_twice(desk: Desk):
    first = await waiting(desk)
    second = await silent(desk, MORE)
    assert (second.status, second.turn, files(desk)) == ("waiting", first.turn, ["puntini-s.waiting"])
    assert second.metadata["waiting"] == {"question": "What should I know?", "options": [], "recommended": ""}
    third = await desk.answer("There is no such task.", final("add_node", label="Task", key="missing"))
    assert (third.status, third.path[0], files(desk)) == ("success", "parse_goal", [])
    assert desk.model is not None
    assert [one["person"] for one in told(desk.model)] == ["There is no such task."]
    assert (len(desk.store.applied), len(third.state["done"])) == (2, 2)


async def two_of_a_name(desk: Desk) -> None:
    await desk.take("Add.", simple("add_node", label="Task", key="Design"))
    await desk.take("Add.", simple("add_node", label="Person", key="Design"))


@pytest.mark.parametrize("said", ["Task", "the task", "Task Design", "2", "I mean Task:Design."])
async def test_an_answer_is_applied_at_once_in_one_reply(desk: Desk, said: str):
    await two_of_a_name(desk)
    asked = await desk.take("Set it.", AMBIGUOUS, human="wait")
    assert (asked.status, asked.metadata["waiting"]["options"]) == ("waiting", ["Person Design", "Task Design"])
    answered = await silent(desk, said)
    assert answered.output == "You mean Task Design. Changed Task Design (priority: 3)."
    assert (answered.status, answered.metadata["next"], answered.state["pending"], files(desk)) == ("success", None, None, [])
    assert await desk.nodes() == [("Person", "Design", {}), ("Task", "Design", {"priority": 3})]
    assert len(desk.store.applied) == 3


async def test_an_answer_within_the_turn_is_applied(desk: Desk):
    await two_of_a_name(desk)
    result = await desk.take("Set it.", AMBIGUOUS, grants={Human: ScriptedHuman("the person")})
    assert result.output == "You mean Person Design. Changed Person Design (priority: 3)."


async def test_skip_performs_the_rest(desk: Desk):
    plan = {**many("add a", "join it", "add b"), "tool": ADD["tool_signature"], "then": [EDGE["tool_signature"], NEXT["tool_signature"]]}
    with desk.store.unreadable():
        assert (await desk.take("Do it.", plan, human="wait")).status == "waiting"
    answered = await silent(desk, "skip")
    assert (answered.status, answered.path) == ("success", ("parse_goal", *STEP, "answer"))
    assert await desk.nodes() == [("Task", "a", {}), ("Task", "b", {})]
    assert "Left out, as you said:\n- join it" in answered.output
    assert "1. added Task a\n2. added Task b" in answered.output


async def test_retry_calls_the_model_for_another_plan(desk: Desk):
    await waiting(desk)
    answered = await desk.answer("retry", final("add_node", label="Task", key="missing"))
    assert answered.status == "success"
    assert desk.model is not None
    assert RETRY in told(desk.model)[0]["person"]
    assert "The disk is away." in told(desk.model)[0]["person"]
    assert [node[1] for node in await desk.nodes()] == ["a", "missing"]


@pytest.mark.parametrize("said", [ABORT, "cancel"])
async def test_abort_leaves_nothing_behind(desk: Desk, said: str):
    before = await desk.all()
    await waiting(desk)
    answered = await silent(desk, said)
    assert (answered.status, answered.metadata["next"], await desk.all()) == ("success", None, before)
    assert "the graph is as it was before" in answered.output


@pytest.mark.parametrize("human", ["wait", "nobody"])
async def test_an_impossible_goal_asks_no_question_and_leaves_nothing_behind(desk: Desk, human: str):
    before = await desk.all()
    result = await desk.take("Do it.", *PLAN, human=human)
    assert (result.status, result.path[-2:], files(desk), await desk.all()) == ("success", ESCALATED, [], before)
    assert "There is no node 'missing' in the graph." in result.output
    assert "taken back" in result.output


@pytest.mark.parametrize(
    ("goal", "missing"),
    [
        ("create a company Acme in Berlin", "Berlin"),
        ("create a task A and assign Buzz to Flag", "Flag"),
        ("create a task A and delete B", "B"),
    ],
)
async def test_an_unknown_name_is_reported_and_earlier_actions_are_undone(desk: Desk, goal: str, missing: str):
    result = await desk.take(goal, human="wait")
    assert (result.status, await desk.all(), files(desk)) == ("success", ([], []), [])
    assert f"There is no node '{missing}' in the graph." in result.output
    assert "the graph is as it was before" in result.output
    assert "ended" not in (await desk.take("List all tasks", human="wait")).metadata, "nothing was waiting"


async def test_changes_that_cannot_be_undone_are_reported(desk: Desk):
    desk.store.fails = {2: StoreUnavailable("The disk is gone.")}
    result = await desk.take("Do it.", *PLAN)
    assert "stays in the graph. It could not be taken back: The disk is gone." in result.output
    assert await desk.nodes() == [("Task", "a", {})]


async def test_an_answer_is_never_used_for_another_goal(desk: Desk):
    await two_of_a_name(desk)
    await desk.take("Set it.", AMBIGUOUS, human="wait")
    crashed = StoreUnavailable("Gone.")
    desk.store.always = crashed
    await silent(desk, "task")
    desk.store.always = None
    other = await desk.take("Set another.", AMBIGUOUS, human="wait")
    assert (other.status, desk.model and "person" in told(desk.model)[0]) == ("waiting", False)


async def test_a_new_goal_ends_the_suspended_one_and_says_so(desk: Desk):
    await waiting(desk)
    result = await desk.take("Look.", simple("query_graph"), human="wait")
    assert (result.status, result.output, files(desk)) == ("success", "Nothing in the graph is like that.", [])
    assert "Given up: 'Do it.'." in result.metadata["ended"]
    assert "the graph is as it was before" in result.metadata["ended"]
    assert await desk.nodes() == []
    assert "ended" not in (await desk.take("Look.", simple("query_graph"))).metadata
    with pytest.raises(NothingWaits):
        await silent(desk, "1")


async def test_a_suspended_turn_of_another_session_is_unaffected(desk: Desk):
    await waiting(desk)
    other = Desk(desk.engine, desk.folder, desk.store, "other")
    assert (await other.take("Add.", simple("add_node", label="Task", key="x"))).status == "success"
    assert (await silent(desk, ABORT)).status == "success"


async def test_the_open_question_can_be_read_again(desk: Desk):
    first = await waiting(desk)
    desk.engine = OTHER[desk.engine]
    for _ in range(2):
        async with desk.app(grants={Model: Silent()}) as app:
            again = await app.waiting("puntini", session="s")
            assert await app.waiting("puntini", session="nobody") is None
        assert again is not None
        assert (again.status, again.turn, again.metadata, again.path) == ("waiting", first.turn, first.metadata, first.path)
    assert files(desk) == ["puntini-s.waiting"]
    assert len(desk.store.applied) == 1
    assert (await silent(desk, "skip")).status == "success"


RAW = "MATCH (n:Task) SET n.size = 1"


async def test_cypher_that_writes_is_run_after_approval_of_exactly_that_text(desk: Desk):
    await two_of_a_name(desk)
    asked = await desk.take("Do it.", simple("cypher_query", query=RAW), human="wait")
    assert (asked.status, asked.metadata["waiting"]["options"]) == ("waiting", [RUN, "no"])
    assert "It would change 1 node." in asked.output
    assert RAW in asked.output
    assert len(desk.store.applied) == 2
    answered = await silent(desk, "yes")
    assert answered.output == "You approved it. Changed Task Design (size: 1)."
    assert (answered.state["approved"], len(desk.store.applied)) == (RAW, 3)
    again = await desk.take("Do it.", simple("cypher_query", query="MATCH (n:Task) SET n.size = 2"), human="wait")
    assert again.status == "waiting", "what was approved once is not approved for another text, or another turn"
    assert (await silent(desk, "no")).output.startswith("Given up")
    assert len(desk.store.applied) == 3


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("MATCH (n:Task {key: 'x'}) DELETE n", "nothing in it matched"),
        ("MATCH (n:Task {key: 'x'}) SET n.size = 1", "nothing in it matched"),
        ("MATCH (n:Task) REMOVE n.size", "it was so already"),
    ],
)
async def test_cypher_without_effect_says_why_and_needs_no_approval(desk: Desk, query: str, why: str):
    await two_of_a_name(desk)
    result = await desk.take(query, human="wait")
    assert (result.status, result.output) == ("success", f"Nothing changed in the graph: {why}.")


async def test_a_model_cannot_approve_anything(desk: Desk):
    await two_of_a_name(desk)
    before = await desk.whole()
    for more in ({"approved": RAW}, {"approval": RAW}, {"parameters": {"approved": RAW}}):
        result = await desk.take("Do it.", simple("cypher_query", query=RAW, **more), final("cypher_query", query=RAW, **more))
        assert (result.path[-2:], result.state["done"]) == (ESCALATED, ())
    assert await desk.whole() == before


async def test_a_sentence_that_is_not_understood_does_not_capture_the_session(desk: Desk):
    for text in ("blah blub", "create", "3", "the the the"):
        result = await desk.take(text, human="wait")
        assert (result.status, result.path[-2:], files(desk)) == ("success", ESCALATED, []), text
    assert (await desk.take("Create a task Design", human="wait")).output == "Added Task Design."


async def test_a_goal_larger_than_a_turn_reports_progress_and_continues(desk: Desk):
    calls = [tool("add_node", label="Task", key=f"t{number:03}") for number in range(MAX_STEPS * 2 + 5)]
    plan = {**many(*(f"add {number}" for number in range(len(calls)))), "tool": calls[0], "then": calls[1:]}
    first = await desk.take("Add them.", plan)
    assert (first.status, len(first.state["done"]), len(await desk.nodes())) == ("success", MAX_STEPS, MAX_STEPS)
    assert "Say 'continue'" in first.output
    assert f"Left to do:\n- add {MAX_STEPS}\n" in first.output
    assert first.metadata["next"] == "Add them."
    second = await desk.take("continue", grants={Model: Silent()})
    assert len(await desk.nodes()) == MAX_STEPS * 2
    assert "Say 'continue'" in second.output
    third = await desk.take("add them", grants={Model: Silent()})
    assert (third.metadata["next"], len(await desk.nodes())) == (None, len(calls))
    assert len(desk.store.applied) == len(calls), "nothing is done twice"
    assert "nothing to go on with" in (await desk.take("continue", grants={Model: Silent()})).output


@pytest.mark.parametrize("at_most", [1, 2, 3])
async def test_an_exhausted_budget_ends_in_an_answer(desk: Desk, at_most: int):
    result = await desk.take("Do it.", many("a", "b", "c"), ADD, NEXT, max_model_calls=at_most)
    assert (result.status, result.path[-2:]) == ("success", ESCALATED)
    assert "max_model_calls" in result.output
    assert len(await desk.nodes()) == at_most - 1
    assert result.metadata["next"] == "Do it."
    done = await desk.take("continue", final("add_node", label="Task", key="c"))
    assert done.metadata["next"] is None
    assert (len(await desk.nodes()), len(done.state["done"])) == (at_most, at_most)


async def test_an_interrupted_turn_reports_its_completed_actions(desk: Desk):
    goal = "Create a project Apollo with tasks Design and Build"
    result = await desk.take(goal, max_steps=9)
    assert (result.status, result.error and result.error.code) == ("error", "budget_exceeded")
    assert "1. added Project Apollo\n2. added Task Design" in result.output
    assert "Say the goal again" in result.output
    assert (await desk.take(goal)).status == "success"
    assert len(await desk.nodes()) == 3


async def test_a_refusal_of_the_model_ends_in_an_answer(desk: Desk):
    result = await desk.take("Do it.", ModelRefused("It will not."), ModelRefused("It will not."))
    assert (result.status, result.path[-2:]) == ("success", ESCALATED)
    assert "It will not." in result.output


async def test_a_goal_needs_no_more_model_calls_than_it_has_steps(desk: Desk):
    goal = "Create a project Apollo with tasks Design and Build, and assign Ada to Design"
    events: list[Event] = []
    result = await desk.take(goal, on_event=events.append)
    asked = sum(event["event"] == "on_chat_model_start" for event in events)
    assert (len(result.state["done"]), asked) == (7, 1)


@pytest.mark.parametrize(
    ("goal", "undone"),
    [
        (simple("add_node", label="Task", key="x"), True),
        (simple("update_props", target="a", properties={"n": 2, "new": [1], "m": None}), True),
        (simple("delete_node", match="a", detach=True), True),
        (simple("delete_edge", match={"from_node": "a", "to_node": "b", "relationship": "R"}), True),
        (simple("query_graph"), False),
    ],
)
async def test_undo_restores_the_graph(desk: Desk, goal: dict[str, Any], *, undone: bool):
    calls = [
        tool("add_node", label="Task", key="a", properties={"n": 1, "m": "x"}),
        tool("add_node", label="Task", key="b"),
        tool("add_edge", from_node="a", to_node="b", relationship="R", properties={"w": 1.5}),
    ]
    await desk.take("Make it.", {**many("1", "2", "3"), "tool": calls[0], "then": calls[1:]})
    before = await desk.whole()
    await desk.take("Change it.", goal)
    assert (await desk.whole() != before) == undone
    result = await desk.take("Undo", grants={Model: Silent()})
    if undone:
        assert await desk.whole() == before
        assert "Undone: 'Change it.'" in result.output
    else:
        assert await desk.whole() == ([], []), "the last goal that changed something"


async def test_an_answer_needs_an_open_question_and_text(desk: Desk):
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


async def test_an_unattended_turn_ends(desk: Desk):
    result = await waiting(desk, grants={Human: ScriptedHuman()})
    assert (result.status, result.path[-2:], files(desk)) == ("success", ESCALATED, [])
    with desk.store.unreadable():
        alone = await desk.take("Do it.", *FOR_NOW)
    assert (alone.status, alone.state["escalation"].choice) == ("success", None)
    assert "No person could be asked." in alone.output
    with desk.store.unreadable():
        scripted = await desk.take("Do it.", *LONGER, final("add_node", label="Task", key="b"), grants={Human: ScriptedHuman(SKIP)})
    assert [node[1] for node in await desk.nodes()] == ["a", "b"]
    assert scripted.state["skipped"] == ("join it",)


async def test_a_turn_with_other_contracts_does_not_resume(desk: Desk):
    await waiting(desk)
    with contextlib.closing(sqlite3.connect(desk.folder / "turns.db")) as connection:
        connection.execute("UPDATE turns SET fingerprint = ?", ("0" * 64,))
        connection.commit()
    with pytest.raises(StateIncompatible):
        await silent(desk, "skip")
    assert (files(desk), len(desk.store.applied)) == (["puntini-s.waiting"], 1)
    result = await desk.take("Look.", simple("query_graph"))
    assert (result.status, files(desk)) == ("success", [])
    assert "stays as it is" in result.metadata["ended"]


async def test_concurrent_answers_are_applied_once(desk: Desk):
    await waiting(desk)

    async def say(text: str) -> TurnResult | InterlockError:
        try:
            return await silent(desk, text)
        except InterlockError as error:
            return error

    said = await asyncio.gather(say("skip"), say("2"))
    results = [one for one in said if isinstance(one, TurnResult)]
    [refused] = [one for one in said if isinstance(one, InterlockError)]
    assert [one.status for one in results] == ["success"]
    assert refused.code in {"nothing_waits", "record_invalid", "store_unavailable"}
    assert (len(desk.store.applied), files(desk)) == (1, [])


async def test_concurrent_answers_to_one_application_are_applied_once(desk: Desk):
    await waiting(desk)
    async with desk.app(grants={Model: Silent()}) as app:
        said = await asyncio.gather(*(app.answer("puntini", text, session="s") for text in ("skip", "2")), return_exceptions=True)
    assert sorted(type(one).__name__ for one in said)[1:] == ["TurnResult"]
    [refused] = [one for one in said if not isinstance(one, TurnResult)]
    assert isinstance(refused, InterlockError)
    assert files(desk) == []


async def test_an_answer_is_not_used_for_the_next_question(desk: Desk):
    await waiting(desk)
    both = asyncio.Event()

    class Slow(LaterHuman):
        """Hears the first answer only when the second one has come."""

        async def ask(self, question: Question) -> str | None:
            await both.wait()
            return await super().ask(question)

    async with desk.app(grants={Model: Silent(), Human: Slow()}) as app:
        tasks = [asyncio.create_task(app.answer("puntini", text, session="s")) for text in (MORE, "skip")]
        await asyncio.sleep(0)
        both.set()
        first, second = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(first, TurnResult)
        assert first.status == "waiting"
        assert isinstance(second, NothingWaits)
        third = await app.answer("puntini", ABORT, session="s")
    assert (third.state["escalation"].choice, files(desk)) == (ABORT, [])


async def test_an_interrupted_answer_can_be_repeated(desk: Desk):
    await waiting(desk)
    task = asyncio.create_task(silent(desk, "skip"))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert files(desk) == ["puntini-s.waiting"]
    answered = await silent(desk, "2")
    assert answered.status == "success"
    assert answered.state["escalation"].choice == SKIP
    assert (len(desk.store.applied), files(desk)) == (1, [])


CRASHING = """
    import asyncio, os, signal, sys
    from pathlib import Path

    from interlock import Interlock, Settings
    from interlock_agents.puntini.graphs.ladybug import open_ladybug
    from interlock.capabilities import Model
    from interlock_agents.puntini.graph_store import GraphStore
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


async def test_a_killed_process_leaves_a_consistent_graph_and_a_free_session(engine: EngineName, tmp_path: Path):
    command = [sys.executable, "-c", textwrap.dedent(CRASHING), str(tmp_path), engine]
    ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False, timeout=120)
    assert ran.returncode == -signal.SIGKILL, ran.stderr
    store = opened("ladybug", tmp_path / "graphs")
    desk = Desk(engine, tmp_path, Watched(store), "s")
    assert files(desk) == ["puntini-s.running"]
    assert await desk.nodes() == [("Task", "a", {})]
    async with desk.app(grants={Model: ScriptedModel(final("add_node", label="Task", key="b"))}) as app:
        [turn] = await app.turns.store.find(TurnFilter(agent="puntini"))
        result = await app.result(turn.turn)
    assert (result.status, files(desk)) == ("success", [])
    assert [node[1] for node in await desk.nodes()] == ["a", "b"]
    await store.aclose()
