"""What a person and a pipe see of puntini: turns that wait, answers that come later, pictures of the graph."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interlock_agents.puntini.graph_store import AddNode, Node
from interlock_agents.puntini.graphs.ladybug import open_ladybug
from interlock_agents.puntini.spec import OPTIONS

Command = Callable[..., subprocess.CompletedProcess[str]]

RIVAL = Path(__file__).parents[1] / "agents/graphs/store_rival.py"
TWINS = ("Create a task Design", "Create a person Design")
UNSURE = "Set the status of Design to done"

MODULE = '''
"""A model by script that notes each time that it is asked, and a store that notes each change and cannot be read."""

import os
from pathlib import Path

from interlock_agents.puntini.graphs.ladybug import open_ladybug
from interlock.capabilities import Model
from interlock_agents.puntini.graph_store import GraphStore
from interlock.errors import StoreUnavailable
from interlock.testing import ScriptedModel


def note(name):
    with open(name, "a") as file:
        file.write("x")


class Noting(ScriptedModel):
    async def decide(self, messages, *, schema):
        note("asked")
        return await super().decide(messages, schema=schema)


class Store:
    def __init__(self):
        self._store = None

    def _opened(self):
        if self._store is None:
            self._store = open_ladybug(Path("data/graphs"), timeout_s=10.0, max_rows=1000, max_bytes=500_000)
        return self._store

    async def apply(self, graph, changes):
        note("applied")
        return await self._opened().apply(graph, changes)

    async def preview(self, graph, changes):
        return await self._opened().preview(graph, changes)

    async def nodes(self, graph, **more):
        raise StoreUnavailable("The disk is away.")

    async def edges(self, graph, **more):
        return await self._opened().edges(graph, **more)

    async def query(self, graph, text, parameters, **more):
        return await self._opened().query(graph, text, parameters, **more)


def step(name, **args):
    return {"step_number": 1, "tool_signature": {"tool_name": name, "tool_args": args}, "is_final_step": False}


goal = {"goal": {"original_goal": "g", "intent": "i", "complexity": "complex", "estimated_steps": 2}}
edge = step("add_edge", from_node="a", to_node="missing", relationship="NEEDS")
grants = {Model: Noting(goal, step("add_node", label="Task", key="a"), edge, edge), GraphStore: Store()}
'''


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"INTERLOCK_ENGINE": "direct", "INTERLOCK_DATA_DIR": str(tmp_path / "data")}


def as_json(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return json.loads(ran.stdout)


def graph_of(interlock: Command, session: str = "s") -> dict[str, Any]:
    return as_json(interlock("graphs", "draw", session, "--format", "json"))


def written(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_another_process_resumes_a_suspended_turn(interlock: Command, tmp_path: Path):
    (tmp_path / "noting.py").write_text(MODULE)
    noting = ("--grants", "noting:grants")
    ran = interlock("run", "puntini", "Do it.", "--session", "s", "--json", *noting)
    result = as_json(ran)
    assert (ran.returncode, result["status"], result["error"]) == (0, "waiting", None)
    waiting = result["metadata"]["waiting"]
    assert waiting["options"] == list(OPTIONS)
    assert waiting["question"] == result["output"]
    asked, applied = written(tmp_path / "asked"), written(tmp_path / "applied")
    assert (len(asked), len(applied)) == (3, 1)

    shown = interlock("run", "puntini", "--session", "s", "--json", *noting)
    assert as_json(shown)["metadata"]["waiting"] == waiting, "the question can be seen again"

    ran = interlock("run", "puntini", "--session", "s", "--answer", "2", "--json", *noting)
    answered = as_json(ran)
    assert (ran.returncode, answered["status"], answered["turn"]) == (0, "success", result["turn"])
    assert answered["path"] == [*result["path"], "answer"]
    assert "Left out, as you said" in answered["output"]
    assert (written(tmp_path / "asked"), written(tmp_path / "applied")) == (asked, applied), "nothing twice"

    nothing = interlock("run", "puntini", "--session", "s", "--answer", "3", "--json", *noting)
    assert (nothing.returncode, as_json(nothing)["error"]["code"]) == (2, "nothing_waits")


def twins(interlock: Command) -> subprocess.CompletedProcess[str]:
    """Ask for a change of one of two nodes that have the same name."""
    interlock("chat", "puntini", "--session", "s", stdin="\n".join([*TWINS, ""]).encode())
    return interlock("run", "puntini", UNSURE, "--session", "s")


def test_a_person_sees_the_question_and_the_answer_is_applied_at_once(interlock: Command):
    ran = twins(interlock)
    assert ran.returncode == 0
    asked = ["'Design' could be Person Design or Task Design. Which one do you mean?", "  1  Person Design", "  2  Task Design"]
    assert ran.stdout.splitlines()[:3] == asked
    assert "interlock run puntini --session s --answer 'Person Design'" in ran.stdout
    again = interlock("run", "puntini", "--session", "s")
    assert again.stdout == ran.stdout, "the question is shown to whoever comes back"
    answered = interlock("run", "puntini", "--session", "s", "--answer", "the task")
    assert answered.stdout == "You mean Task Design. Changed Task Design (status: done).\n"


def test_run_accepts_an_answer_or_a_new_goal_that_ends_the_open_one(interlock: Command):
    twins(interlock)
    answered = interlock("run", "puntini", "Person", "--session", "s")
    assert "Which one do you mean?" in answered.stdout, "the open question comes first"
    assert answered.stdout.endswith("You mean Person Design. Changed Person Design (status: done).\n")
    assert "--answer" not in answered.stdout, "the question is answered already"
    interlock("run", "puntini", "Set the size of Design to 3", "--session", "s")
    other = interlock("run", "puntini", "Create a task Build", "--session", "s")
    assert "Which one do you mean?" in other.stdout
    assert other.stdout.endswith("Added Task Build.\n")
    assert "The earlier question was not answered: Given up: 'Set the size of Design to 3'." in other.stderr
    assert interlock("run", "puntini", "--session", "s", "--answer", "1").returncode == 2
    interlock("run", "puntini", "Set the size of Design to 3", "--session", "s")
    ended = interlock("run", "puntini", "--session", "s", "--answer", "abort")
    assert "Given up" in ended.stdout


def test_concurrent_answers_of_two_processes_are_applied_once(interlock: Command):
    twins(interlock)

    def say(text: str) -> subprocess.CompletedProcess[str]:
        return interlock("run", "puntini", "--session", "s", "--answer", text, "--json")

    with ThreadPoolExecutor(2) as pool:
        ran = list(pool.map(say, ("1", "person")))
    results = [as_json(one) for one in ran]
    assert sorted(one["status"] for one in results) == ["error", "success"]
    [refused] = [one["error"]["code"] for one in results if one["status"] == "error"]
    assert refused in {"nothing_waits", "record_invalid", "store_unavailable", "session_busy"}


def test_a_graph_that_another_process_has_open_asks_no_question(interlock: Command, tmp_path: Path):
    added = interlock("run", "puntini", "Create a task Design", "--session", "s")
    assert added.returncode == 0, added.stderr
    command = [sys.executable, str(RIVAL), str(graphs_of(tmp_path)), "s"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as rival:
        assert rival.stdout is not None
        assert rival.stdin is not None
        assert rival.stdout.readline() == b"open\n"
        busy = interlock("run", "puntini", "Create a task Build", "--session", "s", "--json", env={"INTERLOCK_GRAPH_SECONDS": "0.2"})
        assert (busy.returncode, as_json(busy)["status"], as_json(busy)["error"]["code"]) == (1, "error", "session_busy")
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(interlock, "run", "puntini", "Create a task Build", "--session", "s", "--json")
            rival.stdin.close()
            assert as_json(waits.result())["status"] == "success"
    assert [node["key"] for node in graph_of(interlock)["nodes"]] == ["Build", "Design", "theirs"]


def graphs_of(folder: Path) -> Path:
    [found] = {file.parent for file in folder.rglob("*.lbug")}
    return found


@pytest.mark.parametrize("left", [0, 5000])
def test_a_damaged_graph_asks_no_question_and_is_unchanged(interlock: Command, tmp_path: Path, left: int):
    assert interlock("run", "puntini", "Create a task Design", "--session", "s").returncode == 0
    [file] = graphs_of(tmp_path).glob("*.lbug")
    file.write_bytes(broken := file.read_bytes()[:left])
    ran = interlock("run", "puntini", "Create a task Build", "--session", "s", "--json")
    assert (ran.returncode, as_json(ran)["error"]["code"]) == (1, "store_corrupt")
    assert file.read_bytes() == broken


def test_a_chat_shows_the_question_and_accepts_an_answer_or_a_new_goal(interlock: Command):
    said = "\n".join([*TWINS, UNSURE, "2", "Set the size of Design to 3", "List all tasks", "Set the size of Design to 3", ""])
    ran = interlock("chat", "puntini", "--session", "s", stdin=said.encode())
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("  1  Person Design") == 3
    assert "You mean Task Design. Changed Task Design (status: done)." in ran.stdout
    assert "The earlier question was not answered" in ran.stderr
    assert "--answer" not in ran.stdout, "one answers by typing"
    assert "| Task | Design | done |" in ran.stdout
    again = interlock("chat", "puntini", "--session", "s", stdin=b"person\nblah blub\nundo\n")
    assert "Which one do you mean?" in again.stdout, "the chat begins with what is open"
    assert "Changed Person Design (size: 3)." in again.stdout
    assert again.stdout.splitlines()[-1] == "Undone: 'Set the size of Design to 3'. Changed Person Design (size removed)."


def test_a_sentence_that_is_not_understood_does_not_suspend_the_turn(interlock: Command):
    for human in ("wait", "nobody"):
        ran = interlock("run", "puntini", "blah blub", "--json", env={"INTERLOCK_HUMAN": human})
        assert as_json(ran)["status"] == "success"
        assert "blah" in as_json(ran)["output"]


def test_the_graph_of_a_session_is_drawn(interlock: Command, tmp_path: Path):
    created = "Create a project Apollo with tasks Design and Build, and assign Ada to Design"
    assert interlock("run", "puntini", created, "--session", "s").returncode == 0
    data = graph_of(interlock)
    assert [node["key"] for node in data["nodes"]] == ["Ada", "Apollo", "Build", "Design"]
    assert len(data["edges"]) == 3
    mermaid = interlock("graphs", "draw", "s")
    assert mermaid.stdout.startswith("flowchart LR\n")
    assert '["Project Apollo"]' in mermaid.stdout
    svg = interlock("graphs", "draw", "s", "--format", "svg")
    texts = "".join(ET.fromstring(svg.stdout).itertext())  # noqa: S314 - ours
    assert all(title in texts for title in ("Project Apollo", "Task Design", "Task Build", "Person Ada"))
    for form in ("svg", "json", "mermaid"):
        ran = interlock("graphs", "draw", "s", "--format", form, "--output", f"out.{form}")
        assert (ran.returncode, ran.stdout) == (0, "")
        assert "4 nodes and 3 edges" in ran.stderr
    assert json.loads((tmp_path / "out.json").read_text()) == data
    ET.parse(tmp_path / "out.svg")  # noqa: S314 - ours
    cut = interlock("graphs", "draw", "s", "--limit", "2")
    assert cut.stdout.count("[") == 2
    assert "only the first 2" in cut.stderr
    lost = interlock("graphs", "draw", "s", "--output", "missing/out.svg")
    assert (lost.returncode, "store_unavailable" in lost.stderr) == (2, True)


def test_graphs_are_listed_and_deleted(interlock: Command, tmp_path: Path):
    assert interlock("graphs").stdout == ""
    for session in ("one", "two"):
        interlock("run", "puntini", "Create a task Design", "--session", session)
    listed = interlock("graphs").stdout.splitlines()
    assert [line.split("\t")[0] for line in listed] == ["one", "two"]
    found = json.loads(interlock("graphs", "--json").stdout)
    assert [(one["name"], one["size"] > 0) for one in found] == [("one", True), ("two", True)]
    asked = interlock("graphs", "delete", "one")
    assert (asked.returncode, "--yes" in asked.stderr) == (2, True)
    assert len(graph_of(interlock, "one")["nodes"]) == 1, "nothing is deleted without a yes"
    deleted = interlock("graphs", "delete", "one", "--yes", "--json")
    assert as_json(deleted) == {"deleted": "one"}
    assert [one["name"] for one in json.loads(interlock("graphs", "--json").stdout)] == ["two"]
    assert len({file.name.split(".")[0] for file in graphs_of(tmp_path).iterdir()}) == 1, "nothing of it is left"
    again = interlock("graphs", "delete", "one", "--yes")
    assert (again.returncode, "not_in_graph" in again.stderr) == (2, True)
    assert len(graph_of(interlock, "two")["nodes"]) == 1
    [damaged] = graphs_of(tmp_path).glob("*.lbug")
    damaged.write_bytes(damaged.read_bytes()[:5000])
    assert interlock("graphs", "delete", "two", "--yes").returncode == 0, "a graph that cannot be read can be deleted"
    assert interlock("graphs").stdout == ""


def test_a_picture_of_more_than_the_limit_says_so(interlock: Command, tmp_path: Path):
    async def fill() -> None:
        store = open_ladybug(tmp_path / "data" / "graphs", timeout_s=30.0, max_rows=1000, max_bytes=50_000_000)
        await store.apply("s", tuple(AddNode(node=Node(label="Task", key=f"t{number:04}")) for number in range(1200)))
        await store.aclose()

    asyncio.run(fill())
    for limit, drawn in ((1000, 1000), (1100, 1100), (1200, 1200), (5000, 1200)):
        ran = interlock("graphs", "draw", "s", "--format", "json", "--limit", str(limit))
        assert len(as_json(ran)["nodes"]) == drawn
        assert (f"only the first {limit} are drawn" in ran.stderr) == (limit < 1200)


def test_a_session_without_a_graph_is_drawn_empty(interlock: Command, tmp_path: Path):
    begun = time.monotonic()
    assert graph_of(interlock, "nobody") == {"nodes": [], "edges": []}
    assert time.monotonic() - begun < 60
    assert not list((tmp_path / "data").glob("graphs/*nobody*")), "looking at it does not make it"


@pytest.mark.parametrize(
    "arguments",
    [
        ("graphs", "draw"),
        ("graphs", "draw", "s", "--format", "png"),
        ("graphs", "draw", "../s"),
        ("graphs", "draw", ""),
        ("graphs", "draw", "s", "--limit", "0"),
        ("graph", "nobody"),
        ("run", "puntini", "Do it.", "--session", "s", "--answer", "Yes."),
        ("run", "puntini", "--answer", "Yes."),
        ("run", "puntini", "--session", "s", "--answer", "Yes.", "--record", "r"),
        ("run", "puntini", "--session", "a/b", "--answer", "Yes."),
        ("run", "puntini", "--session", "s", "--answer", " "),
        ("run", "sam", "--session", "s", "--answer", "Yes."),
        ("run", "puntini", "Do it.", "--session", "a b"),
        ("run", "puntini", ""),
    ],
    ids=" ".join,
)
def test_a_failure_is_reported_in_one_sentence(interlock: Command, tmp_path: Path, arguments: tuple[str, ...]):
    ran = interlock(*arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.strip()
    assert not (tmp_path / "data").exists()
