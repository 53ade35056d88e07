"""What can be watched of a turn of the desk: events, spans and the commands that reach the session store."""

from __future__ import annotations

import json
import threading
from typing import Any, Self

import pytest

from interlock import TurnResult
from interlock.engine import ENGINES, EngineName
from interlock.runtime.events import Event
from interlock.testing import Scripted, ScriptedModel
from interlock_agents.desk.graph import GRAPHS, handle_message
from tests.support.desk import PLANNED, SAVED, STRUCTURED_PATH, TOOL_PATH, Store, add, calls, key_of, new_session, plan, said, take
from tests.support.spans import Spans

KEY = "sk-Xq7ZvKXq7ZvKXq7ZvK"
QUERY = calls(("inventory.query", {"query": "oak"}), add())
TURNS: dict[str, tuple[Scripted, ...]] = {
    "tools": (plan(), QUERY, said("Fine.", mark_done=True)),
    "a question": (plan(missing=["x"], next_question="x?"), said("x?")),
    "text": (plan("support.question"), "Hello.", said("Hello.", mark_done=True)),
    "no plan": ("no plan",),
    "denied": (plan(), calls(("os.system", {}))),
    "again": (plan(), QUERY, said("", tools=[{"tool": "math.evaluate"}])),
    "invalid": (plan(), QUERY, said("Wait.", set_status="blocked")),
    "empty": (plan(), QUERY, said("")),
}


async def watched(
    store: Store, engine: EngineName, text: str, *replies: Scripted, turn: str | None = None, **settings: Any
) -> tuple[TurnResult, list[Event]]:
    events: list[Event] = []
    store.ask("DEL", key_of("watched"))
    app = store.shared(engine, ScriptedModel(*replies), fixed=True, **settings)
    return await app.run("desk", text, session="watched", turn=turn, on_event=events.append), events


@pytest.mark.parametrize("replies", TURNS.values(), ids=TURNS)
async def test_both_engines_emit_the_same_events(store: Store, replies: tuple[Scripted, ...]):
    turn = new_session()
    (one, first), (two, second) = [await watched(store, engine, "An oak desk", *replies, turn=turn) for engine in ENGINES]
    assert first == second
    assert one.path == two.path
    assert one.to_json() == two.to_json()


async def test_the_path_has_every_node_with_its_parent_nodes(store: Store, engine: EngineName):
    tools, _ = await watched(store, engine, "An oak desk", *TURNS["tools"])
    assert tools.path == (*PLANNED, *TOOL_PATH, *STRUCTURED_PATH, *SAVED)
    question, _ = await watched(store, engine, "An oak desk", *TURNS["a question"])
    assert question.path == (*PLANNED, *STRUCTURED_PATH, *SAVED)
    text, _ = await watched(store, engine, "An oak desk", *TURNS["text"])
    assert text.path == (*PLANNED, *TOOL_PATH, *STRUCTURED_PATH[1:], *SAVED)
    assert [node for node in tools.path if "/" not in node] == list(handle_message.nodes)


@pytest.mark.parametrize("replies", TURNS.values(), ids=TURNS)
async def test_every_run_is_nested_in_its_parent(store: Store, engine: EngineName, replies: tuple[Scripted, ...]):
    _, events = await watched(store, engine, "An oak desk", *replies)
    parents: dict[str, list[str]] = {}
    open_runs: list[str] = []
    for event in events:
        run, kind = event["run_id"], event["event"].rpartition("_")[2]
        if kind == "start":
            assert run not in parents
            above = event["parent_ids"]
            assert above == ([*parents[above[-1]], above[-1]] if above else [])
            assert set(above) <= set(open_runs)
            parents[run] = above
            open_runs.append(run)
        else:
            assert event["parent_ids"] == parents[run]
            assert run in open_runs
        if kind in {"end", "error"}:
            assert not [one for one in open_runs if run in parents[one]]  # nothing inside it is still open
            open_runs.remove(run)
    assert open_runs == []


async def test_inner_graphs_are_nested_in_the_calling_node(store: Store, engine: EngineName):
    _, events = await watched(store, engine, "An oak desk", *TURNS["tools"])
    names = {event["run_id"]: event["name"] for event in events}
    trees = {event["name"]: [names[run] for run in event["parent_ids"]] for event in events if event["event"].endswith("_start")}
    top = "orchestrator.handle_message"
    runtime = [top, "dispatch_specialist", "specialist.runtime_graph"]
    assert trees["plan_goal"] == [top]
    assert trees["planner.model_graph"] == [top, "plan_goal"]
    assert trees["plan_goal/prompt"] == trees["plan_goal/parse_json"] == [top, "plan_goal", "planner.model_graph"]
    assert trees["dispatch_specialist/tool_path"] == runtime
    assert trees["specialist.tool_planning_graph"] == [*runtime, "dispatch_specialist/tool_path"]
    assert trees["dispatch_specialist/tool_path/model"] == [*runtime, "dispatch_specialist/tool_path", "specialist.tool_planning_graph"]
    inside = [*runtime, "dispatch_specialist/structured_path", "specialist.structured_graph"]
    assert trees["dispatch_specialist/structured_path/model"] == inside
    assert trees["Model.reply"] == [*inside, "dispatch_specialist/structured_path/model"]
    tools = [event["name"] for event in events if event["event"] == "on_tool_start"]
    assert [trees[tool] for tool in tools] == [[top, "dispatch_specialist"]] * 2
    assert {graph.name for graph in GRAPHS} <= trees.keys()
    counts = [event["event"] for event in events if event["event"] in {"on_tool_start", "on_chat_model_start"}]
    assert (counts.count("on_tool_start"), counts.count("on_chat_model_start")) == (2, 3)


async def test_every_run_that_an_error_ends_emits_it(store: Store, engine: EngineName):
    _, events = await watched(store, engine, "An oak desk", *TURNS["denied"])
    failed = [(event["name"], event["data"]["error"]["code"]) for event in events if event["event"] == "on_chain_error"]
    assert failed == [
        (name, "tool_denied") for name in ("dispatch_specialist/tool_path", "specialist.runtime_graph", "dispatch_specialist")
    ]
    assert events[-1]["event"] == "on_chain_end"
    assert events[-1]["data"]["output"]["error"]["code"] == "tool_denied"


def leaks(query: str) -> dict[str, str]:
    """Return a key."""
    return {"query": query, "key": KEY}


LEAKY: dict[str, tuple[str, tuple[Scripted, ...]]] = {
    "the customer": (f"My key is {KEY}", TURNS["tools"]),
    "the planner": ("Hello", (plan(slots_patch={"key": KEY}), QUERY, said("Fine.", mark_done=True))),
    "no plan": ("Hello", (f"no plan {KEY}",)),
    "a call": ("Hello", (plan(), calls(("inventory.query", {"query": KEY})), said("Fine."))),
    "a tool": ("Hello", (plan(), calls(("inventory.query", {"query": "x"})), said("Fine."))),
    "a message": ("Hello", (plan(), QUERY, said(f"It is {KEY}.", memory_update=KEY, slots_patch={KEY: KEY}))),
    "text": ("Hello", (plan(), f"It is {KEY}.", said(f"It is {KEY}."))),
    "a question": ("Hello", (plan(missing=[KEY], next_question=f"{KEY}?"), said(f"{KEY}?"))),
    "a tool that is denied": ("Hello", (plan(), calls((KEY, {KEY: KEY})))),
    "an invalid session": ("Hello", (plan(slots_patch={"a": KEY}), QUERY, said(KEY, set_status="blocked"))),
}


@pytest.mark.parametrize(("text", "replies"), LEAKY.values(), ids=LEAKY)
async def test_no_event_and_no_span_contains_a_key(
    store: Store, engine: EngineName, spans: Spans, *, text: str, replies: tuple[Scripted, ...], caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG", logger="interlock")
    result, events = await watched(store, engine, text, *replies, tool_functions={"inventory.query": f"{__name__}:leaks"})
    assert "[redacted]" in json.dumps(events).lower()
    assert KEY not in json.dumps(events)
    assert KEY not in spans.text()
    assert KEY not in caplog.text
    assert KEY not in str(result.error)


async def test_spans_nest_as_the_graphs_do(store: Store, engine: EngineName, spans: Spans):
    await watched(store, engine, "An oak desk", *TURNS["tools"])
    parents = spans.parents()
    turn = "invoke_agent desk"
    tree = dict(parents)
    assert tree[turn] is None
    nodes = (*PLANNED, *TOOL_PATH, *STRUCTURED_PATH, *SAVED)
    assert sorted(name for name, _ in parents if name.startswith("node ")) == sorted(f"node {node}" for node in nodes)
    for node in nodes:
        above = tree[f"node {node}"]
        if "/" not in node:
            assert above == turn
        else:
            inner = [name for name, inside in parents if name == above and inside == f"node {node.rpartition('/')[0]}"]
            assert inner or above == f"node {node.rpartition('/')[0]}"
    assert ("execute_tool math.evaluate", "node dispatch_specialist") in parents
    assert ("call SessionWriter.save", "node validate_and_save_state") in parents
    assert "node dispatch_specialist/tool_path/model" in {above for name, above in parents if name.startswith("chat")}


class Monitor:
    """Listens to every command that reaches a server."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commands: list[list[str]] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def _listen(self) -> None:
        with self._store.client() as client, client.monitor() as monitor:
            self._ready.set()
            for told in monitor.listen():
                if told["command"] == "ECHO the-end":
                    return
                if told["client_type"] != "lua":
                    self.commands.append(told["command"].split(" "))

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._store.ask("ECHO", "the-end")
        self._thread.join(10)
        assert not self._thread.is_alive()

    def keys(self) -> set[str]:
        places = {"GETRANGE": 1, "GET": 1, "EXISTS": 1, "EVALSHA": 3, "STRLEN": 1}
        found = {command[places[command[0]]] for command in self.commands if command[0] in places}
        for command in self.commands:
            if command[0] == "EVAL":
                found |= {word for word in command if word.startswith("conv:") and word.endswith(":session")}
        return found


async def test_only_one_key_of_the_session_store_is_used(own_store: Store, engine: EngineName):
    legacy = {f"atod:session:{session}": b'{"version": 9}' for session in ("one", "two")}
    for key, value in legacy.items():
        own_store.ask("SET", key, value)
    async with own_store.app(engine) as app:
        with Monitor(own_store) as monitor:
            for session in ("one", "two"):
                for text in ("I want to buy an oak bar stool 45 cm", "How do I return a product?", "2"):
                    result = await app.run("desk", text, session=session)
                    assert result.error is None
                assert result.metadata["version"] == 3
    assert {command[0] for command in monitor.commands} <= {"GETRANGE", "EXISTS", "EVALSHA", "EVAL"}
    assert monitor.keys() == {"conv:one:agent:session", "conv:two:agent:session"}
    assert "atod" not in str(monitor.commands)
    assert set(own_store.ask("KEYS", "*")) == {*(key.encode() for key in legacy), b"conv:one:agent:session", b"conv:two:agent:session"}
    assert {key: own_store.ask("GET", key) for key in legacy} == legacy
    assert 0 < own_store.ask("TTL", key_of("one")) <= 24 * 60 * 60


async def test_a_session_expires_after_the_configured_time(store: Store, engine: EngineName):
    session = new_session()
    await take(store, engine, "Hello", *TURNS["text"], session=session, session_seconds=100)
    assert 0 < store.ask("TTL", key_of(session)) <= 100
    store.ask("EXPIRE", key_of(session), "5")
    await take(store, engine, "Hello", *TURNS["text"], session=session, session_seconds=100)
    assert 5 < store.ask("TTL", key_of(session)) <= 100
