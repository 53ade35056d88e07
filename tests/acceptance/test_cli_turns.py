"""Suspended turns and sessions on the command line: listed, shown, answered by the command that is shown, and deleted."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

SHOP = """
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from interlock import END, Agent, Capability, Graph, Outcome, Reply, node
from interlock.capabilities import Human, Question


class Stock(Capability, Protocol):
    async def take(self, item: str) -> int: ...


class Shelf:
    async def take(self, item: str) -> int:
        return 3


@dataclass
class State:
    item: str
    answer: str
    customer: str = ""


class Decided(Outcome):
    answer: str


async def approve(item: str, customer: str, *, human: Human, stock: Stock) -> Decided:
    left = await stock.take(item)
    said = await human.ask(Question(text=f"Sell '{item}'? {left} left.", options=("yes, sell it", "no"), recommended="no"))
    return Decided(answer=f"{customer}: {said}")


graph = Graph("shop", state=State, entry=approve, takes=("item", "customer"), gives="answer", nodes=[node(approve, goes={Decided: END})])


def parse(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
    return {"item": given} if isinstance(given, str) else given


agent = Agent(
    name="shop",
    summary="sells with approval",
    graphs=(graph,),
    entries={None: graph},
    reply=lambda state: Reply(output=state["answer"]),
    parse_input=parse,
    identity="customer",
    has_sessions=True,
    pauses=True,
)
grants = {Stock: Shelf()}
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"INTERLOCK_ENGINE": "direct", "INTERLOCK_DATA_DIR": str(tmp_path / "data"), "INTERLOCK_HUMAN": "wait"}


@pytest.fixture
def suspended(interlock: Command, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A suspended turn of an agent of one's own."""
    (tmp_path / "shop.py").write_text(SHOP)
    ran = interlock("run", "shop:agent", "lamp", "--session", "s-1", "--user", "ada", "--grants", "shop:grants")
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran


def command_in(text: str) -> list[str]:
    """The command that a hint shows, as a shell reads it."""
    [found] = re.findall(r"^Answer with: (.*)$", text, re.MULTILINE)
    return shlex.split(found)


def test_the_hint_is_a_command_that_answers_the_question_of_an_own_agent(interlock: Command, suspended: subprocess.CompletedProcess[str]):
    assert suspended.stdout.startswith("Sell 'lamp'? 3 left.\n  1  yes, sell it\n  2  no  (recommended)\n")
    program, *arguments = command_in(suspended.stdout)
    assert (program, arguments[-1]) == ("interlock", "no")
    assert interlock(*arguments).stdout == "ada: no\n"
    assert interlock("turns").stdout == ""


def test_suspended_turns_are_listed_with_their_question(interlock: Command, suspended: subprocess.CompletedProcess[str]):
    listed = interlock("turns").stdout
    assert re.fullmatch(r"shop\ts-1\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\tSell 'lamp'\? 3 left\. \[yes, sell it \| no\]\n", listed)
    [turn] = json.loads(interlock("turns", "--json").stdout)
    assert (turn["agent"], turn["session"], turn["question"], turn["options"], turn["recommended"], turn["error"]) == (
        "shop",
        "s-1",
        "Sell 'lamp'? 3 left.",
        ["yes, sell it", "no"],
        "no",
        None,
    )


def test_a_suspended_turn_is_shown_with_the_command_that_answers_it(interlock: Command, suspended: subprocess.CompletedProcess[str]):
    shown = interlock("turns", "show", "s-1", "--agent", "shop:agent")
    assert "  2  no  (recommended)\n" in shown.stdout
    assert command_in(shown.stdout) == ["interlock", "run", "shop:agent", "--session", "s-1", "--answer", "no"]
    unnamed = interlock("turns", "show", "s-1")
    assert command_in(unnamed.stdout)[2] == "MODULE:NAME"
    assert "pass it as '--agent MODULE:NAME'" in unnamed.stderr
    data = json.loads(interlock("turns", "show", "s-1", "--agent", "shop:agent", "--json").stdout)
    assert data["commands"][1] == "interlock run shop:agent --session s-1 --answer abort"


def test_a_suspended_turn_is_deleted_after_a_confirmation_only(interlock: Command, suspended: subprocess.CompletedProcess[str]):
    asked = interlock("turns", "delete", "s-1")
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert interlock("turns", "delete", "s-1", "--yes").stdout == "The suspended turn of shop in session 's-1' is deleted.\n"
    assert interlock("turns").stderr == "There are no suspended turns.\n"
    assert interlock("turns", "delete", "s-1", "--yes").stderr.startswith("nothing_waits: ")


def test_a_damaged_record_is_listed_and_can_be_deleted(interlock: Command, suspended: subprocess.CompletedProcess[str], tmp_path: Path):
    [file] = (tmp_path / "data" / "turns").glob("*.waiting")
    file.write_text("{}\n")
    assert interlock("turns").stdout.endswith("\tcannot be read (record_invalid)\n")
    assert "Fix: delete the turn." in interlock("turns", "show", "s-1").stdout
    assert interlock("turns", "delete", "s-1", "--yes").returncode == 0
    assert list((tmp_path / "data" / "turns").glob("*.waiting")) == []


def test_two_agents_with_a_turn_in_one_session_have_to_be_told_apart(
    interlock: Command, suspended: subprocess.CompletedProcess[str], tmp_path: Path
):
    (tmp_path / "other.py").write_text(SHOP.replace('name="shop"', 'name="other"'))
    interlock("run", "other:agent", "lamp", "--session", "s-1", "--grants", "other:grants")
    assert "Several agents have a suspended turn in session 's-1': " in interlock("turns", "show", "s-1").stderr
    assert interlock("turns", "show", "s-1", "--agent", "other").stdout.startswith("other, session s-1, suspended ")


def test_a_question_is_listed_without_what_the_settings_redact(interlock: Command, suspended: subprocess.CompletedProcess[str]):
    listed = interlock("turns", env={"INTERLOCK_REDACT": '["3 left"]'})
    assert "3 left" not in listed.stdout


def test_a_resumed_turn_does_not_show_the_calls_of_the_first_run_again(interlock: Command, tmp_path: Path):
    for text in ("Add a person Design", "Add a task Design", "Set the size of Design to 3"):
        interlock("run", "puntini", text, "--session", "s")
    ran = interlock("run", "puntini", "--session", "s", "--answer", "1", "--verbose")
    assert ran.returncode == 0
    assert ran.stderr.endswith(", 1 tool call\n")


def test_sessions_are_listed_shown_and_deleted(interlock: Command):
    assert interlock("sessions").stdout == ""
    interlock("run", "puntini", "Add a task Design", "--session", "one")
    listed = interlock("sessions")
    assert re.fullmatch(r"puntini\tone\t1 turn\t\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n", listed.stdout)
    assert listed.stderr == "Not listed: the sessions of desk, which are in a store of the agent's own (INTERLOCK_SESSION_URL).\n"
    [session] = json.loads(interlock("sessions", "--json").stdout)["sessions"]
    assert (session["graph"], session["session"], session["turns"]) == ("puntini", "one", 1)
    assert "Add a task Design" in interlock("sessions", "show", "puntini", "one").stdout
    fields = json.loads(interlock("sessions", "show", "puntini", "one", "--json").stdout)["fields"]
    assert fields["last"]["goal"] == "Add a task Design"
    assert "--yes" in interlock("sessions", "delete", "puntini", "one").stderr
    assert interlock("sessions", "delete", "puntini", "one", "--yes").returncode == 0
    assert interlock("sessions").stdout == ""
    assert "has no persisted fields" in interlock("sessions", "show", "puntini", "one").stderr


@pytest.mark.parametrize(("agent", "why"), [("desk", "in a store of its own"), ("sam", "has no sessions")])
def test_an_agent_without_persisted_fields_says_why_there_is_nothing_to_show(interlock: Command, agent: str, why: str):
    ran = interlock("sessions", "show", agent, "s")
    assert (ran.returncode, why in ran.stderr) == (2, True)


def test_a_store_that_cannot_be_listed_is_named(interlock: Command):
    ran = interlock("sessions", env={"INTERLOCK_CHECKPOINT_URL": "postgresql://me:secret@db.example/x"})
    assert ran.returncode == 0
    assert "Not listed: the sessions in 'postgresql://...@db.example/x'. Only the sessions of a SQLite file can be listed." in ran.stderr
    assert "secret" not in ran.stderr


def test_a_file_that_is_no_store_is_a_typed_error(interlock: Command, tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sessions.sqlite").write_text("no database, and long enough to be looked at as one" * 20)
    ran = interlock("sessions")
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (2, "store_corrupt")
