"""Plans for a message about products: an order, a search in the catalogue, or a question back."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, cast

from interlock_agents.desk.plans import ABILITIES, HELP, KNOWN, ORDER, STOCK, above, not_read, pieces_of, say
from interlock_agents.desk.quantities import NUMBER, ONE_NUMBER, take_quantity, unmasked
from interlock_agents.desk.reading import Line, asides_in, lines_of
from interlock_agents.desk.references import ASKED_BACK, Focus, focus_of, followed, property_asked
from interlock_agents.desk.roles import PlannedGoal
from interlock_agents.desk.session import Goal, SessionState, Slots
from interlock_agents.desk.vocabulary import pattern_of
from interlock_agents.desk.words import Text, content

__all__ = ["about_products", "searched"]

_HARD = pattern_of("hard")
_SOFT = pattern_of("soft")
_STOCK = pattern_of("asking", "priced")
_ASKING = pattern_of("asking")
_ABOUT = pattern_of("about")
_ASKS = pattern_of("asks")
_COMPARE = pattern_of("compare")
_OVERVIEW = pattern_of("overview")
_BASKET = pattern_of("basket")
_CHANGE = pattern_of("change")
_SEEKS = pattern_of("seeks")
_EITHER = re.compile(r"\bor\b")
_WHAT_CAN_I = re.compile(r"\b(?:what|which)\b.*\b(?:can|could|may) (?:i|we) (?:get|have|buy|take)\b")
_WOULD_YOU = re.compile(r"\b(?:would|do|did|should) (?:you|i|we|they|people) (?:\w+ )?(?:buy|take|order|get)\b")
_WHAT_I = re.compile(r"\b(?:can|could|may) (?:i|we) (?:get|have|buy|take)\b")
_CONDITION = re.compile(
    r"\b(?:if|unless|in case|provided|as long as|otherwise|depending)\b"
    r"(?! (?:so|not|possible|available|you (?:please|can)|you have (?:it|one|any|them)|i may)\b)[^.;!?]*"
)
_CORRECTED = re.compile(
    rf"(?<=\w)\W+(?:oh|no|nope|actually|wait|sorry|i meant?|rather|well|make (?:it|that))\b(?:\W+(?:no|wait|sorry|make|it|that|only))*"
    rf"\W+{NUMBER}\b.*"
)
"""A number that takes back one that was said before it in the same message."""
_AND_ANOTHER = re.compile(rf"\W*(?:oh )?(?:and|also|plus)\b(?: also| then)? (?:an?|another|some|{NUMBER}) ")
_QUANTIFIERS = frozenset({"all", "both", "each", "either", "every"})
_BOTH = 2
_NUMBERED_ONLY = re.compile(r"\b(?:first|second|third|fourth|fifth|last|1st|2nd|3rd|number|option)\b|\d")


_GOODS = re.compile(r"\b(?:furniture|goods|(?:office )?supplies|accessories|stuff)\b")
_ANYTHING = re.compile(
    r"\b(?:kinds?|sorts?|types?|many|different|products?|things|items|shop|store|all|range|catalog(?:ue)?|categories|everything|your|list|"
    r"browse|sell|offer|stock|carry)\b"
)


def _asks_for_everything(text: Text) -> bool:
    is_asked = text.has(_OVERVIEW) or (text.has(_GOODS) and text.has(_ASKING))
    return is_asked and not content(_GOODS.sub(" ", _ANYTHING.sub(" ", _ASKING.sub(" ", _OVERVIEW.sub(" ", text.rest)))))


def _intent(text: Text) -> tuple[bool, bool]:
    """Return whether a message orders something, and whether it asks about something."""
    if text.has(_WHAT_CAN_I) or text.has(_WOULD_YOU):
        return False, True
    is_order = (
        (_AND_ANOTHER.match(text.rest) is not None and not text.rest.endswith("?"))
        or text.has(_HARD)
        or (text.has(_SOFT) and not text.has(_ASKS))
    )
    is_question = text.has(_ASKING if text.has(_SOFT) else _STOCK) or text.has(_ABOUT) or text.has(_COMPARE)
    return is_order, is_question and not text.has(_HARD)


@dataclass(frozen=True)
class _Wish:
    """The parsed content of a message about products.

    `said` is the whole message, `rest` what is left of it without asides. `number` is how many are wanted, where nothing
    else is said. `is_followed` tells whether the lines are about what was shown before.
    """

    said: Text
    rest: Text
    asides: list[str]
    lines: list[Line]
    number: int | None
    is_order: bool
    is_question: bool
    is_followed: bool = False

    @property
    def why(self) -> str | None:
        """The parts of the products that were not understood."""
        return next((line["why"] for line in self.lines if "why" in line), None)

    @property
    def known(self) -> list[Line]:
        """The products that can be searched."""
        return [line for line in self.lines if _is_named(line) or (self.is_question and _is_limited(line))]


def about_products(session: SessionState, text: Text, waiting: Goal | None) -> PlannedGoal | None:
    """Plan an order or a search in the catalogue. Return None if the message is about neither."""
    if _asks_for_everything(text):
        return above(session, PlannedGoal(goal_type=STOCK, slots_patch={"lines": [{"product": ""}], "asked": ""}))
    focus = focus_of(session)
    unknown = property_asked(text, focus)
    if unknown is not None:
        return say(session, unknown)
    wish = _read(text, focus)
    if not focus.shown and re.fullmatch(r"[\W\d]+", wish.rest.rest):
        return None
    follows = _asked_back(wish, focus) or followed(wish.rest, wish.lines, focus, waiting)
    if isinstance(follows, str):
        return say(session, follows)
    wish = _with_lines(wish, wish.lines if follows is None else follows, focus, is_followed=follows is not None)
    uncertain = _uncertain(wish)
    if uncertain:
        return say(session, uncertain)
    if wish.is_order and not wish.is_question:
        return _order(session, wish, focus)
    return _question(session, wish, focus, waiting) or searched(session, text)


def _read(text: Text, focus: Focus) -> _Wish:
    """Parse the intent, the products and the asides of a message."""
    said, asides = Text(text.rest), asides_in(text)
    text.take(_CHANGE)
    is_order, is_question = _intent(text)
    if is_question:
        asides = [one for one in asides if one not in {"all", "every", "either"}]  # "show me all lamps"
    named = text.rest
    for pattern in (_BASKET, _HARD, _SOFT) if is_order and not is_question else (_WOULD_YOU, _ASKING, _SOFT, _WHAT_I):
        named = pattern.sub(" ", named)
    if text.has(_ABOUT):  # "does the lamp have a switch"
        named = _HAS.sub(" with ", named)
    named = _MADE_OF.sub(" ", named).replace("~", " ")
    lines = lines_of(named, focus.shown)
    counted, besides = take_quantity(named)
    number = counted.value if counted is not None and _NOTHING_ELSE.fullmatch(besides) else None
    is_question = is_question or (not is_order and any(not line.keys().isdisjoint({"most", "least"}) for line in lines))
    return _Wish(said, text, asides, lines, number, is_order, is_question)


def _asked_back(wish: _Wish, focus: Focus) -> str | None:
    """Ask for missing context."""
    text, words = wish.rest.rest, [line.get("product", "") for line in wish.lines]
    is_said = any(_is_named(line) or _is_limited(line) or "why" in line for line in wish.lines)
    is_number = _NUMBERED_ONLY.search(text) is not None and not content(_NUMBERED_ONLY.sub(" ", " ".join(words)))
    if not focus.shown and is_number and (any(words) or not is_said):
        return f"Which product do you mean? {ABILITIES}"
    if wish.said.has(_MAKE) and not focus.shown and not any(words):
        return f"Nothing is noted yet that I could change. {ABILITIES}"
    wishes = [one for one in wish.asides if one not in _QUANTIFIERS]
    if wishes and not wish.is_order and not is_said:
        named = ", ".join(f"“{one}”" for one in wishes)
        return f"I cannot tell what would be right {named}. {KNOWN} Name a product, or ask “What do you sell?”."
    return None


def _with_lines(wish: _Wish, lines: list[Line], focus: Focus, *, is_followed: bool) -> _Wish:
    """Add the parsed products. A quantity makes the message an order."""
    if wish.is_question and not wish.is_order:  # "do you have at least 30 lamps": the stock says so
        lines = [line if not line.get("product") or "unsure" in line else _without_rough(line) for line in lines]
    shares = _SHARES.fullmatch(wish.said.rest) if not focus.is_cut and len(focus.shown) > 1 else None
    if shares is not None and (shares["both"] is None or len(focus.shown) == _BOTH):
        lines = [{"sku": one["sku"], "product": one["name"], "quantity": wish.number or 1} for one in focus.shown]
        asides = [one for one in wish.asides if one not in _QUANTIFIERS]
        return dataclasses.replace(wish, lines=lines, asides=asides, is_order=True, is_followed=True)
    wish = dataclasses.replace(wish, lines=lines, is_followed=is_followed)
    is_counted = (
        any(line.get("quantity") or line.get("why") for line in wish.known if "unpriced" not in line)
        and _NAME.search(wish.rest.rest) is None
    )
    return dataclasses.replace(wish, is_order=wish.is_order or is_counted or (wish.number is not None and bool(focus.shown)))


def _order(session: SessionState, wish: _Wish, focus: Focus) -> PlannedGoal:
    """Start an order. Missing fields are asked for after the search in the catalogue."""
    lines = [line for line in wish.lines if _is_named(line)]
    why = None if wish.why is None or ASKED_BACK.match(wish.why) else wish.why
    if why is not None and not lines:
        return say(session, why)
    if _SHARES.fullmatch(wish.said.rest) and not wish.is_followed:
        return say(session, "I cannot tell which products you mean. Please say each one by its name.")
    number, shown = wish.lines[0].get("quantity") if wish.lines else None, focus.shown
    if wish.number is not None and len(shown) > 1 and not wish.known and re.fullmatch(r"\W*\w+\W*", wish.rest.rest):
        return say(session, _number_or_place(wish.number, focus))
    if not lines and len(shown) == 1 and number:
        lines = [{"sku": shown[0]["sku"], "product": shown[0]["name"], "quantity": number}]
    if not lines:
        return _product_asked(session, wish, focus, number)
    noted: list[Any] = [{key: value for key, value in line.items() if key != "why"} for line in lines]
    slots: Slots = {"lines": noted, "remark": why or "", "asides": cast("Any", wish.asides)}
    return above(session, PlannedGoal(goal_type=ORDER, slots_patch=slots))


def _product_asked(session: SessionState, wish: _Wish, focus: Focus, number: int | None) -> PlannedGoal:
    """Start an order without a product, and ask which of the products shown is meant."""
    unused = f"I did not take into account: {', '.join(f'“{one}”' for one in wish.asides)}." if wish.asides else ""
    line = {"product": focus.query, "quantity": number} if focus.shown else {"quantity": number}
    slots: Slots = {"lines": [cast("Any", line)], "remark": unused, "cut": focus.is_cut, "shown": cast("Any", focus.shown)}
    slots["ask"] = cast("Any", {"line": 0, "what": "product", "options": focus.shown})
    listed = "; ".join(f"{place}. {one['name']}" for place, one in enumerate(focus.shown, 1))
    question = f"Which one would you like: {listed}?" if focus.shown else "Which product would you like?"
    return above(session, PlannedGoal(goal_type=ORDER, slots_patch=slots, missing=["product"], next_question=question))


def _question(session: SessionState, wish: _Wish, focus: Focus, waiting: Goal | None) -> PlannedGoal | None:
    """Plan a search, or return None if the message does not ask about products."""
    is_meant = wish.is_question or wish.is_followed
    if wish.why is not None and (is_meant or wish.known or not re.search(r"\b(?:i|you|we)\b", wish.rest.rest)):
        is_open = waiting is not None and ASKED_BACK.match(wish.why) is not None
        return not_read(waiting, wish.why) if waiting is not None and is_open else say(session, wish.why)
    if not wish.known:
        return _of_what_is_open(session, waiting) if wish.is_question else None
    if not is_meant and not _is_a_name(wish.rest.rest):
        return None
    is_tried, is_sought = any("or_alone" in line for line in wish.known), wish.said.has(_SEEKS) or wish.rest.has(_ABOUT)
    slots: Slots = {
        "lines": cast("Any", wish.known),
        "asked": " ".join(line.get("product", "") for line in wish.known),
        "asides": cast("Any", wish.asides),
        "compares": wish.said.has(_COMPARE) and not any("order" in line for line in wish.known),
        "is_guess": not (wish.is_question and is_sought) and (is_tried or not wish.is_followed),
        "is_about": wish.rest.has(_ABOUT),
    }
    if any("prefer" in line for line in wish.known):
        slots["shown"] = cast("Any", focus.shown)  # keep the topic if nothing is found
    return above(session, PlannedGoal(goal_type=STOCK, slots_patch=slots))


def _is_named(line: Line) -> bool:
    return bool(line.get("product") or line.get("sku"))


def _is_limited(line: Line) -> bool:
    return not line.keys().isdisjoint({"most", "least", "order"})


def _without_rough(line: Line) -> Line:
    """Drop an approximate quantity if only the stock is requested."""
    return cast("Line", {name: value for name, value in line.items() if name != "why" or not str(value).endswith(ONE_NUMBER)})


_PLEASE = r"\b(?:please|then|ok|okay|i|i'll|i'd|will|would|like|take|want|buy|order|have|get|can|could|give|me)\b"
_HAS = re.compile(r"(?<=\w )(?:have|has|comes?|needs?|fits?|works?|go(?:es)?)(?: (?:in|with|up|down))?\b")
_MAKE = re.compile(r"\b(?:make|change|update|switch)\b")
_MADE_OF = re.compile(
    r"\b(?:everything|anything|something|things?|all)?(?: that| which)?(?:'s| is| are)? ?made (?:out )?(?:of|from|in)\b|"
    r"\b(?:everything|category|section|department)\b"
)
_SHARES = re.compile(rf"(?:\W|{_PLEASE})*(?:(?P<both>both)|{NUMBER} (?:of )?each)(?: (?:of )?(?:them|those|these))?(?:\W|{_PLEASE})*")
"""A message that wants one, or so many, of each product that was shown."""
_NOTHING_ELSE = re.compile(r"(?:\W|\b(?:just|only|ok|okay|then|of|it|them|those|these|that|please|let's|do|go|with|say)\b)*")


def _number_or_place(number: int, focus: Focus) -> str:
    """Ask whether a number after a list is a position or a quantity."""
    if number > len(focus.shown):
        return f"Of which product do you want {number}? Say its name, or “the second one”."
    name = focus.shown[number - 1]["name"]
    pieces = pieces_of(number)
    return f"Do you mean number {number}, the {name}, or {pieces}? Say “number {number}”, or “{pieces}” and the name of a product."


def _uncertain(wish: _Wish) -> str:
    """Say why an order cannot be recorded: it has a condition, or a part is uncertain."""
    text, lines, is_order = wish.said, wish.lines, wish.is_order
    condition = _CONDITION.search(text.rest) if is_order else None
    if condition is not None:
        return f"I can note orders, but not with a condition (“{unmasked(condition[0].strip(' ~'))}”). Say what you want without it."
    corrected = _CORRECTED.search(text.rest) if is_order else None
    if corrected is not None:
        said = unmasked(corrected[0].strip(" ,.;~"))
        return f"I cannot tell for certain how many you want (“{said}”). Please say it once more, with one number."
    if is_order and len(lines) > 1 and text.has(_EITHER):
        return f"Which of these do you want: {' or '.join(filter(None, (line.get('product') for line in lines)))}? Please say one of them."
    why = next((line.get("why", "") for line in lines if "unsure" in line), "")
    return f"{why} Please say each product by itself, with how many you want of it." if why else ""


def _of_what_is_open(session: SessionState, waiting: Goal | None) -> PlannedGoal:
    """Answer a question without a product: it is about the open order, or is asked back."""
    lines = cast("list[dict[str, Any]]", waiting.slots.get("lines") or []) if waiting is not None else []
    if not lines or not lines[0].get("product"):
        return say(session, f"Which product do you mean? {ABILITIES}")
    slots: Slots = {"lines": cast("Any", lines[:1]), "asked": str(lines[0]["product"])}
    return above(session, PlannedGoal(goal_type=STOCK, slots_patch=slots))


def searched(session: SessionState, text: Text) -> PlannedGoal | None:
    """Plan a search in the articles, if the message has enough words."""
    words = [word for word in content(unmasked(text.rest)) if not word.isdigit()]
    return (
        above(session, PlannedGoal(goal_type=HELP, slots_patch={"question": " ".join(words), "is_guess": True})) if len(words) > 1 else None
    )


_NAME = pattern_of("name")
_LONGEST_NAME = 8


def _is_a_name(text: str) -> bool:
    """Return whether a message is probably a name and not a sentence."""
    return len(text.split()) <= _LONGEST_NAME and _NAME.search(text) is None
