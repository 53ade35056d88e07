"""The transcript is what the commands print today."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "transcript.py"


def test_the_transcript_is_in_step():
    ran = subprocess.run([sys.executable, SCRIPT, "--check"], check=False, capture_output=True, text=True, encoding="utf-8")
    assert (ran.returncode, ran.stdout) == (0, "")


def test_the_transcript_says_nothing_of_this_machine():
    page = (ROOT / "docs" / "transcript.md").read_text(encoding="utf-8")
    assert not re.search(r"[0-9a-f]{32}|/tmp|/home|/work|/root|Traceback", page)


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script, with one cheap scene and a page of its own."""
    spec = importlib.util.spec_from_file_location("transcript", SCRIPT)
    assert spec
    assert spec.loader
    module: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "transcript", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    commands = (
        "interlock agents",
        'interlock run sam "Good morning" --record turn.jsonl',
        "interlock replay turn.jsonl",
        "interlock show nobody",
    )
    monkeypatch.setattr(module, "SCENES", (module.Scene("One", "Some.", commands),))
    return module


def test_a_transcript_that_is_out_of_date_is_named_and_can_be_written_again(transcript: Any, monkeypatch: pytest.MonkeyPatch):
    before = Path.cwd()
    monkeypatch.setattr(sys, "argv", ["transcript.py"])
    assert transcript.main() == 0
    page: str = transcript.PAGE.read_text(encoding="utf-8")
    assert "turn ...: 9 steps" in page, "ids are replaced"
    assert "\nagent_unknown: " in page, "an error is shown as the command line shows it"
    monkeypatch.setattr(sys, "argv", ["transcript.py", "--check"])
    assert transcript.main() == 0
    transcript.PAGE.write_text(f"{page}spoilt", encoding="utf-8")
    assert transcript.main() == 1
    assert transcript.PAGE.read_text(encoding="utf-8").endswith("spoilt"), "--check must not write"
    assert Path.cwd() == before
