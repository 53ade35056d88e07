from __future__ import annotations

import json
import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.support.amount import EXAMPLES

Command = Callable[..., CompletedProcess[str]]

ARGUMENTS: dict[str, tuple[list[str | bytes], str]] = {
    "empty": (["run", "sam", ""], "input_empty"),
    "blank": (["run", "sam", " \n\t\u2003"], "input_empty"),
    "invalid UTF-8": (["run", "sam", b"caf\xe9"], "input_encoding"),
    "unknown agent": (["run", "nobody", "hello"], "agent_unknown"),
    "an agent in invalid UTF-8": (["run", b"s\xe4m", "hello"], "agent_unknown"),
    "unknown model": (["run", "sam", "hello", "--model", "nobody"], "settings_invalid"),
    "unknown engine": (["run", "sam", "hello", "--engine", "steam"], "settings_invalid"),
    "unknown role": (["run", "sam", "hello", "--as", "admin"], "role_unknown"),
    "a file that is not there": (["run", "sam", "--file", "nothing.png"], "input_schema"),
    "a file that is a directory": (["run", "sam", "--file", "."], "input_schema"),
    "empty session": (["run", "sam", "hello", "--session", ""], "input_schema"),
    "long session": (["run", "sam", "hello", "--session", "s" * 100_000], "input_schema"),
    "a session that climbs": (["run", "sam", "hello", "--session", "../x"], "input_schema"),
    "a session for all": (["run", "sam", "hello", "--session", "*"], "input_schema"),
    "a session with a colon": (["run", "sam", "hello", "--session", "a:b"], "input_schema"),
    "a session with a line break": (["run", "sam", "hello", "--session", "a\n"], "input_schema"),
    "a session in invalid UTF-8": (["run", "sam", "hello", "--session", b"\xff"], "input_schema"),
}


@pytest.mark.parametrize(("arguments", "code"), ARGUMENTS.values(), ids=ARGUMENTS.keys())
def test_bad_arguments_are_one_typed_line(interlock: Command, arguments: list[str | bytes], code: str):
    ran = interlock(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"{code}: ")
    assert ran.stderr.count("\n") == 1
    assert len(ran.stderr) < 1000


GRANTS = """
from interlock.capabilities import Model
names = {"Model": 5}
numbers = {5: 5}
nothing = {None: 5}
objects = {object(): 5}
listed = [1, 2]
"""


@pytest.mark.parametrize("name", ["names", "numbers", "nothing", "objects", "listed", "missing", ""])
def test_unusable_grants_are_one_typed_line(interlock: Command, tmp_path: Path, name: str):
    (tmp_path / "granted.py").write_text(GRANTS)
    ran = interlock("run", "sam", "hello", "--grants", f"granted:{name}")
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1)
    assert ran.stderr.startswith(("settings_invalid: ", "agent_unknown: "))


def test_a_module_that_ends_the_process_is_one_typed_line(interlock: Command, tmp_path: Path):
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)\n")
    for arguments in (("run", "sam", "hello", "--grants", "leaving:x"), ("show", "leaving:x"), ("verify", "leaving:x")):
        ran = interlock(*arguments)
        assert (ran.returncode, ran.stderr.startswith("agent_unknown: ")) == (2, True)


@pytest.mark.parametrize("start, end", [("[", "]"), ("{a=", "}")])  # noqa: PT006 - as they are read
@pytest.mark.parametrize("command", [("run", "sam", "hello"), ("doctor",), ("chat", "sam"), ("graphs", "draw", "s")])
def test_settings_that_are_nested_too_deep_are_one_typed_line(
    interlock: Command, tmp_path: Path, start: str, end: str, command: tuple[str, ...]
):
    (tmp_path / "interlock.toml").write_text(f"redact = {start * 2000}1{end * 2000}\n")
    ran = interlock(*command)
    assert ran.returncode == 2
    assert ran.stderr.startswith("settings_invalid: ")


def test_a_setting_in_the_environment_that_is_nested_too_deep_is_one_typed_line(interlock: Command):
    ran = interlock("run", "sam", "hello", env={"INTERLOCK_REDACT": "[" * 50_000})
    assert (ran.returncode, ran.stderr.startswith("settings_invalid: ")) == (2, True)


def test_a_record_whose_error_has_no_code_is_one_typed_line(interlock: Command, tmp_path: Path):
    assert interlock("run", "sam", "hello", "--record", "record").returncode == 0
    lines = [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]
    lines[1]["entry"]["error"] = {"message": "x"}
    (tmp_path / "broken").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "half").write_text("".join(f"{json.dumps(line)}\n" for line in lines[:-1]))
    for arguments in (("replay", "broken"), ("replay", "half", "--resume")):
        ran = interlock(*arguments)
        assert (ran.returncode, ran.stderr.startswith("record_invalid: "), ran.stderr.count("\n")) == (2, True, 1)


COMMANDS = ["agents", "new", "show", "run", "chat", "graph", "replay", "verify", "doctor"]
OPTIONS = ["--session", "--model", "--engine", "--json", "--events", "--as", "--grants", "--file", "--answer", "--record"]
MORE_OPTIONS = ["--resume", "--graph", "--format", "--output", "--limit", "--timeout", "-x", "--"]
WORDS = [
    "sam",
    "gateway",
    "no-agent",
    "",
    " ",
    "\u2028",
    "a:b",
    ":",
    "::",
    "os:path",
    "json:loads",
    ".",
    "..",
    "/dev/null",
    "*",
    "-1",
    "1e9",
    "9" * 400,
]
MORE_WORDS = ["offline", "direct", "scripted:", "scripted:.", "openai:", "x" * 5000, "%s{0}", "{}", "[]", "\x1b[31m", "café"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=max(20, EXAMPLES // 2))
@given(
    st.sampled_from(COMMANDS),
    st.lists(st.sampled_from([*OPTIONS, *MORE_OPTIONS]) | st.sampled_from([*WORDS, *MORE_WORDS]) | st.text(max_size=20), max_size=5),
)
def test_no_arguments_make_a_traceback(interlock: Command, command: str, arguments: list[str]):
    """Whatever is typed: 0, 1 or 2, and no traceback."""
    assume(not any("\0" in one or any("\ud800" <= letter <= "\udfff" for letter in one) for one in arguments))
    assume(command != "verify" or any(not one.startswith("-") for one in arguments))  # else it verifies everything, which takes a while
    ran = interlock(command, *arguments)
    assert ran.returncode in {0, 1, 2}, ran.stderr


def test_text_beside_a_file_is_the_question_and_not_dropped(interlock: Command, tmp_path: Path):
    (tmp_path / "note.txt").write_text("hello")
    ran = interlock("run", "sam", "what is this?", "--file", "note.txt")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "what is this?\n\nhello" in ran.stdout


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unreadable(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    path.write_bytes(b"x")
    path.chmod(0)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    with path.open("wb") as opened:
        opened.truncate(5 * 1024**3)


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "input_schema"),
    "a directory": (Path.mkdir, "input_schema"),
    "a pipe that nobody writes to": (fifo, "input_schema"),
    "a device without end": (endless, "input_schema"),
    "unreadable": (unreadable, "input_schema"),
    "a link to itself": (lambda path: path.symlink_to(path), "input_schema"),
    "empty": (Path.touch, "input_empty"),
    "five gigabytes": (sparse, "input_too_large"),
}


@pytest.mark.parametrize(("make", "code"), NO_FILES.values(), ids=NO_FILES.keys())
def test_what_is_no_readable_file_is_one_typed_line_at_once(interlock: Command, tmp_path: Path, make: Callable[[Path], object], code: str):
    make(tmp_path / "odd.png")
    ran = interlock("run", "sam", "--file", "odd.png", preexec_fn=little_memory)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"{code}: ")
    assert "odd.png" in ran.stderr
    assert ran.stderr.count("\n") == 1


def little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 * 1024**3, 2 * 1024**3))


STDIN = {
    "nothing": (b"", "input_empty"),
    "blank": (b" \n\n", "input_empty"),
    "invalid UTF-8": (b"caf\xe9", "input_encoding"),
    "half a character": ("é".encode()[:1], "input_encoding"),
    "an encoded surrogate": (b"\xed\xa0\x80", "input_encoding"),
    "a NUL": (b"a\0b", "input_encoding"),
    "UTF-16": ("hello".encode("utf-16"), "input_encoding"),
}


@pytest.mark.parametrize(("sent", "code"), STDIN.values(), ids=STDIN.keys())
def test_bad_standard_input_is_one_typed_line(interlock: Command, sent: bytes, code: str):
    ran = interlock("run", "sam", stdin=sent)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"{code}: ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("how", ["argument", "standard input", "file"])
def test_input_over_the_cap_is_refused_and_input_at_the_cap_is_taken(interlock: Command, tmp_path: Path, how: str):
    cap = {"INTERLOCK_MAX_INPUT_BYTES": "40"}

    def send(size: int) -> CompletedProcess[str]:
        if how == "argument":
            return interlock("run", "sam", "é" * (size // 2), env=cap)
        if how == "standard input":
            return interlock("run", "sam", stdin=b"x" * size, env=cap)
        (tmp_path / "note.txt").write_bytes(b"x" * (size - 28))  # beside 'data:text/plain;base64,' and the padding
        return interlock("run", "sam", "--file", "note.txt", env=cap)

    assert send(40).returncode == 0
    over = send(42)
    assert (over.returncode, over.stdout) == (2, "")
    assert over.stderr.startswith("input_too_large: ")


def test_input_without_end_is_refused_before_it_is_read(script: str, environment: dict[str, str], tmp_path: Path):
    with Path("/dev/zero").open("rb") as endless:
        ran = subprocess.run(
            [script, "run", "sam"],
            stdin=endless,
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env=environment | {"INTERLOCK_MAX_INPUT_BYTES": "1000"},
            timeout=30,
        )
    assert ran.returncode == 2
    assert ran.stderr.startswith(b"input_too_large: ")


SETTINGS: dict[str, tuple[dict[str, str], bytes | None, str]] = {
    "a number that is none": ({"INTERLOCK_MAX_INPUT_BYTES": "many"}, None, "max_input_bytes"),
    "a number out of range": ({"INTERLOCK_MAX_INPUT_BYTES": "0"}, None, "max_input_bytes"),
    "an engine that is none": ({"INTERLOCK_ENGINE": "steam"}, None, "engine"),
    "a model that is none": ({"INTERLOCK_MODEL": "nobody"}, None, "nobody"),
    "a file that is no TOML": ({}, b"model = ", "interlock.toml"),
    "a file that is not UTF-8": ({}, b'model = "\xff"', "interlock.toml"),
    "a file with an unknown setting": ({}, b'modle = "stub"', "modle"),
    "a file with a wrong type": ({}, b"model = 3", "model"),
}


@pytest.mark.parametrize(("env", "file", "named"), SETTINGS.values(), ids=SETTINGS.keys())
def test_a_bad_setting_is_refused_by_name(interlock: Command, tmp_path: Path, env: dict[str, str], file: bytes | None, named: str):
    if file is not None:
        (tmp_path / "interlock.toml").write_bytes(file)
    ran = interlock("run", "sam", "hello", env=env)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("settings_invalid: ")
    assert named in ran.stderr


def test_a_text_without_quotes_is_refused_with_the_fix(interlock: Command):
    ran = interlock("run", "sam", "hello", "world")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'world' is one too many. Fix: put the input in quotes." in ran.stderr


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("smm", "Did you mean 'sam'?"),
        ("mine", "name the agent in it, as 'mine:agent'."),
        ("mine:agnt", "module 'mine' has no name 'agnt'. Did you mean 'mine:agent'?"),
        ("mine:other", "module 'mine' has no name 'other'. Did you mean 'mine:agent'?"),
        ("empty:agent", "module 'empty' has no name 'agent'.\n"),
    ],
)
@pytest.mark.parametrize("command", ["run", "show"])
def test_a_misspelt_agent_is_refused_with_the_fix(interlock: Command, tmp_path: Path, command: str, name: str, fix: str):
    (tmp_path / "mine.py").write_text("from interlock.cli.minimal import agent, graph\n")
    (tmp_path / "empty.py").touch()
    ran = interlock(command, name, *(["hello"] if command == "run" else []))
    assert (ran.returncode, ran.stdout, ran.stderr.partition(":")[0]) == (2, "", "agent_unknown")
    assert fix in ran.stderr


@pytest.mark.parametrize("command", ["turns", "sessions", "graphs"])
def test_the_word_list_is_accepted_where_a_command_lists(interlock: Command, command: str):
    plain, listed = interlock(command), interlock(command, "list")
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, plain.stdout, plain.stderr)
    assert interlock(command, "list", "--json").stdout == interlock(command, "--json").stdout


def test_a_bad_command_or_option_is_a_usage_error(interlock: Command):
    for arguments in (["nothing"], ["run"], ["run", "sam", "a", "b"], ["show", "sam", "--yaml"]):
        ran = interlock(*arguments)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "Usage: interlock" in ran.stderr


def in_shell(script: str, line: str, environment: dict[str, str], folder: Path) -> CompletedProcess[str]:
    """Run a line of shell in which $0 is the command."""
    return subprocess.run(["/bin/sh", "-c", line, script], capture_output=True, check=False, cwd=folder, env=environment, text=True)


@pytest.mark.parametrize("closed", ["<&-", "0>/dev/null"], ids=["closed", "write only"])
def test_a_standard_input_that_cannot_be_read_is_a_typed_refusal(script: str, environment: dict[str, str], tmp_path: Path, closed: str):
    ran = in_shell(script, f'"$0" run sam {closed}', environment, tmp_path)
    assert "Traceback" not in ran.stderr
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("input_")


@pytest.mark.parametrize("arguments", ["agents", "show sam --json", "run sam hello", "run sam hello --events"])
def test_a_closed_standard_output_is_no_crash(script: str, environment: dict[str, str], tmp_path: Path, arguments: str):
    ran = in_shell(script, f'"$0" {arguments} >&-', environment, tmp_path)
    assert "Traceback" not in ran.stderr
    assert ran.returncode in {0, 1}


@pytest.mark.parametrize(("arguments", "code"), [("run sam hello", 0), ("run sam ''", 2)])
def test_a_closed_standard_error_changes_no_exit_code(script: str, environment: dict[str, str], tmp_path: Path, arguments: str, code: int):
    assert in_shell(script, f'"$0" {arguments} 2>&-', environment, tmp_path).returncode == code


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_under_the_output_is_no_crash(script: str, environment: dict[str, str], tmp_path: Path):
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [script, "run", "sam", "hello"], stdout=full, stderr=subprocess.PIPE, check=False, cwd=tmp_path, env=environment
        )
    assert b"Traceback" not in ran.stderr
    assert ran.returncode != 0


@pytest.mark.parametrize("arguments", [["agents"], ["show", "sam"], ["run", "sam", "hello", "--events"], ["verify"], ["tour"]])
def test_a_reader_who_leaves_after_a_line_is_no_crash(script: str, environment: dict[str, str], tmp_path: Path, arguments: list[str]):
    with subprocess.Popen(
        [script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env=environment,
        bufsize=0,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""
