from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TYPING = Path(__file__).parents[1] / "typing"
FILES = sorted(TYPING.glob("*.py"))
MARK = re.compile(r"#\s*error:\s*(\w+(?:\s*,\s*\w+)*)\s*$")


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[int, str]]]:
    """Check all the files at once, which takes hardly longer than checking one."""
    project = tmp_path_factory.mktemp("typing")
    config = {"include": [str(path) for path in FILES], "typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (project / "pyrightconfig.json").write_text(json.dumps(config))
    checker = Path(sys.executable).with_name("basedpyright")
    ran = subprocess.run(
        [checker, "-p", project, "--pythonpath", sys.executable, "--outputjson"], check=False, capture_output=True, text=True
    )
    report: dict[str, Any] = json.loads(ran.stdout)
    assert report["summary"]["filesAnalyzed"] == len(FILES)
    found: dict[str, set[tuple[int, str]]] = {path.name: set() for path in FILES}
    for item in report["generalDiagnostics"]:
        found[Path(item["file"]).name].add((item["range"]["start"]["line"] + 1, item.get("rule", item["message"])))
    return found


def marked(path: Path) -> set[tuple[int, str]]:
    found: set[tuple[int, str]] = set()
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if mark := MARK.search(line):
            found |= {(number, rule.strip()) for rule in mark[1].split(",")}
    return found


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in FILES])
def test_the_type_checker_rejects_exactly_the_lines_that_break_a_contract(path: Path, reported: dict[str, set[tuple[int, str]]]):
    assert reported[path.name] == marked(path)


def test_there_are_lines_to_reject_and_lines_to_accept():
    assert {path.stem for path in FILES if marked(path)} == {"rejected_nodes", "rejected_rows"}
    assert {path.stem for path in FILES if not marked(path)} == {"accepted"}
