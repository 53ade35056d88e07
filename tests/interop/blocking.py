"""Run every scenario of every agent under the server's own guard against blocking calls, and print each call that it catches.

It runs in the environment of LangGraph's server. Adapters turn exceptions into typed errors, so a call is noted when it is caught.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from interlock import Interlock, Settings
from interlock.agent import Agent
from interlock.discovery import AGENTS, entry_of, load_agent
from interlock.errors import InterlockError
from interlock.testing.scenario_runner import ScenarioApps, ScenarioRun
from interlock.testing.scenarios import load_scenarios

CAUGHT: dict[str, str] = {}


def note(error: Any, called: str, *args: Any) -> None:
    """Keep where in this project a blocking call was made."""
    frames = [frame for frame in traceback.extract_stack() if "/src/interlock/" in frame.filename]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-4:]))
    CAUGHT.setdefault(where, called.splitlines()[0])
    Exception.__init__(error, called, *args)


class Driven:
    """An application whose graphs are driven by LangGraph alone."""

    def __init__(self, app: Interlock) -> None:
        self._app = app
        self._saver = InMemorySaver()
        self.adapter = app.adapter
        self.close = app.close

    async def run(self, agent: Any, given: Any, *, session: str | None = None, role: str | None = None, on_event: Any = None) -> Any:
        del on_event
        chosen = load_agent(agent)
        admitted = given if chosen.parse_input is None else chosen.parse_input(given, cast("str", session))
        if isinstance(admitted, str):
            admitted = {entry_of(chosen, role).state.takes[0]: admitted}
        await self._drive(chosen, role, session, admitted)

    async def answer(self, agent: Any, text: str, *, session: str, on_event: Any = None) -> Any:
        del on_event
        await self._drive(load_agent(agent), None, session, Command(resume=text))

    async def _drive(self, agent: Agent, role: str | None, session: str | None, given: Any) -> None:
        graph = self._app.langgraph(entry_of(agent, role).name, checkpointer=self._saver)
        with contextlib.suppress(InterlockError):  # which some scenes are about
            await graph.ainvoke(given, {"configurable": {"thread_id": session}})


async def play(agent: str, folder: Path) -> None:
    def open_app(settings: Mapping[str, Any], grants: Mapping[type, object]) -> Any:
        return Driven(Interlock(Settings(data_dir=folder / agent, **settings), grants=grants))

    stage = ScenarioApps(open_app)
    for number, scene in enumerate(load_scenarios(cast("Path", load_agent(agent).scenes))):
        await ScenarioRun(scene, stage, agent=agent, session=f"scene-{number}", kind=scene.plays[0]).run_all()
    await stage.close()


async def main(folder: Path, agents: list[str]) -> None:
    for agent in agents:
        await play(agent, folder)


if __name__ == "__main__":
    # Both are in the other environment only.
    guard: Any = importlib.import_module("langgraph_runtime_inmem.queue")._enable_blockbuster()  # noqa: SLF001 - the rules of the server, not some of our own
    importlib.import_module("blockbuster.blockbuster").BlockingError.__init__ = note
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:] or list(AGENTS)))
    guard.deactivate()
    print(json.dumps(CAUGHT, indent=1))  # noqa: T201 - what the test reads
