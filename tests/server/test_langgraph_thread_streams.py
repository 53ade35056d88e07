"""Streams of a whole thread, by LangGraph's own client and by hand: commands, channels, questions, resuming by `since`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from interlock.discovery import load_agent
from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event
from interlock.server.langgraph.protocol_events import TurnEvents, position_of, seq_of
from interlock.server.langgraph.stream import Projector, Subject
from tests.server.serving import AGENTS, Running, read_frames, serving
from tests.server.teller import agent as teller
from tests.server.teller import held_back
from tests.support.parcels import agent as parcels
from tests.support.parcels import graph as parcels_graph

ALL = ["values", "updates", "messages", "tools", "lifecycle", "input", "checkpoints", "tasks", "custom"]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path, agents=[*AGENTS, teller, load_agent("desk")]) as running:
        yield running


@pytest.fixture
async def client(running: Running) -> AsyncGenerator[Any]:
    async with get_client(url=running.process.address) as client:
        yield client


async def command(http: httpx.AsyncClient, thread: str, method: str, **params: Any) -> dict[str, Any]:
    response = await http.post(f"/threads/{thread}/commands", json={"id": 7, "method": method, "params": params})
    assert response.status_code == 200, response.text
    assert response.json()["id"] == 7
    return response.json()


async def events(http: httpx.AsyncClient, thread: str, *, until: str = "completed", **body: Any) -> list[dict[str, Any]]:
    """Return the events of a thread up to the end of a run, which must be on the channel `lifecycle`."""
    found: list[dict[str, Any]] = []
    given = {"channels": ALL, **body}
    async with asyncio.timeout(30), http.stream("POST", f"/threads/{thread}/stream/events", json=given) as response:
        assert response.status_code == 200, await response.aread()
        async for one in read_frames(response):
            assert (one["id"], one["event"]) == (str(one["data"]["seq"]), one["data"]["method"])
            found.append(one["data"])
            if one["data"]["method"] == "lifecycle" and not one["data"]["params"]["namespace"] and data(one["data"])["event"] == until:
                break
    return found


def data(event: dict[str, Any]) -> Any:
    return event["params"]["data"]


async def test_a_run_of_the_client_has_messages_values_and_an_output(client: Any):
    async with asyncio.timeout(30), client.threads.stream(assistant_id="sam") as thread:
        await thread.run.start(input={"messages": [{"role": "user", "content": "hello there"}]})
        texts = [asyncio.create_task(_joined(message.text)) async for message in thread.messages]
        output = await thread.output
    assert [await text for text in texts] == [output["messages"][-1]["content"]]
    assert output == (await client.threads.get_state(thread.thread_id))["values"]


def _is_in(event: dict[str, Any]) -> bool:
    return event["params"]["namespace"][:1] != [] and event["params"]["namespace"][0].startswith("dispatch_specialist:")


async def _joined(text: Any) -> str:
    return "".join([part async for part in text])


async def test_a_person_is_asked_on_the_stream_and_answers_by_it(client: Any):
    async with asyncio.timeout(30), client.threads.stream(assistant_id="parcels") as thread:
        await thread.run.start(input={"text": "ask"})
        # The first of them is the state when the client looked, which may be before the run has one.
        assert [values async for values in thread.values][-1]["text"] == "ask"
        (interrupt,) = thread.interrupts
        assert interrupt["value"]["question"] == "Which colour?"
        await thread.run.respond("red")
        assert (await thread.output)["answer"] == "answered red"


async def test_graphs_inside_a_graph_are_found_by_their_namespace(running: Running, client: Any):
    async with asyncio.timeout(30), client.threads.stream(assistant_id="desk") as thread:
        await thread.run.start(input="I want two mugs")
        assert len([inner async for inner in thread.subgraphs]) >= 2
        await thread.output
    seen = await events(running.client(), thread.thread_id)
    spaces = {tuple(part.partition(":")[0] for part in event["params"]["namespace"]) for event in seen}
    assert {(), ("plan_goal",), ("dispatch_specialist", "tool_path")} <= spaces
    filters: list[tuple[list[list[str]], int]] = [([["dispatch_specialist"], []], 1), ([[]], 0)]
    for namespaces, depth in filters:
        few = await events(running.client(), thread.thread_id, namespaces=namespaces, depth=depth)
        assert few == [event for event in seen if len(event["params"]["namespace"]) <= depth + (depth and _is_in(event))]


async def test_events_come_in_order_and_a_stream_that_is_resumed_anywhere_has_exactly_the_rest(running: Running):
    http = running.client()
    started = await command(http, "t", "run.start", assistant_id="sam", input="hello")
    whole = await events(http, "t")
    numbers = [event["seq"] for event in whole]
    assert numbers == sorted(set(numbers))
    assert len({event["event_id"] for event in whole}) == len(whole)
    assert started["meta"]["applied_through_seq"] < numbers[0]
    for cut in (0, 1, len(whole) // 2, len(whole) - 2):
        assert await events(http, "t", since=numbers[cut]) == whole[cut + 1 :]
    only = await events(http, "t", channels=["messages", "lifecycle"])
    assert only == [event for event in whole if event["method"] in {"messages", "lifecycle"}]
    said = [data(event) for event in whole if event["method"] == "messages"]
    assert [one["event"] for one in said if one["event"] != "content-block-delta"] == [
        "message-start",
        "content-block-start",
        "content-block-finish",
        "message-finish",
    ]
    text = "".join(one["delta"]["text"] for one in said if one["event"] == "content-block-delta")
    assert (
        text
        == said[-2]["content"]["text"]
        == [data(event) for event in whole if event["method"] == "values"][-1]["messages"][-1]["content"]
    )


async def test_one_stream_has_the_runs_that_follow(running: Running):
    http = running.client()
    await http.post("/threads", json={"thread_id": "t"})
    following = asyncio.create_task(events(http, "t", until="failed"))
    for text in ("one", "two", "this fails"):
        await command(http, "t", "run.start", assistant_id="teller", input=text)
    seen = await following
    lifecycle = [data(event)["event"] for event in seen if event["method"] == "lifecycle"]
    assert lifecycle == ["running", "completed", "running", "completed", "running", "failed"]
    assert data(seen[-1])["error"] == "model_unavailable: The model went away."
    assert {position_of(event["seq"]) for event in seen} == {1, 2, 3}


async def test_a_run_that_was_cancelled_before_it_started_has_an_end(running: Running):
    http = running.client()
    with held_back():
        await command(http, "t", "run.start", assistant_id="teller", input="one two")
        second = await command(http, "t", "run.start", assistant_id="teller", input="three")
        following = asyncio.create_task(events(http, "t", since=seq_of(2), until="failed"))
        await http.post(f"/threads/t/runs/{second['result']['run_id']}/cancel")
    assert [data(event)["event"] for event in await following] == ["failed"]


async def test_commands_that_cannot_be_carried_out_are_errors_of_the_protocol(running: Running):
    http = running.client()
    await command(http, "t", "run.start", assistant_id="parcels", input={"text": "ask"})
    asked = await events(http, "t", until="interrupted")
    (interrupt,) = [data(event)["interrupt_id"] for event in asked if event["method"] == "input.requested"]

    async def refused(method: str, **params: Any) -> str:
        answer = await command(http, "t", method, **params)
        assert answer["type"] == "error"
        assert answer["message"]
        return answer["error"]

    assert await refused("run.start", assistant_id="nobody", input="x") == "invalid_argument"
    assert await refused("run.start", assistant_id="parcels", input={"text": "x"}, webhook="http://x") == "invalid_argument"
    assert await refused("run.start", assistant_id=3) == "invalid_argument"
    assert await refused("input.respond", interrupt_id="x", response="red") == "no_such_interrupt"
    assert await refused("input.respond", interrupt_id=interrupt, response="red", goto="deliver") == "invalid_argument"
    assert await refused("agent.getTree") == "unknown_command"
    responses: list[Any] = [{"interrupt_id": interrupt, "response": "red", "namespace": []}]
    assert (await command(http, "t", "input.respond", responses=responses))["type"] == "success"
    answered = await events(http, "t", since=asked[-1]["seq"])
    assert [data(event)["event"] for event in answered if event["method"] == "lifecycle"] == ["running", "completed"]
    assert asked + answered == await events(http, "t")
    assert await refused("input.respond", interrupt_id=interrupt, response="red") == "no_such_interrupt"


async def test_bodies_that_are_not_of_the_protocol_and_threads_of_others_are_refused(running: Running):
    owner, other = running.client(await running.key("a", tenant="one")), running.client(await running.key("b", tenant="two"))
    await command(owner, "t", "run.start", assistant_id="parcels", input={"text": "ask"})
    bad: list[tuple[str, dict[str, Any]]] = [
        ("stream/events", {}),
        ("stream/events", {"channels": []}),
        ("stream/events", {"channels": ["news"]}),
        ("stream/events", {"channels": ["values"], "since": True}),
        ("commands", {"method": "run.start"}),
        ("commands", {"id": "1", "method": "run.start"}),
    ]
    for path, body in bad:
        refused = await owner.post(f"/threads/t/{path}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "input_schema"), body
    assert (await other.post("/threads/t/stream/events", json={"channels": ["values"]})).status_code == 404
    responding = {"id": 1, "method": "input.respond", "params": {"interrupt_id": "x", "response": "x"}}
    assert (await other.post("/threads/t/commands", json=responding)).status_code == 404


def test_a_message_of_a_resumed_turn_is_finished_before_it_is_said_again():
    about: dict[str, Any] = {"graph_id": "parcels", "assistant": "a", "thread": "t", "run": "r", "position": 1, "created": ""}
    seen = TurnEvents(Projector(Subject(agent=parcels, graph=parcels_graph, values={}, messages=[], **about)), ms=0)

    def event(kind: str, number: int, given: dict[str, Any], *, node: str | None = None, name: str = "", run: str = "call") -> Event:
        metadata: dict[str, Any] = {"sequence": number} | ({} if node is None else {"langgraph_node": node, "langgraph_step": 1})
        parents = [] if node is None else ["root"]
        return {"event": kind, "name": name, "run_id": run, "parent_ids": parents, "tags": [], "metadata": metadata, "data": given}

    told = [
        event("on_chain_start", 1, {"input": {}}, run="root"),
        event("on_chat_model_stream", 2, {"chunk": {"text": "Hel"}}, node="pause"),
        event("on_custom_event", 3, {"from": 1}, name=RETOLD, run=""),
        event("on_chat_model_stream", 4, {"chunk": {"text": "Hello"}}, node="pause"),
    ]
    said = [data(one) for arrived in told for one in seen.project(arrived) if one["method"] == "messages"]
    starts = [one["id"] for one in said if one["event"] == "message-start"]
    assert len(set(starts)) == 2
    assert [one["event"] for one in said].index("message-finish") < [one.get("id") for one in said].index(starts[1])
