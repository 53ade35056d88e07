"""The nodes of puntini, in the order of the rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from interlock.capabilities import Clock, Human, Model, Timer, ToolRequest
from interlock.contract import guard
from interlock.errors import BudgetExceeded, CapabilityError, ModelError, ToolInputInvalid
from interlock_agents.prompts import Prompts, decide
from interlock_agents.puntini.asking import UNCLEAR, Stopped, ask, is_abort, question_of, resumption
from interlock_agents.puntini.commands import is_continue, is_same_goal, is_undo, undoing
from interlock_agents.puntini.errors import ApprovalNeeded, MatchAmbiguous
from interlock_agents.puntini.prompt_payloads import goal_payload, planning
from interlock_agents.puntini.report import report
from interlock_agents.puntini.spec import (
    MORE,
    OPTIONS,
    RETRY,
    SKIP,
    Diagnosis,
    Done,
    EscalateContext,
    Failure,
    Finished,
    GoalSpec,
    ParsedGoal,
    Pending,
    StepPlan,
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
    Reported,
    Resumed,
    Retry,
    Routed,
    SimpleGoal,
    StepDone,
    StepFailed,
    StepPlanned,
    Unclear,
)
from interlock_agents.puntini.tool_registry import GraphUndo, ToolCatalogue, ToolRegistry

__all__ = [
    "MAX_RETRIES",
    "MAX_STEPS",
    "UNCLEAR",
    "answer",
    "call_tool",
    "diagnose",
    "escalate",
    "evaluate",
    "is_used_up",
    "kind_of",
    "needs_person",
    "parse_goal",
    "plan_step",
    "route_tool",
]

MAX_RETRIES = 3
"""How often one action may fail before the failure is escalated."""

MAX_STEPS = 80
"""How many actions of a goal one turn performs. The rest follows when the person says 'continue'."""

PAUSE_S = 0.2
"""How long to wait before the same call is repeated."""

_MODEL = (ModelError, BudgetExceeded)
_PERSONS = frozenset({UNCLEAR, BudgetExceeded.code, MatchAmbiguous.code, ApprovalNeeded.code})
"""Failures that a retry cannot fix."""

_PROMPTS = Prompts(Path(__file__).with_name("prompts"))


async def parse_goal(
    goal: str, pending: Pending | None, last: Finished | None, *, model: Model, catalogue: ToolCatalogue
) -> SimpleGoal | ComplexGoal | Resumed | Unclear:
    """Parse the goal with a model, which sees the goal and the names of the tools. Resume an unfinished goal, or undo the last one."""
    goes_on = pending is not None and (is_continue(goal) or is_same_goal(goal, pending.goal))
    if pending is not None and goes_on and pending.spec is not None:
        return _resumed(pending)
    if is_undo(goal) and last is not None:
        spec, queue = undoing(goal, last)
        return ComplexGoal(goal=goal, goal_spec=spec, queue=queue, person="", meant=f"Undone: '{last.goal}'.")
    if (is_undo(goal) or is_continue(goal)) and not goes_on:
        why = "There is nothing to undo." if is_undo(goal) else "There is nothing to go on with: the last goal is done."
        return Unclear(goal_spec=None, failures=(_unclear(why),), retry_count=1, person="")
    goal, said, meant = (pending.goal, pending.said, pending.meant) if pending is not None and goes_on else (goal, "", "")
    names = await catalogue.names()
    try:
        parsed = (await decide(model, _PROMPTS.asked(goal_payload(goal, said, names), "goal"), ParsedGoal)).value
    except _MODEL as error:
        return Unclear(goal_spec=None, failures=(_failed("parse_goal", error, 0),), retry_count=1, person=said)
    if parsed.goal.requires_human_input or parsed.goal.reply:
        why = parsed.goal.reply or " ".join(parsed.goal.parsing_notes) or parsed.goal.question or "It needs to be said more clearly."
        return Unclear(goal_spec=parsed.goal, failures=(_unclear(why),), retry_count=1, person=said)
    if parsed.goal.is_simple and parsed.tool is not None and not parsed.then:
        return SimpleGoal(goal=goal, goal_spec=parsed.goal, tool_signature=parsed.tool, person=said, meant=meant)
    queue = () if parsed.tool is None or not parsed.then else (parsed.tool, *parsed.then)
    return ComplexGoal(goal=goal, goal_spec=parsed.goal, queue=queue, person=said, meant=meant)


async def plan_step(
    goal: str,
    goal_spec: GoalSpec | None,
    person: str,
    step_plan: StepPlan | None,
    tool_signature: ToolSignature | None,
    queue: tuple[ToolSignature, ...],
    skipped: tuple[str, ...],
    steps: int,
    done: tuple[Done, ...],
    failures: tuple[Failure, ...],
    retry_count: int,
    remedy: Remedy,
    *,
    model: Model,
    catalogue: ToolCatalogue,
) -> StepPlanned | NotPlanned:
    """Take the next call from the queue, or let the model plan it. A transient failure repeats its call."""
    is_final = step_plan is None or step_plan.is_final_step
    if remedy == "repeat" and tool_signature is not None:
        again = step_plan or StepPlan(step_number=steps + 1, tool_signature=tool_signature, is_final_step=True)
        return StepPlanned(step_plan=again, tool_signature=tool_signature, queue=queue)
    if remedy == "none" and queue:
        following = StepPlan(step_number=steps + 1, tool_signature=queue[0], is_final_step=is_final)
        return StepPlanned(step_plan=following, tool_signature=queue[0], queue=queue[1:])
    names = await catalogue.names()
    past = steps + len(skipped)
    payload = planning(goal, goal_spec, names, person=person, steps=past, done=done, failures=failures, attempt=retry_count + 1)
    try:
        plan = (await decide(model, _PROMPTS.asked(payload, "step"), StepPlan)).value
    except _MODEL as error:
        return NotPlanned(failures=(_failed("plan_step", error, steps),), retry_count=retry_count + 1)
    return StepPlanned(step_plan=plan, tool_signature=plan.tool_signature, queue=tuple(plan.then))


async def route_tool(tool_signature: ToolSignature | None, steps: int, retry_count: int, *, catalogue: ToolCatalogue) -> Routed | Refused:
    """Validate the call: the tool exists, and the arguments match its schema."""
    wanted = tool_signature or ToolSignature(tool_name="")
    wrong = await catalogue.check(ToolRequest(tool=wanted.tool_name, args=wanted.tool_args))
    if wrong is None:
        return Routed()
    failure = Failure(node="route_tool", step=steps, tool=wanted.tool_name, error_type=ToolInputInvalid.code, message=wrong)
    return Refused(failures=(failure,), retry_count=retry_count + 1)


async def call_tool(
    session_id: str,
    tool_signature: ToolSignature | None,
    approved: str,
    steps: int,
    retry_count: int,
    *,
    registry: ToolRegistry,
    clock: Clock,
) -> Called | NotCalled:
    """Call the tool, in one transaction."""
    wanted = tool_signature or ToolSignature(tool_name="")
    begun = await clock.now()
    came = await registry.call(session_id, ToolRequest(tool=wanted.tool_name, args=wanted.tool_args), approved=approved)
    took = (await clock.now() - begun).total_seconds()
    result = ToolResult(
        tool_name=wanted.tool_name,
        status="success" if came.error is None else "error",
        result=came.result,
        error=came.error,
        error_type=came.code,
        execution_time=took,
        named=came.named,
        candidates=came.candidates,
        approval=came.approval,
    )
    if came.transient:
        failure = _failure_of("call_tool", result, steps, transient=True)
        return NotCalled(tool_result=result, failures=(failure,), retry_count=retry_count + 1)
    if came.error is not None:
        return Called(tool_result=result, done=(), steps=steps)
    action = Done(step=steps + 1, call=wanted, result=came.result, changed=came.changed)
    return Called(tool_result=result, done=(action,), steps=steps + 1)


async def evaluate(
    tool_result: ToolResult | None,
    step_plan: StepPlan | None,
    queue: tuple[ToolSignature, ...],
    steps: int,
    begun: int,
    retry_count: int,
) -> StepDone | Complete | StepFailed | Exhausted:
    """Decide from the tool's result whether the goal is complete, continues, or failed."""
    if tool_result is not None and tool_result.status == "success":
        if not queue and (step_plan is None or step_plan.is_final_step):
            return Complete()
        if not is_used_up(steps, begun):
            return StepDone()
        message = f"One turn does {MAX_STEPS} steps of a goal."
        failure = Failure(node="evaluate", step=steps, tool="", error_type=BudgetExceeded.code, message=message)
        return Exhausted(failures=(failure,), retry_count=retry_count)
    failure = _failure_of("evaluate", tool_result or ToolResult(tool_name="", status="error"), steps)
    if retry_count + 1 >= MAX_RETRIES:
        return Exhausted(failures=(failure,), retry_count=retry_count + 1)
    return StepFailed(failures=(failure,), retry_count=retry_count + 1)


@guard
def is_used_up(steps: int, begun: int) -> bool:
    """Return whether this turn has performed as many actions as one turn may."""
    return steps - begun >= MAX_STEPS


@guard
def kind_of(failures: tuple[Failure, ...]) -> Literal["identical", "systematic", "random"]:
    """Return whether the last failure happened before at the same action, may pass, or neither."""
    last = failures[-1]
    if any(one.step == last.step and signature_of(one) == signature_of(last) for one in failures[:-1]):
        return "identical"
    return "random" if last.transient else "systematic"


@guard
def needs_person(failures: tuple[Failure, ...]) -> bool:
    """Return whether a retry cannot fix the last failure."""
    return failures[-1].error_type in _PERSONS


async def diagnose(failures: tuple[Failure, ...], retry_count: int, *, timer: Timer) -> Retry | GiveUp:
    """Classify the last failure by its signature, without a model."""
    last = failures[-1]
    signature = signature_of(last)
    kind = kind_of(failures)
    if kind == "identical" or needs_person(failures) or retry_count >= MAX_RETRIES:
        return GiveUp(diagnosis=Diagnosis(kind=kind, signature=signature, remedy="escalate"))
    if kind == "random":
        await timer.sleep(PAUSE_S)
    # Without a tool it was the model that failed, and planning again calls it again.
    remedy = "repeat" if kind == "random" and last.tool else "replan"
    return Retry(diagnosis=Diagnosis(kind=kind, signature=signature, remedy=remedy), remedy=remedy)


async def escalate(
    session_id: str,
    goal: str,
    goal_spec: GoalSpec | None,
    failures: tuple[Failure, ...],
    tool_signature: ToolSignature | None,
    queue: tuple[ToolSignature, ...],
    step_plan: StepPlan | None,
    skipped: tuple[str, ...],
    done: tuple[Done, ...],
    diagnosis: Diagnosis | None,
    *,
    human: Human,
    undo: GraphUndo,
) -> Escalated:
    """Ask a person what to do, if there is a choice and a person can be reached. Undo what an abandoned goal has changed."""
    last = failures[-1]
    call = tool_signature if last.tool and last.node != "plan_step" else None
    stopped = Stopped(goal=goal, spec=goal_spec, failure=last, call=call, queue=queue, plan=step_plan, done=done, skipped=skipped)
    reason = _reason(stopped, diagnosis)
    question = question_of(stopped, reason)
    choice = None if question is None else await ask(human, question)
    pending = resumption(stopped, choice) if choice is not None else None
    if stopped.is_budget and goal_spec is not None:
        pending = stopped.pending(follows=False, queue=queue, is_complete=stopped.is_complete)
    given_up = pending is None and (choice is None or is_abort(choice))
    changes = tuple(one.changed for one in done if one.changed is not None and one.changed.count) if given_up else ()
    undone = await undo.take_back(session_id, changes) if changes else None
    context = EscalateContext(
        reason=reason,
        error=last.message,
        options=OPTIONS if question is None else question.options,
        recommended_action=MORE if last.error_type == UNCLEAR else RETRY,
        was_asked=question is not None,
        choice=choice,
        taken_back=undone is not None and undone.error is None,
        stays="" if undone is None else undone.error or "",
        left_out=stopped.action if pending is None and choice == SKIP else "",
        goes_on=pending is not None,
    )
    return Escalated(escalation=context, pending=pending)


async def answer(
    goal: str,
    goal_spec: GoalSpec | None,
    meant: str,
    skipped: tuple[str, ...],
    done: tuple[Done, ...],
    failures: tuple[Failure, ...],
    escalation: EscalateContext | None,
    last: Finished | None,
) -> Reported:
    """Report what was done, what changed, what failed and why, and what is left."""
    text = report(goal, goal_spec, meant=meant, skipped=skipped, done=done, failures=failures, escalation=escalation)
    changes = tuple(one.changed for one in done if one.changed is not None and one.changed.count)
    is_taken_back = escalation is not None and escalation.taken_back
    return Reported(final_answer=text, last=Finished(goal=goal, changes=changes) if changes and not is_taken_back else last)


def signature_of(failure: Failure) -> tuple[str, str, str]:
    """Return what identifies a repeated failure: its tool, its code, and its message without quoted names and numbers."""
    # The lookarounds keep the apostrophe inside a word from opening a quote.
    message = re.sub(r"(?s)(?<!\w)'.*?'(?!\w)|\".*?\"", "'…'", failure.message.casefold())
    return failure.tool, failure.error_type, re.sub(r"\d+", "0", message)[:200]


def _resumed(pending: Pending) -> Resumed:
    """Resume a goal after its completed actions, with the calls that are still queued."""
    steps = len(pending.done)
    planned = pending.queue[0] if pending.queue else None
    ahead = None if planned is None else StepPlan(step_number=steps + 1, tool_signature=planned, is_final_step=pending.is_complete)
    return Resumed(
        goal=pending.goal,
        goal_spec=pending.spec,
        step_plan=ahead,
        queue=pending.queue,
        skipped=pending.skipped,
        done=pending.done,
        steps=steps,
        begun=steps,
        person=pending.said,
        meant=pending.meant,
        approved=pending.approved,
    )


def _unclear(why: str) -> Failure:
    return Failure(node="parse_goal", step=0, tool="", error_type=UNCLEAR, message=why)


def _failed(node: str, error: ModelError | BudgetExceeded, step: int) -> Failure:
    is_transient = isinstance(error, CapabilityError) and error.transient
    return Failure(node=node, step=step, tool="", error_type=error.code, message=error.message, transient=is_transient)


def _failure_of(node: str, result: ToolResult, step: int, *, transient: bool = False) -> Failure:
    return Failure(
        node=node,
        step=step,
        tool=result.tool_name,
        error_type=result.error_type or "tool_failed",
        message=result.error or "It failed without a reason.",
        transient=transient,
        named=result.named,
        candidates=result.candidates,
        approval=result.approval,
    )


def _reason(stopped: Stopped, diagnosis: Diagnosis | None) -> str:
    """Say in one sentence why the goal stopped."""
    if stopped.failure.error_type == UNCLEAR:
        return ""
    if stopped.is_budget:
        return f"'{stopped.goal}' is not done yet."
    if not stopped.has_others:
        return "I could not do it."
    number = len(stopped.done) + len(stopped.skipped) + 1
    return f"I could not do step {number} of '{stopped.goal}'{_kind(diagnosis, stopped.failure)}."


def _kind(diagnosis: Diagnosis | None, last: Failure) -> str:
    if diagnosis is None or diagnosis.signature != signature_of(last):
        return f" in {MAX_RETRIES} attempts"
    return " in two attempts" if diagnosis.kind == "identical" else ""
