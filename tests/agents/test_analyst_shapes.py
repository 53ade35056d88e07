"""The shapes of questions that the offline rules read: an order of words that is not among them is asked about, never guessed at."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock_agents.analyst import shapes
from interlock_agents.analyst.figures import CannotRead, figures
from interlock_agents.analyst.lexicon import PHRASES
from interlock_agents.analyst.reader import read
from interlock_agents.analyst.shapes import class_of, shape_of

GRAMMAR = Path(shapes.__file__).with_name("questions.grammar").read_text(encoding="utf-8")
LINES = [line for line in GRAMMAR.splitlines() if line and not line.startswith("#")]
RULES = re.sub(r"\n\s+", " ", "\n".join(LINES)).splitlines()
CLASSES = {class_of(kind, value) for kind, value in PHRASES.values() if kind} | {
    "TIME",
    "NUMBER",
    "LIMIT",
    "OR",
    "THERE",
    "SPENT",
    "WHO",
} - {""}
TODAY = date(2026, 1, 1)


def test_the_grammar_uses_only_classes_that_words_have_and_patterns_from_above():
    known: set[str] = set()
    for rule in RULES:
        name, _, pattern = rule.partition("=")
        used = set(re.findall(r"\w+", pattern))
        assert {one for one in used if one.isupper()} <= CLASSES, rule
        assert {one for one in used if not one.isupper()} <= known, rule
        known.add(name.strip(" !"))


SAME_WORDS = {
    "how many german customers bought chairs": "how many chairs did german customers buy",
    "how much did customers spend in 2025": "how much did we spend in 2025",
    "which customers spent the most in 2025": "how many customers spent the most in 2025",
    "which customers bought the most chairs": "which chairs bought the most customers",
    "how many orders have chairs": "how many chairs have orders",
}


@pytest.mark.parametrize("question", SAME_WORDS)
def test_known_words_in_another_order_are_asked_about(question: str):
    assert figures(read(question, TODAY))
    with pytest.raises(CannotRead):
        figures(read(SAME_WORDS[question], TODAY))


@given(st.lists(st.sampled_from(sorted(CLASSES)), max_size=80))
def test_any_order_of_words_is_a_shape_or_none(words: list[str]):
    found = shape_of(words)
    assert found in {"whole", "fragment", None}
    assert shape_of([*words, "UNKNOWN"]) is None


@given(
    st.lists(
        st.sampled_from(["orders", "revenue", "customers", "in", "germany", "2025", "by", "country", "chairs", "more", "not"]), max_size=8
    )
)
def test_no_figure_is_made_of_words_without_a_shape(words: list[str]):
    reading = read(" ".join(words), TODAY)
    if reading.is_tangled:
        with pytest.raises(CannotRead):
            figures(reading)
