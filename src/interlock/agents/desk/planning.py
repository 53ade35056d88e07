"""What the desk plans where there is no model: which goal a message is about, by rules over its words."""

from __future__ import annotations

import itertools
import re
from typing import Any, cast

from interlock.agents.desk.answers import answered
from interlock.agents.desk.noted import about_orders
from interlock.agents.desk.plans import ABILITIES, HELP, MOST_LOOKS, ORDER, STOCK, SUM, above, again, ask_of, left, not_read, say, with_line
from interlock.agents.desk.quantities import NUMBER, masked, unmasked
from interlock.agents.desk.reading import Line, Shown, asides_in, chosen, line_of, lines_of
from interlock.agents.desk.requests import first_of
from interlock.agents.desk.roles import PERSON, SMALL_TALK, PlannedGoal, PlannerRequest
from interlock.agents.desk.session import Goal, SessionState, Slots
from interlock.agents.desk.vocabulary import LEAVE, pattern_of
from interlock.agents.desk.words import Text, content, normalised, small_talk, sum_in, topics_of

__all__ = ["planned"]

_PERSON = pattern_of("person")
_HARD = pattern_of("hard")
_SOFT = pattern_of("soft")
_STOCK = pattern_of("asking", "priced")
_ASKING = pattern_of("asking")
_ABOUT = pattern_of("about")
_ASKS = pattern_of("asks")
_COMPARE = pattern_of("compare")
_OVERVIEW = pattern_of("overview")
_BASKET = pattern_of("basket")
_ASKS_HOW = re.compile(
    r"^\W*(?:how (?!much|many|about|expensive|big|large|heavy|tall|wide|high|long|old|good)|where|why|when|who|should|did|was|were)\b|"
    r"^\W*(?:do|does|must|have) (?:i|we)\b"
)
"""A message that asks how something is done: it is no order, whatever it names."""
_TELLS = re.compile(r"\b(?:i|we|you)(?:'ve| have| had)? (?:\w+ )?(?:ordered|bought|purchased|received|paid|placed)\b")
"""A message that tells what has happened: it is no order, either, and no question that could be looked up."""
_EITHER = re.compile(r"\bor\b")
_WHAT_CAN_I = re.compile(r"\b(?:what|which)\b.*\b(?:can|could|may) (?:i|we) (?:get|have|buy|take)\b")
_WHAT_I = re.compile(r"\b(?:can|could|may) (?:i|we) (?:get|have|buy|take)\b")
_CONDITION = re.compile(
    r"\b(?:if|unless|in case|provided|as long as|otherwise|depending)\b(?! (?:so|not|possible|you (?:please|can)|i may)\b)[^.;!?]*"
)
_CORRECTED = re.compile(
    rf"(?<=\w)\W+(?:oh|no|nope|actually|wait|sorry|i meant?|rather|well|make (?:it|that))\b(?:\W+(?:no|wait|sorry|make|it|that|only))*"
    rf"\W+{NUMBER}\b.*"
)
"""A number that takes back one that was said before it in the same message."""
_LONGEST = 1_000  # characters of a message that the rules read
_AND_ANOTHER = re.compile(r"\W*(?:oh )?(?:and|also|plus)\b(?: also| then)? (?:an?|another|\d+|two|three|four|five) ")
_NOT_WANTED = re.compile(r"\b(?:don't|do not|didn't|no longer|not|never) (?:\w+ )?(?:need|want|like|buy|order|take)\b")


def planned(request: PlannerRequest) -> PlannedGoal:
    """Find out which goal a message is about, and what else it asks for."""
    said, undone = first_of(normalised(request.user_message[:_LONGEST]))
    is_several = bool(undone) and len(request.user_message) <= _LONGEST
    goal = _planned(request.model_copy(update={"user_message": said}) if is_several else request)
    slots = goal.slots_patch or {}
    lines = cast("list[Line]", slots.get("lines") or [])
    some = _looked_up(lines) if goal.goal_type in {ORDER, STOCK} else lines
    undone = [
        *(f"{line.get('quantity') or ''} {line.get('product')}".strip() for line in lines[len(some) :]),
        *(undone if is_several else []),
    ]
    if not undone:
        return goal
    return goal.model_copy(update={"slots_patch": {**slots, **({"lines": some} if lines else {}), "undone": [*undone]}})


def _looked_up(lines: list[Line]) -> list[Line]:
    """Return as many products as can be looked up in one turn; one that others may explain is looked up twice."""
    looks = itertools.accumulate(2 if line.get("prefer") else 1 for line in lines)
    return [line for line, so_far in zip(lines, looks, strict=True) if so_far <= MOST_LOOKS]


def _planned(request: PlannerRequest) -> PlannedGoal:
    session, said = request.session, normalised(request.user_message[:_LONGEST])
    waiting = session.active_goal if session.active_goal is not None and session.active_goal.status == "blocked" else None
    if len(request.user_message) > _LONGEST:
        return _too_long(session, waiting)
    kinds, rest = small_talk(said)
    text = Text(masked(rest))
    if not re.search(r"\w", rest):
        return _talked(session, kinds, waiting) if kinds else _unread(session, waiting, request.user_message)
    summed = sum_in(rest)
    if summed is not None and not (waiting and re.fullmatch(r"[\d\s-]+", rest)):
        return above(session, PlannedGoal(goal_type=SUM, slots_patch={"expression": summed}))
    if text.has(_PERSON):
        return PlannedGoal(goal_type=PERSON)
    if waiting is not None:
        going_on = answered(session, waiting, text, kinds)
        if going_on is not None:
            return going_on
    if waiting is None and session.active_goal is not None and LEAVE.fullmatch(text.rest):
        return left(session.active_goal)
    found = about_orders(session, text) or _about_help(session, text)
    if found is None and not (text.has(_NOT_WANTED) or text.has(_TELLS)):
        found = _searched(session, text) if text.has(_ASKS_HOW) else _about_products(session, text, waiting)
    return found or _unread(session, waiting, request.user_message)


def _talked(session: SessionState, kinds: tuple[str, ...], waiting: Goal | None) -> PlannedGoal:
    if waiting is not None and "no" in kinds:
        return left(waiting)
    if waiting is not None and set(kinds) <= {"yes", "nod"}:
        options = ask_of(waiting).get("options", [])
        if "yes" in kinds and len(options) == 1:
            return with_line(waiting, {"sku": options[0]["sku"], "product": options[0]["name"]})
        return again(waiting, "")
    if session.active_goal is None and kinds and set(kinds) <= {"yes", "no"}:
        return say(session, f"I have not asked anything. {ABILITIES}")
    return PlannedGoal(goal_type=SMALL_TALK, slots_patch={"talk": [*kinds]})


def _too_long(session: SessionState, waiting: Goal | None) -> PlannedGoal:
    why = f"That is over {_LONGEST:,} characters. Without a language model I only understand short messages."
    return say(session, f"{why} {ABILITIES}") if waiting is None else again(waiting, why)


def _unread(session: SessionState, waiting: Goal | None, said: str) -> PlannedGoal:
    words = " ".join(said.split())[:80]
    if waiting is not None:
        return again(waiting, f"I did not understand “{words}”.")
    return say(session, f"I did not understand “{words}”. {ABILITIES}")


def _about_help(session: SessionState, text: Text) -> PlannedGoal | None:
    rest = Text(text.rest)
    topics = topics_of(rest)
    if not topics:
        return None
    left = [unmasked(word) for word in content(_HELP_VERBS.sub(" ", rest.rest))]
    slots: Slots = {"question": topics[0], "besides": [*left], "topics": [*dict.fromkeys(topics[1:])]}
    return above(session, PlannedGoal(goal_type=HELP, slots_patch=slots))


_HELP_VERBS = pattern_of("help_verbs")
_NUMBERED_ONLY = re.compile(r"\b(?:first|second|third|fourth|fifth|last|1st|2nd|3rd|number|option)\b|\d")


def _shown(session: SessionState) -> list[Shown]:
    """Find the products that were shown or ordered last."""
    goals = [goal for goal in session.goals.values() if goal.slots.get("shown")]
    return cast("list[Shown]", goals[-1].slots["shown"]) if goals else []


def _last_query(session: SessionState) -> str:
    goals = [goal for goal in session.goals.values() if goal.type == STOCK and goal.slots.get("asked")]
    shown = _shown(session)
    return shown[0]["name"] if len(shown) == 1 else str(goals[-1].slots["asked"]) if goals else ""


def _asked_for(waiting: Goal | None) -> Line:
    """Find the product that an order waits for: its name so far, and what it may cost."""
    ask = ask_of(waiting) if waiting is not None and waiting.type == ORDER else {}
    if waiting is None or ask.get("what") != "product":
        return {}
    line = cast("list[dict[str, Any]]", waiting.slots["lines"])[int(ask["line"])]
    return cast("Line", {name: line[name] for name in ("product", "least", "most") if name in line}) if line.get("product") else {}


def _limits(session: SessionState) -> Line:
    """Find what products might cost in the last question about them: it holds for what is asked after it."""
    goals = [goal for goal in session.goals.values() if goal.type == STOCK and goal.slots.get("lines")]
    last = cast("list[dict[str, Any]]", goals[-1].slots["lines"])[0] if goals else {}
    return cast("Line", {name: value for name, value in last.items() if name in {"least", "most"}})


_ANYTHING = re.compile(
    r"\b(?:kinds?|sorts?|types?|many|different|products?|things|items|shop|store|all|range|catalog(?:ue)?|categories|everything|your|list|"
    r"browse|sell|offer|stock|carry)\b"
)


def _asks_for_everything(text: Text) -> bool:
    return text.has(_OVERVIEW) and not content(_ANYTHING.sub(" ", _OVERVIEW.sub(" ", text.rest)))


def _intent(text: Text) -> tuple[bool, bool]:
    """Tell whether a message orders something, and whether it asks about something."""
    if text.has(_WHAT_CAN_I):
        return False, True
    is_order = (
        (_AND_ANOTHER.match(text.rest) is not None and not text.rest.endswith("?"))
        or text.has(_HARD)
        or (text.has(_SOFT) and not text.has(_ASKS))
    )
    is_question = text.has(_ASKING if text.has(_SOFT) else _STOCK) or text.has(_ABOUT) or text.has(_COMPARE)
    return is_order, is_question and not text.has(_HARD)


def _about_products(session: SessionState, text: Text, waiting: Goal | None) -> PlannedGoal | None:
    if _asks_for_everything(text):
        return above(session, PlannedGoal(goal_type=STOCK, slots_patch={"lines": [{"product": ""}], "asked": ""}))
    asides = asides_in(text)
    is_order, is_question = _intent(text)
    compares = text.has(_COMPARE)
    stripped = text.rest
    for pattern in (_BASKET, _HARD, _SOFT) if is_order and not is_question else (_ASKING, _SOFT, _WHAT_I):
        stripped = pattern.sub(" ", stripped)
    shown = _shown(session)
    lines = lines_of(stripped.replace("~", " "), shown)
    if not shown and _NUMBERED_ONLY.search(text.rest) and not content(_NUMBERED_ONLY.sub(" ", stripped)):
        return None if re.fullmatch(r"[\W\d]+", text.rest) else say(session, f"Which product do you mean? {ABILITIES}")
    follows = _followed(session, text, lines, shown, waiting)
    if follows is not None:
        lines = follows
    wrong = next((line["why"] for line in lines if "why" in line), None)
    known = [
        line
        for line in lines
        if line.get("product") or line.get("sku") or (is_question and not line.keys().isdisjoint({"most", "least", "order"}))
    ]
    is_counted = any(line.get("quantity") or line.get("why") for line in known) and _NAME.search(text.rest) is None
    uncertain = _uncertain(text, lines, is_order=is_order or is_counted)
    if uncertain:
        return say(session, uncertain)
    if (is_order or is_counted) and not is_question:
        return _ordered(session, lines, asides, None if wrong and _ASKED_BACK.match(wrong) else wrong)
    if wrong is not None and (is_question or follows is not None or known or not re.search(r"\b(?:i|you|we)\b", text.rest)):
        return not_read(waiting, wrong) if waiting is not None and _ASKED_BACK.match(wrong) else say(session, wrong)
    if known and (is_question or follows is not None or _is_a_name(text.rest)):
        asked = " ".join(line.get("product", "") for line in known)
        slots: Slots = {"lines": cast("Any", known), "asked": asked, "asides": cast("Any", asides), "compares": compares}
        slots |= {"is_guess": not is_question, "is_about": text.has(_ABOUT)}
        return above(session, PlannedGoal(goal_type=STOCK, slots_patch=slots))
    if is_question and not known:
        return _of_what_is_open(session, waiting)
    return _searched(session, text)


def _uncertain(text: Text, lines: list[Line], *, is_order: bool) -> str:
    """Say why nothing may be noted of a message: it sets a condition, or a part of it is not certain."""
    condition = _CONDITION.search(text.rest) if is_order else None
    if condition is not None:
        return f"I can note orders, but not with a condition (“{unmasked(condition[0].strip())}”). Say what you want without it."
    corrected = _CORRECTED.search(text.rest) if is_order else None
    if corrected is not None:
        said = unmasked(corrected[0].strip(" ,.;~"))
        return f"I cannot tell for certain how many you want (“{said}”). Please say it once more, with one number."
    if is_order and len(lines) > 1 and text.has(_EITHER):
        return f"Which of these do you want: {' or '.join(filter(None, (line.get('product') for line in lines)))}? Please say one of them."
    why = next((line.get("why", "") for line in lines if "unsure" in line), "")
    return f"{why} Please say each product by itself, with how many you want of it." if why else ""


def _of_what_is_open(session: SessionState, waiting: Goal | None) -> PlannedGoal:
    """Answer a question that names no product: it is about the one that an order waits with, or has to be asked back."""
    lines = cast("list[dict[str, Any]]", waiting.slots.get("lines") or []) if waiting is not None else []
    if not lines or not lines[0].get("product"):
        return say(session, f"Which product do you mean? {ABILITIES}")
    slots: Slots = {"lines": cast("Any", lines[:1]), "asked": str(lines[0]["product"])}
    return above(session, PlannedGoal(goal_type=STOCK, slots_patch=slots))


def _searched(session: SessionState, text: Text) -> PlannedGoal | None:
    """Look the words of a message up in the articles, if there are enough of them."""
    words = [word for word in content(unmasked(text.rest)) if not word.isdigit()]
    return (
        above(session, PlannedGoal(goal_type=HELP, slots_patch={"question": " ".join(words), "is_guess": True})) if len(words) > 1 else None
    )


_NAME = pattern_of("name")
_LONGEST_NAME = 8
_FEW = 3


def _is_a_name(text: str) -> bool:
    """Tell whether a message is no sentence, and so probably the name of something."""
    return len(text.split()) <= _LONGEST_NAME and _NAME.search(text) is None


_ASKED_BACK = re.compile("Which one do you mean|There (?:is|are) only")


def _followed(session: SessionState, text: Text, lines: list[Line], shown: list[Shown], waiting: Goal | None) -> list[Line] | None:
    """Read what is said about products that were shown before: "and in black?", "the second one", "how much is it?"."""
    if any("sku" in line for line in lines) or any(_ASKED_BACK.match(line.get("why", "")) for line in lines):
        return lines
    begins = re.match(r"\W*(?:and|what about|how about|or|also)\b", text.rest) or re.match(r"\W*(?:in|with|without) ", text.rest)
    one_more = re.search(r"\bones?(?:\W*$| (?:in|with|without)\b)", text.rest) and not text.has(_HARD)
    base, asked = _last_query(session), _asked_for(waiting)
    named = chosen(lines[0].get("product", ""), shown) if len(lines) == 1 and re.search(r"\bones?\b", text.rest) else None
    if named is not None:
        return [{"sku": named["sku"], "product": named["name"], "quantity": lines[0].get("quantity")}]
    if base and (begins or one_more) and len(lines) == 1 and lines[0].get("product") and len(lines[0].get("product", "").split()) <= _FEW:
        return [{**_limits(session), **lines[0], "prefer": base}]
    if base and _is_a_name(text.rest) and len(shown) > 1 and len(lines) == 1 and lines[0].get("product") and len(text.rest.split()) < _FEW:
        return [{**_limits(session), **lines[0], "prefer": base, "or_alone": True}]
    if (base or asked) and len(lines) == 1 and not lines[0].get("product") and not lines[0].keys().isdisjoint({"order", "most", "least"}):
        return [{**(asked or _limits(session)), **lines[0], "product": asked.get("product") or base}]
    if lines and not any(line.get("product") for line in lines) and shown and text.has(_STOCK):
        read = line_of("it", shown)
        return [{**read, "quantity": lines[0].get("quantity")}]
    return None


def _ordered(session: SessionState, lines: list[Line], asides: list[str], wrong: str | None) -> PlannedGoal:
    """Begin an order. What is missing is asked for when the catalogue has been looked into."""
    if wrong is not None and not any(line.get("product") or line.get("sku") for line in lines):
        return say(session, wrong)
    number, shown = lines[0].get("quantity") if lines else None, _shown(session)
    lines = [line for line in lines if line.get("product") or line.get("sku")]
    if not lines and len(shown) == 1 and number:
        lines = [{"sku": shown[0]["sku"], "product": shown[0]["name"], "quantity": number}]
    slots: Slots = {
        "lines": cast("Any", [{key: value for key, value in line.items() if key != "why"} for line in lines] or [{"quantity": number}])
    }
    slots |= {"remark": wrong or "", "asides": cast("Any", asides)}
    if not lines and asides:
        slots["remark"] = f"{wrong or ''} I did not take into account: {', '.join(f'“{one}”' for one in asides)}.".strip()
    if lines:
        return above(session, PlannedGoal(goal_type=ORDER, slots_patch=slots))
    slots["ask"] = cast("Any", {"line": 0, "what": "product", "options": shown})
    listed = "; ".join(f"{number}. {one['name']}" for number, one in enumerate(shown, 1))
    question = f"Which one would you like: {listed}?" if shown else "Which product would you like?"
    return above(session, PlannedGoal(goal_type=ORDER, slots_patch=slots, missing=["product"], next_question=question))
