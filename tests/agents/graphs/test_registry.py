"""The seven tools: what they take, checked before any call, and what each does to a store. Nothing is changed by halves."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator
from typing import Any

import jsonschema
import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.capabilities import ToolRequest
from interlock.errors import InterlockError, QueryTimeout, SessionBusy, StateConflict, StoreCorrupt, StoreFull, StoreUnavailable
from interlock_agents.puntini.graph_store import Changed, Edge, Node, NodeRef
from interlock_agents.puntini.graphs.registry import GraphTools
from interlock_agents.puntini.tool_registry import GraphToolResult
from tests.support.puntini import Watched, opened

NUMBERS = itertools.count()
NAMES = ["add_node", "add_edge", "update_props", "delete_node", "delete_edge", "query_graph", "cypher_query"]
EDGE = {"from_node": "a", "to_node": "b", "relationship": "NEXT"}
INJECTED = [
    "Task) DETACH DELETE (n",
    "Task`",
    "Task {x: 1}",
    "Task:Person",
    "n) RETURN n //",
    "1Task",
    "Task\n",
    " Task",
    "Task-Two",
    "_key",
    "Task\u200b",
    "Ta'sk",
    'Ta"sk',
    "Task;",
    "Task/**/",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def store(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Watched]:
    made = opened("ladybug", tmp_path_factory.mktemp("registry"))
    yield Watched(made)
    await made.aclose()


class Tools:
    """The tools, on a graph of their own."""

    def __init__(self, store: Watched) -> None:
        self.store = Watched(store.store)
        self.graph = f"graph{next(NUMBERS)}"

    async def __call__(self, name: str, /, **args: Any) -> GraphToolResult:
        return await GraphTools().call(self.graph, ToolRequest(tool=name, args=args), store=self.store)

    async def all(self) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
        return await self.store.store.nodes(self.graph, limit=1000), await self.store.store.edges(self.graph, limit=1000)

    async def fill(self) -> None:
        for key in "ab":
            await self("add_node", label="Task", key=key, properties={"n": 1})
        await self("add_edge", **EDGE, properties={"w": 1})
        self.store.applied.clear()
        self.store.read = 0


@pytest.fixture
def tools(store: Watched) -> Tools:
    return Tools(store)


pytestmark = pytest.mark.asyncio(loop_scope="module")

GOOD: dict[str, list[dict[str, Any]]] = {
    "add_node": [{"label": "Task", "key": "a"}, {"label": "T", "key": "k" * 500, "properties": {"x": [1, {"y": None}]}}],
    "add_edge": [EDGE, {**EDGE, "properties": {"since": 2020}}],
    "update_props": [{"target": "a", "properties": {"x": None}}, {"target": EDGE, "properties": {"x": 1}}],
    "delete_node": [{"match": "Task:a"}, {"match": "a", "detach": True}],
    "delete_edge": [{"match": EDGE}],
    "query_graph": [{}, {"label": "Task", "key": "a", "properties": {"x": 1}, "limit": 1000}, {"label": None}],
    "cypher_query": [{"query": "MATCH (n) RETURN n"}, {"query": "RETURN $x", "parameters": {"x": [1]}, "limit": 1}],
}
BAD: dict[str, list[dict[str, Any]]] = {
    "add_node": [
        {},
        {"label": "Task"},
        {"label": "", "key": "a"},
        {"label": "T" * 65, "key": "a"},
        {"label": "Task", "key": ""},
        {"label": "Task", "key": "k" * 501},
        {"label": "Task", "key": 7},
        {"label": "Task", "key": "a", "properties": []},
        {"label": "Task", "key": "a", "properties": {"": 1}},
        {"label": "Task", "key": "a", "properties": {f"p{n}": n for n in range(101)}},
        {"label": "Task", "key": "a", "also": 1},
        {"label": ["Task"], "key": "a"},
    ],
    "add_edge": [
        {},
        {"from_node": "a", "to_node": "b"},
        {**EDGE, "relationship": ""},
        {**EDGE, "from_node": {"key": "a"}},
        {**EDGE, "x": 1},
    ],
    "update_props": [{"target": "a"}, {"target": "a", "properties": {}}, {"target": 7, "properties": {"x": 1}}, {"properties": {"x": 1}}],
    "delete_node": [{}, {"match": ""}, {"match": "a", "detach": "yes"}, {"match": "a", "detach": 1}, {"match": EDGE}],
    "delete_edge": [{}, {"match": "a"}, {"match": {"from_node": "a"}}, {"match": {**EDGE, "x": 1}}],
    "query_graph": [{"limit": 0}, {"limit": -1}, {"limit": 1001}, {"limit": "10"}, {"limit": True}, {"limit": 1.5}, {"label": 7}, {"x": 1}],
    "cypher_query": [
        {},
        {"query": ""},
        {"query": "x" * 20_001},
        {"query": "RETURN 1", "parameters": []},
        {"query": "RETURN 1", "limit": 0},
    ],
}


async def test_the_seven_tools_have_schemas():
    offered = {tool.name: tool for tool in await GraphTools().offered()}
    assert list(offered) == NAMES
    for name, tool in offered.items():
        assert tool.description.endswith(".")
        schema: Any = tool.parameters
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        assert all(validator.is_valid(args) for args in GOOD[name]), name
        assert [args for args in BAD[name] if validator.is_valid(args)] == []
        assert schema["additionalProperties"] is False


@pytest.mark.parametrize("name", NAMES)
async def test_arguments_are_validated_before_the_call(tools: Tools, name: str):
    for args in BAD[name]:
        wrong = await GraphTools().check(ToolRequest(tool=name, args=args))
        assert wrong is not None
        assert f"'{name}'" in wrong
        result = await tools(name, **args)
        assert (result.code, result.error, result.result, result.changed, result.transient) == (
            "tool_input_invalid",
            wrong,
            None,
            None,
            False,
        )
    assert (tools.store.applied, tools.store.read) == ([], 0)
    for args in GOOD[name]:
        assert await GraphTools().check(ToolRequest(tool=name, args=args)) is None


@given(name=st.text(max_size=80).filter(lambda name: name not in NAMES))
async def test_unknown_tools_are_refused(name: str):
    wrong = await GraphTools().check(ToolRequest(tool=name, args={}))
    assert wrong is not None
    assert all(known in wrong for known in NAMES)
    assert len(wrong) < 300


async def test_a_call_returns_its_changes_and_a_repeated_call_changes_nothing(tools: Tools):
    first = await tools("add_node", label="Task", key="a", properties={"n": 1})
    node = Node(label="Task", key="a", properties={"n": 1})
    assert (first.result, first.changed, first.error) == ({"changed": 1}, Changed(nodes_added=(node,)), None)
    await tools("add_node", label="Task", key="b")
    edge = await tools("add_edge", **EDGE)
    assert edge.result == {"changed": 1}
    before = await tools.all()
    for name, args in (("add_node", {"label": "Task", "key": "a", "properties": {"n": 2}}), ("add_edge", {**EDGE, "properties": {"w": 9}})):
        again = await tools(name, **args)
        assert (again.result, again.changed, again.error) == ({"changed": 0}, Changed(), None)
    assert (await tools("update_props", target="a", properties={"n": 1})).result == {"changed": 0}
    assert await tools.all() == before


async def test_each_call_is_one_transaction_of_one_change(tools: Tools):
    await tools.fill()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("add_node", {"label": "Task", "key": "c"}),
        ("add_edge", {"from_node": "b", "to_node": "c", "relationship": "NEXT"}),
        ("update_props", {"target": "c", "properties": {"x": 1, "y": 2}}),
        ("update_props", {"target": EDGE, "properties": {"x": 1}}),
        ("delete_edge", {"match": EDGE}),
        ("delete_node", {"match": "c", "detach": True}),
    ]
    for number, (name, args) in enumerate(calls, start=1):
        assert (await tools(name, **args)).error is None
        assert len(tools.store.applied) == number
        assert len(tools.store.applied[-1]) == 1
    assert await tools.all() == ((Node(label="Task", key="a", properties={"n": 1}), Node(label="Task", key="b", properties={"n": 1})), ())
    for name in ("query_graph", "cypher_query"):
        await tools(name, **({"query": "MATCH (n) RETURN n"} if name == "cypher_query" else {}))
    assert len(tools.store.applied) == len(calls)


async def test_an_update_of_an_edge_changes_only_that_edge(tools: Tools):
    await tools.fill()
    result = await tools("update_props", target=EDGE, properties={"w": None, "note": "x"})
    assert result.changed is not None
    assert [edge.properties for edge in result.changed.edges_changed] == [{"note": "x"}]


async def test_nodes_are_referenced_by_label_and_key_or_by_a_unique_key(tools: Tools):
    for label, key in (("Task", "a"), ("Person", "a"), ("Task", "b"), ("Note", "Task:b"), ("Note", "x:y z")):
        await tools("add_node", label=label, key=key)
    for text, ref in (
        ("Task:a", NodeRef(label="Task", key="a")),
        ("Person:a", NodeRef(label="Person", key="a")),
        ("b", NodeRef(label="Task", key="b")),
        ("Task:b", NodeRef(label="Task", key="b")),
        ("Note:Task:b", NodeRef(label="Note", key="Task:b")),
        ("x:y z", NodeRef(label="Note", key="x:y z")),
    ):
        result = await tools("update_props", target=text, properties={"seen": True})
        assert result.changed is not None, result.error
        assert [(node.label, node.key) for node in result.changed.nodes_changed] == [(ref.label, ref.key)]
        await tools("update_props", target=text, properties={"seen": None})


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("update_props", {"target": "{}", "properties": {"x": 1}}),
        ("delete_node", {"match": "{}", "detach": True}),
        ("add_edge", {**EDGE, "from_node": "{}"}),
        ("add_edge", {**EDGE, "to_node": "{}"}),
        ("delete_edge", {"match": {**EDGE, "to_node": "{}"}}),
        ("update_props", {"target": {**EDGE, "from_node": "{}"}, "properties": {"x": 1}}),
    ],
)
async def test_a_missing_or_ambiguous_node_is_an_error_and_nothing_changes(tools: Tools, name: str, args: dict[str, Any]):
    await tools.fill()
    for label in ("Task", "Person"):
        await tools("add_node", label=label, key="twin")
    before = await tools.all()
    tools.store.applied.clear()

    def meant(value: Any, text: str) -> Any:
        if isinstance(value, dict):
            return {key: meant(inner, text) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
        return text if value == "{}" else value

    for text, code in (
        ("nobody", "not_in_graph"),
        ("Task:nobody", "not_in_graph"),
        ("Nobody:a", "not_in_graph"),
        ("twin", "match_ambiguous"),
    ):
        result = await tools(name, **meant(args, text))
        assert (result.code, result.result, result.changed) == (code, None, None), result
        assert result.error is not None
        assert text.rpartition(":")[2] in result.error
        if code == "match_ambiguous":
            assert "'Person:twin', 'Task:twin'" in result.error
    assert (tools.store.applied, await tools.all()) == ([], before)


async def test_a_node_with_edges_needs_detach(tools: Tools):
    await tools.fill()
    before = await tools.all()
    refused = await tools("delete_node", match="a")
    assert refused.code == "node_has_edges"
    assert await tools.all() == before
    done = await tools("delete_node", match="a", detach=True)
    assert done.changed is not None
    assert (len(done.changed.nodes_removed), len(done.changed.edges_removed), done.result) == (1, 1, {"changed": 2})
    missing = await tools("delete_edge", match=EDGE)
    assert missing.code == "not_in_graph"


@pytest.mark.parametrize("name", INJECTED)
async def test_an_invalid_name_is_denied_in_every_argument(tools: Tools, name: str):
    await tools.fill()
    before = await tools.all()
    tools.store.applied.clear()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("add_node", {"label": name, "key": "x"}),
        ("add_node", {"label": "Task", "key": "x", "properties": {name: 1}}),
        ("add_edge", {**EDGE, "relationship": name}),
        ("add_edge", {**EDGE, "relationship": "OTHER", "properties": {name: 1}}),
        ("update_props", {"target": "a", "properties": {name: 1}}),
        ("update_props", {"target": {**EDGE, "relationship": name}, "properties": {"x": 1}}),
        ("delete_edge", {"match": {**EDGE, "relationship": name}}),
        ("query_graph", {"label": name}),
        ("query_graph", {"properties": {name: 1}}),
    ]
    for tool, args in calls:
        result = await tools(tool, **args)
        assert (result.code, result.transient, result.changed) == ("query_denied", False, None), (tool, args, result)
    assert (tools.store.applied, await tools.all()) == ([], before)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60),
    value=st.text(st.characters(exclude_categories=["Cs", "Cc"])),
)
async def test_any_text_is_allowed_in_keys_and_values(tools: Tools, key: str, value: str):
    mine = Tools(tools.store)
    added = await mine("add_node", label="Task", key=key, properties={"p": value})
    if added.error is not None:
        assert added.code == "tool_input_invalid"
        return
    found = await mine("query_graph", key=key, properties={"p": value})
    assert found.result == {"nodes": [{"label": "Task", "key": key, "properties": {"p": value}}], "more": False}
    assert len((await mine.all())[0]) == 1


async def test_a_limit_is_applied_and_reported(tools: Tools):
    for number in range(4):
        await tools("add_node", label="Task", key=f"k{number}")
    for limit, more in ((3, True), (4, False), (5, False)):
        found: Any = (await tools("query_graph", limit=limit)).result
        assert (len(found["nodes"]), found["more"]) == (min(limit, 4), more)
        rows: Any = (await tools("cypher_query", query="MATCH (n:Task) RETURN n.key", limit=limit)).result
        assert (len(rows["rows"]), rows["more"], len(rows["columns"])) == (min(limit, 4), more, 1)
    assert (await tools("query_graph", label="Nothing")).result == {"nodes": [], "more": False}


@pytest.mark.parametrize(
    "query",
    [
        "MATCH (n) DETACH DELETE n",
        "CREATE (n:Task {key: 'x'})",
        "MATCH (n) SET n.x = 1",
        "MATCH (n) RETURN n; MATCH (n) DELETE n",
        "MERGE (n:Task {key: 'x'}) RETURN n",
        "LOAD FROM '/etc/passwd' RETURN *",
        "CALL show_tables() RETURN *",
        "DROP TABLE Task",
    ],
)
async def test_cypher_that_does_more_than_read_is_not_run(tools: Tools, query: str):
    await tools.fill()
    before = await tools.all()
    result = await tools("cypher_query", query=query)
    is_write = query.startswith(("MATCH (n) DETACH", "CREATE", "MATCH (n) SET", "MERGE"))
    assert (result.code, result.result) == ("approval_needed" if is_write else "query_denied", None)
    assert (await tools.all(), tools.store.applied) == (before, [])


async def test_invalid_cypher_is_an_error_of_the_call(tools: Tools):
    await tools.fill()
    result = await tools("cypher_query", query="MATCH (n RETURN n")
    assert result.code in {"tool_input_invalid", "query_denied"}
    parameters: dict[str, JsonValue] = {"key": "a'}) DETACH DELETE n //"}
    found: Any = await tools("cypher_query", query="MATCH (n:Task {key: $key}) RETURN n.key", parameters=parameters)
    assert found.result["rows"] == []


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (StoreUnavailable("x"), True),
        (StateConflict("x"), True),
        (QueryTimeout("x"), True),
        (StoreFull("x"), True),
    ],
)
async def test_an_error_of_the_store_is_an_error_of_the_call(tools: Tools, error: Any, *, transient: bool):
    tools.store.always = error
    result = await tools("add_node", label="Task", key="a")
    assert (result.code, result.error, result.result, result.changed) == (error.code, "x", None, None)
    assert result.transient == error.transient == transient


@pytest.mark.parametrize("error", [SessionBusy("x"), StoreCorrupt("x")])
async def test_a_busy_or_corrupt_store_is_raised(tools: Tools, error: InterlockError):
    tools.store.always = error
    with pytest.raises(type(error)):
        await tools("add_node", label="Task", key="a")


async def test_other_exceptions_are_raised(tools: Tools):
    tools.store.always = RuntimeError("a bug")
    with pytest.raises(RuntimeError):
        await tools("add_node", label="Task", key="a")
