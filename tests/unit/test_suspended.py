"""Turns that wait: one a session, in files that nobody else's turn takes away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from interlock.errors import NothingWaits, StoreUnavailable, TurnWaiting
from interlock.suspended import SuspendedTurns


@pytest.fixture
def turns(tmp_path: Path) -> SuspendedTurns:
    return SuspendedTurns(tmp_path / "turns")


def test_a_turn_that_ended_leaves_nothing(turns: SuspendedTurns, tmp_path: Path):
    path = turns.begin("puntini", "s")
    path.write_text("x")
    turns.keep_or_delete(path, "puntini", "s", waits=False)
    assert list((tmp_path / "turns").iterdir()) == []
    with pytest.raises(NothingWaits):
        turns.find("puntini", "s")
    turns.keep_or_delete(path, "puntini", "s", waits=False)


def test_a_turn_that_waits_is_found_by_its_session_only(turns: SuspendedTurns):
    path = turns.begin("puntini", "s")
    path.write_text("x")
    turns.keep_or_delete(path, "puntini", "s", waits=True)
    waiting = turns.find("puntini", "s")
    assert waiting.read_text() == "x"
    for agent, session in (("puntini", "t"), ("sam", "s"), ("puntini", "s-1")):
        with pytest.raises(NothingWaits):
            turns.find(agent, session)
    with pytest.raises(TurnWaiting):
        turns.begin("puntini", "s")
    assert turns.begin("puntini", "t") != path
    turns.keep_or_delete(waiting, "puntini", "s", waits=True)
    assert turns.find("puntini", "s").read_text() == "x", "it may wait again"
    turns.keep_or_delete(waiting, "puntini", "s", waits=False)
    turns.begin("puntini", "s")


def test_what_a_crash_left_makes_way_and_what_another_process_writes_does_not(turns: SuspendedTurns, tmp_path: Path):
    folder = tmp_path / "turns"
    folder.mkdir()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        alive = folder / f"puntini-s.{other.pid}-1.running"
        alive.write_text("x")
        turns.begin("puntini", "s")
        assert alive.exists()
        other.kill()
        other.wait()
        elsewhere = folder / f"puntini-s-1.{other.pid}-1.running"
        elsewhere.write_text("x")
        turns.begin("puntini", "s")
    assert not alive.exists()
    assert elsewhere.exists(), "it is of another session"


@pytest.mark.parametrize("name", ["puntini-s.mine-1.running", f"puntini-s.{10**30}-1.running"])
def test_a_file_whose_writer_cannot_be_told_stays(turns: SuspendedTurns, tmp_path: Path, name: str):
    (tmp_path / "turns").mkdir()
    (tmp_path / "turns" / name).write_text("x")
    turns.begin("puntini", "s")
    assert (tmp_path / "turns" / name).read_text() == "x"


def test_two_turns_at_once_have_files_of_their_own(turns: SuspendedTurns):
    one, other = turns.begin("puntini", "s"), turns.begin("puntini", "s")
    one.write_text("one")
    other.write_text("other")
    turns.keep_or_delete(one, "puntini", "s", waits=True)
    with pytest.raises(TurnWaiting):
        turns.keep_or_delete(other, "puntini", "s", waits=True)
    assert turns.find("puntini", "s").read_text() == "one"
    assert not other.exists()


def test_a_record_that_is_kept_elsewhere_stays_there(turns: SuspendedTurns, tmp_path: Path):
    record = tmp_path / "record"
    record.write_text("x")
    record.chmod(0o600)
    turns.keep_or_delete(record, "puntini", "s", waits=False)
    assert record.read_text() == "x"
    turns.keep_or_delete(record, "puntini", "s", waits=True)
    assert (record.read_text(), turns.find("puntini", "s").read_text()) == ("x", "x")
    assert turns.find("puntini", "s").stat().st_mode & 0o077 == 0
    turns.keep_or_delete(turns.find("puntini", "s"), "puntini", "s", waits=False)
    assert record.exists()


def test_where_nothing_can_be_written_is_a_typed_error(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailable):
        SuspendedTurns(tmp_path / "file" / "turns").begin("puntini", "s")
    turns = SuspendedTurns(tmp_path / "turns")
    gone = turns.begin("puntini", "s")
    with pytest.raises(StoreUnavailable):
        turns.keep_or_delete(gone, "puntini", "s", waits=True)


def test_only_the_owner_may_look(turns: SuspendedTurns, tmp_path: Path):
    turns.begin("puntini", "s")
    assert (tmp_path / "turns").stat().st_mode & 0o077 == 0
