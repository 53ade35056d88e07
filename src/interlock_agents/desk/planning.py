"""The offline planner: finds the goal of a message by rules."""

from __future__ import annotations

import itertools
import re
from typing import cast

from interlock_agents.desk.answers import answered
from interlock_agents.desk.coverage import asked_back, left_over
from interlock_agents.desk.noted import about_orders
from interlock_agents.desk.plans import ABILITIES, HELP, MOST_LOOKS, ORDER, STOCK, SUM, above, again, ask_of, left, say, with_line
from interlock_agents.desk.products import about_products, searched
from interlock_agents.desk.quantities import NUMBER, masked, unmasked
from interlock_agents.desk.reading import Line
from interlock_agents.desk.references import focus_of
from interlock_agents.desk.requests import first_of
from interlock_agents.desk.roles import PERSON, SMALL_TALK, PlannedGoal, PlannerRequest
from interlock_agents.desk.session import Goal, SessionState, Slots
from interlock_agents.desk.vocabulary import ANGER, LEAVE, pattern_of
from interlock_agents.desk.words import Text, content, normalised, small_talk, sum_in, topics_of

__all__ = ["planned"]

_PERSON = pattern_of("person")
_FOREIGN = pattern_of("foreign")
_ASKS_HOW = re.compile(
    r"^\W*(?:how (?!much|many|about|expensive|big|large|heavy|tall|wide|high|long|old|good)|where|why|when|who|should|did|was|were)\b|"
    r"^\W*(?:do|does|must|have) (?:i|we)\b"
)
"""A message that asks how something is done: it is no order, whatever it names."""
_TELLS = re.compile(r"\b(?:i|we|you)(?:'ve| have| had)? (?:\w+ )?(?:ordered|bought|purchased|received|paid|placed)\b")
"""A message that reports what has happened: it is neither an order nor a question that could be looked up."""
_NOT_WANTED = re.compile(r"\b(?:don't|do not|didn't|no longer|not|never) (?:\w+ )?(?:need|want|like|buy|order|take)\b")
_CANCEL = pattern_of("cancel")
_ONES = re.compile(r"\b(?:ones?|those|these|them)\b")
_LISTS_GONE = re.compile(
    r"^(?!.*\b(?:if|when|happens?|do i|can i)\b)"
    r".*\b(?:which|what|how many|any|list|show)\b.*\b(?:out of stock|sold out)\b"
)
_ENGLISH = "I only understand English."
# The maximum number of characters that the rules parse.
_LONGEST = 1_000


def planned(request: PlannerRequest) -> PlannedGoal:
    """Return the goal of a message, and its other requests."""
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
    """Return the products that can be searched in one turn. A product with alternatives is searched twice."""
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
    if len(_FOREIGN.findall(said)) > 1:
        return again(waiting, _ENGLISH) if waiting is not None else say(session, f"{_ENGLISH} {ABILITIES}")
    if waiting is not None:
        going_on = answered(session, waiting, Text(text.rest), kinds)
        if going_on is not None:
            return _covered(session, waiting, text.rest, going_on)
    if waiting is None and session.active_goal is not None and LEAVE.fullmatch(text.rest):
        return left(session.active_goal)
    whole = text.rest
    found = about_orders(session, text) or _about_help(session, text)
    if found is None and not (text.has(_NOT_WANTED) or text.has(_TELLS)):
        found = searched(session, text) if text.has(_ASKS_HOW) else about_products(session, text, waiting)
    return _covered(session, waiting, whole, found) if found is not None else _unread(session, waiting, request.user_message)


def _is_of_another_list(session: SessionState, waiting: Goal, said: str) -> bool:
    """Return whether "the folding ones" refers to products shown after an order asked for one of others."""
    shown = focus_of(session).shown
    options = " ".join(str(one["name"]) for one in ask_of(waiting).get("options", [])).casefold().split()
    others = " ".join(one["name"] for one in shown).casefold().split()
    return _ONES.search(said) is not None and bool(options) and bool(set(content(said)) & set(others) - set(options))


def _covered(session: SessionState, waiting: Goal | None, said: str, goal: PlannedGoal) -> PlannedGoal:
    """Accept a goal about products if every word of the message was used, or ask back about the others."""
    slots = goal.slots_patch or {}
    lines = cast("list[Line]", slots.get("lines") or [])
    if goal.goal_type not in {ORDER, STOCK} or not lines or goal.missing or _CANCEL.search(said):
        return goal  # a cancellation is parsed together with the orders
    if waiting is not None and _is_of_another_list(session, waiting, said):
        return again(waiting, f"I cannot tell whether “{unmasked(said).strip(' ~')}” is about the products that I showed last.")
    unread = left_over(said, lines, cast("list[str]", slots.get("asides") or []))
    if not unread:
        return goal
    if waiting is not None:
        return again(waiting, f"I did not understand “{unmasked(said).strip(' ~')}”.")
    return say(session, asked_back(said, unread))


_WHILE_ASKED = {"thinking": "Take your time.", "indifferent": "I cannot choose for you."}


def _talked(session: SessionState, kinds: tuple[str, ...], waiting: Goal | None) -> PlannedGoal:
    if waiting is not None and "no" in kinds:
        return left(waiting)
    calm = next((_WHILE_ASKED[kind] for kind in kinds if kind in _WHILE_ASKED), None)
    if waiting is not None and calm is not None:
        return again(waiting, calm)
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
    ago = _AGO.search(unmasked(text.rest))
    rest = Text(_AGO.sub(" ", unmasked(text.rest)))
    if rest.has(_LISTS_GONE):
        return say(session, "I cannot list what is out of stock. Name a product, and I say how many there are of it.")
    topics = topics_of(rest)
    if not topics:
        return None
    left = content(_HELP_VERBS.sub(" ", ANGER.sub(" ", rest.rest)))
    slots: Slots = {"question": topics[0], "besides": [*left], "topics": [*dict.fromkeys(topics[1:])], "ago": ago[0] if ago else ""}
    return above(session, PlannedGoal(goal_type=HELP, slots_patch=slots))


_HELP_VERBS = pattern_of("help_verbs")
_AGO = re.compile(
    rf"\b(?:an?|{NUMBER}|some|a few|couple of) (?:days?|weeks?|months?|years?) ago\b|\b(?:last|this|past) (?:week|month|year|weekend)\b"
)
