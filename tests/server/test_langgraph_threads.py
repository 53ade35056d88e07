"""Threads, assistants and access of the LangGraph Server API, by LangGraph's own client on a real port."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from interlock.server.routing import ServerRoute
from tests.server.serving import Running, serving
from tests.support.parcels import sent


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path) as running:
        yield running


@pytest.fixture
async def client(running: Running) -> AsyncGenerator[Any]:
    async with get_client(url=running.process.address) as client:
        yield client


async def test_assistants_are_found_by_name_and_by_id(client: Any):
    found = await client.assistants.search()
    assert [one["graph_id"] for one in found] == ["notes.admin", "notes.user", "parcels", "sam"]
    sam = await client.assistants.get("sam")
    assert sam == await client.assistants.get(sam["assistant_id"])
    assert [one["name"] for one in await client.assistants.search(graph_id="sam")] == ["sam"]
    graph = await client.assistants.get_graph("parcels")
    assert [node["id"] for node in graph["nodes"]] == ["__start__", "start", "pause", "deliver", "__end__"]
    assert {"source": "deliver", "target": "__end__", "data": "Delivered", "conditional": True} in graph["edges"]
    schemas: Any = await client.assistants.get_schemas("parcels")
    assert {"text", "messages"} == set(schemas["input_schema"]["properties"])
    with pytest.raises(NotFoundError):
        await client.assistants.get("nobody")


async def test_a_thread_is_durable_before_it_has_a_run(tmp_path: Path):
    async with serving(tmp_path) as running, get_client(url=running.process.address) as client:
        thread = await client.threads.create(thread_id="mine", metadata={"a": {"b": 1, "c": 2}})
        assert (thread["status"], thread["values"]) == ("idle", {})
    async with serving(tmp_path) as running, get_client(url=running.process.address) as client:
        assert await client.threads.get("mine") == thread
        assert [one["thread_id"] for one in await client.threads.search(metadata={"a": {"b": 1}})] == ["mine"]
        assert await client.threads.search(metadata={"a": {"b": True}}) == []
        assert (await client.threads.get_state("mine"))["values"] == {}
        assert await client.threads.get_history("mine") == []


async def test_threads_are_created_once_changed_and_deleted(client: Any, tmp_path: Path):
    thread = (await client.threads.create(metadata={"a": 1}))["thread_id"]
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id=thread)
    same = await client.threads.create(thread_id=thread, metadata={"a": 2}, if_exists="do_nothing")
    assert same["metadata"] == {"a": 1}
    changed = await client.threads.update(thread, metadata={"b": 2})
    assert changed["metadata"] == {"a": 1, "b": 2}
    run = await client.runs.create(thread, "parcels", input="wait 30")
    await client.threads.delete(thread)
    for call in (client.threads.get(thread), client.threads.get_state(thread), client.runs.get(thread, run["run_id"])):
        with pytest.raises(NotFoundError):
            await call
    assert await client.threads.search() == []
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id=thread, if_exists="do_nothing")
    with pytest.raises(NotFoundError):
        await client.runs.create(thread, "parcels", input="now", if_not_exists="create")
    assert "wait 30: last" not in sent(tmp_path)


async def test_search_filters_sorts_and_pages(client: Any):
    threads = [(await client.threads.create(metadata={"n": number}))["thread_id"] for number in range(4)]
    await client.runs.wait(threads[1], "parcels", input="ask")
    await client.runs.wait(threads[2], "sam", input="hello")
    assert [one["thread_id"] for one in await client.threads.search(status="interrupted")] == [threads[1]]
    assert [one["thread_id"] for one in await client.threads.search(metadata={"graph_id": "sam"})] == [threads[2]]
    assert [one["thread_id"] for one in await client.threads.search(values={"text": "ask"})] == [threads[1]]
    ordered = await client.threads.search(sort_by="created_at", sort_order="asc", limit=2, offset=1, select=["thread_id"])
    assert ordered == [{"thread_id": threads[1]}, {"thread_id": threads[2]}]
    assert await client.threads.search(ids=[threads[3]], select=["metadata"]) == [{"metadata": {"n": 3}}]
    assert await client.threads.count(status="idle") == 3


async def test_history_has_a_state_before_every_step_and_one_after_each_turn(client: Any):
    thread = (await client.threads.create())["thread_id"]
    for text in ("one", "two"):
        await client.runs.wait(thread, "parcels", input=text)
    history: Any = await client.threads.get_history(thread, limit=100)
    assert [state["next"] for state in history] == [[], ["deliver"], ["pause"], ["start"]] * 2
    assert history[0] == await client.threads.get_state(thread)
    for later, earlier in itertools.pairwise(history):
        assert later["parent_checkpoint"] == earlier["checkpoint"]
    assert history[-1]["parent_checkpoint"] is None
    assert history[4]["values"]["answer"] == "delivered one"
    assert "answer" not in history[3]["values"]
    for state in history:
        assert await client.threads.get_state(thread, checkpoint=state["checkpoint"]) == state
        assert await client.threads.get_state(thread, checkpoint_id=state["checkpoint"]["checkpoint_id"]) == state
    assert await client.threads.get_history(thread, limit=2, before=history[1]["checkpoint"]) == history[2:4]
    assert await client.threads.get_history(thread, limit=100, metadata={"step": 1}) == [history[2], history[6]]
    with pytest.raises(NotFoundError):
        await client.threads.get_state(thread, checkpoint_id="9.9")


async def test_the_state_is_written_by_nodes_only(running: Running, client: Any):
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "parcels", input="one")
    before = await client.threads.get_state(thread)
    with pytest.raises(UnprocessableEntityError, match="by their contracts"):
        await client.threads.update_state(thread, {"answer": "forged"})
    with pytest.raises(UnprocessableEntityError, match="not copied"):
        await client.threads.copy(thread)
    with pytest.raises(UnprocessableEntityError, match="supersteps"):
        await client.threads.create(supersteps=[{"updates": [{"values": {"answer": "forged"}, "as_node": "pause"}]}])
    run = (await client.runs.list(thread))[0]["run_id"]
    with pytest.raises(UnprocessableEntityError, match="not deleted"):
        await client.runs.delete(thread, run)
    assert await client.threads.get_state(thread) == before
    with pytest.raises(UnprocessableEntityError, match="are of 'parcels'"):
        await client.runs.create(thread, "sam", input="hello")


async def test_crons_and_the_store_are_not_found_and_say_why(client: Any):
    with pytest.raises(NotFoundError, match="There are no crons"):
        await client.crons.create("sam", schedule="* * * * *", input={})
    with pytest.raises(NotFoundError, match="There is no store"):
        await client.store.put_item(["a"], "b", {"c": 1})
    with pytest.raises(NotFoundError, match="There is no store"):
        await client.store.search_items(["a"])


async def test_the_first_runs_of_a_thread_that_start_at_once_agree_on_its_graph(client: Any):
    thread = (await client.threads.create())["thread_id"]
    starts = [client.runs.create(thread, name, input="now") for name in ("parcels", "sam", "parcels", "sam")]
    results = await asyncio.gather(*starts, return_exceptions=True)
    runs = [one for one in results if not isinstance(one, BaseException)]
    assert len(runs) == 2
    assert len({one["assistant_id"] for one in runs}) == 1
    assert all(isinstance(one, UnprocessableEntityError) for one in results if isinstance(one, BaseException))
    assert {one["run_id"] for one in await client.runs.list(thread)} == {one["run_id"] for one in runs}


def filled(route: ServerRoute, **values: str) -> str:
    return re.sub(r"{(\w+)}", lambda name: values.get(name[1], "1"), route.path)


def body_of(route: ServerRoute) -> dict[str, Any]:
    if route.path.endswith(("/runs", "/runs/stream", "/runs/wait")):
        return {"assistant_id": "parcels", "input": "forged"}
    answer = {"interrupt_id": "x", "response": "forged"}
    bodies: dict[str, dict[str, Any]] = {
        "/threads/{thread}": {"metadata": {}},
        "/threads/{thread}/state/checkpoint": {"checkpoint": {}},
        "/threads/{thread}/stream/events": {"channels": ["values"]},
        "/threads/{thread}/commands": {"id": 1, "method": "input.respond", "params": answer},
    }
    return bodies.get(route.path, {})


async def call(client: httpx.AsyncClient, route: ServerRoute, **values: str) -> tuple[int, str]:
    response = await client.request(route.method, filled(route, **values), json=body_of(route) if route.method != "GET" else None)
    text = response.text
    for value in values.values():
        text = text.replace(value, "")
    return response.status_code, text


async def test_threads_and_runs_of_another_tenant_are_not_found_like_those_that_do_not_exist(running: Running):
    owner = running.client(await running.key("a", tenant="one"))
    other = running.client(await running.key("b", tenant="two"))
    thread = (await owner.post("/threads", json={"metadata": {"secret": "s3cret"}})).json()["thread_id"]
    await owner.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "parcels", "input": "ask"})
    run = (await owner.get(f"/threads/{thread}/runs")).json()[0]["run_id"]
    owned, missing = {"thread": thread, "run": run}, {"thread": "f" * 36, "run": "e" * 36}
    routes = [route for route in running.server.routes if "thread" in route.param_convertors and not route.path.endswith("crons")]
    assert len(routes) >= 18
    for route in routes:
        seen, unseen = await call(other, route, **owned), await call(other, route, **missing)
        assert seen == unseen, route.name
        assert seen[0] == 404, (route.name, seen)
    for path in ("/threads/search", "/threads/count"):
        assert (await other.post(path, json={})).json() in ([], 0)
    assert (await other.post("/runs/cancel", json={"status": "all"})).status_code == 204
    assert (await owner.get(f"/threads/{thread}")).json()["status"] == "interrupted"


async def test_a_thread_that_is_created_by_condition_is_the_callers_own(running: Running, tmp_path: Path):
    """The same id in another tenant is another thread: neither `if_exists` nor `if_not_exists` reaches the first one."""
    owner = running.client(await running.key("a", tenant="one"))
    other = running.client(await running.key("b", tenant="two"))
    await owner.post("/threads", json={"thread_id": "shared", "metadata": {"of": "one"}})
    await owner.post("/threads/shared/runs/wait", json={"assistant_id": "parcels", "input": "secret"})
    made = (await other.post("/threads", json={"thread_id": "shared", "if_exists": "do_nothing"})).json()
    assert (made["metadata"], made["values"]) == ({}, {})
    body = {"assistant_id": "parcels", "input": "mine", "if_not_exists": "create"}
    values = (await other.post("/threads/shared/runs/wait", json=body)).json()
    assert [one["content"] for one in values["messages"]] == ["mine", "delivered mine"]
    assert (await owner.get("/threads/shared")).json()["metadata"]["of"] == "one"


async def test_a_thread_of_a_role_is_hidden_from_others_and_not_created_again_for_them(running: Running):
    admin = running.client(await running.key("admin", roles=("admin", "user")))
    user = running.client(await running.key("user", roles=("user",)))
    await admin.post("/threads", json={"thread_id": "t"})
    done = await admin.post("/threads/t/runs/wait", json={"assistant_id": "notes.admin", "input": "secret"})
    assert done.json()["notes"] == ["secret"]
    run = (await admin.get("/threads/t/runs")).json()[0]["run_id"]
    for path in ("/threads/t", "/threads/t/state", f"/threads/t/runs/{run}", f"/threads/t/runs/{run}/stream"):
        assert (await user.get(path)).status_code == 404, path
    assert (await user.post("/threads/search", json={})).json() == []
    refused = await user.post("/threads", json={"thread_id": "t", "if_exists": "do_nothing"})
    assert (refused.status_code, refused.json()["code"]) == (409, "session_exists")
    for assistant in ("notes.user", "notes.admin", "parcels"):
        body = {"assistant_id": assistant, "input": "x", "if_not_exists": "create"}
        assert (await user.post("/threads/t/runs", json=body)).status_code == 404, assistant
    assert (await user.post("/runs/wait", json={"assistant_id": "notes.admin", "input": "x"})).status_code == 404
    assert [one["graph_id"] for one in (await user.post("/assistants/search", json={})).json()] == ["notes.user", "parcels", "sam"]
    for path in ("", "/graph", "/schemas", "/subgraphs"):
        assert (await user.get(f"/assistants/notes.admin{path}")).status_code == 404
    assert len((await admin.get("/threads/t/runs")).json()) == 1


@pytest.mark.parametrize("thread", ["..", "*", "a:b", "x" * 65, "a b", "%00"])
async def test_bad_ids_of_threads_are_refused_and_create_nothing(running: Running, thread: str):
    client = running.client()
    for answer in (
        await client.get(f"/threads/{thread.replace('..', '%2e%2e')}/state"),
        await client.post("/threads", json={"thread_id": thread}),
    ):
        assert answer.status_code in {404, 422}, answer.text
    assert (await client.post("/threads/search", json={})).json() == []
