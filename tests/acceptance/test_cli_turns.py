"""Turns and sessions on the command line: listed, shown, followed, answered, cancelled, exported and run by a worker."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.runtime.turns import NewTurn
from interlock.stores.turns_sqlite import SqliteTurns

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
    assert interlock("turns", "--status", "open").stdout == ""


def test_turns_are_listed_with_their_status_and_question(interlock: Command, suspended: subprocess.CompletedProcess[str]):
    listed = interlock("turns").stdout
    when = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(rf"\w+\tshop\ts-1\twaiting\t{when}\tSell 'lamp'\? 3 left\. \[yes, sell it \| no\]\n", listed)
    [turn] = json.loads(interlock("turns", "--json").stdout)
    assert (turn["agent"], turn["session"], turn["status"], turn["error"]) == ("shop", "s-1", "waiting", None)
    assert turn["waiting"] == {"question": "Sell 'lamp'? 3 left.", "options": ["yes, sell it", "no"], "recommended": "no"}
    assert interlock("turns", "--status", "success").stdout == ""
    assert interlock("turns", "--status", "asleep").returncode == 2


def test_a_turn_is_answered_followed_exported_and_retried(interlock: Command, suspended: subprocess.CompletedProcess[str], tmp_path: Path):
    [turn] = json.loads(interlock("turns", "--json").stdout)
    answered = interlock("turns", "answer", "s-1", "no", "--agent", "shop:agent", "--by", "bob", "--grants", "shop:grants")
    assert answered.stdout == "ada: no\n", answered.stderr
    shown = json.loads(interlock("turns", "show", turn["turn"], "--json").stdout)
    assert (shown["status"], shown["output"]) == ("success", "ada: no")
    assert (shown["answer"]["text"], shown["answer"]["by"]) == ("no", "bob")
    assert shown["started"] <= shown["answer"]["at"] <= shown["ended"]
    events = [json.loads(line) for line in interlock("turns", "follow", turn["turn"]).stdout.splitlines()]
    assert [event["metadata"]["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert json.loads(interlock("turns", "follow", turn["turn"], "--after", "2").stdout.splitlines()[0]) == events[2]
    interlock("turns", "export", turn["turn"], str(tmp_path / "turn.jsonl"))
    replayed = interlock("replay", str(tmp_path / "turn.jsonl"), "--graph", "shop:agent")
    assert replayed.returncode == 0, replayed.stderr
    again = interlock("turns", "retry", turn["turn"]).stdout.strip()
    assert json.loads(interlock("turns", "show", again, "--json").stdout)["status"] == "ready"


def test_a_suspended_turn_is_shown_with_the_command_that_answers_it(interlock: Command, suspended: subprocess.CompletedProcess[str]):
    shown = interlock("turns", "show", "s-1", "--agent", "shop:agent")
    assert "  2  no  (recommended)\n" in shown.stdout
    assert command_in(shown.stdout) == ["interlock", "run", "shop:agent", "--session", "s-1", "--answer", "no"]
    unnamed = interlock("turns", "show", "s-1")
    assert command_in(unnamed.stdout)[2] == "MODULE:NAME"
    assert "pass it as '--agent MODULE:NAME'" in unnamed.stderr
    data = json.loads(interlock("turns", "show", "s-1", "--agent", "shop:agent", "--json").stdout)
    assert data["commands"][1] == "interlock run shop:agent --session s-1 --answer abort"


def test_a_turn_is_cancelled_after_a_confirmation_only(interlock: Command, suspended: subprocess.CompletedProcess[str]):
    asked = interlock("turns", "cancel", "s-1")
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert re.fullmatch(r"Turn '\w+' is cancelled\.\n", interlock("turns", "cancel", "s-1", "--yes").stdout)
    assert interlock("turns", "--status", "open").stderr == "There are no such turns.\n"
    assert interlock("turns", "cancel", "s-1", "--yes").stderr.startswith("turn_unknown: ")


def test_a_turn_that_has_ended_is_deleted_after_a_confirmation_only(interlock: Command, suspended: subprocess.CompletedProcess[str]):
    [turn] = [turn["turn"] for turn in json.loads(interlock("turns", "list", "--json").stdout)]
    early = interlock("turns", "delete", turn, "--yes")
    assert (early.returncode, "has not ended: waiting" in early.stderr) == (2, True)
    interlock("turns", "cancel", turn, "--yes")
    asked = interlock("turns", "delete", turn)
    assert (asked.returncode, "--yes" in asked.stderr) == (2, True)
    assert interlock("turns", "delete", turn, "--yes").stdout == f"Turn '{turn}' is deleted.\n"
    assert interlock("turns", "list").stderr == "There are no such turns.\n"
    assert interlock("turns", "delete", turn, "--yes").stderr.startswith("turn_unknown: ")


@pytest.mark.parametrize("group", ["turns", "sessions"])
def test_the_help_of_a_group_names_the_command_that_lists(interlock: Command, group: str):
    assert re.search(rf"^  list +List (stored {group}|the {group})", interlock(group, "--help").stdout, re.MULTILINE)
    assert interlock(group, "list").returncode == 0


def test_a_damaged_store_of_turns_is_reported_and_left_as_it_is(
    interlock: Command, suspended: subprocess.CompletedProcess[str], tmp_path: Path
):
    file = tmp_path / "data" / "turns.db"
    for beside in file.parent.glob("turns.db-*"):
        beside.unlink()
    file.write_bytes(b"this is not a database" * 100)
    assert interlock("turns").stderr.startswith("store_corrupt: ")
    assert file.read_bytes() == b"this is not a database" * 100


def test_a_worker_runs_what_was_submitted_and_stops_on_sigterm(
    interlock: Command, script: str, tmp_path: Path, environment: dict[str, str]
):
    (tmp_path / "submit.py").write_text(
        "import asyncio\n"
        "from interlock import Interlock\n"
        "async def main():\n"
        "    async with Interlock() as app:\n"
        "        print(await app.submit('sam', 'hello', turn='t-1'))\n"
        "asyncio.run(main())\n"
    )
    ready = tmp_path / "ready"
    submitted = subprocess.run([sys.executable, "submit.py"], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert submitted.stdout == "t-1\n"
    command = [script, "worker", "sam", "--ready-file", str(ready)]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as worker:
        events = interlock("turns", "follow", "t-1").stdout.splitlines()
        assert json.loads(events[-1])["data"]["output"]["status"] == "success"
        assert ready.exists()
        worker.terminate()
        said = worker.communicate(timeout=30)[1]
    assert said.endswith("The worker has stopped.\n")
    assert not ready.exists()
    assert json.loads(interlock("turns", "show", "t-1", "--json").stdout)["attempts"] == 1


def test_of_two_agents_with_a_turn_in_one_session_one_has_to_be_named(
    interlock: Command, suspended: subprocess.CompletedProcess[str], tmp_path: Path
):
    (tmp_path / "other.py").write_text(SHOP.replace('name="shop"', 'name="other"'))
    interlock("run", "other:agent", "lamp", "--session", "s-1", "--grants", "other:grants")
    assert "Several agents have an open turn in session 's-1': other, shop." in interlock("turns", "show", "s-1").stderr
    assert "\nagent     other\n" in interlock("turns", "show", "s-1", "--agent", "other").stdout


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


def test_a_turn_whose_contracts_have_changed_is_listed_as_parked(interlock: Command, tmp_path: Path):
    interlock("run", "sam", "hello", "--session", "s")  # creates the folder
    new = NewTurn(turn="old", agent="sam", session="s", header=b"{}", fingerprint="of an earlier version", build="0.1")

    async def accept() -> None:
        store = SqliteTurns(tmp_path / "data" / "turns.db")
        await store.accept(new)
        await store.aclose()

    asyncio.run(accept())
    assert "parked: The contracts of 'sam' have changed since turn 'old' began." in interlock("turns").stdout
    shown = interlock("turns", "show", "old").stdout
    assert "start a worker with build 0.1, or cancel the turn and retry it" in shown
