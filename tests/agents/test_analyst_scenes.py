"""The eight scenes of the analyst, offline and with a scripted model, on both engines."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from interlock.engine import EngineName
from tests.support.analyst import KEY, LONG, ROUND, SHORT, add, call, names, said, search, take, talk, tools, wants, watched


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose warehouse is made once; every test has a session of its own in it."""
    return tmp_path_factory.mktemp("analyst")


async def test_a_greeting_needs_no_tool(engine: EngineName, folder: Path):
    result, events = await watched(engine, folder, "Hello!", session=f"greeting-{engine}")
    assert (result.path, result.status) == (SHORT, "success")
    assert result.output.startswith("Hello!")
    assert names(events, "on_tool_start") == []
    result, events = await watched(engine, folder, "Hello!", talk(), "Good day.", session=f"greeting-s-{engine}")
    assert (result.path, result.output, names(events, "on_tool_start")) == (SHORT, "Good day.", [])


async def test_a_number_from_the_warehouse_is_right(engine: EngineName, folder: Path):
    sql = "SELECT COUNT(*) AS orders FROM shop.orders WHERE EXTRACT(YEAR FROM order_date) = 2025"
    scripted = await take(engine, folder, "Orders?", wants(call("bq_query", sql=sql)), "Many [call-1].", session=f"number-s-{engine}")
    [output] = scripted.state["tool_outputs"]
    [[count]] = output.result["rows"]
    assert 10_000 < count < 40_000
    result = await take(engine, folder, "How many orders were placed in 2025?", session=f"number-{engine}")
    assert result.path == LONG
    assert f"{count:,}" in result.output
    assert result.metadata["used"] == ["call-1"]
    assert "[call-1]" in result.output


async def test_nothing_found_leads_to_other_words(engine: EngineName, folder: Path):
    result, events = await watched(engine, folder, "What does the handbook say about attrition?", session=f"words-{engine}")
    assert result.path == ("ingress", *ROUND, *ROUND, "generator", "summarizer")
    [retry] = [event for event in events if event["event"] == "on_custom_event"]
    assert (retry["name"], retry["data"]["status"]) == ("planning_retry", "planning_retry")
    assert retry["metadata"]["langgraph_node"] == "verifier"
    assert "Churn" in result.output
    assert "Not found" not in result.output
    scripted = await take(
        engine, folder, "Attrition?", wants(search("zzqx")), wants(search("churn")), "Churn [call-2].", session=f"words-s-{engine}"
    )
    assert scripted.path == result.path
    assert scripted.metadata["retries"] == 1


async def test_always_nothing_is_bounded_and_says_so(engine: EngineName, folder: Path):
    result, events = await watched(engine, folder, "What does the handbook say about zeppelin mooring masts?", session=f"nothing-{engine}")
    assert result.status == "success"
    assert result.path.count("planner") == 4
    assert result.path[-3:] == ("planner", "generator", "summarizer")
    assert len(names(events, "on_custom_event")) == 2
    assert "could not find" in result.output
    assert "zeppelin" in result.output
    plans = [wants(search(f"zzqx{number}")) for number in range(9)]
    for retries in (0, 1, 3):
        scripted, told = await watched(
            engine, folder, "Find it.", *plans[: retries + 1], "Sorry.", session=f"nothing-s-{retries}-{engine}", analyst_retries=retries
        )
        assert scripted.path.count("tool_executor") == retries + 1
        assert len(names(told, "on_custom_event")) == retries
        assert scripted.output.startswith("Sorry.\n\nNot found:\n- search(zzqx0)")


async def test_three_tools_run_side_by_side(engine: EngineName, folder: Path):
    question = "What was the revenue by country in 2025; what is net revenue; what is 17.5 * 24?"
    result, events = await watched(engine, folder, question, session=f"three-{engine}")
    assert result.path == LONG
    told = [event["event"] for event in events if event["event"].startswith("on_tool")]
    assert told == ["on_tool_start"] * 3 + ["on_tool_end"] * 3
    assert set(names(events, "on_tool_start")) == {"bq_query", "search", "calculate"}
    assert "| Germany |" in result.output
    assert "17.5 * 24 = 420" in result.output
    assert "Net revenue is" in result.output
    starts = {event["name"]: event for event in events if event["event"] == "on_tool_start"}
    assert starts["calculate"]["data"] == {"tool": "calculate", "input": {"expression": "17.5 * 24"}}
    assert starts["calculate"]["metadata"]["langgraph_node"] == "tool_executor"


async def test_one_of_three_hangs_and_the_others_are_used(engine: EngineName, folder: Path):
    settings: dict[str, Any] = {**tools(slow="hangs"), "tool_seconds": 3.0}
    result = await take(engine, folder, "use slow now; what is net revenue; what is 1 + 1?", session=f"hangs-{engine}", **settings)
    assert (result.status, result.path) == ("success", LONG)
    codes = {output.tool: output.code for output in result.state["tool_outputs"]}
    assert codes == {"slow": "tool_timeout", "search": None, "calculate": None}
    assert "1 + 1 = 2" in result.output
    assert "Not found:\n- slow(now): 'slow' took longer than 3 seconds." in result.output
    plan = wants(call("slow", text="x", id="a"), add(id="b"), search("net revenue", id="c"))
    scripted = await take(engine, folder, "All.", plan, "Two [b].", session=f"hangs-s-{engine}", **settings)
    assert [(output.id, output.code) for output in scripted.state["tool_outputs"]] == [("a", "tool_timeout"), ("b", None), ("c", None)]
    assert scripted.metadata["used"] == ["b"]


async def test_a_secret_in_a_tools_output_appears_nowhere(engine: EngineName, tmp_path: Path):
    record = tmp_path / "turn.jsonl"
    for function in ("leaks", "fails"):
        result, events = await watched(engine, tmp_path, "use note now", session=f"leak-{function}", **tools(note=function))
        assert result.status == "success"
        everything = [json.dumps(result.to_json()), str(result.state), json.dumps(events), result.output]
        assert not any(KEY in one for one in everything)
    assert not record.exists()
    with sqlite3.connect(tmp_path / "sessions.sqlite") as kept:
        rows = [row for table in ("checkpoints", "writes") for row in kept.execute(f"SELECT * FROM {table}")]  # noqa: S608 - a name of ours
    assert len(rows) >= 2
    assert KEY not in str(rows)


async def test_a_conversation_goes_on_after_a_restart(engine: EngineName, folder: Path):
    session = f"restart-{engine}"
    first = await take(engine, folder, "How many orders were placed in 2025?", session=session)
    second = await take(engine, folder, "And in 2024?", session=session)
    assert second.path == LONG
    assert said(second)[:2] == ["How many orders were placed in 2025?", first.output]
    assert second.output != first.output
    third = await take(engine, folder, "What did I ask so far?", session=session)
    assert "- And in 2024?" in third.output
    assert third.state["start_time"] == first.state["start_time"]
    assert third.state["tokens_used"] > second.state["tokens_used"] > first.state["tokens_used"] > 0
    other = await take(engine, folder, "What did I ask so far?", session=f"{session}-other")
    assert other.output == "This is the first thing you ask me."


async def test_a_conversation_can_change_engines(folder: Path):
    await take("direct", folder, "How many orders were placed in 2025?", session="both")
    second = await take("langgraph", folder, "And in 2024?", session="both")
    third = await take("direct", folder, "What did I ask so far?", session="both")
    assert second.path == LONG
    assert "- And in 2024?" in third.output
