"""What the tests of the analyst share: an application on stores of its own, scripts for its model, tools that misbehave."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from interlock import Interlock, Settings, TurnResult
from interlock.capabilities import Clock, Ids, Model
from interlock.engine import EngineName
from interlock.errors import ToolUnavailable
from interlock.runtime.events import Event, Listener
from interlock.testing import CountingIds, FixedClock, Scripted, ScriptedModel
from tests.support.passing import run_out

SHORT = ("ingress", "planner", "generator", "summarizer")
ROUND = ("planner", "tool_router", "tool_executor", "verifier")
LONG = ("ingress", *ROUND, "generator", "summarizer")
NUMBERS = itertools.count(1)
KEY = "sk-" + "A1b2C3d4E5f6G7h8"


def talk(**more: Any) -> dict[str, Any]:
    """What a planner says that needs no tools."""
    return {"next_step": "generate", **more}


def wants(*calls: Mapping[str, Any]) -> dict[str, Any]:
    """What a planner says that needs some."""
    return {"next_step": "tool_use", "tool_calls": [dict(call) for call in calls], "reason": "because"}


def call(tool: str, *, id: str | None = None, part: str = "", **args: Any) -> dict[str, Any]:  # noqa: A002 - the planner's own word
    return {"tool": tool, "args": args} | ({} if id is None else {"id": id}) | ({"part": part} if part else {})


def search(query: str, **more: Any) -> dict[str, Any]:
    return call("search", query=query, **more)


def add(expression: str = "1 + 1", **more: Any) -> dict[str, Any]:
    return call("calculate", expression=expression, **more)


def app(engine: EngineName, folder: Path, *replies: Scripted, grants: Mapping[type, object] | None = None, **settings: Any) -> Interlock:
    """Make an application; with replies it has a scripted model, else the offline rules."""
    given: dict[type, object] = {Clock: FixedClock(), Ids: CountingIds(f"turn-{next(NUMBERS)}"), **(grants or {})}
    if replies:
        given[Model] = ScriptedModel(*replies)
    return Interlock(Settings(engine=engine, data_dir=folder, **settings), grants=given)


async def take(
    engine: EngineName,
    folder: Path,
    text: str | Mapping[str, Any],
    *replies: Scripted,
    session: str = "s",
    on_event: Listener | None = None,
    grants: Mapping[type, object] | None = None,
    **settings: Any,
) -> TurnResult:
    """Take one turn in an application of its own, which is closed again: what is left is what was kept."""
    async with app(engine, folder, *replies, grants=grants, **settings) as running:
        return await running.run("analyst", text, session=session, on_event=on_event)


async def watched(engine: EngineName, folder: Path, text: str, *replies: Scripted, **more: Any) -> tuple[TurnResult, list[Event]]:
    events: list[Event] = []
    return await take(engine, folder, text, *replies, on_event=events.append, **more), events


def said(result: TurnResult) -> list[str]:
    """What the messages of the state say."""
    return [message.content for message in result.state["messages"]]


def names(events: Sequence[Event], kind: str) -> list[str]:
    return [event["name"] for event in events if event["event"] == kind]


def tools(**functions: str) -> dict[str, Any]:
    """Settings for tools of this module, beside those that there are."""
    return {
        "tool_functions": {name: f"{__name__}:{function}" for name, function in functions.items()},
        "tool_effects": dict.fromkeys(functions, "asks"),
        "analyst_tools": ("bq_query", "search", "calculate", *functions),
    }


async def hangs(text: str = "") -> str:
    """Never end."""
    await asyncio.Event().wait()
    return text


async def runs_out(text: str = "") -> str:
    """Use up the time that there is, and never end."""
    await run_out()


async def leaks(text: str = "") -> dict[str, str]:
    """Give a key away."""
    return {"note": f"the key is {KEY}", KEY: text}


async def fails(text: str = "") -> str:
    """Fail."""
    raise RuntimeError(f"{text} {KEY}")


async def gives_much(text: str = "") -> str:
    """Give ten million characters."""
    return text + "x" * 10_000_000


async def takes_a_while(text: str = "") -> str:
    """Take a tenth of a second."""
    await asyncio.sleep(0.1)
    return f"done {text}"


class Flaky:
    """Fails a few times before it works."""

    tries = 0


async def flaky(text: str = "") -> str:
    """Work the third time."""
    Flaky.tries += 1
    if Flaky.tries < 3:
        raise ToolUnavailable("Not now.")
    return f"worked {text}"
