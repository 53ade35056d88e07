"""The offline parser: misspelt words, dates, follow-ups, small talk, and questions back."""

from __future__ import annotations

import json
import re
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.capabilities import Message
from interlock_agents.analyst.clarifications import clarification, similar_name
from interlock_agents.analyst.figures import CannotAnswer, figures
from interlock_agents.analyst.offline import AnalystRules
from interlock_agents.analyst.parser import parse
from interlock_agents.analyst.plan import PlannerDecision
from interlock_agents.analyst.small_talk import small_talk_in

TODAY = date(2026, 1, 1)
TOOLS: list[dict[str, Any]] = [{"name": name, "description": "", "parameters": {}} for name in ("bq_query", "search", "calculate")]


def plan(question: str, *earlier: str) -> PlannerDecision:
    conversation = [{"role": "human", "text": text} for text in earlier]
    payload: dict[str, Any] = {"question": question, "tools": TOOLS, "conversation": conversation, "today": TODAY.isoformat()}
    return AnalystRules().decide([Message(role="user", text=json.dumps(payload))], PlannerDecision)


def parts(question: str, *earlier: str) -> list[str]:
    made = plan(question, *earlier)
    return [made.ask] if made.ask else [one.part for one in made.tool_calls]


@pytest.mark.parametrize(("text", "title"), [("revenu by contry", "Revenue by country"), ("how mnay ordres in spian", "Orders, Spain")])
def test_frequent_misspellings_are_corrected_with_a_note(text: str, title: str):
    made = plan(text)
    assert [one.part for one in made.tool_calls] == [title]
    assert [note for note in made.notes if note.startswith("I read '")]


@pytest.mark.parametrize("word", ["iceland", "australia", "states", "handled", "cables", "lublin"])
def test_a_word_that_is_similar_to_a_known_one_is_not_used_as_it(word: str):
    assert f"'{word}'" in plan(f"revenue in {word} in 2025").ask


def test_an_unknown_name_gets_a_question_with_a_similar_name():
    assert (similar_name("australia"), similar_name("moth"), similar_name("month"), similar_name("zzz")) == ("Austria", "month", None, None)
    assert "Did you mean Austria?" in clarification(parse("revenue in australia", TODAY), TODAY)


FOLLOWED: dict[tuple[str, ...], str] = {
    ("revenue in 2025", "and the year before?"): "Revenue, 2024",
    ("revenue in march 2025", "and the month before?"): "Revenue, February 2025",
    ("revenue in Q1 2025", "the quarter before that"): "Revenue, Q4 2024",
    ("revenue in 2025", "no, i meant 2024"): "Revenue, 2024",
    ("revenue by country in 2025", "vs 2024?"): "Revenue by country, 2025",
    ("average order value in Spain", "compared to Italy?"): "Average order value by country, Spain and Italy",
    ("which country has the highest revenue", "and the lowest?"): "Revenue by country, lowest",
    ("top 3 countries by revenue", "and the bottom 2?"): "Revenue by country, lowest 2",
    ("customers by country", "which one has the fewest?"): "Customers by country, lowest",
    ("revenue in 2025", "only business customers"): "Revenue, business, 2025",
    ("revenue in 2025", "and how many business customers?"): "Customers who ordered, business, 2025",
    ("returned orders in 2025", "and the return rate?"): "Return rate, 2025",
    ("revenue in Germany in 2024", "was 2025 better than 2024?"): "Revenue, Germany, 2025 and 2024",
    ("revenue in 2025", "break it down by month"): "Revenue by month, 2025",
    ("how many orders in march?", "2025"): "Orders, March 2025",
    ("what was our turnover in Q2 2025?", "and how many orders was that?"): "Orders, Q2 2025",
}


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("revenue in 2025 compared to the year before", "Revenue, 2025 and 2024"),
        ("orders in march 2025 and the month before", "Orders, March 2025 and February 2025"),
        ("revenue in 2024 and the previous year", "so there is nothing for 2023"),
        ("revenue in 2025 and the previous year", "Revenue, 2025 and 2024"),
        ("revenue in the previous year", "Revenue, 2025"),
    ],
)
def test_the_year_before_is_relative_to_the_other_period_of_the_question(question: str, part: str):
    assert part in parts(question)[0]


@pytest.mark.parametrize("said", FOLLOWED)
def test_a_follow_up_replaces_what_it_names_and_keeps_the_rest(said: tuple[str, ...]):
    assert parts(said[-1], *said[:-1])[0] == FOLLOWED[said]


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("and the year before?", "counted from"),
        ("and the lowest?", "of what?"),
        ("revenue in the second half of december 2025", "'second'"),
        ("orders on 3/4/2025", "'3/4/2025'"),
        ("revenue from customers with more than 10 orders", "'10'"),
        ("share of orders over 1000 euros", "'1000'"),
        ("how many orders with chairs over 500 euros", "begin with SELECT"),
        ("which customers ordered at least twice", "'twice'"),
        ("orders of 3 or more items", "'3'"),
        ("customers who bought chairs but not desks", "several categories"),
        ("average revenue by country", "no average of this"),
        ("average number of orders per week in 2025", "no average of this"),
        ("list all orders of 2025", "single orders"),
        ("revenue growth by country", "only in total"),
        ("what is the median order value", "'median'"),
        ("how many products make up 80% of revenue", "'80'"),
        ("products under 10 euros in 2025", "'10'"),
        ("growth of the first order", "date of the first or the last order"),
    ],
)
def test_an_ambiguous_question_is_asked_back(question: str, asked: str):
    made = plan(question)
    assert (made.tool_calls, asked in made.ask) == ([], True), made.ask


EXAMPLE = re.compile(r"For example: (.*)\.$")
UNCLEAR = st.lists(
    st.sampled_from(
        ["revenue", "orders", "customers", "zzqx", "in", "germany", "berlin", "2025", "2026", "by", "country", "customer", "most", "not",
         "price", "first order", "idle", "signups", "chairs", "vip20", "over 500 euros", "average", "return rate", "march"]
    ),
    min_size=1,
    max_size=8,
).map(" ".join)  # fmt: skip


@settings(max_examples=200)
@given(UNCLEAR)
def test_the_example_in_a_clarification_can_be_answered(question: str):
    parsed = parse(question, TODAY)
    if parsed.is_unclear:
        found = EXAMPLE.search(clarification(parsed, TODAY))
        assert found is not None
        assert figures(parse(found[1], TODAY))
    else:
        try:
            assert figures(parsed)
        except CannotAnswer as error:
            assert str(error)  # noqa: PT017 - either of them is right


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("who are you and what data do you have?", "identity"),
        ("hi, what can you do?", "help"),
        ("what's the date today", "date"),
        ("thanks, bye", "thanks"),
        ("which tables exist", "data"),
        ("you are wrong", "complaint"),
        ("who are you and what was the revenue", None),
        ("what data do you have and how many orders in 2025", None),
    ],
)
def test_small_talk_is_recognised_only_if_all_of_the_text_is_small_talk(said: str, kind: str | None):
    assert small_talk_in(said) == kind
