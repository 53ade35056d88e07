"""One suite for every turn store: each sentence of the protocol is a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import Internal, KeyReused, NothingWaits, SessionBusy, TurnUnknown, TurnWaiting
from interlock.runtime.turns import NewTurn, Page, SavedState, TurnEnd, TurnFilter, Writes
from interlock.stores.turns_memory import MemoryTurns
from tests.stores.turning import NOTHING, OVER_S, SUCCESS, Turns, a_turn, memory_turns, postgres_turns, sqlite_turns

CANCELLED = TurnEnd(status="cancelled", code="cancelled")
WAITING = TurnEnd(status="waiting", result=b'{"question":1}')


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def turns(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Turns]:
    if request.param == "memory":
        opened = memory_turns()
    elif request.param == "sqlite":
        opened = sqlite_turns(tmp_path)
    else:
        opened = postgres_turns(request.getfixturevalue("postgres"), request.getfixturevalue("database"))
    async with opened as made:
        yield made


# Accept


async def test_an_accepted_turn_is_stored_as_it_was_given(turns: Turns):
    new = NewTurn(
        turn="t",
        agent="desk",
        session="s'\N{SNOWMAN}",
        header=b"\x00\xff",
        fingerprint="f",
        tenant="acme",
        role="clerk",
        key="k",
        digest="d",
        principal="ada",
        build="1.2",
        is_exclusive=False,
        policy="reject",
        due=12.5,
    )
    accepted = await turns.store.accept(new)
    assert accepted.is_new
    assert accepted.claim is None
    assert accepted.turn == await turns.store.get("t")
    assert {name: getattr(accepted.turn, name) for name in vars(new)} == vars(new)
    assert (accepted.turn.position, accepted.turn.status, accepted.turn.epoch, accepted.turn.attempts) == (1, "ready", 0, 0)
    assert accepted.turn.owner is accepted.turn.lease_until is accepted.turn.started is accepted.turn.ended is None
    assert abs(accepted.turn.created - await turns.store.now()) < 60


async def test_a_worker_that_accepts_a_turn_gets_it_at_once(turns: Turns):
    accepted = await turns.store.accept(a_turn("t"), worker="w1", lease_s=5)
    assert accepted.claim is not None
    assert accepted.claim.turn == accepted.turn == await turns.store.get("t")
    turn = accepted.turn
    assert (turn.status, turn.owner, turn.epoch, turn.attempts) == ("running", "w1", 1, 1)
    assert turn.lease_until is not None
    assert turn.started is not None
    assert turn.lease_until == pytest.approx(turn.started + 5)
    assert (accepted.claim.journal, accepted.claim.events, accepted.claim.state) == ((), (), None)


async def test_the_same_key_is_the_same_turn_for_each_status(turns: Turns):
    claim = await turns.running(turn="t", key="k", digest="d", session="s")
    for _ in range(2):
        again = await turns.store.accept(a_turn(key="k", digest="d", session="other"), worker="w2")
        assert (again.turn, again.is_new, again.claim) == (await turns.store.get("t"), False, None)
        await turns.store.end("t", claim.turn.epoch, SUCCESS, NOTHING)
    assert await turns.status("t") == "success"


async def test_a_key_for_something_else_is_refused_and_changes_nothing(turns: Turns):
    await turns.store.accept(a_turn("t", key="k", digest="d", session="s"))
    with pytest.raises(KeyReused, match="'t'"):
        await turns.store.accept(a_turn("u", key="k", digest="e", session="s"))
    assert await turns.store.get("u") is None
    assert (await turns.store.accept(a_turn(session="s"))).turn.position == 2


async def test_tenants_have_keys_and_sessions_of_their_own(turns: Turns):
    await turns.store.accept(a_turn("t", key="k", digest="d", session="s", tenant="a"))
    other = await turns.store.accept(a_turn("u", key="k", digest="e", session="s", tenant="b"))
    assert (other.is_new, other.turn.position, other.turn.status) == (True, 1, "ready")
    assert [turn.turn for turn in await turns.store.find(TurnFilter(tenant="a"))] == ["t"]


async def test_an_accept_that_is_sent_again_returns_its_claim_to_the_worker_that_has_it(turns: Turns):
    new = a_turn("t", digest="d")
    first = await turns.store.accept(new, worker="w1", lease_s=60)
    again = await turns.store.accept(new, worker="w1", lease_s=60)
    assert not again.is_new
    assert again.claim is not None
    assert (again.claim.turn.epoch, again.claim.turn.owner) == (1, "w1")
    assert first.claim is not None
    assert replace(again.claim.turn, lease_until=None, used=0.0) == replace(first.claim.turn, lease_until=None)
    assert (await turns.store.accept(new, worker="w2")).claim is None
    assert (await turns.store.accept(new)).claim is None
    with pytest.raises(KeyReused):
        await turns.store.accept(replace(new, digest="e"), worker="w1")


async def test_an_accept_that_is_sent_again_after_another_claim_has_none(turns: Turns):
    new = a_turn("t")
    await turns.store.accept(new, worker="w1", lease_s=OVER_S)
    assert len(await turns.store.claim("w1", fingerprints=["f1"], lease_s=60)) == 1
    assert (await turns.store.accept(new, worker="w1")).claim is None


async def test_turns_of_a_session_are_numbered_from_1_and_run_one_after_the_other(turns: Turns):
    first = await turns.running(session="s")
    second = await turns.store.accept(a_turn(session="s"), worker="w1")
    third = await turns.store.accept(a_turn(session="s"))
    assert [one.position for one in (first.turn, second.turn, third.turn)] == [1, 2, 3]
    assert (second.turn.status, second.claim, third.turn.status) == ("queued", None, "queued")
    assert await turns.store.claim("w2", fingerprints=["f1"]) == []
    await turns.store.end(first.turn.turn, 1, SUCCESS, NOTHING)
    assert [await turns.status(one.turn.turn) for one in (second, third)] == ["ready", "queued"]
    (claim,) = await turns.store.claim("w2", fingerprints=["f1"], limit=5)
    assert claim.turn.turn == second.turn.turn


async def test_positions_go_on_after_the_session_was_pruned(turns: Turns):
    claim = await turns.running(session="s")
    await turns.store.end(claim.turn.turn, 1, SUCCESS, NOTHING)
    assert await turns.store.prune(ended_before=await turns.store.now() + 1) == 1
    assert (await turns.store.accept(a_turn(session="s"))).turn.position == 2


async def test_turns_that_are_not_exclusive_run_beside_others(turns: Turns):
    await turns.running(session="s")
    beside = await turns.store.accept(a_turn(session="s", is_exclusive=False), worker="w1")
    assert beside.claim is not None
    assert (await turns.store.accept(a_turn(session="s", is_exclusive=False, policy="reject"))).turn.status == "ready"


async def test_an_exclusive_turn_waits_for_exclusive_ones_only(turns: Turns):
    await turns.running(session="s", is_exclusive=False)
    first = await turns.running(session="s")
    second = await turns.store.accept(a_turn(session="s"))
    assert second.turn.status == "queued"
    await turns.store.end(first.turn.turn, 1, SUCCESS, NOTHING)
    assert await turns.status(second.turn.turn) == "ready"


async def test_reject_refuses_a_turn_while_another_is_open(turns: Turns):
    first = await turns.running(session="s")
    with pytest.raises(SessionBusy):
        await turns.store.accept(a_turn("u", session="s", policy="reject"))
    assert await turns.store.get("u") is None
    await turns.store.end(first.turn.turn, 1, SUCCESS, NOTHING)
    assert (await turns.store.accept(a_turn("u", session="s", policy="reject"))).turn.position == 2


@pytest.mark.parametrize("policy", ["reject", "enqueue"])
async def test_a_session_that_waits_for_a_person_takes_no_other_turn(turns: Turns, policy: str):
    first = await turns.running(session="s")
    await turns.store.end(first.turn.turn, 1, WAITING, NOTHING)
    with pytest.raises(TurnWaiting):
        await turns.store.accept(a_turn(session="s", policy=policy))


@pytest.mark.parametrize("policy", ["interrupt", "rollback"])
async def test_interrupt_and_rollback_cancel_the_open_turns(turns: Turns, policy: str):
    running = await turns.running(session="s")
    queued = await turns.store.accept(a_turn(session="s"))
    other = await turns.running(session="other")
    new = await turns.store.accept(a_turn(session="s", policy=policy), worker="w1")
    assert (new.turn.status, new.claim) == ("queued", None)
    asked = await turns.store.get(running.turn.turn)
    assert asked is not None
    assert (asked.status, asked.is_cancel_wanted, asked.is_hidden) == ("running", True, policy == "rollback")
    gone = await turns.store.get(queued.turn.turn)
    assert gone is not None
    assert (gone.status, gone.code, gone.is_hidden) == ("cancelled", "cancelled", policy == "rollback")
    assert await turns.store.write(running.turn.turn, 1, NOTHING) == "stop"
    assert await turns.store.end(running.turn.turn, 1, CANCELLED, NOTHING) == "stop"
    assert await turns.status(new.turn.turn) == "ready"
    assert await turns.store.write(other.turn.turn, 1, NOTHING) == "ok"


@pytest.mark.parametrize("policy", ["interrupt", "rollback"])
async def test_interrupt_of_a_waiting_turn_starts_at_once(turns: Turns, policy: str):
    first = await turns.running(session="s")
    await turns.store.end(first.turn.turn, 1, WAITING, NOTHING)
    new = await turns.store.accept(a_turn(session="s", policy=policy), worker="w1")
    assert new.claim is not None
    assert await turns.status(first.turn.turn) == "cancelled"


async def test_a_turn_that_was_rolled_back_is_hidden_unless_asked_for(turns: Turns):
    first = await turns.store.accept(a_turn("t", session="s"))
    await turns.store.accept(a_turn("u", session="s", policy="rollback"))
    assert [turn.turn for turn in await turns.store.find(TurnFilter(session="s"))] == ["u"]
    assert [turn.turn for turn in await turns.store.find(TurnFilter(session="s", with_hidden=True))] == ["u", "t"]
    assert (await turns.store.get(first.turn.turn)) is not None


# Claim


async def test_ready_turns_are_claimed_oldest_first_up_to_the_limit(turns: Turns):
    names = [(await turns.store.accept(a_turn())).turn.turn for _ in range(5)]
    first = await turns.store.claim("w1", fingerprints=["f1"], limit=2)
    rest = await turns.store.claim("w2", fingerprints=["f1"], limit=9)
    assert [[claim.turn.turn for claim in claims] for claims in (first, rest)] == [names[:2], names[2:]]
    assert {(claim.turn.status, claim.turn.owner, claim.turn.epoch) for claim in first} == {("running", "w1", 1)}
    assert await turns.store.claim("w1", fingerprints=["f1"]) == []


async def test_a_worker_claims_only_contracts_that_it_has(turns: Turns):
    await turns.store.accept(a_turn("t", fingerprint="old"))
    await turns.running(turn="u", fingerprint="old", lease_s=OVER_S)
    assert await turns.store.claim("w", fingerprints=["new"], limit=5) == []
    assert await turns.store.claim("w", fingerprints=[], limit=5) == []
    assert [claim.turn.turn for claim in await turns.store.claim("w", fingerprints=["new", "old"], limit=5)] == ["u", "t"]


async def test_only_limits_a_claim_to_turns_by_name(turns: Turns):
    for name in "tuv":
        await turns.store.accept(a_turn(name))
    claims = await turns.store.claim("w", fingerprints=["f1"], limit=5, only=["v", "t", "unknown"])
    assert [claim.turn.turn for claim in claims] == ["t", "v"]


async def test_a_turn_is_not_claimed_before_it_is_due(turns: Turns):
    now = await turns.store.now()
    later = await turns.store.accept(a_turn("later", due=now + 1000), worker="w")
    assert (later.turn.status, later.claim) == ("ready", None)
    assert await turns.store.claim("w", fingerprints=["f1"]) == []
    past = await turns.store.accept(a_turn("past", due=now - 1), worker="w")
    assert past.claim is not None
    turns.clock.move(500)
    await turns.store.accept(a_turn("between"))
    turns.clock.move(501)
    await turns.store.accept(a_turn("new"))
    claims = await turns.store.claim("w", fingerprints=["f1"], limit=5)
    assert [claim.turn.turn for claim in claims] == ["past", "between", "later", "new"]


async def test_leases_that_are_over_come_before_ready_turns(turns: Turns):
    for _ in range(3):
        await turns.store.accept(a_turn())
    await turns.running(turn="t", lease_s=OVER_S)
    (claim,) = await turns.store.claim("w2", fingerprints=["f1"], lease_s=60)
    assert (claim.turn.turn, claim.turn.epoch, claim.turn.attempts, claim.turn.owner) == ("t", 2, 2, "w2")


async def test_the_lease_that_is_over_for_the_longest_time_is_claimed_first(turns: Turns):
    for name, lease_s in (("a", -1), ("b", -3), ("c", -2), ("d", 60)):
        await turns.running(turn=name, lease_s=lease_s)
    claims = await turns.store.claim("w2", fingerprints=["f1"], limit=2, lease_s=60)
    claims += await turns.store.claim("w2", fingerprints=["f1"], limit=2, lease_s=60)
    assert [claim.turn.turn for claim in claims] == ["b", "c", "a"]


async def test_a_lease_is_over_by_the_stores_clock(turns: Turns):
    await turns.running(turn="t", lease_s=3)
    turns.clock.move(2.9)
    assert await turns.store.claim("w2", fingerprints=["f1"]) == []
    assert await turns.store.renew("w1", {"t": 1}, lease_s=3) == {"t": "ok"}
    turns.clock.move(2.9)
    assert await turns.store.claim("w2", fingerprints=["f1"]) == []
    turns.clock.move(0.2)
    assert len(await turns.store.claim("w2", fingerprints=["f1"])) == 1


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_lease_that_was_given_before_the_clock_was_set_back_is_over(turns: Turns, *, is_cancelled: bool):
    await turns.running(turn="t")
    if is_cancelled:
        await turns.store.cancel("t")
    turns.clock.move(-0.5)
    assert await turns.store.claim("w2", fingerprints=["f1"]) == []
    turns.clock.move(-3600)
    assert [claim.turn.turn for claim in await turns.store.claim("w2", fingerprints=["f1"])] == ([] if is_cancelled else ["t"])
    assert await turns.status("t") == ("cancelled" if is_cancelled else "running")


async def test_the_time_that_workers_had_a_turn_is_counted_in_leases_also_when_the_clock_jumps(turns: Turns):
    async def used() -> float | None:
        found = await turns.store.get("t")
        return found and found.used

    async def claim_after(seconds: float) -> float:
        turns.clock.move(seconds)
        (claim,) = await turns.store.claim("w1", fingerprints=["f1"], lease_s=3)
        assert claim.turn.used == await used()
        return claim.turn.used

    epoch = (await turns.running(turn="t", lease_s=3)).turn.epoch
    turns.clock.move(1)
    await turns.store.renew("w1", {"t": epoch}, lease_s=3)
    assert await used() == pytest.approx(1, abs=0.5)
    # Its worker dies; or the clock is set ahead, or back.
    assert await claim_after(4) == pytest.approx(4, abs=0.5)
    assert await claim_after(86400) == pytest.approx(7, abs=0.5)
    assert await claim_after(-86400) == pytest.approx(7, abs=0.5)
    turns.clock.move(3600)
    await turns.store.renew("w1", {"t": epoch + 3}, lease_s=3)
    assert await used() == pytest.approx(10, abs=0.5)
    # No worker has it.
    await turns.store.give_back("t", epoch + 3)
    assert await claim_after(500) == pytest.approx(10, abs=0.5)
    # A person answers.
    await turns.store.end("t", epoch + 4, WAITING, NOTHING)
    turns.clock.move(500)
    await turns.store.answer("t", b"yes", b"e")
    assert await claim_after(500) == 0


async def test_a_turn_that_was_accepted_before_the_clock_was_set_back_can_start(turns: Turns):
    await turns.store.accept(a_turn("t"))
    turns.clock.move(-3600)
    assert [claim.turn.turn for claim in await turns.store.claim("w", fingerprints=["f1"])] == ["t"]


async def test_a_claim_brings_what_earlier_attempts_stored(turns: Turns):
    first = await turns.running(session="s")
    await turns.store.end(first.turn.turn, 1, replace(SUCCESS, state=b"state"), NOTHING)
    second = await turns.running(turn="t", session="s", lease_s=OVER_S)
    assert second.state == SavedState(values=b"state", turn=first.turn.turn, fingerprint="f1")
    await turns.store.write("t", 1, Writes(entries=[b"a", b"b"], events=[b"0"]))
    (claim,) = await turns.store.claim("w2", fingerprints=["f1"])
    assert (claim.journal, claim.events, claim.state) == ((b"a", b"b"), (b"0",), second.state)
    assert claim.turn.started == second.turn.started


async def test_the_old_worker_of_a_turn_is_lost(turns: Turns):
    await turns.running(turn="t", session="s", lease_s=OVER_S)
    await turns.store.claim("w2", fingerprints=["f1"], lease_s=60)
    writes = Writes(entries=[b"late"], events=[b"late"])
    assert await turns.store.write("t", 1, writes) == "lost"
    assert await turns.store.end("t", 1, replace(SUCCESS, state=b"late"), writes) == "lost"
    assert await turns.store.renew("w1", {"t": 1}) == {"t": "lost"}
    assert await turns.store.give_back("t", 1) == "lost"
    assert (await turns.store.journal("t"), await turns.store.events("t")) == ([], [])
    assert await turns.store.state("", "sam", "s") is None
    assert await turns.status("t") == "running"
    assert await turns.store.write("t", 2, writes) == "ok"


async def test_a_lease_that_is_over_still_writes_while_no_other_worker_has_claimed_the_turn(turns: Turns):
    await turns.running(turn="t", lease_s=OVER_S)
    assert await turns.store.write("t", 1, Writes(entries=[b"a"])) == "ok"
    assert await turns.store.renew("w1", {"t": 1}) == {"t": "ok"}
    assert await turns.store.claim("w2", fingerprints=["f1"]) == []


async def test_a_turn_whose_worker_died_after_it_was_wanted_to_end_is_cancelled(turns: Turns):
    await turns.running(turn="t", session="s", fingerprint="unserved", lease_s=OVER_S)
    queued = await turns.store.accept(a_turn("u", session="s"))
    assert queued.turn.status == "queued"
    await turns.store.cancel("t")
    assert await turns.status("t") == "running"
    first = await turns.store.claim("w2", fingerprints=["f1"])
    assert await turns.status("t") == "cancelled"
    claims = first or await turns.store.claim("w2", fingerprints=["f1"])
    assert [claim.turn.turn for claim in claims] == ["u"]
    assert await turns.store.write("t", 1, NOTHING) == "lost"


async def test_two_workers_that_claim_at_once_never_get_the_same_turn(turns: Turns):
    for _ in range(30):
        await turns.store.accept(a_turn())
    claimed = await asyncio.gather(*(turns.store.claim(f"w{number}", fingerprints=["f1"], limit=3, lease_s=60) for number in range(20)))
    names = [claim.turn.turn for claims in claimed for claim in claims]
    assert len(names) == len(set(names))
    names += [claim.turn.turn for claim in await turns.store.claim("w", fingerprints=["f1"], limit=30, lease_s=60)]
    assert len(set(names)) == len(names) == 30


# Write


async def test_writes_are_numbered_without_gaps_and_may_be_sent_again(turns: Turns):
    await turns.running(turn="t")
    first = Writes(entries=[b"a", b"b"], events=[b"0", b"1"])
    for _ in range(2):
        assert await turns.store.write("t", 1, first) == "ok"
    assert await turns.store.write("t", 1, Writes(entries=[b"other", b"c"], first_entry=1, events=[b"2"], first_event=2)) == "ok"
    assert await turns.store.journal("t") == [b"a", b"b", b"c"]
    assert await turns.store.events("t") == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "writes", [Writes(entries=[b"x"], first_entry=2), Writes(entries=[b"b"], first_entry=1, events=[b"x"], first_event=1)]
)
async def test_a_write_that_leaves_a_gap_is_refused_whole(turns: Turns, writes: Writes):
    await turns.running(turn="t")
    await turns.store.write("t", 1, Writes(entries=[b"a"]))
    with pytest.raises(Internal):
        await turns.store.write("t", 1, writes)
    with pytest.raises(Internal):
        await turns.store.end("t", 1, SUCCESS, writes)
    assert (await turns.store.journal("t"), await turns.store.events("t")) == ([b"a"], [])
    assert await turns.status("t") == "running"


async def test_events_are_read_from_a_number_on(turns: Turns):
    await turns.running(turn="t")
    await turns.store.write("t", 1, Writes(events=[b"%d" % number for number in range(10)]))
    assert await turns.store.events("t", after=7) == [b"7", b"8", b"9"]
    assert await turns.store.events("t", after=2, limit=2) == [b"2", b"3"]
    assert await turns.store.events("t", after=10) == []
    assert (await turns.store.events("unknown"), await turns.store.journal("unknown")) == ([], [])


async def test_a_turn_that_is_unknown_is_lost(turns: Turns):
    assert await turns.store.write("t", 1, NOTHING) == "lost"
    assert await turns.store.end("t", 1, SUCCESS, NOTHING) == "lost"
    assert await turns.store.renew("w", {"t": 1}) == {"t": "lost"}
    assert await turns.store.give_back("t", 1) == "lost"
    assert await turns.store.get("t") is None


# End


async def test_the_end_stores_result_last_writes_and_session_state_together(turns: Turns):
    await turns.running(turn="t", session="s")
    end = TurnEnd(status="error", result=b"{}", code="node_failed", state=b"left")
    assert await turns.store.end("t", 1, end, Writes(entries=[b"a"], events=[b"0", b"1"])) == "ok"
    turn = await turns.store.get("t")
    assert turn is not None
    assert (turn.status, turn.result, turn.code, turn.owner, turn.lease_until) == ("error", b"{}", "node_failed", None, None)
    assert turn.ended is not None
    assert (await turns.store.journal("t"), await turns.store.events("t")) == ([b"a"], [b"0", b"1"])
    assert await turns.store.state("", "sam", "s") == SavedState(values=b"left", turn="t", fingerprint="f1")
    assert await turns.store.state("other", "sam", "s") is None
    assert await turns.store.state("", "sam", "unknown") is None


async def test_an_end_without_state_leaves_the_state_as_it_is(turns: Turns):
    await turns.running(turn="t", session="s")
    await turns.store.end("t", 1, replace(SUCCESS, state=b"one"), NOTHING)
    await turns.running(turn="u", session="s")
    await turns.store.end("u", 1, SUCCESS, NOTHING)
    assert await turns.store.state("", "sam", "s") == SavedState(values=b"one", turn="t", fingerprint="f1")


async def test_nothing_is_written_after_the_end(turns: Turns):
    await turns.running(turn="t")
    await turns.store.end("t", 1, SUCCESS, NOTHING)
    assert await turns.store.write("t", 1, Writes(events=[b"late"])) == "lost"
    assert await turns.store.renew("w1", {"t": 1}) == {"t": "lost"}
    assert await turns.store.give_back("t", 1) == "lost"
    assert await turns.store.events("t") == []


@pytest.mark.parametrize("status", ["success", "error", "cancelled", "waiting"])
async def test_an_end_that_is_sent_again_is_ok_and_changes_nothing(turns: Turns, status: Any):
    await turns.running(turn="t", session="s")
    end = TurnEnd(status=status, result=b"1", state=b"one")
    assert await turns.store.end("t", 1, end, Writes(events=[b"0"])) == "ok"
    before = await turns.store.get("t")
    assert await turns.store.end("t", 1, replace(end, result=b"2", state=b"two"), Writes(events=[b"0", b"1"])) == "ok"
    assert await turns.store.get("t") == before
    assert await turns.store.events("t") == [b"0"]
    other = "error" if status != "error" else "success"
    assert await turns.store.end("t", 1, TurnEnd(status=other), NOTHING) == "lost"
    assert await turns.store.end("t", 2, end, NOTHING) == "lost"


# Waiting for a person


async def test_a_waiting_turn_keeps_its_session_until_it_was_answered_and_ended(turns: Turns):
    await turns.running(turn="t", session="s")
    queued = await turns.store.accept(a_turn("u", session="s"))
    assert await turns.store.end("t", 1, WAITING, Writes(entries=[b"asked"])) == "ok"
    waiting = await turns.store.get("t")
    assert waiting is not None
    assert (waiting.status, waiting.ended, waiting.result, waiting.owner) == ("waiting", None, WAITING.result, None)
    assert await turns.status(queued.turn.turn) == "queued"
    assert await turns.store.claim("w", fingerprints=["f1"]) == []
    answered = await turns.store.answer("t", b"yes", b"answer")
    assert (answered.turn.status, answered.turn.answer, answered.is_new, answered.claim) == ("ready", b"yes", False, None)
    assert answered.turn == await turns.store.get("t")
    (claim,) = await turns.store.claim("w2", fingerprints=["f1"])
    assert (claim.turn.turn, claim.turn.epoch, claim.journal) == ("t", 2, (b"asked", b"answer"))
    await turns.store.end("t", 2, SUCCESS, NOTHING)
    assert await turns.status("u") == "ready"


async def test_a_worker_that_answers_may_go_on_at_once(turns: Turns):
    await turns.running(turn="t")
    await turns.store.end("t", 1, WAITING, NOTHING)
    answered = await turns.store.answer("t", b"yes", b"entry", worker="w2", lease_s=60)
    assert answered.claim is not None
    assert answered.claim.turn == answered.turn == await turns.store.get("t")
    assert (answered.turn.owner, answered.turn.epoch, answered.claim.journal) == ("w2", 2, (b"entry",))


async def test_only_a_waiting_turn_takes_an_answer_and_only_one(turns: Turns):
    with pytest.raises(TurnUnknown):
        await turns.store.answer("t", b"yes", b"entry")
    await turns.running(turn="t")
    with pytest.raises(NothingWaits, match="running"):
        await turns.store.answer("t", b"yes", b"entry")
    await turns.store.end("t", 1, WAITING, NOTHING)
    await turns.store.answer("t", b"yes", b"entry")
    with pytest.raises(NothingWaits, match="ready"):
        await turns.store.answer("t", b"no", b"other")
    assert await turns.store.journal("t") == [b"entry"]


async def test_an_answer_that_is_sent_again_changes_nothing_and_gives_no_second_claim(turns: Turns):
    await turns.running(turn="t")
    await turns.store.end("t", 1, WAITING, NOTHING)
    first = await turns.store.answer("t", b"yes", b"entry", worker="w1", lease_s=60)
    again = await turns.store.answer("t", b"yes", b"entry", worker="w1", lease_s=60)
    assert (again.turn, again.claim) == (first.turn, None)
    assert await turns.store.journal("t") == [b"entry"]
    await turns.store.end("t", 2, SUCCESS, NOTHING)
    with pytest.raises(NothingWaits, match="success"):
        await turns.store.answer("t", b"yes", b"entry")


# Cancel and give back


async def test_cancel_of_a_queued_ready_or_waiting_turn_ends_it_at_once(turns: Turns):
    await turns.running(turn="waiting", session="s")
    await turns.store.accept(a_turn("queued", session="s"))
    await turns.store.accept(a_turn("next", session="s"))
    await turns.store.accept(a_turn("ready"))
    await turns.store.end("waiting", 1, WAITING, NOTHING)
    for name in ("queued", "waiting", "ready"):
        cancelled = await turns.store.cancel(name)
        assert (cancelled.status, cancelled.code, cancelled.is_hidden) == ("cancelled", "cancelled", False)
        assert cancelled.ended is not None
        assert cancelled == await turns.store.get(name)
        assert await turns.status("next") == ("queued" if name == "queued" else "ready")
    with pytest.raises(NothingWaits):
        await turns.store.answer("waiting", b"yes", b"entry")


async def test_cancel_of_a_running_turn_asks_its_worker(turns: Turns):
    await turns.running(turn="t")
    asked = await turns.store.cancel("t", is_rollback=True)
    assert (asked.status, asked.is_cancel_wanted, asked.is_hidden) == ("running", True, True)
    assert await turns.store.write("t", 1, Writes(entries=[b"a"])) == "stop"
    assert await turns.store.journal("t") == [b"a"]
    assert await turns.store.renew("w1", {"t": 1}) == {"t": "stop"}
    assert await turns.store.end("t", 1, CANCELLED, NOTHING) == "stop"
    assert await turns.status("t") == "cancelled"


async def test_cancel_of_a_turn_that_has_ended_changes_nothing(turns: Turns):
    await turns.running(turn="t")
    await turns.store.end("t", 1, SUCCESS, NOTHING)
    before = await turns.store.get("t")
    assert await turns.store.cancel("t", is_rollback=True) == before == await turns.store.get("t")
    with pytest.raises(TurnUnknown):
        await turns.store.cancel("unknown")


async def test_a_turn_that_is_to_wait_although_it_is_wanted_to_end_is_cancelled(turns: Turns):
    await turns.running(turn="t", session="s")
    await turns.store.accept(a_turn("u", session="s"))
    await turns.store.cancel("t")
    assert await turns.store.end("t", 1, WAITING, Writes(events=[b"0"])) == "stop"
    turn = await turns.store.get("t")
    assert turn is not None
    assert (turn.status, turn.code, turn.result) == ("cancelled", "cancelled", None)
    assert await turns.store.events("t") == [b"0"]
    assert await turns.status("u") == "ready"


async def test_a_turn_that_was_given_back_goes_on_with_another_worker(turns: Turns):
    await turns.running(turn="t", session="s")
    await turns.store.accept(a_turn("u", session="s"))
    await turns.store.write("t", 1, Writes(entries=[b"a"]))
    assert await turns.store.give_back("t", 1) == "ok"
    turn = await turns.store.get("t")
    assert turn is not None
    assert (turn.status, turn.owner, turn.lease_until, turn.epoch) == ("ready", None, None, 1)
    assert await turns.store.give_back("t", 1) == "ok"
    assert await turns.store.write("t", 1, NOTHING) == "lost"
    assert await turns.status("u") == "queued"
    (claim,) = await turns.store.claim("w2", fingerprints=["f1"], limit=5)
    assert (claim.turn.turn, claim.turn.epoch, claim.journal) == ("t", 2, (b"a",))


async def test_a_turn_that_is_given_back_although_it_is_wanted_to_end_is_cancelled(turns: Turns):
    await turns.running(turn="t", session="s")
    await turns.store.accept(a_turn("u", session="s"))
    await turns.store.cancel("t")
    assert await turns.store.give_back("t", 1) == "stop"
    assert [await turns.status(name) for name in "tu"] == ["cancelled", "ready"]


async def test_renew_answers_for_each_turn(turns: Turns):
    for name in ("ok", "stop", "old", "other"):
        await turns.running(turn=name, lease_s=OVER_S, worker="w2" if name == "other" else "w1")
    await turns.store.claim("w2", fingerprints=["f1"], only=["old"])
    await turns.store.cancel("stop")
    verdicts = await turns.store.renew("w1", {"ok": 1, "stop": 1, "old": 1, "unknown": 1}, lease_s=60)
    assert verdicts == {"ok": "ok", "stop": "stop", "old": "lost", "unknown": "lost"}
    await turns.store.renew("w1", {"other": 1}, lease_s=60)
    assert [claim.turn.turn for claim in await turns.store.claim("w3", fingerprints=["f1"], limit=9, lease_s=60)] == ["other"]
    assert await turns.store.renew("w1", {}) == {}


# Find, prune and follow


async def test_find_returns_the_newest_first_by_every_filter(turns: Turns):
    await turns.running(turn="a", session="s", tenant="x", key="k", principal="eve")
    await turns.store.accept(a_turn("b", session="s", agent="desk"))
    await turns.store.accept(a_turn("c", session="r"))
    await turns.store.cancel("c")

    async def found(**chosen: Any) -> str:
        return "".join(turn.turn for turn in await turns.store.find(TurnFilter(**chosen)))

    assert await found() == "cba"
    assert (await found(tenant="x"), await found(tenant=""), await found(tenant="y")) == ("a", "cb", "")
    assert (await found(agent="desk"), await found(session="s"), await found(key="k")) == ("b", "ba", "a")
    assert (await found(principal="eve"), await found(principal="bob")) == ("a", "")
    assert (await found(statuses=["running", "cancelled"]), await found(statuses={"queued"})) == ("ca", "")
    assert await found(session="s", agent="sam", statuses=["running"]) == "a"
    (full,) = await turns.store.find(TurnFilter(key="k"))
    assert full == await turns.store.get("a")


async def test_find_by_pages(turns: Turns):
    names = [(await turns.store.accept(a_turn())).turn.turn for _ in range(7)]
    await turns.store.cancel(names[3])
    seen: list[str] = []
    before = None
    while page := await turns.store.find(TurnFilter(statuses=["ready"]), Page(limit=2, before=before)):
        seen += [turn.turn for turn in page]
        before = seen[-1]
    assert seen == [name for name in reversed(names) if name != names[3]]
    assert [turn.turn for turn in await turns.store.find(TurnFilter(statuses=["ready"]), Page(before=names[3]))] == names[2::-1]
    assert await turns.store.find(TurnFilter(), Page(before="unknown")) == []


async def test_progress_returns_status_and_number_of_events_of_the_turns_that_are_asked_for(turns: Turns):
    running, other = await turns.running(), await turns.running()
    await turns.store.write(running.turn.turn, 1, Writes(events=[b"a", b"b"]))
    assert await turns.store.progress([running.turn.turn, "unknown"]) == {running.turn.turn: ("running", 2)}
    await turns.store.end(other.turn.turn, 1, TurnEnd(status="success"), Writes())
    assert await turns.store.progress([other.turn.turn]) == {other.turn.turn: ("success", 0)}
    assert await turns.store.progress([]) == {}


async def test_load_counts_open_turns_by_agent_and_status(turns: Turns):
    await turns.running(agent="sam")
    first = (await turns.store.accept(a_turn(agent="sam"))).turn
    turns.clock.move(5)
    await turns.store.accept(a_turn(agent="sam"))
    ended = await turns.running(agent="desk")
    await turns.store.end(ended.turn.turn, 1, TurnEnd(status="success"), Writes())
    found = {(agent, status): (count, oldest) for agent, status, count, oldest in await turns.store.load()}
    assert found == {("sam", "running"): (1, first.created), ("sam", "ready"): (2, first.created)}


async def test_prune_deletes_turns_that_ended_before_a_time_and_keeps_session_state(turns: Turns):
    await turns.running(turn="t", session="s", key="k")
    await turns.store.end("t", 1, replace(SUCCESS, state=b"kept"), Writes(entries=[b"a"], events=[b"0"]))
    await turns.running(turn="open")
    now = await turns.store.now()
    assert await turns.store.prune(ended_before=now - 100) == 0
    assert await turns.store.prune(ended_before=now + 100) == 1
    assert await turns.store.get("t") is None
    assert (await turns.store.journal("t"), await turns.store.events("t")) == ([], [])
    assert await turns.store.state("", "sam", "s") == SavedState(values=b"kept", turn="t", fingerprint="f1")
    assert await turns.status("open") == "running"
    assert (await turns.store.accept(a_turn(session="s", key="k", digest="new"))).is_new


async def test_delete_removes_one_turn_that_has_ended_and_keeps_session_state(turns: Turns):
    for turn in ("t", "packed", "other"):
        await turns.running(turn=turn, session="s", key=turn)
        await turns.store.end(turn, 1, replace(SUCCESS, state=b"kept"), Writes(entries=[b"a"], events=[b"0"]))
        if turn == "packed":
            await turns.store.compact(ended_before=await turns.store.now() + 100)
    await turns.running(turn="open")
    assert [await turns.store.delete(turn) for turn in ("t", "packed", "open", "t", "none")] == [True, True, False, False, False]
    for turn in ("t", "packed"):
        assert await turns.store.get(turn) is None
        assert (await turns.store.journal(turn), await turns.store.events(turn)) == ([], [])
    assert (await turns.status("other"), await turns.status("open")) == ("success", "running")
    assert await turns.store.journal("other") == [b"a"]
    assert await turns.store.state("", "sam", "s") == SavedState(values=b"kept", turn="other", fingerprint="f1")
    again = await turns.store.accept(a_turn(session="s", key="t", digest="new"))
    assert (again.is_new, again.turn.position) == (True, 4)


async def test_prune_deletes_no_more_than_its_limit(turns: Turns):
    for _ in range(5):
        claim = await turns.running()
        await turns.store.end(claim.turn.turn, 1, SUCCESS, NOTHING)
    later = await turns.store.now() + 100
    assert [await turns.store.prune(ended_before=later, limit=3) for _ in range(3)] == [3, 2, 0]


async def test_compact_keeps_what_is_read_of_turns_that_have_ended(turns: Turns):
    lines = [b"%d \n\x00" % number for number in range(50)]
    await turns.running(turn="t")
    await turns.store.end("t", 1, SUCCESS, Writes(entries=[b"", b"a"], events=lines))
    await turns.running(turn="open")
    await turns.store.write("open", 1, Writes(entries=[b"b"]))
    before = await turns.store.get("t")
    later = await turns.store.now() + 1
    assert await turns.store.compact(ended_before=later - 100) == 0
    done = await turns.store.compact(ended_before=later)
    assert done == (0 if isinstance(turns.store, MemoryTurns) else 1)
    assert await turns.store.compact(ended_before=later) == 0
    assert await turns.store.get("t") == before
    assert await turns.store.journal("t") == [b"", b"a"]
    assert await turns.store.events("t") == lines
    assert await turns.store.events("t", after=48) == lines[48:]
    assert await turns.store.events("t", after=10, limit=2) == lines[10:12]
    assert await turns.store.journal("open") == [b"b"]
    assert await turns.store.write("open", 1, Writes(entries=[b"c"], first_entry=1)) == "ok"
    assert await turns.store.prune(ended_before=later) == 1
    assert (await turns.store.journal("t"), await turns.store.events("t")) == ([], [])


async def test_changed_returns_when_something_changed_and_misses_nothing_between_two_looks(turns: Turns):
    async with asyncio.timeout(20):
        seen = await turns.store.changed(timeout_s=0)
        await turns.store.accept(a_turn("t"))
        seen = await turns.store.changed(timeout_s=60, since=seen)

        async def follow(seen: int) -> None:
            while await turns.status("t") != "cancelled":
                seen = await turns.store.changed(timeout_s=60, since=seen)

        following = asyncio.create_task(follow(seen))
        await asyncio.sleep(0.05)
        await turns.store.cancel("t")
        await following


async def test_changed_without_a_number_waits_for_the_next_change(turns: Turns):
    async with asyncio.timeout(20):
        # The first may see that the store was opened.
        await asyncio.gather(*(turns.store.changed(timeout_s=0.1) for _ in range(2)))
        waiting = [asyncio.create_task(turns.store.changed(timeout_s=60)) for _ in range(2)]
        await asyncio.sleep(0.1)
        await turns.store.accept(a_turn())
        await asyncio.gather(*waiting)


async def test_changed_returns_after_its_time(turns: Turns):
    async with asyncio.timeout(20):
        seen = None
        for _ in range(6):
            seen = await turns.store.changed(timeout_s=0.05, since=seen)
        loop = asyncio.get_running_loop()
        before = loop.time()
        assert await turns.store.changed(timeout_s=0.1, since=seen) == seen
        assert loop.time() - before >= 0.09
