"""An agent that makes one tool call. The process kills itself in the first call.

`python -m tests.faults.dying_tools FOLDER ENGINE TOOL [EFFECT]`
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

from typing_extensions import TypedDict

from interlock import END, Graph, Interlock, Outcome, Settings, node
from interlock.agent import Agent
from interlock.capabilities import Effect, ToolGateway, ToolRequest, asks, keyed
from interlock.engine import EngineName
from interlock.reply import Reply
from interlock.tools.functions import FunctionTool
from interlock.tools.runner import Tools

TURN = "the-turn"


class State(TypedDict, total=False):
    text: str
    out: str


class Done(Outcome):
    out: str


async def use(text: str, *, tools: ToolGateway) -> Done:
    found = await tools.run("worker", ToolRequest(tool=text, args={"what": "pear"}))
    return Done(out=str(found.error or found.result))


_GRAPH = Graph("user", state=State, entry=use, takes=("text",), gives="out", nodes=[node(use, goes={Done: END})])
AGENT = Agent(
    name="user",
    summary="uses a tool",
    graphs=(_GRAPH,),
    entries={None: _GRAPH},
    reply=lambda state: Reply(output=state.get("out")),
    has_sessions=True,
)


def tools_of(calls: Path, effects: dict[str, Effect]) -> Tools:
    """Return tools that write their calls into a file, and in the first of which the process dies."""

    def note(what: str, key: str = "") -> str:
        is_first = not calls.exists()
        with calls.open("a", encoding="utf-8") as lines:
            lines.write(f"{what} {key}\n")
        if is_first:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"one {what}"

    @asks
    async def read(what: str) -> str:
        """Read something."""
        return note(what)

    @keyed
    async def write(what: str, *, idempotency_key: str) -> str:
        """Write something, once for each key."""
        return note(what, idempotency_key)

    async def pay(what: str) -> str:
        """Pay for something."""
        return note(what)

    functions: dict[str, Any] = {"read": read, "write": write, "pay": pay}
    return Tools([FunctionTool(name, function) for name, function in functions.items()], effects=effects)


def open_app(folder: Path, engine: str, effects: dict[str, Effect]) -> Interlock:
    settings = Settings(engine=cast("EngineName", engine), data_dir=folder)
    app = Interlock(settings, grants={ToolGateway: tools_of(folder / "calls.txt", effects)})
    app.turns.worker.lease_s = 0.5
    return app


async def main(folder: str, engine: str, tool: str, effect: str = "") -> None:
    async with open_app(Path(folder), engine, {tool: cast("Effect", effect)} if effect else {}) as app:
        await app.run(AGENT, {"text": tool}, session="s", turn=TURN)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
