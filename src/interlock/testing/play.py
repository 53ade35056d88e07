"""Plays scenes: takes their turns on applications, the same way for tests and for the tour."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from interlock.adapters.models.scripted import ScriptedModel
from interlock.capabilities.graph_store import Edge, Node
from interlock.capabilities.model import Model
from interlock.contract import Graph
from interlock.errors import InputError
from interlock.runtime.events import Event, Listener
from interlock.runtime.turn import TurnResult
from interlock.testing.played import Played, as_graph
from interlock.testing.scenes import Graphed, Kind, Scene, Turn
from interlock.testing.switched import SwitchedModel

__all__ = ["App", "OpenApp", "Play", "Stage"]


class App(Protocol):
    """What a scene needs of an application: interlock.Interlock has it."""

    async def run(
        self,
        agent: str | Graph,
        given: str | Mapping[str, Any],
        *,
        session: str | None = None,
        role: str | None = None,
        on_event: Listener | None = None,
    ) -> TurnResult:
        """Take a turn."""
        ...

    async def answer(self, agent: str | Graph, text: str, *, session: str, on_event: Listener | None = None) -> TurnResult:
        """Go on with a turn that waits for a person."""
        ...

    async def property_graph(self, session: str) -> tuple[tuple[Node, ...], tuple[Edge, ...]]:
        """Return the graph of a session."""
        ...

    async def close(self) -> None:
        """Release what was opened."""
        ...


OpenApp: TypeAlias = Callable[[Mapping[str, Any], Mapping[type, object]], App]
"""Makes an application, with some settings on top of its own and with some grants."""


class Stage:
    """Where scenes are played: an application for each set of settings, opened when it is first needed and kept after that."""

    def __init__(self, open_app: OpenApp) -> None:
        self._open_app = open_app
        self._apps: dict[str, App] = {}
        self._model = SwitchedModel()

    def app(self, settings: Mapping[str, Any], kind: Kind) -> App:
        """Return the application for some settings."""
        name = json.dumps([kind, settings], sort_keys=True, default=str)
        if name not in self._apps:
            self._apps[name] = self._open_app(settings, {Model: self._model} if kind == "script" else {})
        return self._apps[name]

    def follow(self, script: ScriptedModel) -> None:
        """Let the model of the applications follow another script."""
        self._model.now = script

    async def close(self) -> None:
        """Close every application. What is asked for after that is opened anew."""
        while self._apps:
            await self._apps.popitem()[1].close()


class Play:
    """A scene while it is played: its turns have to be taken in their order. `session` names its conversation."""

    def __init__(self, scene: Scene, stage: Stage, *, agent: str | Graph, session: str, kind: Kind = "offline") -> None:
        self._scene = scene
        self._stage = stage
        self._agent: str | Graph = agent
        self._session = session
        self._kind: Kind = kind

    async def to_the_end(self) -> list[Played]:
        """Take all turns, also after one that is not as expected."""
        return [await self.take(turn) for turn in self._scene.turns]

    async def take(self, turn: Turn, *, on_event: Listener | None = None) -> Played:
        """Take a turn. What it comes to can be compared with what is expected of it."""
        if turn.restart:
            await self._stage.close()
        app = self._stage.app({**self._scene.settings, **turn.settings}, self._kind)
        script = ScriptedModel(*(turn.script.scripted() if turn.script is not None else ()))
        self._stage.follow(script)
        events: list[Event] = []
        result, refusal = None, None

        def hear(event: Event) -> None:
            events.append(event)
            if on_event is not None:
                on_event(event)

        try:
            result = await self._run(app, turn, hear)
        except InputError as error:
            refusal = error
        return Played(
            scene=self._scene,
            turn=turn,
            kind=self._kind,
            result=result,
            refusal=refusal,
            events=events,
            asked=script.messages,
            graph=await self._graph(app, turn),
        )

    async def _run(self, app: App, turn: Turn, hear: Listener) -> TurnResult:
        session = self._session_of(turn)
        if turn.answer is not None:
            return await app.answer(self._agent, turn.answer, session=session, on_event=hear)
        return await app.run(self._agent, turn.given, session=session, role=turn.role or self._scene.role, on_event=hear)

    async def _graph(self, app: App, turn: Turn) -> Graphed | None:
        """Look at the property graph, where something is expected of it."""
        if all(expected.graph is None for expected in turn.expected(self._kind)):
            return None
        return as_graph(*await app.property_graph(self._session_of(turn)))

    def _session_of(self, turn: Turn) -> str:
        return self._session if turn.session is None else f"{self._session}-{turn.session}"
