"""What customers say, and what models say, that is easily misunderstood."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from interlock import TurnResult
from interlock.capabilities import Message
from interlock.discovery import load_agent
from interlock.errors import InputError, ModelOutputInvalid
from interlock_agents.desk.goals import with_updates
from interlock_agents.desk.nodes.orchestrator import MAX_TEXT
from interlock_agents.desk.nodes.planner import parse_json
from interlock_agents.desk.roles import PlannerRequest, PlannerResponse, StateUpdates
from interlock_agents.desk.session import SessionState, faults
from interlock_agents.shop.products import products
from tests.support.desk import Store, goal, new_session, plan, stored, take

NOW = "2026-01-01T00:00:00+00:00"
SHELF = next(one for one in products() if one.name == "Walnut bookshelf with 4 tiers")
BULB = next(one for one in products() if one.name == "Daylight LED bulb E27")


async def test_input_without_text_is_the_callers_mistake(store: Store):
    with pytest.raises(InputError):
        await take(store, "direct", {})


async def test_an_empty_customer_is_the_same_in_every_turn(store: Store):
    session = new_session()
    given = {"text": "Hello", "customer_id": ""}
    codes = [(result.error and result.error.code) for result in [await take(store, "direct", given, session=session) for _ in range(2)]]
    assert codes[0] == codes[1]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_plan_with_nan_is_invalid(number: str):
    with pytest.raises(ModelOutputInvalid):
        await parse_json(plan(slots_patch={"a": 1}).replace(": 1", f": {number}"))


@pytest.mark.parametrize("text", ["(" * 4000 + "a", "-" * 4000])
def test_the_rules_find_a_sum_in_bounded_time(text: str):
    session = SessionState.model_validate(stored("s"))
    request = PlannerRequest(user_message=text, memory_summary=None, session=session, now=NOW)
    before = time.process_time()
    load_agent("desk").offline.decide([Message(role="user", text=request.model_dump_json())], PlannerResponse)
    assert (time.process_time() - before) * (MAX_TEXT / 4000) < 10


def test_a_blank_question_is_ignored():
    session = SessionState.model_validate(stored("s", goal()))
    updates = StateUpdates(set_status="blocked", missing=["a"], next_question=" ")
    assert list(faults(with_updates(session, updates, now=NOW))) != []


def test_an_old_question_is_not_asked_for_something_else():
    blocked = goal(status="blocked", missing=["quantity"], next_question="How many?")
    session = SessionState.model_validate(stored("s", blocked))
    after = with_updates(session, StateUpdates(slots_patch={"quantity": 2}, missing=["address"]), now=NOW)
    assert after.goals["g-1"].next_question != "How many?"


async def said_offline(store: Store, *texts: str) -> TurnResult:
    session, result = new_session(), None
    for text in texts:
        result = await take(store, "direct", text, session=session)
        assert result.error is None
    assert result is not None
    return result


OFFLINE: dict[str, tuple[tuple[str, ...], Callable[[str, Any], bool]]] = {
    "a quantity in words is not its first word": (
        (f"I want to buy {BULB.name}", "one hundred"),
        lambda reply, goal: "Noted: 1 x" not in reply,
    ),
    "another product is another order": (
        (f"I want to buy {SHELF.name}", "actually I want a terracotta vase small", "2"),
        lambda reply, goal: f"2 x {SHELF.name}" not in reply,
    ),
    "2 x is two of them": (
        (f"order 2 x {SHELF.name}",),
        lambda reply, goal: f"2 x {SHELF.name}" in reply,
    ),
    "cancel ends an order": (
        (f"I want to buy {SHELF.name}", "cancel"),
        lambda reply, goal: goal is None,
    ),
    "no ends an order": (
        (f"I want to buy {SHELF.name}", "no"),
        lambda reply, goal: goal is None,
    ),
    "it is what is being ordered": (
        (f"I want to buy {SHELF.name}", "how much does it cost?"),
        lambda reply, goal: "70.90" in reply,
    ),
    "something is no product": (
        ("I want to buy something",),
        lambda reply, goal: reply == "Which product would you like?",
    ),
    "where an order is, is no order": (
        ("Where is my order?",),
        lambda reply, goal: "How many" not in reply,
    ),
    "a problem with an order is no order": (
        ("I have a problem with my order",),
        lambda reply, goal: "How many" not in reply,
    ),
    "the name of a product is about the product": (
        (SHELF.name,),
        lambda reply, goal: SHELF.sku in reply or "How many" in reply,
    ),
    "is there a product, is about the product": (
        ("Is there a purple unicorn lamp?",),
        lambda reply, goal: "catalogue" in reply,
    ),
    "a sum may end in a question mark after a space": (
        ("12 * (3 + 4) = ?",),
        lambda reply, goal: "84" in reply,
    ),
    "a lamp for late nights is no complaint": (
        ("I want to buy a desk lamp for late nights",),
        lambda reply, goal: goal is not None,
    ),
    "how to return a desk is about returning it": (
        ("how do I return a desk?",),
        lambda reply, goal: "30 days" in reply.partition("See also")[0],
    ),
    "a broken lamp has an article": (
        ("The lamp arrived broken, I want my money back",),
        lambda reply, goal: "nothing about this" not in reply,
    ),
}


@pytest.mark.parametrize(("texts", "holds"), OFFLINE.values(), ids=OFFLINE)
async def test_offline_messages_are_understood(store: Store, texts: tuple[str, ...], holds: Callable[[str, Any], bool]):
    result = await said_offline(store, *texts)
    assert holds(result.output, result.metadata["active_goal"]), json.dumps(result.output)
