"""Agents with the names and behaviour that scenarios of the official conformance tests expect of tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Protocol

from interlock import END, Agent, Capability, Graph, Outcome, Reply, Untrusted, node
from interlock.capabilities import Human, Question
from interlock.capabilities.capability import asks, emits
from interlock.capabilities.model import Chunk
from interlock.errors import ToolError
from interlock.providers.provider import Context, Provider

__all__ = ["FIXTURES"]


class Fixture(Capability, Protocol):
    @asks
    @emits("chat_model")
    def tell(self, text: str) -> AsyncIterator[Chunk]: ...

    @asks
    async def fail(self) -> None: ...


class WordFixture:
    async def tell(self, text: str) -> AsyncIterator[Chunk]:
        for word in text.split(" "):
            yield Chunk(text=f"{word} ")

    async def fail(self) -> None:
        raise ToolError("This tool intentionally returns an error for testing")


def _open(_: Context) -> Fixture:
    return WordFixture()


@dataclass
class State:
    text: Annotated[str, Untrusted] = ""
    reply: Annotated[str, Untrusted] = ""


class Done(Outcome):
    reply: Annotated[str, Untrusted]


async def say(text: str, *, fixture: Fixture) -> Done:
    """Reply with a text, a word at a time."""
    del text
    words = [chunk.text async for chunk in fixture.tell("This is a simple text response for testing.")]
    return Done(reply="".join(words).strip())


async def fail(text: str, *, fixture: Fixture) -> Done:
    """Fail."""
    await fixture.fail()
    return Done(reply=text)


async def ask(text: str, *, human: Human) -> Done:
    """Ask once."""
    del text
    return Done(reply=f"Hello, {await human.ask(Question(text='What is your name?'))}!")


async def ask_twice(text: str, *, human: Human) -> Done:
    """Ask twice."""
    del text
    name = await human.ask(Question(text="What is your name?"))
    colour = await human.ask(Question(text="What is your favourite colour?", options=("red", "green", "blue")))
    return Done(reply=f"Hello, {name}! You like {colour}.")


_NODES = {
    "test_simple_text": say,
    "test_tool_with_progress": say,
    "test_logging_tool": say,
    "test_streaming_elicitation": ask,
    "test_error_handling": fail,
    "test_input_required_result_elicitation": ask,
    "test_input_required_result_request_state": ask,
    "test_input_required_result_tampered_state": ask,
    "test_input_required_result_capabilities": ask,
    "test_input_required_result_multi_round": ask_twice,
}


def _agent(name: str) -> Agent:
    graph = Graph(name, state=State, entry=_NODES[name], takes=("text",), gives="reply", nodes=[node(_NODES[name], goes={Done: END})])
    return Agent(
        name=name,
        summary="for conformance tests",
        graphs=(graph,),
        entries={None: graph},
        reply=lambda state: Reply(output=state["reply"]),
        answers_empty=True,
        has_sessions=True,
        pauses=True,
        providers=(Provider(capabilities=(Fixture,), open=_open),),
    )


FIXTURES = tuple(_agent(name) for name in _NODES)
