"""A conversation with the desk: what was said is known, orders stay apart, a person can be asked, and small talk stays small."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.capabilities import Human, Model
from interlock.engine import EngineName
from interlock.human import ScriptedHuman
from interlock.testing import Scripted, ScriptedModel
from interlock_agents.desk.session import MAX_CONVERSATION, MAX_CONVERSATION_BYTES, MAX_SAID, SessionState, with_exchange
from tests.support.desk import Store, add, calls, ending, new_session, plan, said, stored, subject_of, take

NOTHING: list[Scripted] = [plan("support.question"), "It is in the shop."]


async def test_an_answer_without_tools_can_end_its_goal(store: Store, engine: EngineName):
    model = ScriptedModel(*NOTHING, said("It is in the shop, on the left.", mark_done=True))
    result = await take(store, engine, "Where is the till?", grants={Model: model})
    assert (result.output, result.metadata["active_goal"]) == ("It is in the shop, on the left.", None)
    told = json.loads(model.messages[-1][-1].text)
    assert (told["said"], told["tool_results"]) == ("It is in the shop.", None)


async def test_an_answer_without_tools_may_request_tools_once(store: Store, engine: EngineName):
    wants = said("", tools=[{"tool": "math.evaluate", "args": {"expression": "2"}}])
    result = await take(store, engine, "2?", *NOTHING, wants, said("2", mark_done=True))
    assert (result.output, result.metadata["active_goal"]) == ("2", None)
    assert ending(await take(store, engine, "2?", *NOTHING, wants, wants)) == ("model_output_invalid", "dispatch_specialist")


async def test_two_orders_are_two_goals_and_both_are_in_the_reply_until_they_are_done(store: Store, engine: EngineName):
    session = new_session()
    ask: dict[str, Any] = {"missing": ["quantity"], "next_question": "How many?"}
    await take(store, engine, "A lamp", plan(slots_patch={"product": "lamp"}, **ask), said("How many lamps?"), session=session)
    second = plan(slots_patch={"product": "desk"}, priority=60, **ask)
    both = await take(store, engine, "And a desk", second, said("How many desks?"), session=session)
    assert [(one["type"], one["status"]) for one in both.metadata["open_goals"]] == [
        ("sales.order", "blocked"),
        ("sales.order", "suspended"),
    ]
    goals = both.state["session"].goals
    assert [one.slots for one in goals.values()] == [{"product": "lamp"}, {"product": "desk"}]
    desk = list(goals)[1]
    model = ScriptedModel(plan(goal_id=desk, slots_patch={"quantity": 2}, missing=[]), calls(add()), said("Noted.", mark_done=True))
    one = await take(store, engine, "2", session=session, grants={Model: model})
    assert one.output == "Noted.\n\nHow many?"
    assert [one["status"] for one in one.metadata["open_goals"]] == ["blocked"]
    seen = json.loads(model.messages[0][-1].text)["session"]["goals"]
    assert {(one["type"], one["status"], one["slots"]["product"]) for one in seen.values()} == {
        ("sales.order", "suspended", "lamp"),
        ("sales.order", "blocked", "desk"),
    }


async def test_the_planner_and_the_specialist_see_the_conversation(store: Store, engine: EngineName):
    session = new_session()
    await take(store, engine, "Do you have lamps?", *NOTHING, said("Yes, three.", mark_done=True), session=session)
    model = ScriptedModel(*NOTHING, said("The last one.", mark_done=True))
    await take(store, engine, "Which is the cheapest?", session=session, grants={Model: model})
    said_before = [{"who": "customer", "text": "Do you have lamps?"}, {"who": "desk", "text": "Yes, three."}]
    planner, tools, structured = (json.loads(messages[-1].text) for messages in model.messages)
    assert planner["session"]["conversation"] == tools["conversation"] == structured["conversation"] == said_before
    kept = store.document(session)["conversation"]
    assert kept == [*said_before, {"who": "customer", "text": "Which is the cheapest?"}, {"who": "desk", "text": "The last one."}]


@given(said=st.lists(st.tuples(st.text(max_size=50) | st.just("é" * 5000), st.text(max_size=50) | st.just("x" * 5000)), max_size=30))
def test_a_conversation_keeps_its_last_messages(said: list[tuple[str, str]]):
    session = SessionState.model_validate(stored("s"))
    for message, reply in said:
        session = with_exchange(session, message, reply)
        texts = [one.text for one in session.conversation]
        assert len(texts) <= MAX_CONVERSATION
        assert sum(len(text.encode()) for text in texts) <= MAX_CONVERSATION_BYTES
        assert all(len(text) <= MAX_SAID for text in texts)
        last = [text[: MAX_SAID - 1] for text in ([message, reply.strip()] if reply.strip() else [message])]
        assert [text[: MAX_SAID - 1] for text in texts[-len(last) :]] == last


class Memory:
    """Notes whose memory is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def recall(self, subject: str) -> str | None:
        self.asked.append(subject)
        return None

    async def remember(self, subject: str, text: str) -> None:
        self.asked.append(f"{subject} {text}")


async def test_memories_of_one_customer_in_two_workspaces_are_separate(store: Store, engine: EngineName):
    customer, known = f"c-{new_session()}", {}
    for workspace in ("north", "south", "north"):
        model = ScriptedModel(*NOTHING, said("Fine.", mark_done=True, memory_update=f"Lives in the {workspace}."))
        given = {"text": "Hello", "customer_id": customer, "workspace_id": workspace}
        known[workspace] = (await take(store, engine, given, grants={Model: model})).state["memory_summary"]
    assert known == {"north": "Lives in the north.", "south": None}
    assert subject_of("a", 'b", "c') != subject_of('c", "a', "b")


async def test_without_a_customer_no_memory_is_written(store: Store, engine: EngineName):
    session, before = new_session(), store.remembered()
    replies = (*NOTHING, said("Fine.", mark_done=True, memory_update="Likes brass."))
    assert (await take(store, engine, "Hello", *replies, session=session)).error is None
    assert store.remembered() == before
    named = await take(store, engine, {"text": "Hello", "customer_id": session}, *replies)
    assert named.state["memory_summary"] is None


SMALL: dict[str, Scripted] = {"open": said("Hello!"), "blocked": said("Hello!", set_status="blocked", missing=["x"], next_question="x?")}


@pytest.mark.parametrize("answer", SMALL.values(), ids=SMALL)
async def test_small_talk_is_answered_and_leaves_no_open_goal(store: Store, engine: EngineName, answer: Scripted):
    session = new_session()
    await take(store, engine, "Help", *NOTHING, said("What is it?"), session=session)
    result = await take(store, engine, "Thanks", plan("support.small_talk"), "Hello.", answer, session=session)
    assert result.output == "Hello!"
    assert [one["type"] for one in result.metadata["open_goals"]] == ["support.question"]


async def test_a_person_sees_the_conversation_and_answers_the_customer(store: Store, engine: EngineName):
    session, person = new_session(), ScriptedHuman("Call me on Monday.")
    await take(store, engine, "My lamp is broken", *NOTHING, said("I am sorry.", mark_done=True), session=session)
    model = ScriptedModel(plan("support.person"), "I tell them.", said("Call on Monday."))
    result = await take(store, engine, "Can I talk to a person?", session=session, grants={Model: model, Human: person})
    assert (result.output, result.metadata["open_goals"]) == ("Call on Monday.", [])
    (question,) = person.asked
    assert [line in question.text for line in ("customer: My lamp is broken", "desk: I am sorry.", "customer: Can I talk to a person?")]
    told: list[dict[str, Any]] = [json.loads(messages[-1].text) for messages in model.messages[1:]]
    assert [one["person"] for one in told] == [{"answer": "Call me on Monday.", "given_up": False}] * 2


async def test_the_specialist_knows_if_no_person_can_be_asked(store: Store, engine: EngineName):
    model = ScriptedModel(plan("support.person"), "Nobody.", said("Write to us."))
    result = await take(store, engine, "A person, please", grants={Model: model}, human="nobody")
    assert result.output == "Write to us."
    assert json.loads(model.messages[-1][-1].text)["person"] == {"answer": None, "given_up": False}


async def test_no_person_is_asked_for_anything_else(store: Store, engine: EngineName):
    person = ScriptedHuman("Never.")
    await take(store, engine, "Hello", *NOTHING, said("Fine."), grants={Human: person})
    assert person.asked == []


async def test_a_customer_who_asks_for_a_person_waits_for_one(store: Store, engine: EngineName):
    session = new_session()
    async with store.app(engine) as app:
        asked = await app.run("desk", "Can I talk to a person?", session=session)
        assert asked.status == "waiting"
        assert "customer: Can I talk to a person?" in asked.output
        answered = await app.answer("desk", "I will call you at five.", session=session)
    assert answered.error is None
    assert "I will call you at five." in answered.output
    assert store.document(session)["version"] == 1


async def test_a_customer_who_writes_again_is_answered_without_the_person(store: Store, engine: EngineName):
    session = new_session()
    async with store.app(engine) as app:
        asked = await app.run("desk", "Can I talk to a person?", session=session)
        assert (asked.status, asked.metadata["waiting"]["to"]) == ("waiting", "a colleague")
        served = await app.run("desk", "how much is the steel desk lamp dimmable?", session=session)
        assert await app.waiting("desk", session=session) is None
    assert (served.status, served.metadata["open_goals"]) == ("success", [])
    assert "46.90 EUR" in served.output
    assert "No colleague has answered yet" in served.metadata["ended"]
    assert "9:00 to 17:00" in served.metadata["ended"]
    said = [one["text"] for one in store.document(session)["conversation"]]
    assert said[0] == "Can I talk to a person?"
    assert said[1] == served.metadata["ended"]


async def test_the_specialist_knows_that_a_request_for_a_person_was_given_up(store: Store, engine: EngineName):
    session = new_session()
    model = ScriptedModel(
        plan("support.person"), "Sorry.", said("Nobody came.", mark_done=True), *NOTHING, said("A lamp is a lamp.", mark_done=True)
    )
    async with store.app(engine, grants={Model: model}) as app:
        assert (await app.run("desk", "A person, please", session=session)).status == "waiting"
        served = await app.run("desk", "What is a lamp?", session=session)
    assert (served.output, served.metadata["ended"]) == ("A lamp is a lamp.", "Nobody came.")
    assert json.loads(model.messages[1][-1].text)["person"] == {"answer": None, "given_up": True}
