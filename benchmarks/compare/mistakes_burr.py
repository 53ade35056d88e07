# type: ignore - the comparison has the type checker find these mistakes, and looks past this line
"""The same small agent in burr, right once and then with one mistake at a time. Each function builds it and returns its run.

Actions and state are typed by pydantic, burr's way to have values checked. The model is bound to the action that needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

from burr.core import ApplicationBuilder, GraphBuilder, action, expr
from burr.integrations.pydantic import PydanticTypingSystem
from pydantic import BaseModel

Run = Callable[[], Awaitable[object]]
logging.getLogger("burr").setLevel(logging.CRITICAL)  # what it catches is reported by the comparison


class State(BaseModel):
    question: str
    answer: str = ""
    reply: str = ""


class Instant:
    async def generate(self, prompt: str) -> str:
        return f"yes, {prompt}"


borrowed: list[Instant] = []


@action.pydantic(reads=["question"], writes=["answer"])
async def ask(state: State, model: Instant) -> State:
    borrowed[:] = [model]
    state.answer = await model.generate(state.question)
    return state


@action.pydantic(reads=["answer"], writes=["reply"])
async def quote(state: State) -> State:
    state.reply = f"It says: {state.answer}"
    return state


def with_model() -> Any:
    """Bind the model. Its types do not tell that the decorator adds `bind`."""
    return cast("Any", ask).bind(model=Instant())


def running(graph: GraphBuilder, first: str = "ask", last: str = "quote") -> Run:
    built = graph.build()

    async def run() -> Any:
        builder = ApplicationBuilder().with_graph(built).with_typing(PydanticTypingSystem(State)).with_entrypoint(first)
        application = await builder.with_state(State(question="Is it so?")).abuild()
        ended, _, state = await application.arun(halt_after=[last])
        if ended is None or ended.name != last:
            return {"stopped at": ended.name if ended is not None else None}
        return state.data

    return run


def no_mistake() -> Run:
    return running(GraphBuilder().with_actions(ask=with_model(), quote=quote).with_transitions(("ask", "quote")))


def wrong_type() -> Run:
    @action.pydantic(reads=["question"], writes=["answer"])
    async def ask_wrongly(state: State) -> State:
        state.answer = len(state.question)
        return state

    return running(GraphBuilder().with_actions(ask=ask_wrongly, quote=quote).with_transitions(("ask", "quote")))


def leads_nowhere() -> Run:
    graph = GraphBuilder().with_actions(ask=with_model(), quote=quote)
    return running(graph.with_transitions(("ask", "quote", expr("answer == 'no'"))))


def no_such_field() -> Run:
    @action.pydantic(reads=["anwser"], writes=["reply"])
    async def quote_wrongly(state: State) -> State:
        state.reply = state.anwser
        return state

    return running(GraphBuilder().with_actions(ask=with_model(), quote=quote_wrongly).with_transitions(("ask", "quote")))


def undeclared_write() -> Run:
    @action.pydantic(reads=["answer"], writes=["reply"])
    async def quote_and_change(state: State) -> State:
        state.reply = state.answer
        state.answer = state.answer.upper()
        return state

    run = running(GraphBuilder().with_actions(ask=with_model(), quote=quote_and_change).with_transitions(("ask", "quote")))

    async def look() -> object:
        state: Any = await run()
        return "dropped" if state.answer != state.answer.upper() else state

    return look


def borrowed_model() -> Run:
    @action.pydantic(reads=["answer"], writes=["reply"])
    async def quote_and_ask(state: State) -> State:
        state.reply = await borrowed[0].generate(state.answer)
        return state

    return running(GraphBuilder().with_actions(ask=with_model(), quote=quote_and_ask).with_transitions(("ask", "quote")))


def never_reached() -> Run:
    @action.pydantic(reads=["question"], writes=["reply"])
    async def apologise(state: State) -> State:
        state.reply = f"Sorry, {state.question}"
        return state

    graph = GraphBuilder().with_actions(ask=with_model(), quote=quote, apologise=apologise)
    return running(graph.with_transitions(("ask", "quote")))


def endless() -> Run:
    steps = 0

    @action.pydantic(reads=["answer"], writes=["reply"])
    async def quote_again(state: State) -> State:
        nonlocal steps
        steps += 1
        state.reply = "enough" if steps == ENOUGH else "again"
        return state

    graph = GraphBuilder().with_actions(ask=with_model(), again=quote_again, quote=quote)
    return running(graph.with_transitions(("ask", "again"), ("again", "quote", expr("reply == 'enough'")), ("again", "ask")))


ENOUGH = 5_500
MISTAKES = (no_mistake, wrong_type, leads_nowhere, no_such_field, undeclared_write, borrowed_model, never_reached, endless)
