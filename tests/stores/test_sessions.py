from __future__ import annotations

import asyncio
import datetime as dt
import gc
import ipaddress
import json
import os
import resource
import signal
import ssl
import threading
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from interlock.capabilities import SessionStore
from interlock.errors import (
    InputSchema,
    SettingsInvalid,
    StateConflict,
    StateUnstorable,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)
from interlock.stores.connections import MAX_CONNECTIONS
from interlock.stores.sessions import MAX_BYTES, RedisSessions, open_sessions
from tests.support.valkey import Other, Served, known, misbehave, running, until

SECRET = "hunter2"  # noqa: S105 - what no message may show
NOBODY = "redis://127.0.0.1:9"  # whoever asks there gets StoreUnavailable
DAY = 86_400


def key(session_id: str) -> str:
    return f"conv:{session_id}:agent:session"


class Documents:
    """The sessions, with the documents as what their text says."""

    def __init__(self, store: SessionStore) -> None:
        self.store = cast("RedisSessions", store)
        self.ping, self.aclose = self.store.ping, self.store.aclose

    async def load(self, session_id: str) -> dict[str, JsonValue] | None:
        text = await self.store.load(session_id)
        return None if text is None else json.loads(text)

    async def save(self, session_id: str, document: dict[str, JsonValue], *, expected: int) -> None:
        await self.store.save(session_id, written(document), expected=expected)


def written(document: dict[str, JsonValue]) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def opened(url: str | None, *, folder: Path = Path("/nowhere"), timeout_s: float = 10, **more: Any) -> Documents:
    return Documents(open_sessions(url, folder=folder, ttl_seconds=DAY, timeout_s=timeout_s, **more))


@pytest.fixture
async def sessions(served: Served) -> AsyncIterator[Documents]:
    sessions = opened(served.url)
    yield sessions
    await sessions.aclose()


@pytest.fixture
def stored(served: Served, session_id: str) -> Callable[[bytes], None]:
    """Store bytes for the session behind everybody's back."""

    def store(raw: bytes) -> None:
        served.client.set(key(session_id), raw, ex=DAY)

    return store


def made(version: int, **more: JsonValue) -> dict[str, JsonValue]:
    return {"version": version, **more}


def told(error: BaseException) -> str:
    """Return everything that a log would show of an error."""
    return "".join(traceback.format_exception(error)) + repr(error)


# One document


async def test_a_saved_document_is_loaded(sessions: Documents, session_id: str):
    store: SessionStore = sessions.store
    assert await store.load(session_id) is None
    text = written(made(1, goals={}, text='é "😀\0', number=1.5, nothing=None, list=[1, [True]]))
    await store.save(session_id, text, expected=0)
    assert await store.load(session_id) == text
    await store.save(session_id, ' {"version": 2}', expected=1)
    assert await store.load(session_id) == ' {"version": 2}'


async def test_a_session_is_one_json_text_under_one_key(sessions: Documents, session_id: str, served: Served):
    await sessions.save(session_id, made(1, text="é"), expected=0)
    assert served.client.get(key(session_id)) == '{"version":1,"text":"é"}'.encode()


async def test_each_save_renews_the_time_to_live(sessions: Documents, session_id: str, served: Served):
    await sessions.save(session_id, made(1), expected=0)
    assert DAY - 60 < served.client.ttl(key(session_id)) <= DAY
    served.client.expire(key(session_id), 100)
    await sessions.load(session_id)
    assert served.client.ttl(key(session_id)) <= 100
    await sessions.save(session_id, made(2), expected=1)
    assert DAY - 60 < served.client.ttl(key(session_id)) <= DAY


async def test_json_with_other_white_space_is_loaded_and_replaced(sessions: Documents, session_id: str, stored: Callable[[bytes], None]):
    stored(b' {"goals": {"version": 9},\n "version": 3 , "x": [1,2]} ')
    assert await sessions.load(session_id) == {"goals": {"version": 9}, "version": 3, "x": [1, 2]}
    await sessions.save(session_id, made(4), expected=3)
    assert await sessions.load(session_id) == made(4)


async def test_a_document_can_be_saved_without_loading_it_first(served: Served, session_id: str, stored: Callable[[bytes], None]):
    stored(b'{"x":1,"version":3}')
    sessions = opened(served.url)
    await sessions.save(session_id, made(4), expected=3)
    await sessions.save(session_id, made(5), expected=4)
    await sessions.aclose()
    assert json.loads(served.client.get(key(session_id))) == made(5)


BAD = ["", "a" * 65, "a" * 100_000, "../x", "a*", "a:b", "a b", "a\n", "é", "a\0", "{x}", "\ud800"]


@pytest.mark.parametrize("bad", BAD, ids=[repr(bad[:8]) for bad in BAD])
async def test_an_invalid_session_id_is_rejected_without_a_call(bad: str):
    sessions = opened(NOBODY)
    with pytest.raises(InputSchema) as caught:
        await sessions.load(bad)
    assert len(str(caught.value)) < 200
    with pytest.raises(InputSchema):
        await sessions.save(bad, made(1), expected=0)


@pytest.mark.parametrize("good", ["a", "A-z_09", "-", "a" * 64])
async def test_a_valid_session_id_is_accepted(sessions: Documents, good: str, served: Served):
    served.client.delete(key(good))
    await sessions.save(good, made(1), expected=0)
    assert await sessions.load(good) == made(1)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**60), max_value=10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
    max_leaves=30,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON, max_size=5), version=st.integers(1, 10**30))
async def test_any_document_is_loaded_exactly_as_saved(served: Served, document: dict[str, JsonValue], version: int):
    document["version"] = version
    sessions, session_id = opened(served.url), os.urandom(8).hex()
    await sessions.save(session_id, document, expected=0)
    loaded = await sessions.load(session_id)
    await sessions.aclose()
    assert json.dumps(loaded) == json.dumps(document)  # also whether a number is whole, and the order
    assert json.loads(served.client.get(key(session_id))) == document


def nested(depth: int) -> dict[str, JsonValue]:
    inner: JsonValue = 1
    for _ in range(depth):
        inner = {"a": inner}
    return made(1, deep=inner)


async def test_the_deepest_document_that_can_be_saved_can_be_loaded(sessions: Documents, session_id: str):
    await sessions.save(session_id, nested(199), expected=0)
    assert await sessions.load(session_id) == nested(199)
    with pytest.raises(StateUnstorable):
        await sessions.save(session_id, made(2, deep=nested(200)), expected=1)
    assert await sessions.load(session_id) == nested(199)


UNSTORABLE: dict[str, str] = {
    "nothing": "",
    "no json": "hello",
    "half": '{"version":1,"x":',
    "more than one": '{"version":1}{"version":1}',
    "a list": '[{"version":1}]',
    "text": '"version"',
    "nan": '{"version":1,"x":NaN}',
    "infinity": '{"version":1,"x":[-Infinity]}',
    "half a character": '{"version":1,"x":"\ud800"}',
    "half a character, escaped": '{"version":1,"x":"\\ud800"}',
    "half a character in a name": '{"version":1,"\udfff":1}',
    "too deep": '{"version":1,"x":' + "[" * 5000 + "]" * 5000 + "}",
    "a number too long to be read": f'{{"version":1,"x":1{"0" * 4300}}}',
    "no version": '{"x":1}',
    "a version that is text": '{"version":"1"}',
    "a version that is not whole": '{"version":1.0}',
    "a version that is true": '{"version":true}',
    "version 0": '{"version":0}',
    "a version below 0": '{"version":-1}',
    "too large": written(made(1, x="x" * MAX_BYTES)),
}


@pytest.mark.parametrize("document", UNSTORABLE.values(), ids=UNSTORABLE.keys())
async def test_a_document_that_could_not_be_loaded_is_rejected_without_a_call(document: str):
    with pytest.raises(StateUnstorable) as caught:
        await opened(NOBODY).store.save("some-session", document, expected=0)
    assert "'some-session'" in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("version", [3, 4])
async def test_a_version_that_is_not_higher_is_rejected(version: int):
    with pytest.raises(StateUnstorable, match="above 4"):
        await opened(NOBODY).save("some-session", made(version), expected=4)


async def test_the_size_limit_is_exact(sessions: Documents, session_id: str):
    room = MAX_BYTES - len('{"version":1,"x":""}')
    await sessions.save(session_id, made(1, x="x" * room), expected=0)
    assert await sessions.load(session_id) == made(1, x="x" * room)
    with pytest.raises(StateUnstorable, match="2,097,153 bytes"):
        await sessions.save(session_id, made(2, x="x" * (room + 1)), expected=1)
    await sessions.save(session_id, made(2), expected=1)


# What is stored and is no document


CORRUPT: dict[str, bytes] = {
    "empty": b"",
    "blank": b"  ",
    "no json": b"hello",
    "half": b'{"version":1,"x":',
    "more than one": b'{"version":1}{"version":1}',
    "pickle": b"\x80\x04K\x01.",
    "a list": b'[{"version":1}]',
    "text": b'"version"',
    "a number": b"1",
    "null": b"null",
    "no version": b'{"x":1}',
    "version 0": b'{"version":0}',
    "version -1": b'{"version":-1}',
    "version 1.0": b'{"version":1.0}',
    "version 1e0": b'{"version":1e0}',
    "version true": b'{"version":true}',
    "version null": b'{"version":null}',
    "version in quotes": b'{"version":"1"}',
    "version in a list": b'{"version":[1]}',
    "nan": b'{"version":1,"x":NaN}',
    "infinity": b'{"version":1,"x":-Infinity}',
    "hexadecimal": b'{"version":1,"x":0x10}',
    "a leading zero": b'{"version":01}',
    "not utf-8": b'{"version":1,"x":"\xff"}',
    "utf-16": '{"version":1}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"version":1}',
    "half a character": b'{"version":1,"x":"\\ud800"}',
    "a raw control character": b'{"version":1,"x":"\x00"}',
    "single quotes": b"{'version':1}",
    "a comment": b'{"version":1} // x',
    "too deep": b'{"version":1,"x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "too large": b'{"version":1,"x":"' + b"x" * MAX_BYTES + b'"}',
}


@pytest.mark.parametrize("raw", CORRUPT.values(), ids=CORRUPT.keys())
async def test_a_corrupt_document_is_reported_and_not_changed(
    sessions: Documents, session_id: str, served: Served, stored: Callable[[bytes], None], raw: bytes
):
    stored(raw)
    with pytest.raises(StoreCorrupt, match=f"'{session_id}'"):
        await sessions.load(session_id)
    for expected in (0, 1):
        with pytest.raises(StoreCorrupt):
            await sessions.save(session_id, made(2), expected=expected)
    assert served.client.get(key(session_id)) == raw
    assert served.client.ttl(key(session_id)) > DAY - 60


@pytest.mark.parametrize("raw", [b'{"version":1,"x":NaN}', b"", b'{"version":1'])
async def test_a_document_that_became_corrupt_is_not_overwritten(
    sessions: Documents, session_id: str, served: Served, stored: Callable[[bytes], None], raw: bytes
):
    await sessions.save(session_id, made(1), expected=0)
    await sessions.load(session_id)
    stored(raw)
    with pytest.raises(StoreCorrupt):
        await sessions.save(session_id, made(2), expected=1)
    assert served.client.get(key(session_id)) == raw


@pytest.mark.parametrize("kind", ["list", "hash", "set", "stream"])
async def test_a_key_of_another_type_is_corrupt_and_not_changed(sessions: Documents, session_id: str, served: Served, kind: str):
    match kind:
        case "list":
            served.client.rpush(key(session_id), '{"version":1}')
        case "hash":
            served.client.hset(key(session_id), "version", 1)
        case "set":
            served.client.sadd(key(session_id), '{"version":1}')
        case _:
            served.client.xadd(key(session_id), {"version": 1})
    before = served.client.dump(key(session_id))
    with pytest.raises(StoreCorrupt):
        await sessions.load(session_id)
    for expected in (0, 1):
        with pytest.raises(StoreCorrupt):
            await sessions.save(session_id, made(2), expected=expected)
    assert served.client.dump(key(session_id)) == before


async def test_a_document_over_the_limit_is_not_fetched_completely(
    sessions: Documents, session_id: str, served: Served, stored: Callable[[bytes], None]
):
    stored(b"x" * 20_000_000)
    before = served.client.info("stats")["total_net_output_bytes"]
    with pytest.raises(StoreCorrupt, match="larger than 2,097,152 bytes"):
        await sessions.load(session_id)
    with pytest.raises(StoreCorrupt):
        await sessions.save(session_id, made(1), expected=0)
    assert served.client.info("stats")["total_net_output_bytes"] - before < 3 * MAX_BYTES
    served.client.delete(key(session_id))


# Two who save


async def test_an_unexpected_version_is_a_conflict(sessions: Documents, session_id: str):
    await sessions.save(session_id, made(1), expected=0)
    await sessions.save(session_id, made(2, mine=True), expected=1)
    for expected in (0, 1, 3):
        with pytest.raises(StateConflict, match="its version is 2"):
            await sessions.save(session_id, made(9), expected=expected)
    assert await sessions.load(session_id) == made(2, mine=True)


async def test_a_concurrent_save_is_a_conflict(sessions: Documents, session_id: str, served: Served):
    await sessions.save(session_id, made(1), expected=0)
    other = opened(served.url)
    await other.save(session_id, made(2), expected=1)  # as long as the one before it
    with pytest.raises(StateConflict):
        await sessions.save(session_id, made(3), expected=1)
    assert await sessions.load(session_id) == made(2)
    await other.aclose()


async def test_a_save_that_is_made_again_changes_nothing(sessions: Documents, session_id: str, served: Served):
    await sessions.save(session_id, made(1), expected=0)
    await sessions.save(session_id, made(2, mine=True), expected=1)
    for again in (sessions, opened(served.url)):
        await again.save(session_id, made(2, mine=True), expected=1)
        with pytest.raises(StateConflict):
            await again.save(session_id, made(2, mine=False), expected=1)
    assert await sessions.load(session_id) == made(2, mine=True)
    await again.aclose()


async def test_an_expired_session_is_a_conflict(sessions: Documents, session_id: str, served: Served):
    await sessions.save(session_id, made(1), expected=0)
    served.client.delete(key(session_id))
    with pytest.raises(StateConflict, match="its version is 0"):
        await sessions.save(session_id, made(2), expected=1)
    assert served.client.exists(key(session_id)) == 0
    await sessions.save(session_id, made(1), expected=0)


async def test_the_same_version_in_other_bytes_is_no_conflict(sessions: Documents, session_id: str, stored: Callable[[bytes], None]):
    await sessions.save(session_id, made(1), expected=0)
    stored(b'{ "version": 1 }')
    await sessions.save(session_id, made(2), expected=1)
    assert await sessions.load(session_id) == made(2)


async def test_a_save_gives_up_after_three_attempts():
    said = {b"GETRANGE": b'$13\r\n{"version":1}\r\n', b"EVALSHA": b":0\r\n"}
    async with misbehave(lambda command: said[command[0]]) as (address, asked):
        sessions = opened(f"redis://{address}")
        with pytest.raises(StateConflict, match="during all 3 attempts"):
            await sessions.save("a", made(2), expected=1)
        assert [command[0] for command in asked].count(b"EVALSHA") == 3
        await sessions.aclose()


async def test_one_of_two_hundred_concurrent_saves_of_a_version_succeeds(sessions: Documents, session_id: str):
    async def one(number: int) -> int | None:
        try:
            await sessions.save(session_id, made(version + 1, winner=number), expected=version)
        except StateConflict:
            return None
        return number

    for version in range(3):
        won = [number for number in await asyncio.gather(*(one(number) for number in range(200))) if number is not None]
        assert len(won) == 1
        assert await sessions.load(session_id) == made(version + 1, winner=won[0])


async def test_no_update_of_two_hundred_concurrent_writers_is_lost(sessions: Documents, session_id: str, served: Served):
    others = [sessions, opened(served.url), opened(served.url)]

    async def add(number: int) -> None:
        mine = others[number % 3]
        while True:
            document = await mine.load(session_id) or {"version": 0, "who": []}
            version = cast("int", document["version"])
            who = cast("list[JsonValue]", document["who"])
            try:
                await mine.save(session_id, made(version + 1, who=[*who, number]), expected=version)
            except StateConflict:
                continue
            return

    await asyncio.gather(*(add(number) for number in range(200)))
    document = await sessions.load(session_id)
    assert document is not None
    assert document["version"] == 200
    assert sorted(cast("list[int]", document["who"])) == list(range(200))
    for other in others[1:]:
        await other.aclose()


async def test_two_hundred_concurrent_sessions_use_at_most_max_connections(own: Served):
    sessions = opened(own.url)
    await asyncio.gather(*(sessions.save(f"s{number}", made(1, x="x" * 10_000), expected=0) for number in range(200)))
    loaded = await asyncio.gather(*(sessions.load(f"s{number}") for number in range(200)))
    assert loaded == [made(1, x="x" * 10_000)] * 200
    assert own.client.info("clients")["connected_clients"] <= MAX_CONNECTIONS + 1
    await sessions.aclose()


async def test_a_rejected_command_does_not_affect_concurrent_ones(sessions: Documents, served: Served):
    served.client.delete(*(key(f"t{number}") for number in range(4)))
    served.client.rpush(key("t1"), "a list")
    saved = await asyncio.gather(
        *(sessions.save(f"t{number}", made(1, n=number), expected=0) for number in range(4)), return_exceptions=True
    )
    assert [type(one) for one in saved] == [type(None), StoreCorrupt, type(None), type(None)]
    loaded = await asyncio.gather(*(sessions.load(f"t{number}") for number in range(4)), return_exceptions=True)
    assert [loaded[0], *loaded[2:]] == [made(1, n=number) for number in (0, 2, 3)]
    assert isinstance(loaded[1], StoreCorrupt)
    served.client.delete(key("t1"))


async def test_a_cancelled_command_does_not_affect_concurrent_ones(sessions: Documents, served: Served):
    for number in range(4):
        served.client.set(key(f"l{number}"), json.dumps(made(number + 1)))
    for steps in range(8):  # before it is sent, on the way, and after
        loading = [asyncio.create_task(sessions.load(f"l{number}")) for number in range(4)]
        for _ in range(steps):
            await asyncio.sleep(0)
        loading[1].cancel()
        loaded = await asyncio.gather(*loading, return_exceptions=True)
        assert [loaded[0], *loaded[2:]] == [made(number) for number in (1, 3, 4)]


async def test_a_broken_connection_does_not_affect_concurrent_commands():
    said: dict[bytes, bytes | None] = {key("a").encode(): b":1\r\n", key("b").encode(): None}
    async with misbehave(lambda command: said[command[3]]) as (address, asked):
        sessions = opened(f"redis://{address}")
        saved = await asyncio.gather(*(sessions.save(name, made(1), expected=0) for name in "ab"), return_exceptions=True)
        assert [type(one) for one in saved] == [type(None), StoreUnavailable]
        assert sorted(command[3] for command in asked) == sorted(said)  # each of them once
        await sessions.aclose()


# What is said to the server


class Monitor:
    """Everything that a server is told, except by who watches."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def __enter__(self) -> list[str]:
        self.said: list[str] = []
        self._last = self._served.client.client()  # connected now, so that it says nothing more than one word later
        self._last.ping()
        self._watched = self._served.client.monitor().__enter__()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self.said

    def _watch(self) -> None:
        for told in self._watched.listen():
            if told["command"] == "ECHO the end":
                return
            self.said.append(told["command"])

    def __exit__(self, *_: object) -> None:
        self._last.echo("the end")
        self._thread.join(10)
        self._last.close()
        self._watched.__exit__(None, None, None)


async def test_only_the_expected_commands_and_keys_are_used(own: Served):
    own.client.set("atod:session:x", "theirs")
    own.client.set("atod:session:s", '{"version":7}')
    sessions = opened(own.url)
    with Monitor(own) as said:
        await sessions.load("s")
        await sessions.save("s", made(1), expected=0)
        await sessions.save("s", made(2), expected=1)
        await sessions.load("s")
        with pytest.raises(StateConflict):
            await sessions.save("s", made(3), expected=0)
        await sessions.ping()
    await sessions.aclose()
    scripted = [" ".join(command.split()[:2]) for command in said if command.startswith(("EVAL ", "EVALSHA "))]
    assert [command.split()[0] for command in scripted] == ["EVALSHA", "EVAL", "EVALSHA", "EVALSHA"]  # the server learns it once
    mine = [command for command in said if not command.startswith("EVAL")]
    assert mine == [
        *(f"GETRANGE {key('s')} 0 {MAX_BYTES}", f"EXISTS {key('s')}"),
        *(f"STRLEN {key('s')}", f"EXISTS {key('s')}", f'SET {key("s")} {{"version":1}} EX {DAY}'),
        *(f"STRLEN {key('s')}", f"GET {key('s')}", f'SET {key("s")} {{"version":2}} EX {DAY}'),
        f"GETRANGE {key('s')} 0 {MAX_BYTES}",
        *(f"STRLEN {key('s')}", f"GETRANGE {key('s')} 0 {MAX_BYTES}"),
        "PING",
    ]
    assert own.client.mget("atod:session:x", "atod:session:s") == [b"theirs", b'{"version":7}']
    assert sorted(own.client.keys()) == sorted([b"atod:session:x", b"atod:session:s", key("s").encode()])


async def test_the_script_is_sent_again_after_a_script_flush(sessions: Documents, session_id: str, served: Served):
    await sessions.save(session_id, made(1), expected=0)
    served.client.script_flush()
    await sessions.save(session_id, made(2), expected=1)
    assert await sessions.load(session_id) == made(2)


# Where it cannot be reached


async def fails(sessions: Documents, error: type[StoreError] = StoreUnavailable) -> StoreError:
    """Load and save, and see both fail in the same way."""
    with pytest.raises(error) as loading:
        await sessions.load("some-session")
    with pytest.raises(error) as saving:
        await sessions.save("some-session", made(1), expected=0)
    for caught in (loading, saving):
        assert type(caught.value) is error
        assert str(caught.value).endswith(".")
        assert SECRET not in told(caught.value)
    await sessions.aclose()
    return saving.value


@pytest.mark.parametrize(
    "url",
    [
        f"redis://:{SECRET}@127.0.0.1:9",
        f"redis://me:{SECRET}@127.0.0.1:9/3",
        f"rediss://:{SECRET}@127.0.0.1:9",
        f"redis://:{SECRET}@nowhere.invalid",
        f"unix:///nowhere/socket?password={SECRET}",
    ],
)
async def test_an_unreachable_server_is_unavailable_and_the_password_is_hidden(url: str):
    error = await fails(opened(url))
    assert "cannot be reached" in str(error)
    with pytest.raises(StoreUnavailable) as caught:
        await opened(url).ping()
    assert SECRET not in told(caught.value)


async def test_a_silent_server_is_unavailable_after_the_timeout():
    async with misbehave(lambda _: b"") as (address, asked):
        began = time.monotonic()
        sessions = opened(f"redis://:{SECRET}@{address}", timeout_s=0.2)
        with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.2 s"):
            await sessions.load("a")
        assert 0.2 <= time.monotonic() - began < 10
        assert [command[0] for command in asked] == [b"AUTH"]
        await sessions.aclose()


async def test_waiting_for_a_connection_counts_towards_the_timeout():
    async with misbehave(lambda _: b"") as (address, _):
        sessions = opened(f"redis://{address}", timeout_s=0.3)
        began = time.monotonic()
        errors = await asyncio.gather(*(sessions.load("a") for _ in range(MAX_CONNECTIONS + 20)), return_exceptions=True)
        assert {type(error) for error in errors} == {StoreUnavailable}
        assert time.monotonic() - began < 10
        await sessions.aclose()


async def test_a_late_reply_is_not_read_as_the_next_one(own: Served):
    sessions, pid = opened(own.url, timeout_s=0.3), own.pid
    for name in ("a", "b"):
        await sessions.save(name, made(1, name=name), expected=0)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable):
            await sessions.load("a")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert await sessions.load("b") == made(1, name="b")
    await sessions.aclose()


async def test_a_save_that_timed_out_is_applied_at_most_once(own: Served):
    sessions, pid = opened(own.url, timeout_s=0.3), own.pid
    await sessions.save("a", made(1), expected=0)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable):
            await sessions.save("a", made(2, who="first"), expected=1)
    finally:
        os.kill(pid, signal.SIGCONT)
    await asyncio.sleep(0)  # so that our end is closed
    until(lambda: own.client.info("clients")["connected_clients"] == 1)  # the server has read what was sent, to its end
    loaded = await sessions.load("a")
    assert loaded in (made(1), made(2, who="first"))
    if loaded == made(1):
        await sessions.save("a", made(2, who="second"), expected=1)
    else:
        with pytest.raises(StateConflict):
            await sessions.save("a", made(2, who="second"), expected=1)
    await sessions.aclose()


async def test_a_cancelled_call_does_not_affect_the_next_one(sessions: Documents, served: Served):
    await sessions.load("warm")
    for number in range(2 * MAX_CONNECTIONS):
        served.client.set(key(f"c{number}"), json.dumps(made(number + 1, x="x" * 200_000)))
        task = asyncio.create_task(sessions.load(f"c{number}"))
        for _ in range(number % 16):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        loaded = await sessions.load(f"c{number}")
        assert loaded is not None
        assert loaded["version"] == number + 1
    assert served.client.info("clients")["connected_clients"] <= MAX_CONNECTIONS + 1


async def test_after_a_lost_reply_a_load_is_sent_again_and_a_save_is_not():
    async with misbehave(lambda _: None) as (address, asked):
        sessions = opened(f"redis://{address}")
        with pytest.raises(StoreUnavailable, match="closed the connection"):
            await sessions.save("a", made(1), expected=0)
        assert [command[0] for command in asked] == [b"EVALSHA"]
        asked.clear()
        with pytest.raises(StoreUnavailable):
            await sessions.load("a")
        assert [command[0] for command in asked] == [b"GETRANGE", b"GETRANGE"]
        await sessions.aclose()


async def test_a_save_that_took_too_long_is_not_sent_again():
    async with misbehave(lambda _: b"") as (address, asked):
        sessions = opened(f"redis://{address}", timeout_s=0.2)
        with pytest.raises(StoreUnavailable):
            await sessions.save("a", made(1), expected=0)
        assert [command[0] for command in asked] == [b"EVALSHA"]
        await sessions.aclose()


SAID: dict[str, tuple[bytes, type[StoreError], str]] = {
    "loading": (b"-LOADING Redis is loading the dataset in memory", StoreUnavailable, "still loading its data"),
    "no memory": (b"-OOM command not allowed when used memory > 'maxmemory'.", StoreFull, "'OOM'"),
    "no memory, long ago": (b"-ERR Error running script (call to f_1): @user_script:9: -OOM command not allowed", StoreFull, "'OOM'"),
    "no disk": (b"-MISCONF Errors writing to the AOF file: No space left on device", StoreFull, "'MISCONF'"),
    "a replica": (b"-READONLY You can't write against a read only replica.", StoreUnavailable, "primary"),
    "another type, long ago": (
        b"-ERR Error running script (call to f_1): @user_script:1: WRONGTYPE Operation",
        StoreCorrupt,
        "left as it is",
    ),
    "no password": (b"-NOAUTH Authentication required.", StoreUnavailable, "password"),
    "no permission": (b"-NOPERM User me has no permissions", StoreUnavailable, "password"),
    "too many": (b"-ERR max number of clients reached", StoreUnavailable, "closed"),
    "busy": (b"-BUSY Redis is busy running a script.", StoreUnavailable, "'BUSY'"),
    "a cluster": (b"-MOVED 3999 127.0.0.1:6381", StoreUnavailable, "failed"),
    "a cluster that is broken": (b"-MOVED", StoreUnavailable, "failed"),
    "a secret": (f"-ERR {SECRET}".encode(), StoreUnavailable, "'ERR'"),
    "no script, ever": (b"-NOSCRIPT No matching script.", StoreUnavailable, "'NOSCRIPT'"),
    "another protocol": (b"HTTP/1.1 400 Bad Request", StoreUnavailable, "InvalidResponse"),
}


@pytest.mark.parametrize(("said", "error", "words"), SAID.values(), ids=SAID.keys())
async def test_error_replies_are_translated(said: bytes, error: type[StoreError], words: str):
    async with misbehave(lambda _: said + b"\r\n") as (address, _):
        sessions = opened(f"redis://{address}")
        for doing in (lambda: sessions.load("a"), lambda: sessions.save("a", made(1), expected=0)):
            with pytest.raises(error, match=words) as caught:
                await doing()
            assert type(caught.value) is error
            assert SECRET not in str(caught.value)
            assert str(caught.value).endswith(".")
        await sessions.aclose()


async def test_a_reply_of_another_type_is_unavailable():
    async with misbehave(lambda _: b":7\r\n") as (address, _):
        sessions = opened(f"redis://{address}")
        with pytest.raises(StoreUnavailable):
            await sessions.load("a")
        await sessions.aclose()


async def test_a_full_server_serves_loads_and_rejects_saves(own: Served):
    sessions = opened(own.url)
    await sessions.save("a", made(1), expected=0)
    own.client.config_set("maxmemory", 1)
    with pytest.raises(StoreFull):
        await sessions.save("a", made(2), expected=1)
    assert await sessions.load("a") == made(1)
    own.client.config_set("maxmemory", 0)
    await sessions.save("a", made(2), expected=1)
    await sessions.aclose()


async def test_a_server_that_cannot_write_to_disk_is_full(own: Served):
    sessions = opened(own.url)
    await sessions.save("a", made(1), expected=0)
    own.client.config_set("appendonly", "no")
    (own.folder / "dump.rdb").mkdir()
    own.client.config_set("save", "3600 1")
    own.client.bgsave()
    until(lambda: own.client.info("persistence")["rdb_last_bgsave_status"] == "err")
    with pytest.raises(StoreFull, match="'MISCONF'"):
        await sessions.save("a", made(2), expected=1)
    assert await sessions.load("a") == made(1)
    await sessions.aclose()


async def test_a_replica_rejects_saves(own: Served):
    sessions = opened(own.url)
    await sessions.save("a", made(1), expected=0)
    own.client.replicaof("127.0.0.1", "9")
    with pytest.raises(StoreUnavailable, match="primary"):
        await sessions.save("a", made(2), expected=1)
    own.client.replicaof("NO", "ONE")
    await sessions.save("a", made(2), expected=1)
    await sessions.aclose()


@pytest.fixture
def port(own: Served, unused_tcp_port: int) -> int:
    own.client.config_set("bind", "127.0.0.1")
    own.client.config_set("port", unused_tcp_port)
    own.client.config_set("requirepass", SECRET)
    return unused_tcp_port


async def test_the_password_is_read_from_the_url(own: Served, port: int):
    for url in (
        f"redis://:{SECRET}@127.0.0.1:{port}",
        f"redis://default:{SECRET}@127.0.0.1:{port}/0",
        f"redis://127.0.0.1:{port}?password={SECRET}",
        f"{own.url}?password={SECRET}",
    ):
        sessions = opened(url)
        await sessions.ping()
        assert await sessions.load("a") is None
        await sessions.aclose()
    for url in (
        f"redis://:{SECRET}x@127.0.0.1:{port}",
        f"redis://me:{SECRET}@127.0.0.1:{port}",
        f"redis://127.0.0.1:{port}",
        f"{own.url}?password={SECRET}x",
        own.url,
    ):
        assert "rejects the user or the password" in str(await fails(opened(url)))


def certificate(place: Path) -> ssl.SSLContext:
    """Make a certificate for this machine, and a server's side of it."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    made_out = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(private, hashes.SHA256())
    )
    (place / "cert.pem").write_bytes(made_out.public_bytes(serialization.Encoding.PEM))
    (place / "key.pem").write_bytes(
        private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(place / "cert.pem", place / "key.pem")
    return context


async def test_rediss_verifies_the_certificate(tmp_path: Path):
    said = {b"AUTH": b"+OK\r\n", b"GETRANGE": b'$13\r\n{"version":1}\r\n'}
    async with misbehave(lambda command: said[command[0]], tls=certificate(tmp_path)) as (address, asked):
        sessions = opened(f"rediss://:{SECRET}@{address}?ssl_ca_certs={tmp_path / 'cert.pem'}")
        assert await sessions.load("a") == made(1)
        assert asked[0] == [b"AUTH", SECRET.encode()]
        await sessions.aclose()
        asked.clear()
        assert "cannot be reached" in str(await fails(opened(f"rediss://:{SECRET}@{address}")))
        assert "cannot be reached" in str(await fails(opened(f"rediss://:{SECRET}@{address}?ssl_ca_certs=/nowhere")))
        assert asked == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        SECRET,
        f"http://:{SECRET}@host",
        f"redis+sentinel://:{SECRET}@host",
        f"redis://:{SECRET}/x@host",
        f"redis://:12/34{SECRET}@host",
        f"redis://:12?34{SECRET}@host",
        f"redis://:12#34{SECRET}@host",
        f"redis://:{SECRET}@host:port",
        f"redis://:{SECRET}@host:99999",
        f"redis://:{SECRET}@host/name",
        f"redis://:{SECRET}@host?db=x",
        f"redis://:{SECRET}@host?retry_on_timeout=yes",
        f"redis://:{SECRET}@host?protocol=3",
        f"redis://:{SECRET}@host?nonsense=1",
        f"redis://:{SECRET}@host?nonsense",
        f"rediss://:{SECRET}@host?ssl_cert_reqs=sometimes",
        f"redis://:{SECRET}@host?ssl_ca_certs=/x",
        f"redis://:{SECRET}@[::1",
        f"unix://?password={SECRET}",
    ],
)
def test_an_invalid_url_is_rejected_and_not_shown(url: str):
    with pytest.raises(SettingsInvalid) as caught:
        opened(url)
    assert SECRET not in told(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_time_to_live_below_one_second_is_rejected(seconds: int):
    with pytest.raises(SettingsInvalid):
        open_sessions(NOBODY, folder=Path("/nowhere"), ttl_seconds=seconds, timeout_s=1)


# Connections


async def test_a_closed_connection_is_replaced(own: Served):
    sessions = opened(own.url)
    for version in range(5):
        await sessions.save("a", made(version + 1), expected=version)
        own.client.client_kill_filter(_type="normal", skipme=True)
        until(lambda: own.client.info("clients")["connected_clients"] == 1)
        assert await sessions.load("a") == made(version + 1)
        own.client.client_kill_filter(_type="normal", skipme=True)
        until(lambda: own.client.info("clients")["connected_clients"] == 1)
        await asyncio.sleep(0)  # the event loop takes note
        await asyncio.sleep(0)
    await sessions.aclose()


def test_a_store_serves_several_event_loops_and_leaves_no_connection_open(own: Served):
    sessions = opened(own.url)

    async def turn(version: int) -> None:
        await sessions.save("a", made(version + 1), expected=version)
        assert await sessions.load("a") == made(version + 1)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for version in range(5):
            asyncio.run(turn(version))
            until(lambda: own.client.info("clients")["connected_clients"] == 1)
        gc.collect()
    assert [str(warning.message) for warning in warned] == []


def test_event_loops_in_several_threads_can_share_a_store(own: Served):
    sessions = opened(own.url)
    failed: list[BaseException] = []

    async def turn(name: str) -> None:
        for version in range(2):
            await sessions.save(name, made(version + 1), expected=version)
            assert await sessions.load(name) == made(version + 1)

    async def turns(name: str) -> None:
        await asyncio.gather(*(turn(f"{name}-{number}") for number in range(2 * MAX_CONNECTIONS)))

    together = threading.Barrier(4)

    def run(name: str) -> None:
        try:
            for number in range(3):
                together.wait(10)
                asyncio.run(turns(f"{name}-{number}"))
        except BaseException as error:  # noqa: BLE001 - told to the test
            failed.append(error)

    threads = [threading.Thread(target=run, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


async def test_a_closed_store_can_be_used_again(own: Served):
    sessions = opened(own.url)
    await asyncio.gather(*(sessions.ping() for _ in range(10)))
    assert own.client.info("clients")["connected_clients"] > 1
    await sessions.aclose()
    until(lambda: own.client.info("clients")["connected_clients"] == 1)
    await sessions.aclose()
    await sessions.ping()
    await sessions.aclose()


async def test_commands_that_run_during_aclose_complete(own: Served):
    sessions = opened(own.url)
    await sessions.save("first", made(1), expected=0)
    saving = [asyncio.create_task(sessions.save(f"s{number}", made(1), expected=0)) for number in range(50)]
    await asyncio.sleep(0)
    await sessions.aclose()
    await asyncio.gather(*saving)
    await asyncio.sleep(0)
    until(lambda: own.client.info("clients")["connected_clients"] == 1)


# The embedded server


@pytest.fixture
async def embedded(folder: Path) -> AsyncIterator[Documents]:
    sessions = opened(None, folder=folder)
    yield sessions
    await sessions.aclose()


def pid_in(folder: Path) -> int:
    """Ask the server of a folder which process it is."""
    with redis.Redis(unix_socket_path=str(folder / "valkey.sock")) as client:
        return cast("int", cast("Any", client.info("server"))["process_id"])


async def test_without_a_url_the_embedded_server_is_started_and_stopped(folder: Path):
    sessions = opened(None, folder=folder)
    await sessions.ping()
    pid = pid_in(folder)
    await sessions.save("a", made(1), expected=0)
    await sessions.aclose()
    assert not known(pid)
    assert await sessions.load("a") == made(1)
    await sessions.aclose()


async def test_acknowledged_saves_survive_a_kill_of_the_server(embedded: Documents, folder: Path):
    for version in range(5):
        await embedded.save("a", made(version + 1), expected=version)
        os.kill(pid_in(folder), signal.SIGKILL)
        try:
            loaded = await embedded.load("a")
        except StoreUnavailable:
            loaded = await embedded.load("a")
        assert loaded == made(version + 1)


async def test_no_acknowledged_save_is_lost_when_the_server_is_killed(embedded: Documents, folder: Path):
    await embedded.save("a", made(1), expected=0)
    acknowledged = asyncio.Queue[int]()

    async def save() -> None:
        last = 1
        while True:
            try:
                document = await embedded.load("a")
                assert document is not None
                found = cast("int", document["version"])
                assert found >= last
                await embedded.save("a", made(found + 1, x="x" * 50_000), expected=found)
            except StoreUnavailable:
                await asyncio.sleep(0.01)  # a server that is killed while it starts is not started again at once
            else:
                last = found + 1
                acknowledged.put_nowait(last)

    async with asyncio.timeout(60):
        task, seen = asyncio.create_task(save()), 0
        for _ in range(5):
            for _ in range(3):
                seen = await acknowledged.get()
            os.kill(await asyncio.to_thread(pid_in, folder), signal.SIGKILL)
        await acknowledged.get()
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        loaded = None
        while loaded is None:
            with suppress(StoreUnavailable):  # where the last one was killed while it started
                loaded = await embedded.load("a")
            await asyncio.sleep(0.01)
    assert cast("int", loaded["version"]) >= seen


async def test_the_server_is_started_again_after_its_process_was_killed(embedded: Documents, folder: Path):
    with Other(folder) as process:
        pid = process.hear()
        await embedded.save("a", made(1), expected=0)
        assert pid_in(folder) == pid
        process.kill()
        until(lambda: not running(pid))
    try:
        await embedded.save("a", made(2), expected=1)
    except StoreUnavailable:
        await embedded.save("a", made(2), expected=1)
    assert await embedded.load("a") == made(2)
    assert pid_in(folder) != pid


async def test_a_full_disk_is_reported_and_saving_works_again_with_space(embedded: Documents, folder: Path):
    await embedded.save("a", made(1), expected=0)
    for _ in range(2):
        resource.prlimit(pid_in(folder), resource.RLIMIT_FSIZE, (8192, 8192))
        with pytest.raises(StoreFull, match="Free some space"):
            await embedded.save("a", made(2, x="x" * 100_000), expected=1)
        assert await embedded.load("a") == made(1)
    await embedded.save("a", made(2, x="x" * 100_000), expected=1)
    assert await embedded.load("a") == made(2, x="x" * 100_000)


async def test_an_unusable_folder_is_unavailable_with_a_fix(tmp_path: Path):
    (tmp_path / "file").write_text("")
    error = await fails(opened(None, folder=tmp_path / "file" / "sessions"))
    assert "Make it writable" in str(error)


async def test_starting_the_server_does_not_count_towards_the_timeout_of_a_call(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("interlock.stores.valkey._POLL_SECONDS", 0.6)
    sessions = opened(None, folder=folder, timeout_s=0.3)
    await sessions.ping()
    await sessions.aclose()
