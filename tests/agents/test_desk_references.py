"""What a message to the desk refers to: the products that were shown last, and the order that is open."""

from __future__ import annotations

from typing import Any

import pytest

from interlock_agents.desk.references import focus_of, is_like_only
from interlock_agents.desk.session import SessionState
from tests.support.desk import Store, goal, new_session, stored, take

LAMP = {"sku": "LMP-1001", "name": "Black desk lamp dimmable"}
STEEL = {"sku": "LMP-1005", "name": "Steel desk lamp dimmable"}


def session_of(*slots: dict[str, Any]) -> SessionState:
    goals = [goal(f"g-{place}", type="sales.stock", status="done", slots=one) for place, one in enumerate(slots, 1)]
    return SessionState.model_validate(stored("s", *goals))


def asked(product: str, *shown: dict[str, str], **slots: Any) -> dict[str, Any]:
    return {"lines": [{"product": product}], "asked": product, "shown": [*shown], **slots}


def test_it_refers_to_the_product_shown_last():
    focus = focus_of(session_of(asked("desks", STEEL), asked("lamps", LAMP)))
    assert (focus.shown, focus.asked) == ([LAMP], LAMP["name"])
    assert focus_of(session_of(asked("lamps", LAMP, STEEL))).asked == "lamps"


def test_a_question_without_a_result_clears_the_references():
    assert focus_of(session_of(asked("lamps", LAMP), asked("sofas"))).asked == ""


def test_a_message_that_is_only_a_name_keeps_the_references():
    assert focus_of(session_of(asked("lamps", LAMP), asked("wow", is_guess=True))).shown == [LAMP]


@pytest.mark.parametrize(
    ("words", "expected"), [("large black", True), ("160 cm", True), ("with 4", True), ("black desk", False), ("chair", False)]
)
def test_properties_are_distinguished_from_names(words: str, *, expected: bool):
    assert is_like_only(words) is expected


CONVERSATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "one product of an order is dropped, the others are noted": (
        ("3 lamps and 2 oak bar stools 45 cm", "never mind the lamps"),
        ("I leave out “lamps”", "Noted: 2 x Oak bar stool 45 cm"),
        (),
    ),
    "an order that is dropped names everything that is not noted": (
        ("3 lamps and 2 oak bar stools 45 cm", "no wait, cancel that"),
        ("Not noted: 3 x lamps, 2 x oak bar stools 45 cm",),
        (),
    ),
    "what is clear of an order is named while the rest is asked": (
        ("2 oak bar stools 45 cm and 3 lamps",),
        ("2 x Oak bar stool 45 cm is clear.", "Which one would you like?"),
        (),
    ),
    "a word chooses from all products of a list that was cut": (
        ("i want to order 10 chairs", "the grey ones"),
        ("4 products fit “grey chairs”",),
        ("Noted",),
    ),
    "a question whether one can cancel cancels nothing": (
        ("2 oak bar stools 45 cm", "can I still cancel it?"),
        ("Noted is: 2 x Oak bar stool 45 cm", "cancel that"),
        ("Cancelled",),
    ),
    "the same number once more is not noted twice": (
        ("2 oak bar stools 45 cm", "order two"),
        ("Noted is: 2 x Oak bar stool 45 cm", "2 more"),
        ("Noted: 2",),
    ),
    "a number and another product are both noted": (
        ("show me the oak bar stool 45 cm", "3 of those and 2 walnut ones"),
        ("3 x Oak bar stool 45 cm", "2 x Walnut bar stool 45 cm"),
        (),
    ),
    "a size after a name is no number of pieces": (
        ("2 walnut standing desks 120 cm", "make that walnut 160 instead"),
        ("2 x Walnut standing desk 160 cm",),
        ("not 160",),
    ),
    "a number after a list is a place in it or a number of pieces": (
        ("show me pendant lamps", "2"),
        ("number 2", "2 pieces"),
        ("Noted",),
    ),
    "all three is asked back": (
        ("the cheapest desk", "I'll take all three"),
        ("“all three”: I cannot tell which ones you mean",),
        ("Noted",),
    ),
    "what is not said by a name is not known": (
        ("show me the oak bar stool 45 cm", "is it waterproof"),
        ("nothing else about them", "“waterproof”"),
        ("There is no",),
    ),
    "a purpose is named as not used": (
        ("do you have a desk for a small room under 250",),
        ("5 products fit “desk” for 250 EUR or less", "I did not take into account: “for a small room”"),
        (),
    ),
    "a price in words is a price": (
        ("lamps under fifty euros",),
        ("for 50 EUR or less",),
        ("Noted", "instead?"),
    ),
}


@pytest.mark.parametrize(("texts", "has", "lacks"), CONVERSATIONS.values(), ids=CONVERSATIONS)
async def test_a_conversation_is_understood(store: Store, texts: tuple[str, ...], has: tuple[str, ...], lacks: tuple[str, ...]):
    session, reply = new_session(), ""
    for text in texts:
        result = await take(store, "direct", text, session=session, human="nobody")
        assert result.error is None
        reply = str(result.output)
    assert all(one in reply for one in has), reply
    assert not any(one in reply for one in lacks), reply
