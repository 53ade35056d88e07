from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
NAMED = sorted({*re.findall(r"`([\w/]+\.py):([\w.]+)`", PAGE)})
FILES = sorted({*re.findall(r"`([\w/]+\.py)`", PAGE)})


def source(path: str) -> Path:
    """Paths are below `src/interlock`, or begin with the package of the agents."""
    return ROOT / "src" / path if path.startswith("interlock_agents/") else ROOT / "src" / "interlock" / path


def names_in(path: str) -> set[str]:
    """Find every function and class of a module, methods with their class."""
    found: set[str] = set()
    for one in ast.parse(source(path).read_text(encoding="utf-8")).body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(one.name)
        if isinstance(one, ast.ClassDef):
            found |= {f"{one.name}.{part.name}" for part in one.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}
    return found


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda part: part)
def test_what_the_walk_passes_is_there(path: str, name: str):
    assert name in names_in(path)


def test_the_walk_passes_every_agent_and_many_places():
    assert len(NAMED) > 50
    assert all(source(path).is_file() for path in FILES)
    for agent in ("sam", "desk", "analyst", "gateway", "puntini"):
        assert f"\n## {agent}\n" in PAGE
        assert any(path.startswith(f"interlock_agents/{agent}/") for path, _ in NAMED)
