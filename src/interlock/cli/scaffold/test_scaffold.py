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


def run(question: str, *replies: Scripted) -> TurnResult:
    """Run a turn on both engines. Without scripted replies, the offline rules answer."""

    async def run_on(engine: EngineName) -> TurnResult:
        grants: dict[type, object] = {Ids: CountingIds()}
        if replies:
            grants[Model] = ScriptedModel(*replies)
        settings = Settings(engine=engine, model="offline")
        async with Interlock(settings, grants=grants) as app:
            return await app.run(agent, question)

    one, other = (asyncio.run(run_on(engine)) for engine in ENGINES)
    assert one == other
    return one


def test_a_draft_is_the_reply_of_the_model() -> None:
    """Call the node with a scripted model."""
    model = ScriptedModel(OPEN)
    outcome = asyncio.run(draft_answer("When are you open?", model=model))
    assert outcome == Drafted(topic="opening", answer="From 9 to 17.")
    system, user = model.messages[0]
    assert (system.text, user.text) == (PROMPT, "When are you open?")


def test_a_model_that_fails_is_a_refusal() -> None:
    """Call the node with a model that times out."""
    outcome = asyncio.run(draft_answer("?", model=ScriptedModel(ModelTimeout())))
    assert outcome == Refused(refusal="no_answer")


def test_routing_depends_on_the_topic_and_on_the_presence_of_an_answer() -> None:
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
    """Run a turn that succeeds."""
    result = run("When are you open?", OPEN)
    assert (result.status, result.output) == ("success", OPEN.answer)
    assert result.path == ("draft_answer", "choose_way", "give_answer")


def test_a_question_off_topic_is_refused_even_if_the_model_answers_it() -> None:
    """Script an answer that must not be given."""
    result = run("Tell me a joke.", Draft(topic="other", answer="Knock, knock."))
    assert result.error is not None
    assert (result.status, result.error.code) == ("error", "off_topic")
    assert "Knock" not in str(result.output)


def test_an_unknown_topic_is_refused() -> None:
    """Script a reply that names a node in place of a topic."""
    result = run("Hello", {"topic": "give_answer", "answer": "Go on."})
    assert result.error is not None
    assert (result.error.code, result.path[-1]) == ("no_answer", "refuse")


def test_every_topic_has_a_fact_and_the_rules_find_it() -> None:
    """Run turns with the offline rules."""
    facts = dict(FACT.findall(PROMPT))
    assert {*facts, "other"} == set(get_args(Topic))
    for topic, fact in facts.items():
        assert run(f"What about {topic}?").output == fact
    assert run("Tell me a joke.").status == "error"


def test_the_rows_agree_with_the_document() -> None:
    """Verify the agent."""

    async def broken() -> list[str]:
        return [one.proof async for one in verify_agent(agent) if not one.holds]

    assert asyncio.run(broken()) == []
