# type: ignore - the comparison has the type checker find these mistakes, and looks past this line
"""The same small agent in Interlock, right once and then with one mistake at a time. Each function builds it and returns its run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from interlock import END, Graph, Interlock, Outcome, Settings, Untrusted, node
from interlock_agents.sam.capabilities import ModelBackend, ModelRequest, ModelResponse

Run = Callable[[], Awaitable[object]]


@dataclass
class State:
    question: Annotated[str, Untrusted]
    answer: Annotated[str, Untrusted]
    reply: Annotated[str, Untrusted]


class Answered(Outcome):
    answer: str


class Refused(Outcome): ...


class Replied(Outcome):
    reply: str


class Again(Outcome): ...


class TurnEnded(Exception):
    """A turn ended in an error."""


class Instant:
    async def generate(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse(status="success", output="yes", metadata={"backend": "instant", "trace_id": request.trace_id})


borrowed: list[ModelBackend] = []


async def ask(question: str, *, model: ModelBackend) -> Answered:
    borrowed[:] = [model]
    return Answered(answer=(await model.generate(ModelRequest(prompt=question))).output or "")


async def quote(answer: str) -> Replied:
    return Replied(reply=f"It says: {answer}")


def running(graph: Graph) -> Run:
    app = Interlock(Settings.model_validate({"engine": "direct"}), grants={ModelBackend: Instant()})

    async def run() -> object:
        result = await app.run(graph, "Is it so?")
        if result.error is not None:
            raise TurnEnded(f"{result.error.code}: {result.error.message}")
        return result.state

    return run


def no_mistake() -> Run:
    rows = [node(ask, goes={Answered: quote}), node(quote, goes={Replied: END})]
    return running(Graph("small", state=State, entry=ask, nodes=rows, takes=["question"]))


def wrong_type() -> Run:
    async def ask_wrongly(question: str) -> Answered:
        return Answered(answer=len(question))

    rows = [node(ask_wrongly, goes={Answered: quote}), node(quote, goes={Replied: END})]
    return running(Graph("small", state=State, entry=ask_wrongly, nodes=rows, takes=["question"]))


def leads_nowhere() -> Run:
    async def ask_or_refuse(question: str) -> Answered | Refused:
        return Refused() if question else Answered(answer="yes")

    rows = [node(ask_or_refuse, goes={Answered: quote}), node(quote, goes={Replied: END})]
    return running(Graph("small", state=State, entry=ask_or_refuse, nodes=rows, takes=["question"]))


def no_such_field() -> Run:
    async def quote_wrongly(anwser: str) -> Replied:
        return Replied(reply=anwser)

    rows = [node(ask, goes={Answered: quote_wrongly}), node(quote_wrongly, goes={Replied: END})]
    return running(Graph("small", state=State, entry=ask, nodes=rows, takes=["question"]))


def undeclared_write() -> Run:
    async def quote_and_change(answer: str) -> Replied:
        return Answered(answer=answer.upper())

    rows = [node(ask, goes={Answered: quote_and_change}), node(quote_and_change, goes={Replied: END})]
    return running(Graph("small", state=State, entry=ask, nodes=rows, takes=["question"]))


def borrowed_model() -> Run:
    async def quote_and_ask(answer: str) -> Replied:
        return Replied(reply=(await borrowed[0].generate(ModelRequest(prompt=answer))).output or "")

    rows = [node(ask, goes={Answered: quote_and_ask}), node(quote_and_ask, goes={Replied: END})]
    return running(Graph("small", state=State, entry=ask, nodes=rows, takes=["question"]))


def never_reached() -> Run:
    async def apologise() -> Replied:
        return Replied(reply="Sorry.")

    rows = [node(ask, goes={Answered: quote}), node(quote, goes={Replied: END}), node(apologise, goes={Replied: END})]
    return running(Graph("small", state=State, entry=ask, nodes=rows, takes=["question"]))


def endless() -> Run:
    steps = 0

    async def quote_again(answer: str) -> Again | Replied:
        nonlocal steps
        steps += 1
        return Replied(reply=answer) if steps == ENOUGH else Again()

    rows = [node(ask, goes={Answered: quote_again}), node(quote_again, goes={Again: ask, Replied: END})]
    return running(Graph("small", state=State, entry=ask, nodes=rows, takes=["question"]))


ENOUGH = 5_500
MISTAKES = (no_mistake, wrong_type, leads_nowhere, no_such_field, undeclared_write, borrowed_model, never_reached, endless)
