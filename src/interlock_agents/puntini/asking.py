"""What a person is asked when a goal cannot go on by itself, and how the goal goes on with the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from interlock.capabilities import Human, Question
from interlock.errors import BudgetExceeded
from interlock_agents.puntini.spec import ABORT, MORE, OPTIONS, RETRY, RUN, SKIP, Done, Failure, GoalSpec, Pending, StepPlan, ToolSignature

__all__ = ["UNCLEAR", "Stopped", "ask", "is_abort", "question_of", "resumption"]

UNCLEAR = "goal_unclear"
"""The kind of failure that no other plan can help."""

_NO = "no"
_ABORTS = frozenset({ABORT, _NO, "cancel", "stop", "never mind", "nevermind", "forget it", "give up"})
_ASKED = 3  # times, before an answer that is none of the options ends the goal
_REFERENCES = frozenset({"from_node", "to_node", "target", "match", "near", "node"})
"""Arguments of tools that refer to nodes."""


@dataclass(frozen=True, kw_only=True)
class Stopped:
    """Where a goal stopped: the failure, the call that failed, if there was one, and what was to follow."""

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
        """Whether the goal is done when the queue is."""
        return self.plan is None or self.plan.is_final_step

    @property
    def is_budget(self) -> bool:
        """Whether nothing is wrong, and the turn has only used up what it may."""
        return self.failure.error_type == BudgetExceeded.code

    @property
    def todo(self) -> list[str]:
        """What is left to do, the step that failed first."""
        items = [] if self.spec is None else [item.description for item in self.spec.todo_list]
        return items[len(self.done) + len(self.skipped) :]

    @property
    def has_others(self) -> bool:
        """Whether there are other steps than the one that failed."""
        return bool(self.done or self.queue or len(self.todo) > 1)

    @property
    def step(self) -> str:
        """Name the step that failed."""
        if self.todo:
            return self.todo[0]
        return "the planned step" if self.call is None else self.call.reasoning or self.call.tool_name

    def pending(
        self,
        *,
        follows: bool = True,
        said: str = "",
        meant: str = "",
        queue: tuple[ToolSignature, ...] = (),
        is_complete: bool = False,
        skipped: tuple[str, ...] = (),
        approved: str = "",
    ) -> Pending:
        """Make what the next run goes on with."""
        return Pending(
            goal=self.goal,
            follows=follows,
            said=said,
            meant=meant,
            spec=self.spec,
            done=self.done,
            queue=queue,
            is_complete=is_complete,
            skipped=(*self.skipped, *skipped),
            approved=approved,
        )


def question_of(stopped: Stopped, reason: str) -> Question | None:
    """Return the question for a person; None if there is nothing to choose and nothing to name.

    The four options are offered only for a failure that may pass, such as a store that cannot be reached: then trying again, leaving
    the step out and giving up are different things. What fails for good (a node that is not in the graph) ends the goal.
    """
    failure, spec = stopped.failure, stopped.spec
    if failure.error_type == UNCLEAR:
        return None if spec is None or spec.reply or not spec.question else Question(text=spec.question, options=tuple(spec.choices))
    if failure.approval:
        return Question(text=f"{failure.message}\n\n{failure.approval}\n\nShall it be run?", options=(RUN, _NO), recommended=_NO)
    if failure.candidates:
        options = tuple(_spoken(one) for one in failure.candidates)
        return Question(text=f"'{failure.named}' could be {_either(options)}. Which one do you mean?", options=options)
    if not failure.transient or not stopped.has_others:
        return None
    return Question(text=f"{reason} {failure.message}", options=OPTIONS, recommended=RETRY)


async def ask(human: Human, question: Question) -> str | None:
    """Ask until the answer is one of the options, or not more than three times. Return None if no person can be reached.

    Where a step failed, an answer that is no option is what the person wants to be known; so is the answer to 'provide more context'.
    """
    text = question.text
    for _ in range(_ASKED):
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
        text = f"'{said[:100]}' is none of the answers. {question.text}"
    return ABORT


def is_abort(said: str) -> bool:
    """Return whether a person gives the goal up."""
    return said.casefold().strip(" .!") in _ABORTS


def resumption(stopped: Stopped, choice: str) -> Pending | None:
    """Make what the goal goes on with after a person's answer; None where it does not go on."""
    failure = stopped.failure
    if is_abort(choice):
        return None
    if failure.error_type == UNCLEAR:
        return stopped.pending(said=choice, meant=f"You said: {choice.rstrip(' .')}.").model_copy(update={"spec": None})
    if failure.approval and stopped.call is not None:
        return stopped.pending(
            meant="You approved it.", queue=(stopped.call, *stopped.queue), is_complete=stopped.is_complete, approved=failure.approval
        )
    if failure.candidates and stopped.call is not None:
        meant = next(one for one in failure.candidates if _spoken(one) == choice)
        queue = tuple(_bound(call, failure.named, meant) for call in (stopped.call, *stopped.queue))
        said = f"'{failure.named}' means '{meant}'."
        return stopped.pending(said=said, meant=f"You mean {choice}.", queue=queue, is_complete=stopped.is_complete)
    if choice == SKIP:
        if not stopped.queue and (stopped.is_complete or len(stopped.todo) <= 1):
            return None
        said, step = f"{SKIP}: {stopped.step}", stopped.step
        return stopped.pending(said=said, queue=stopped.queue, is_complete=stopped.is_complete, skipped=(step,))
    said = f"{choice}. What failed before: {failure.message}" if choice == RETRY else choice
    return stopped.pending(said=said, meant="" if choice == RETRY else f"You said: {choice.rstrip(' .')}.")


def _spoken(ref: str) -> str:
    return ref.replace(":", " ", 1)


def _either(options: Sequence[str]) -> str:
    return " or ".join([", ".join(options[:-1]), options[-1]])


def _bound(call: ToolSignature, named: str, meant: str) -> ToolSignature:
    """Put the node that is meant in the place of its name, wherever a call refers to a node."""
    refers = _REFERENCES | {"key"} if call.tool_name == "query_graph" else _REFERENCES

    def bound(name: str, value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            return {part: bound(part, item) for part, item in value.items()} if name in refers else value
        return meant if name in refers and value == named else value

    return call.model_copy(update={"tool_args": {name: bound(name, value) for name, value in call.tool_args.items()}})
