"""Turns on a real Temporal server."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import to_json
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus

from interlock import Interlock, Settings
from interlock.dispatch.temporal_codec import IdsOnly
from interlock.errors import Internal, StoreUnavailable
from interlock.runtime.turns import Accepted, NewTurn, StoredTurn
from interlock.secrets import SecretUrl
from tests.support.parcels import agent, sent
from tests.support.temporal import worker_process

TAKEN_OVER_WITHIN_S = 8


def stored_in(folder: Path, **options: Any) -> Settings:
    """Return settings with the turns in a file, which `interlock worker` uses too."""
    return Settings(data_dir=folder, turn_url=SecretUrl("sqlite:turns.db"), engine="direct", **options)


class Fleet:
    """Applications on one Temporal server and one turn store."""

    def __init__(self, server: str, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.settings = stored_in(folder, dispatcher="temporal", temporal_url=server)
        self.app = Interlock(self.settings)

    @property
    def session(self) -> str:
        """A name that no other test uses: they share the server."""
        return self.folder.parent.name

    @asynccontextmanager
    async def worker(self, *, concurrency: int = 4) -> AsyncGenerator[Interlock]:
        """A worker in this process, which gives its turns back at the end."""
        async with Interlock(self.settings) as app:
            ready = asyncio.Event()
            working = asyncio.create_task(app.work([agent], concurrency=concurrency, on_ready=ready.set))
            started = asyncio.create_task(ready.wait())
            await asyncio.wait({working, started}, return_when=asyncio.FIRST_COMPLETED)
            assert not working.done(), working.exception()
            try:
                yield app
            finally:
                working.cancel()
                assert isinstance((await asyncio.gather(working, return_exceptions=True))[0], asyncio.CancelledError)

    async def submit(self, text: str, **options: Any) -> str:
        return await self.app.submit(agent, text, session=self.session, **options)

    async def result(self, turn: str) -> tuple[str, object]:
        result = await asyncio.wait_for(self.app.turns.result(agent, turn), 60)
        return result.status, result.output

    async def stored(self, turn: str) -> StoredTurn:
        stored = await self.app.turns.store.get(turn)
        assert stored is not None
        return stored

    async def client(self) -> Client:
        return await Client.connect(self.server)

    @property
    def workflow(self) -> str:
        return f"default/parcels/{self.session}"

    async def closed(self) -> str:
        """Wait until the workflow of the session has ended; return what it returned."""
        return await asyncio.wait_for((await self.client()).get_workflow_handle(self.workflow, result_type=str).result(), 20)


@pytest.fixture
async def fleet(temporal: str, tmp_path: Path) -> AsyncGenerator[Fleet]:
    fleet = Fleet(temporal, tmp_path / "data")
    async with fleet.app:
        yield fleet


async def until(condition: Callable[[], bool], *, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def test_a_turn_that_is_submitted_is_run_by_a_worker_and_not_by_its_caller(fleet: Fleet):
    turn = await fleet.submit("box")
    waiting = asyncio.create_task(fleet.result(turn))
    async with fleet.worker() as worker:
        assert await waiting == ("success", "delivered box")
        assert worker.turns.worker.name != fleet.app.turns.worker.name
    assert sent(fleet.folder) == ["box: first", "box: last"]
    assert (await fleet.stored(turn)).attempts == 1


async def test_a_worker_starts_without_hashing_the_code_of_all_modules(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    def hash_all() -> str:
        raise AssertionError("it takes seconds of processor time")

    monkeypatch.setattr("temporalio.worker._worker.load_default_build_id", hash_all)
    turn = await fleet.submit("box")
    async with fleet.worker():
        assert await fleet.result(turn) == ("success", "delivered box")


async def test_a_caller_gets_the_events_and_the_result_of_the_turn_that_a_worker_runs(fleet: Fleet):
    events: list[Any] = []
    async with fleet.worker():
        result = await fleet.app.run(agent, "box", session=fleet.session, on_event=events.append)
    assert (result.status, result.output, result.path) == ("success", "delivered box", ("start", "pause", "deliver"))
    assert [event["name"] for event in events if event["event"] == "on_chain_start"][-1] == "deliver"


async def test_turns_of_a_session_run_in_their_order_although_workers_have_room_for_all(fleet: Fleet):
    texts = ["wait 0.3", "wait 0.1", "wait 0.2"]
    turns = [await fleet.submit(text) for text in texts]
    async with fleet.worker(), fleet.worker():
        assert [await fleet.result(turn) for turn in turns] == [("success", f"waited after {text}") for text in texts]
    assert sent(fleet.folder) == [line for text in texts for line in (f"{text}: first", "wait", f"{text}: last")]


async def test_the_same_turn_submitted_again_is_not_run_again(fleet: Fleet):
    async with fleet.worker():
        for _ in range(3):
            assert await fleet.result(await fleet.submit("box", turn="box-1")) == ("success", "delivered box")
    assert sent(fleet.folder) == ["box: first", "box: last"]


async def test_an_answer_resumes_the_turn_that_waits_for_it(fleet: Fleet):
    async with fleet.worker():
        asked = await fleet.app.run(agent, "ask", session=fleet.session)
        assert (asked.status, asked.output) == ("waiting", "Which colour?")
    # Another worker resumes it: nothing of the turn is in the memory of the first one.
    async with fleet.worker():
        answered = await fleet.app.answer(agent, "red", session=fleet.session)
        assert (answered.status, answered.output, answered.turn) == ("success", "answered red", asked.turn)
        assert await fleet.closed() == "success"
    assert sent(fleet.folder) == ["ask: first", "ask: last"]


async def test_an_answer_whose_signal_was_lost_is_given_again(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    async with fleet.worker():
        await fleet.app.run(agent, "ask", session=fleet.session)
        async with Interlock(fleet.settings) as dying:
            monkeypatch.setattr(dying.turns, "_server", {"target_host": "127.0.0.1:1"})
            with pytest.raises(StoreUnavailable):
                await dying.answer(agent, "red", session=fleet.session)
        answered = await asyncio.wait_for(fleet.app.answer(agent, "red", session=fleet.session), 30)
        assert (answered.status, answered.output) == ("success", "answered red")


async def test_a_running_turn_is_cancelled_within_a_second(fleet: Fleet):
    async with fleet.worker():
        turn = await fleet.submit("wait 60")
        await until(lambda: "wait" in sent(fleet.folder))
        start = time.monotonic()
        await fleet.app.cancel(turn)
        assert (await fleet.result(turn))[0] == "cancelled"
        assert time.monotonic() - start < 1.0
        assert await fleet.closed() == "cancelled"
    assert sent(fleet.folder) == ["wait 60: first", "wait"]


async def test_a_turn_is_cancelled_by_cancelling_its_workflow(fleet: Fleet):
    async with fleet.worker():
        turn = await fleet.submit("wait 60")
        await until(lambda: "wait" in sent(fleet.folder))
        await (await fleet.client()).get_workflow_handle(fleet.workflow).cancel()
        assert (await fleet.result(turn))[0] == "cancelled"


async def test_turns_that_no_worker_runs_are_cancelled_and_the_next_one_runs(fleet: Fleet):
    async with fleet.worker():
        asked = await fleet.app.run(agent, "ask", session=fleet.session)
    await fleet.app.cancel(asked.turn)
    queued = await fleet.submit("box")
    await fleet.app.cancel(queued)
    last = await fleet.submit("crate")
    async with fleet.worker():
        assert await fleet.result(last) == ("success", "delivered crate")
        assert await fleet.closed() == "success"
    assert [(await fleet.stored(turn)).status for turn in (asked.turn, queued)] == ["cancelled", "cancelled"]
    assert sent(fleet.folder) == ["ask: first", "crate: first", "crate: last"]


async def test_a_turn_that_replaces_the_one_that_waits_lets_the_workflow_end(fleet: Fleet):
    async with fleet.worker():
        asked = await fleet.app.run(agent, "ask", session=fleet.session)
        assert await fleet.result(await fleet.submit("box", policy="interrupt")) == ("success", "delivered box")
        assert await fleet.closed() == "cancelled"
    assert (await fleet.stored(asked.turn)).status == "cancelled"


async def test_the_turn_of_a_killed_worker_is_taken_over_and_no_finished_call_is_repeated(fleet: Fleet):
    name = "tests.support.parcels:agent"
    with worker_process(fleet.server, fleet.folder, name) as one, worker_process(fleet.server, fleet.folder, name) as other:
        turn = await fleet.submit("wait 1.5")
        await until(lambda: "wait" in sent(fleet.folder))
        owner = (await fleet.stored(turn)).owner or ""
        killed = next(process for process in (one, other) if f"-{process.pid}-" in owner)
        killed.send_signal(signal.SIGKILL)
        start = time.monotonic()
        await until(lambda: sent(fleet.folder).count("wait") == 2)
        taken_over = time.monotonic() - start
        assert await fleet.result(turn) == ("success", "waited after wait 1.5")
    assert sent(fleet.folder) == ["wait 1.5: first", "wait", "wait", "wait 1.5: last"]
    assert (await fleet.stored(turn)).attempts == 2
    assert taken_over < TAKEN_OVER_WITHIN_S


async def test_a_worker_that_stops_gives_its_turns_back_at_once(fleet: Fleet):
    async with fleet.worker():
        turn = await fleet.submit("wait 2")
        await until(lambda: "wait" in sent(fleet.folder))
    given_back = await fleet.stored(turn)
    assert (given_back.status, given_back.owner) == ("ready", None)
    async with fleet.worker():
        assert await fleet.result(turn) == ("success", "waited after wait 2")
    assert sent(fleet.folder) == ["wait 2: first", "wait", "wait", "wait 2: last"]


async def test_the_turn_of_a_workflow_that_was_terminated_is_run_by_the_next_worker_that_starts(fleet: Fleet):
    async with fleet.worker():
        turn = await fleet.submit("wait 1")
        await until(lambda: "wait" in sent(fleet.folder))
        await (await fleet.client()).get_workflow_handle(fleet.workflow).terminate()
    async with fleet.worker():
        assert await fleet.result(turn) == ("success", "waited after wait 1")


async def test_a_turn_that_was_stored_but_never_signalled_is_adopted_by_the_next_worker(fleet: Fleet):
    async with Interlock(stored_in(fleet.folder)) as other:
        turn = await other.submit(agent, "box", session=fleet.session)
    async with fleet.worker():
        assert await fleet.result(turn) == ("success", "delivered box")


async def test_a_turn_starts_when_it_is_due(fleet: Fleet):
    due = time.time() + 2
    async with fleet.worker(concurrency=1):
        turn = await fleet.submit("box", due=due)
        # A turn that is not due yet takes no room from others.
        assert (await fleet.app.run(agent, "crate", session=f"{fleet.session}-2")).status == "success"
        assert time.time() < due
        assert await fleet.result(turn) == ("success", "delivered box")
    started = (await fleet.stored(turn)).started
    assert started is not None
    assert due <= started < due + 1.5


async def test_a_turn_that_the_store_does_not_have_is_refused_once(fleet: Fleet):
    async with Interlock(stored_in(fleet.folder / "other", dispatcher="temporal", temporal_url=fleet.server)) as other:
        await other.submit(agent, "box", session=fleet.session)
    async with fleet.worker():
        assert await fleet.closed() == "turn_unknown"
    assert set(await attempts(fleet)) == {1}


async def test_a_stored_turn_that_cannot_be_run_ends_with_the_error_and_is_not_retried(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    store = fleet.app.turns.store
    accept = store.accept

    async def damage(new: NewTurn, **options: Any) -> Accepted:
        return await accept(replace(new, header=to_json({"broken": True})), **options)

    monkeypatch.setattr(store, "accept", damage)
    turn = await fleet.submit("box")
    async with fleet.worker():
        result = await asyncio.wait_for(fleet.app.turns.result(agent, turn), 30)
        assert result.error is not None
        assert (result.status, result.error.code) == ("error", "record_invalid")
        assert await fleet.closed() == "error"
    assert (await fleet.stored(turn)).attempts == 1
    assert set(await attempts(fleet)) == {1}


async def test_no_content_of_a_turn_is_in_the_history_and_its_ids_and_status_are(fleet: Fleet):
    async with fleet.worker():
        asked = await fleet.app.run(agent, "ask about violets", session=fleet.session, principal="ann")
        await fleet.app.answer(agent, "ultramarine", session=fleet.session, by="bob")
        await fleet.closed()
    history = b"".join(event.SerializeToString() for run in await runs(fleet) for event in run)
    for content in (b"violets", b"ultramarine", b"colour", b"answered", b"ann", b"bob"):
        assert content not in history, content
    for shown in (asked.turn, fleet.session, "parcels", "waiting", "success"):
        assert shown.encode() in history, shown
    described = await (await fleet.client()).get_workflow_handle(fleet.workflow).describe()
    assert await described.memo() == {"agent": "parcels", "session": fleet.session, "turn": asked.turn, "status": "success"}


async def test_the_codec_lets_ids_through_and_nothing_else():
    ids = [Payload(data=data) for data in (b"", b"null", b'"parcels"', b'{"a+1":"interlock-0f"}', rb'"a\"b\\c"')]
    assert await IdsOnly().encode(ids) == ids
    assert await IdsOnly().decode(ids) == ids
    for data in (
        b'"two words"',
        b'{"text":"two words"}',
        '"caf\u00e9"'.encode(),
        rb'"caf\u00e9"',
        rb'"a\nb"',
        b'"' + b"x" * 301 + b'"',
        b"12",
    ):
        with pytest.raises(Internal):
            await IdsOnly().encode([*ids, Payload(data=data)])


async def test_a_session_with_many_turns_continues_as_new_and_loses_none(fleet: Fleet):
    turns = [await fleet.submit(f"box {number}") for number in range(15)]
    async with fleet.worker():
        assert [await fleet.result(turn) for turn in turns] == [("success", f"delivered box {number}") for number in range(15)]
        await fleet.closed()
    assert sent(fleet.folder) == [f"box {number}: {which}" for number in range(15) for which in ("first", "last")]
    ends = [run[-1].event_type for run in await runs(fleet)]
    assert EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW in ends


async def test_a_server_that_cannot_be_reached_is_a_typed_error_and_the_turn_can_be_submitted_again(fleet: Fleet):
    async with Interlock(stored_in(fleet.folder, dispatcher="temporal", temporal_url="127.0.0.1:1")) as lost:
        with pytest.raises(StoreUnavailable, match="Temporal"):
            await lost.submit(agent, "box", session=fleet.session, turn="box-2")
        with pytest.raises(StoreUnavailable, match="Temporal"):
            await lost.work([agent])
    async with fleet.worker():
        assert await fleet.result(await fleet.submit("box", turn="box-2")) == ("success", "delivered box")
    assert sent(fleet.folder) == ["box: first", "box: last"]


async def runs(fleet: Fleet) -> list[list[Any]]:
    """Return the histories of the session's workflow, the latest run first."""
    client = await fleet.client()
    found: list[list[Any]] = []
    async for run in client.list_workflows(f"WorkflowId = '{fleet.workflow}'"):
        assert run.status != WorkflowExecutionStatus.RUNNING
        found.append(list((await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()).events))
    assert found
    return found


async def attempts(fleet: Fleet) -> list[int]:
    """Return how often each activity of the session's workflow was tried."""
    started = EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
    events = [event for run in await runs(fleet) for event in run]
    return [event.activity_task_started_event_attributes.attempt for event in events if event.event_type == started]
