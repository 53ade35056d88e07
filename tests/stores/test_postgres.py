from __future__ import annotations

import asyncio
import gc
import os
import select
import subprocess
import sys
import traceback
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.store.postgres import AsyncPostgresStore

from interlock.errors import StateUnstorable, StoreCorrupt, StoreFull, StoreUnavailable, TurnError
from interlock.stores.memory import StoredMemory, open_memory
from tests.support.postgres import PASSWORD, PostgresServer, fresh_database, running_postgres

ROOT = Path(__file__).parents[2]


def opened(url: str, *, timeout_s: float = 30) -> StoredMemory:
    return open_memory(url, path=Path("unused"), timeout_s=timeout_s)


async def fails(memory: StoredMemory, error: type[TurnError], *, says: str) -> None:
    for call in (lambda: memory.recall("ada"), lambda: memory.remember("ada", "likes coffee"), memory.ping):
        with pytest.raises(error, match=says) as caught:
            await call()
        assert type(caught.value) is error
        assert str(caught.value).endswith(".")
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def connected(server: PostgresServer, database: str) -> int:
    ((count,),) = server.run(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'")  # noqa: S608 - the test's own
    return count


@contextmanager
def locked(server: PostgresServer, database: str) -> Generator[psycopg.Connection[Any]]:
    with psycopg.connect(server.database(database)) as connection:
        connection.execute("LOCK TABLE store")
        yield connection


# Connections


async def test_a_stopped_server_is_unavailable_until_it_runs_again(
    postgres: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
):
    memory = opened(postgres.database(database))
    await memory.remember("ada", "likes tea")
    await asyncio.gather(*(memory.recall("ada") for _ in range(20)))
    postgres.stop()
    try:
        await fails(memory, StoreUnavailable, says="cannot be used")
    finally:
        postgres.start()
    assert await memory.recall("ada") == "likes tea"
    await memory.remember("ada", "likes coffee")
    assert await memory.recall("ada") == "likes coffee"
    await memory.aclose()
    assert caplog.records == []  # the error says it


async def test_connections_that_died_while_idle_are_replaced(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database))
    await memory.remember("ada", "likes tea")
    for _ in range(2):
        await asyncio.gather(*(memory.recall("ada") for _ in range(20)))
        killed = postgres.run(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}'")  # noqa: S608
        assert len(killed) > 1
        assert await asyncio.gather(*(memory.recall("ada") for _ in range(20))) == ["likes tea"] * 20
    await memory.aclose()


async def test_two_hundred_concurrent_calls_share_a_few_connections(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database))
    await asyncio.gather(*(memory.remember(f"ada {n}", "likes tea") for n in range(200)))
    assert 1 < connected(postgres, database) <= 8
    await memory.aclose()
    await gone(postgres, database)


async def gone(server: PostgresServer, database: str) -> None:
    """Wait for the server to notice."""
    async with asyncio.timeout(10):
        while connected(server, database):  # noqa: ASYNC110 - it does not say when
            await asyncio.sleep(0.01)


async def test_a_connection_in_use_is_closed_after_aclose(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database))
    await memory.remember("ada", "likes tea")
    with locked(postgres, database):
        call = asyncio.create_task(memory.remember("ada", "likes coffee"))
        await asyncio.sleep(0.05)
        await memory.aclose()
    await call
    await gone(postgres, database)


def test_connections_of_an_ended_event_loop_are_closed(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database))

    async def turn() -> None:
        await asyncio.gather(*(memory.remember("ada", "likes tea") for _ in range(20)))

    for _ in range(4):
        asyncio.run(turn())
        gc.collect()
    assert connected(postgres, database) <= 8
    asyncio.run(memory.aclose())
    gc.collect()


async def test_a_cancelled_call_ends_at_once_and_leaves_no_connection(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database))
    await memory.remember("ada", "likes tea")
    with locked(postgres, database):
        call = asyncio.create_task(memory.remember("ada", "likes coffee"))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()
    await gone(postgres, database)


# Set-up


async def test_the_table_is_compatible_with_langgraphs_store(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database))
    await memory.remember("ada", "likes tea")
    async with AsyncPostgresStore.from_conn_string(postgres.database(database)) as store:
        await store.setup()
        (item,) = await store.asearch(("desk", "memory"))
        assert item.value == {"text": "likes tea"}
        await store.aput(item.namespace, item.key, {"text": "likes coffee"})
        del store  # ends its task
    assert await memory.recall("ada") == "likes coffee"
    await memory.aclose()


async def test_a_user_without_create_permission_uses_existing_tables(postgres: PostgresServer, database: str):
    admin = opened(postgres.database(database))
    await admin.remember("ada", "likes tea")
    await admin.aclose()
    role = f"plain_{database}"
    postgres.run(f"CREATE ROLE {role} LOGIN PASSWORD 'plain'")
    try:
        postgres.run(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {role}", database=database)
        plain = opened(f"postgresql://{role}:plain@/{database}?host={postgres.folder}")
        assert await plain.recall("ada") == "likes tea"
        await plain.remember("ada", "likes coffee")
        await plain.aclose()
    finally:
        postgres.run(f"DROP OWNED BY {role}", database=database)
        postgres.run(f"DROP ROLE {role}")


async def test_dropped_tables_are_created_again(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database))
    await memory.remember("ada", "likes tea")
    postgres.run("DROP TABLE store, store_migrations", database=database)
    with pytest.raises(StoreCorrupt, match="UndefinedTable 42P01"):
        await memory.recall("ada")
    assert await memory.recall("ada") is None
    await memory.remember("ada", "likes coffee")
    await memory.aclose()


async def test_a_concurrent_setup_is_waited_for(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database))
    with psycopg.connect(postgres.database(database), autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", (0x17E8_10CC,))
        call = asyncio.create_task(memory.remember("ada", "likes tea"))
        await asyncio.sleep(0.1)
        assert not call.done()
        assert postgres.run("SELECT count(*) FROM pg_class WHERE relname = 'store'", database=database) == [(0,)]
    await call
    assert postgres.run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]
    await memory.aclose()


# What goes wrong


async def test_a_wrong_password_is_unavailable(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database, password="swordfish"))  # noqa: S106 - wrong
    for call in (lambda: memory.recall("ada"), lambda: memory.remember("ada", "likes tea"), memory.ping):
        with pytest.raises(StoreUnavailable) as caught:
            await call()
        assert "swordfish" not in "".join(traceback.format_exception(caught.value))
    await memory.aclose()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ada:{PASSWORD}@127.0.0.1:1/memory",
        f"postgres://ada:{PASSWORD}@127.0.0.1:1,127.0.0.1:2/memory",
        f"postgresql://ada:{PASSWORD}@nowhere.invalid/memory",
        f"postgresql://ada:{PASSWORD}@{'x' * 70}.invalid/memory",
        f"postgresql://ada@/memory?host=/nowhere&password={PASSWORD}",
        f"postgresql://ada:{PASSWORD}@127.0.0.1:99999/memory",
    ],
    ids=["refused", "both-refused", "no-such-host", "no-host", "no-socket", "no-port"],
)
async def test_an_unreachable_server_is_unavailable_and_its_password_hidden(url: str):
    memory = opened(url)
    await fails(memory, StoreUnavailable, says="cannot be used")
    await memory.aclose()


async def test_a_missing_database_is_unavailable(postgres: PostgresServer):
    memory = opened(postgres.database("nothing"))
    await fails(memory, StoreUnavailable, says=r"/nothing' cannot be used \(OperationalError\)")
    await memory.aclose()


async def test_a_read_only_database_is_unavailable(postgres: PostgresServer, database: str):
    memory = opened(postgres.database(database))
    await memory.remember("ada", "likes tea")
    await memory.aclose()
    postgres.run(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    for call in (lambda: memory.remember("ada", "likes coffee"), memory.ping):
        with pytest.raises(StoreUnavailable, match="ReadOnlySqlTransaction 25006"):
            await call()
    postgres.run(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    assert await memory.recall("ada") == "likes tea"
    await memory.aclose()


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("53000", StoreFull),
        ("53100", StoreFull),
        ("53200", StoreFull),
        ("22003", StoreCorrupt),
        ("XX001", StoreCorrupt),
        ("XX002", StoreCorrupt),
        ("XX000", StoreUnavailable),
        ("40P01", StoreUnavailable),
        ("42501", StoreUnavailable),
        ("57014", StoreUnavailable),
        ("58030", StoreUnavailable),
        ("22021", StateUnstorable),
    ],
)
async def test_errors_are_translated_by_their_sqlstate(postgres: PostgresServer, database: str, state: str, error: type[TurnError]):
    memory = opened(postgres.database(database))
    await memory.remember("ada", "likes tea")
    postgres.run(
        "CREATE SEQUENCE tries; CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM nextval('tries');"
        f"RAISE 'likes coffee' USING ERRCODE = '{state}'; END $$;"
        "CREATE TRIGGER fails BEFORE INSERT ON store FOR EACH ROW EXECUTE FUNCTION fail()",
        database=database,
    )
    for tries in (1, 2):
        await asyncio.gather(*(memory.recall("ada") for _ in range(20)))  # so that there are several connections
        with pytest.raises(error) as caught:
            await memory.remember("ada", "likes coffee")
        assert postgres.run("SELECT last_value FROM tries", database=database) == [(tries,)]
        assert type(caught.value) is error
        assert "likes" not in str(caught.value)
        assert await memory.recall("ada") == "likes tea"
    postgres.run("DROP TRIGGER fails ON store", database=database)
    await memory.remember("ada", "likes coffee")
    await memory.aclose()


async def test_a_character_outside_the_encoding_of_the_database_is_rejected(postgres: PostgresServer):
    with fresh_database(postgres, more="ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0") as name:
        memory = opened(postgres.database(name))
        await memory.remember("ada", "likes café")
        with pytest.raises(StateUnstorable, match="Use a database in UTF8"):
            await memory.remember("ada", "likes ☕")
        assert await memory.recall("ada") == "likes café"
        await memory.aclose()


async def test_a_database_without_an_encoding_stores_text(postgres: PostgresServer):
    with fresh_database(postgres, more="ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0") as name:
        memory = opened(postgres.database(name))
        await memory.remember("ada", "likes tea")
        assert await memory.recall("ada") == "likes tea"
        with pytest.raises(StateUnstorable):
            await memory.remember("ada", "likes ☕")
        await memory.aclose()


# Time


async def test_a_locked_table_is_unavailable_within_one_timeout_for_all_callers(postgres: PostgresServer, database: str):
    patient, memory = opened(postgres.database(database)), opened(postgres.database(database), timeout_s=0.3)
    loop = asyncio.get_running_loop()
    await patient.remember("ada", "likes tea")
    with locked(postgres, database):
        begun = loop.time()
        calls = [memory.recall("ada") for _ in range(10)] + [memory.remember("ada", "likes coffee") for _ in range(10)]
        async with asyncio.timeout(20):
            ends = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(end) for end in ends} == {StoreUnavailable}
        assert {str(end).partition("did not")[2] for end in ends} == {" answer within 0.3 s."}
        assert loop.time() - begun < 4
        await memory.aclose()
    assert await patient.recall("ada") == "likes tea"
    await patient.aclose()


class Proxy:
    """Stands between a memory and its server, and can fall silent."""

    def __init__(self, server: PostgresServer) -> None:
        self._target = f"{server.folder}/.s.PGSQL.5432"
        self._flows = asyncio.Event()
        self._flows.set()
        self.tasks = set[asyncio.Task[None]]()
        self.port = 0

    def freeze(self) -> None:
        self._flows.clear()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.tasks.add(asyncio.create_task(self._pass(reader, writer)))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(self._target)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, back))
                group.create_task(self._pump(there, writer))
        except* ConnectionError:
            pass
        finally:
            for end in (writer, back):
                end.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            await self._flows.wait()
            target.write(data)
            await target.drain()
        target.write_eof()


@asynccontextmanager
async def proxy(server: PostgresServer) -> AsyncGenerator[Proxy]:
    standing = Proxy(server)
    listening = await asyncio.start_server(standing.accept, "127.0.0.1", 0)
    standing.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield standing
        for task in standing.tasks:
            task.cancel()
        await asyncio.gather(*standing.tasks, return_exceptions=True)
    await asyncio.sleep(0)  # so that what was aborted is closed


async def test_a_silent_server_is_unavailable_within_the_timeout(postgres: PostgresServer, database: str, caplog: pytest.LogCaptureFixture):
    loop = asyncio.get_running_loop()
    async with proxy(postgres) as between:
        memory = opened(f"postgresql://postgres:{PASSWORD}@127.0.0.1:{between.port}/{database}", timeout_s=2)
        await memory.remember("ada", "likes tea")
        between.freeze()
        begun = loop.time()
        with pytest.raises(StoreUnavailable, match="did not answer within 2 s") as caught:
            await memory.recall("ada")
        assert loop.time() - begun < 8
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))
        await memory.aclose()
        assert caplog.records == []


async def test_a_cancelled_call_to_a_silent_server_ends_at_once(postgres: PostgresServer, database: str):
    loop = asyncio.get_running_loop()
    async with proxy(postgres) as between:
        memory = opened(f"postgresql://postgres:{PASSWORD}@127.0.0.1:{between.port}/{database}")
        await memory.remember("ada", "likes tea")
        between.freeze()
        begun = loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await memory.recall("ada")
        assert loop.time() - begun < 4
        await memory.aclose()


async def test_a_failed_connection_is_not_kept_open_by_its_error():
    ended = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        ended.set()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        memory = opened(f"postgresql://ada:{PASSWORD}@127.0.0.1:{port}/memory", timeout_s=0.2)
        gc.disable()
        try:
            with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.2 s") as caught:
                await memory.recall("ada")
            async with asyncio.timeout(5):
                await ended.wait()
        finally:
            gc.enable()
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))
        await memory.aclose()


async def test_a_connection_established_after_cancellation_is_closed(
    postgres: PostgresServer, database: str, monkeypatch: pytest.MonkeyPatch
):
    connect = psycopg.AsyncConnection.connect

    async def made_in_any_case(*given: Any, **more: Any) -> object:
        making = asyncio.ensure_future(connect(*given, **more))
        with suppress(asyncio.CancelledError):
            await asyncio.shield(making)
        return await making

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", made_in_any_case)
    memory = opened(postgres.database(database), timeout_s=0.001)
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            await memory.recall("ada")
    gc.collect()
    await gone(postgres, database)
    await memory.aclose()


# The server of the tests


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
def test_the_test_server_ends_with_its_process():
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        from tests.support.postgres import running_postgres

        with running_postgres() as url:
            print(url, flush=True)
            sys.stdin.read()
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code, ROOT], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout
    url = process.stdout.readline().strip()
    psycopg.connect(url).close()
    folder = Path(url.partition("?host=")[2])
    server = os.pidfd_open(int((folder / "data" / "postmaster.pid").read_text().split()[0]))
    try:
        process.kill()
        process.communicate()  # until whoever keeps the server has ended too
        assert select.select([server], [], [], 10)[0] == [server]  # it has ended
        assert not folder.exists()
    finally:
        os.close(server)


def test_a_test_server_is_removed_afterwards():
    with running_postgres() as url:
        psycopg.connect(url).close()
        folder = Path(url.partition("?host=")[2])
        assert folder.exists()
    assert not folder.exists()
