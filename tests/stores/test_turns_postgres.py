"""The turn store on PostgreSQL: connections that are cut, servers that are down, and transactions at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import traceback
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from interlock.errors import KeyReused, StateUnstorable, StoreCorrupt, StoreUnavailable
from interlock.runtime.turns import Page, TurnEnd, TurnFilter, Writes
from interlock.stores.turns_postgres import PostgresTurns
from tests.stores.turning import NOTHING, OVER_S, SUCCESS, a_turn
from tests.support.postgres import PASSWORD, PostgresServer, fresh_database, postgres_server

WAITING = TurnEnd(status="waiting", result=b"{}")


@pytest.fixture
async def store(postgres: PostgresServer, database: str) -> AsyncGenerator[PostgresTurns]:
    opened = PostgresTurns(postgres.database(database))
    yield opened
    await opened.aclose()


@asynccontextmanager
async def stores(postgres: PostgresServer, database: str, count: int) -> AsyncGenerator[list[PostgresTurns]]:
    opened = [PostgresTurns(postgres.database(database)) for _ in range(count)]
    try:
        yield opened
    finally:
        for one in opened:
            await one.aclose()


class Proxy:
    """Passes bytes to the server and back. It can swallow the answer to a statement, and cut the connection instead."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self.cut_after: bytes | None = None
        self.cuts = 0

    def url(self, database: str, port: int) -> str:
        return f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/{database}?sslmode=disable&gssencmode=disable"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to = await asyncio.open_unix_connection(f"{self._server.folder}/.s.PGSQL.5432")
        is_cut = asyncio.Event()

        async def forth() -> None:
            while data := await reader.read(1 << 16):
                if self.cut_after is not None and self.cut_after in data:
                    self.cut_after = None
                    is_cut.set()
                to.write(data)
            to.close()

        async def back() -> None:
            while data := await there.read(1 << 16):
                if is_cut.is_set():
                    self.cuts += 1
                    break
                writer.write(data)
            writer.close()
            to.close()

        with contextlib.suppress(OSError):
            await asyncio.gather(forth(), back())


@asynccontextmanager
async def proxied(server: PostgresServer, database: str) -> AsyncGenerator[tuple[Proxy, PostgresTurns]]:
    proxy = Proxy(server)
    listening = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    store = PostgresTurns(proxy.url(database, port))
    try:
        yield proxy, store
    finally:
        await store.aclose()
        listening.close()
        await asyncio.sleep(0.05)


async def test_a_write_whose_answer_was_lost_is_sent_again_and_done_once(postgres: PostgresServer, database: str):
    async with proxied(postgres, database) as (proxy, store):
        await store.now()
        proxy.cut_after = b"turn-1"
        accepted = await store.accept(a_turn("turn-1", session="s", header=b"h"), worker="w", lease_s=60)
        assert accepted.claim is not None
        assert accepted.claim.turn.epoch == 1
        proxy.cut_after = b"turn-1"
        assert await store.write("turn-1", 1, Writes(entries=[b"a"], events=[b"0", b"1"])) == "ok"
        proxy.cut_after = b"turn-1"
        assert await store.end("turn-1", 1, WAITING, Writes(events=[b"2"], first_event=2)) == "ok"
        proxy.cut_after = b"turn-1"
        answered = await store.answer("turn-1", b"yes", b"answer")
        assert answered.turn.status == "ready"
        (claim,) = await store.claim("w", fingerprints=["f1"], lease_s=60)
        proxy.cut_after = b"turn-1"
        assert await store.give_back("turn-1", claim.turn.epoch) == "ok"
        (claim,) = await store.claim("w", fingerprints=["f1"], lease_s=60)
        proxy.cut_after = b"turn-1"
        assert await store.end("turn-1", claim.turn.epoch, replace(SUCCESS, state=b"s"), NOTHING) == "ok"
        assert proxy.cuts == 6
        assert await store.journal("turn-1") == [b"a", b"answer"]
        assert await store.events("turn-1") == [b"0", b"1", b"2"]
        assert [turn.position for turn in await store.find(TurnFilter())] == [1]
        kept = await store.state("", "sam", "s")
        assert kept is not None
        assert kept.values == b"s"


async def test_connections_that_the_server_ended_are_replaced(postgres: PostgresServer, database: str, store: PostgresTurns):
    await asyncio.gather(*(store.accept(a_turn()) for _ in range(10)))
    for _ in range(3):
        postgres.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")  # noqa: S608 - the test's own
        await asyncio.gather(*(store.accept(a_turn()) for _ in range(10)))
    assert len(await store.find(TurnFilter())) == 40


async def test_a_server_that_is_down_is_unavailable_at_once_and_serves_again_when_it_is_back():
    with postgres_server() as server:
        store = PostgresTurns(server.url)
        await store.accept(a_turn("t"))
        server.stop()
        async with asyncio.timeout(5):
            with pytest.raises(StoreUnavailable) as caught:
                await store.get("t")
            assert PASSWORD not in "".join(traceback.format_exception(caught.value))
            await store.changed(timeout_s=0.01)
        server.start()
        assert await store.get("t") is not None
        await store.aclose()


async def test_a_server_that_does_not_answer_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = PostgresTurns(f"postgresql://postgres@127.0.0.1:{port}/postgres", timeout_s=0.2)
        with pytest.raises(StoreUnavailable, match="did not answer"):
            await store.get("t")
        await store.aclose()


@pytest.mark.parametrize(("version", "says"), [(3, "newer"), (1, "before its first release")])
async def test_tables_of_another_version_are_left_as_they_are(
    postgres: PostgresServer, database: str, store: PostgresTurns, version: int, says: str
):
    await store.accept(a_turn("t"))
    postgres.run(f"UPDATE interlock.version SET version = {version}", database=database)  # noqa: S608 - the test's own
    other = PostgresTurns(postgres.database(database))
    with pytest.raises(StoreCorrupt, match=says):
        await other.get("t")
    await other.aclose()


async def test_a_nul_is_refused(store: PostgresTurns):
    for name in ("a\0b", "\ud800"):
        with pytest.raises(StateUnstorable):
            await store.accept(a_turn(name))
    assert await store.find(TurnFilter()) == []


async def test_a_caller_that_is_cancelled_does_not_stop_its_statement(postgres: PostgresServer, database: str, store: PostgresTurns):
    await store.accept(a_turn("t"))
    with psycopg.connect(postgres.database(database)) as other:
        other.execute("LOCK TABLE interlock.turns")
        call = asyncio.create_task(store.accept(a_turn("u")))
        await asyncio.sleep(0.1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await store.aclose()
    assert await store.get("u") is not None


async def test_stores_that_set_up_at_once_all_can(postgres: PostgresServer):
    for _ in range(3):
        with fresh_database(postgres) as database:
            async with stores(postgres, database, 8) as opened:
                await asyncio.gather(*(one.now() for one in opened))


async def test_one_key_at_once_is_one_turn(postgres: PostgresServer, database: str):
    async with stores(postgres, database, 4) as opened:
        await asyncio.gather(*(one.now() for one in opened))
        for number in range(15):
            # The open turn makes each accept cancel something, which must happen once only, and by the turn that is stored.
            await opened[0].accept(a_turn(session=f"s{number}"))
            new = a_turn(f"t{number}", session=f"s{number}", key=f"k{number}", digest="d", policy="interrupt")
            calls = [one.accept(replace(new, turn=f"t{number}-{place}"), worker=f"w{place}") for place, one in enumerate(opened)]
            answers = await asyncio.gather(*calls)
            assert len({answer.turn.turn for answer in answers}) == 1
            assert sorted(answer.is_new for answer in answers) == [False, False, False, True]
            assert sum(answer.claim is not None for answer in answers) == 1
            with pytest.raises(KeyReused):
                await opened[1].accept(replace(new, turn="other", digest="e"))


async def test_two_stores_race_for_a_turn_and_exactly_one_wins(postgres: PostgresServer, database: str):
    async with stores(postgres, database, 4) as opened:
        for number in range(20):
            await opened[0].accept(a_turn(f"t{number}"), worker="dead", lease_s=OVER_S if number % 2 else 60)
            calls = [one.claim(f"w{place}", fingerprints=["f1"], lease_s=60) for place, one in enumerate(opened)]
            assert sum(len(claims) for claims in await asyncio.gather(*calls)) == number % 2


async def test_a_change_by_another_store_is_heard(postgres: PostgresServer, database: str):
    async with stores(postgres, database, 2) as (first, second), asyncio.timeout(20):
        seen = await first.changed(timeout_s=0)
        for number in range(5):
            following = asyncio.create_task(until(first, f"t{number}", seen))
            await asyncio.sleep(0.03 * number)
            await second.accept(a_turn(f"t{number}"))
            seen = await following


async def until(store: PostgresTurns, turn: str, seen: int) -> int:
    while await store.get(turn) is None:
        seen = await store.changed(timeout_s=60, since=seen)
    return seen


class Fleet:
    """Workers that accept, claim, cancel and end turns of three sessions, and sometimes die."""

    def __init__(self, total: int, chance: random.Random) -> None:
        self.total = total
        self.chance = chance
        self.ends: Counter[str] = Counter()

    @property
    def is_busy(self) -> bool:
        return sum(self.ends.values()) < self.total

    async def accept(self, store: PostgresTurns, numbers: range) -> None:
        for number in numbers:
            new = a_turn(f"t{number}", session=f"s{number % 3}")
            await again(lambda new=new: store.accept(new))

    async def work(self, store: PostgresTurns, worker: str) -> None:
        while self.is_busy:
            claims = await again(lambda: store.claim(worker, fingerprints=["f1"], limit=2, lease_s=0.5))
            for claim in claims:
                await self.run(store, claim.turn.turn, claim.turn.epoch)
            if not claims:
                # A turn whose worker died after it was cancelled is ended by the next claim.
                for turn in await again(lambda: store.find(TurnFilter(statuses=["cancelled"]))):
                    self.ends[turn.turn] = max(1, self.ends[turn.turn])
                await asyncio.sleep(0.01)

    async def run(self, store: PostgresTurns, turn: str, epoch: int) -> None:
        fate = self.chance.random()
        if fate < 0.1:
            return  # the worker dies
        if fate < 0.2:
            await again(lambda: store.give_back(turn, epoch))
            return
        if fate < 0.3:
            await again(lambda: store.cancel(turn))
        end = TurnEnd(status="success", state=turn.encode())
        if await again(lambda: store.end(turn, epoch, end, Writes(events=[b"0", b"1"]))) != "lost":
            self.ends[turn] += 1


async def test_workers_at_once_end_every_turn_once_and_in_order_while_connections_are_cut(postgres: PostgresServer, database: str):
    seed = random.randrange(2**32)  # noqa: S311 - not a secret
    print("seed", seed)  # noqa: T201 - so that a failure can be repeated
    total = 120
    fleet = Fleet(total, random.Random(seed))  # noqa: S311 - likewise
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}' ORDER BY random() LIMIT 3"  # noqa: S608 - the test's own

    async def cut_connections() -> None:
        while fleet.is_busy:
            await asyncio.sleep(0.2)
            await asyncio.to_thread(postgres.run, cut)

    async with stores(postgres, database, 4) as opened, asyncio.timeout(90):
        await asyncio.gather(
            *(fleet.accept(store, range(place, total, 4)) for place, store in enumerate(opened)),
            *(fleet.work(store, f"w{place}") for place, store in enumerate(opened)),
            cut_connections(),
        )
        turns = await again(lambda: opened[0].find(TurnFilter(), Page(limit=total + 1)))
        assert {turn.status for turn in turns} <= {"success", "cancelled"}
        for turn in turns:
            assert turn.status == "cancelled" or await opened[0].events(turn.turn) == [b"0", b"1"]
        for session in ("s0", "s1", "s2"):
            assert sorted(turn.position for turn in turns if turn.session == session) == list(range(1, total // 3 + 1))
            # One after the other: each began after the one before it had ended.
            ran = sorted((turn for turn in turns if turn.session == session and turn.started), key=lambda turn: turn.position)
            assert all((one.ended or 0) <= (other.started or 0) for one, other in itertools.pairwise(ran))
    assert set(fleet.ends.values()) == {1}


async def again(call: Any) -> Any:
    """Repeat a call while the store cannot be reached, as a worker does."""
    for _ in range(50):
        try:
            return await call()
        except StoreUnavailable:
            await asyncio.sleep(0.02)
    raise AssertionError("the store stays unavailable")
