# type: ignore - the comparison has the type checker find these mistakes, and looks past this line
"""The same small agent in LangGraph, right once and then with one mistake at a time. Each function builds it and returns its run.

The state is a pydantic model, LangGraph's way to have values checked, and the model comes by the run's context, which all nodes have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command
from pydantic import BaseModel

Run = Callable[[], Awaitable[object]]


class State(BaseModel):
    question: str
    answer: str = ""
    reply: str = ""


class Instant:
    async def generate(self, prompt: str) -> str:
        return f"yes, {prompt}"


@dataclass
class Context:
    model: Instant


borrowed: list[Instant] = []


async def ask(state: State, runtime: Runtime[Context]) -> dict[str, str]:
    borrowed[:] = [runtime.context.model]
    return {"answer": await runtime.context.model.generate(state.question)}


async def quote(state: State) -> dict[str, str]:
    return {"reply": f"It says: {state.answer}"}


def running(builder: StateGraph[State, Context]) -> Run:
    graph = builder.compile()

    async def run() -> object:
        return await graph.ainvoke(State(question="Is it so?"), context=Context(Instant()))

    return run


def no_mistake() -> Run:
    builder = StateGraph(State, Context)
    builder.add_node("ask", ask)
    builder.add_node("quote", quote)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "quote")
    builder.add_edge("quote", END)
    return running(builder)


def wrong_type() -> Run:
    async def ask_wrongly(state: State) -> dict[str, object]:
        return {"answer": len(state.question)}

    builder = StateGraph(State, Context)
    builder.add_node("ask", ask_wrongly)
    builder.add_node("quote", quote)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "quote")
    builder.add_edge("quote", END)
    return running(builder)


def leads_nowhere() -> Run:
    def choose(state: State) -> Literal["answered", "refused"]:
        return "refused" if state.question else "answered"

    builder = StateGraph(State, Context)
    builder.add_node("ask", ask)
    builder.add_node("quote", quote)
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", choose, {"answered": "quote"})
    builder.add_edge("quote", END)
    return running(builder)


def no_such_field() -> Run:
    async def quote_wrongly(state: State) -> dict[str, str]:
        return {"reply": state.anwser}

    builder = StateGraph(State, Context)
    builder.add_node("ask", ask)
    builder.add_node("quote", quote_wrongly)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "quote")
    builder.add_edge("quote", END)
    return running(builder)


def undeclared_write() -> Run:
    async def quote_and_change(state: State) -> dict[str, str]:
        return {"reply": state.answer, "answer": state.answer.upper()}

    builder = StateGraph(State, Context)
    builder.add_node("ask", ask)
    builder.add_node("quote", quote_and_change)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "quote")
    builder.add_edge("quote", END)
    return running(builder)


def borrowed_model() -> Run:
    async def quote_and_ask(state: State) -> dict[str, str]:
        return {"reply": await borrowed[0].generate(state.answer)}

    builder = StateGraph(State, Context)
    builder.add_node("ask", ask)
    builder.add_node("quote", quote_and_ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "quote")
    builder.add_edge("quote", END)
    return running(builder)


def never_reached() -> Run:
    async def apologise(state: State) -> dict[str, str]:
        return {"reply": f"Sorry, {state.question}"}

    builder = StateGraph(State, Context)
    builder.add_node("ask", ask)
    builder.add_node("quote", quote)
    builder.add_node("apologise", apologise)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "quote")
    builder.add_edge("quote", END)
    builder.add_edge("apologise", END)
    return running(builder)


def endless() -> Run:
    steps = 0

    async def quote_again(state: State) -> Command[str]:
        nonlocal steps
        steps += 1
        return Command(update={"reply": state.answer}, goto=END if steps == ENOUGH else "ask")

    builder = StateGraph(State, Context)
    builder.add_node("ask", ask)
    builder.add_node("quote", quote_again)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "quote")
    return running(builder)


ENOUGH = 5_500
MISTAKES = (no_mistake, wrong_type, leads_nowhere, no_such_field, undeclared_write, borrowed_model, never_reached, endless)
