"""How scenes are played: which applications are opened for them, and what of one turn is there in the next."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from interlock import Interlock, Settings
from interlock.capabilities import Model
from interlock.runtime.events import Event
from interlock.testing.scenario_runner import ScenarioApps, ScenarioRun
from interlock.testing.scenarios import Kind, Scenario


class Opened:
    """Opens applications, and keeps with what."""

    def __init__(self) -> None:
        self.settings: list[dict[str, Any]] = []
        self.grants: list[set[type]] = []
        self.closed = 0

    def __call__(self, settings: Mapping[str, Any], grants: Mapping[type, object]) -> Interlock:
        self.settings.append(dict(settings))
        self.grants.append({*grants})
        opened = self

        class Counting(Interlock):
            async def close(self) -> None:
                opened.closed += 1
                await super().close()

        return Counting(Settings(engine="direct", **settings), grants=grants)


def scene(*turns: dict[str, Any], **more: Any) -> Scenario:
    return Scenario.model_validate({"title": "one", "turn": list(turns), **more})


async def played(opened: Opened, scene: Scenario, kind: Kind = "offline") -> list[Any]:
    stage = ScenarioApps(opened)
    taken = await ScenarioRun(scene, stage, agent="sam", session="s", kind=kind).run_all()
    assert [one.differences for one in taken] == [()] * len(taken)
    await stage.close()
    return [one.result for one in taken]


async def test_there_is_one_application_for_each_set_of_settings():
    opened = Opened()
    turns = [{"say": "a"}, {"say": "b", "settings": {"model": "stub"}}, {"say": "c"}, {"say": "d", "settings": {"model": "stub"}}]
    results = await played(opened, scene(*turns, settings={"max_steps": 50}))
    assert opened.settings == [{"max_steps": 50}, {"max_steps": 50, "model": "stub"}]
    assert opened.closed == 2
    assert [result.output == "This is a stubbed response." for result in results] == [False, True, False, True]


async def test_a_restart_creates_new_applications():
    opened = Opened()
    await played(opened, scene({"say": "a"}, {"say": "b", "settings": {"model": "stub"}}, {"say": "c", "restart": True}))
    assert opened.settings == [{}, {"model": "stub"}, {}]
    assert opened.closed == 3


async def test_turns_share_a_session_unless_one_has_its_own():
    results = await played(Opened(), scene({"say": "a"}, {"say": "b", "session": "other"}, {"say": "c"}))
    assert [result.session for result in results] == ["s", "s-other", "s"]


async def test_every_turn_has_its_own_script():
    opened = Opened()
    turns: list[dict[str, Any]] = [{"say": name, "script": {"replies": [f"{name}!"], "output": f"{name}!"}} for name in ("a", "b")]
    await played(opened, scene(*turns, plays=["script"]), "script")
    assert opened.grants == [{Model}]


async def test_events_are_passed_on():
    heard: list[Event] = []
    stage, made = ScenarioApps(Opened()), scene({"say": "a"})
    one = await ScenarioRun(made, stage, agent="sam", session="s").run_turn(made.turns[0], on_event=heard.append)
    assert heard == list(one.events)
    assert len(heard) > 10
    await stage.close()


def test_scenarios_are_not_imported_by_other_commands():
    code = (
        "import sys, interlock.cli; from interlock.discovery import AGENTS, load_agent; [load_agent(name) for name in AGENTS];"
        "print(*[name for name in sys.modules if name.startswith('interlock.')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported = ran.stdout.split()
    assert [name for name in imported if name.startswith("interlock.testing")] == []
    assert "interlock.discovery" in imported  # so that the names above would be seen
