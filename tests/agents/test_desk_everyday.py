"""What people type first, to the desk without a model: the answer is right, or says what was not understood and what can be asked."""

from __future__ import annotations

import pytest

from interlock import TurnResult
from tests.support.desk import Store, new_session, take
from tests.support.everyday import Everyday, everyday

INPUTS = everyday("desk")
NOT_FOUND = ("There is no “", "I found nothing about", "I could not find")
NOT_UNDERSTOOD = (
    "I did not understand",
    "I found nothing about",
    "I cannot look for",
    "I cannot tell",
    "not with a condition",
    "I only know",
    "Which product do you mean",
    "There is no “",
)
QUESTIONS = ("blocked", "?")


def kind_faults(one: Everyday, result: TurnResult) -> list[str]:
    """Say what is wrong with the kind of a reply."""
    reply, goal = str(result.output), result.metadata["active_goal"]
    found = any(reply.startswith(begin) for begin in NOT_FOUND)
    match one.kind:
        case "question":
            return [] if "?" in reply else ["asks nothing"]
        case "not_found" | "refusal":
            return [] if found else ["does not say that nothing was found"]
        case "not_understood":
            said = any(begin in reply for begin in (*NOT_UNDERSTOOD, "is not one number", "You can say", "says nothing about"))
            return [] if said else ["does not say that it was not understood"]
        case "small_talk":
            return [] if not found and "did not understand" not in reply else ["does not talk"]
        case _:
            is_noted = "Noted" in reply and goal is not None and "How many" not in reply and "Which" not in reply
            return ["leaves a goal open"] if is_noted else []


@pytest.mark.parametrize("one", INPUTS, ids=[" > ".join([*one.before, one.text])[:120] for one in INPUTS])
async def test_an_everyday_input_gets_the_judged_answer(store: Store, one: Everyday):
    session, result = new_session(), None
    for text in (*one.before, one.text):
        result = await take(store, "direct", text, session=session, human="nobody")
        assert result.error is None, result.error
    assert result is not None
    faults = one.faults(str(result.output)) + kind_faults(one, result)
    assert faults == [], f"{faults}: {result.output}"


def test_the_corpus_is_large_and_has_no_duplicates():
    assert len(INPUTS) >= 300
    assert len({(one.before, one.text) for one in INPUTS}) == len(INPUTS)
