from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from interlock.engine import ENGINES

Command = Callable[..., CompletedProcess[str]]

KEYS = {"agent", "session", "turn", "status", "output", "error", "path", "state", "metadata", "usage"}


def png() -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def test_a_reply_is_printed_and_nothing_else(interlock: Command, tmp_path: Path):
    ran = interlock("run", "sam", "hello", "--model", "stub")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "This is a stubbed response.\n", "")
    assert list(tmp_path.iterdir()) == []


def test_the_default_model_is_honest_about_being_none(interlock: Command):
    ran = interlock("run", "sam", "hello")
    assert ran.returncode == 0
    assert "hello" in ran.stdout
    assert "No language model is configured" in ran.stdout


@pytest.mark.parametrize("engine", ENGINES)
def test_a_result_is_one_object_with_exactly_the_documented_keys(interlock: Command, success_path: tuple[str, ...], engine: str):
    ran = interlock("run", "sam", "hello", "--json", "--model", "stub", "--engine", engine, "--session", "s-1")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) == 1
    result = json.loads(ran.stdout)
    assert result.keys() == KEYS
    assert (result["agent"], result["session"], result["status"], result["error"]) == ("sam", "s-1", "success", None)
    assert result["output"] == "This is a stubbed response."
    assert result["path"] == list(success_path)
    assert result["state"]["conversation_id"] == "s-1"
    assert result["metadata"]["backend"] == "stub"


def test_a_turn_that_ends_in_a_typed_error_exits_with_1(interlock: Command):
    ran = interlock("run", "sam", "data:image/png;base64,%%%")
    assert ran.returncode == 1
    assert ran.stderr.startswith("media_malformed (error_router_node): ")
    as_json = interlock("run", "sam", "data:image/png;base64,%%%", "--json")
    result = json.loads(as_json.stdout)
    assert (as_json.returncode, result["status"]) == (1, "error")
    assert result.keys() == KEYS
    assert result["error"].keys() == {"code", "message", "node"}
    assert (result["error"]["code"], result["error"]["node"]) == ("media_malformed", "error_router_node")


def test_input_that_is_refused_is_an_object_of_the_same_shape(interlock: Command):
    ran = interlock("run", "sam", " ", "--json", "--session", "s")
    assert ran.returncode == 2
    result = json.loads(ran.stdout)
    assert result.keys() == KEYS
    assert (result["agent"], result["session"], result["status"], result["turn"]) == ("sam", "s", "error", None)
    assert (result["error"]["code"], result["error"]["node"]) == ("input_empty", None)


def test_every_event_is_a_line_and_the_last_one_has_the_result(interlock: Command):
    ran = interlock("run", "sam", "hello", "--events")
    assert (ran.returncode, ran.stderr) == (0, "")
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    assert all(event.keys() == {"event", "name", "run_id", "parent_ids", "tags", "metadata", "data"} for event in events)
    assert (events[0]["event"], events[0]["name"]) == ("on_chain_start", "sam")
    assert (events[-1]["event"], events[-1]["name"]) == ("on_chain_end", "sam")
    result = events[-1]["data"]["output"]
    assert result.keys() == KEYS
    assert [event["name"] for event in events if event["event"] == "on_chain_start"] == ["sam", *result["path"]]


def test_events_of_a_failed_turn_exit_with_1(interlock: Command):
    ran = interlock("run", "sam", "data:application/pdf;base64,AAAA", "--events")
    assert ran.returncode == 1
    assert json.loads(ran.stdout.splitlines()[-1])["data"]["output"]["error"]["code"] == "unsupported_media"


def test_json_and_events_exclude_each_other(interlock: Command):
    ran = interlock("run", "sam", "hello", "--json", "--events")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "exclude each other" in ran.stderr


def test_text_is_taken_from_standard_input(interlock: Command):
    ran = interlock("run", "sam", "--json", stdin="Grüße\naus Köln\n".encode())
    assert ran.returncode == 0
    result = json.loads(ran.stdout)
    assert result["state"]["raw_input"] == "Grüße\naus Köln\n"
    assert result["state"]["preprocessing_result"]["content"] == "Grüße\naus Köln"


def test_text_that_begins_with_a_dash_is_taken_after_two(interlock: Command):
    assert "--help me" in interlock("run", "sam", "--", "--help me").stdout


@pytest.mark.parametrize("name", ["dot.png", "DOT.PNG", "dot", "dot.unknown", "dot.bin"])
def test_a_file_is_sent_as_what_it_is(interlock: Command, tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(png())
    ran = interlock("run", "sam", "--file", name, "--json")
    result = json.loads(ran.stdout)
    assert (ran.returncode, result["state"]["input_type"]) == (0, "image")
    assert result["state"]["preprocessing_result"]["image"].startswith("data:image/jpeg;base64,")
    assert result["state"]["preprocessing_result"]["content"] == "Describe this image."


def test_text_is_the_question_about_a_file(interlock: Command, tmp_path: Path):
    (tmp_path / "dot.png").write_bytes(png())
    (tmp_path / "note.txt").write_text("first\n  second\n")
    picture = json.loads(interlock("run", "sam", "Is it round?", "--file", "dot.png", "--json").stdout)
    assert picture["state"]["preprocessing_result"]["content"] == "Is it round?"
    assert picture["state"]["preprocessing_result"]["image"].startswith("data:image/jpeg;base64,")
    assert "Is it round?" in picture["output"]
    note = json.loads(interlock("run", "sam", "Which is last?", "--file", "note.txt", "--json").stdout)
    assert note["state"]["preprocessing_result"]["content"] == "Which is last?\n\nfirst\n  second"


def test_an_agent_that_takes_no_file_says_so(interlock: Command, tmp_path: Path):
    (tmp_path / "note.txt").write_text("hello")
    ran = interlock("run", "puntini", "Create a task A", "--file", "note.txt")
    assert ran.returncode == 2
    assert ran.stderr.startswith("input_schema: ")


def test_a_file_that_is_not_what_its_name_says_is_malformed(interlock: Command, tmp_path: Path):
    (tmp_path / "dot.jpg").write_bytes(png())
    ran = interlock("run", "sam", "--file", "dot.jpg")
    assert ran.returncode == 1
    assert ran.stderr.startswith("media_malformed (error_router_node): ")


@pytest.mark.parametrize("name", ["note.txt", "note.md", "note", "note.unknown"])
def test_a_text_file_is_read(interlock: Command, tmp_path: Path, name: str):
    (tmp_path / name).write_text("hello from a file")
    assert "hello from a file" in interlock("run", "sam", "--file", name).stdout


def test_a_file_of_no_known_kind_is_unsupported(interlock: Command, tmp_path: Path):
    (tmp_path / "odd.unknown").write_bytes(b"\x00\xff\xfe")
    ran = interlock("run", "sam", "--file", "odd.unknown")
    assert (ran.returncode, ran.stderr.partition(":")[0]) == (1, "unsupported_media (error_router_node)")


GRANTS = """
from interlock.capabilities import Clock
from interlock_agents.sam.capabilities import Transcriber
from interlock.testing import FixedClock


class Ear:
    async def transcribe(self, audio: bytes, *, media_type: str) -> str:
        return "good morning"


mine = {Clock: FixedClock(), Transcriber: Ear()}
wrong = {Transcriber: FixedClock()}
nothing = None
"""
WAV = "data:audio/wav;base64,UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="


def test_adapters_of_ones_own_are_granted(interlock: Command, tmp_path: Path):
    (tmp_path / "granting.py").write_text(GRANTS)
    ran = interlock("run", "sam", WAV, "--grants", "granting:mine", "--json")
    result = json.loads(ran.stdout)
    assert (ran.returncode, result["state"]["created_at"]) == (0, "2026-01-01T00:00:00+00:00")
    assert "good morning" in result["output"]


@pytest.mark.parametrize(
    ("name", "code"),
    [("nothing", "agent_unknown"), ("missing", "agent_unknown"), ("wrong", "contract_invalid")],
    ids=["no mapping", "no such", "no method"],
)
def test_adapters_that_cannot_be_granted_are_refused(interlock: Command, tmp_path: Path, name: str, code: str):
    (tmp_path / "granting.py").write_text(GRANTS)
    ran = interlock("run", "sam", WAV, "--grants", f"granting:{name}")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"{code}: ")


def test_settings_come_from_the_file_here_then_the_environment_then_the_command(interlock: Command, tmp_path: Path):
    (tmp_path / "interlock.toml").write_text('model = "stub"\n')
    assert "stubbed" in interlock("run", "sam", "hello").stdout
    assert "No language model" in interlock("run", "sam", "hello", env={"INTERLOCK_MODEL": "offline"}).stdout
    assert "stubbed" in interlock("run", "sam", "hello", "--model", "stub", env={"INTERLOCK_MODEL": "offline"}).stdout


def test_verbose_prints_what_a_turn_used_beside_its_output(interlock: Command):
    ran = interlock("run", "sam", "hello", "--verbose")
    assert "“hello” (1 word)" in ran.stdout
    assert re.fullmatch(r"\d+\.\d\d s, 1 model call, 0 tool calls\n", ran.stderr)
    ran = interlock("run", "analyst", "How many orders were there in 2025?", "--verbose", "--json")
    assert json.loads(ran.stdout)["status"] == "success"
    assert re.search(r"s, \d+ model calls?, [1-9]\d* tool calls?\n$", ran.stderr)


@pytest.mark.parametrize("option", ["--user", "--customer"])
def test_who_calls_is_the_identity_of_the_agent(interlock: Command, option: str):
    ran = interlock("run", "analyst", "How many orders were there in 2025?", option, "ada", "--json")
    assert json.loads(ran.stdout)["state"]["user_id"] == "ada"


def test_who_calls_is_refused_where_an_agent_would_ignore_it(interlock: Command):
    for arguments in (["run", "sam", "hello"], ["chat", "sam"]):
        ran = interlock(*arguments, "--user", "ada")
        assert (ran.returncode, "has no identity field" in ran.stderr) == (2, True)
    ran = interlock("run", "desk", "--answer", "yes", "--session", "s", "--user", "ada")
    assert (ran.returncode, "excludes" in ran.stderr) == (2, True)
