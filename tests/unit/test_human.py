"""Who answers for a person: whoever comes later, a script, or nobody."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.capabilities import Question
from interlock.cli.human import answer_commands, is_answer, options_of
from interlock.errors import PersonAwaited
from interlock.human import LaterHuman, NobodyHere, ScriptedHuman
from interlock.runtime.turn import TurnResult

QUESTION = Question(text="Which?", options=("this", "that"), recommended="this")


async def test_a_question_suspends_the_turn():
    with pytest.raises(PersonAwaited) as awaited:
        await LaterHuman().ask(QUESTION)
    assert awaited.value.question == QUESTION


async def test_without_a_person_there_is_no_answer():
    assert await NobodyHere().ask(QUESTION) is None


async def test_a_script_ends_without_a_person():
    human = ScriptedHuman("a", "b")
    assert [await human.ask(QUESTION) for _ in range(3)] == ["a", "b", None]
    assert human.asked == [QUESTION] * 3


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("1", "this"),
        (" 2 \n", "that"),
        ("02", "02"),
        ("THAT!", "that"),
        ("I mean the that.", "that"),
        ("0", "0"),
        ("3", "3"),
        ("-1", "-1"),
        ("²", "²"),
        ("٢", "٢"),
        ("2.", "that"),
        ("9" * 5000, "9" * 5000),
        ("that", "that"),
        (" something else ", "something else"),
    ],
)
def test_a_number_stands_for_an_option(said: str, meant: str):
    assert QUESTION.resolve(said) == meant
    assert Question(text="").resolve("1") == "1"


def result(**more: object) -> TurnResult:
    given = {"agent": "puntini", "session": "s", "turn": "t", "status": "waiting", "output": None, "error": None}
    return TurnResult(**{**given, "path": (), "state": {}, "metadata": {}, **more})  # pyright: ignore[reportArgumentType]


def test_options_are_listed_with_how_to_answer():
    waiting = {"question": "Which?", "options": ["this", "that"], "recommended": "that"}
    lines = list(options_of(result(metadata={"waiting": waiting})))
    assert lines[:2] == ["  1  this", "  2  that  (recommended)"]
    assert lines[2:] == []
    assert list(answer_commands("shop:agent", "s", waiting, ["--grants", "shop:my grants"])) == [
        "Answer with: interlock run shop:agent --grants 'shop:my grants' --session s --answer that",
        "End it without an answer: interlock run shop:agent --grants 'shop:my grants' --session s --answer abort",
    ]
    assert list(options_of(result(status="success"))) == []


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("task", "Task Design"),
        ("the Task", "Task Design"),
        ("Task:Design", "Task Design"),
        ("design", None),
        ("person", "Person Design"),
        ("the person, please. Thank you!", "Person Design"),
        ("", None),
        ("the", None),
        ("set the status of the task to done", None),
        ("tas", None),
        ("0", None),
        ("3", None),
    ],
)
def test_an_option_is_meant_by_words_that_no_other_has(said: str, meant: str | None):
    assert Question(text="Which?", options=("Person Design", "Task Design")).choice(said) == meant


@given(options=st.lists(st.text("abc ", min_size=1, max_size=5).map(str.strip).filter(bool), min_size=1, max_size=4, unique=True))
def test_every_option_can_be_meant_by_its_words_unless_another_has_the_same(options: list[str]):
    question = Question(text="Which?", options=tuple(options))
    plain = [" ".join(option.split()) for option in options]
    for option, words in zip(options, plain, strict=True):
        if plain.count(words) == 1:
            assert question.choice(option.upper()) == option


def test_a_text_is_an_answer_if_it_is_an_option_or_the_question_has_no_options():
    closed = result(metadata={"waiting": {"question": "Which?", "options": ["this", "that"], "recommended": ""}})
    assert [is_answer(text, closed) for text in ("this", "2", "abort", "Abort.", "Create a task", "")] == [True] * 4 + [False] * 2
    slot = result(metadata={"waiting": {"question": "What is its name?", "options": [], "recommended": ""}})
    assert is_answer("Create a task", slot)


def test_the_next_message_does_not_answer_a_question_to_another_person():
    asked = result(
        metadata={"waiting": {"question": "What is the answer to the customer?", "options": [], "recommended": "", "to": "a colleague"}}
    )
    assert [is_answer(text, asked) for text in ("do you have lamps?", "abort")] == [False, True]
    [how, _] = answer_commands("desk", "s", asked.metadata["waiting"])
    assert how == "This question is for a colleague. Answer with: interlock run desk --session s --answer 'your answer'"
