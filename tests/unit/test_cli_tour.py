"""The tour runs scenarios of an agent, and reports differences from what they expect."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from interlock.agent import Agent
from interlock.cli.live import Live
from interlock.cli.screen import as_path, console, folded
from interlock.discovery import load_agent
from interlock.invariants import How
from interlock.runtime.event_lines import RETOLD
from interlock.settings import Settings
from interlock_agents.tour import guide

SCENES = """
[[scene]]
title = "a greeting"
tour = true
[[scene.turn]]
telling = true
say = "hello"
expect.path = ["router_node", "...", "format_response_node"]
expect.says = ["hello"]

[[scene]]
title = "not for the tour"
[[scene.turn]]
say = "hidden"
expect.error = "never"

[[scene]]
title = "a wrong picture"
tour = true
[[scene.turn]]
media = "no picture"
expect.error = "media_malformed"
"""
WRONG = {
    "says": ('expect.says = ["hello"]', 'expect.says = ["good bye"]', "output: expected 'good bye' in it"),
    "path": ('"format_response_node"]', '"error_router_node"]', "path: expected router_node > ... > error_router_node, was"),
    "error": ('expect.error = "media_malformed"', 'expect.error = "media_bomb"', "error: expected 'media_bomb', was 'media_malformed'"),
    "status": ('expect.error = "media_malformed"', "expect.asks = 0", "status: expected 'success', was 'error'"),
    "tools": ("expect.says", 'expect.tools = ["search"]\nexpect.says', "tools: expected search, was none"),
}


def show_only(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guide, "INTRODUCED", (agent.name,))
    monkeypatch.setattr(guide, "load_agent", dict.fromkeys((agent.name,), agent).__getitem__)


async def taken(folder: Path, monkeypatch: pytest.MonkeyPatch, scenes: str, **settings: str) -> int:
    """Take a tour of sam with some scenes, without its guarantees, and return the exit code."""
    (folder / "scenes.toml").write_text(scenes, encoding="utf-8")
    agent = replace(load_agent("sam"), scenes=folder / "scenes.toml", invariants=())
    show_only(agent, monkeypatch)
    monkeypatch.setenv("COLUMNS", "200")
    given = {"engine": "direct", "data_dir": folder, "model_path": folder / "no-weights", **settings}
    return await guide.Tour(Settings.model_validate(given)).run()


async def test_a_tour_as_expected_exits_with_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert await taken(tmp_path, monkeypatch, SCENES) == 0
    shown = capsys.readouterr().out
    assert "\na greeting\n  in    hello\n  node  router_node" in shown
    assert "\n  also  a wrong picture  (7 steps)\n        media_malformed  The media is damaged" in shown
    assert re.search(r"^  (\d+ \w+, )*[1-9]\d* agrees, .*  \(interlock verify sam\)$", shown, re.MULTILINE)
    assert "signatures, state and rows fit together" not in shown, "guarantees are counted"
    for how in get_args(How):
        assert f"{how}: " in shown, "the legend explains it"
    assert [line for line in shown.splitlines() if line.endswith(" ")] == []
    assert re.search(r"As expected: 2 turns, \d+ guarantees\.", shown)
    assert "hidden" not in shown
    assert "WRONG" not in shown


@pytest.mark.parametrize(
    ("said", "gist"),
    [
        ("All of it.", "All of it."),
        ("Asked: how many\n\nTwo.\nOr three.", "Two. Or three."),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n\nThat is all.", "a table of a, b: 1 row"),
        ("# Here:\n| a |\n|---|\n| 1 |", "Here:"),
        ("", ""),
    ],
)
def test_an_output_in_one_line_omits_the_question_and_summarises_a_table(said: str, gist: str):
    assert guide.in_a_line(said, "how many") == gist


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_difference_is_shown_and_the_tour_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wrong: str
):
    old, new, says = WRONG[wrong]
    assert old in SCENES
    assert await taken(tmp_path, monkeypatch, SCENES.replace(old, new)) == 1
    shown = capsys.readouterr().out
    [line] = [line for line in shown.splitlines() if says in line]
    assert line.strip().startswith("WRONG")
    assert "Not as expected: " in shown


async def test_replies_of_another_model_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert await taken(tmp_path, monkeypatch, SCENES, model="stub") == 0
    assert "The replies of 'stub' were not compared" in capsys.readouterr().out


async def test_a_broken_guarantee_fails_the_tour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "document.md").write_text("# Nothing\n", encoding="utf-8")
    (tmp_path / "scenes.toml").write_text(SCENES, encoding="utf-8")
    agent = replace(load_agent("sam"), scenes=None, invariants=(), document=tmp_path / "document.md")
    show_only(agent, monkeypatch)
    settings = Settings(engine="direct", data_dir=tmp_path, model_path=tmp_path / "no-weights")
    assert await guide.Tour(settings).run() == 1
    assert "BROKEN" in capsys.readouterr().out


async def test_an_input_is_shown_without_a_prefix_that_a_reader_would_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert await taken(tmp_path, monkeypatch, SCENES.replace("telling = true", 'telling = true\nrole = "admin"'), model="stub") == 0
    assert "\n  in    (as admin) hello\n" in capsys.readouterr().out


async def test_a_headline_that_is_wrapped_has_no_blanks_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("COLUMNS", "80")
    agent = replace(load_agent("sam"), scenes=None, invariants=(), summary=f"{'x' * 60} {'y' * 18} z")
    show_only(agent, monkeypatch)
    assert await guide.Tour(Settings(engine="direct", data_dir=tmp_path, model_path=tmp_path / "no-weights")).run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith(" ")] == []
    assert f"{'x' * 60} {'y' * 18}" in lines


def test_the_event_that_replaces_others_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    replaced: Any = {"event": "on_custom_event", "name": RETOLD, "run_id": "r", "metadata": {}, "data": {"from": 8}}
    tour = guide.Tour(Settings(engine="direct", data_dir=tmp_path))
    for listen in (Live(console()).listen, tour._show_step):  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - what a listener is
        listen(replaced)
        assert capsys.readouterr().out == ""
        listen(replaced | {"name": "planned"})
        assert "planned: from 8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("a b c", "a > b > c"),
        ("a b b b c", "a > [b] x 3 > c"),
        ("s a b a b a b e", "s > [a > b] x 3 > e"),
        ("a b a c a b a c", "[a > b > a > c] x 2"),
        ("a a/b a/c a/b a/c d", "a (b > c > b > c) > d"),
        ("", ""),
    ],
)
def test_repeated_parts_of_a_path_are_folded(path: str, shown: str):
    assert as_path(folded(path.split())) == shown
