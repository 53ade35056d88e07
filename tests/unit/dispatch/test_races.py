"""What happens between two steps of a turn's way through the store: nothing is run twice, lost, or left to nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, InterlockError, Settings
from interlock.attempts import seconds_left
from interlock.engine import EngineName
from interlock.errors import Fenced, KeyReused, NothingWaits
from interlock.runtime.recording import Header, read_header
from interlock.runtime.turns import Accepted, Claim, StoredTurn, TurnFilter
from interlock.runtime.worker import Lease, Worker
from interlock.stores.turns_memory import MemoryTurns
from tests.support.parcels import agent, sent
from tests.support.passing import let_time_pass, pass_time


@pytest.fixture
def app(tmp_path: Path, engine: EngineName) -> Interlock:
    return Interlock(Settings(data_dir=tmp_path, engine=engine))


def slowed(monkeypatch: pytest.MonkeyPatch, app: Interlock, method: str, then: Callable[[], Awaitable[object]]) -> None:
    """Let something happen after a method of the store has done its work, and before its caller hears of it."""
    done = getattr(app.turns.store, method)

    async def slow(*given: Any, **options: Any) -> Any:
        result = await done(*given, **options)
        await then()
        return result

    monkeypatch.setattr(app.turns.store, method, slow)


class Gate:
    """Something that is reached, and goes on when it may."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.may_go_on.wait()


async def stored(app: Interlock, turn: str = "t") -> StoredTurn:
    found = await app.turns.store.get(turn)
    assert found is not None
    return found


@pytest.mark.parametrize("method", ["accept", "claim"])
async def test_a_process_that_is_frozen_while_it_claims_a_turn_does_not_take_the_lease_for_a_new_one(
    app: Interlock, monkeypatch: pytest.MonkeyPatch, method: str
):
    let_time_pass()

    async def freeze() -> None:
        pass_time(4.0)

    await app.submit(agent, "a", session="s", turn="before")
    slowed(monkeypatch, app, method, freeze)
    if method == "claim":
        claim, *_ = await app.turns.worker.claim({(await stored(app, "before")).fingerprint})
    else:
        request = app._runner.request(agent, "a", turn="t", session=None, role=None)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        accepted = await app.turns._accept(agent, request, key=None, policy="enqueue", worker="w")  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        assert accepted.claim is not None
        claim = accepted.claim
    assert Lease(app.turns.store, claim).is_stale


async def test_a_turn_is_never_run_twice_in_one_process():
    store = MemoryTurns()
    worker = Worker(store, name="w")
    claim = Claim(turn=StoredTurn(turn="t", agent="a", session="s", header=b"", fingerprint="f", position=1, status="running", created=0))
    first, second = Lease(store, claim), Lease(store, replace(claim, turn=replace(claim.turn, epoch=2)))
    has_begun, may_end, order = asyncio.Event(), asyncio.Event(), list[str]()

    async def attempt(lease: Lease, name: str) -> None:
        async with worker.holding(lease):
            order.append(f"{name} begins")
            has_begun.set()
            if lease is first:
                await may_end.wait()
            else:
                order.append(f"held: {worker.holds('t')}")
            order.append(f"{name} ends")

    one = asyncio.create_task(attempt(first, "first"))
    await has_begun.wait()
    two = asyncio.create_task(attempt(second, "second"))
    await asyncio.sleep(0.01)
    assert isinstance(first.failure, Fenced)
    assert order == ["first begins"]
    assert worker.holds("t")
    may_end.set()
    await asyncio.gather(one, two)
    assert order == ["first begins", "first ends", "second begins", "held: True", "second ends"]
    assert not worker.holds("t")


async def test_a_worker_that_was_frozen_goes_on_with_its_turns_instead_of_claiming_them_again(app: Interlock, tmp_path: Path):
    """With the clock of the store: by it, the lease of the worker's own turn is over when it looks for more."""
    store = app.turns.store
    assert isinstance(store, MemoryTurns)
    let_time_pass()
    now, passed = store._now, 0.0  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    store._now = lambda: now() + passed  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    turn = await app.submit(agent, "wait 1", session="s", turn="t")
    working = asyncio.create_task(app.work([agent], concurrency=2))
    async with asyncio.timeout(30):
        while "wait" not in sent(tmp_path):
            await store.changed(timeout_s=0.01)
        passed = 4.0
        pass_time(4.0)
        await app.submit(agent, "b", session="other")  # it looks for more at once
        assert (await app.result(turn)).status == "success"
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert (await stored(app)).attempts == 1
    assert [line for line in sent(tmp_path) if line not in {"b: first", "b: last"}] == ["wait 1: first", "wait", "wait 1: last"]


async def test_what_a_worker_claims_while_it_is_stopped_is_given_back(app: Interlock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    gate = Gate()
    slowed(monkeypatch, app, "claim", gate)
    await app.submit(agent, "a", session="s", turn="t")
    working = asyncio.create_task(app.work([agent]))
    await gate.reached.wait()
    assert (await stored(app)).status == "running"
    working.cancel()
    await asyncio.sleep(0)
    gate.may_go_on.set()
    await asyncio.gather(working, return_exceptions=True)
    assert ((await stored(app)).status, sent(tmp_path)) == ("ready", [])


@pytest.mark.parametrize("is_free", [True, False])
async def test_a_caller_that_is_cancelled_while_its_turn_is_accepted_ends_it(
    app: Interlock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_free: bool
):
    if not is_free:
        await app.submit(agent, "before", session="s", turn="before")
    gate = Gate()
    slowed(monkeypatch, app, "accept", gate)
    running = asyncio.create_task(app.run(agent, "a", session="s", turn="t"))
    await gate.reached.wait()
    running.cancel()
    await asyncio.sleep(0)
    gate.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ((await stored(app)).status, sent(tmp_path)) == ("cancelled", [])


@pytest.mark.parametrize("other", ["red", "blue"])
async def test_of_two_answers_at_the_same_time_the_same_one_is_accepted_twice_and_another_one_refused(app: Interlock, other: str):
    await app.run(agent, "ask", session="s", turn="t")
    waiting = await stored(app)
    # Both have seen that the turn waits before either has answered.
    first, second = await asyncio.gather(
        app.turns.accept_answer(agent, waiting, "red", by="a"),
        app.turns.accept_answer(agent, waiting, other, by="b"),
        return_exceptions=True,
    )
    assert isinstance(first, StoredTurn)
    if other == "red":
        assert isinstance(second, StoredTurn)
        assert second.answer == first.answer
    else:
        assert isinstance(second, NothingWaits)
    assert (await app.turns.result(agent, "t")).output == "answered red"


async def test_a_key_of_one_caller_does_not_give_another_one_its_turn(app: Interlock):
    first = await app.submit(agent, "a", session="s", key="k", principal="ann")
    assert await app.submit(agent, "a", session="s", key="k", principal="ann") == first
    with pytest.raises(KeyReused):
        await app.submit(agent, "a", session="s", key="k", principal="bob")


async def test_a_repeated_call_without_a_session_is_recognised_under_another_id(app: Interlock):
    first = await app.submit(agent, "a", key="k")
    assert await app.submit(agent, "a", key="k") == first
    assert len(await app.turns.store.find(TurnFilter())) == 1


def lease_of(*, used: float) -> Lease:
    turn = StoredTurn(
        turn="t",
        agent="a",
        session="s",
        header=b"",
        fingerprint="f",
        position=1,
        status="running",
        created=0.0,
        started=1000.0,
        used=used,
    )
    return Lease(MemoryTurns(), Claim(turn=turn), lease_s=3.0)


async def test_an_attempt_has_what_earlier_ones_left_of_the_time_of_the_turn(app: Interlock):
    await app.submit(agent, "a", session="s", turn="t")
    header: Header = read_header((await stored(app)).header)
    limited = replace(header, limits=replace(header.limits, max_turn_seconds=60.0))
    assert [seconds_left(limited, lease_of(used=used)) for used in (0.0, 20.0, 70.0)] == [60.0, 40.0, 0.0]
    unlimited = replace(header, limits=replace(header.limits, max_turn_seconds=None))
    assert seconds_left(unlimited, lease_of(used=9e9)) is None


def follow(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return {"text": "second"} if state["text"] == "first" else None


async def test_the_turn_that_follows_is_accepted_before_the_end_of_this_one_is_stored(app: Interlock, monkeypatch: pytest.MonkeyPatch):
    letters = replace(agent, follow=follow)
    store, there = app.turns.store, list[str]()
    end = store.end

    async def ending(turn: str, *given: Any, **options: Any) -> Any:
        following = await store.get("t+2")
        there.append(f"{turn}: {following and following.status}")
        return await end(turn, *given, **options)

    monkeypatch.setattr(store, "end", ending)
    assert (await app.run(letters, "first", session="s", turn="t")).turn == "t+2"
    assert there == ["t: queued", "t+2: running"]


async def test_where_the_following_turn_cannot_be_accepted_the_turn_has_not_ended_and_is_tried_again(
    app: Interlock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    letters = replace(agent, follow=follow)
    store, failures = app.turns.store, [InterlockError("Down."), InterlockError("Down.")]
    accept = store.accept

    async def accepting(new: Any, **options: Any) -> Accepted:
        if new.turn == "t+2" and failures:
            raise failures.pop()
        return await accept(new, **options)

    monkeypatch.setattr(store, "accept", accepting)
    with pytest.raises(InterlockError):
        await app.run(letters, "first", session="s", turn="t")
    assert (await stored(app)).status == "running"
    async with asyncio.timeout(30):
        working = asyncio.create_task(app.work([letters]))
        while await store.get("t+2") is None or (await stored(app, "t+2")).status != "success":
            await store.changed(timeout_s=0.05)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert (await stored(app)).status == "success"
    assert sent(tmp_path) == ["first: first", "first: last", "second: first", "second: last"]
