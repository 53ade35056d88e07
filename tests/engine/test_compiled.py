from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph.state import CompiledStateGraph

from interlock import Interlock
from interlock.capabilities import Clock, Ids
from interlock.discovery import AGENTS, load_agent
from interlock.engine.langgraph import drawn
from interlock.errors import AgentUnknown
from interlock.testing import CountingIds, FixedClock
from interlock_agents.sam.capabilities import ModelBackend
from interlock_agents.sam.graph import sam
from interlock_agents.sam.testing import ScriptedBackend

ROOT = Path(__file__).parents[2]


def compiled(*replies: str | Exception) -> Any:
    return Interlock(grants={ModelBackend: ScriptedBackend(*replies), Clock: FixedClock(), Ids: CountingIds()}).langgraph("sam")


def test_the_compiled_graph_is_langgraphs_own():
    assert isinstance(compiled("hi"), CompiledStateGraph)
    assert compiled("hi").name == "sam"


def test_the_compiled_graph_has_exactly_the_rows_nodes_and_edges():
    picture = compiled("hi").get_graph()
    assert set(picture.nodes) == {"__start__", *sam.nodes, "__end__"}
    assert {(edge.source, edge.target) for edge in picture.edges} == {
        ("__start__", "router_node"),
        ("router_node", "state_init_node"),
        ("state_init_node", "decision_logic_node"),
        ("decision_logic_node", "task_preprocessing_node"),
        ("decision_logic_node", "model_call_node"),
        ("decision_logic_node", "format_response_node"),
        ("decision_logic_node", "error_router_node"),
        ("task_preprocessing_node", "decision_logic_node"),
        ("model_call_node", "result_handling_node"),
        ("model_call_node", "error_router_node"),
        ("result_handling_node", "decision_logic_node"),
        ("error_router_node", "format_response_node"),
        ("format_response_node", "__end__"),
    }


@pytest.mark.parametrize("name", AGENTS)
def test_every_graph_is_drawn_by_langgraph_as_its_rows_are(name: str):
    for graph in load_agent(name).graphs:
        nodes, edges = drawn(graph)
        assert nodes == set(graph.nodes)
        assert edges == {("__start__", graph.entry), *((source, target or "__end__") for source, _, target in graph.edges)}


def test_langgraph_draws_the_compiled_graph():
    drawing = compiled("hi").get_graph().draw_mermaid()
    assert all(name in drawing for name in sam.nodes)


async def test_langgraph_runs_the_compiled_graph():
    state = await compiled("hi there").ainvoke({"raw_input": "hello"})
    assert (state["response"].status, state["response"].output) == ("success", "hi there")
    assert state["response"].conversation_id == "id-1"


async def test_a_failing_model_is_a_typed_reply_where_langgraph_runs_the_graph():
    state = await compiled(ConnectionError("refused")).ainvoke({"raw_input": "hello"})
    assert (state["response"].status, state["response"].error_type) == ("error", "backend_unavailable")


async def test_langgraphs_own_events_name_every_node_as_it_starts_and_ends(success_path: tuple[str, ...]):
    seen: list[tuple[str, str]] = []
    async for event in compiled("hi").astream_events({"raw_input": "hello"}, version="v2"):
        node = event["metadata"].get("langgraph_node")
        if node == event["name"]:
            seen.append((event["event"].rpartition("_")[2], node))
    chain = [(moment, node) for moment, node in seen if moment != "stream"]
    assert chain == [(moment, node) for node in success_path for moment in ("start", "end")]


async def test_langgraph_streams_what_each_node_wrote(success_path: tuple[str, ...]):
    updates = [update async for update in compiled("hi").astream({"raw_input": "hello"}, stream_mode="updates")]
    assert [name for update in updates for name in update] == list(success_path)
    assert updates[0] == {"router_node": {"input_type": "text"}}


async def test_several_turns_can_run_on_one_compiled_graph():
    graph = compiled("first", "second")
    outputs = [(await graph.ainvoke({"raw_input": "hello"}))["response"].output for _ in range(2)]
    assert outputs == ["first", "second"]


@pytest.mark.parametrize("name", ["nobody", "sam.other", ""])
def test_a_graph_that_does_not_exist_is_refused_by_name(name: str):
    with pytest.raises(AgentUnknown):
        Interlock().langgraph(name)


def load(reference: str) -> Callable[[], Any]:
    """Load a factory the way LangGraph's server does: FILE:NAME from the root of the repository."""
    path, _, name = reference.partition(":")
    spec = importlib.util.spec_from_file_location("served_for_tests", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def entries() -> list[str]:
    """Name what can be entered: an agent, or each of its graphs that a role enters."""
    agents = [load_agent(name) for name in AGENTS]
    return [agent.name if role is None else graph.name for agent in agents for role, graph in agent.entries.items()]


def test_langgraph_json_names_every_agent_and_what_to_install():
    configuration = json.loads((ROOT / "langgraph.json").read_text())
    assert configuration["graphs"].keys() == set(entries())
    assert configuration["dependencies"] == ["."]


GIVEN: dict[str, dict[str, Any]] = {
    "sam": {"raw_input": "hello"},
    "desk": {"session_id": "served", "text": "What is 2 + 2?"},
    "analyst": {"messages": [{"type": "human", "content": "What is 2 + 2?"}], "user_id": "u", "session_id": "served"},
    "puntini": {"goal": "How many tasks are there?", "session_id": "served"},
    "gateway.admin": {"admin_input": "How much is electricity?"},
    "gateway.user": {"user_input": "How much is electricity?"},
}
SAID: dict[str, Callable[[dict[str, Any]], Any]] = {
    "sam": lambda state: state["response"].status,
    "desk": lambda state: state["reply"],
    "analyst": lambda state: state["messages"][-1].content,
    "puntini": lambda state: state["tool_signature"].tool_name,
    "gateway.admin": lambda state: state["supervisor_response"][:34],
    "gateway.user": lambda state: state["response"].rpartition("\n")[2],
}


@pytest.mark.parametrize("agent", entries())
async def test_what_langgraph_json_names_can_be_loaded_and_runs(agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("INTERLOCK_DATA_DIR", str(tmp_path))
    graph = load(json.loads((ROOT / "langgraph.json").read_text())["graphs"][agent])()
    assert isinstance(graph, CompiledStateGraph)
    state = await graph.ainvoke(GIVEN[agent])
    said = {
        "success",
        "2 + 2 = 4",
        "2 + 2 = 4 [call-1]",
        "No file of the admin has the word ",
        "(from /billing.md; looked up: 'cost' and 'electricity')",
        "query_graph",
    }
    assert SAID[agent](state) in said


def test_the_json_schema_that_langgraphs_server_shows_is_that_of_the_declared_types():
    """The types themselves are open; the schemas by which Interlock validates them are not shown."""
    schema = Interlock().langgraph("analyst").get_input_jsonschema()
    assert "messages" in schema["properties"]
    assert "additionalProperties" not in json.dumps(schema)
