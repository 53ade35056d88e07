from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from interlock.contract.render import as_data, markdown, mermaid
from interlock.drawing import draw
from interlock_agents.sam.graph import sam

Command = Callable[..., CompletedProcess[str]]

GREETER = '''
from typing import Annotated, TypedDict

from interlock import END, Control, Graph, Outcome, Untrusted, node
from typing import Literal


class Chat(TypedDict, total=False):
    text: Annotated[str, Untrusted]
    mood: Annotated[Literal["calm", "loud"], Control]


class Greeted(Outcome):
    mood: Literal["calm", "loud"]


async def greet(text: str) -> Greeted:
    """Greet."""
    return Greeted(mood="loud" if text.isupper() else "calm")


greeter = Graph("greeter", state=Chat, entry=greet, nodes=[node(greet, goes={Greeted: END})], takes=["text"], gives="mood")
not_a_graph = 3
'''


@pytest.fixture
def module(tmp_path: Path) -> str:
    """A module of the user's own, in the current directory."""
    (tmp_path / "greeting.py").write_text(GREETER)
    return "greeting"


def test_agents_lists_every_agent_on_a_line(interlock: Command):
    ran = interlock("agents")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [line.partition("\t")[0] for line in ran.stdout.splitlines()] == ["analyst", "desk", "gateway", "puntini", "sam"]


def test_no_command_and_help_list_the_commands(interlock: Command):
    ran = interlock("--help")
    assert ran.returncode == 0
    for command in ("agents", "show", "run", "verify", "tour"):
        assert f"\n  {command} " in ran.stdout


def test_show_prints_the_contract_table(interlock: Command):
    ran = interlock("show", "sam")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"# sam\n\n{markdown(sam)}\n# speaks to the user: model_call_node\n"


def test_show_prints_the_contracts_as_one_object(interlock: Command):
    ran = interlock("show", "sam", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    shown = json.loads(ran.stdout)
    assert shown == {"agent": "sam", "speaks": ["model_call_node"], "graphs": [json.loads(json.dumps(as_data(sam)))]}
    (graph,) = shown["graphs"]
    assert all(field.keys() == {"type", "labels"} for field in graph["state"].values())
    assert all(node.keys() == {"name", "reads", "uses", "writes", "goes", "may_not"} for node in graph["nodes"])
    assert [node["name"] for node in graph["nodes"]] == list(sam.nodes)
    assert graph["nodes"][-1]["goes"] == {"Formatted": "END"}


def test_a_graph_is_shown_with_exactly_the_documented_keys(interlock: Command):
    (graph,) = json.loads(interlock("show", "sam", "--json").stdout)["graphs"]
    assert graph.keys() == {"name", "entry", "state", "nodes"}


def test_graph_draws_a_flowchart(interlock: Command):
    ran = interlock("graph", "sam")
    assert (ran.returncode, ran.stdout) == (0, mermaid(sam))


def test_graph_draws_a_picture_that_does_not_depend_on_the_fonts_of_the_machine(interlock: Command):
    ran = interlock(
        "graph", "sam", "--format", "svg", env={"FONTCONFIG_FILE": os.devnull, "FONTCONFIG_PATH": os.devnull, "HOME": os.devnull}
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, draw([sam]), "")


def test_a_graph_of_ones_own_is_shown(interlock: Command, module: str):
    (graph,) = json.loads(interlock("show", f"{module}:greeter", "--json").stdout)["graphs"]
    assert (graph["name"], graph["entry"]) == ("greeter", "greet")
    assert graph["state"]["mood"] == {"type": "Literal['calm', 'loud']", "labels": ["Control"]}
    assert graph["nodes"] == [
        {"name": "greet", "reads": ["text"], "uses": [], "writes": ["mood"], "goes": {"Greeted": "END"}, "may_not": ["branch"]}
    ]


@pytest.mark.parametrize(("text", "mood"), [("hello", "calm"), ("HELLO", "loud")])
def test_a_graph_of_ones_own_is_run(interlock: Command, module: str, text: str, mood: str):
    ran = interlock("run", f"{module}:greeter", text)
    assert (ran.returncode, ran.stdout) == (0, f"{mood}\n")


@pytest.mark.parametrize("target", ["nobody", "greeting:nothing", "greeting:not_a_graph", "no.such.module:x", ":", "broken:graph"])
def test_a_target_that_does_not_exist_is_refused_by_name(interlock: Command, module: str, tmp_path: Path, target: str):
    (tmp_path / "broken.py").write_text("raise RuntimeError('not today')")
    ran = interlock("show", target)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("agent_unknown: ")
    assert f"'{target}'" in ran.stderr


def test_a_graph_that_breaks_its_contract_is_refused_with_what_to_change(interlock: Command, module: str, tmp_path: Path):
    (tmp_path / "bad.py").write_text(GREETER.replace("async def greet(text: str)", "async def greet(txt: str)"))
    ran = interlock("show", "bad:greeter")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("contract_invalid: graph 'greeter', node 'greet', field 'txt'")
    assert "Fix: write 'text'." in ran.stderr


def test_one_graph_of_an_agent_is_shown_by_its_name(interlock: Command):
    ran = interlock("show", "planner.model_graph")
    assert ran.stdout.startswith("# planner.model_graph\n")
    assert "orchestrator" not in ran.stdout


def test_what_stands_behind_a_capability_is_shown(interlock: Command):
    shown = interlock("show", "desk").stdout
    assert "- `Planner`: planner.model_graph" in shown
    assert "- `SalesSpecialist`: specialist.runtime_graph(specialist='sales')" in shown
