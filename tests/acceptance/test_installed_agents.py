"""Agents are found by entry points: a package that names one in the group `interlock.agents` is known to every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.errors import AgentUnknown
from interlock.installed import AGENTS, load_installed

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "little-shop"
version = "1.0"

[project.entry-points."interlock.agents"]
shop = "little_shop:agent"

[tool.hatch.build.targets.wheel]
packages = ["little_shop"]
"""

MODULE = '''
"""Tells when the shop is open."""

from dataclasses import dataclass
from typing import Protocol

from interlock import END, Agent, Capability, Graph, Outcome, Reply, node
from interlock.providers.provider import Check, Context, Provider
from interlock.settings import AgentSettings


class ShopSettings(AgentSettings):
    shop_name: str = "the corner shop"


class Hours(Capability, Protocol):
    async def of(self, day: str) -> str: ...


class WrittenHours:
    def __init__(self, name: str) -> None:
        self._name = name

    async def of(self, day: str) -> str:
        return f"{self._name} opens at nine on {day}."


async def check(context: Context):
    yield Check(what="hours", state="ok", found=context.settings.of(ShopSettings).shop_name)


@dataclass
class State:
    day: str
    answer: str = ""


class Told(Outcome):
    answer: str


async def tell(day: str, *, hours: Hours) -> Told:
    """Tell it."""
    return Told(answer=await hours.of(day))


graph = Graph("shop", state=State, entry=tell, takes=("day",), gives="answer", nodes=[node(tell, goes={Told: END})])
agent = Agent(
    name="shop",
    summary="tells when the shop is open",
    graphs=(graph,),
    entries={None: graph},
    reply=lambda state: Reply(output=state["answer"]),
    providers=(Provider(capabilities=(Hours,), open=lambda c: WrittenHours(c.settings.of(ShopSettings).shop_name), check=check),),
    settings=ShopSettings,
)
'''

Installed = Callable[..., subprocess.CompletedProcess[str]]


def command(site: Path, here: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the real command line with a folder of packages beside those of the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    around = kept | {"PYTHONPATH": str(site), "INTERLOCK_DATA_DIR": str(here / "data"), "INTERLOCK_ENGINE": "direct", **env}
    program = Path(sys.executable).with_name("interlock")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, cwd=here, env=around)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the shop is really installed, from its project."""
    project, site = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("site")
    (project / "little_shop").mkdir()
    (project / "little_shop" / "__init__.py").write_text(MODULE)
    (project / "pyproject.toml").write_text(PROJECT)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation", "--target", site]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, project], check=True)
    return site


def write_package(site: Path, name: str, *agents: str) -> None:
    """Put the metadata of a package into a folder, as an installer would."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[interlock.agents]\n" + "".join(f"{line}\n" for line in agents))


def test_an_installed_agent_is_known_to_every_command(site: Path, tmp_path: Path):
    listed = command(site, tmp_path, "agents").stdout.splitlines()
    assert [line.partition("\t")[0] for line in listed] == ["analyst", "desk", "gateway", "puntini", "sam", "shop"]
    assert listed[-1] == "shop\ttells when the shop is open"
    (tmp_path / "interlock.toml").write_text('shop_name = "the harbour shop"\n')
    ran = command(site, tmp_path, "run", "shop", "Monday")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "the harbour shop opens at nine on Monday.\n", "")
    assert "Told" in command(site, tmp_path, "show", "shop").stdout
    assert command(site, tmp_path, "verify", "shop").returncode == 0
    doctor = command(site, tmp_path, "doctor")
    assert doctor.returncode == 0
    assert (
        "ok\tagent shop\t1 graph, 1 node, every contract holds; shop_name = the harbour shop\nok\thours\tthe harbour shop\n"
        in doctor.stdout
    )


def test_the_setting_of_an_installed_agent_does_not_keep_others_from_running(site: Path, tmp_path: Path):
    (tmp_path / "interlock.toml").write_text('shop_name = "the harbour shop"\n')
    assert command(site, tmp_path, "run", "sam", "hello").returncode == 0
    without = command(tmp_path / "nothing", tmp_path, "run", "sam", "hello")
    assert (without.returncode, "'shop_name' is not a setting" in without.stderr) == (2, True)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("ruin = no_such_module:agent", "Agent 'ruin' cannot be loaded from 'no_such_module:agent': ModuleNotFoundError"),
        ("ruin = json:nothing", "Agent 'ruin' cannot be loaded from 'json:nothing': AttributeError"),
        ("ruin = json:dumps", "What is installed as agent 'ruin' is a 'function'. It has to be an Agent of the same name."),
        ("ruin = interlock_agents.sam:agent", "What is installed as agent 'ruin' is an Agent named 'sam'."),
    ],
    ids=["module", "attribute", "kind", "name"],
)
def test_an_agent_that_cannot_be_loaded_is_named_and_the_others_run(tmp_path: Path, entry: str, says: str):
    write_package(tmp_path / "site", "ruined", entry)
    (tmp_path / "interlock.toml").write_text("analyst_window = 10\n")  # so that agents are loaded to find whose setting it is
    listed = command(tmp_path / "site", tmp_path, "agents")
    assert listed.returncode == 0
    assert any(line.startswith(f"ruin\t{says}") for line in listed.stdout.splitlines())
    assert len(listed.stdout.splitlines()) == 6
    assert command(tmp_path / "site", tmp_path, "run", "sam", "hello").returncode == 0
    ran = command(tmp_path / "site", tmp_path, "run", "ruin", "hello", "--json")
    assert (ran.returncode, json.loads(ran.stdout)["error"]["code"]) == (2, "agent_unknown")
    doctor = json.loads(command(tmp_path / "site", tmp_path, "doctor", "--json").stdout)
    (broken,) = [check for check in doctor["checks"] if check["state"] == "broken"]
    assert (broken["what"], broken["found"].startswith(says)) == ("agent ruin", True)


def test_of_two_packages_with_an_agent_of_the_same_name_neither_is_used(tmp_path: Path):
    write_package(tmp_path / "site", "impostor", "sam = json:dumps")
    ran = command(tmp_path / "site", tmp_path, "run", "sam", "hello")
    assert ran.returncode == 2
    assert "Agent 'sam' is in several packages: 'impostor' and 'interlock'. Uninstall all but one of them." in ran.stderr


def test_the_agents_of_interlock_are_those_of_its_entry_points():
    assert set(AGENTS) >= {"sam", "desk", "analyst", "gateway", "puntini"}
    with pytest.raises(AgentUnknown, match=r"There is no agent 'nobody'\. There are: analyst, desk, "):
        load_installed("nobody")


def test_names_are_known_without_loading_an_agent(tmp_path: Path):
    code = (
        "import sys; from interlock.installed import AGENTS; print(*AGENTS);"
        "print(*[name for name in sys.modules if name.startswith('interlock_agents') or name.startswith('langgraph')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert ran.stdout == f"{' '.join(AGENTS)}\n\n"
