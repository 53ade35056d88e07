"""The protocol of leases and epochs as a model, all of whose states SPIN visits: no double end, no lost turn, one writer.

Debian's package `spin` has the program; it makes C, which takes a compiler.
"""

# ruff: noqa: S607 - the programs of the system

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from interlock.runtime.turns import TurnStore

MODEL = Path(__file__).with_name("protocol.pml")
ACTIONS = ("accept", "claim", "write", "end", "renew", "give_back", "answer", "cancel")
BUGS = {
    "NO_EPOCH": "assertion violated",
    "CLAIM_KEEPS_EPOCH": "assertion violated",
    "TWO_VERDICTS": "assertion violated",
    "HEARTBEAT_CANCELS": "was_asked",
    "NEXT_FORGOTTEN": "invalid end state",
    "ANSWER_ANY_STATUS": "assertion violated",
}

needs_spin = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="the model takes 'spin' and 'gcc', which Debian has as packages"
)


def search(folder: Path, *, bug: str | None = None) -> str:
    """Visit every state of the model, until an error is found; return what SPIN reports."""
    defined, optimised = ([f"-DBUG_{bug}"], "-O0") if bug is not None else ([], "-O2")
    subprocess.run(["spin", "-a", *defined, MODEL], cwd=folder, check=True, capture_output=True, timeout=60)
    subprocess.run(["gcc", "-w", optimised, "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], cwd=folder, check=True, timeout=120)
    found = subprocess.run(["./pan", "-m100000", "-w22"], cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert "max search depth too small" not in found.stdout
    return found.stdout


def errors(report: str) -> int:
    counted = re.search(r"errors: (\d+)", report)
    assert counted is not None, report
    return int(counted[1])


def test_the_actions_of_the_model_are_the_methods_of_the_store():
    model = MODEL.read_text()
    assert [name for name in ACTIONS if f"inline {name}(" not in model] == []
    assert [name for name in ACTIONS if not hasattr(TurnStore, name)] == []


@needs_spin
def test_no_state_of_the_model_breaks_a_promise(tmp_path: Path):
    report = search(tmp_path)
    assert errors(report) == 0, report


@needs_spin
@pytest.mark.parametrize("bug", BUGS)
def test_a_mistake_in_the_protocol_is_found(tmp_path: Path, bug: str):
    report = search(tmp_path, bug=bug)
    assert errors(report) == 1, report
    assert BUGS[bug] in report
