"""What an installation brings: a small core, and each agent by its own extra, in environments with nothing else."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from interlock_agents import INTRODUCED
from tests.support.environments import Environment, build_wheel, make_environment

ROOT = Path(__file__).parents[2]
MB = 1_000_000
ASKS = {
    "sam": ["hello"],
    "desk": ["Do you have oak desks?", "--session", "s"],
    "analyst": ["How many orders in 2025?", "--session", "s"],
    "gateway": ["What is in the docs?", "--as", "user"],
    "puntini": ["Create a project Apollo with tasks Design and Build", "--session", "s"],
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return make_environment(tmp_path_factory.mktemp("core") / "env", wheel, set())


def test_the_core_is_small(core: Environment):
    assert core.size < 60 * MB


def test_the_example_of_the_readme_runs_on_the_core_alone(core: Environment, tmp_path: Path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\s*```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    program = tmp_path / "example.py"
    program.write_text(found[1])
    ran = core.run(str(program))
    assert (ran.returncode, ran.stdout) == (0, found[2]), ran.stderr


def test_the_core_has_no_engine_but_its_own_and_says_so(core: Environment):
    checks = {one["what"]: one for one in json.loads(core.interlock("doctor", "--json").stdout)["checks"]}
    assert checks["engine"]["found"] == "direct (LangGraph is not installed)"
    assert "interlock[langgraph]" in checks["engine"]["fix"]
    refused = core.interlock("doctor", "--json", INTERLOCK_ENGINE="langgraph")
    assert {one["what"]: one["state"] for one in json.loads(refused.stdout)["checks"]}["engine"] == "broken"


def test_agents_that_are_not_installed_are_listed_with_what_installs_them(core: Environment):
    listed = core.interlock("agents").stdout.splitlines()
    assert listed == [f"{name}\tnot installed: pip install 'interlock[{name}]'" for name in sorted(INTRODUCED)]


@pytest.mark.parametrize("agent", INTRODUCED)
def test_an_agent_that_is_not_installed_is_refused_with_what_installs_it(core: Environment, agent: str):
    refused = core.interlock("run", agent, *ASKS[agent])
    assert refused.returncode == 2
    assert refused.stderr.strip() == f"extra_missing: Agent '{agent}' is not installed completely. Run: pip install 'interlock[{agent}]'"


@pytest.mark.parametrize(
    ("settings", "capability", "extra"),
    [("model='openai:gpt-5'", "Model", "openai"), ("", "SessionStore", "redis"), ("", "Memory", "langgraph")],
    ids=["model", "sessions", "memory"],
)
def test_what_a_capability_needs_is_named_where_it_is_missing(
    core: Environment, tmp_path: Path, settings: str, capability: str, extra: str
):
    program = tmp_path / "own.py"
    program.write_text(
        "from interlock import *\n"
        f"from interlock.capabilities import {capability}\n"
        "agent = Agent(name='own', summary='', graphs=(), entries={}, reply=Reply)\n"
        f"try:\n    Interlock(Settings({settings})).adapter(agent, {capability})\n"
        "except InterlockError as error:\n    print(error.code, error)\n"
    )
    ran = core.run(str(program))
    assert ran.stdout.startswith("extra_missing "), ran.stderr
    assert f"pip install 'interlock[{extra}]'" in ran.stdout


@pytest.mark.parametrize("agent", INTRODUCED)
def test_the_extra_of_an_agent_is_enough_for_it(agent: str, wheel: Path, tmp_path: Path):
    environment = make_environment(tmp_path / "env", wheel, {agent})
    ran = environment.interlock("run", agent, *ASKS[agent], "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["status"] == "success"
    verified = environment.interlock("show", agent)
    assert verified.returncode == 0, verified.stderr


def test_a_command_whose_package_is_missing_says_what_installs_it(core: Environment):
    refused = core.interlock("verify", "interlock.cli.minimal:agent")
    assert refused.returncode == 2
    assert (
        refused.stderr
        == "extra_missing: Package 'langchain-core' is not installed, and this needs it. Run: pip install 'interlock[langgraph]'\n"
    )


def test_the_readme_of_the_package_has_no_links_that_need_the_repository(wheel: Path):
    with zipfile.ZipFile(wheel) as packed:
        (metadata,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
        text = packed.read(metadata).decode()
    assert "# Interlock" in text
    assert "Description-Content-Type: text/markdown" in text
    assert "Tutorial: create an agent" in text
    assert [link for link in re.findall(r"\]\(([^)]*)\)", text) if not link.startswith(("http:", "https:"))] == []


def test_the_version_is_printed(core: Environment):
    assert re.fullmatch(r"interlock \d+\.\d+\.\d+\n", core.interlock("--version").stdout)
