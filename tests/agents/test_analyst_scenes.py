"""What is no conversation of the analyst's: what is in its store, and what a session counts. The scenes are data."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from interlock.engine import EngineName
from tests.support.analyst import KEY, LONG, said, take, tools, watched


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose warehouse is made once; every test has a session of its own in it."""
    return tmp_path_factory.mktemp("analyst")


async def test_a_secret_in_a_tools_output_is_not_stored(engine: EngineName, tmp_path: Path):
    for function in ("leaks", "fails"):
        result, events = await watched(engine, tmp_path, "use note now", session=f"leak-{function}", **tools(note=function))
        assert result.status == "success"
        everything = [json.dumps(result.to_json()), str(result.state), json.dumps(events), result.output]
        assert not any(KEY in one for one in everything)
    with sqlite3.connect(tmp_path / "sessions.sqlite") as kept:
        rows = [row for table in ("checkpoints", "writes") for row in kept.execute(f"SELECT * FROM {table}")]  # noqa: S608 - a name of ours
    assert len(rows) >= 2
    assert KEY not in str(rows)


async def test_a_conversation_can_change_engines(folder: Path):
    first = await take("direct", folder, "How many orders were placed in 2025?", session="both")
    second = await take("langgraph", folder, "And in 2024?", session="both")
    third = await take("direct", folder, "What did I ask so far?", session="both")
    assert second.path == LONG
    assert said(second)[:2] == ["How many orders were placed in 2025?", first.output]
    assert second.output != first.output
    assert "- And in 2024?" in third.output
    assert third.state["start_time"] == first.state["start_time"]
    assert third.state["tokens_used"] > second.state["tokens_used"] > first.state["tokens_used"] > 0
