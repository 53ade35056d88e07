"""A program of ours in a process of its own, whatever it is about."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.processes.child import Child

PROGRAM = """
    import os, signal, time
    from interlock.processes.child_main import FINISHING, bound_files, bound_memory

    class Served:
        def __init__(self, file, given):
            self.file, self.given = file, given
            self.hello = {"file": file, "has": given["has"], "sees": dict(os.environ), "in": os.getcwd()}

        def answer(self, request):
            match request:
                case ["echo", text]:
                    return {"said": text}
                case ["sleep", seconds]:
                    time.sleep(seconds)
                case ["die"]:
                    os.kill(os.getpid(), signal.SIGSEGV)
                case ["grow", size]:
                    return {"size": len(bytearray(size))}
                case ["finish", seconds]:
                    with FINISHING:
                        with open(self.file, "a") as file:
                            file.write("begun ")
                            file.flush()
                            time.sleep(seconds)
                            file.write("done")
            return {}

        def close(self):
            with open(self.file, "a") as file:
                file.write("closed")

    def begin(file, given):
        if given["has"] == "nothing":
            raise ValueError("nothing to begin with")
        bound_memory(300 * 2**20)
        return Served(file, given)
"""
Start = Callable[..., Child]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for programs."""
    folder = tmp_path / "programs"
    (folder / "child_program").mkdir(parents=True)
    (folder / "child_program" / "__init__.py").write_text(textwrap.dedent(PROGRAM))
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def start(programs: Path, tmp_path: Path) -> Iterator[Start]:
    children: list[Child] = []

    def begun(has: str = "this", **options: Any) -> Child:
        children.append(Child("child_program", tmp_path / "file", {"has": has}, needs="child_program", **options))
        return children[-1]

    yield begun
    for child in children:
        child.kill()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_child_answers_blocking_and_asynchronous_requests_of_any_length(start: Start) -> None:
    child = start()
    for text in ("", "é\n\u2028\x00", "x" * 3_000_000):
        assert child.ask(["echo", text], within=10) == {"said": text}
        assert await child.asked(["echo", text], within=10) == {"said": text}
    assert child.is_ours()


def test_a_child_gets_only_the_given_environment(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "swordfish")
    monkeypatch.setenv("SHOP_NAME", "corner")
    child = start("a secret", keeps=("SHOP_NA",), sets={"SHOP_TILL": "open"})
    assert child.hello["sees"]["SHOP_TILL"] == "open"
    assert {**child.hello, "sees": child.hello["sees"]["SHOP_NAME"]} == {
        "file": str(tmp_path / "file"),
        "has": "a secret",
        "sees": "corner",
        "in": "/",
    }
    assert "SHOP_KEY" not in child.hello["sees"]
    assert b"a secret" not in Path(f"/proc/{child.pid}/cmdline").read_bytes()


def test_a_child_does_not_import_interlock(start: Start) -> None:
    child = start()
    mapped = Path(f"/proc/{child.pid}/maps").read_text()
    assert "pydantic_core" not in mapped


def test_a_child_that_cannot_start_reports_the_reason(start: Start) -> None:
    child = start("nothing")
    assert child.hello == {"failed": "ValueError", "reason": "nothing to begin with"}
    assert not lives(child.pid)


async def test_a_late_child_is_killed(start: Start) -> None:
    for is_async in (False, True):
        child = start()
        began = time.monotonic()
        asked = ["sleep", 60]
        answer = await child.asked(asked, within=0.2) if is_async else child.ask(asked, within=0.2)
        assert answer == {"failed": "late"}
        assert time.monotonic() - began < 10
        assert not lives(child.pid)
        assert not child.is_ours()
        assert await child.asked(["echo", "?"], within=1) == child.ask(["echo", "?"], within=1) == {"failed": "gone"}


async def test_the_exit_code_of_a_child_is_known(start: Start) -> None:
    for is_async in (False, True):
        child = start()
        answer = await child.asked(["die"], within=10) if is_async else child.ask(["die"], within=10)
        assert answer == {"failed": "gone"}
        assert child.returncode == -signal.SIGSEGV


async def test_an_unread_answer_is_not_taken_for_the_next_one(start: Start) -> None:
    child = start()
    asking = asyncio.create_task(child.asked(["sleep", 0.3], within=10))
    await asyncio.sleep(0.05)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not lives(child.pid)


async def test_an_answer_over_the_limit_is_rejected(start: Start) -> None:
    for is_async in (False, True):
        child = start(most=1_000_000)
        asked = ["echo", "x" * 3_000_000]
        answer = await child.asked(asked, within=10) if is_async else child.ask(asked, within=10)
        assert answer == {"failed": "gone"}
        assert not lives(child.pid)


def test_the_memory_limit_applies_to_the_child_only(start: Start) -> None:
    child = start()
    assert child.ask(["grow", 50 * 2**20], within=10) == {"size": 50 * 2**20}
    assert child.ask(["grow", 400 * 2**20], within=10) == {"failed": "gone"}


def test_a_closed_child_closes_its_files(start: Start, tmp_path: Path) -> None:
    child = start()
    child.close()
    assert (tmp_path / "file").read_text() == "closed"
    assert child.returncode == 0
    child.close()


def test_a_garbage_collected_child_ends(start: Start, programs: Path, tmp_path: Path) -> None:
    child = Child("child_program", tmp_path / "file", {"has": "this"}, needs="child_program")
    pid = child.pid
    assert lives(pid)
    del child
    assert not lives(pid)


def test_a_fork_does_not_end_the_child_of_its_parent(start: Start) -> None:
    child = start()
    pid = os.fork()
    if pid == 0:  # no assertion here: pytest would go on in two processes
        wrong = child.is_ours()
        child.kill()
        os._exit(int(wrong))
    assert os.waitpid(pid, 0)[1] == 0
    assert child.ask(["echo", "still"], within=10) == {"said": "still"}


def test_a_child_ends_with_its_parent_after_finishing_its_work(programs: Path, tmp_path: Path) -> None:
    script = f"""
        import sys, threading
        from pathlib import Path
        from interlock.processes.child import Child
        sys.path.insert(0, {str(programs)!r})
        files = [Path({str(tmp_path)!r}) / name for name in ("idle", "busy", "file")]
        idle, busy, finishing = (Child("child_program", file, {{"has": "this"}}, needs="child_program") for file in files)
        threading.Thread(target=busy.ask, args=(["sleep", 60],), kwargs={{"within": 90}}, daemon=True).start()
        threading.Thread(target=finishing.ask, args=(["finish", 0.3],), kwargs={{"within": 90}}, daemon=True).start()
        print(idle.pid, busy.pid, finishing.pid, flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        until = time.monotonic() + 10
        while not (tmp_path / "file").exists() and time.monotonic() < until:
            time.sleep(0.005)
        parent.kill()
    while any(map(lives, pids)) and time.monotonic() < until:
        time.sleep(0.005)
    assert [pid for pid in pids if lives(pid)] == []
    assert (tmp_path / "file").read_text() == "begun done"
