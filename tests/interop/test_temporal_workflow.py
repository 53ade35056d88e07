"""The workflow of a session on a real Temporal server, with an activity in the place of the turns."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from interlock.dispatch.temporal_workflow import SessionWorkflow


class Turns:
    """Says what the statuses of turns are, one after the other, when the test lets it."""

    def __init__(self) -> None:
        self.statuses: dict[str, list[str]] = {}
        self.looks: list[str] = []
        self._news = asyncio.Event()
        self.started: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.may_end: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @activity.defn(name="run_turn")
    async def run_turn(self, turn: str) -> str:
        self.looks.append(turn)
        self._news.set()
        self.started[turn].set()
        await self.may_end[turn].wait()
        status = self.statuses[turn].pop(0)
        if status == "unreachable":
            raise ConnectionError
        if status == "refused":
            raise ApplicationError("turn_unknown", type="turn_unknown", non_retryable=True)
        return status

    async def looked(self, count: int) -> None:
        """Wait for a number of looks."""
        while len(self.looks) < count:
            self._news.clear()
            await self._news.wait()


class Session:
    """The workflow of a session, with its turns."""

    def __init__(self, client: Client, name: str, turns: Turns) -> None:
        self._client = client
        self._name = name
        self.turns = turns

    async def submit(self, turn: str, *statuses: str) -> WorkflowHandle[SessionWorkflow, str]:
        self.turns.statuses[turn] = list(statuses)
        return await self._client.start_workflow(
            SessionWorkflow.run,
            dict[str, str](),
            id=self._name,
            task_queue=self._name,
            start_signal="submit",
            start_signal_args=[turn, self._name],
        )

    async def cancel(self, turn: str) -> None:
        await self._client.get_workflow_handle(self._name).signal("cancel", args=[turn, self._name])


@pytest.fixture
async def session(temporal: str, request: pytest.FixtureRequest) -> AsyncGenerator[Session]:
    client, turns, name = await Client.connect(temporal), Turns(), request.node.name
    async with Worker(client, task_queue=name, workflows=[SessionWorkflow], activities=[turns.run_turn], max_cached_workflows=0):
        yield Session(client, name, turns)


async def test_a_turn_that_was_replaced_while_it_began_to_wait_does_not_keep_the_workflow_open(session: Session):
    turns = session.turns
    handle = await session.submit("old", "waiting", "cancelled")
    await asyncio.wait_for(turns.started["old"].wait(), 20)
    # The new turn cancels the old one, of which the workflow is told only now that it waits.
    await session.submit("new", "success")
    turns.may_end["old"].set()
    turns.may_end["new"].set()
    assert await asyncio.wait_for(handle.result(), 20) == "cancelled"
    assert turns.looks == ["old", "new", "old"]


async def test_turns_that_wait_side_by_side_are_looked_at_again_only_after_a_signal(session: Session):
    turns = session.turns
    handle = await session.submit("one", "waiting", "waiting", "cancelled")
    await asyncio.wait_for(turns.started["one"].wait(), 20)
    await session.submit("other", "waiting", "success")
    turns.may_end["one"].set()
    turns.may_end["other"].set()
    await asyncio.wait_for(turns.looked(3), 20)
    await session.cancel("one")
    assert await asyncio.wait_for(handle.result(), 20) == "success"
    assert turns.looks == ["one", "other", "one", "one", "other"]


async def test_a_turn_that_is_cancelled_between_two_workers_is_looked_at_by_the_next_one(session: Session):
    turns = session.turns
    turns.may_end["turn"].set()
    handle = await session.submit("turn", "unreachable", "unreachable", "unreachable", "cancelled")
    await asyncio.wait_for(turns.looked(3), 20)
    await session.cancel("turn")
    assert await asyncio.wait_for(handle.result(), 20) == "cancelled"
    assert turns.looks == ["turn"] * 4


async def test_a_turn_that_is_refused_is_not_retried_and_the_next_one_runs(session: Session):
    turns = session.turns
    handle = await session.submit("bad", "refused")
    await session.submit("good", "success")
    turns.may_end["bad"].set()
    await asyncio.wait_for(turns.started["good"].wait(), 20)
    turns.may_end["good"].set()
    assert await asyncio.wait_for(handle.result(), 20) == "success"
    assert turns.looks == ["bad", "good"]
    memos = [event.workflow_properties_modified_event_attributes.upserted_memo.fields for event in (await handle.fetch_history()).events]
    assert [fields["status"].data for fields in memos if "status" in fields] == [
        b'"running"',
        b'"turn_unknown"',
        b'"running"',
        b'"success"',
    ]
