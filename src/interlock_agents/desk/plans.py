"""What the desk's rules plan with: the kinds of goals, and goals that come first, are gone on with or only say something."""

from __future__ import annotations

from typing import Any, cast

from interlock_agents.desk.reading import Line
from interlock_agents.desk.roles import PlannedGoal
from interlock_agents.desk.session import Goal, SessionState, Slots

__all__ = [
    "ABILITIES",
    "CANCEL",
    "HELP",
    "KNOWN",
    "MOST_LOOKS",
    "ORDER",
    "SAY",
    "STOCK",
    "SUM",
    "SUMMARY",
    "above",
    "again",
    "ask_of",
    "counted",
    "left",
    "not_read",
    "pieces_of",
    "say",
    "with_line",
]

ORDER, STOCK, SUM, HELP = "sales.order", "sales.stock", "sales.sum", "support.question"
CANCEL, SUMMARY, SAY = "sales.cancel", "sales.summary", "support.say"

MOST_LOOKS = 8
"""How often the rules look something up in one turn at most."""

ABILITIES = (
    "I can look up products, their prices and stock (“Do you have oak desks under 300 euros?”), note what you want to order "
    "(“2 steel desk lamps, please”), change or cancel that, answer questions about delivery, returns, payment and the like, "
    "and work out sums."
)

KNOWN = "I know names, prices and stock of products, and nothing else about them."


def above(session: SessionState, goal: PlannedGoal) -> PlannedGoal:
    """Let a goal come before the one that is open."""
    active = session.active_goal
    return goal if active is None else goal.model_copy(update={"priority": max(goal.urgency, active.priority + 1)})


def say(session: SessionState, text: str) -> PlannedGoal:
    """Only say something."""
    return above(session, PlannedGoal(goal_type=SAY, slots_patch={"say": text}))


def ask_of(goal: Goal) -> dict[str, Any]:
    """Return what a goal waits for: of which line, what, and the options."""
    return cast("dict[str, Any]", goal.slots.get("ask") or {})


def left(goal: Goal) -> PlannedGoal:
    """Leave a goal at what it is."""
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch={"left": True})


def again(goal: Goal, remark: str) -> PlannedGoal:
    """Ask once more, after a remark."""
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch={"remark": remark})


def pieces_of(number: int) -> str:
    """Name a number of pieces."""
    return "1 piece" if number == 1 else f"{number} pieces"


def not_read(goal: Goal, why: str) -> PlannedGoal:
    """Say why an answer was not understood, and ask once more. What the open question lists already is not listed twice."""
    is_listed = bool(ask_of(goal).get("options")) and why.startswith("Which one do you mean")
    return again(goal, "I cannot tell which one you mean." if is_listed else why)


def counted(goal: Goal, number: int) -> PlannedGoal:
    """Note how many are wanted of the product that is asked for, say so, and ask for the product once more."""
    lines = [dict(cast("dict[str, Any]", one)) for one in cast("list[Any]", goal.slots.get("lines") or [{}])]
    lines[int(ask_of(goal).get("line", 0))]["quantity"] = number
    slots: Slots = {"lines": cast("Any", lines), "remark": f"The quantity is noted: {number}."}
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch=slots)


def with_line(goal: Goal, line: Line, asides: list[str] | None = None, *, is_other: bool = False) -> PlannedGoal:
    """Go on with an order, one of whose lines is now known better, or is about another product: that has no quantity yet."""
    at = int(ask_of(goal).get("line", 0))
    lines = [dict(cast("dict[str, Any]", one)) for one in cast("list[Any]", goal.slots.get("lines") or [{}])]
    old = lines[at]
    new: dict[str, Any] = {**line}
    new["quantity"] = line.get("quantity") or (None if is_other else old.get("quantity"))
    lines[at] = new
    slots: Slots = {"lines": cast("Any", lines), "remark": "", "asides": cast("Any", asides or []), "ask": None}
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch=slots, missing=[])
