"""Orders recorded in this conversation: list, change and cancel them."""

from __future__ import annotations

import re
from typing import Any, cast

from interlock_agents.desk.plans import CANCEL, ORDER, STOCK, SUMMARY, above, again, ask_of, say
from interlock_agents.desk.quantities import LEAST_SIZE, Quantity, take_quantity, unmasked
from interlock_agents.desk.reading import Line, Shown, chosen, line_of, name_words
from interlock_agents.desk.roles import PlannedGoal
from interlock_agents.desk.session import Goal, SessionState, Slots
from interlock_agents.desk.vocabulary import FIRST_WORDS, LEAVE, pattern_of
from interlock_agents.desk.words import ORDINALS, Text, content, topic_of

__all__ = ["about_orders", "which_cancelled"]

_CANCEL = pattern_of("cancel")
_ALL = pattern_of("all")
_LAST = pattern_of("last")
_SUMMARY = pattern_of("summary")
_CHANGE = pattern_of("change")
_MORE = pattern_of("more")
_LESS = pattern_of("less")
_HARD = pattern_of("hard")
_SOFT = pattern_of("soft")
_ORDER_WORDS = pattern_of("order_words")
_WHETHER = pattern_of("whether")
_ADDED = re.compile(r"\b(?:add|put)\b")
_EARLIER = pattern_of("earlier")
_PLACED = "Orders that you have placed in the shop are under “My orders” there."
_NOTHING = "There is nothing open that I could cancel."


def _noted(session: SessionState) -> list[Goal]:
    """Return the recorded orders that were neither cancelled nor replaced."""
    gone = {
        str(name) for goal in session.goals.values() if goal.status == "done" for name in cast("list[Any]", goal.slots.get("gone") or [])
    }
    return [goal for goal in session.goals.values() if goal.status == "done" and goal.slots.get("noted") and goal.id not in gone]


def _lines_noted(goal: Goal) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", goal.slots["noted"])


def _named(goal: Goal) -> str:
    return ", ".join(f"{one['quantity']} x {one['name']}" for one in _lines_noted(goal))


def about_orders(session: SessionState, text: Text, *, is_waiting: bool = False) -> PlannedGoal | None:
    """Change, cancel or list recorded orders."""
    orders = _noted(session)
    if (
        text.has(_SUMMARY)
        and not text.has(_ADDED)
        and not (topic_of(Text(_SUMMARY.sub(" ", text.rest))) or text.has(re.compile(r"\b(?:where|when|track|status|late|arrive\w*)\b")))
    ):
        lines = [one for goal in orders for one in _lines_noted(goal)]
        left = [word for word in content(_ORDER_WORDS.sub(" ", _SUMMARY.sub(" ", text.rest))) if word != "altogether"]
        if not left:
            return above(session, PlannedGoal(goal_type=SUMMARY, slots_patch={"noted": [], "lines": cast("Any", lines)}))
    if text.has(_EARLIER):
        return say(session, f"I know no earlier orders, only what is noted in this conversation. {_PLACED} Say which product you want.")
    if text.has(_CANCEL) and text.has(_WHETHER) and orders:
        return say(
            session,
            f"Noted is: {'; '.join(map(_named, orders))}. Nothing of that is sent yet: say “cancel that”, and I cancel it. {_PLACED}",
        )
    if text.has(_CANCEL) and orders and not is_waiting:
        return _cancelled(session, orders, text)
    is_cancelled = _CANCEL.match(FIRST_WORDS.sub("", text.rest)) is not None
    if is_cancelled and not is_waiting and not LEAVE.fullmatch(text.rest) and topic_of(Text(text.rest)) is None:
        return say(session, f"{_NOTHING} {_PLACED}")
    if LEAVE.fullmatch(text.rest) and not is_waiting and (orders or "order" not in text.rest):
        if orders:
            how = "that, say “cancel that”" if len(orders) == 1 else "one of them, say which one, or “cancel everything”"
            return say(session, f"Noted is: {'; '.join(map(_named, orders))}. If I should cancel {how}.")
        return say(session, f"All right. {_NOTHING}")
    if not orders or is_waiting:
        return None
    return _changed(session, orders, text)


def _cancelled(session: SessionState, orders: list[Goal], text: Text) -> PlannedGoal | None:
    quantity, rest = take_quantity(_CANCEL.sub(" ", text.rest))
    words = [
        word for word in name_words(_ORDER_WORDS.sub(" ", rest)).split() if word not in {"last", "both", "everything", "whole", "start"}
    ]
    if words:
        wanted = {unmasked(word) for word in words}
        fits = [
            goal
            for goal in orders
            if all(any(word.rstrip("s") in str(one["name"]).casefold() for one in _lines_noted(goal)) for word in wanted)
        ]
        place = ORDINALS.get(words[0]) if len(words) == 1 and len(orders) > 1 else None  # "cancel the first one"
        fits = orders[place - 1 : place] if place is not None else fits
        if not fits and not _CANCEL.match(FIRST_WORDS.sub("", text.rest)):
            return None
        if not fits:
            return say(session, f"Noted is: {'; '.join(map(_named, orders))}. Nothing of that is called “{unmasked(' '.join(words))}”.")
        words = words if place is None else []
        orders = fits
    if len(orders) == 1 and not _ALL.search(text.rest):
        part = _part(session, orders[0], words, quantity)
        if part is not None:
            return part
    if len(orders) == 1 or _ALL.search(text.rest):
        return _cancel(session, orders)
    if _LAST.search(text.rest):
        return _cancel(session, orders[-1:])
    names = [{"sku": goal.id, "name": _named(goal)} for goal in orders]
    listed = "; ".join(f"{number}. {one['name']}" for number, one in enumerate(names, 1))
    question = f"Which one should I cancel: {listed}?"
    slots: Slots = {"ask": cast("Any", {"what": "cancel", "options": names})}
    return above(session, PlannedGoal(goal_type=CANCEL, slots_patch=slots, missing=["order"], next_question=question))


def _part(session: SessionState, order: Goal, words: list[str], quantity: Quantity | None) -> PlannedGoal | None:
    """Cancel a part of an order, or return None if all of it is meant."""
    lines = _lines_noted(order)
    meant = _fitting(lines, words) if words else lines
    if not meant:  # "the lamps and the desks"
        meant = [one for one in lines if any(_fitting([one], [word]) for word in words)]
    elif words and len(meant) > 1:
        return say(session, f"That fits {len(meant)} of these: {_named(order)}. Say more of the name, or “cancel everything”.")
    number = quantity.value if quantity is not None else None
    if quantity is not None and (number is None or len(meant) != 1 or number > int(meant[0]["quantity"])):
        return say(session, f"Noted is still: {_named(order)}. Say how many you want to keep, for instance “make it 2”, or “cancel that”.")
    if number is not None and number < int(meant[0]["quantity"]):
        return _replaced(session, order, [{**_line(one), "quantity": one["quantity"] - number * (one is meant[0])} for one in lines])
    kept = [_line(one) for one in lines if one not in meant]
    return _replaced(session, order, kept) if kept else None


def _fitting(lines: list[dict[str, Any]], words: list[str]) -> list[dict[str, Any]]:
    return [one for one in lines if all(unmasked(word).rstrip("s") in str(one["name"]).casefold() for word in words)]


def _line(one: dict[str, Any]) -> dict[str, Any]:
    return {"sku": one["sku"], "product": one["name"], "quantity": one["quantity"]}


def _replaced(session: SessionState, order: Goal, lines: list[dict[str, Any]]) -> PlannedGoal:
    """Record an order in place of an earlier one."""
    slots: Slots = {"lines": cast("Any", lines), "gone_if_done": [order.id], "instead": _named(order), "remark": ""}
    return above(session, PlannedGoal(goal_type=ORDER, slots_patch=slots))


def which_cancelled(session: SessionState, goal: Goal, text: Text) -> PlannedGoal:
    """Parse which of several orders to cancel."""
    options = cast("list[Shown]", ask_of(goal).get("options", []))
    one = chosen(unmasked(text.rest), options)
    line = line_of(text.rest, options)
    names = (
        [one["sku"]] if one else [line["sku"]] if "sku" in line else [every["sku"] for every in options] if _ALL.search(text.rest) else []
    )
    if not names:
        return again(goal, f"I did not understand “{unmasked(text.rest)}”.")
    orders = [session.goals[name] for name in names if name in session.goals]
    slots: Slots = {"gone": cast("Any", names), "cancelled": "; ".join(map(_named, orders)), "remark": ""}
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch=slots, missing=[])


def _cancel(session: SessionState, orders: list[Goal]) -> PlannedGoal:
    slots: Slots = {"gone": [goal.id for goal in orders], "cancelled": "; ".join(map(_named, orders))}
    return above(session, PlannedGoal(goal_type=CANCEL, slots_patch=slots))


_ASKED = re.compile(rf"^\W*(?:and|also|plus|add)\b|\b(?:too|as well)\b|{pattern_of('asking').pattern}")


def _is_last(session: SessionState, order: Goal) -> bool:
    """Return whether an order was the last message about products."""
    return [goal.id for goal in session.goals.values() if goal.type in {ORDER, STOCK}][-1:] == [order.id]


def _same_again(session: SessionState, order: Goal, text: Text, words: str, number: int | None) -> PlannedGoal | None:
    """Ask whether a new quantity of a product just ordered replaces the old one or is added to it."""
    is_same = not words or bool(_fitting(_lines_noted(order), words.split()))
    if not number or not is_same or _ASKED.search(text.rest) or not _is_last(session, order):
        return None
    return say(session, f"Noted is: {_named(order)}. Say “make it {number}” to change that, or “{number} more”.")


def _change_read(text: Text) -> tuple[Line, str]:
    """Parse the change of an order, and the words about the product."""
    rest = Text(_CHANGE.sub(" ", _MORE.sub(" ", _LESS.sub(" ", text.rest))))
    for pattern in (_HARD, _SOFT):
        rest.take(pattern)
    read = line_of(rest.rest)
    words = " ".join(word for word in read.get("product", "").split() if word != str(read.get("maybe")))
    if words and int(read.get("maybe") or 0) >= LEAST_SIZE:  # "make that walnut 160": a size
        words, read["maybe"] = read.get("product", ""), 0
    return read, words


def _changed(session: SessionState, orders: list[Goal], text: Text) -> PlannedGoal | None:
    """Change the last order: another quantity, or the product in another colour or size."""
    is_change, is_less = text.has(_CHANGE), text.has(_LESS)
    is_more = text.has(_MORE) or is_less
    read, words = _change_read(text)
    is_number = not words and (read.get("quantity") or read.get("maybe"))
    if not is_change and not (is_more and is_number):
        return None if is_more else _same_again(session, orders[-1], text, words, read.get("quantity") or read.get("maybe"))
    order, lines = orders[-1], _lines_noted(orders[-1])
    fits = _fitting(lines, words.split()) if words else []
    if "why" in read:
        return say(session, f"{read['why']} Noted is still: {_named(order)}.")
    if not words and not is_number:
        return say(
            session, f"What should I change? Noted is: {_named(order)}. You can say “make it 4”, “in black instead” or “cancel that”."
        )
    if len(lines) > 1 and len(fits) != 1:
        return say(session, f"Noted is: {_named(order)}. Which of these should I change? Say for instance “make it 4 {lines[0]['name']}”.")
    if not is_change and words:
        return None
    old = fits[0] if len(fits) == 1 else lines[0]
    number = int(read.get("quantity") or read.get("maybe") or old["quantity"])
    if is_more and is_number:
        number = int(old["quantity"]) + (-number if is_less else number)
    if number < 1:
        return say(session, f"Noted is still: {_named(order)}. If I should cancel that, say “cancel that”.")
    new: dict[str, Any] = {**_line(old), "quantity": number}
    if words and not fits:
        new = {"product": words, "prefer": old["name"], "quantity": number}
    return _replaced(session, order, [new if one is old else _line(one) for one in lines])
