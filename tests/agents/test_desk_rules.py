"""The desk's offline rules, whatever is said: a number is read whole or not at all, and every message gets a plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.engine import EngineName
from interlock_agents.desk.planning import planned
from interlock_agents.desk.quantities import masked, take_budget, take_quantity
from interlock_agents.desk.roles import PlannerRequest
from interlock_agents.desk.session import SessionState
from interlock_agents.desk.vocabulary import TOPICS
from interlock_agents.desk.words import Text, normalised, topics_of
from tests.support.desk import Store, goal, new_session, stored, take

NOW = "2026-01-01T00:00:00+00:00"
UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SHOWN = [{"sku": "LMP-1001", "name": "Black desk lamp dimmable"}, {"sku": "LMP-1005", "name": "Steel desk lamp dimmable"}]
ASK_QUANTITY: dict[str, Any] = {"line": 0, "what": "quantity", "options": []}
ASK_PRODUCT: dict[str, Any] = {"line": 0, "what": "product", "options": SHOWN}
NOTED = [{"sku": "LMP-1005", "name": "Steel desk lamp dimmable", "quantity": 3, "total": "140.70", "currency": "EUR"}]


def spelled(number: int) -> str:
    """Write a number below 1,000 in words."""
    if number < 20:
        return UNITS.split()[number]
    if number < 100:
        tens, rest = TENS.split()[number // 10 - 2], number % 10
        return f"{tens}-{spelled(rest)}" if rest else tens
    rest = number % 100
    return f"{spelled(number // 100)} hundred{f' and {spelled(rest)}' if rest else ''}"


def order(**slots: Any) -> dict[str, Any]:
    lines = [{"product": "Steel desk lamp dimmable", "sku": "LMP-1005", "quantity": None}]
    return goal(status="blocked", missing=["x"], next_question="How many?", slots={"lines": lines, **slots})


SESSIONS: dict[str, SessionState] = {
    name: SessionState.model_validate(stored("s", *goals))
    for name, goals in {
        "empty": (),
        "asked how many": (order(ask=ASK_QUANTITY),),
        "asked which": (order(ask=ASK_PRODUCT),),
        "shown": (goal(type="sales.stock", status="done", slots={"shown": SHOWN, "asked": "lamps", "lines": [{"product": "lamps"}]}),),
        "noted": (goal(status="done", slots={"noted": NOTED, "shown": SHOWN[1:]}),),
        "a goal of a model": (goal(type="support.address", status="blocked", missing=["a"], next_question="Where?"),),
        "an order of a model": (goal(status="blocked", missing=["a"], next_question="Where?"),),
    }.items()
}


def plan_for(text: str, session: SessionState) -> Any:
    return planned(PlannerRequest(user_message=text, memory_summary=None, session=session, now=NOW))


def read(text: str) -> int | None:
    quantity, _ = take_quantity(masked(normalised(text)))
    assert quantity is not None
    return quantity.value


@given(number=st.integers(1, 999))
def test_a_quantity_in_words_or_digits_is_parsed_completely(number: int):
    for said in (
        spelled(number),
        spelled(number).replace("-", " "),
        str(number),
        f"{number:,}",
        f"{number} pieces",
        f"x{number}",
        f"{number} x",
    ):
        assert read(f"{said} of them" if said[0].isalpha() and said[0] != "x" else said) == number
        assert read(said) == number
    assert read(f"{spelled(number)} dozen") == 12 * number
    assert read(f"-{number}") is read(f"minus {number}") is None


@given(low=st.integers(1, 999), high=st.integers(1, 999))
def test_two_numbers_are_never_parsed_as_one(low: int, high: int):
    texts = [f"{low} to {high}", f"{low}-{high}", f"{low} or {high}", f"between {low} and {high}", f"{spelled(low)} to {spelled(high)}"]
    for text in [*texts, f"about {low}", f"at least {low}", f"{low}.5", f"{spelled(low)} and a half", f"{low} or so"]:
        assert read(text) is None, text


@given(low=st.integers(1, 999), high=st.integers(1, 999))
def test_a_price_is_never_parsed_as_a_quantity(low: int, high: int):
    for text in (f"lamps under {low} euros", f"lamps for {low} €", f"lamps between {low} and {high} eur", f"a lamp for ${low}"):
        budget, rest = take_budget(masked(normalised(text)))
        assert budget is not None
        assert take_quantity(rest)[0] is None


WORDS = (
    "hi thanks cancel it that the second one 2 -3 10 to 12 half a dozen and or , ? ! lamp desk black not except under 50 euros $ % "
    "return refund how much make more another instead all what person 1,000 2.5 ½ ٣ № 🚂 ' \" ( ) * x cheapest # ~ ა"
)
PIECES = st.sampled_from(WORDS.split())
TEXTS = st.one_of(st.text(min_size=1, max_size=60), st.lists(PIECES, min_size=1, max_size=12).map(" ".join))


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
@given(text=TEXTS)
def test_any_message_gets_a_plan(session: SessionState, text: str):
    if text.strip():
        plan_for(text, session)


@pytest.mark.parametrize("session", SESSIONS.values(), ids=SESSIONS)
@pytest.mark.parametrize("text", ["hi " * 10_000, "(" * 30_000, "a" * 32_000, "2 and " * 5_000, "not " * 8_000])
def test_a_too_long_message_is_reported(session: SessionState, text: str):
    plan = plan_for(text, session)
    assert "1,000 characters" in str(plan.slots_patch)


GOALS = ["support.address", "sales.quote"]


@pytest.mark.parametrize("goal_type", GOALS)
@pytest.mark.parametrize("blocked", [True, False])
async def test_an_unknown_goal_can_be_finished(store: Store, engine: EngineName, goal_type: str, *, blocked: bool):
    session = new_session()
    fields: dict[str, Any] = {"status": "blocked", "missing": ["a"], "next_question": "Where?"} if blocked else {}
    store.put(session, stored(session, goal(type=goal_type, **fields)))
    result = await take(store, engine, "Main street 5" if blocked else "never mind", session=session)
    assert result.error is None
    for _ in range(2):
        result = await take(store, engine, "never mind", session=session)
    assert result.metadata["open_goals"] == []


PLAIN_WORDS = [
    "cancel",
    "my",
    "order",
    "n12345",
    "deliver",
    "to",
    "moon",
    "refund",
    "not",
    "arrived",
    "how much",
    "for",
    "sending",
    "email",
    "2fa",
]


@settings(max_examples=300)
@given(words=st.lists(st.sampled_from(PLAIN_WORDS), max_size=12))
def test_topics_are_found_in_bounded_time(words: list[str]):
    text = Text(" ".join(words))
    found = topics_of(text)
    assert len(found) == len(set(found)) <= len(TOPICS)
