"""What is fast stays fast: declaring a graph and reading contracts loads neither LangGraph nor LangChain."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("langgraph", "langchain", "langchain_core", "langsmith")

COMMAND = """
import json, sys
from interlock.cli import main
sys.argv = ["interlock", *json.loads(sys.argv[1])]
try:
    main()
except SystemExit as done:
    assert done.code in (0, None), done.code
print(json.dumps(sorted(sys.modules)))
"""


def loaded(code: str, *arguments: str, cwd: Path) -> set[str]:
    """Run Python code and return the modules that it names in its last line."""
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        capture_output=True,
        text=True,
        cwd=cwd,
        env={"INTERLOCK_ENGINE": "direct"},
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["agents"], ["show", "sam"], ["show", "sam", "--json"], ["graph", "sam"], ["run", "sam", "hello"]],
    ids=" ".join,
)
def test_a_command_that_needs_no_langgraph_does_not_load_it(arguments: list[str], tmp_path: Path):
    modules = loaded(COMMAND, json.dumps(arguments), cwd=tmp_path)
    assert "interlock" in modules
    assert not modules.intersection(HEAVY)


@pytest.mark.parametrize("arguments", [["--help"], ["agents"], ["run", "sam", "hello"]], ids=" ".join)
def test_a_turn_does_not_load_the_prover(arguments: list[str], tmp_path: Path):
    modules = loaded(COMMAND, json.dumps(arguments), cwd=tmp_path)
    assert "interlock.invariants" in modules
    assert {name for name in modules if name.startswith("interlock.verification")} == set()


def test_declaring_a_graph_does_not_load_langgraph(tmp_path: Path):
    code = """
import json, sys
from interlock import Interlock, Settings
from interlock_agents.sam.graph import sam
Interlock(Settings()).graph("sam")
print(json.dumps(sorted(sys.modules)))
"""
    assert not loaded(code, cwd=tmp_path).intersection(HEAVY)


def test_the_check_would_notice(tmp_path: Path):
    code = """
import json, sys
from interlock import Interlock
Interlock().langgraph("sam")
print(json.dumps(sorted(sys.modules)))
"""
    assert {"langgraph", "langchain_core"} <= loaded(code, cwd=tmp_path)


# What Windows does not have.
UNIX_ONLY = """
import sys
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
"""


def test_a_system_without_file_locks_runs_an_agent_and_says_why_it_cannot_record_a_turn(tmp_path: Path):
    code = """
import asyncio, json
from pathlib import Path
import interlock.cli, interlock.stores.valkey
from interlock import Interlock
from interlock.errors import StoreUnavailable
from interlock.stores.locks import FileLocks
from interlock_agents.puntini.graphs.checksums import Checksums

async def hold():
    async with FileLocks(Path("locks")).hold("s", deadline=0):
        pass

said = [asyncio.run(Interlock().run("sam", "hello")).status]
for work in (lambda: asyncio.run(Interlock().run("sam", "hello", record=Path("turn.jsonl"))), lambda: asyncio.run(hold())):
    try:
        work()
    except StoreUnavailable as error:
        said.append(str(error))
try:
    Checksums(Path("graph")).lock()
except OSError as error:
    said.append(error.strerror)
print(json.dumps([*said, Path("turn.jsonl").exists()]))
"""
    ran = subprocess.run([sys.executable, "-c", UNIX_ONLY + code], check=True, capture_output=True, text=True, cwd=tmp_path, env={})
    unlocked = "Files cannot be locked on this system. Fix: use Linux or macOS."
    assert json.loads(ran.stdout) == ["success", unlocked, unlocked, "Cannot open file: files cannot be locked on this system", False]
