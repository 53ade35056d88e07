"""Many turns at once: what was accepted is kept, what could not be is told so, and nothing else happens."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest

from interlock import TurnResult
from interlock.capabilities import Message, Model, ModelReply, Tool
from interlock.engine import EngineName
from interlock.testing import ScriptedModel
from interlock_agents.desk.roles import PlannerResponse
from tests.support.desk import Store, ending, new_session, plan

TURNS: dict[EngineName, int] = {"direct": 200, "langgraph": 80}  # whatever the engine, the store is the same


class Echo(ScriptedModel):
    """Notes what the customer says in a slot of that name, so that every turn can be told from the others."""

    async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
        said = json.loads(messages[-1].text)["user_message"]
        await asyncio.sleep(0)
        if schema is PlannerResponse:
            return ModelReply(text=plan(goal_id="all", slots_patch={said: True}))
        return ModelReply(text=f"Noted {said}." if schema is None else json.dumps({"message": f"Noted {said}."}))


async def talk(store: Store, engine: EngineName, sessions: Sequence[str], applications: int) -> dict[str, list[tuple[str, TurnResult]]]:
    """Say as many things at once as there are turns; return what was said in each session, and how it ended."""
    apps = [store.app(engine, grants={Model: Echo()}) for _ in range(applications)]
    said = [
        (f"t{number}", sessions[number % len(sessions)], apps[number // len(sessions) % applications]) for number in range(TURNS[engine])
    ]
    try:
        results = await asyncio.gather(*(app.run("desk", text, session=session) for text, session, app in said))
    finally:
        for app in apps:
            await app.close()
    ended: defaultdict[str, list[tuple[str, TurnResult]]] = defaultdict(list)
    for (text, session, _), result in zip(said, results, strict=True):
        ended[session].append((text, result))
    return ended


def assert_nothing_is_lost(store: Store, ended: dict[str, list[tuple[str, TurnResult]]]) -> int:
    """Compare what is kept with what was accepted; return how many were refused."""
    refused = 0
    for session, turns in ended.items():
        accepted = {text for text, result in turns if result.error is None}
        for text, result in turns:
            if result.error is not None:
                refused += 1
                assert ending(result) == ("state_conflict", "validate_and_save_state")
            else:
                assert result.output == f"Noted {text}."
        document = store.document(session)
        (one,) = document["goals"].values()
        assert set(one["slots"]) == accepted
        assert document["version"] == len(accepted)
        versions = [result.metadata["version"] for _, result in turns if result.error is None]
        assert sorted(versions) == list(range(1, len(accepted) + 1))
    return refused


@pytest.mark.parametrize("sessions", [1, 20])
async def test_concurrent_turns_in_one_application_all_succeed(store: Store, engine: EngineName, sessions: int):
    ended = await talk(store, engine, [new_session() for _ in range(sessions)], applications=1)
    assert assert_nothing_is_lost(store, ended) == 0


@pytest.mark.parametrize("sessions", [1, 20])
async def test_concurrent_turns_in_two_applications_lose_no_accepted_turn(store: Store, engine: EngineName, sessions: int):
    ended = await talk(store, engine, [new_session() for _ in range(sessions)], applications=2)
    refused = assert_nothing_is_lost(store, ended)
    assert refused < TURNS[engine]
    assert len(ended) == sessions


async def test_a_turn_that_hangs_does_not_block_other_sessions(store: Store, engine: EngineName):
    asked, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Echo):
        async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
            if "slow" in messages[-1].text and schema is PlannerResponse:
                asked.set()
                await go_on.wait()
            return await super().reply(messages, tools=tools, schema=schema)

    mine, other = new_session(), new_session()
    async with store.app(engine, grants={Model: Slow()}) as app, asyncio.timeout(20):
        slow = asyncio.create_task(app.run("desk", "slow", session=mine))
        await asked.wait()
        behind = asyncio.create_task(app.run("desk", "behind", session=mine))
        assert (await app.run("desk", "quick", session=other)).error is None
        assert not behind.done()
        go_on.set()
        assert [(await turn).error for turn in (slow, behind)] == [None, None]
    (one,) = store.document(mine)["goals"].values()
    assert list(one["slots"]) == ["slow", "behind"]


async def test_a_cancelled_turn_releases_its_session(store: Store, engine: EngineName):
    asked, session = asyncio.Event(), new_session()

    class Stuck(Echo):
        async def reply(self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), schema: Any = None) -> ModelReply:
            if "stuck" in messages[-1].text:
                asked.set()
                await asyncio.Event().wait()
            return await super().reply(messages, tools=tools, schema=schema)

    async with store.app(engine, grants={Model: Stuck()}) as app, asyncio.timeout(20):
        stuck = asyncio.create_task(app.run("desk", "stuck", session=session))
        await asked.wait()
        behind = asyncio.create_task(app.run("desk", "behind", session=session))
        stuck.cancel()
        assert (await behind).error is None
    assert store.document(session)["version"] == 1
