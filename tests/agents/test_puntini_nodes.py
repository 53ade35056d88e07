"""puntini's eight nodes as what they are: async functions, called with what they read and are granted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from interlock.adapters.graphs.registry import GraphTools
from interlock.adapters.people import NobodyHere, ScriptedHuman
from interlock.agents.puntini.nodes import (
    MAX_RETRIES,
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
from interlock.agents.puntini.spec import (
    ABORT,
    MORE,
    OPTIONS,
    RETRY,
    SKIP,
    ConstraintSpec,
    Diagnosis,
    Done,
    EntitySpec,
    EscalateContext,
    Failure,
    GoalSpec,
    ParsedGoal,
    StepPlan,
    TodoItem,
    ToolResult,
    ToolSignature,
)
from interlock.agents.puntini.state import (
    Called,
    Complete,
    ComplexGoal,
    Exhausted,
    GiveUp,
    NotCalled,
    NotPlanned,
    Refused,
    Remedy,
    Retry,
    Routed,
    SimpleGoal,
    StepDone,
    StepFailed,
    StepPlanned,
    Unclear,
)
from interlock.agents.puntini.told import told_step
from interlock.capabilities import ToolRequest
from interlock.capabilities.graph_store import Changed, Node
from interlock.capabilities.registry import GraphToolResult
from interlock.errors import ModelOutputInvalid, ModelTimeout, ModelUnavailable
from interlock.testing import FixedClock, Scripted, ScriptedModel
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


async def parsed(*replies: Scripted, carried: str = "") -> tuple[SimpleGoal | ComplexGoal | Unclear, ScriptedModel]:
    model = ScriptedModel(*replies)
    return await parse_goal("Add a.", carried, model=model, catalogue=GraphTools()), model


async def test_a_goal_that_one_call_does_comes_with_the_call():
    outcome, model = await parsed(simple("add_node", label="Task", key="a"))
    assert isinstance(outcome, SimpleGoal)
    assert outcome.tool_signature == ADD
    assert told(model) == [{"goal": "Add a.", "tools": NAMES}]


async def test_what_a_person_said_is_told_once_and_then_forgotten():
    for reply in (simple("add_node", label="Task", key="a"), many("a", "b"), unclear("why"), "nonsense"):
        outcome, model = await parsed(reply, carried="Use labels.")
        assert told(model)[0]["person"] == "Use labels."
        assert (outcome.carried, outcome.person) == ("", "Use labels.")


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
async def test_any_other_goal_is_planned(reply: dict[str, Any]):
    outcome, _ = await parsed(reply)
    assert isinstance(outcome, ComplexGoal)


async def test_a_goal_with_two_entities_and_a_constraint_is_still_simple():
    goal = simple("x")["goal"] | {
        "entities": [{"name": n, "type": "node"} for n in "ab"],
        "constraints": [{"type": "t", "description": "d"}],
    }
    outcome, _ = await parsed({**simple("add_node"), "goal": goal})
    assert isinstance(outcome, SimpleGoal)


async def test_a_goal_that_a_person_has_to_explain_is_not_worked_on():
    outcome, _ = await parsed(unclear("It says both.", "Which one?"))
    assert isinstance(outcome, Unclear)
    [failed] = outcome.failures
    assert (failed.error_type, failed.message, failed.node, outcome.retry_count) == (UNCLEAR, "It says both. Which one?", "parse_goal", 1)
    assert outcome.goal_spec is not None


@pytest.mark.parametrize("reply", [*MALFORMED, *MODEL_ERRORS], ids=str)
async def test_whatever_a_model_says_that_is_no_goal_is_a_failure_and_no_crash(reply: Scripted):
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
) -> tuple[StepPlanned | NotPlanned, ScriptedModel]:
    model = ScriptedModel(*replies)
    texts = tuple(told_step(one.call, one.result) for one in done)
    outcome = await plan_step(
        "Add a and b.", spec, person, plan, signature, len(done), texts, failures, retry_count, remedy, model=model, catalogue=GraphTools()
    )
    return outcome, model


FIRST, SECOND = failure("The first."), failure("The second.", error_type="query_denied")


async def test_the_first_attempt_is_told_the_goal_the_names_of_the_tools_and_what_was_done():
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


async def test_the_second_attempt_is_told_the_last_error_and_the_third_the_history():
    _, model = await planned(final("query_graph"), failures=(FIRST, SECOND), retry_count=1)
    assert told(model)[0]["last_error"] == {"tool": "add_edge", "error": "query_denied", "message": "The second."}
    assert "history" not in told(model)[0]
    assert "The first." not in str(model.messages)
    _, model = await planned(final("query_graph"), failures=(FIRST, SECOND), retry_count=2)
    assert told(model)[0]["last_error"]["message"] == "The second."
    assert [one["message"] for one in told(model)[0]["history"]] == ["The first.", "The second."]


async def test_what_a_person_said_is_told_at_every_step():
    _, model = await planned(final("query_graph"), person="Use labels.")
    assert told(model)[0]["person"] == "Use labels."


async def test_what_is_told_is_bounded():
    much = Done(step=1, call=ADD, result="x" * 100_000)
    _, model = await planned(final("query_graph"), done=(much,) * 500, failures=(FIRST,) * 500, retry_count=2)
    assert len(model.messages[0][-1].text) < 40_000
    assert told(model)[0]["step"] == 501


async def test_a_call_that_failed_by_chance_is_planned_again_without_a_model():
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
async def test_whatever_a_model_says_that_is_no_plan_is_a_failure_of_this_step(reply: Scripted):
    outcome, _ = await planned(reply, done=(DONE,), retry_count=1, failures=(FIRST,))
    assert isinstance(outcome, NotPlanned)
    [failed] = outcome.failures
    assert (failed.node, failed.step, failed.tool, outcome.retry_count) == ("plan_step", 1, "", 2)


# route_tool


async def test_a_call_that_a_tool_takes_is_let_through():
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
async def test_a_call_that_no_tool_takes_is_a_failure(name: str, args: dict[str, Any]):
    outcome = await route_tool(ToolSignature(tool_name=name, tool_args=args), 1, 1, catalogue=GraphTools())
    assert isinstance(outcome, Refused)
    [failed] = outcome.failures
    assert (failed.node, failed.tool, failed.error_type, failed.step) == ("route_tool", name, "tool_input_invalid", 1)
    assert outcome.retry_count == 2


async def test_no_call_at_all_is_a_failure_too():
    assert isinstance(await route_tool(None, 0, 0, catalogue=GraphTools()), Refused)


# call_tool


class Registry:
    """Says what it is told to."""

    def __init__(self, says: GraphToolResult) -> None:
        self._says = says
        self.called: list[tuple[str, ToolRequest]] = []

    async def call(self, graph: str, request: ToolRequest) -> GraphToolResult:
        self.called.append((graph, request))
        return self._says


async def called(says: GraphToolResult) -> tuple[Called | NotCalled, Registry]:
    registry = Registry(says)
    return await call_tool("mine", ADD, 1, 1, registry=registry, clock=FixedClock()), registry


async def test_what_a_call_did_is_kept_with_what_changed():
    changed = Changed(nodes_added=(Node(label="Task", key="a"),))
    outcome, registry = await called(GraphToolResult(tool="add_node", result={"changed": 1}, changed=changed))
    assert isinstance(outcome, Called)
    assert outcome.done == (Done(step=2, call=ADD, result={"changed": 1}, changed=changed),)
    assert (outcome.steps, outcome.told) == (2, (told_step(ADD, {"changed": 1}),))
    assert (outcome.tool_result.status, outcome.tool_result.error) == ("success", None)
    assert registry.called == [("mine", ToolRequest(tool="add_node", args={"label": "Task", "key": "a"}))]


async def test_an_error_of_a_tool_is_an_error_and_not_something_done():
    outcome, _ = await called(GraphToolResult(tool="add_node", error="No.", code="not_found"))
    assert isinstance(outcome, Called)
    assert (outcome.done, outcome.steps, outcome.told) == ((), 1, ())
    assert (outcome.tool_result.status, outcome.tool_result.error, outcome.tool_result.error_type) == ("error", "No.", "not_found")


async def test_what_cannot_be_done_now_is_a_failure_of_the_call():
    outcome, _ = await called(GraphToolResult(tool="add_node", error="Not now.", code="store_unavailable", transient=True))
    assert isinstance(outcome, NotCalled)
    [failed] = outcome.failures
    assert (failed.node, failed.transient, failed.error_type, outcome.retry_count) == ("call_tool", True, "store_unavailable", 2)


# evaluate


GOOD = ToolResult(tool_name="add_node", status="success")
BAD = ToolResult(tool_name="add_node", status="error", error="No.", error_type="not_found")


async def test_a_step_that_succeeded_is_the_last_or_there_is_more():
    assert isinstance(await evaluate(GOOD, PLAN.model_copy(update={"is_final_step": True}), 1, 2), Complete)
    assert isinstance(await evaluate(GOOD, None, 1, 0), Complete)
    more = await evaluate(GOOD, PLAN, 1, 2)
    assert isinstance(more, StepDone)
    assert more.retry_count == 0


async def test_a_step_that_failed_may_be_tried_so_often():
    kinds = [type(await evaluate(BAD, PLAN, 0, retries)) for retries in range(MAX_RETRIES + 2)]
    assert kinds == [StepFailed] * (MAX_RETRIES - 1) + [Exhausted] * 3
    for retries in range(5):
        outcome = await evaluate(BAD, PLAN, 0, retries)
        assert isinstance(outcome, StepFailed | Exhausted)
        assert outcome.retry_count == retries + 1
        assert [(one.node, one.message) for one in outcome.failures] == [("evaluate", "No.")]
    nothing = await evaluate(None, PLAN, 0, 0)
    assert isinstance(nothing, StepFailed)


# diagnose


async def diagnosed(*failures: Failure, retry_count: int | None = None) -> tuple[Retry | GiveUp, list[float]]:
    waited = Waited()
    return await diagnose(failures, len(failures) if retry_count is None else retry_count, patience=waited), waited.seconds


@pytest.mark.parametrize("code", ["tool_input_invalid", "not_found", "query_denied", "match_ambiguous", "node_has_edges"])
async def test_a_failure_that_is_no_accident_is_planned_anew(code: str):
    outcome, waited = await diagnosed(failure(error_type=code))
    assert isinstance(outcome, Retry)
    assert (outcome.diagnosis.kind, outcome.remedy, outcome.diagnosis.remedy, waited) == ("systematic", "replan", "replan", [])


@pytest.mark.parametrize("code", ["store_unavailable", "query_timeout", "state_conflict"])
async def test_an_accident_is_repeated_after_a_pause(code: str):
    outcome, waited = await diagnosed(failure(error_type=code, transient=True))
    assert isinstance(outcome, Retry)
    assert (outcome.diagnosis.kind, outcome.remedy, waited) == ("random", "repeat", [PAUSE_S])


async def test_a_model_that_was_not_there_is_asked_again_after_a_pause():
    outcome, waited = await diagnosed(failure(error_type="model_unavailable", tool="", transient=True))
    assert isinstance(outcome, Retry)
    assert (outcome.diagnosis.kind, outcome.remedy, waited) == ("random", "replan", [PAUSE_S])


@pytest.mark.parametrize("transient", [True, False])
async def test_the_same_failure_again_is_a_persons_business(*, transient: bool):
    outcome, waited = await diagnosed(failure("No 'a'.", transient=transient), failure("No 'b'.", transient=transient))
    assert isinstance(outcome, GiveUp)
    assert (outcome.diagnosis.kind, outcome.remedy, waited) == ("identical", "escalate", [])


async def test_failures_of_another_step_are_not_the_same_ones():
    outcome, _ = await diagnosed(failure(step=0), failure(step=1), retry_count=1)
    assert isinstance(outcome, Retry)


async def test_other_failures_are_bounded_too():
    for number in range(1, MAX_RETRIES + 2):
        outcome, _ = await diagnosed(*(failure(letter * 3) for letter in "abcdef"[:number]))
        assert isinstance(outcome, GiveUp if number >= MAX_RETRIES else Retry)


async def test_what_only_a_person_can_clear_is_not_tried_again():
    outcome, waited = await diagnosed(failure(error_type=UNCLEAR, tool=""))
    assert isinstance(outcome, GiveUp)
    assert waited == []


WORD = st.text(st.characters(exclude_characters="'\"", exclude_categories=["Cs"]), max_size=20)


@given(before=WORD, after=WORD, numbers=st.tuples(st.integers(0), st.integers(0)))
def test_names_and_numbers_are_no_part_of_a_failures_signature(before: str, after: str, numbers: tuple[int, int]):
    one = failure(f"There is no node '{before}' in line {numbers[0]} of \"{before}\".")
    other = failure(f"There is no node '{after}' in line {numbers[1]} of \"{after}\".")
    assert signature_of(one) == signature_of(other)


def test_an_apostrophe_is_no_quote():
    one, other = (failure(f"The model's reply isn't a '{name}', the store's is.") for name in ("Goal", "O'Brien"))
    assert signature_of(one) == signature_of(other)
    assert signature_of(failure("It's gone. It's over.")) != signature_of(failure("It's there. It's over."))


@given(tool=st.sampled_from(NAMES), code=st.sampled_from(["not_found", "query_denied", "tool_input_invalid"]))
def test_the_tool_and_the_kind_of_error_are(tool: str, code: str):
    assert (signature_of(failure(tool=tool, error_type=code)) == signature_of(failure())) == ((tool, code) == ("add_edge", "not_found"))
    assert signature_of(failure("It is gone.")) != signature_of(failure("It was never there."))


@given(messages=st.lists(st.text(max_size=30), min_size=1, max_size=8), transient=st.booleans())
async def test_nothing_is_tried_for_ever(messages: list[str], *, transient: bool):
    failures = [failure(message, transient=transient) for message in messages]
    tries = 0
    for number in range(1, len(failures) + 1):
        outcome, _ = await diagnosed(*failures[:number])
        if isinstance(outcome, GiveUp):
            break
        tries += 1
    assert tries < MAX_RETRIES


# escalate


async def escalated(*says: str, code: str = "not_found", spec: GoalSpec | None = GOAL) -> tuple[EscalateContext, str, ScriptedHuman]:
    human = ScriptedHuman(*says)
    diagnosis = Diagnosis(kind="identical", signature=("", "", ""), remedy="escalate")
    outcome = await escalate("Do it.", spec, (failure("No 'x'.", error_type=code),), (), diagnosis, human=human)
    return outcome.escalation, outcome.carried, human


async def test_a_person_is_asked_with_four_options():
    context, carried, human = await escalated("I meant the task.")
    [question] = human.asked
    assert question.options == OPTIONS == context.options
    assert len(OPTIONS) == 4
    assert (question.recommended, context.recommended_action) == (RETRY, RETRY)
    assert "Step 1 of 'Do it.'" in question.text
    assert "No 'x'." in question.text
    assert (context.choice, carried, context.error) == ("I meant the task.", "I meant the task.", "No 'x'.")


async def test_for_an_unclear_goal_more_context_is_recommended():
    context, _, human = await escalated(code=UNCLEAR)
    assert context.recommended_action == human.asked[0].recommended == MORE


async def test_who_wants_to_say_more_is_asked_what():
    context, carried, human = await escalated(MORE, "It is the task.")
    assert len(human.asked) == 2
    assert human.asked[1].options == ()
    assert (context.choice, carried) == ("It is the task.", "It is the task.")
    context, carried, _ = await escalated(MORE)
    assert (context.choice, carried) == (None, ""), "nobody said more"


@pytest.mark.parametrize(
    ("said", "carried"), [(RETRY, RETRY), (f" {RETRY.upper()}\n", RETRY.upper()), (ABORT, ""), (" ABORT ", ""), (SKIP, f"{SKIP}: add a")]
)
async def test_a_choice_to_go_on_is_carried_and_an_end_is_not(said: str, carried: str):
    assert (await escalated(said))[1] == carried


async def test_after_the_last_step_there_is_nothing_to_go_on_with_by_skipping_it():
    last = GOAL.model_copy(update={"todo_list": GOAL.todo_list[:1]})
    assert [(await escalated(SKIP, spec=spec))[1] for spec in (last, None)] == ["", ""]


async def test_with_nobody_there_it_goes_on_unattended():
    outcome = await escalate("Do it.", GOAL, (failure(),), (), None, human=NobodyHere())
    assert (outcome.escalation.choice, outcome.carried) == (None, "")


# answer


async def answered(spec: GoalSpec | None = GOAL, **more: Any) -> str:
    given: dict[str, Any] = {"done": (), "failures": (), "escalation": None, **more}
    return (await answer("Add a and b.", spec, given["done"], given["failures"], given["escalation"])).final_answer


async def test_the_answer_says_what_changed_failed_and_is_left():
    context = EscalateContext(reason="Step 2 does not work out.", error="No 'b'.", choice="abort")
    text = await answered(done=(DONE,), failures=(FIRST,), escalation=context)
    assert "added Task a" in text
    assert "Step 2 does not work out. No 'b'." in text
    assert "You said: abort" in text
    assert "Left to do:\n- add b" in text
    assert "- add a" not in text
    alone = await answered(escalation=context.model_copy(update={"choice": None}), spec=None)
    assert all(f"- {option}" in alone for option in OPTIONS)


async def test_a_failure_on_the_way_is_told_and_nothing_to_do_is_too():
    assert "The first." in await answered(done=(DONE,), failures=(FIRST,))
    assert await answered() == "Nothing had to be changed for 'Add a and b.'."
    same = Done(step=1, call=ADD, result={"changed": 0}, changed=Changed())
    assert await answered(done=(same,)) == "Nothing changed in the graph: it was so already."


async def test_what_was_found_is_a_table_and_a_single_value_is_itself():
    def found(**result: Any) -> Done:
        return Done(step=1, call=ADD, result=result)

    assert await answered(done=(found(columns=["n"], rows=[[3]], more=False),)) == "3"
    assert await answered(done=(found(columns=["n"], rows=[], more=False),)) == "Nothing in the graph is like that."
    assert await answered(done=(found(nodes=[], more=False),)) == "Nothing in the graph is like that."
    table = await answered(done=(found(nodes=[{"label": "T", "key": "a|b\nc", "properties": {"n": 1}}], more=True),))
    assert table.splitlines() == ["| label | key | n |", "| --- | --- | --- |", "| T | a\\|b c | 1 |", "", "... and more"]


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
def test_what_is_not_of_the_type_is_refused(kind: type[BaseModel], data: dict[str, Any]):
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
