"""References to the products shown last: "it", "the black one", "the cheapest of those"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from interlock_agents.desk.plans import KNOWN, ORDER, STOCK, ask_of
from interlock_agents.desk.quantities import NUMBER
from interlock_agents.desk.reading import CHEAPEST, DEAREST, Line, Shown, chosen, line_of, name_words
from interlock_agents.desk.session import Goal, SessionState
from interlock_agents.desk.vocabulary import pattern_of
from interlock_agents.desk.words import Text
from interlock_agents.shop.words import ATTRIBUTES

__all__ = ["ASKED_BACK", "Focus", "focus_of", "followed", "is_like_only", "property_asked"]

_HARD = pattern_of("hard")
_ASKING = pattern_of("asking")
_ASKS = pattern_of("asks")
_STOCK = pattern_of("asking", "priced")
_REFERS = pattern_of("refers")
_PROPERTY = pattern_of("property")
_CONTENTS = pattern_of("contents")
_CHEAPER = pattern_of("cheaper")
_OTHERS = pattern_of("others")
ASKED_BACK = re.compile("Which one do you mean|There (?:is|are) only")
_BEGINS = re.compile(r"\W*(?:(?:and|what about|how about|or|also)\b|(?:in|with|without) )")
_ANYTHING = re.compile(r"\b(?:anything|something|everything|what|else|stuff|things|products|show|list)\b")
_AND_ONE = re.compile(rf"\W*(?:and|also|plus)\b(?: also| then)? (?:an?|another|some|{NUMBER}) ")
_ONE = re.compile(r"\b(?:one|version|variant|model)s?\b")
_COUNTED = re.compile(rf"\b{NUMBER} (?:in|with|without) (?!stock)")
_IT = re.compile(r"^(?!.*\btime\b).*\b(?:it|they)\b")
_WHICH_PRODUCT = "Which product do you mean? Please say its name."
# The maximum number of words of a question about "it", of a message with only a colour or a size, and of a search for the same kind.
_SHORT, _FEW, _MOST_WORDS = 8, 3, 4


@dataclass(frozen=True)
class Focus:
    """The products shown last, the words they were found by, and their price limit.

    If the list `is_cut`, there are more products than were shown.
    """

    shown: list[Shown]
    query: str
    limits: Line
    is_cut: bool = False

    @property
    def asked(self) -> str:
        """The words for another product of the same kind."""
        return self.shown[0]["name"] if len(self.shown) == 1 else self.query


def focus_of(session: SessionState) -> Focus:
    """Return the products of the last question or order, or nothing if it found none.

    A message that was parsed as a name and found nothing does not count.
    """
    goals = [goal for goal in session.goals.values() if goal.type in {STOCK, ORDER} and ("lines" in goal.slots or "shown" in goal.slots)]
    goals = [goal for goal in goals if goal.slots.get("shown") or not goal.slots.get("is_guess")]
    if not goals or (goals[-1].type == STOCK and not goals[-1].slots.get("shown")):
        return Focus([], "", {})
    shown = cast("list[Shown]", goals[-1].slots.get("shown") or [])
    lines = cast("list[dict[str, Any]]", goals[-1].slots.get("lines") or [{}])
    line = lines[int(ask_of(goals[-1]).get("line", 0))]
    limits = cast("Line", {name: line[name] for name in ("least", "most") if name in line})
    query = str(goals[-1].slots.get("asked") or line.get("product") or "")
    return Focus(shown, query, limits, is_cut=bool(goals[-1].slots.get("cut")))


_ARTICLE_NUMBER = re.compile(r"[a-z]{2,}-\d+")


def is_like_only(words: str) -> bool:
    """Return whether words describe a product without naming it: "large black", "160 cm". An article number names one."""
    return all(
        word in ATTRIBUTES or not word.isascii() or not word.isalpha() or word in {"cm", "with", "without"} for word in words.split()
    ) and not _ARTICLE_NUMBER.search(words.casefold())


def _kind(name: str) -> str:
    """Return the name of a product without its properties."""
    before = re.split(r" (?:with|without|for) ", name.casefold())[0].split()
    return " ".join(word for word in before if not is_like_only(word)) or name


def property_asked(text: Text, focus: Focus) -> str | None:
    """Say that a requested property is unknown, or return None if none is requested or the name has it."""
    is_asked = _CONTENTS.match(text.rest) or (_PROPERTY.match(text.rest) and not text.has(_ASKS))
    if is_asked and not focus.shown and _IT.search(text.rest) and len(text.rest.split()) <= _SHORT:
        return _WHICH_PRODUCT
    if not is_asked or not focus.shown or any(text.has(pattern) for pattern in (_REFERS, CHEAPEST, DEAREST, _CHEAPER)):
        return None
    if _CONTENTS.match(text.rest) and "in" in text.rest.split():
        return f"{KNOWN} So I cannot say how many are in one."
    words = name_words(_ASKING.sub(" ", _PROPERTY_WORDS.sub(" ", text.rest))).split()
    named = [one["name"] for one in focus.shown if set(words) <= set(one["name"].casefold().split())]
    if not words or (named and len(focus.shown) == 1):
        return None
    if named:
        return f"By their names these are: {'; '.join(named)}."
    if set(words) <= _SIZES:
        return f"Of the size I know only what the names say: {'; '.join(one['name'] for one in focus.shown)}."
    return f"{KNOWN} So I cannot say anything about {', '.join(f'“{word}”' for word in words)}."


_SIZES = frozenset({"big", "dimensions", "high", "large", "long", "measurements", "size", "sizes", "small", "tall", "wide"})
_PROPERTY_WORDS = re.compile(r"\b(?:come|comes|made|many|much)\b")


def followed(text: Text, lines: list[Line], focus: Focus, waiting: Goal | None) -> list[Line] | str | None:
    """Parse a reference to the products shown last, or ask back. Return None if the message names its own products."""
    if any("sku" in line for line in lines) or any(ASKED_BACK.match(line.get("why", "")) for line in lines):
        return lines
    line: Line = lines[0] if lines else {}
    words, is_plain = line.get("product", ""), _STOCK.search(text.rest) is None and not text.has(_HARD)
    if text.has(_OTHERS) and focus.asked and not set(words.split()) - _OTHER_WORDS:
        return f"I show five products at a time, of “{focus.asked}”. Say what it should be: “in black”, “160 cm” or “under 50 euros”."
    if len(lines) > 1:  # "the black and the red one"
        is_like = all(is_like_only(one.get("product", "")) and "prefer" not in one for one in lines) and not text.has(_ANYTHING)
        return [{**one, "prefer": focus.asked} for one in lines] if is_like and focus.asked else None
    if text.has(_CHEAPER):
        return _cheaper(text, line, focus)
    has_one, refers = _ONE.search(text.rest) is not None, text.has(_REFERS) or (bool(focus.asked) and text.has(_COUNTED))
    if words and (refers or ((has_one or _BEGINS.match(text.rest)) and is_like_only(words))) and not focus.asked:
        return _WHICH_PRODUCT
    is_like = is_like_only(words) and not text.has(_ANYTHING)
    # "And in black" is about the same, and so is "how about desks"; "and a desk" is another wish.
    begins = _BEGINS.match(text.rest) is not None and (_AND_ONE.match(text.rest) is None or is_like_only(words))
    if words and (has_one or refers or is_like or begins) and focus.asked and len(words.split()) <= _MOST_WORDS:
        return _of_the_same(line, focus, has_one=has_one)
    if words and is_plain and focus.shown and len(text.rest.split()) < _FEW:
        return [{**focus.limits, **line, "prefer": focus.asked, "or_alone": True}]
    return None if words or not focus.asked else _of_those(text, lines, focus, waiting)


def _of_those(text: Text, lines: list[Line], focus: Focus, waiting: Goal | None) -> list[Line] | None:
    """Parse a message without a product: "the cheapest of those", "under 50 euros", "how much is it"."""
    line: Line = lines[0] if lines else {}
    if not line.keys().isdisjoint({"order", "most", "least"}):
        asked = _asked_for(waiting)
        is_one = len(focus.shown) == 1 and set(focus.asked.casefold().split()) <= set(focus.query.casefold().split())
        return [{**(asked or focus.limits), **line, "product": asked.get("product") or (_kind(focus.asked) if is_one else focus.query)}]
    if len(focus.shown) > 1 and _PLURAL.search(text.rest):
        return [{**focus.limits, "product": focus.asked}]
    if lines and focus.shown and text.has(_STOCK):
        return [{**line_of("it", focus.shown), "quantity": line.get("quantity")}]
    return None


_WHICH = re.compile(r"\b(?:which|what|the cheaper)\b")
_PLURAL = re.compile(r"\b(?:which|what) (?:ones|of (?:them|those|these))\b")
_OTHER_WORDS = frozenset(
    {"colour", "colours", "color", "colors", "size", "sizes", "options", "models", "cheaper", "less", "expensive", "others"}
)


def _cheaper(text: Text, line: Line, focus: Focus) -> list[Line] | None:
    """Parse "something cheaper", which lists that kind by price, and "which is cheaper", which requests the first one."""
    words = line.get("product", "")
    is_other = bool(set(words.split()) - _OTHER_WORDS)
    base = words if is_other else _kind(focus.asked) if len(focus.shown) == 1 else focus.asked
    only = not is_other and len(focus.shown) > 1 and _WHICH.search(text.rest) is not None
    return [{**focus.limits, **line, "product": base, "order": "cheapest", "only": only}] if base else None


def _of_the_same(line: Line, focus: Focus, *, has_one: bool) -> list[Line]:
    """Parse "the black one" or "it in black": one of the products shown, or another one of that kind."""
    named = chosen(line.get("product", ""), focus.shown) if has_one and not focus.is_cut else None
    if named is not None and len(focus.shown) > 1:
        return [{"sku": named["sku"], "product": named["name"], "quantity": line.get("quantity")}]
    made: Line = {**focus.limits, **line, "prefer": focus.asked}
    return [made if is_like_only(line.get("product", "")) else {**made, "or_alone": True}]


def _asked_for(waiting: Goal | None) -> Line:
    """Return the product that an order waits for: its name so far, and its price limit."""
    ask = ask_of(waiting) if waiting is not None and waiting.type == ORDER else {}
    if waiting is None or ask.get("what") != "product":
        return {}
    line = cast("list[dict[str, Any]]", waiting.slots["lines"])[int(ask["line"])]
    return cast("Line", {name: line[name] for name in ("product", "least", "most") if name in line}) if line.get("product") else {}
