"""The nodes of puntini, in the order of the rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from interlock.agents.prompts import Prompts, decide
from interlock.agents.puntini.report import report
from interlock.agents.puntini.spec import (
    ABORT,
    MORE,
    OPTIONS,
    RETRY,
    SKIP,
    Diagnosis,
    Done,
    EscalateContext,
    Failure,
    GoalSpec,
    ParsedGoal,
    StepPlan,
    ToolResult,
    ToolSignature,
)
from interlock.agents.puntini.state import (
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
    Reported,
    Retry,
    Routed,
    SimpleGoal,
    StepDone,
    StepFailed,
    StepPlanned,
    Unclear,
)
from interlock.agents.puntini.told import planning, told_goal, told_step
from interlock.capabilities import Clock, Human, Model, Patience, Question, ToolRequest
from interlock.capabilities.registry import ToolCatalogue, ToolRegistry
from interlock.errors import ModelOutputInvalid, ModelTimeout, ModelUnavailable, ToolInputInvalid

__all__ = ["MAX_RETRIES", "answer", "call_tool", "diagnose", "escalate", "evaluate", "parse_goal", "plan_step", "route_tool"]

MAX_RETRIES = 3
"""How often one step may fail before a person is asked."""

PAUSE_S = 0.2
"""How long to wait before the same call is made again."""

UNCLEAR = "goal_unclear"
"""The kind of failure that only a person can do something about."""

_MODEL = (ModelOutputInvalid, ModelTimeout, ModelUnavailable)
_PROMPTS = Prompts(Path(__file__).with_name("prompts"))


async def parse_goal(goal: str, carried: str, *, model: Model, catalogue: ToolCatalogue) -> SimpleGoal | ComplexGoal | Unclear:
    """Understand what is wanted; the model sees the goal and the names of the tools."""
    names = await catalogue.names()
    try:
        parsed = (await decide(model, _PROMPTS.asked(told_goal(goal, carried, names), "goal"), ParsedGoal)).value
    except _MODEL as error:
        failure = Failure(node="parse_goal", step=0, tool="", error_type=error.code, message=error.message, transient=error.transient)
        return Unclear(goal_spec=None, failures=(failure,), retry_count=1, person=carried)
    if parsed.goal.requires_human_input or parsed.goal.reply:
        why = parsed.goal.reply or " ".join(parsed.goal.parsing_notes) or "It needs to be said more clearly."
        failure = Failure(node="parse_goal", step=0, tool="", error_type=UNCLEAR, message=why)
        return Unclear(goal_spec=parsed.goal, failures=(failure,), retry_count=1, person=carried)
    if parsed.goal.is_simple and parsed.tool is not None:
        return SimpleGoal(goal_spec=parsed.goal, tool_signature=parsed.tool, person=carried)
    return ComplexGoal(goal_spec=parsed.goal, person=carried)


async def plan_step(
    goal: str,
    goal_spec: GoalSpec | None,
    person: str,
    step_plan: StepPlan | None,
    tool_signature: ToolSignature | None,
    steps: int,
    told: tuple[str, ...],
    failures: tuple[Failure, ...],
    retry_count: int,
    remedy: Remedy,
    *,
    model: Model,
    catalogue: ToolCatalogue,
) -> StepPlanned | NotPlanned:
    """Plan the next step; the model sees more with every attempt. A call that failed by chance is planned again as it was."""
    if remedy == "repeat" and tool_signature is not None:
        again = step_plan or StepPlan(step_number=steps + 1, tool_signature=tool_signature, is_final_step=True)
        return StepPlanned(step_plan=again, tool_signature=tool_signature)
    names = await catalogue.names()
    payload = planning(goal, goal_spec, names, person=person, steps=steps, done=told, failures=failures, attempt=retry_count + 1)
    try:
        plan = (await decide(model, _PROMPTS.asked(payload, "step"), StepPlan)).value
    except _MODEL as error:
        failure = Failure(node="plan_step", step=steps, tool="", error_type=error.code, message=error.message, transient=error.transient)
        return NotPlanned(failures=(failure,), retry_count=retry_count + 1)
    return StepPlanned(step_plan=plan, tool_signature=plan.tool_signature)


async def route_tool(tool_signature: ToolSignature | None, steps: int, retry_count: int, *, catalogue: ToolCatalogue) -> Routed | Refused:
    """Let a call through if there is such a tool and it takes such arguments."""
    wanted = tool_signature or ToolSignature(tool_name="")
    wrong = await catalogue.check(ToolRequest(tool=wanted.tool_name, args=wanted.tool_args))
    if wrong is None:
        return Routed()
    failure = Failure(node="route_tool", step=steps, tool=wanted.tool_name, error_type=ToolInputInvalid.code, message=wrong)
    return Refused(failures=(failure,), retry_count=retry_count + 1)


async def call_tool(
    session_id: str,
    tool_signature: ToolSignature | None,
    steps: int,
    retry_count: int,
    *,
    registry: ToolRegistry,
    clock: Clock,
) -> Called | NotCalled:
    """Call the tool, as one transaction."""
    wanted = tool_signature or ToolSignature(tool_name="")
    begun = await clock.now()
    came = await registry.call(session_id, ToolRequest(tool=wanted.tool_name, args=wanted.tool_args))
    took = (await clock.now() - begun).total_seconds()
    result = ToolResult(
        tool_name=wanted.tool_name,
        status="success" if came.error is None else "error",
        result=came.result,
        error=came.error,
        error_type=came.code,
        execution_time=took,
    )
    if came.transient:
        failure = _failure_of("call_tool", result, steps, transient=True)
        return NotCalled(tool_result=result, failures=(failure,), retry_count=retry_count + 1)
    if came.error is not None:
        return Called(tool_result=result, done=(), steps=steps, told=())
    step = Done(step=steps + 1, call=wanted, result=came.result, changed=came.changed)
    return Called(tool_result=result, done=(step,), steps=steps + 1, told=(told_step(wanted, came.result),))


async def evaluate(
    tool_result: ToolResult | None, step_plan: StepPlan | None, steps: int, retry_count: int
) -> StepDone | Complete | StepFailed | Exhausted:
    """Look at what came of a step."""
    if tool_result is not None and tool_result.status == "success":
        return Complete() if step_plan is None or step_plan.is_final_step else StepDone()
    failure = _failure_of("evaluate", tool_result or ToolResult(tool_name="", status="error"), steps)
    if retry_count + 1 >= MAX_RETRIES:
        return Exhausted(failures=(failure,), retry_count=retry_count + 1)
    return StepFailed(failures=(failure,), retry_count=retry_count + 1)


async def diagnose(failures: tuple[Failure, ...], retry_count: int, *, patience: Patience) -> Retry | GiveUp:
    """Find out of what kind the last failure is: by its signature, without a model."""
    last = failures[-1]
    signature = signature_of(last)
    alike = [one for one in failures[:-1] if one.step == last.step and signature_of(one) == signature]
    kind = "identical" if alike else "random" if last.transient else "systematic"
    if alike or last.error_type == UNCLEAR or retry_count >= MAX_RETRIES:
        return GiveUp(diagnosis=Diagnosis(kind=kind, signature=signature, remedy="escalate"))
    if kind == "random":
        await patience.wait(PAUSE_S)
    remedy = "repeat" if kind == "random" and last.tool else "replan"  # a model that was not there is asked again by planning
    return Retry(diagnosis=Diagnosis(kind=kind, signature=signature, remedy=remedy), remedy=remedy)


async def escalate(
    goal: str,
    goal_spec: GoalSpec | None,
    failures: tuple[Failure, ...],
    done: tuple[Done, ...],
    diagnosis: Diagnosis | None,
    *,
    human: Human,
) -> Escalated:
    """Ask a person what to do, where one can be asked, and go on unattended where none can."""
    last = failures[-1]
    unclear = last.error_type == UNCLEAR
    reason = (
        f"'{goal}' cannot be done as it is."
        if unclear
        else f"Step {len(done) + 1} of '{goal}' does not work out ({_kind(diagnosis, last)})."
    )
    recommended = MORE if unclear else RETRY
    question = Question(text=f"{reason} {last.message}", options=OPTIONS, recommended=recommended)
    # A reply is the whole answer: whatever is typed next is a new goal.
    has_reply = goal_spec is not None and bool(goal_spec.reply)
    choice = None if has_reply else await human.ask(question)
    if choice is not None and choice.strip().casefold() == MORE:
        choice = await human.ask(Question(text="What should I know?"))
    context = EscalateContext(reason=reason, error=last.message, recommended_action=recommended, choice=choice)
    todo = [] if goal_spec is None else [item.description for item in goal_spec.todo_list]
    return Escalated(escalation=context, carried=_carried(choice, todo[len(done) :]))


async def answer(
    goal: str,
    goal_spec: GoalSpec | None,
    done: tuple[Done, ...],
    failures: tuple[Failure, ...],
    escalation: EscalateContext | None,
) -> Reported:
    """Report what was asked, what was done, what changed, what failed and why, what is left."""
    return Reported(final_answer=report(goal, goal_spec, done=done, failures=failures, escalation=escalation))


def signature_of(failure: Failure) -> tuple[str, str, str]:
    """Return what two failures have in common that are the same one again: names and numbers in the message are not part of it."""
    message = re.sub(r"(?s)(?<!\w)'.*?'(?!\w)|\".*?\"", "'…'", failure.message.casefold())  # not the apostrophe of a word
    return failure.tool, failure.error_type, re.sub(r"\d+", "0", message)[:200]


def _failure_of(node: str, result: ToolResult, step: int, *, transient: bool = False) -> Failure:
    return Failure(
        node=node,
        step=step,
        tool=result.tool_name,
        error_type=result.error_type or "tool_failed",
        message=result.error or "It failed without a reason.",
        transient=transient,
    )


def _kind(diagnosis: Diagnosis | None, last: Failure) -> str:
    if diagnosis is None or diagnosis.signature != signature_of(last):
        return "too often"
    return {"identical": "the same error again", "random": "not now"}.get(diagnosis.kind, diagnosis.kind)


def _carried(choice: str | None, left: Sequence[str]) -> str:
    """Keep a choice for the next turn, if it is about going on: what is to be skipped by what it is."""
    said = (choice or "").strip()
    if said.casefold() == ABORT:
        return ""
    if said.casefold() == SKIP:
        return f"{SKIP}: {left[0]}" if len(left) > 1 else ""
    return said
