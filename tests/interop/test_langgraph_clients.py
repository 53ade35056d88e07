"""LangGraph's own clients on a real port of Interlock's server: RemoteGraph with all agents, and the JavaScript SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk import get_client

from interlock.discovery import load_agent
from interlock.settings import EngineName
from tests.server.serving import AGENTS, Running, serving
from tests.support.npm import NODE, npm_packages

JAVASCRIPT = ("@langchain/langgraph-sdk@1.12.0", "@langchain/core@1.2.3")
FIVE = ("sam", "desk", "analyst", "gateway", "puntini")


@pytest.fixture
async def five(tmp_path: Path, engine: EngineName) -> AsyncGenerator[Running]:
    async with serving(tmp_path, agents=[load_agent(name) for name in FIVE], engine=engine) as running:
        yield running


@asynccontextmanager
async def remote(running: Running, name: str) -> AsyncGenerator[RemoteGraph]:
    """A graph of the server, with a client that is closed at the end."""
    async with get_client(url=running.process.address) as client:
        yield RemoteGraph(name, client=client)


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


@pytest.mark.parametrize(
    ("name", "text", "reply"),
    [
        ("sam", "hello", "You said"),
        ("desk", "I want to buy two laptops", "Which product would you like instead?"),
        ("analyst", "revenue", "Revenue: "),
        ("gateway.admin", "list /", "/README.md"),
        ("gateway.user", "hello", "Hello."),
        ("puntini", "Create a project Apollo with tasks Design and Build", "added Project Apollo"),
    ],
)
async def test_every_agent_is_a_remote_graph_with_a_conversation(five: Running, name: str, text: str, reply: str):
    async with remote(five, name) as graph:
        values: Any = await graph.ainvoke({"messages": [("user", text)]}, on("t"))
        assert [one["type"] for one in values["messages"]] == ["human", "ai"]
        assert reply in values["messages"][1]["content"]
        streamed: list[Any] = [
            part async for part in graph.astream({"messages": [("user", text)]}, on("t"), stream_mode=["messages", "values"])
        ]
        parts = [data[0] for mode, data in ((part.event, part.data) for part in streamed) if mode == "messages"]
        final = [part.data for part in streamed if part.event == "values"][-1]
        assert "".join(part["content"] for part in parts) == final["messages"][-1]["content"]
        assert len(final["messages"]) == 4
        state = await graph.aget_state(on("t"))
        assert (state.values, state.next) == (final, ())
        assert (await graph.aget_graph()).nodes.keys() >= {"__start__", "__end__"}
        history = [one async for one in graph.aget_state_history(on("t"), limit=100)]
        assert history[0] == state
        assert [one.next for one in history].count(()) == 2


async def test_graphs_inside_a_graph_have_a_namespace(five: Running):
    async with remote(five, "desk") as graph:
        given: Any = {"messages": [("user", "I want two mugs")]}
        parts = [part async for part in graph.astream(given, on("t"), stream_mode="updates", subgraphs=True)]
        inner = {(*(one.partition(":")[0] for one in space), *data) for space, data in parts if space}
        assert {("plan_goal", "prompt"), ("dispatch_specialist", "structured_path", "model")} <= inner
        outer = [next(iter(data)) for space, data in parts if not space]
        assert outer == [next(iter(data)) async for data in graph.astream(given, on("t2"), stream_mode="updates")]
        assert outer[0] == "validate_request"


async def test_a_person_is_asked_and_answers_through_a_remote_graph(five: Running):
    async with remote(five, "puntini") as graph:
        await graph.ainvoke({"messages": [("user", "Create a person Design and a task Design")]}, on("t"))
        asked: Any = await graph.ainvoke({"messages": [("user", "Set the priority of Design to 3")]}, on("t"))
        assert asked["__interrupt__"][0]["value"]["options"] == ["Person Design", "Task Design"]
        state = await graph.aget_state(on("t"))
        assert (state.next, len(state.interrupts)) == (("escalate",), 1)
        answered: Any = await graph.ainvoke(Command(resume="Task Design"), on("t"))
        assert "Task Design" in answered["messages"][-1]["content"]
        # A new input while a person is asked ends the question, in the agent's own words.
        await graph.ainvoke({"messages": [("user", "Set the status of Design to open")]}, on("t"))
        assert (await graph.aget_state(on("t"))).interrupts
        ended: Any = await graph.ainvoke({"messages": [("user", "How many tasks are there?")]}, on("t"))
        assert "1" in ended["messages"][-1]["content"]
        assert not (await graph.aget_state(on("t"))).interrupts


async def test_the_javascript_client_works_unchanged(tmp_path: Path):
    folder = await asyncio.to_thread(npm_packages, "langgraph-sdk-1.12.0", *JAVASCRIPT)
    program = Path(__file__).with_name("langgraph_client.mjs")
    async with serving(tmp_path, agents=AGENTS) as running:
        process = await asyncio.create_subprocess_exec(
            NODE, program, folder, running.process.address, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), 60)
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0, err.decode()
    seen = json.loads(out)
    assert seen["assistants"] == ["notes.admin", "notes.user", "parcels", "sam"]
    chunks = [part["data"][0] for part in seen["stream"] if part["event"] == "messages"]
    final = [part["data"] for part in seen["stream"] if part["event"] == "values"][-1]
    assert final["messages"][0]["id"] == "m-1"
    assert "".join(chunk["content"] for chunk in chunks) == final["messages"][1]["content"]
    assert seen["stream"][-1]["event"] == "end"
    assert len(seen["values"]["messages"]) == 4
    assert seen["state"]["values"] == seen["values"]
    assert seen["history"][0] == []
    assert seen["search"] == [True]
    assert seen["asked"][-2]["data"]["__interrupt__"][0]["value"]["question"] == "Which colour?"
    assert seen["waiting"] == "interrupted"
    assert seen["answered"][-2]["data"]["answer"] == "answered red"
    assert [part["event"] for part in seen["joined"]].count("end") == 1
    assert [name for part in seen["joined"] if part["event"] == "updates" for name in part["data"]] == [
        "start",
        "__interrupt__",
        "pause",
        "deliver",
    ]
    assert (seen["rejected"], seen["cancelled"]) == (409, "interrupted")
    assert "command.goto" in seen["refused"]
