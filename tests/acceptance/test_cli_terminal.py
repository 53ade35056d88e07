from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from rich.text import Text

from interlock.discovery import load_agent
from interlock.testing.scenarios import load_scenarios
from interlock_agents import INTRODUCED

Command = Callable[..., CompletedProcess[str]]
Terminal = Callable[..., tuple[int, str]]

HOSTILE = '''
from typing import TypedDict

from interlock import END, Graph, Outcome, node


class Echo(TypedDict, total=False):
    text: str
    said: str


class Said(Outcome):
    said: str


async def echo(text: str) -> Said:
    """Say something that a terminal would obey."""
    if text == "fail":
        raise RuntimeError("\\x1b[31mred\\x1b]0;title\\x07 [/] [bold]e[/bold]")
    return Said(said="a\\x1b[31mred\\x1b]0;title\\x07\\x9b2J\\u202eb\\r\\tc\\nd [bold]e[/bold]")


hostile = Graph("hostile", state=Echo, entry=echo, nodes=[node(echo, goes={Said: END})], takes=["text"], gives="said")
'''

STUCK = '''
import asyncio
from typing import TypedDict

from interlock import END, Graph, Outcome, node


class Wait(TypedDict, total=False):
    text: str


class Waited(Outcome):
    pass


async def wait(text: str) -> Waited:
    """Wait for ever."""
    await asyncio.Event().wait()
    return Waited()


stuck = Graph("stuck", state=Wait, entry=wait, nodes=[node(wait, goes={Waited: END})])
print("ready", flush=True)
'''


@pytest.fixture
def terminal(script: str, environment: dict[str, str], tmp_path: Path) -> Terminal:
    """Run the command on a terminal of 80 columns, and return its exit code and what a person would see."""

    def run(*arguments: str, **env: str) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        with subprocess.Popen(
            [script, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=tmp_path,
            env=environment | {"TERM": "xterm-256color"} | env,
            start_new_session=True,
        ) as process:
            os.close(theirs)
            seen = b""
            while True:
                try:
                    more = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not more:
                    break
                seen += more
        os.close(ours)
        shown = seen.decode()
        assert "Traceback" not in shown, shown
        return process.returncode, shown

    return run


COLOUR = "\x1b["


def visible_width(line: str) -> int:
    return Text.from_ansi(line).cell_len


def as_text(line: str) -> str:
    return Text.from_ansi(line).plain.rstrip()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["agents"], "sam"),
        (["show", "sam"], "decision_logic_node"),
        (["run", "sam", "hello"], "router_node > state_init_node"),
        (["verify", "sam"], "decided"),
    ],
    ids=["agents", "show", "run", "verify"],
)
def test_a_person_sees_colours_that_fit_on_the_screen(terminal: Terminal, arguments: list[str], says: str):
    code, shown = terminal(*arguments)
    assert code == 0
    assert COLOUR in shown
    assert says in shown
    assert max(visible_width(line) for line in shown.splitlines()) <= 80


def test_a_visitor_understands_the_tour_and_learns_what_to_do_next(terminal: Terminal):
    code, shown = terminal("tour")
    lines = [as_text(line) for line in shown.splitlines()]
    assert code == 0
    assert COLOUR in shown
    assert max(visible_width(line) for line in shown.splitlines()) <= 80
    tour = "\n".join(lines)
    for said in (
        "media_malformed",
        "  tool  inventory.query  ",
        "  also  the first search finds nothing: it plans again  (11 steps)",
        "        country       revenue (EUR)\n",
        "        Germany        4,292,597.22\n",
        "        ... and 5 more\n",
        "path_denied",
        "        5. added Apollo -[HAS_TASK]-> Design",
        "  in    (as admin) What do the docs say about cancelling?",
        "        ok  On call\n",
        "  path  parse_goal > [plan_step > route_tool > call_tool > evaluate] x 7 >",
        "  out   waiting  'Design' could be Person Design or Task Design. Which one do",
        "  (interlock verify desk)",
    ):
        assert said in tour
    scenes = [scene for agent in INTRODUCED for scene in load_scenarios(load_agent(agent).scenes or Path()) if scene.tour]
    titles = [scene.title_of(turn) for scene in scenes for turn in scene.turns]
    shown_titles = [title for line in lines if (title := re.sub(r"^  also  (.*)  \(\d+ steps?\)$", r"\1", line)) in titles]
    assert shown_titles == titles
    assert re.search(rf"^As expected: {len(titles)} turns, \d+ guarantees\.$", tour, re.MULTILINE)
    for said in ("planning_retry", "BROKEN", "WRONG"):
        assert said not in tour
    end = [line.strip() for line in lines[lines.index("next") + 1 :]]
    steps = [line.rpartition("/interlock ")[2] for line in end[1::2]]
    assert steps == ["chat analyst", "serve --demo", "new my_agent", "verify", "docs/tutorial.md"]


def test_a_person_sees_why_a_turn_failed(terminal: Terminal):
    code, shown = terminal("run", "sam", "data:image/png;base64,%%%")
    assert code == 1
    assert COLOUR in shown
    assert "media_malformed" in shown
    assert "error_router_node" in shown


def test_a_person_sees_why_input_was_refused(terminal: Terminal):
    code, shown = terminal("run", "sam", "hello", "--session", "../x")
    assert code == 2
    assert "input_schema" in shown


def test_a_person_who_says_nothing_is_asked_to(terminal: Terminal):
    code, shown = terminal("run", "sam")
    assert code == 2
    assert "input_empty" in shown


def test_colours_can_be_turned_off(terminal: Terminal):
    code, shown = terminal("show", "sam", NO_COLOR="1", TERM="dumb")
    assert code == 0
    assert "\x1b[3" not in shown


def test_a_terminal_that_knows_only_ascii_is_no_crash(terminal: Terminal):
    for arguments in (["run", "sam", "hello"], ["show", "sam"]):
        assert terminal(*arguments, LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")[0] == 0


@pytest.mark.parametrize("text", ["hello", "fail"])
def test_text_cannot_control_the_terminal_or_the_pipe(interlock: Command, terminal: Terminal, tmp_path: Path, text: str):
    (tmp_path / "echoing.py").write_text(HOSTILE)
    piped = interlock("run", "echoing:hostile", text)
    _, shown = terminal("run", "echoing:hostile", text)
    for seen in (piped.stdout, piped.stderr, shown):
        assert [part for part in ("\x1b[31m", "\x1b]0", "\x07", "\x9b", "\u202e", "b\r\t") if part in seen] == []
    if text == "hello":
        assert piped.stdout == "a\ufffd[31mred\ufffd]0;title\ufffd\ufffd2J\ufffdb\ufffd\tc\nd [bold]e[/bold]\n"
    assert "[bold]e[/bold]" in shown


def test_an_echoed_escape_is_neutralised(interlock: Command):
    ran = interlock("run", "sam", "\x1b[31mred\x1b[0m \x9b2J")
    assert ran.returncode == 0
    assert "red" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert "\x9b" not in ran.stdout


ASCII = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "sam", "hello"],
        ["run", "sam", "hello", "--json"],
        ["run", "sam", "hello", "--events"],
        ["show", "sam"],
        ["verify", "sam"],
    ],
    ids=" ".join,
)
def test_a_locale_that_knows_only_ascii_works(interlock: Command, arguments: list[str]):
    ran = interlock(*arguments, env=ASCII)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.isascii()
    assert "\x1b" not in ran.stdout, "a pipe gets no colours"


TOUR_OF_SAM = """
import sys
from interlock.cli import main
from interlock_agents.tour import guide
guide.INTRODUCED = ("sam",)
sys.argv = ["interlock", "tour"]
main()
"""


def test_a_locale_that_knows_only_ascii_can_take_the_tour(environment: dict[str, str], tmp_path: Path):
    env = environment | ASCII | {"INTERLOCK_MODEL_PATH": str(tmp_path / "no-weights")}
    ran = subprocess.run([sys.executable, "-c", TOUR_OF_SAM], capture_output=True, check=True, cwd=tmp_path, env=env)
    assert ran.stdout.isascii()
    assert b"\x1b" not in ran.stdout
    assert b"As expected: " in ran.stdout


def test_a_locale_that_knows_only_ascii_takes_text_from_standard_input(interlock: Command):
    ran = interlock("run", "sam", stdin="Grüße".encode(), env=ASCII)
    assert (ran.returncode, "Gr\\xfc\\xdfe" in ran.stdout) == (0, True)


def test_an_empty_environment_is_enough(script: str, tmp_path: Path):
    ran = subprocess.run([script, "run", "sam", "hello"], capture_output=True, check=False, cwd=tmp_path, env={}, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "hello" in ran.stdout


# Where the tests run in the background of a shell, Ctrl-C is ignored, and children inherit that.
HEEDS_CTRL_C = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


# A `sitecustomize` that presses Ctrl-C when a function is called, or when the body of a module runs.
PRESSES_CTRL_C = """
import os, signal, sys

def look(frame, event, _):
    if event == "call" and f"{frame.f_globals.get('__name__')}:{frame.f_code.co_name}" == os.environ["AT"]:
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGINT)

sys.setprofile(look)
"""


@pytest.mark.parametrize(
    ("at", "arguments"),
    [
        ("interlock:<module>", ["run", "sam", "hello"]),
        ("typer.main:get_command", ["run", "sam", "hello"]),
        ("interlock.server.process:<module>", ["serve", "--port", "0"]),
        ("interlock.server.app:create_app", ["serve", "--port", "0"]),
    ],
)
def test_ctrl_c_before_a_command_begins_ends_without_a_traceback(
    script: str, environment: dict[str, str], tmp_path: Path, at: str, arguments: list[str]
):
    (tmp_path / "sitecustomize.py").write_text(PRESSES_CTRL_C)
    ran = subprocess.run(
        [sys.executable, "-c", HEEDS_CTRL_C, script, *arguments],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(tmp_path), "AT": at},
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


@pytest.mark.parametrize("arguments", [["hello", "--events", "--record", "turn.jsonl"], []], ids=["in a turn", "while reading"])
def test_ctrl_c_ends_without_a_traceback(script: str, environment: dict[str, str], tmp_path: Path, arguments: list[str]):
    (tmp_path / "waiting.py").write_text(STUCK)
    with subprocess.Popen(
        [sys.executable, "-c", HEEDS_CTRL_C, script, "run", "waiting:stuck", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if arguments:  # wait until the node has started
            assert any('"name": "wait"' in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        try:
            said = process.communicate(timeout=30)[1]
        finally:
            process.kill()
    assert "Traceback" not in said
    assert process.returncode == 130
    if arguments:
        again = [script, "replay", "turn.jsonl", "--graph", "waiting:stuck", "--resume"]
        resumed = subprocess.run(again, capture_output=True, check=False, cwd=tmp_path, env=environment, text=True)
        assert (resumed.returncode, "turn_cancelled" in resumed.stderr or "was cancelled" in resumed.stderr) == (2, True)
