"""Building blocks of offline plans: the kinds of goals, and plans that interrupt, continue or only reply."""

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
    """Return a plan whose goal interrupts the open one."""
    active = session.active_goal
    return goal if active is None else goal.model_copy(update={"priority": max(goal.urgency, active.priority + 1)})


def say(session: SessionState, text: str) -> PlannedGoal:
    """Return a plan that only replies."""
    return above(session, PlannedGoal(goal_type=SAY, slots_patch={"say": text}))


def ask_of(goal: Goal) -> dict[str, Any]:
    """Return what a goal waits for: the line, the field and the options."""
    return cast("dict[str, Any]", goal.slots.get("ask") or {})


def left(goal: Goal) -> PlannedGoal:
    """Return a plan that leaves a goal unchanged."""
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch={"left": True})


def again(goal: Goal, remark: str) -> PlannedGoal:
    """Repeat the open question after a remark."""
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch={"remark": remark})


def pieces_of(number: int) -> str:
    """Format a quantity."""
    return "1 piece" if number == 1 else f"{number} pieces"


def not_read(goal: Goal, why: str) -> PlannedGoal:
    """Say why an answer was not understood, and ask again without repeating the options."""
    is_listed = bool(ask_of(goal).get("options")) and why.startswith("Which one do you mean")
    return again(goal, "I cannot tell which one you mean." if is_listed else why)


def counted(goal: Goal, number: int) -> PlannedGoal:
    """Record the quantity, and ask for the product again."""
    lines = [dict(cast("dict[str, Any]", one)) for one in cast("list[Any]", goal.slots.get("lines") or [{}])]
    lines[int(ask_of(goal).get("line", 0))]["quantity"] = number
    slots: Slots = {"lines": cast("Any", lines), "remark": f"The quantity is noted: {number}."}
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch=slots)


def with_line(goal: Goal, line: Line, asides: list[str] | None = None, *, is_other: bool = False) -> PlannedGoal:
    """Continue an order with a changed line. A line for another product has no quantity yet."""
    at = int(ask_of(goal).get("line", 0))
    lines = [dict(cast("dict[str, Any]", one)) for one in cast("list[Any]", goal.slots.get("lines") or [{}])]
    old = lines[at]
    new: dict[str, Any] = {**line}
    new["quantity"] = line.get("quantity") or (None if is_other else old.get("quantity"))
    lines[at] = new
    slots: Slots = {"lines": cast("Any", lines), "remark": "", "asides": cast("Any", asides or []), "ask": None}
    return PlannedGoal(goal_id=goal.id, goal_type=goal.type, slots_patch=slots, missing=[])
