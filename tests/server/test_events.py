"""Followers of stored events: they share one watcher, and a slow one holds up neither the turn nor the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import pytest

from interlock.errors import StoreUnavailable
from interlock.runtime.event_lines import EventEncoder, timed
from interlock.runtime.turns import NewTurn, TurnEnd, TurnStore, Writes
from interlock.server import events
from interlock.server.events import EventHub, EventPlace, EventStream
from interlock.server.request_errors import RequestError
from interlock.stores.turns_memory import MemoryTurns
from tests.server.serving import frames, serving

FOLLOWERS = 200


class CountedTurns(MemoryTurns):
    """Counts how often events and progress are read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    async def events(self, turn: str, *, after: int = 0, limit: int = 1000) -> list[bytes]:
        self.reads += 1
        return await super().events(turn, after=after, limit=limit)


def line(turn: str, number: int) -> bytes:
    event: Any = {"event": "on_custom_event", "name": "n", "run_id": f"x{number:035}", "parent_ids": [], "tags": [], "metadata": {}}
    event["data"] = {"number": number}
    return timed(EventEncoder(turn).encode(event), 0)


async def begun(store: TurnStore, turn: str) -> None:
    new = NewTurn(turn=turn, agent="a", session=turn, header=b"{}", fingerprint="f")
    assert (await store.accept(new, worker="w")).claim is not None


async def test_many_followers_of_a_turn_get_every_event_by_reading_each_line_once():
    store = CountedTurns()
    hub = EventHub(store)
    await begun(store, "t")

    async def follow(after: int) -> list[int]:
        return [event["data"]["number"] async for batch in hub.follow("t", after=after) for event in batch]

    following = [asyncio.create_task(follow(number % 5)) for number in range(FOLLOWERS)]
    for number in range(10):
        await asyncio.sleep(0.01)
        await store.write("t", 1, Writes(events=[line("t", number)], first_event=number))
    await store.end("t", 1, TurnEnd(status="success", result=b"{}"), Writes(events=[line("t", 10)], first_event=10))
    found = await asyncio.wait_for(asyncio.gather(*following), 30)
    assert found == [list(range(number % 5, 11)) for number in range(FOLLOWERS)]
    assert store.reads < FOLLOWERS
    assert hub.followers == 0
    await hub.aclose()


async def test_a_follower_of_a_turn_that_waits_ends_and_one_after_the_answer_gets_the_rest():
    store = MemoryTurns()
    hub = EventHub(store)
    await begun(store, "t")
    await store.end("t", 1, TurnEnd(status="waiting", result=b"{}"), Writes(events=[line("t", 0)]))
    assert [len(batch) async for batch in hub.follow("t")] == [1]
    await store.answer("t", b"yes", b"entry", worker="w")
    following = hub.follow("t", after=1)
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await store.end("t", 2, TurnEnd(status="success", result=b"{}"), Writes(events=[line("t", 1)], first_event=1))
    assert [event["data"]["number"] for event in await asyncio.wait_for(waiting, 20)] == [1]
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(anext(following), 20)
    await hub.aclose()


async def test_a_silent_stream_has_heartbeats_and_ends_when_the_server_stops():
    store = MemoryTurns()
    hub = EventHub(store)
    await begun(store, "t")
    following = hub.follow("t", idle_s=0.05)
    assert await asyncio.wait_for(anext(following), 20) == []
    ending = asyncio.ensure_future(anext(following, None))
    await hub.aclose()
    assert await asyncio.wait_for(ending, 20) in (None, [])


async def test_a_store_that_fails_for_a_while_does_not_end_the_followers():
    class Failing(MemoryTurns):
        failures = 0

        async def progress(self, turns: Any) -> Any:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable
            return await super().progress(turns)

    store = Failing()
    hub = EventHub(store)
    await begun(store, "t")
    following = hub.follow("t")
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0.05)
    store.failures = 1
    await store.write("t", 1, Writes(events=[line("t", 0)]))
    assert len(await asyncio.wait_for(waiting, 20)) == 1
    await following.aclose()
    await hub.aclose()


async def test_a_client_that_does_not_read_is_dropped_and_the_turn_and_others_are_not_held_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(events, "_SEND_S", 0.3)
    async with serving(tmp_path) as running:
        client = running.client()
        text = "x" * 3_000_000
        turn = (await client.post("/api/turns?wait=30", json={"agent": "parcels", "input": text})).json()
        assert turn["status"] == "success"
        host, port = running.process.servers[0].sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port, limit=1000)
        writer.write(f"GET /api/turns/{turn['turn']}/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n".encode())
        cast("asyncio.ReadTransport", writer.transport).pause_reading()
        path = f"/api/turns/{turn['turn']}/events"
        async with client.stream("GET", path, headers={"accept": "text/event-stream"}) as response:
            assert (await frames(response))[-1]["event"] == "status"
        while running.server.hub.followers:  # noqa: ASYNC110 - the connection is dropped by a timeout
            await asyncio.sleep(0.02)
        cast("asyncio.ReadTransport", writer.transport).resume_reading()
        received = await asyncio.wait_for(reader.read(50_000_000), 20)
        assert b"event: status" not in received
        writer.close()


def test_an_id_of_an_event_grows_within_a_session_and_a_bad_one_is_refused():
    assert str(EventPlace.parse("3.14")) == "3.14"
    assert EventPlace.parse("3") == EventPlace(3, 0)
    assert EventPlace(2, 99) < EventPlace(10, 1)
    for bad in ("", "x", "1.2.3", "-1", "1.-2", "9" * 20, "\u0661", "1."):
        with pytest.raises(RequestError):
            EventPlace.parse(bad)


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_a_client_that_left_before_its_stream_began_has_left(leaves_first: bool):  # noqa: FBT001 - a case
    left: list[str] = []

    async def parts() -> AsyncGenerator[list[bytes], None]:
        yield [b"data: 1\n\n"]

    async def receive() -> dict[str, Any]:
        if not leaves_first:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        await asyncio.sleep(0)

    async def leave() -> None:
        left.append("left")

    await EventStream(parts(), leave=leave)({"type": "http"}, receive, send)
    assert left == (["left"] if leaves_first else [])
