"""What the README says of other libraries was measured, and what it says of this one still holds."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
COMPARE = ROOT / "benchmarks" / "compare"
FIGURES: dict[str, Any] = json.loads((COMPARE / "figures.json").read_text(encoding="utf-8"))
SLOW = "endless"


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a module of the comparison."""
    monkeypatch.syspath_prepend(ROOT)

    def module(name: str) -> Any:
        return importlib.import_module(f"benchmarks.compare.{name}")

    return module


@pytest.mark.parametrize("library", ["Interlock", "LangGraph"])
def test_which_mistakes_are_noticed_is_as_it_was_written_down(library: str, compare: Callable[[str], Any]):
    mistakes = [build for build in compare(f"mistakes_{library.lower()}").MISTAKES if library == "Interlock" or build.__name__ != SLOW]
    judged = {build.__name__: compare("worker").judge(build)["caught"] for build in mistakes}
    assert judged.pop("no_mistake") == "no"
    written = {name: one["caught"] for name, one in FIGURES["mistakes"][library].items() if name in judged}
    assert judged == written


def test_every_subject_was_measured_in_the_pinned_versions(compare: Callable[[str], Any]):
    subjects = compare("measure").SUBJECTS
    assert FIGURES["skipped"] == {}
    assert [one["name"] for one in FIGURES["measured"]] == [subject.title for subject in subjects]
    for subject, one in zip(subjects, FIGURES["measured"], strict=True):
        wanted = COMPARE / f"{subject.environment}.txt" if subject.environment else None
        assert wanted is None or f"\n{subject.distribution}=={one['version']} " in wanted.read_text(encoding="utf-8")
        assert one["name"] != "LangGraph by hand" or one["turn_ratio"] == one["turn_cpu_ratio"] == 1


def test_a_library_that_cannot_be_installed_is_left_out_by_name(compare: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch):
    measure = compare("measure")

    def unreachable(name: str) -> Path:
        raise measure.Skipped(f"'{name}' cannot be installed here")

    monkeypatch.setattr(measure, "environment", unreachable)
    monkeypatch.setattr(measure, "SUBJECTS", measure.SUBJECTS[3:])
    with measure.workers() as (running, skipped):
        assert running == []
        assert skipped == {"pydantic-graph": "'pydantic-graph' cannot be installed here", "burr": "'burr' cannot be installed here"}


@pytest.mark.parametrize("name", ["burr", "pydantic-graph"])
def test_the_requirements_of_a_library_have_hashes_and_name_no_host(name: str):
    text = (COMPARE / f"{name}.txt").read_text(encoding="utf-8")
    assert not re.search(r"://|--(?:extra-)?index|--find-links|--trusted", text)
    wanted = re.findall(r"^[a-z][\w-]*==[^\n]*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(wanted) == len(re.findall(r"^[a-z]", text, re.MULTILINE)) > 5
