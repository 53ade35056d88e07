"""The grammar of the offline rules: known words in an unknown order are asked back, never guessed."""

from __future__ import annotations

import re
import time
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock_agents.analyst import grammar
from interlock_agents.analyst.figures import CannotAnswer, figures
from interlock_agents.analyst.grammar import completeness
from interlock_agents.analyst.parser import parse
from interlock_agents.analyst.vocabulary import PHRASES

GRAMMAR = Path(grammar.__file__).with_name("questions.grammar").read_text(encoding="utf-8")
LINES = [line for line in GRAMMAR.splitlines() if line and not line.startswith("#")]
RULES = re.sub(r"\n\s+", " ", "\n".join(LINES)).splitlines()
CLASSES = {one.word_class for one in PHRASES.values() if one.kind} | {
    "TIME",
    "NUMBER",
    "LIMIT",
} - {"ANYWHERE"}
TODAY = date(2026, 1, 1)


def test_the_grammar_uses_only_known_classes_and_patterns_defined_above():
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
def test_known_words_in_another_order_are_asked_back(question: str):
    assert figures(parse(question, TODAY))
    with pytest.raises(CannotAnswer):
        figures(parse(SAME_WORDS[question], TODAY))


@given(st.lists(st.sampled_from(sorted(CLASSES)), max_size=80))
def test_any_order_of_words_is_whole_a_fragment_or_unknown(words: list[str]):
    found = completeness(words)
    assert found in {"whole", "fragment", None}
    assert completeness([*words, "UNKNOWN"]) is None


@given(
    st.lists(
        st.sampled_from(["orders", "revenue", "customers", "in", "germany", "2025", "by", "country", "chairs", "more", "not"]), max_size=8
    )
)
def test_no_query_is_made_of_words_in_an_unknown_order(words: list[str]):
    parsed = parse(" ".join(words), TODAY)
    if parsed.is_tangled:
        with pytest.raises(CannotAnswer):
            figures(parsed)


def test_a_long_question_of_ambiguous_words_is_rejected_in_bounded_time():
    for words in (
        ["BY", "GROUP"],
        ["VALUE", "AND"],
        ["TIME", "AND"],
        ["GOODS", "AND"],
        ["EVERY"],
        ["AND", "EVERY"],
        ["STATUS", "AND"],
        ["IN"],
    ):
        for first in ("ORDERS", "FIGURE"):
            began = time.process_time()
            assert completeness([*(first, *words * 24)[:22], "WHEN"]) is None
            assert time.process_time() - began < 3
