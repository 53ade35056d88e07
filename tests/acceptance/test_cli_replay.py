"""Turns that are recorded, taken again, and gone on with, on the command line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]

OWN = '''
from dataclasses import dataclass
from typing import Protocol

from interlock import END, Capability, Graph, Outcome, node


class Dice(Capability, Protocol):
    async def throw(self) -> int: ...


class Counted:
    """Throws 1, 2, 3 ..., and counts in a file how often it was asked."""

    async def throw(self) -> int:
        with open("thrown", "a") as file:
            file.write("x")
        with open("thrown") as file:
            return len(file.read())


@dataclass
class Game:
    name: str
    total: int = 0


class Played(Outcome):
    total: int


async def play(name: str, *, dice: Dice) -> Played:
    """Throw twice."""
    return Played(total=await dice.throw() + 10 * await dice.throw())


game = Graph("game", state=Game, entry=play, nodes=[node(play, goes={Played: END})], takes=("name",), gives="total")
grants = {Dice: Counted()}
'''


def test_a_recorded_turn_is_the_same_when_it_is_replayed(interlock: Command):
    ran = interlock("run", "sam", "hello", "--record", "turn.jsonl", "--json")
    replayed = interlock("replay", "turn.jsonl", "--json")
    assert (ran.returncode, replayed.returncode) == (0, 0)
    found = json.loads(replayed.stdout)
    assert found["same"] is True
    assert found["differences"] == []
    assert found["result"] == json.loads(ran.stdout)


@pytest.mark.parametrize("engine", ["langgraph", "direct"])
def test_the_engine_makes_no_difference(interlock: Command, engine: str):
    interlock("run", "sam", "hello", "--record", "turn.jsonl")
    assert interlock("replay", "turn.jsonl", "--engine", engine).stdout.startswith("the same\tsam, turn ")


def test_a_turn_that_failed_is_replayed_too(interlock: Command, tmp_path: Path):
    (tmp_path / "script.json").write_text('[{"error": "model_timeout"}]')
    ran = interlock("run", "sam", "hello", "--model", "scripted:script.json", "--record", "turn.jsonl")
    assert ran.returncode == 1
    assert interlock("replay", "turn.jsonl").returncode == 0


def test_what_came_out_differently_is_printed(interlock: Command, tmp_path: Path):
    interlock("run", "sam", "hello", "--record", "turn.jsonl")
    record = tmp_path / "turn.jsonl"
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    answer = next(line["entry"] for line in lines if line.get("entry", {}).get("method") == "generate")
    answer["result"]["output"] = "something else"
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    replayed = interlock("replay", "turn.jsonl")
    assert replayed.returncode == 1
    verdict, *differences = replayed.stdout.splitlines()
    assert verdict.startswith("different\t")
    assert any(line.startswith("output: was ") and line.endswith('is "something else"') for line in differences)
    assert any(line.startswith("state.final_output: ") for line in differences)


def test_a_graph_of_ones_own_is_replayed_without_grants(interlock: Command, tmp_path: Path):
    (tmp_path / "own.py").write_text(OWN)
    ran = interlock("run", "own:game", "me", "--grants", "own:grants", "--record", "turn.jsonl")
    assert ran.stdout == "21\n"
    unnamed = interlock("replay", "turn.jsonl")
    assert (unnamed.returncode, unnamed.stderr.partition(":")[0]) == (2, "record_invalid")
    assert interlock("replay", "turn.jsonl", "--graph", "own:game").returncode == 0
    assert (tmp_path / "thrown").read_text() == "xx"


def test_a_turn_that_stopped_half_way_goes_on_and_repeats_nothing(interlock: Command, tmp_path: Path):
    (tmp_path / "own.py").write_text(OWN)
    interlock("run", "own:game", "me", "--grants", "own:grants", "--record", "turn.jsonl")
    record = tmp_path / "turn.jsonl"
    heading, first, second, _ending = record.read_text().splitlines(keepends=True)
    record.write_text(heading + first + second[:20])  # as if it had been killed while it wrote
    (tmp_path / "thrown").write_text("x")
    refused = interlock("replay", "turn.jsonl", "--graph", "own:game")
    assert (refused.returncode, refused.stderr.partition(":")[0]) == (2, "record_invalid")
    resumed = interlock("replay", "turn.jsonl", "--graph", "own:game", "--grants", "own:grants", "--resume")
    assert (resumed.returncode, resumed.stdout) == (0, "21\n")
    assert (tmp_path / "thrown").read_text() == "xx"
    assert interlock("replay", "turn.jsonl", "--graph", "own:game").returncode == 0


def test_a_record_is_never_written_over(interlock: Command, tmp_path: Path):
    (tmp_path / "turn.jsonl").write_text("precious")
    ran = interlock("run", "sam", "hello", "--record", "turn.jsonl")
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (2, "record_invalid")
    assert (tmp_path / "turn.jsonl").read_text() == "precious"


def test_only_the_owner_may_read_a_record(interlock: Command, tmp_path: Path):
    interlock("run", "sam", "hello", "--record", "turn.jsonl")
    assert (tmp_path / "turn.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [None, b"", b"{}\n", b"\xff\xfe", b'{"header": {}}\n', b"[1]\n", b"null\n"])
def test_a_file_that_is_no_record_is_refused(interlock: Command, tmp_path: Path, content: bytes | None):
    if content is not None:
        (tmp_path / "turn.jsonl").write_bytes(content)
    ran = interlock("replay", "turn.jsonl")
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (2, "record_invalid")


def test_a_record_that_cannot_be_written_is_a_typed_error(interlock: Command, tmp_path: Path):
    ran = interlock("run", "sam", "hello", "--record", str(tmp_path / "nowhere" / "turn.jsonl"))
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (2, "store_unavailable")
