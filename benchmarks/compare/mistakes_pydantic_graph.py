# type: ignore - the comparison has the type checker find these mistakes, and looks past this line
"""The same small agent in pydantic-graph, right once and then with one mistake at a time. Each function builds it and returns its run.

Nodes are classes whose `run` says by its return type what may follow; the model comes by the dependencies, which all nodes have.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext

Run = Callable[[], Awaitable[object]]


@dataclass
class State:
    question: str
    answer: str = ""
    reply: str = ""


class Instant:
    async def generate(self, prompt: str) -> str:
        return f"yes, {prompt}"


@dataclass
class Deps:
    model: Instant


borrowed: list[Instant] = []


@dataclass
class Quote(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> End[str]:
        ctx.state.reply = f"It says: {ctx.state.answer}"
        return End(ctx.state.reply)


@dataclass
class Ask(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> Quote:
        borrowed[:] = [ctx.deps.model]
        ctx.state.answer = await ctx.deps.model.generate(ctx.state.question)
        return Quote()


def running(first: type[BaseNode[State, Deps, str]], *others: type[BaseNode[State, Deps, str]]) -> Run:
    g: Any = GraphBuilder(state_type=State, deps_type=Deps, input_type=first, output_type=str)
    g.add(g.edge_from(g.start_node).to(first), g.node(first), *(g.node(other) for other in others))
    graph = g.build()

    async def run() -> object:
        state = State(question="Is it so?")
        await graph.run(state=state, deps=Deps(Instant()), inputs=first())
        return state

    return run


def no_mistake() -> Run:
    return running(Ask, Quote)


@dataclass
class AskWrongly(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> Quote:
        ctx.state.answer = len(ctx.state.question)
        return Quote()


def wrong_type() -> Run:
    return running(AskWrongly, Quote)


@dataclass
class Apologise(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> End[str]:
        return End(f"Sorry, {ctx.state.question}")


@dataclass
class AskOrRefuse(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> Quote | Apologise:
        return Apologise() if ctx.state.question else Quote()


def leads_nowhere() -> Run:
    return running(AskOrRefuse, Quote)


@dataclass
class QuoteWrongly(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> End[str]:
        return End(ctx.state.anwser)


@dataclass
class AskForWrong(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> QuoteWrongly:
        ctx.state.answer = await ctx.deps.model.generate(ctx.state.question)
        return QuoteWrongly()


def no_such_field() -> Run:
    return running(AskForWrong, QuoteWrongly)


@dataclass
class QuoteAndChange(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> End[str]:
        ctx.state.answer = ctx.state.answer.upper()
        return End(ctx.state.answer)


@dataclass
class AskForChange(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> QuoteAndChange:
        ctx.state.answer = await ctx.deps.model.generate(ctx.state.question)
        return QuoteAndChange()


def undeclared_write() -> Run:
    return running(AskForChange, QuoteAndChange)


@dataclass
class QuoteAndAsk(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> End[str]:
        return End(await borrowed[0].generate(ctx.state.answer))


@dataclass
class AskForAsk(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> QuoteAndAsk:
        borrowed[:] = [ctx.deps.model]
        ctx.state.answer = await ctx.deps.model.generate(ctx.state.question)
        return QuoteAndAsk()


def borrowed_model() -> Run:
    return running(AskForAsk, QuoteAndAsk)


def never_reached() -> Run:
    return running(Ask, Quote, Apologise)


steps = 0


@dataclass
class AskAgain(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> QuoteAgain:
        ctx.state.answer = await ctx.deps.model.generate("again")
        return QuoteAgain()


@dataclass
class QuoteAgain(BaseNode[State, Deps, str]):
    async def run(self, ctx: GraphRunContext[State, Deps]) -> AskAgain | End[str]:
        global steps  # noqa: PLW0603 - it counts over nodes
        steps += 1
        return End(ctx.state.answer) if steps == ENOUGH else AskAgain()


def endless() -> Run:
    return running(AskAgain, QuoteAgain)


ENOUGH = 5_500
MISTAKES = (no_mistake, wrong_type, leads_nowhere, no_such_field, undeclared_write, borrowed_model, never_reached, endless)
