"""A conversation on the command line: with a person at a terminal, and with a pipe."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.person import Person

Command = Callable[..., subprocess.CompletedProcess[str]]

SLOW = '''
import asyncio
from dataclasses import dataclass
from typing import Protocol

from interlock import END, Capability, Graph, Outcome, node


class Wait(Capability, Protocol):
    async def for_it(self) -> None: ...


class Never:
    async def for_it(self) -> None:
        await asyncio.Event().wait()


@dataclass
class Slow:
    said: str


class Said(Outcome):
    said: str


async def wait(said: str, *, it: Wait) -> Said:
    """Wait where somebody says so."""
    if said == "wait":
        await it.for_it()
    return Said(said=f"you said {said}")


slow = Graph("slow", state=Slow, entry=wait, nodes=[node(wait, goes={Said: END})], gives="said")
grants = {Wait: Never()}
'''


PROMPT = "\x1b[?2004h"  # from here on what is pasted is marked: the line editor is ready


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"INTERLOCK_ENGINE": "direct", "INTERLOCK_DATA_DIR": str(tmp_path / "data")}


def test_a_person_talks_and_looks_behind_the_scenes(sit_down: Callable[..., Person]):
    person = sit_down("chat", "sam")
    person.wait_for(PROMPT)
    person.type("good morning\r")
    person.wait_for("“good morning” (2 words)")
    person.type("/path\r")
    person.wait_for("router_node > state_init_node")
    person.type("/state\r")
    person.wait_for("created_at")
    person.type("/events\r")
    person.wait_for("on_chat_model_end")
    person.type("/help\r")
    person.wait_for("leave (or Ctrl-D)")
    person.type("/nonsense\r")
    person.wait_for("There is no command")
    person.type("/quit\r")
    assert person.leave() == 0
    assert "Traceback" not in person.seen


def test_what_was_typed_is_remembered_for_next_time(sit_down: Callable[..., Person], tmp_path: Path):
    person = sit_down("chat", "sam")
    person.wait_for(PROMPT)
    person.type("remember this\r")
    person.wait_for("(2 words)")
    person.wait_for(PROMPT)
    person.type("\x04")
    assert person.leave() == 0
    history = tmp_path / "data" / "history" / "sam"
    assert "remember this" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600
    again = sit_down("chat", "sam")
    again.wait_for(PROMPT)
    again.type("\x1b[A")
    again.wait_for("remember this")


def test_ctrl_c_ends_the_turn_and_the_chat_goes_on(sit_down: Callable[..., Person], tmp_path: Path):
    (tmp_path / "slowly.py").write_text(SLOW)
    person = sit_down("chat", "slowly:slow", "--grants", "slowly:grants")
    person.wait_for(PROMPT)
    person.type("wait\r")
    person.wait_for("wait")  # the spinner says which node it is in
    time.sleep(0.5)
    person.type("\x03")
    person.wait_for("cancelled")
    person.type("hello\r")
    person.wait_for("you said hello")
    person.wait_for(PROMPT)
    person.type("\x03")
    person.wait_for("Ctrl-D leaves")
    person.wait_for(PROMPT)
    person.type("\x04")
    assert person.leave() == 0
    assert "Traceback" not in person.seen


def test_a_folder_that_cannot_be_written_is_a_typed_error(sit_down: Callable[..., Person], tmp_path: Path):
    (tmp_path / "file").touch()
    person = sit_down("chat", "sam", INTERLOCK_DATA_DIR=str(tmp_path / "file"))
    person.wait_for("store_unavailable")
    assert person.leave() == 2


def test_model_text_cannot_control_the_terminal_of_a_chat(sit_down: Callable[..., Person], tmp_path: Path):
    (tmp_path / "script.json").write_text('["\\u001b]0;owned\\u0007\\u001b[31mred\\u202e"]')
    person = sit_down("chat", "sam", "--model", "scripted:script.json")
    person.wait_for(PROMPT)
    person.type("hello\r")
    person.wait_for("red")
    person.type("/quit\r")
    person.leave()
    assert [part for part in ("\x1b]0;owned", "\x07", "\x1b[31mred", "\u202e") if part in person.seen] == []


def test_a_pipe_gets_one_answer_for_each_line(interlock: Command):
    ran = interlock("chat", "sam", stdin=b"hello\n\ngood morning\n/path\n")
    assert ran.returncode == 0
    first, second, path = ran.stdout.splitlines()
    assert "“hello” (1 word)" in first
    assert "“good morning” (2 words)" in second
    assert path.startswith("router_node > ")
    assert ran.stderr == ""


def test_the_turns_of_a_chat_are_one_session(interlock: Command):
    ran = interlock("chat", "sam", stdin=b"one\n/state\ntwo\n/state\n")
    ids = [line.split()[1] for line in ran.stdout.splitlines() if line.strip().startswith("conversation_id")]
    assert len(ids) == 2
    assert ids[0] == ids[1]


def test_a_line_that_is_no_text_is_refused_and_the_chat_goes_on(interlock: Command):
    ran = interlock("chat", "sam", stdin=b"\xff\xfe\nhello\n")
    assert ran.returncode == 0
    assert ran.stderr.startswith("input_encoding: ")
    assert "“hello” (1 word)" in ran.stdout


def test_a_line_over_the_limit_is_refused(interlock: Command):
    ran = interlock("chat", "sam", stdin=b"x" * 300 + b"\n", env={"INTERLOCK_MAX_INPUT_BYTES": "100"})
    assert ran.returncode == 2
    assert ran.stderr.startswith("input_too_large: ")


def test_a_turn_that_fails_says_so_and_the_chat_goes_on(interlock: Command):
    ran = interlock("chat", "sam", stdin=b"data:image/png;base64,bm90\nhello\n")
    assert ran.returncode == 0
    assert ran.stderr.startswith("media_malformed (error_router_node): ")
    assert "“hello” (1 word)" in ran.stdout


def test_a_file_goes_with_what_is_said_next_behind_it_or_alone(interlock: Command, tmp_path: Path):
    (tmp_path / "my note.txt").write_text("line one\n  line two\n")
    said = (
        '/file "my note.txt"\nWhat is in it?\n/file "my note.txt" Which is last?\n/file "my note.txt"\n\nhello\n/file nothing.txt\n/file\n'
    )
    ran = interlock("chat", "sam", stdin=said.encode())
    answers = ran.stdout
    assert "What is in it?\n\nline one\n  line two”" in answers
    assert "Which is last?\n\nline one\n  line two”" in answers
    assert "You said: “line one\n  line two”" in answers
    assert "You said: “hello”" in answers
    assert "File 'nothing.txt' cannot be read" in ran.stderr
    assert "Name a file: /file PATH" in ran.stderr


def test_a_terminal_shows_who_speaks_and_markdown_in_its_form(sit_down: Callable[..., Person], tmp_path: Path):
    (tmp_path / "script.json").write_text('["# Weather\\n\\nIt is **sunny** in Rome: 2*3 = 6.\\n\\n- one\\n- two"]')
    person = sit_down("chat", "sam", "--model", "scripted:script.json")
    person.wait_for(PROMPT)
    person.type("hello\r")
    person.wait_for("\x1b[1;32msam\x1b[0m")
    person.wait_for("It is \x1b[1msunny\x1b[0m in Rome: 2*3 = 6.")
    person.wait_for(" • \x1b[0mtwo")
    person.wait_for(PROMPT)
    person.type("/quit\r")
    assert person.leave() == 0
    assert not [line for line in person.lines if "**" in line]


def test_an_answer_is_marked_and_recorded_calls_are_not_shown_again(sit_down: Callable[..., Person]):
    person = sit_down("chat", "puntini", "--session", "s")
    for text in ("Add a person Design", "Add a task Design"):
        person.wait_for(PROMPT)
        person.type(f"{text}\r")
        person.wait_for("Design.")
    person.wait_for(PROMPT)
    person.type("Set the priority of Design to 3\r")
    person.wait_for("match_ambiguous")
    person.wait_for("puntini asks")
    person.wait_for("  2  Task Design")
    person.wait_for(PROMPT)
    person.wait_for("answer")
    person.type("the task\r")
    person.wait_for("Task Design")
    person.wait_for("Changed Task Design (priority: 3).")
    person.wait_for(PROMPT)
    person.type("/quit\r")
    assert person.leave() == 0
    assert person.seen.count("match_ambiguous") == 1


def test_a_field_is_shown_in_full_and_a_conversation_is_saved(interlock: Command, tmp_path: Path):
    text = "a long text " * 20
    lines = (
        f"/state raw_input\n/save talk.md\n{text}\n/state raw_input\n/state nothing\n/save talk.md\n/save talk.md\n/save talk.csv\n/help\n"
    )
    ran = interlock("chat", "sam", stdin=lines.encode())
    assert ran.returncode == 0
    assert f"\n{text}\n" in ran.stdout
    assert "There is no field 'raw_input'. The fields with a value are: none yet." in ran.stderr
    assert "There is nothing to save before the first turn." in ran.stderr
    assert "There is no field 'nothing'. The fields with a value are: conversation_id, " in ran.stderr
    saved = (tmp_path / "talk.md").read_text()
    assert saved.startswith(f"**you**\n\n{text}\n\n**sam**\n\nYou said: “")
    assert "Saved 2 messages to 'talk.md'." in ran.stderr
    assert "'talk.md' cannot be written: File exists." in ran.stderr
    assert "'talk.csv' cannot be saved: sam has nothing to save." in ran.stderr
    assert all(command in ran.stdout for command in ("/state FIELD", "/path", "/events", "/file PATH", "/save FILE", "/help", "/quit"))
