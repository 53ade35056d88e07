"""puntini's eight nodes as what they are: async functions, called with what they read and are granted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from interlock.capabilities import Human, Question, ToolRequest
from interlock.errors import ModelOutputInvalid, ModelTimeout, ModelUnavailable
from interlock.human import NobodyHere, ScriptedHuman
from interlock.testing import FixedClock, Scripted, ScriptedModel
from interlock_agents.puntini.graph_store import Changed, Edge, Node, NodeRef
from interlock_agents.puntini.graphs.registry import GraphTools
from interlock_agents.puntini.nodes import (
    MAX_RETRIES,
    MAX_STEPS,
    PAUSE_S,
    UNCLEAR,
    answer,
    call_tool,
    diagnose,
    escalate,
    evaluate,
    parse_goal,
    plan_step,
    route_tool,
    signature_of,
)
from interlock_agents.puntini.spec import (
    ABORT,
    MORE,
    OPTIONS,
    RETRY,
    RUN,
    SKIP,
    ConstraintSpec,
    Diagnosis,
    Done,
    EntitySpec,
    EscalateContext,
    Failure,
    Finished,
    GoalSpec,
    ParsedGoal,
    Pending,
    StepPlan,
    TodoItem,
    ToolResult,
    ToolSignature,
)
from interlock_agents.puntini.state import (
    Called,
    Complete,
    ComplexGoal,
    Escalated,
    Exhausted,
    GiveUp,
    NotCalled,
    NotPlanned,
    Refused,
    Remedy,
    Resumed,
    Retry,
    Routed,
    SimpleGoal,
    StepDone,
    StepFailed,
    StepPlanned,
    Unclear,
)
from interlock_agents.puntini.tool_registry import GraphToolResult
from tests.support.puntini import Waited, final, many, simple, step, told, unclear

NAMES = ["add_node", "add_edge", "update_props", "delete_node", "delete_edge", "query_graph", "cypher_query"]
ADD = ToolSignature(tool_name="add_node", tool_args={"label": "Task", "key": "a"})
PLAN = StepPlan(step_number=1, tool_signature=ADD, is_final_step=False)
GOAL = GoalSpec(
    original_goal="g", intent="i", complexity="complex", todo_list=[TodoItem(description="add a"), TodoItem(description="add b")]
)
DONE = Done(step=1, call=ADD, result={"changed": 1}, changed=Changed(nodes_added=(Node(label="Task", key="a"),)))


def failure(message: str = "It failed.", **more: Any) -> Failure:
    given: dict[str, Any] = {"node": "evaluate", "step": 0, "tool": "add_edge", "error_type": "not_found", "message": message, **more}
    return Failure(**given)


MODEL_ERRORS = [ModelOutputInvalid("Not that."), ModelTimeout("Too long."), ModelUnavailable("Not now.")]
MALFORMED: list[Scripted] = [
    "no JSON",
    "",
    "[]",
    '{"goal": ',
    {},
    {"goal": {}},
    {"goal": many()["goal"], "answer": 42},
    {**many(estimated_steps=0)},
    {**many(confidence=1.5)},
    {**many(complexity="huge")},
    {**many(goto="escalate")},
    {"goal": many()["goal"], "tool": {"tool_name": 7}},
    "null",
]


# parse_goal


async def parsed(
    *replies: Scripted, goal: str = "Add a.", pending: Pending | None = None, last: Finished | None = None
) -> tuple[SimpleGoal | ComplexGoal | Resumed | Unclear, ScriptedModel]:
    model = ScriptedModel(*replies)
    return await parse_goal(goal, pending, last, model=model, catalogue=GraphTools()), model


async def test_a_simple_goal_comes_with_its_call():
    outcome, model = await parsed(simple("add_node", label="Task", key="a"))
    assert isinstance(outcome, SimpleGoal)
    assert outcome.tool_signature == ADD
    assert told(model) == [{"goal": "Add a.", "tools": NAMES}]


SAID = Pending(goal="Add a.", follows=True, said="Use labels.", meant="You said: Use labels.")


async def test_an_answer_is_in_one_payload_only():
    for reply in (simple("add_node", label="Task", key="a"), many("a", "b"), unclear("why"), "nonsense"):
        outcome, model = await parsed(reply, pending=SAID)
        assert told(model)[0]["person"] == "Use labels."
        assert not isinstance(outcome, Resumed)
        assert (outcome.pending, outcome.person) == (None, "Use labels.")


@pytest.mark.parametrize("other", ["Add b.", "Delete a.", "Add a and b.", "3", "task"])
async def test_an_answer_about_one_goal_is_never_used_for_another(other: str):
    begun = SAID.model_copy(update={"spec": GOAL, "queue": (ADD,), "approved": "x"})
    for pending in (SAID, begun):
        outcome, model = await parsed(simple("add_node", label="Task", key="a"), goal=other, pending=pending)
        assert isinstance(outcome, SimpleGoal)
        assert (outcome.person, outcome.meant, outcome.pending) == ("", "", None)
        assert "person" not in told(model)[0]


@pytest.mark.parametrize("said", ["Add a.", " add   A ", "continue", "Go on.", "please continue", "carry on with the rest"])
async def test_a_goal_resumes_without_a_model(said: str):
    begun = SAID.model_copy(update={"spec": GOAL, "queue": (ADD,), "done": (DONE,), "skipped": ("x",), "approved": "y"})
    outcome, model = await parsed("never asked", goal=said, pending=begun)
    assert isinstance(outcome, Resumed)
    assert (outcome.goal, outcome.queue, outcome.done, outcome.skipped, outcome.approved) == ("Add a.", (ADD,), (DONE,), ("x",), "y")
    assert (outcome.steps, outcome.begun, outcome.pending, model.messages) == (1, 1, None, [])


@pytest.mark.parametrize(
    ("said", "why"), [("continue", "nothing to go on with"), ("undo", "nothing to undo"), ("Undo that!", "nothing to undo")]
)
async def test_continue_and_undo_without_a_goal_are_answered(said: str, why: str):
    outcome, model = await parsed("never asked", goal=said)
    assert isinstance(outcome, Unclear)
    assert why in outcome.failures[0].message
    assert model.messages == []


async def test_undo_becomes_tool_calls_without_a_model():
    before, after = Node(label="T", key="c", properties={"x": 1, "y": 2}), Node(label="T", key="c", properties={"x": 2, "z": 3})
    ends: dict[str, Any] = {"start": NodeRef(label="T", key="c"), "end": NodeRef(label="T", key="b"), "relationship": "R"}
    first = Changed(nodes_added=(Node(label="T", key="a"),), edges_removed=(Edge(**ends, properties={"w": 1}),))
    second = Changed(nodes_changed=(after,), nodes_before=(before,), edges_added=(Edge(**ends),))
    outcome, model = await parsed("never asked", goal="Undo.", last=Finished(goal="Do it.", changes=(first, second)))
    assert isinstance(outcome, ComplexGoal)
    assert [(call.tool_name, call.tool_args) for call in outcome.queue] == [
        ("delete_edge", {"match": {"from_node": "T:c", "to_node": "T:b", "relationship": "R"}}),
        ("update_props", {"target": "T:c", "properties": {"x": 1, "y": 2, "z": None}}),
        ("delete_node", {"match": "T:a"}),
        ("add_edge", {"from_node": "T:c", "to_node": "T:b", "relationship": "R", "properties": {"w": 1}}),
    ]
    assert model.messages == []
    for call in outcome.queue:
        assert isinstance(await route_tool(call, 0, 0, catalogue=GraphTools()), Routed)


async def test_a_goal_with_all_its_calls_needs_no_further_plan():
    outcome, _ = await parsed({**many("a", "b"), "tool": ADD.model_dump(), "then": [ADD.model_dump()]})
    assert isinstance(outcome, ComplexGoal)
    assert outcome.queue == (ADD, ADD)


@pytest.mark.parametrize(
    "reply",
    [
        many("one", "two"),
        {"goal": simple("x")["goal"]},  # simple, but no call
        {**simple("add_node"), "goal": simple("x")["goal"] | {"estimated_steps": 2}},
        {**simple("add_node"), "goal": simple("x")["goal"] | {"complexity": "medium"}},
        {**simple("add_node"), "goal": simple("x")["goal"] | {"entities": [{"name": n, "type": "node"} for n in "abc"]}},
        {**simple("add_node"), "goal": simple("x")["goal"] | {"constraints": [{"type": "t", "description": "d"}] * 2}},
    ],
)
async def test_a_complex_goal_is_planned(reply: dict[str, Any]):
    outcome, _ = await parsed(reply)
    assert isinstance(outcome, ComplexGoal)


async def test_a_goal_with_two_entities_and_a_constraint_is_still_simple():
    goal = simple("x")["goal"] | {
        "entities": [{"name": n, "type": "node"} for n in "ab"],
        "constraints": [{"type": "t", "description": "d"}],
    }
    outcome, _ = await parsed({**simple("add_node"), "goal": goal})
    assert isinstance(outcome, SimpleGoal)


async def test_a_goal_that_needs_an_explanation_is_not_pursued():
    outcome, _ = await parsed(unclear("It says both.", "Which one?"))
    assert isinstance(outcome, Unclear)
    [failed] = outcome.failures
    assert (failed.error_type, failed.message, failed.node, outcome.retry_count) == (UNCLEAR, "It says both. Which one?", "parse_goal", 1)
    assert outcome.goal_spec is not None


@pytest.mark.parametrize("reply", [*MALFORMED, *MODEL_ERRORS], ids=str)
async def test_an_invalid_goal_from_the_model_is_a_failure(reply: Scripted):
    outcome, _ = await parsed(reply)
    assert isinstance(outcome, Unclear)
    [failed] = outcome.failures
    assert failed.error_type in {"model_output_invalid", "model_timeout", "model_unavailable"}
    assert failed.transient == (failed.error_type != "model_output_invalid")
    assert (outcome.goal_spec, outcome.retry_count) == (None, 1)


# plan_step


async def planned(
    *replies: Scripted,
    done: tuple[Done, ...] = (),
    failures: tuple[Failure, ...] = (),
    retry_count: int = 0,
    remedy: Remedy = "none",
    plan: StepPlan | None = None,
    signature: ToolSignature | None = None,
    spec: GoalSpec | None = GOAL,
    person: str = "",
    queue: tuple[ToolSignature, ...] = (),
    skipped: tuple[str, ...] = (),
) -> tuple[StepPlanned | NotPlanned, ScriptedModel]:
    model = ScriptedModel(*replies)
    read: tuple[Any, ...] = (spec, person, plan, signature, queue, skipped, len(done), done, failures, retry_count, remedy)
    return await plan_step("Add a and b.", *read, model=model, catalogue=GraphTools()), model


FIRST, SECOND = failure("The first."), failure("The second.", error_type="query_denied")


async def test_the_first_payload_has_the_goal_the_tools_and_the_completed_actions():
    outcome, model = await planned(step("add_node", label="Task", key="a"), done=(DONE,), failures=(FIRST, SECOND))
    assert isinstance(outcome, StepPlanned)
    assert outcome.tool_signature == outcome.step_plan.tool_signature == ADD
    assert told(model) == [
        {
            "goal": "Add a and b.",
            "tools": NAMES,
            "attempt": 1,
            "step": 2,
            "todo": ["add a", "add b"],
            "done": [{"tool": "add_node", "args": {"label": "Task", "key": "a"}, "result": {"changed": 1}}],
        }
    ]
    system = "".join(message.text for messages in model.messages for message in messages if message.role == "system")
    assert "The first." not in system


async def test_the_second_payload_has_the_last_error_and_the_third_the_history():
    _, model = await planned(final("query_graph"), failures=(FIRST, SECOND), retry_count=1)
    assert told(model)[0]["last_error"] == {"tool": "add_edge", "error": "query_denied", "message": "The second."}
    assert "history" not in told(model)[0]
    assert "The first." not in str(model.messages)
    _, model = await planned(final("query_graph"), failures=(FIRST, SECOND), retry_count=2)
    assert told(model)[0]["last_error"]["message"] == "The second."
    assert [one["message"] for one in told(model)[0]["history"]] == ["The first.", "The second."]


async def test_queued_calls_are_taken_in_order_without_a_model():
    other = ToolSignature(tool_name="query_graph")
    outcome, model = await planned("never asked", queue=(ADD, other))
    assert isinstance(outcome, StepPlanned)
    assert (outcome.tool_signature, outcome.queue, outcome.step_plan.is_final_step) == (ADD, (other,), True)
    outcome, model = await planned("never asked", queue=(other,), plan=PLAN, done=(DONE,))
    assert isinstance(outcome, StepPlanned)
    assert (outcome.step_plan.step_number, outcome.step_plan.is_final_step) == (2, False), "the last plan said that there is more"
    assert model.messages == []


async def test_the_rest_is_planned_again_after_a_failure():
    new = {**step("query_graph"), "then": [ADD.model_dump()]}
    outcome, model = await planned(new, queue=(ADD, ADD, ADD), remedy="replan", failures=(FIRST,), retry_count=1)
    assert isinstance(outcome, StepPlanned)
    assert (outcome.tool_signature.tool_name, outcome.queue) == ("query_graph", (ADD,))
    assert len(model.messages) == 1


async def test_a_skipped_action_counts_as_past():
    _, model = await planned(final("query_graph"), done=(DONE,), skipped=("x", "y"))
    assert told(model)[0]["step"] == 4


async def test_an_answer_is_in_every_planning_payload():
    _, model = await planned(final("query_graph"), person="Use labels.")
    assert told(model)[0]["person"] == "Use labels."


async def test_the_payload_is_bounded():
    much = Done(step=1, call=ADD, result="x" * 100_000)
    _, model = await planned(final("query_graph"), done=(much,) * 500, failures=(FIRST,) * 500, retry_count=2)
    assert len(model.messages[0][-1].text) < 40_000
    assert told(model)[0]["step"] == 501


async def test_a_transient_failure_repeats_the_call_without_a_model():
    outcome, model = await planned("never asked", remedy="repeat", plan=PLAN, signature=ADD, retry_count=1, failures=(FIRST,))
    assert isinstance(outcome, StepPlanned)
    assert (outcome.step_plan, outcome.tool_signature, outcome.remedy) == (PLAN, ADD, "none")
    outcome, model = await planned("never asked", remedy="repeat", plan=None, signature=ADD, retry_count=1, failures=(FIRST,))
    assert isinstance(outcome, StepPlanned)
    assert outcome.step_plan.is_final_step, "a simple goal has one step"
    assert model.messages == []
    outcome, model = await planned(final("query_graph"), remedy="repeat", retry_count=1, failures=(FIRST,))
    assert isinstance(outcome, StepPlanned), "what was never a call is planned"


@pytest.mark.parametrize(
    "reply",
    [
        *MODEL_ERRORS,
        "nonsense",
        {},
        step("add_node") | {"step_number": 0},
        step("add_node") | {"overall_progress": 1.01},
        step("add_node") | {"goto": "answer"},
        {"step_number": 1, "is_final_step": True},
        {"step_number": 1, "is_final_step": "maybe", "tool_signature": {"tool_name": "x"}},
    ],
    ids=str,
)
async def test_an_invalid_plan_from_the_model_is_a_failure(reply: Scripted):
    outcome, _ = await planned(reply, done=(DONE,), retry_count=1, failures=(FIRST,))
    assert isinstance(outcome, NotPlanned)
    [failed] = outcome.failures
    assert (failed.node, failed.step, failed.tool, outcome.retry_count) == ("plan_step", 1, "", 2)


# route_tool


async def test_a_valid_call_is_routed():
    assert isinstance(await route_tool(ADD, 0, 0, catalogue=GraphTools()), Routed)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("send_email", {"to": "Ada"}),
        ("", {}),
        ("add_node", {}),
        ("add_node", {"label": "Task", "key": "a", "colour": "red"}),
        ("add_node", {"label": "Task", "key": 7}),
        ("query_graph", {"limit": 0}),
        ("query_graph", {"limit": 10**9}),
        ("__class__", {}),
    ],
)
async def test_an_invalid_call_is_refused(name: str, args: dict[str, Any]):
    outcome = await route_tool(ToolSignature(tool_name=name, tool_args=args), 1, 1, catalogue=GraphTools())
    assert isinstance(outcome, Refused)
    [failed] = outcome.failures
    assert (failed.node, failed.tool, failed.error_type, failed.step) == ("route_tool", name, "tool_input_invalid", 1)
    assert outcome.retry_count == 2


async def test_a_missing_call_is_refused():
    assert isinstance(await route_tool(None, 0, 0, catalogue=GraphTools()), Refused)


# call_tool


class Registry:
    """Says what it is told to."""

    def __init__(self, says: GraphToolResult) -> None:
        self._says = says
        self.called: list[tuple[str, ToolRequest]] = []

    async def call(self, graph: str, request: ToolRequest, *, approved: str = "") -> GraphToolResult:
        self.called.append((graph, request))
        self.approved = approved
        return self._says


async def called(says: GraphToolResult) -> tuple[Called | NotCalled, Registry]:
    registry = Registry(says)
    return await call_tool("mine", ADD, "MATCH", 1, 1, registry=registry, clock=FixedClock()), registry


async def test_a_completed_call_is_recorded_with_its_changes():
    changed = Changed(nodes_added=(Node(label="Task", key="a"),))
    outcome, registry = await called(GraphToolResult(tool="add_node", result={"changed": 1}, changed=changed))
    assert isinstance(outcome, Called)
    assert outcome.done == (Done(step=2, call=ADD, result={"changed": 1}, changed=changed),)
    assert outcome.steps == 2
    assert (outcome.tool_result.status, outcome.tool_result.error) == ("success", None)
    assert registry.called == [("mine", ToolRequest(tool="add_node", args={"label": "Task", "key": "a"}))]
    assert registry.approved == "MATCH"


async def test_an_error_of_a_tool_is_not_a_completed_action():
    outcome, _ = await called(GraphToolResult(tool="add_node", error="No.", code="not_found"))
    assert isinstance(outcome, Called)
    assert (outcome.done, outcome.steps) == ((), 1)
    assert (outcome.tool_result.status, outcome.tool_result.error, outcome.tool_result.error_type) == ("error", "No.", "not_found")


async def test_a_transient_error_is_a_failure_of_the_call():
    outcome, _ = await called(GraphToolResult(tool="add_node", error="Not now.", code="store_unavailable", transient=True))
    assert isinstance(outcome, NotCalled)
    [failed] = outcome.failures
    assert (failed.node, failed.transient, failed.error_type, outcome.retry_count) == ("call_tool", True, "store_unavailable", 2)


# evaluate


GOOD = ToolResult(tool_name="add_node", status="success")
BAD = ToolResult(tool_name="add_node", status="error", error="No.", error_type="not_found")


async def evaluated(result: ToolResult | None, plan: StepPlan | None, **more: Any) -> Any:
    given: dict[str, Any] = {"queue": (), "steps": 1, "begun": 0, "retry_count": 0, **more}
    return await evaluate(result, plan, given["queue"], given["steps"], given["begun"], given["retry_count"])


async def test_a_successful_action_completes_the_goal_or_continues():
    last = PLAN.model_copy(update={"is_final_step": True})
    assert isinstance(await evaluated(GOOD, last, retry_count=2), Complete)
    assert isinstance(await evaluated(GOOD, None), Complete)
    assert isinstance(await evaluated(GOOD, last, queue=(ADD,)), StepDone)
    more = await evaluated(GOOD, PLAN, retry_count=2)
    assert isinstance(more, StepDone)
    assert more.retry_count == 0


async def test_a_turn_has_a_limit_of_actions():
    assert isinstance(await evaluated(GOOD, PLAN, steps=MAX_STEPS - 1), StepDone)
    stopped = await evaluated(GOOD, PLAN, steps=MAX_STEPS)
    assert isinstance(stopped, Exhausted)
    assert stopped.failures[0].error_type == "budget_exceeded"
    assert isinstance(await evaluated(GOOD, PLAN, steps=MAX_STEPS + 5, begun=MAX_STEPS), StepDone), "those of an earlier turn do not count"
    assert isinstance(await evaluated(GOOD, None, steps=MAX_STEPS), Complete)


async def test_a_failed_action_has_a_limit_of_retries():
    kinds: list[type[Any]] = [type(await evaluated(BAD, PLAN, steps=0, retry_count=retries)) for retries in range(MAX_RETRIES + 2)]
    assert kinds == [StepFailed] * (MAX_RETRIES - 1) + [Exhausted] * 3
    for retries in range(5):
        outcome = await evaluated(BAD, PLAN, steps=0, retry_count=retries)
        assert isinstance(outcome, StepFailed | Exhausted)
        assert outcome.retry_count == retries + 1
        assert [(one.node, one.message) for one in outcome.failures] == [("evaluate", "No.")]
    nothing = await evaluated(None, PLAN, steps=0)
    assert isinstance(nothing, StepFailed)


# diagnose


async def diagnosed(*failures: Failure, retry_count: int | None = None) -> tuple[Retry | GiveUp, list[float]]:
    waited = Waited()
    return await diagnose(failures, len(failures) if retry_count is None else retry_count, timer=waited), waited.seconds


@pytest.mark.parametrize("code", ["tool_input_invalid", "not_found", "query_denied", "node_has_edges"])
async def test_a_systematic_failure_is_planned_again(code: str):
    outcome, waited = await diagnosed(failure(error_type=code))
    assert isinstance(outcome, Retry)
    assert (outcome.diagnosis.kind, outcome.remedy, outcome.diagnosis.remedy, waited) == ("systematic", "replan", "replan", [])


@pytest.mark.parametrize("code", ["store_unavailable", "query_timeout", "state_conflict"])
async def test_a_transient_failure_is_repeated_after_a_pause(code: str):
    outcome, waited = await diagnosed(failure(error_type=code, transient=True))
    assert isinstance(outcome, Retry)
    assert (outcome.diagnosis.kind, outcome.remedy, waited) == ("random", "repeat", [PAUSE_S])


async def test_an_unreachable_model_is_called_again_after_a_pause():
    outcome, waited = await diagnosed(failure(error_type="model_unavailable", tool="", transient=True))
    assert isinstance(outcome, Retry)
    assert (outcome.diagnosis.kind, outcome.remedy, waited) == ("random", "replan", [PAUSE_S])


@pytest.mark.parametrize("transient", [True, False])
async def test_a_repeated_failure_is_escalated(*, transient: bool):
    outcome, waited = await diagnosed(failure("No 'a'.", transient=transient), failure("No 'b'.", transient=transient))
    assert isinstance(outcome, GiveUp)
    assert (outcome.diagnosis.kind, outcome.remedy, waited) == ("identical", "escalate", [])


async def test_failures_of_different_actions_are_not_identical():
    outcome, _ = await diagnosed(failure(step=0), failure(step=1), retry_count=1)
    assert isinstance(outcome, Retry)


async def test_different_failures_are_bounded():
    for number in range(1, MAX_RETRIES + 2):
        outcome, _ = await diagnosed(*(failure(letter * 3) for letter in "abcdef"[:number]))
        assert isinstance(outcome, GiveUp if number >= MAX_RETRIES else Retry)


@pytest.mark.parametrize("code", [UNCLEAR, "match_ambiguous", "approval_needed", "budget_exceeded"])
async def test_a_failure_that_only_a_person_can_resolve_is_not_retried(code: str):
    outcome, waited = await diagnosed(failure(error_type=code, tool=""))
    assert isinstance(outcome, GiveUp)
    assert waited == []


WORD = st.text(st.characters(exclude_characters="'\"", exclude_categories=["Cs"]), max_size=20)


@given(before=WORD, after=WORD, numbers=st.tuples(st.integers(0), st.integers(0)))
def test_a_signature_ignores_names_and_numbers(before: str, after: str, numbers: tuple[int, int]):
    one = failure(f"There is no node '{before}' in line {numbers[0]} of \"{before}\".")
    other = failure(f"There is no node '{after}' in line {numbers[1]} of \"{after}\".")
    assert signature_of(one) == signature_of(other)


def test_an_apostrophe_is_not_a_quote():
    one, other = (failure(f"The model's reply isn't a '{name}', the store's is.") for name in ("Goal", "O'Brien"))
    assert signature_of(one) == signature_of(other)
    assert signature_of(failure("It's gone. It's over.")) != signature_of(failure("It's there. It's over."))


@given(tool=st.sampled_from(NAMES), code=st.sampled_from(["not_found", "query_denied", "tool_input_invalid"]))
def test_a_signature_has_the_tool_and_the_code(tool: str, code: str):
    assert (signature_of(failure(tool=tool, error_type=code)) == signature_of(failure())) == ((tool, code) == ("add_edge", "not_found"))
    assert signature_of(failure("It is gone.")) != signature_of(failure("It was never there."))


@given(messages=st.lists(st.text(max_size=30), min_size=1, max_size=8), transient=st.booleans())
async def test_retries_are_bounded(messages: list[str], *, transient: bool):
    failures = [failure(message, transient=transient) for message in messages]
    tries = 0
    for number in range(1, len(failures) + 1):
        outcome, _ = await diagnosed(*failures[:number])
        if isinstance(outcome, GiveUp):
            break
        tries += 1
    assert tries < MAX_RETRIES


# escalate


class Undo:
    """Keeps what is to be taken back, and says what it is told to."""

    def __init__(self, error: str | None = None) -> None:
        self.asked: list[tuple[str, tuple[Changed, ...]]] = []
        self._error = error

    async def take_back(self, graph: str, changes: tuple[Changed, ...]) -> GraphToolResult:
        self.asked.append((graph, changes))
        return GraphToolResult(tool="take_back", error=self._error)


THREE = GOAL.model_copy(update={"todo_list": [TodoItem(description=f"add {name}") for name in "abc"]})
AMBIGUOUS = failure("Which?", error_type="match_ambiguous", named="a", candidates=("Person:a", "Task:a"))
EDGE = ToolSignature(
    tool_name="update_props", tool_args={"target": {"from_node": "a", "to_node": "b", "relationship": "a"}, "properties": {"name": "a"}}
)


async def escalated(*says: str, human: Human | None = None, undo: Undo | None = None, **more: Any) -> tuple[Escalated, list[Question]]:
    scripted = ScriptedHuman(*says)
    given: dict[str, Any] = {
        "spec": GOAL, "failed": failure("Gone.", transient=True), "call": ADD, "queue": (), "plan": PLAN, "skipped": (), "done": (), **more
    }  # fmt: skip
    diagnosis = Diagnosis(kind="identical", signature=("", "", ""), remedy="escalate")
    read = (given["spec"], (given["failed"],), given["call"], given["queue"], given["plan"], given["skipped"], given["done"])
    outcome = await escalate("mine", "Do it.", *read, diagnosis, human=human or scripted, undo=undo or Undo())
    return outcome, scripted.asked


async def test_a_transient_failure_of_one_of_several_actions_offers_four_options():
    outcome, [question] = await escalated("I meant the task.")
    assert question.options == OPTIONS == outcome.escalation.options
    assert len(OPTIONS) == 4
    assert (question.recommended, outcome.escalation.recommended_action) == (RETRY, RETRY)
    assert "step 1 of 'Do it.'" in question.text
    assert "Gone." in question.text
    assert (outcome.escalation.choice, outcome.escalation.error) == ("I meant the task.", "Gone.")
    assert outcome.pending is not None
    assert (outcome.pending.goal, outcome.pending.said, outcome.pending.follows) == ("Do it.", "I meant the task.", True)


@pytest.mark.parametrize(
    "more",
    [
        {"failed": failure(error_type=UNCLEAR, tool="")},
        {"spec": None, "plan": None},
        {"spec": GOAL.model_copy(update={"todo_list": GOAL.todo_list[:1]})},
        {"failed": failure(error_type="budget_exceeded", tool="")},
        {"failed": failure("No 'x'.", error_type="not_in_graph"), "done": (DONE,)},
        {"failed": failure("No such tool.", error_type="tool_input_invalid"), "queue": (ADD,)},
    ],
)
async def test_no_question_without_a_choice(more: dict[str, Any]):
    outcome, asked = await escalated("never asked", **more)
    assert (asked, outcome.escalation.was_asked, outcome.escalation.choice) == ([], False, None)


async def test_an_unclear_goal_asks_only_its_own_question():
    spec = GOAL.model_copy(update={"question": "Which colour?", "choices": ["red", "blue"]})
    outcome, [question] = await escalated("Blue.", spec=spec, failed=failure(error_type=UNCLEAR, tool=""))
    assert (question.text, question.options) == ("Which colour?", ("red", "blue"))
    assert outcome.pending is not None
    assert (outcome.pending.said, outcome.pending.spec) == ("blue", None), "it is understood anew, with the answer"
    slot = GOAL.model_copy(update={"question": "What is it called?"})
    outcome, [question] = await escalated("Apollo", spec=slot, failed=failure(error_type=UNCLEAR, tool=""))
    assert question.options == ()
    assert outcome.pending is not None
    assert outcome.pending.said == "Apollo"


async def test_more_context_is_asked_for():
    outcome, asked = await escalated(MORE, "It is the task.")
    assert len(asked) == 2
    assert asked[1].options == ()
    assert outcome.escalation.choice == "It is the task."
    assert outcome.pending is not None
    assert outcome.pending.said == "It is the task."
    outcome, _ = await escalated(MORE)
    assert (outcome.escalation.choice, outcome.pending) == (None, None), "nobody said more"


@pytest.mark.parametrize("said", ["task", "Task", "the task", "2", "Task:a", "I mean Task:a.", "task a", "it is the Task"])
async def test_the_chosen_node_replaces_its_name_in_all_references(said: str):
    outcome, [question] = await escalated(said, failed=AMBIGUOUS, call=EDGE, queue=(EDGE, ADD), plan=None)
    assert question.options == ("Person a", "Task a")
    assert outcome.pending is not None
    bound = {"target": {"from_node": "Task:a", "to_node": "b", "relationship": "a"}, "properties": {"name": "a"}}
    assert [call.tool_args for call in outcome.pending.queue] == [bound, bound, ADD.tool_args]
    assert (outcome.pending.meant, outcome.pending.is_complete) == ("You mean Task a.", True)


async def test_an_invalid_answer_is_asked_for_again_up_to_a_limit():
    outcome, asked = await escalated("the blue one", "person", failed=AMBIGUOUS)
    assert "'the blue one' is not one of the answers." in asked[1].text
    assert outcome.pending is not None
    outcome, asked = await escalated(*["what?"] * 9, failed=AMBIGUOUS)
    assert (len(asked), outcome.pending, outcome.escalation.choice) == (3, None, ABORT)


@given(said=st.text(max_size=40))
async def test_only_the_approving_answer_approves(said: str):
    waits = failure("It writes.", error_type="approval_needed", approval="MATCH (n) DELETE n")
    outcome, _ = await escalated(said, failed=waits)
    is_approved = outcome.pending is not None and outcome.pending.approved != ""
    assert is_approved == (Question(text="", options=(RUN, "no")).choice(said) == RUN)


async def test_the_exact_text_is_approved():
    waits = failure("It would remove 1 node.", error_type="approval_needed", approval="MATCH (n) DELETE n")
    outcome, [question] = await escalated("yes", failed=waits)
    assert "MATCH (n) DELETE n" in question.text
    assert "It would remove 1 node." in question.text
    assert question.recommended == "no"
    assert outcome.pending is not None
    assert (outcome.pending.approved, outcome.pending.queue) == ("MATCH (n) DELETE n", (ADD,))
    for said in ("no", "abort", "yes please delete everything"):
        assert (await escalated(said, "no", failed=waits))[0].pending is None


async def test_skip_continues_with_the_rest():
    outcome, _ = await escalated("skip", queue=(EDGE,), plan=None, done=(DONE,), spec=THREE)
    assert outcome.pending is not None
    assert (outcome.pending.queue, outcome.pending.skipped, outcome.pending.done) == ((EDGE,), ("add b",), (DONE,))
    outcome, _ = await escalated("skip", done=(DONE,), spec=THREE)
    assert outcome.pending is not None
    assert outcome.pending.said == f"{SKIP}: add b", "the model plans the rest"
    undo = Undo()
    outcome, _ = await escalated("skip", done=(DONE,), undo=undo, plan=None)
    assert (outcome.pending, outcome.escalation.left_out, undo.asked) == (None, "add b", []), "nothing is left, and what is done stays"


@pytest.mark.parametrize("said", [ABORT, " ABORT ", "cancel", "never mind.", "3"])
async def test_an_aborted_goal_is_undone(said: str):
    undo = Undo()
    outcome, _ = await escalated(said, done=(DONE, DONE), undo=undo)
    assert undo.asked == [("mine", (DONE.changed, DONE.changed))]
    assert (outcome.pending, outcome.escalation.taken_back, outcome.escalation.stays) == (None, True, "")


async def test_an_unattended_goal_is_abandoned_and_the_remaining_changes_are_reported():
    undo = Undo("Somebody has changed it.")
    outcome, _ = await escalated(human=NobodyHere(), done=(DONE,), undo=undo)
    assert len(undo.asked) == 1
    assert (outcome.escalation.choice, outcome.pending, outcome.escalation.taken_back) == (None, None, False)
    assert outcome.escalation.stays == "Somebody has changed it."


async def test_a_goal_that_resumes_is_not_undone():
    undo = Undo()
    for said in (RETRY, SKIP, "It is the task."):
        assert (await escalated(said, done=(DONE,), undo=undo, spec=THREE))[0].pending is not None
    outcome, _ = await escalated(failed=failure(error_type="budget_exceeded", tool=""), done=(DONE,), undo=undo, queue=(EDGE,))
    assert outcome.pending is not None
    assert (outcome.pending.follows, outcome.pending.queue, undo.asked) == (False, (EDGE,), [])


# answer


async def answered(spec: GoalSpec | None = GOAL, **more: Any) -> str:
    given: dict[str, Any] = {"meant": "", "skipped": (), "done": (), "failures": (), "escalation": None, "last": None, **more}
    return (await answer("Add a and b.", spec, *given.values())).final_answer


async def test_the_answer_reports_changes_failures_and_the_undo():
    context = EscalateContext(reason="I could not do step 2.", error="No 'b'.", was_asked=True, taken_back=True)
    text = await answered(done=(DONE,), failures=(FIRST,), escalation=context)
    assert "Done, and then taken back:\n\n1. added Task a" in text
    assert "I could not do step 2. No 'b'." in text
    assert "the graph is as it was before" in text
    assert all(f"- {option}" in text for option in OPTIONS)
    stays = await answered(done=(DONE,), escalation=context.model_copy(update={"taken_back": False, "stays": "It is locked."}))
    assert "stays in the graph. It could not be taken back: It is locked." in stays
    assert "taken back:\n" not in stays
    given_up = await answered(escalation=context.model_copy(update={"taken_back": False, "choice": ABORT}))
    assert given_up == "Given up: 'Add a and b.'.\nNothing was changed."


async def test_an_unfinished_goal_reports_what_is_left_and_how_to_continue():
    context = EscalateContext(reason="It is not done yet.", error="One turn does 80 steps of a goal.", goes_on=True)
    text = await answered(done=(DONE,), escalation=context)
    assert "Added Task a." in text
    assert "Say 'continue' to go on." in text
    assert "Left to do:\n- add b" in text
    assert "- add a" not in text


async def test_a_goal_that_was_not_understood_has_only_its_reply():
    context = EscalateContext(reason="", error="I did not understand 'blah'. You can say: 'List all tasks'.")
    assert await answered(escalation=context) == context.error


async def test_the_last_goal_with_changes_can_be_undone():
    earlier = Finished(goal="Before.", changes=(Changed(),))

    async def last(**more: Any) -> Finished | None:
        given: dict[str, Any] = {"done": (), "failures": (), "escalation": None, "last": earlier, **more}
        return (await answer("Add.", GOAL, "", (), *given.values())).last

    assert DONE.changed is not None
    assert await last(done=(DONE,)) == Finished(goal="Add.", changes=(DONE.changed,))
    looked = Done(step=1, call=ADD, result={"rows": [], "columns": []})
    assert await last(done=(looked,)) == earlier
    back = EscalateContext(reason="r", error="e", taken_back=True)
    assert await last(done=(DONE,), escalation=back) == earlier


async def test_retried_failures_and_actions_without_effect_are_reported():
    assert "The first." in await answered(done=(DONE,), failures=(FIRST,))
    assert await answered() == "Nothing had to be changed for 'Add a and b.'."
    same = Done(step=1, call=ADD, result={"changed": 0}, changed=Changed())
    assert await answered(done=(same,)) == "Nothing changed in the graph: it was so already."


async def test_an_action_that_changed_nothing_is_reported_without_the_name_of_its_tool():
    same = Done(step=2, call=ADD, result={"changed": 0}, changed=Changed())
    said = await answered(done=(DONE, same))
    assert "2. " in said
    assert "is there already" in said
    assert "add_node" not in said


def found(**result: Any) -> Done:
    return Done(step=1, call=ADD, result=result)


async def test_results_are_a_table_or_a_single_value():
    assert await answered(done=(found(columns=["n"], rows=[[3]], more=False),)) == "3"
    assert await answered(done=(found(columns=["n"], rows=[], more=False),)) == "Nothing in the graph is like that."
    assert await answered(done=(found(nodes=[], more=False),)) == "Nothing in the graph is like that."
    table = await answered(done=(found(nodes=[{"label": "T", "key": "a|b\nc", "properties": {"n": 1}}], more=True),))
    lines = ["| label | key | n |", "| --- | --- | --- |", "| T | a\\|b c | 1 |", "", "These are the first 1 of more than 1 rows."]
    assert table.splitlines() == lines


@pytest.mark.parametrize(("rows", "more", "says"), [(51, False, "first 50 of 51 rows"), (80, True, "first 50 of more than 80 rows")])
async def test_truncated_results_are_reported(rows: int, says: str, *, more: bool):
    assert says in await answered(done=(found(columns=["n"], rows=[[n] for n in range(rows)], more=more),))
    assert "These are the first" not in await answered(done=(found(columns=["n"], rows=[[n] for n in range(50)], more=False),))


CELLS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["a", "b c"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "label", "key", "nodes", "edges"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(rows=st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=4))
async def test_no_result_is_shown_as_null_or_none(rows: list[list[Any]]):
    text = await answered(done=(found(columns=["one", "two"], rows=rows, more=False),))
    assert "null" not in text
    assert "None" not in text
    assert await answered(done=(found(columns=["n"], rows=[[None]], more=False),)) == "It has no value."


# The types


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (GoalSpec, {"original_goal": "g", "intent": "i", "complexity": "simple", "estimated_steps": 0}),
        (GoalSpec, {"original_goal": "g", "intent": "i", "complexity": "simple", "estimated_steps": True}),
        (GoalSpec, {"original_goal": "g", "intent": "i", "complexity": "simple", "confidence": -0.1}),
        (GoalSpec, {"original_goal": "g", "intent": "i", "complexity": "simple", "confidence": float("nan")}),
        (GoalSpec, {"original_goal": "g", "intent": "i", "complexity": "hard"}),
        (GoalSpec, {"original_goal": "g", "intent": "i", "complexity": "simple", "more": 1}),
        (GoalSpec, {"original_goal": "g", "complexity": "simple"}),
        (EntitySpec, {"name": "a", "type": "table"}),
        (EntitySpec, {"name": "a", "type": "node", "confidence": 2}),
        (ConstraintSpec, {"type": "t"}),
        (TodoItem, {"description": "d", "status": "failed"}),
        (TodoItem, {"description": "d", "step_number": 0}),
        (ToolSignature, {"tool_name": "x", "confidence": 1.1}),
        (ToolSignature, {"tool_name": "x", "tool_args": "label"}),
        (ToolSignature, {"tool_args": {}}),
        (StepPlan, {**step("add_node"), "step_number": 0}),
        (StepPlan, {**step("add_node"), "overall_progress": -1}),
        (ToolResult, {"tool_name": "x", "status": "maybe"}),
        (Diagnosis, {"kind": "unknown", "signature": ["", "", ""], "remedy": "replan"}),
        (EscalateContext, {"reason": "r"}),
        (ParsedGoal, {}),
    ],
)
def test_values_of_the_wrong_type_are_refused(kind: type[BaseModel], data: dict[str, Any]):
    with pytest.raises(ValidationError):
        kind.model_validate_json(json.dumps(data))


@given(steps=st.integers(), confidence=st.floats())
def test_steps_and_confidence_have_their_bounds(steps: int, confidence: float):
    def fits(**more: Any) -> bool:
        try:
            GoalSpec(original_goal="g", intent="i", complexity="simple", **more)
        except ValidationError:
            return False
        return True

    assert fits(estimated_steps=steps) == (steps >= 1)
    assert fits(confidence=confidence) == (0 <= confidence <= 1)
