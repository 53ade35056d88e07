"""What a person, a pipe and the doctor see of the analyst and of what it works with."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.doctor import Check, examine
from interlock.settings import read_settings
from tests.support.person import Person

Command = Callable[..., subprocess.CompletedProcess[str]]

THREE = "What was the revenue by country in 2025; what is net revenue; what is 17.5 * 24?"

MODULE = '''
import asyncio
import os
from pathlib import Path

from interlock.capabilities import Model, Chunk
from interlock.testing import ScriptedModel


async def hang(text: str = "") -> str:
    """Never end."""
    await asyncio.Event().wait()
    return text


async def hostile(text: str = "") -> str:
    """Say something that a terminal would obey."""
    return "a\\x1b]0;owned\\x07\\x1b[31mred\\u202e"


class Waiting(ScriptedModel):
    """Says the first half, and the second when it is told to."""

    async def stream(self, messages, *, tools=()):
        yield Chunk(text="The first half, ")
        while not Path("go-on").exists():
            await asyncio.sleep(0.02)
        yield Chunk(text="and\\n| a | b |\\n|---|---|\\n| x | 1 |\\n")
        yield Chunk(text="the end.")


grants = {Model: Waiting({"next_step": "generate"})}
'''


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"INTERLOCK_ENGINE": "direct", "INTERLOCK_DATA_DIR": str(tmp_path / "data")}


def own_tools(*names: str) -> dict[str, str]:
    listed = ["bq_query", "search", "calculate", *names]
    return {
        "INTERLOCK_TOOL_FUNCTIONS": json.dumps({name: f"helping:{name}" for name in names}),
        "INTERLOCK_ANALYST_TOOLS": json.dumps(listed),
        "PYTHONPATH": ".",
    }


def test_the_terminal_shows_tools_tables_and_the_path(sit_down: Callable[..., Person]):
    person = sit_down("run", "analyst", THREE)
    assert person.leave() == 0
    shown = "\n".join(person.lines)
    for tool, asked in (("calculate", r"17\.5 \* 24"), ("search", "net revenue"), ("bq_query", "SELECT c\\.country AS country, ")):
        assert re.search(rf"^  {tool}  \d+(?: ms|\.\d s)  {asked}", shown, re.MULTILINE), tool
    assert "country       revenue (EUR)\n───────────────────────────\nGermany        4,292,597.22\nFrance         2,858,018.45\n" in shown
    assert "17.5 * 24 = 420 [call-3]" in person.lines
    assert person.lines[-1] == "ingress > planner > tool_router > tool_executor > verifier > generator > summarizer"
    assert all(len(line) <= 100 for line in person.lines)


def test_output_fits_a_narrow_terminal(sit_down: Callable[..., Person]):
    person = sit_down("run", "analyst", "revenue by country in 2025", columns=24)
    assert person.leave() == 0
    assert "country     Germany\nrevenue     4,292,597.22\n(EUR)\n\ncountry     France" in "\n".join(person.lines)
    assert all(len(line) <= 24 for line in person.lines)


def test_a_new_plan_is_shown(sit_down: Callable[..., Person]):
    person = sit_down("chat", "analyst")
    person.wait_for("\x1b[?2004h")
    person.type("What does the handbook say about attrition?\r")
    person.wait_for("nothing was found: another plan (retry 1)")
    person.wait_for("Churn is the share of customers")
    person.wait_for("\x1b[?2004h")
    person.type("select * from nowhere\r")
    person.wait_for("query_denied")
    person.wait_for("the tools failed: another plan (retry 1)")
    person.wait_for("Not found:")
    person.wait_for("\x1b[?2004h")
    person.type("/path\r")
    person.wait_for("verifier > planner > generator")
    person.type("/quit\r")
    assert person.leave() == 0
    assert "planning_retry" not in person.seen


def test_the_answer_is_streamed(sit_down: Callable[..., Person], tmp_path: Path):
    (tmp_path / "helping.py").write_text(MODULE)
    person = sit_down("run", "analyst", "Tell me.", "--grants", "helping:grants")
    person.wait_for("The first half,")
    assert person.process.poll() is None
    (tmp_path / "go-on").touch()
    assert person.leave() == 0
    assert person.lines[-6:] == ["The first half, and", "a   b", "─────", "x   1", "the end.", "ingress > planner > generator > summarizer"]


def test_ctrl_c_ends_a_turn_and_the_session_continues(sit_down: Callable[..., Person], tmp_path: Path):
    (tmp_path / "helping.py").write_text(MODULE)
    person = sit_down("chat", "analyst", **own_tools("hang"), INTERLOCK_TOOL_SECONDS="100")
    person.wait_for("\x1b[?2004h")
    person.type("use hang\r")
    person.wait_for("tool_executor: hang")
    person.type("\x03")
    person.wait_for("cancelled")
    person.wait_for("\x1b[?2004h")
    person.type("What is 6 * 7?\r")
    person.wait_for("6 * 7 = 42 [call-1]")
    person.wait_for("\x1b[?2004h")
    person.type("What did I ask so far?\r")
    person.wait_for("- What is 6 * 7?")
    person.wait_for("\x1b[?2004h")
    person.type("\x04")
    assert person.leave() == 0
    assert "- use hang" not in person.seen
    assert "Traceback" not in person.seen


def test_tool_output_cannot_control_the_terminal(sit_down: Callable[..., Person], interlock: Command, tmp_path: Path):
    (tmp_path / "helping.py").write_text(MODULE)
    person = sit_down("run", "analyst", "use hostile", **own_tools("hostile"))
    assert person.leave() == 0
    piped = interlock("run", "analyst", "use hostile", env=own_tools("hostile"))
    for seen in (person.seen, piped.stdout):
        assert "red" in seen
        assert [part for part in ("\x1b]0;owned", "\x07", "\x1b[31mred", "\u202e") if part in seen] == []


def test_a_pipe_gets_the_plain_answer(interlock: Command):
    ran = interlock("run", "analyst", "revenue by country in 2025")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Revenue by country, 2025:\n\n| country | revenue (EUR) |\n| --- | ---: |\n| Germany | 4,292,597.22 |\n")


def test_the_next_command_continues_the_session(interlock: Command):
    interlock("run", "analyst", "How many orders were placed in 2025?", "--session", "mine")
    ran = interlock("run", "analyst", "And in 2024?", "--session", "mine", "--json")
    result = json.loads(ran.stdout)
    assert result["output"].startswith("Orders, 2024: ")
    assert [message["type"] for message in result["state"]["messages"]] == ["human", "ai", "human", "ai"]
    other = json.loads(interlock("run", "analyst", "And in 2024?", "--session", "other", "--json").stdout)
    assert other["output"].startswith("Which figure would you like for: 2024?")


@pytest.mark.parametrize("arguments", [["agents"], ["show", "analyst"]], ids=" ".join)
def test_the_description_fits_100_columns(sit_down: Callable[..., Person], arguments: list[str]):
    person = sit_down(*arguments)
    assert person.leave() == 0
    assert "analyst" in person.seen
    assert all(len(line) <= 100 for line in person.lines)


# The doctor, in this process: a command takes seconds to start.


async def look(folder: Path, **settings: object) -> dict[str, Check]:
    return {check.what: check async for check in examine(read_settings(data_dir=folder, engine="direct", **settings))}


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


async def test_the_doctor_does_not_change_existing_stores(interlock: Command, tmp_path: Path):
    interlock("run", "analyst", "How many orders were placed in 2025?", "--session", "mine")
    before = contents(tmp_path / "data")
    assert before.keys() == {"sessions.sqlite", "turns.db", "warehouse.duckdb"}
    found = await look(tmp_path / "data")
    assert found["checkpoints"].found.endswith("sessions.sqlite has 1 session")
    assert found["warehouse"].found.endswith("warehouse.duckdb answers")
    assert contents(tmp_path / "data") == before


async def test_the_doctor_counts_sessions_in_the_write_ahead_log(tmp_path: Path):
    with contextlib.closing(sqlite3.connect(tmp_path / "sessions.sqlite")) as connection:  # open, as in a program that runs
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT)")
        connection.execute("INSERT INTO checkpoints VALUES ('one', '', '1'), ('two', '', '1'), ('two', '', '2')")
        connection.commit()
        found = await look(tmp_path)
    assert found["checkpoints"].found.endswith("has 2 sessions")


async def test_the_doctor_does_not_create_stores(tmp_path: Path):
    found = await look(tmp_path / "data")
    for what in ("checkpoints", "warehouse"):
        assert found[what].state == "ok"
        assert "created when it is needed" in found[what].found
        assert "INTERLOCK_" in found[what].fix
    assert not (tmp_path / "data").exists()


async def test_the_doctor_does_not_rebuild_a_damaged_demo_warehouse(tmp_path: Path):
    (tmp_path / "warehouse.duckdb").write_bytes(b"nothing of the kind")
    found = (await look(tmp_path))["warehouse"]
    assert (found.state, "damaged" in found.found) == ("ok", True)
    assert (tmp_path / "warehouse.duckdb").read_bytes() == b"nothing of the kind"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("checkpoint_url", "sqlite:{here}/some.file", "is damaged or holds no checkpoints"),
        ("checkpoint_url", "sqlite:{here}", "cannot be written"),
        ("checkpoint_url", "postgresql://me:p%40ss-word@127.0.0.1:9/x", "cannot be used"),
        ("checkpoint_url", "postgresql://me:p@ss-word@127.0.0.1:9/x?password=ss-word", "more than one '@'"),
        ("checkpoint_url", "nonsense", "must be 'memory:'"),
        ("warehouse", "duckdb:{here}/nowhere.duckdb", "is not there"),
        ("warehouse", "duckdb:{here}/some.file", "cannot be opened"),
        ("warehouse", "nonsense", "is unknown"),
    ],
)
async def test_the_doctor_reports_a_problem_once(tmp_path: Path, name: str, value: str, says: str):
    (tmp_path / "some.file").write_text(MODULE)
    found = await look(tmp_path / "data", **{name: value.format(here=tmp_path)})
    (broken,) = [check for check in found.values() if check.state == "broken"]
    assert says in broken.found
    assert "ss-word" not in repr(found)
    assert set(contents(tmp_path)) == {"some.file"}
    assert (tmp_path / "some.file").read_text() == MODULE
