"""The question to a person when a goal cannot continue, and how the goal resumes with the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from interlock.capabilities import Human, Question
from interlock.errors import BudgetExceeded
from interlock_agents.puntini.spec import ABORT, MORE, OPTIONS, RETRY, RUN, SKIP, Done, Failure, GoalSpec, Pending, StepPlan, ToolSignature

__all__ = ["UNCLEAR", "Stopped", "ask", "is_abort", "question_of", "resumption"]

UNCLEAR = "goal_unclear"
"""The kind of failure that no other plan can fix."""

_NO = "no"
_ABORTS = frozenset({ABORT, _NO, "cancel", "stop", "never mind", "nevermind", "forget it", "give up"})
_MAX_QUESTIONS = 3  # before an invalid answer ends the goal
_REFERENCES = frozenset({"from_node", "to_node", "target", "match", "near", "node"})
"""Arguments of tools that refer to nodes."""


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Where a goal stopped: the failure, the call that failed, if there was one, and the calls that were to follow."""

    goal: str
    spec: GoalSpec | None
    failure: Failure
    call: ToolSignature | None
    queue: tuple[ToolSignature, ...]
    plan: StepPlan | None
    done: tuple[Done, ...]
    skipped: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether the goal is complete once the queue is empty."""
        return self.plan is None or self.plan.is_final_step

    @property
    def is_budget(self) -> bool:
        """Whether nothing failed, and only the budget of the turn is used up."""
        return self.failure.error_type == BudgetExceeded.code

    @property
    def todo(self) -> list[str]:
        """The actions that are left, the failed one first."""
        items = [] if self.spec is None else [item.description for item in self.spec.todo_list]
        return items[len(self.done) + len(self.skipped) :]

    @property
    def has_others(self) -> bool:
        """Whether the goal has other actions than the one that failed."""
        return bool(self.done or self.queue or len(self.todo) > 1)

    @property
    def action(self) -> str:
        """The action that failed, in words."""
        if self.todo:
            return self.todo[0]
        return "the planned step" if self.call is None else self.call.reasoning or self.call.tool_name

    def pending(self, **fields: Any) -> Pending:
        """Return what the next run resumes with. It starts at once unless `follows` is False."""
        common = {"goal": self.goal, "follows": True, "spec": self.spec, "done": self.done, "skipped": self.skipped}
        return Pending.model_validate(common | fields)

    def retried(self, queue: tuple[ToolSignature, ...], **fields: Any) -> Pending:
        """Return what the next run resumes with if these calls are next."""
        return self.pending(queue=queue, is_complete=self.is_complete, **fields)


def question_of(stopped: Stopped, reason: str) -> Question | None:
    """Return the question for a person; None if there is nothing to choose and nothing to name.

    The four options are offered only for a failure that may pass, such as a store that cannot be reached: only then retrying, skipping
    and giving up differ. A permanent failure (a node that is not in the graph) ends the goal.
    """
    failure, spec = stopped.failure, stopped.spec
    if failure.error_type == UNCLEAR:
        return None if spec is None or spec.reply or not spec.question else Question(text=spec.question, options=tuple(spec.choices))
    if failure.approval:
        return Question(text=f"{failure.message}\n\n{failure.approval}\n\nShall it be run?", options=(RUN, _NO), recommended=_NO)
    if failure.candidates:
        options = tuple(map(_in_words, failure.candidates))
        either = " or ".join([", ".join(options[:-1]), options[-1]])
        return Question(text=f"'{failure.named}' could be {either}. Which one do you mean?", options=options)
    if not failure.transient or not stopped.has_others:
        return None
    return Question(text=f"{reason} {failure.message}", options=OPTIONS, recommended=RETRY)


async def ask(human: Human, question: Question) -> str | None:
    """Ask until the answer is one of the options, at most three times. Return None if no person can be reached.

    After a failed action any other answer is information for the next plan, as is the answer to 'provide more context'.
    """
    text = question.text
    for _ in range(_MAX_QUESTIONS):
        said = await human.ask(Question(text=text, options=question.options, recommended=question.recommended))
        if said is None:
            return None
        choice = question.choice(said)
        if choice == MORE:
            more = await human.ask(Question(text="What should I know?"))
            return None if more is None else more.strip()
        if is_abort(choice or said):
            return ABORT
        if choice is not None or not question.options or question.options == OPTIONS:
            return choice or said.strip()
        text = f"'{said[:100]}' is not one of the answers. {question.text}"
    return ABORT


def is_abort(answer: str) -> bool:
    """Return whether a person gives the goal up."""
    return answer.casefold().strip(" .!") in _ABORTS


def resumption(stopped: Stopped, choice: str) -> Pending | None:
    """Return what the next run resumes with after a person's answer; None if the goal ends."""
    failure, call = stopped.failure, stopped.call
    quoted = f"You said: {choice.rstrip(' .')}."
    if is_abort(choice):
        return None
    if failure.error_type == UNCLEAR:
        return stopped.pending(said=choice, meant=quoted, spec=None)
    if failure.approval and call is not None:
        return stopped.retried((call, *stopped.queue), meant="You approved it.", approved=failure.approval)
    if failure.candidates and call is not None:
        meant = next(one for one in failure.candidates if _in_words(one) == choice)
        queue = tuple(_bound(one, failure.named, meant) for one in (call, *stopped.queue))
        return stopped.retried(queue, said=f"'{failure.named}' means '{meant}'.", meant=f"You mean {choice}.")
    if choice == SKIP:
        if not stopped.queue and (stopped.is_complete or len(stopped.todo) <= 1):
            return None
        return stopped.retried(stopped.queue, said=f"{SKIP}: {stopped.action}", skipped=(*stopped.skipped, stopped.action))
    if choice == RETRY:
        return stopped.pending(said=f"{choice}. What failed before: {failure.message}")
    return stopped.pending(said=choice, meant=quoted)


def _in_words(ref: str) -> str:
    return ref.replace(":", " ", 1)


def _bound(call: ToolSignature, named: str, meant: str) -> ToolSignature:
    """Replace an ambiguous name by the node that is meant, in all arguments that refer to nodes."""
    refers = _REFERENCES | {"key"} if call.tool_name == "query_graph" else _REFERENCES

    def bound(name: str, value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            return {part: bound(part, item) for part, item in value.items()} if name in refers else value
        return meant if name in refers and value == named else value

    return call.model_copy(update={"tool_args": {name: bound(name, value) for name, value in call.tool_args.items()}})
