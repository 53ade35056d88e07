"""Changes to the goals of a session by a plan or by a specialist. Every function returns a new session."""

from __future__ import annotations

from collections.abc import Collection

from interlock.errors import ModelOutputInvalid
from interlock_agents.desk.errors import StateInvalid
from interlock_agents.desk.roles import AT_ONCE, PlannedGoal, StateUpdates
from interlock_agents.desk.session import Goal, GoalStatus, SessionState, Slots

__all__ = ["KEPT", "merged", "named_goal", "with_plan", "with_updates"]

KEPT = 50
"""How many goals that are done stay in a session: it must not grow for ever."""


def named_goal(session: SessionState, planned: PlannedGoal) -> Goal | None:
    """Return the goal that a plan names, or None if the plan is about a new goal."""
    if planned.goal_id is None:
        return None
    goal = session.goals.get(planned.goal_id)
    if goal is not None and goal.status == "done":
        raise ModelOutputInvalid(f"The planner resumes goal '{goal.id}', which is done.")
    if goal is not None and goal.type != planned.goal_type:
        raise ModelOutputInvalid(f"The planner says that goal '{goal.id}' is '{planned.goal_type}', but it is '{goal.type}'.")
    return goal


def with_plan(session: SessionState, planned: PlannedGoal, *, new_id: str, now: str) -> SessionState:
    """Apply a plan. A goal that is more urgent than the active one interrupts it; another one is queued below it.

    `new_id` is the id of a new goal.
    """
    known = named_goal(session, planned)
    if known is None and planned.goal_type in AT_ONCE:
        planned = planned.model_copy(update={"priority": _above(session, planned)})
    goal = _patched(known, planned, session.goals, new_id=new_id, now=now)
    stack = [name for name in session.goal_stack if name != goal.id]
    if goal.id == session.active_goal_id:
        stack.append(goal.id)
    else:
        stack.insert(_place(session, stack, goal), goal.id)
    return _arranged(session, {**session.goals, goal.id: goal}, stack, now=now)


def _above(session: SessionState, planned: PlannedGoal) -> int:
    """Return a priority that interrupts the active goal."""
    active = session.active_goal
    return planned.urgency if active is None else max(planned.urgency, active.priority + 1)


def _patched(known: Goal | None, planned: PlannedGoal, taken: Collection[str], *, new_id: str, now: str) -> Goal:
    patch = planned.slots_patch or {}
    if known is None:
        if planned.goal_id is None and new_id in taken:
            raise StateInvalid(f"The session has a goal '{new_id}' already.")  # never overwrite a goal
        known = Goal(id=planned.goal_id or new_id, type=planned.goal_type, status="suspended", priority=planned.urgency, updated_at=now)
    missing, question = _still_missing(known, patch, planned.missing, planned.next_question)
    return known.model_copy(
        update={
            "priority": planned.priority or known.priority,
            "slots": {**known.slots, **patch},
            "missing": missing,
            "next_question": question,
            "updated_at": now,
        }
    )


def _still_missing(goal: Goal, patch: Slots, missing: list[str] | None, question: str | None) -> tuple[list[str], str | None]:
    """Return the missing fields and the open question: the new ones, or the previous ones that are still missing.

    An old question is kept only if its fields are still missing.
    """
    left = [name for name in goal.missing if name not in patch] if missing is None else missing
    if not left:
        return [], None
    return left, question if question is not None or not set(left) <= set(goal.missing) else goal.next_question


def _place(session: SessionState, stack: list[str], goal: Goal) -> int:
    """Return the position of a goal on the stack: on top if it is more urgent, otherwise below, after goals of the same priority."""
    if not stack or goal.priority > session.goals[stack[-1]].priority:
        return len(stack)
    below = stack[:-1]
    return next((at for at, name in enumerate(below) if session.goals[name].priority >= goal.priority), len(below))


def _arranged(session: SessionState, goals: dict[str, Goal], stack: list[str], *, now: str) -> SessionState:
    """Set the goal on top of the stack active and the others waiting."""
    goals = dict(goals)
    for name in stack:
        status: GoalStatus = _awake(goals[name]) if name == stack[-1] else "suspended"
        if goals[name].status != status:
            goals[name] = goals[name].model_copy(update={"status": status, "updated_at": now})
    done = [name for name, goal in goals.items() if goal.status == "done"]
    for name in done[: max(0, len(done) - KEPT)]:
        del goals[name]
    return session.model_copy(
        update={"goals": goals, "goal_stack": stack, "active_goal_id": stack[-1] if stack else None, "updated_at": now}
    )


def _awake(goal: Goal) -> GoalStatus:
    return "blocked" if goal.missing and goal.next_question and goal.next_question.strip() else "active"


def merged(first: StateUpdates | None, second: StateUpdates | None) -> StateUpdates | None:
    """Merge the updates of a specialist from before and after the tools ran. The later ones win; a finished goal stays finished."""
    if first is None or second is None:
        return first or second
    return StateUpdates(
        slots_patch={**first.slots_patch, **second.slots_patch},
        set_status=first.set_status if second.set_status is None else second.set_status,
        missing=first.missing if second.missing is None else second.missing,
        next_question=first.next_question if second.next_question is None else second.next_question,
        memory_update=first.memory_update if second.memory_update is None else second.memory_update,
        mark_done=first.mark_done or second.mark_done,
    )


def with_updates(session: SessionState, updates: StateUpdates, *, now: str) -> SessionState:
    """Apply a specialist's updates to the active goal. When it is finished, resume the next goal on the stack.

    Small talk and a question to a person always end with the turn.
    """
    goal = session.active_goal
    if goal is None:
        raise StateInvalid("There is no active goal that could be changed.")
    done = updates.mark_done or updates.set_status == "done" or goal.type in AT_ONCE
    missing, question = _still_missing(goal, updates.slots_patch, updates.missing, updates.next_question)
    changed = goal.model_copy(
        update={
            "slots": {**goal.slots, **updates.slots_patch},
            "missing": [] if done else missing,
            "next_question": None if done else question,
            "updated_at": now,
            "status": "done" if done else goal.status,
        }
    )
    stack = [name for name in session.goal_stack if name != goal.id or not done]
    arranged = _arranged(session, {**session.goals, goal.id: changed}, stack, now=now)
    if done or updates.set_status is None:
        return arranged
    said = arranged.goals[goal.id].model_copy(update={"status": updates.set_status})
    return arranged.model_copy(update={"goals": {**arranged.goals, goal.id: said}})
