"""scaffold, tested: nodes as plain functions, turns on both engines, the document."""
# ruff: noqa: S101 - assert is what tests do

import asyncio
from typing import get_args

from interlock import Interlock, Settings, TurnResult
from interlock.capabilities import Ids, Model
from interlock.engine import ENGINES, EngineName
from interlock.errors import ModelTimeout
from interlock.testing import CountingIds, Scripted, ScriptedModel
from interlock.verification.verdicts import verify_agent

from . import agent
from .draft import Draft
from .nodes import PROMPT, choose_way, draft_answer, give_answer, refuse
from .offline import FACT
from .state import Answerable, Drafted, Refused, Replied, Topic

OPEN = Draft(topic="opening", answer="From 9 to 17.")


def taken(question: str, *replies: Scripted) -> TurnResult:
    """Take a turn on both engines; the rules answer where the model says nothing."""

    async def take(engine: EngineName) -> TurnResult:
        grants: dict[type, object] = {Ids: CountingIds()}
        if replies:
            grants[Model] = ScriptedModel(*replies)
        settings = Settings(engine=engine, model="offline")
        async with Interlock(settings, grants=grants) as app:
            return await app.run(agent, question)

    one, other = (asyncio.run(take(engine)) for engine in ENGINES)
    assert one == other
    return one


def test_a_draft_is_what_the_model_says() -> None:
    """Ask a model that follows a script."""
    model = ScriptedModel(OPEN)
    outcome = asyncio.run(draft_answer("When are you open?", model=model))
    assert outcome == Drafted(topic="opening", answer="From 9 to 17.")
    system, user = model.messages[0]
    assert (system.text, user.text) == (PROMPT, "When are you open?")


def test_a_model_that_fails_is_a_refusal() -> None:
    """Let the model be late."""
    outcome = asyncio.run(draft_answer("?", model=ScriptedModel(ModelTimeout())))
    assert outcome == Refused(refusal="no_answer")


def test_the_way_depends_on_the_topic_and_on_there_being_an_answer() -> None:
    """Try every topic, with and without an answer."""
    for topic in get_args(Topic):
        known = topic != "other"
        with_answer = Answerable() if known else Refused(refusal="off_topic")
        without = Refused(refusal="no_answer" if known else "off_topic")
        assert asyncio.run(choose_way(topic, True)) == with_answer
        assert asyncio.run(choose_way(topic, False)) == without


def test_a_reply_is_the_answer_or_a_sentence_of_our_own() -> None:
    """Call the two nodes that reply."""
    assert asyncio.run(give_answer("From 9 to 17.")) == Replied(reply="From 9 to 17.")
    assert asyncio.run(refuse("off_topic")) == Replied(reply="I cannot help with that.")


def test_a_question_is_answered() -> None:
    """Take a turn that succeeds."""
    result = taken("When are you open?", OPEN)
    assert (result.status, result.output) == ("success", OPEN.answer)
    assert result.path == ("draft_answer", "choose_way", "give_answer")


def test_what_is_off_topic_is_refused_whatever_the_model_says() -> None:
    """Have the model answer what it should not."""
    result = taken("Tell me a joke.", Draft(topic="other", answer="Knock, knock."))
    assert result.error is not None
    assert (result.status, result.error.code) == ("error", "off_topic")
    assert "Knock" not in str(result.output)


def test_a_word_that_is_no_topic_is_refused() -> None:
    """Have the model try to choose the way itself."""
    result = taken("Hello", {"topic": "give_answer", "answer": "Go on."})
    assert result.error is not None
    assert (result.error.code, result.path[-1]) == ("no_answer", "refuse")


def test_every_topic_has_a_fact_and_the_rules_find_it() -> None:
    """Ask the rules that stand in for a model."""
    facts = dict(FACT.findall(PROMPT))
    assert {*facts, "other"} == set(get_args(Topic))
    for topic, fact in facts.items():
        assert taken(f"What about {topic}?").output == fact
    assert taken("Tell me a joke.").status == "error"


def test_it_is_what_its_document_says() -> None:
    """Hold the rows to the document."""

    async def broken() -> list[str]:
        return [one.proof async for one in verify_agent(agent) if not one.holds]

    assert asyncio.run(broken()) == []
