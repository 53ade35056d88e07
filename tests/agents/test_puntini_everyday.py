"""What people type first to puntini, offline: the judged reply, and what is in the graph afterwards."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from pydantic import JsonValue

from interlock import Interlock, Settings
from interlock_agents.puntini.graph_store import AddEdge, AddNode, Change, Changed, DeleteNode, Edge, GraphStore, Node, NodeRef, Rows
from tests.support.everyday import FOLDER, Everyday, everyday
from tests.support.puntini import Watched, fresh, opened

CORPUS = everyday("puntini")
STARTS: dict[str, dict[str, list[str]]] = tomllib.loads((FOLDER / "puntini.toml").read_text(encoding="utf-8"))["start"]
NODE = re.compile(r"(?P<label>\S+) (?P<key>[^{]+?)(?: (?P<properties>\{.*\}))?")
EDGE = re.compile(r"(?P<start>.+) -\[(?P<relationship>\w+)\]-> (?P<end>.+)")
SIGNS = {"not_understood": "did not understand", "refusal": "cannot", "not_found": "There is no|No node|No Task|has no|not in the graph"}


class OneGraph(Watched):
    """Keeps the graphs of all sessions that start alike in one, as a server does that has no database for each."""

    graph = "everyday"

    async def apply(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        return await super().apply(self.graph, changes)

    async def preview(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        return await super().preview(self.graph, changes)

    async def nodes(self, graph: str, **more: Any) -> tuple[Node, ...]:
        return await super().nodes(self.graph, **more)

    async def edges(self, graph: str, **more: Any) -> tuple[Edge, ...]:
        return await super().edges(self.graph, **more)

    async def query(self, graph: str, text: str, parameters: dict[str, JsonValue], *, limit: int = 100) -> Rows:
        return await super().query(self.graph, text, parameters, limit=limit)

    async def hold(self, start: str | None) -> None:
        """Let this be in the graph, and nothing else."""
        self.graph = f"everyday_{start}"
        wanted = changes(STARTS[start]) if start is not None else ()
        there = [DeleteNode(ref=NodeRef(label=node.label, key=node.key), detach=True) for node in await self.nodes("", limit=1000)]
        if there or wanted:
            await self.apply("", (*there, *wanted))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def store(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[OneGraph]:
    made = OneGraph(opened("ladybug", tmp_path_factory.mktemp("everyday")))
    yield made
    await made.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(store: OneGraph, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Interlock]:
    settings = Settings(engine="direct", data_dir=tmp_path_factory.mktemp("data"), human="wait")
    async with Interlock(settings, grants={GraphStore: store}) as running:
        yield running


def changes(start: dict[str, list[str]]) -> tuple[Change, ...]:
    """Read a graph that is written in the corpus."""
    found: list[Change] = []
    labels: dict[str, str] = {}
    for text in start["nodes"]:
        match = NODE.fullmatch(text)
        assert match is not None, text
        labels[match["key"]] = match["label"]
        found.append(AddNode(node=Node(label=match["label"], key=match["key"], properties=json.loads(match["properties"] or "{}"))))
    for text in start.get("edges", []):
        match = EDGE.fullmatch(text)
        assert match is not None, text
        ends = [NodeRef(label=labels[match[end]], key=match[end]) for end in ("start", "end")]
        found.append(AddEdge(edge=Edge(start=ends[0], end=ends[1], relationship=match["relationship"])))
    return tuple(found)


async def written(store: OneGraph) -> set[str]:
    """Write a graph as the corpus does."""
    nodes = [
        f"{node.label} {node.key}{f' {json.dumps(node.properties, sort_keys=True)}' if node.properties else ''}"
        for node in await store.nodes("", limit=1000)
    ]
    edges = [f"{edge.start.key} -[{edge.relationship}]-> {edge.end.key}" for edge in await store.edges("", limit=1000)]
    return {*nodes, *edges}


async def asked(app: Interlock, store: OneGraph, one: Everyday) -> tuple[Any, set[str], set[str]]:
    session = fresh("ladybug")
    await store.hold(one.start)
    for earlier in one.before:
        await app.run("puntini", earlier, session=session)
    before = await written(store)
    result = await app.run("puntini", one.text, session=session)
    after = await written(store)
    return result, after - before, before - after


def test_the_corpus_is_large_and_has_no_duplicates():
    assert len(CORPUS) >= 300
    assert len({(one.text, one.before, one.start) for one in CORPUS}) == len(CORPUS)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("one", CORPUS, ids=lambda one: one.text[:60])
async def test_an_everyday_goal_gets_the_judged_answer(app: Interlock, store: OneGraph, one: Everyday):
    result, added, removed = await asked(app, store, one)
    assert not one.faults(result.output), result.output
    assert (sorted(added), sorted(removed)) == (sorted(one.added), sorted(one.removed)), result.output
    assert result.status == ("waiting" if one.kind == "question" else "success"), result.output
    sign = SIGNS.get(one.kind, "")
    assert any(part in result.output for part in sign.split("|")), result.output
    if one.kind in {"answer", "small_talk"}:
        assert "did not understand" not in result.output, result.output
    if one.kind == "not_understood":
        assert result.output.count("'") >= 6, "three goals that work are shown"
