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
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def loaded(code: str, *arguments: str, cwd: Path) -> set[str]:
    """Run Python code and return the top-level modules that it names in its last line."""
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


def test_declaring_a_graph_does_not_load_langgraph(tmp_path: Path):
    code = """
import json, sys
from interlock import Interlock, Settings
from interlock_agents.sam.graph import sam
Interlock(Settings()).graph("sam")
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
    assert not loaded(code, cwd=tmp_path).intersection(HEAVY)


def test_the_check_would_notice(tmp_path: Path):
    code = """
import json, sys
from interlock import Interlock
Interlock().langgraph("sam")
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
    assert {"langgraph", "langchain_core"} <= loaded(code, cwd=tmp_path)
