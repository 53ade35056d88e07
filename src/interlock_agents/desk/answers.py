"""Parses a message as the answer to an open question."""

from __future__ import annotations

import re
from typing import Any, cast

from interlock_agents.desk.noted import about_orders, which_cancelled
from interlock_agents.desk.plans import CANCEL, ORDER, again, ask_of, counted, left, not_read, pieces_of, with_line
from interlock_agents.desk.quantities import LEAST_SIZE, NUMBER, take_quantity, unmasked
from interlock_agents.desk.reading import Line, Shown, asides_in, chosen, line_of, name_words
from interlock_agents.desk.roles import PlannedGoal
from interlock_agents.desk.session import Goal, SessionState, Slots
from interlock_agents.desk.vocabulary import LEAVE, pattern_of
from interlock_agents.desk.words import Text, content, topic_of

__all__ = ["answered"]

_SUMMARY = pattern_of("summary")
_CHANGE = pattern_of("change")
_CANCEL = pattern_of("cancel")
_QUESTION = re.compile(
    r"\W*(?:how (?!about)|where|why|when|who|whose|should|did|was|were|"
    r"(?:do|does|must|have|has|will|is|are) (?:i|we|you|it|they|that|this|the|my|your|there)\b)"
)
_EXCHANGE = re.compile(r"\b(?:change|replace|swap|switch|exchange) (?!it\b|that\b|this\b|them\b)(?:\w+ ){1,4}(?:to|for|with|by|into) ")
_NO_FIRST = re.compile(r"^(?:[~\s,.!]|no\b|ok\b|okay\b|oh\b|then\b)+(?=\w)")
_OTHER = pattern_of("other")
_HARD = pattern_of("hard")
_SOFT = pattern_of("soft")
_ASKS = pattern_of("asks")
_REFERS = pattern_of("refers")
_CHEAPER = pattern_of("cheaper")
_AND_ANOTHER = re.compile(rf"\W*(?:oh )?(?:and|also|plus)\b(?: also| then)? (?:an?|some|another|{NUMBER}) ")


def answered(session: SessionState, goal: Goal, text: Text, kinds: tuple[str, ...]) -> PlannedGoal | None:
    """Parse a message as the answer to the open question, or return None if it is about something else."""
    if LEAVE.fullmatch(text.rest) or ("no" in kinds and not content(text.rest)):
        return left(goal)
    if goal.type == CANCEL:
        return which_cancelled(session, goal, text)
    if goal.type != ORDER or not ask_of(goal):  # a goal of a model
        return again(goal, "")
    if _is_dropped(goal, text):
        return _without_line(goal)
    if _EXCHANGE.search(text.rest) or _CANCEL.match(text.rest):
        return again(goal, f"I did not understand “{unmasked(text.rest)}”.")
    return None if _is_about_something_else(session, goal, text) else _read(goal, text, is_denied="no" in kinds)


def _waiting_line(goal: Goal) -> Line:
    """Return the product of the open question."""
    return cast("Line", dict(cast("dict[str, Any]", cast("list[Any]", goal.slots["lines"])[int(ask_of(goal).get("line", 0))])))


def _is_dropped(goal: Goal, text: Text) -> bool:
    """Return whether the customer drops the product of the question: "actually, never mind the lamps"."""
    said = _CANCEL.sub(" ", text.rest)
    known = f"{_waiting_line(goal).get('product', '')} {' '.join(one['name'] for one in ask_of(goal).get('options', []))}".casefold()
    words = name_words(said).split()
    return said != text.rest and bool(words) and all(word.rstrip("s") in known for word in words if word != "actually")


def _without_line(goal: Goal) -> PlannedGoal:
    """Continue with the other products of an order, or drop it if it has no others."""
    at, lines = int(ask_of(goal).get("line", 0)), cast("list[dict[str, Any]]", goal.slots["lines"])
    others = [line for place, line in enumerate(lines) if place != at]
    if not others:
        return left(goal)
    slots: Slots = {"lines": cast("Any", others), "ask": None, "remark": f"I leave out “{lines[at].get('product')}”.", "asides": []}
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch=slots, missing=[])


def _is_about_something_else(session: SessionState, goal: Goal, text: Text) -> bool:
    if topic_of(Text(text.rest)) is not None or text.has(_SUMMARY) or about_orders(session, Text(text.rest), is_waiting=True):
        return True
    if _AND_ANOTHER.match(text.rest) or text.has(_ASKS) or _QUESTION.match(text.rest):
        return True
    is_order = (text.has(_HARD) or text.has(_SOFT)) and not text.has(_CHANGE) and ask_of(goal).get("what") == "quantity"
    return is_order and bool(name_words(_HARD.sub(" ", _SOFT.sub(" ", take_quantity(text.rest)[1]))))


def _read(goal: Goal, text: Text, *, is_denied: bool) -> PlannedGoal:
    """Parse the product or the quantity, as the question asks."""
    ask, line = ask_of(goal), _waiting_line(goal)
    options = cast("list[Shown]", ask.get("options", []))
    changes = text.has(_CHANGE) or is_denied
    rest = Text(text.rest)
    asides = asides_in(rest)
    for pattern in (_CHANGE, _HARD, _SOFT, _NO_FIRST):
        rest.take(pattern)
    rest.rest = rest.rest.replace("~", " ").strip()
    if ask.get("what") == "quantity":
        return _quantity_answered(goal, line, rest.rest, asides, changes=changes)
    number = _counted(rest.rest, changes=changes)
    taken, besides = take_quantity(rest.rest)
    is_said = taken is not None and taken.value is not None and not re.search(r"[^\W_]", besides)
    if taken is not None and options and number is None and is_said and (taken.said.isalpha() or text.has(_HARD) or text.has(_SOFT)):
        return _number_taken(goal, taken.value or 0, options)
    return counted(goal, number) if number is not None else _product_answered(goal, line, rest.rest, options, asides)


def _counted(text: str, *, changes: bool) -> int | None:
    """Parse a quantity in the answer to a question about the product: "make that 4", "a dozen". A number alone is a choice."""
    quantity, left = take_quantity(text)
    if quantity is None or quantity.value is None or re.search(r"[^\W_]", _THESE.sub(" ", left)):
        return None
    return None if _ALONE.fullmatch(quantity.said) and not (changes or _THESE.search(left)) else quantity.value


def _number_taken(goal: Goal, number: int, options: list[Shown]) -> PlannedGoal:
    """Ask whether "I'll take 3" is the third of the options or three pieces; what is no number of an option is a quantity."""
    if not 0 < number <= len(options):
        return counted(goal, number) if number else again(goal, "It has to be at least 1.")
    name = options[number - 1]["name"]
    pieces = pieces_of(number)
    return again(goal, f"Do you mean number {number}, the {name}, or {pieces}? Say “number {number}” or “{pieces}”.")


_ALONE = re.compile(r"\d+|[a-z]+")
_THESE = re.compile(r"\b(?:of )?(?:it|them|these|those|each|to|altogether|in total|pieces?|pcs|units?|only|just|please)\b")


def _quantity_answered(goal: Goal, line: Line, text: str, asides: list[str], *, changes: bool) -> PlannedGoal:
    read = line_of(text)
    words = [word for word in read.get("product", "").split() if word not in line.get("product", "").casefold() and not word.isdigit()]
    if "why" in read:
        return again(goal, read["why"])
    number = read.get("quantity") or read.get("maybe")
    if not read.get("quantity") and (number or 0) >= LEAST_SIZE and re.search(r"[a-z]{3}", read.get("product", "")):
        return again(goal, f"Do you mean {number} pieces, or one with “{number}” in its name? Say “{number} pieces”, or the name.")
    if words and (changes or number or _OTHER.search(text)):
        return with_line(goal, {"product": " ".join(words), "prefer": line.get("product", ""), "quantity": number}, asides)
    if words or number is None:
        named = unmasked(" ".join(text.replace("~", " ").split())).strip(" ?!.")
        return again(goal, f"I did not understand “{named}” as a number." if named else "")
    return with_line(goal, {**line, "quantity": number}, asides)


def _product_answered(goal: Goal, line: Line, text: str, options: list[Shown], asides: list[str]) -> PlannedGoal:
    is_cut = bool(goal.slots.get("cut"))
    one = chosen(text, options) if options and not (is_cut and re.search(r"[a-z]{3}", text) and not _PLACE.search(text)) else None
    if one is not None:
        return with_line(goal, {"sku": one["sku"], "product": one["name"]}, asides)
    if options and re.fullmatch(r"\W*\d+\W*", text):
        return again(goal, f"There {'is' if len(options) == 1 else 'are'} only {len(options)} to choose from.")
    refers = _REFERS.search(text)
    if refers is not None and line.get("product"):  # "the same in green"
        made = line_of(_REFERS.sub(" ", text))
        return with_line(goal, {**made, "prefer": line.get("product", "")}, asides)
    read = line_of(_CHEAPER.sub("cheap", text), options)
    if "why" in read:
        return not_read(goal, read["why"])
    if "sku" in read:
        return with_line(goal, read, asides)
    words = set(read.get("product", "").split())
    is_other = bool(options) and not line.get("product") and words.isdisjoint(" ".join(one["name"] for one in options).casefold().split())
    if options and not is_other and (words or read.get("order")):
        read = _refined(line, read, [] if is_cut else options)
    if not read.get("product"):
        if read.get("quantity") and not options:
            return counted(goal, read.get("quantity") or 1)
        named = ", ".join(asides) if asides and not content(text) else unmasked(text).strip(" ~")
        return again(goal, f"I did not understand “{named}”.")
    return with_line(goal, read, asides, is_other=is_other)


def _refined(line: Line, read: Line, options: list[Shown]) -> Line:
    """Find the option that an answer names, or add its words to the search."""
    named = chosen(read.get("product", ""), options)
    if named is not None:
        return {"sku": named["sku"], "product": named["name"], "quantity": read.get("quantity")}
    known = line.get("product", "").split()
    more = [word for word in read.get("product", "").split() if word not in known]
    # What it is stays the last word: "folding" and "table" are a folding table.
    is_after = not _QUALIFIES.isdisjoint({*more[:1], *known})
    return _within(line, read, " ".join([*known, *more] if is_after else [*more, *known]))


_QUALIFIES = frozenset({"with", "without"})
_PLACE = re.compile(r"\b(?:number|option|one|two|three|four|five)\b")


def _within(line: Line, read: Line, product: str) -> Line:
    """Combine the request with an answer. An earlier price limit is kept."""
    made: dict[str, Any] = {name: value for name, value in line.items() if name in {"least", "most"}}
    return cast("Line", {**made, **read, "product": product})
