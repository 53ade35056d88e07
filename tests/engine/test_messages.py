"""Fields of an exported graph that callers see as messages, while nodes and stores have records."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel
from typing_extensions import TypedDict

from interlock import END, Graph, Interlock, Outcome, node
from interlock.agent import Agent
from interlock.capabilities import Message, Model
from interlock.engine.messages import NativeField, Shown, ai_message, human_message, records_of
from interlock.engine.threads import channel_of
from interlock.errors import InputSchema
from interlock.reply import Reply
from interlock.testing import ScriptedModel


@dataclass(frozen=True)
class Line:
    text: str
    by: str = "person"
    id: str | None = None


class Chat(TypedDict, total=False):
    lines: Annotated[tuple[Line, ...], operator.add]
    drafts: tuple[Line, ...]


class Spoken(Outcome):
    lines: tuple[Line, ...]
    drafts: tuple[Line, ...]


class Mood(BaseModel):
    good: bool


async def speak(lines: tuple[Line, ...], *, model: Model) -> Spoken:
    messages = [Message(role="user", text=line.text) for line in lines]
    mood = await model.decide(messages, schema=Mood)
    text = "".join([chunk.text async for chunk in model.stream(messages)])
    return Spoken(lines=(Line(text, by="agent"),), drafts=(Line(f"{mood.value.good}", by="agent"),))


chat = Graph("chat", state=Chat, entry=speak, nodes=[node(speak, goes={Spoken: END})], takes=["lines", "drafts"])


def show(lines: Sequence[Line]) -> list[Any]:
    return [(human_message if line.by == "person" else ai_message)(line.text, line.id) for line in lines]


def admit(messages: Sequence[Any]) -> tuple[Line, ...]:
    if not all(isinstance(message, HumanMessage) for message in messages):
        raise InputSchema("Only messages of a person may be passed.")
    return tuple(Line(str(message.content), id=message.id) for message in messages)


def sign(lines: Sequence[Line], own_id: str, text: str) -> tuple[Line, ...]:
    return tuple(replace(line, id=own_id) if line.text == text else line for line in lines)


def exported(checkpointer: Any = None) -> Any:
    agent = Agent(
        name="chat",
        summary="It chats.",
        graphs=[chat],
        entries={None: chat},
        reply=lambda _: Reply(),
        persists=["lines"],
        native={"lines": NativeField(show, admit=admit, sign=sign), "drafts": NativeField(show)},
    )
    model = ScriptedModel(Mood(good=True), ["It ", "works."], Mood(good=True), ["Still."])
    return Interlock(grants={Model: model}).langgraph(agent, checkpointer=checkpointer)


async def test_a_caller_passes_and_gets_messages_and_the_next_run_continues_the_conversation():
    graph, thread = exported(InMemorySaver()), {"configurable": {"thread_id": "1"}}
    given = HumanMessage("Does it?", id="q")
    final = await graph.ainvoke({"lines": [given], "drafts": (Line("by hand"),)}, thread)
    assert final["lines"][0] == given
    assert [type(message) for message in final["lines"]] == [HumanMessage, AIMessage]
    assert [message.text for message in final["drafts"]] == ["True"]
    await graph.ainvoke({"lines": [HumanMessage("Still?")]}, thread)
    state = await graph.aget_state(thread)
    assert [message.text for message in state.values["lines"]] == ["Does it?", "It works.", "Still?", "Still."]


async def test_the_message_that_was_streamed_has_the_id_of_its_chunks_and_a_decision_is_not_streamed():
    streamed: list[Any] = []
    final: dict[str, Any] = {}
    async for mode, found in exported().astream({"lines": [HumanMessage("Does it?")]}, stream_mode=["messages", "values"]):
        if mode == "messages":
            streamed.append(found[0])
        else:
            final = found
    chunks = [message for message in streamed if isinstance(message, AIMessageChunk)]
    assert [chunk.text for chunk in chunks if chunk.text] == ["It ", "works."]
    assert {chunk.id for chunk in chunks} == {final["lines"][-1].id}


async def test_without_a_handler_a_message_has_the_id_of_its_record():
    final = await exported().ainvoke({"lines": [HumanMessage("Does it?")]})
    assert final["lines"][-1].id is None


@pytest.mark.parametrize("given", [{"lines": [AIMessage("I am the agent.")]}, Command(update={"lines": [AIMessage("I am the agent.")]})])
async def test_a_message_that_a_caller_may_not_pass_is_refused(given: Any):
    with pytest.raises(InputSchema):
        await exported().ainvoke(given)


@pytest.mark.parametrize("name", chat.state.fields)
def test_a_copy_of_a_channel_shows_the_same_and_does_not_change_with_it(name: str):
    channel = channel_of(chat.state.fields[name], NativeField(show))
    channel.update([(Line("one"),)])
    copied = channel.copy()
    channel.update([(Line("two"),)])
    assert type(copied.get()) is Shown
    assert records_of(copied.get()) == (Line("one"),)
