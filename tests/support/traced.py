"""A program with a tracer, a debug mode or a callback handler for the whole process: what these get to see of Interlock.

It is run as a process of its own, with what it is to switch on for its argument. It first runs a plain LangGraph graph, which
shows that whatever is switched on sees something, then the same secret in every way in which Interlock runs a graph.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, cast

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.globals import set_debug, set_verbose
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.tools import tool
from langchain_core.tracers.context import register_configure_hook, tracing_v2_enabled
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END as STOP
from langgraph.graph import START, StateGraph
from langsmith import traceable  # pyright: ignore[reportUnknownVariableType] - mappings of unknowns in its signature
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Secret, Settings, node
from interlock.capabilities import Message, Model
from interlock.errors import InterlockError
from interlock.models.langchain import LangChainModel
from interlock.runtime.targets import Subgraph

SEEN_BY_ALL = "canary-of-a-plain-graph"
SECRET = "canary-of-a-secret-field"  # noqa: S105 - it is looked for
VAULTED = "canary-from-a-capability"
KEY = "sk-canaryCanaryCanary0123456789"


class State(TypedDict, total=False):
    question: str
    token: Annotated[str, Secret]
    answer: str


class Inner(TypedDict, total=False):
    word: Annotated[str, Secret]
    found: str


class Asked(Outcome):
    answer: str


class Renewed(Outcome):
    token: str
    answer: str


class Found(Outcome):
    found: str


class Vault(Capability, Protocol):
    async def open(self, token: Annotated[str, Secret]) -> Annotated[str, Secret]: ...


class Search(Capability, Protocol):
    async def look_up(self, word: Annotated[str, Secret]) -> str: ...


@tool
async def echo(text: str) -> str:
    """Say the same again."""
    return text


@traceable
async def traced(text: str) -> str:
    return text


class TracedVault:
    """An adapter of somebody's own, made of what LangChain and LangSmith trace by themselves."""

    async def open(self, token: str) -> str:
        await RunnableLambda(traced).ainvoke(token)
        return await echo.ainvoke({"text": VAULTED})


async def ask(question: str, token: str, *, model: Model, vault: Vault, search: Search) -> Asked:
    opened = await vault.open(token)
    found = await search.look_up(token)
    said = await model.reply([Message(role="user", text=f"{question} {token} {opened}")])
    streamed = [piece.text async for piece in model.stream([Message(role="user", text=token)])]
    return Asked(answer=f"{said.text}{''.join(streamed)}{found} for {token}, {opened}, {KEY}")


async def renew(answer: str | None, token: str) -> Renewed:
    return Renewed(token=f"{token}-renewed", answer=answer or "")


async def look(word: str) -> Found:
    return Found(found=f"about {word}")


inner = Graph("inner", state=Inner, entry=look, nodes=[node(look, goes={Found: END})], takes=["word"], gives="found")
asking = Graph(
    "asking",
    state=State,
    entry=ask,
    nodes=[node(ask, goes={Asked: renew}), node(renew, goes={Renewed: END})],
    takes=["question", "token"],
    gives="answer",
)
GIVEN = {"question": "What is it?", "token": SECRET}


def application(engine: Any) -> Interlock:
    chat = GenericFakeChatModel(messages=iter(lambda: AIMessage("Well. "), None))
    model = LangChainModel(chat, name="fake", max_reply_bytes=10_000)
    grants = {Model: model, Vault: TracedVault(), Search: Subgraph(inner)}
    return Interlock(Settings(engine=engine), grants=grants)


async def plain_graph() -> None:
    """Run a graph that is LangGraph's alone, with no secrets kept."""

    class Plain(TypedDict):
        text: str

    async def say(state: Plain) -> Plain:
        return {"text": state["text"]}

    builder = StateGraph(Plain)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    builder.add_edge("say", STOP)
    await builder.compile().ainvoke({"text": SEEN_BY_ALL})
    await echo.ainvoke({"text": SEEN_BY_ALL})


async def by_interlock(engine: str) -> None:
    app = application(engine)
    result = await app.run(asking, GIVEN)
    assert result.error is None, result.error
    assert SECRET in result.state["answer"]
    assert [event async for event in app.stream(asking, GIVEN)]

    async def inside(_: Any) -> None:
        await app.run(asking, GIVEN)

    await RunnableLambda(inside).ainvoke("x")


async def by_langgraph() -> None:
    graph = application("langgraph").langgraph(asking, checkpointer=InMemorySaver())
    here: RunnableConfig = {"configurable": {"thread_id": "1"}}
    assert SECRET in (await graph.ainvoke(GIVEN, here))["answer"]
    modes: list[Any] = ["values", "updates", "messages", "custom", "debug", "tasks", "checkpoints"]
    assert [chunk async for chunk in graph.astream(GIVEN, here, stream_mode=modes, subgraphs=True)]
    for version in ("v1", "v2"):
        told: AsyncIterator[Any] = cast("Any", graph).astream_events(GIVEN, here, version=version)
        events = [event async for event in told]
        assert events
        sys.stdout.write(json.dumps(events, default=repr))
    await graph.aupdate_state(here, {"token": SECRET, "answer": SECRET}, as_node="ask")
    graph.update_state(here, {"token": SECRET, "answer": SECRET}, as_node="ask")
    with suppress(TypeError):  # its nodes are async only
        graph.invoke(GIVEN, {"configurable": {"thread_id": "2"}})
    with suppress(InterlockError):
        await graph.ainvoke({"question": 5, "token": SECRET}, {"configurable": {"thread_id": "3"}})

    class Outer(TypedDict):
        text: str

    async def call(state: Outer) -> Outer:
        await application("langgraph").langgraph(asking).ainvoke(GIVEN)
        return state

    builder = StateGraph(Outer)
    builder.add_node("call", call)
    builder.add_edge(START, "call")
    await builder.compile().ainvoke({"text": "outer"})


class Handler(BaseCallbackHandler):
    """Writes down everything that it is called with."""

    run_inline = True
    heard: ClassVar[list[str]] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        def hear(*args: Any, **kwargs: Any) -> None:
            Handler.heard.append(f"{name} {args!r} {kwargs!r}")

        return hear


handler_var: ContextVar[Handler | None] = ContextVar("handler", default=None)


@contextmanager
def switched_on(what: str) -> Generator[None]:
    match what:
        case "debug":
            set_debug(True)
        case "verbose":
            set_verbose(True)
            echo.verbose = True
        case "hook":
            register_configure_hook(handler_var, True)
            handler_var.set(Handler())
        case "hook of a class":
            register_configure_hook(handler_var, True, Handler, "TRACE_WITH_HANDLER")
        case "context":
            with tracing_v2_enabled():
                yield
            return
        case _:
            pass  # the environment does it
    yield


async def main(what: str) -> None:
    with switched_on(what):
        await plain_graph()
        for engine in ("direct", "langgraph"):
            await by_interlock(engine)
        await by_langgraph()
    wait_for_all_tracers()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
    Path(sys.argv[2]).write_text("\n".join(Handler.heard), encoding="utf-8")
