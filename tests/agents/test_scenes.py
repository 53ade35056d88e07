"""Every scene of every agent, by the offline rules and by its script, on both engines, with real stores and tools."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio

from interlock import Interlock, Settings
from interlock.capabilities import Timer
from interlock.discovery import AGENTS, load_agent
from interlock.engine import EngineName
from interlock.testing.scenario_results import ScenarioResult, report
from interlock.testing.scenario_runner import ScenarioApps, ScenarioRun
from interlock.testing.scenarios import Kind, Scenario, load_scenarios
from interlock_agents.puntini.graph_store import GraphStore
from interlock_agents.puntini.spec import Done
from tests.support.desk import Store
from tests.support.numbering import check_numbers
from tests.support.puntini import STORES, Waited, Watched, fresh, opened

SCENES: dict[str, tuple[Scenario, ...]] = {name: load_scenarios(cast("Path", load_agent(name).scenes)) for name in AGENTS}
PLAYS: list[tuple[str, Scenario, Kind]] = [
    (name, scene, kind) for name, scenes in SCENES.items() for scene in scenes for kind in scene.plays
]
NUMBERS = itertools.count(1)
WRITES = {"add_node", "add_edge", "update_props", "delete_node", "delete_edge"}


class Theatre:
    """A stage for each agent, engine and store, opened when it is first needed."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.desk = store
        self._folder = folder
        self._stages: dict[tuple[str, ...], ScenarioApps] = {}
        self._graphs: dict[str, Watched] = {}

    def stage(self, agent: str, engine: EngineName, graphs: str = "") -> ScenarioApps:
        key = (agent, engine, graphs)
        if key not in self._stages:
            folder = self._folder / "-".join(filter(None, (agent, graphs)))

            def open_app(settings: Mapping[str, Any], grants: Mapping[type, object]) -> Interlock:
                if agent == "desk":
                    return Interlock(self.desk.settings(engine, **settings), grants=grants)
                more = {GraphStore: self.graphs(graphs), Timer: Waited()} if graphs else {}
                return Interlock(Settings(engine=engine, data_dir=folder, **settings), grants={**grants, **more})

            self._stages[key] = ScenarioApps(open_app)
        return self._stages[key]

    def graphs(self, kind: str) -> Watched:
        """The store of property graphs, which outlives the applications."""
        if kind not in self._graphs:
            self._graphs[kind] = Watched(opened(kind, self._folder / "graphs"))
        return self._graphs[kind]

    async def close(self) -> None:
        for stage in self._stages.values():
            await stage.close()
        for store in self._graphs.values():
            await store.aclose()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def theatre(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Theatre]:
    folder = tmp_path_factory.mktemp("scenes")
    store = Store(folder / "desk")
    await store.start()
    made = Theatre(folder, store)
    yield made
    await made.close()
    await store.close()


def name_of(play: tuple[str, Scenario, Kind]) -> str:
    agent, scene, kind = play
    return f"{agent}: {scene.title} ({kind})"


def without_a_model(played: ScenarioResult) -> bool:
    """Tell whether nobody but the rules has answered."""
    return played.result is None or played.result.metadata.get("models", ["offline rules"]) == ["offline rules"]


def approved_cypher(played: ScenarioResult) -> int:
    """Count the queries of a turn that changed the graph, which a person has to have approved."""
    steps: tuple[Done, ...] = () if played.result is None else played.result.state.get("done", ())
    return sum(step.call.tool_name == "cypher_query" and step.changed is not None and step.changed.count > 0 for step in steps)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("play", [play for play in PLAYS if play[0] != "puntini"], ids=name_of)
async def test_a_scene_goes_as_it_is_written(theatre: Theatre, engine: EngineName, play: tuple[str, Scenario, Kind]):
    agent, scene, kind = play
    session = f"scene-{next(NUMBERS)}"
    taken = await ScenarioRun(scene, theatre.stage(agent, engine), agent=agent, session=session, kind=kind).run_all()
    assert not report(taken)
    for one in taken:
        check_numbers(one.events)
    assert kind == "script" or all(map(without_a_model, taken))
    last = next((one.result for one in reversed(taken) if one.result is not None and one.result.error is None), None)
    if agent == "desk" and last is not None:
        stored = theatre.desk.document(session)
        assert stored == last.to_json()["state"]["session"], "what a turn ends with is what is stored"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("graphs", STORES)
@pytest.mark.parametrize("play", [play for play in PLAYS if play[0] == "puntini"], ids=name_of)
async def test_a_scene_of_puntini_goes_as_it_is_written_on_every_store(
    theatre: Theatre, engine: EngineName, graphs: str, play: tuple[str, Scenario, Kind]
):
    agent, scene, kind = play
    stage, applied = theatre.stage(agent, engine, graphs), theatre.graphs(graphs).applied
    applied.clear()
    taken = await ScenarioRun(scene, stage, agent=agent, session=fresh(graphs), kind=kind).run_all()
    assert not report(taken)
    for one in taken:
        check_numbers(one.events)
    assert kind == "script" or all(map(without_a_model, taken))
    writes = [tool for one in taken for tool in one.tools if tool.name in WRITES]
    by_cypher = sum(map(approved_cypher, taken))
    assert sum(len(changes) > 1 for changes in applied) <= by_cypher, "a step is a transaction; only approved Cypher has several changes"
    succeeded = sum(tool.code is None for tool in writes)
    assert succeeded + by_cypher <= len(applied) <= len(writes) + by_cypher, "nothing else reaches the store"


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_has_scenes_for_the_tour_and_for_a_script(agent: str):
    scenes = SCENES[agent]
    assert sum(len(scene.turns) for scene in scenes if scene.tour) >= 5
    assert any("script" in scene.plays for scene in scenes)
    shown = [scene.title_of(turn) for scene in scenes if scene.tour for turn in scene.turns]
    assert len(set(shown)) == len(shown)
    assert {turn.detailed for scene in scenes for turn in scene.turns if scene.tour} == {True, False}
    assert not any(turn.detailed for scene in scenes for turn in scene.turns if not scene.tour)


def test_nothing_is_expected_to_end_in_an_error_of_our_own():
    ends = {expected.error for _, scene, kind in PLAYS for turn in scene.turns for expected in turn.expected(kind)}
    assert not ends & {"internal", "contract_violation", "node_failed"}
