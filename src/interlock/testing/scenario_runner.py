"""Runs the turns of scenarios on applications, for tests and for the tour."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from pydantic import JsonValue

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.capabilities.model import Model
from interlock.contract import Graph
from interlock.discovery import load_agent
from interlock.errors import InputError
from interlock.models.scripted import ScriptedModel
from interlock.runtime.events import Event, Listener
from interlock.runtime.turn import TurnResult
from interlock.testing.scenario_results import ScenarioResult
from interlock.testing.scenarios import Kind, Scenario, Turn
from interlock.testing.switched import SwitchedModel

__all__ = ["OpenApp", "ScenarioApps", "ScenarioRun"]

OpenApp: TypeAlias = Callable[[Mapping[str, Any], Mapping[type, object]], Interlock]
"""Creates an application with these settings, on top of its own, and these grants."""


class ScenarioApps:
    """The applications that scenarios run on: one for each set of settings, created when it is first needed."""

    def __init__(self, open_app: OpenApp) -> None:
        self._open_app = open_app
        self._apps: dict[str, Interlock] = {}
        self._model = SwitchedModel()

    def app(self, settings: Mapping[str, Any], kind: Kind) -> Interlock:
        """Return the application for these settings."""
        name = json.dumps([kind, settings], sort_keys=True, default=str)
        if name not in self._apps:
            self._apps[name] = self._open_app(settings, {Model: self._model} if kind == "script" else {})
        return self._apps[name]

    def use_script(self, script: ScriptedModel) -> None:
        """Replace the script of the applications' model."""
        self._model.now = script

    async def close(self) -> None:
        """Close every application. A later turn creates new ones."""
        while self._apps:
            await self._apps.popitem()[1].close()


class ScenarioRun:
    """One run of a scenario in a session. Its turns have to be run in their order."""

    def __init__(self, scenario: Scenario, apps: ScenarioApps, *, agent: str | Graph | Agent, session: str, kind: Kind = "offline") -> None:
        self._scenario = scenario
        self._apps = apps
        self._agent = agent
        known = load_agent(agent) if isinstance(agent, str) else agent
        self._stores = known.stored if isinstance(known, Agent) else {}
        self._session = session
        self._kind: Kind = kind

    async def run_all(self) -> list[ScenarioResult]:
        """Run all turns, also after one with differences."""
        return [await self.run_turn(turn) for turn in self._scenario.turns]

    async def run_turn(self, turn: Turn, *, on_event: Listener | None = None) -> ScenarioResult:
        """Run a turn. `differences` of the result says what is not as expected."""
        if turn.restart:
            await self._apps.close()
        app = self._apps.app({**self._scenario.settings, **turn.settings}, self._kind)
        script = ScriptedModel(*(turn.script.scripted() if turn.script is not None else ()))
        self._apps.use_script(script)
        events: list[Event] = []
        result, refusal = None, None

        def listen(event: Event) -> None:
            events.append(event)
            if on_event is not None:
                on_event(event)

        try:
            result = await self._run(app, turn, listen)
        except InputError as error:
            refusal = error
        return ScenarioResult(
            scenario=self._scenario,
            turn=turn,
            kind=self._kind,
            result=result,
            refusal=refusal,
            events=events,
            prompts=script.messages,
            stored=await self._stored(app, turn),
        )

    async def _run(self, app: Interlock, turn: Turn, listener: Listener) -> TurnResult:
        session = self._session_of(turn)
        if turn.answer is not None:
            return await app.answer(self._agent, turn.answer, session=session, on_event=listener)
        return await app.run(self._agent, turn.given, session=session, role=turn.role or self._scenario.role, on_event=listener)

    async def _stored(self, app: Interlock, turn: Turn) -> dict[str, JsonValue]:
        """Read the agent's stores that the turn has expectations for."""
        names = {name for expected in turn.expected(self._kind) for name in expected.stored}
        session = self._session_of(turn)

        def find(capability: type) -> Any:
            return cast("Any", app.adapter(self._agent, capability))

        return {name: await self._stores[name](find, session) for name in sorted(names)}

    def _session_of(self, turn: Turn) -> str:
        return self._session if turn.session is None else f"{self._session}-{turn.session}"
