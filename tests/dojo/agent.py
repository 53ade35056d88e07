"""An agent that plans before it reads anything, and then acts: its tools have policies, and a person approves what they refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, JsonValue

from interlock import END, Graph, Outcome, Trusted, Untrusted, node
from interlock.capabilities import Human, Message, Model, ToolGateway, ToolRequest, approval_question
from interlock.capabilities.tools import APPROVE

WHO = "assistant"
LEFT_OUT = "[left out: it repeats a text from outside]"

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_REPEATED = 10  # so many words in a row of a text from outside are a quotation


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Call(_Said):
    """A tool call, with the arguments that are known."""

    tool: str
    args: dict[str, JsonValue]


class Plan(_Said):
    """The calls that the task will need, as far as that can be said before anything is read."""

    calls: list[Call]


class Step(_Said):
    """The next call, or the answer."""

    call: Call | None = None
    answer: str = ""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A tool call and what came back."""

    tool: str
    args: dict[str, JsonValue]
    said: str
    code: str | None


@dataclass
class State:
    task: Annotated[str, Untrusted]
    quotes: Annotated[bool, Trusted]
    plan: Annotated[str, Untrusted]
    wanted: Annotated[ToolRequest, Untrusted]
    exchanges: Annotated[tuple[Exchange, ...], Untrusted]
    answer: Annotated[str, Untrusted]


class Planned(Outcome):
    plan: str
    exchanges: tuple[Exchange, ...]


class Chosen(Outcome):
    wanted: ToolRequest


class Answered(Outcome):
    answer: str


class Used(Outcome):
    exchanges: tuple[Exchange, ...]


async def plan_task(task: str, *, model: Model) -> Planned:
    """Plan the calls before anything from outside is read."""
    made = await model.decide([Message(role="user", text=task)], schema=Plan)
    return Planned(plan=made.value.model_dump_json(), exchanges=())


async def choose(task: str, plan: str, exchanges: tuple[Exchange, ...], quotes: bool, *, model: Model) -> Chosen | Answered:  # noqa: FBT001 - a field
    """Choose the next call, or answer. The model sees what the tools returned."""
    seen = json.dumps([vars(one) for one in exchanges])
    decided = await model.decide(
        [Message(role="user", text=task), Message(role="user", text=plan), Message(role="user", text=seen)], schema=Step
    )
    step = decided.value
    if step.call is not None:
        return Chosen(wanted=ToolRequest(tool=step.call.tool, args=step.call.args))
    return Answered(answer=step.answer if quotes else without_quotations(step.answer, [one.said for one in exchanges]))


async def use(wanted: ToolRequest, exchanges: tuple[Exchange, ...], *, tools: ToolGateway, human: Human) -> Used:
    """Make a call. Where its policy refuses it, ask a person about exactly this call."""
    made = await tools.run(WHO, wanted)
    if made.code == "untrusted_argument":
        question = approval_question(wanted)
        said = await human.ask(question)
        if said is not None and question.choice(said) == APPROVE:
            made = await tools.run(WHO, wanted)
    said = made.error if made.error is not None else str(made.result)
    return Used(exchanges=(*exchanges, Exchange(tool=wanted.tool, args=wanted.args, said=said, code=made.code)))


def without_quotations(answer: str, texts: Iterable[str]) -> str:
    """Leave out the sentences that repeat many words in a row of a text from outside: that text may have asked to be repeated."""
    read = [" ".join(_words(text)) for text in texts]
    return " ".join(LEFT_OUT if _repeats(sentence, read) else sentence for sentence in _SENTENCE.split(answer))


def _repeats(sentence: str, read: list[str]) -> bool:
    words = _words(sentence)
    runs = [" ".join(words[at : at + _REPEATED]) for at in range(len(words) - _REPEATED + 1)]
    return any(run in text for run in runs for text in read)


def _words(text: str) -> list[str]:
    return [word.strip(".,;:!?'\"") for word in text.casefold().split()]


GRAPH = Graph(
    "assistant",
    state=State,
    entry=plan_task,
    takes=("task", "quotes"),
    gives="answer",
    max_steps=200,
    nodes=[
        node(plan_task, goes={Planned: choose}),
        node(choose, goes={Chosen: use, Answered: END}),
        node(use, goes={Used: choose}),
    ],
)
