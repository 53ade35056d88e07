"""The goals of a session, whatever a planner and the specialists say: none is orphaned, and what was interrupted is resumed."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import ModelOutputInvalid
from interlock.testing import CountingIds
from interlock_agents.desk.errors import StateInvalid
from interlock_agents.desk.goals import KEPT, merged, named_goal, with_plan, with_updates
from interlock_agents.desk.nodes.orchestrator import apply_plan, apply_state_updates, validate_and_save_state
from interlock_agents.desk.roles import AT_ONCE, PlannedGoal, PlannerResponse, SpecialistResponse, StateUpdates
from interlock_agents.desk.session import Goal, SessionState, domain_of, faults
from tests.support.desk import goal, stored

NOW, LATER = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
TYPES = st.sampled_from(["sales.order", "sales.stock", "support.question", "support.refund"])
PRIORITIES = st.one_of(st.none(), st.sampled_from([1, 49, 50, 51, 99, 100, 101, 10**30]))
NAMES = st.lists(st.sampled_from(["product", "quantity", "address"]), unique=True)
QUESTIONS = st.sampled_from(["Which?", "How many?"])
SLOTS = st.dictionaries(st.sampled_from(["product", "quantity", "note"]), st.one_of(st.none(), st.integers(), st.text(max_size=3)))
UPDATES = st.builds(
    StateUpdates,
    slots_patch=SLOTS,
    set_status=st.sampled_from([None, None, "active", "blocked", "done"]),
    missing=st.one_of(st.none(), NAMES),
    next_question=st.one_of(st.none(), QUESTIONS),
    memory_update=st.one_of(st.none(), st.text(max_size=3)),
    mark_done=st.booleans(),
)


@dataclass(frozen=True)
class Said:
    """What is said in one turn; `about` picks a goal of the session, a new name, or none."""

    goal_type: str
    priority: int | None
    about: int | str | None
    slots: dict[str, Any] | None
    missing: list[str] | None
    question: str
    updates: StateUpdates | None

    def planned(self, session: SessionState) -> PlannedGoal:
        known = list(session.goals.values())
        name, goal_type = (self.about if isinstance(self.about, str) else None), self.goal_type
        if isinstance(self.about, int) and known:
            chosen = known[self.about % len(known)]
            name, goal_type = chosen.id, chosen.type if self.about < 50 else self.goal_type
        asks = self.question if self.missing else None
        return PlannedGoal(
            goal_id=name, goal_type=goal_type, priority=self.priority, slots_patch=self.slots, missing=self.missing, next_question=asks
        )


TURNS = st.builds(
    Said,
    goal_type=TYPES,
    priority=PRIORITIES,
    about=st.one_of(st.none(), st.integers(0, 60), st.sampled_from(["mine", "yours"])),
    slots=st.one_of(st.none(), SLOTS),
    missing=st.one_of(st.none(), NAMES),
    question=QUESTIONS,
    updates=st.one_of(st.none(), UPDATES),
)


class Sessions:
    async def save(self, session_id: str, document: str, *, expected: int) -> None:
        assert json.loads(document)["version"] == expected + 1


def begun(*goals: dict[str, Any], **fields: Any) -> SessionState:
    return SessionState.model_validate(stored("s", *goals, **fields))


def new(*priorities: int) -> SessionState:
    """A session whose first goal is active while the others came after it, each with a name that tells its place."""
    session = begun(goal("g-0", priority=priorities[0]))
    for number, priority in enumerate(priorities[1:], 1):
        session = take_up(session, PlannedGoal(goal_type=f"sales.x{number}", priority=priority), name=f"g-{number}")
    return session


def take_up(session: SessionState, planned: PlannedGoal, name: str = "new") -> SessionState:
    return with_plan(session, planned, new_id=name, now=LATER)


def open_goals(session: SessionState) -> set[str]:
    return {name for name, one in session.goals.items() if one.status != "done"}


async def taken(session: SessionState, turn: Said, ids: CountingIds) -> SessionState:
    """Take what a turn says through the nodes that change a session."""
    session = (await apply_plan(session, PlannerResponse(goal=turn.planned(session)), LATER, ids=ids)).session
    assert list(faults(session)) == []
    response = SpecialistResponse(message="Fine.", state_updates=turn.updates)
    session = (await apply_state_updates("Hello", session, response, LATER)).session
    return (await validate_and_save_state(session, sessions=Sessions())).session


async def after_all(turns: list[Said]) -> SessionState:
    """Take as many of the turns as are accepted."""
    session, ids = begun(version=0), CountingIds("g")
    for turn in turns:
        with suppress(ModelOutputInvalid, StateInvalid):
            session = await taken(session, turn, ids)
    return session


@given(turns=st.lists(TURNS, max_size=25))
async def test_any_sequence_of_plans_leaves_a_valid_session(turns: list[Said]):
    session, ids, accepted = begun(version=0), CountingIds("g"), 0
    for turn in turns:
        before = session.model_copy(deep=True)
        try:
            session = await taken(session, turn, ids)
        except (ModelOutputInvalid, StateInvalid):
            assert session == before  # nothing is changed in place
            continue
        accepted += 1
        assert list(faults(session)) == []
        assert session.version == accepted
        assert sorted(session.goal_stack) == sorted(open_goals(session))
        assert session.active_goal_id == (session.goal_stack[-1] if session.goal_stack else None)
        assert open_goals(before) <= session.goals.keys()
        assert len(open_goals(before) - open_goals(session)) <= 1  # only the one that was worked on can be done
        for name, one in session.goals.items():
            assert one.id == name
            assert domain_of(one.type) is not None
            assert one.status != "blocked" or (one.missing and one.next_question)
            assert (one.status == "suspended") == (name in session.goal_stack[:-1])


@given(turns=st.lists(TURNS, max_size=12), planned=st.builds(PlannedGoal, goal_type=TYPES, priority=PRIORITIES))
async def test_only_a_more_urgent_goal_interrupts(turns: list[Said], planned: PlannedGoal):
    session = await after_all(turns)
    former, known = session.active_goal, named_goal(session, planned)
    after = take_up(session, planned)
    name = "new" if known is None else known.id
    priority = planned.priority or (known.priority if known else planned.urgency)
    assert after.goals[name].priority == priority
    if former is None or former.id == name or priority > former.priority:
        assert after.active_goal_id == name
        if former is not None and former.id != name:
            assert after.goals[former.id].status == "suspended"
            assert after.goal_stack[-2] == former.id
    else:
        assert after.active_goal_id == former.id
        assert after.goals[name].status == "suspended"
        assert name in after.goal_stack[:-1]
    others = [one for one in session.goal_stack if one != name]
    assert [one for one in after.goal_stack if one != name] == others  # nobody else's place changes


@given(priorities=st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_waiting_goals_are_resumed_by_urgency_and_age(priorities: list[int]):
    session = new(9, *priorities)
    assert session.active_goal_id == "g-0"
    waiting = sorted(range(1, len(priorities) + 1), key=lambda number: -priorities[number - 1])
    for number in (0, *waiting):
        assert session.active_goal_id == f"g-{number}"
        assert session.goals[f"g-{number}"].status == "active"
        session = with_updates(session, StateUpdates(mark_done=True), now=LATER)
        assert session.goals[f"g-{number}"].status == "done"
    assert (session.active_goal_id, session.goal_stack) == (None, [])


@given(priorities=st.lists(st.integers(1, 9), min_size=2, max_size=8, unique=True).map(sorted))
def test_goals_that_interrupt_one_another_are_resumed_last_in_first_out(priorities: list[int]):
    session = new(*priorities)
    names = [f"g-{number}" for number in range(len(priorities))]
    assert session.goal_stack == names
    for name in reversed(names):
        assert session.active_goal_id == name
        session = with_updates(session, StateUpdates(mark_done=True), now=LATER)


@pytest.mark.parametrize(("priority", "active"), [(49, "g-0"), (50, "g-0"), (51, "new"), (None, "g-0")])
def test_a_goal_as_urgent_as_the_active_one_waits(priority: int | None, active: str):
    session = take_up(new(50), PlannedGoal(goal_type="sales.stock", priority=priority))
    assert session.active_goal_id == active
    assert {one.status for one in session.goals.values()} == {"active", "suspended"}


def test_support_has_a_higher_default_priority_than_sales():
    session = take_up(take_up(begun(), PlannedGoal(goal_type="sales.order"), "s"), PlannedGoal(goal_type="support.question"), "h")
    assert (session.goal_stack, session.goals["s"].priority, session.goals["h"].priority) == (["s", "h"], 50, 100)
    assert take_up(session, PlannedGoal(goal_type="sales.stock"), "t").active_goal_id == "h"


def test_a_waiting_goal_that_becomes_more_urgent_moves_to_the_top():
    session = new(50, 40, 30)
    after = take_up(session, PlannedGoal(goal_id="g-2", goal_type="sales.x2", priority=60))
    assert after.goal_stack == ["g-1", "g-0", "g-2"]
    assert after.goals["g-2"].priority == 60
    back = take_up(after, PlannedGoal(goal_id="g-2", goal_type="sales.x2", priority=1))
    assert back.active_goal_id == "g-2"  # it is not a different goal: nobody interrupts it


@given(turns=st.lists(TURNS, max_size=12), planned=st.builds(PlannedGoal, goal_type=TYPES, priority=PRIORITIES, slots_patch=SLOTS))
async def test_a_plan_without_a_goal_id_creates_a_new_goal(turns: list[Said], planned: PlannedGoal):
    session = await after_all(turns)
    after = take_up(session, planned)
    assert named_goal(session, planned) is None
    assert after.goals.keys() - session.goals.keys() == {"new"}
    assert after.goals["new"].slots == planned.slots_patch
    for name, one in session.goals.items():
        assert after.goals[name].model_copy(update={"status": one.status, "updated_at": one.updated_at}) == one


@given(turns=st.lists(TURNS, max_size=12), goal_type=st.sampled_from(AT_ONCE), updates=st.one_of(st.none(), UPDATES))
async def test_small_talk_and_a_request_for_a_person_end_with_the_turn(turns: list[Said], goal_type: str, updates: StateUpdates | None):
    session = await after_all(turns)
    after = take_up(session, PlannedGoal(goal_type=goal_type))
    assert after.active_goal_id == "new"
    response = SpecialistResponse(message="Hello.", state_updates=updates)
    answered = (await apply_state_updates("Hi", after, response, LATER)).session
    assert list(faults(answered)) == []
    assert answered.goals["new"].status == "done"
    assert (answered.goal_stack, answered.active_goal_id) == (session.goal_stack, session.active_goal_id)
    assert answered.active_goal == (None if session.active_goal is None else answered.goals[session.active_goal.id])


@pytest.mark.parametrize(
    "planned",
    [PlannedGoal(goal_id="a", goal_type="sales.order"), PlannedGoal(goal_id="b", goal_type="sales.stock")],
    ids=["it is done", "it is of another type"],
)
def test_a_plan_for_an_impossible_goal_is_refused(planned: PlannedGoal):
    with pytest.raises(ModelOutputInvalid):
        take_up(begun(goal("a", status="done"), goal("b")), planned)


@pytest.mark.parametrize("known", [goal("new", status="done"), goal("new", type="sales.stock")], ids=["done", "open"])
def test_a_new_goal_never_replaces_one_with_the_same_id(known: dict[str, Any]):
    with pytest.raises(StateInvalid, match="already"):
        take_up(begun(known), PlannedGoal(goal_type="sales.order"))


def test_the_planner_can_name_a_new_goal():
    session = take_up(begun(), PlannedGoal(goal_id="mine", goal_type="sales.order"))
    assert session.active_goal_id == "mine"


@given(known=SLOTS, patch=st.one_of(st.none(), SLOTS), updates=SLOTS)
def test_slots_are_merged(known: dict[str, Any], patch: dict[str, Any] | None, updates: dict[str, Any]):
    session = take_up(begun(goal(slots=known)), PlannedGoal(goal_id="g-1", goal_type="sales.order", slots_patch=patch))
    session = with_updates(session, StateUpdates(slots_patch=updates), now=LATER)
    assert session.goals["g-1"].slots == {**known, **(patch or {}), **updates}


def blocked(**fields: Any) -> dict[str, Any]:
    return goal(status="blocked", missing=["product", "quantity"], next_question="Which?", **fields)


@pytest.mark.parametrize(
    ("planned", "status", "missing", "question"),
    [
        ({}, "blocked", ["product", "quantity"], "Which?"),
        ({"slots_patch": {"product": "lamp"}}, "blocked", ["quantity"], "Which?"),
        ({"slots_patch": {"product": "lamp"}, "next_question": "How many?"}, "blocked", ["quantity"], "How many?"),
        ({"slots_patch": {"product": "lamp", "quantity": 2}}, "active", [], None),
        ({"missing": []}, "active", [], None),
        ({"missing": [], "next_question": "Really?"}, "active", [], None),
        ({"missing": ["address"], "next_question": "Where to?"}, "blocked", ["address"], "Where to?"),
    ],
)
def test_a_goal_is_blocked_as_long_as_something_is_missing(planned: dict[str, Any], status: str, missing: list[str], question: str | None):
    after = take_up(begun(blocked()), PlannedGoal(goal_id="g-1", goal_type="sales.order", **planned))
    one = after.goals["g-1"]
    assert (one.status, one.missing, one.next_question) == (status, missing, question)


@pytest.mark.parametrize(
    ("updates", "status", "missing", "question"),
    [
        ({}, "blocked", ["product", "quantity"], "Which?"),
        ({"slots_patch": {"quantity": 2}}, "blocked", ["product"], "Which?"),
        ({"slots_patch": {"product": "lamp", "quantity": 2}}, "active", [], None),
        ({"missing": []}, "active", [], None),
        ({"missing": ["address"], "next_question": "Where to?"}, "blocked", ["address"], "Where to?"),
        ({"mark_done": True}, "done", [], None),
        ({"set_status": "done"}, "done", [], None),
        ({"mark_done": True, "set_status": "blocked", "missing": ["address"], "next_question": "Where to?"}, "done", [], None),
        ({"set_status": "active", "missing": []}, "active", [], None),
    ],
)
def test_a_specialist_changes_the_active_goal(updates: dict[str, Any], status: str, missing: list[str], question: str | None):
    after = with_updates(begun(blocked()), StateUpdates(**updates), now=LATER)
    one = after.goals["g-1"]
    assert (one.status, one.missing, one.next_question, one.updated_at) == (status, missing, question, LATER)
    assert list(faults(after)) == []
    assert after.goal_stack == ([] if status == "done" else ["g-1"])


def test_a_goal_with_missing_fields_and_no_question_is_not_blocked():
    after = with_updates(begun(goal()), StateUpdates(missing=["quantity"]), now=LATER)
    assert (after.goals["g-1"].status, after.goals["g-1"].missing) == ("active", ["quantity"])
    assert list(faults(after)) == []


async def test_a_goal_blocked_without_a_question_ends_the_turn():
    session = with_updates(begun(goal()), StateUpdates(set_status="blocked"), now=LATER)
    assert list(faults(session)) != []
    with pytest.raises(StateInvalid):
        await validate_and_save_state(session, sessions=Sessions())


def test_updates_without_an_active_goal_are_refused():
    with pytest.raises(StateInvalid):
        with_updates(begun(goal(status="done")), StateUpdates(mark_done=True), now=LATER)


def test_a_resumed_goal_keeps_its_missing_fields():
    session = take_up(begun(blocked()), PlannedGoal(goal_type="support.question"))
    assert session.goals["g-1"].status == "suspended"
    after = with_updates(session, StateUpdates(mark_done=True), now=LATER)
    assert (after.active_goal_id, after.goals["g-1"].status, after.goals["g-1"].next_question) == ("g-1", "blocked", "Which?")


@given(first=st.one_of(st.none(), UPDATES), second=st.one_of(st.none(), UPDATES))
def test_updates_of_the_second_call_win_and_a_finished_goal_stays_finished(first: StateUpdates | None, second: StateUpdates | None):
    result = merged(first, second)
    if first is None or second is None:
        assert result == (first if second is None else second)
        return
    assert result is not None
    assert result.slots_patch == {**first.slots_patch, **second.slots_patch}
    for name in ("set_status", "missing", "next_question", "memory_update"):
        said = getattr(second, name)
        assert getattr(result, name) == (getattr(first, name) if said is None else said)
    assert result.mark_done is (first.mark_done or second.mark_done)


def test_empty_values_of_the_second_call_count():
    first = StateUpdates(missing=["a"], next_question="a?", memory_update="x")
    assert merged(first, StateUpdates(missing=[], next_question="", memory_update="")) == StateUpdates(
        missing=[], next_question="", memory_update=""
    )


def test_old_finished_goals_are_dropped_and_no_others():
    session = begun(goal("first", status="suspended", priority=1), goal("second", status="suspended", priority=1), goal("third"))
    for number in range(KEPT + 20):
        name = f"h-{number}"
        session = take_up(session, PlannedGoal(goal_type="support.question"), name)
        assert session.active_goal_id == name
        session = with_updates(session, StateUpdates(mark_done=True), now=LATER)
        done = [name for name, one in session.goals.items() if one.status == "done"]
        assert done == [f"h-{kept}" for kept in range(max(0, number + 1 - KEPT), number + 1)]
    assert session.goal_stack == ["first", "second", "third"]
    assert list(faults(session)) == []


RULES: dict[str, tuple[SessionState, int]] = {
    "nothing": (begun(), 0),
    "one goal": (begun(goal()), 0),
    "one that waits": (begun(goal("a", status="suspended"), goal("b")), 0),
    "done ones": (begun(goal("a", status="done"), goal("b", status="done")), 0),
    "an active goal that is not there": (begun(active_goal_id="a", goal_stack=["a"]), 2),
    "a goal of the stack that is not there": (begun(goal(), stack=["a", "g-1"]), 1),
    "a goal twice": (begun(goal(), stack=["g-1", "g-1"]), 1),
    "another active one than the last": (begun(goal("a"), goal("b", status="suspended"), active_goal_id="a"), 1),
    "another name": (begun(goal("a"), goals={"a": goal("b")}), 1),
    "blocked, nothing missing": (begun(goal(status="blocked", next_question="Which?")), 1),
    "blocked, nothing to ask": (begun(goal(status="blocked", missing=["a"])), 1),
    "done and on the stack": (begun(goal(status="done"), stack=["g-1"]), 1),
    "orphaned": (begun(goal("a", status="suspended"), goal("b"), stack=["b"]), 1),
    "active and asleep": (begun(goal(status="suspended")), 1),
    "two awake": (begun(goal("a"), goal("b")), 1),
}


@pytest.mark.parametrize(("session", "wrong"), RULES.values(), ids=RULES)
def test_every_rule_of_a_session_is_one_fault(session: SessionState, wrong: int):
    assert len(list(faults(session))) == wrong, list(faults(session))


@pytest.mark.parametrize(("goal_type", "domain"), [("sales.x", "sales"), ("support.x", "support"), ("hr.x", None), ("sales", None)])
def test_the_type_of_a_goal_names_its_specialist(goal_type: str, domain: str | None):
    assert domain_of(goal_type) == domain


@given(data=st.data())
def test_a_session_can_be_stored_and_loaded(data: st.DataObject):
    session = new(*data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=5)))
    assert SessionState.model_validate_json(session.model_dump_json()) == session
    assert SessionState.model_validate(session.model_dump(mode="json")) == session


def test_the_place_of_a_goal_does_not_depend_on_how_often_it_is_named():
    for order in itertools.permutations([30, 20, 10]):
        session = new(50, *order)
        again = session
        for number in range(1, 4):
            again = take_up(again, PlannedGoal(goal_id=f"g-{number}", goal_type=f"sales.x{number}"))
        assert again.goal_stack == session.goal_stack


def test_goals_are_plain_data():
    one = Goal.model_validate(goal())
    with pytest.raises(ValueError, match="frozen"):
        one.status = "done"
