"""Which words of a message the desk's rules have not read: with one of them nothing is looked up or noted."""

from __future__ import annotations

import pytest

from interlock_agents.desk.coverage import asked_back, left_over


@pytest.mark.parametrize(
    ("text", "product", "left"),
    [
        ("do you have oak desks under 300 euros?", "oak desks", []),
        ("i'd like 2 steel desk lamps, please", "steel desk lamps", []),
        ("can i reserve a desk", "reserve desk", ["can", "i", "reserve"]),
        ("i saw the desk cheaper yesterday", "saw desk", ["i", "saw", "yesterday"]),
        ("desks, never corner ones", "desks corner", ["never"]),
    ],
)
def test_an_unused_word_is_left_over(text: str, product: str, left: list[str]):
    assert left_over(text, [{"product": product}]) == left


def test_an_aside_is_used_unless_it_compares():
    assert left_over("a lamp for my office", [{"product": "lamp"}], ["for my office"]) == []
    assert "than" in left_over("a lamp bigger than the brass one", [{"product": "lamp brass"}], ["bigger than the brass one"])


def test_a_question_back_names_what_was_and_was_not_understood():
    said = asked_back("i saw it cheaper yesterday, do you have desks", ["i", "saw", "yesterday"])
    assert said.startswith("I did not understand “i saw it cheaper yesterday”. I understood “desks”, and have not looked it up.")
