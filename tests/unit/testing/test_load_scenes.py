"""A file of scenarios says what is wrong with it: where, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.errors import SettingsInvalid
from interlock.testing.media import MEDIA
from interlock.testing.scenarios import load_scenarios

GOOD = """
[paths]
start = ["a"]
all = ["<start>", "b"]

[[scene]]
title = "one"
plays = ["offline", "script"]

[[scene.turn]]
say = "hello"
expect.path = ["<all>", "..."]
expect.tools = ["first", { name = "second", code = "tool_failed" }]
expect.values."metadata.x" = 1
script.replies = [
    "text",
    { decide = { a = 1 } },
    { text = "t", calls = [{ name = "n", arguments = { q = 1 } }] },
    { error = "model_timeout" },
]
script.asked = ["", { "a.b" = 1 }]
"""

SCENE = '[[scene]]\ntitle = "one"\n'
TURN = '[[scene.turn]]\nsay = "hello"\n'
BAD = {
    "not TOML": ("[[scene", "cannot be read"),
    "nothing in it": ("", "scene: Field required"),
    "no scenes": ("scene = []", "scene: "),
    "a word of its own": (f'{SCENE}colour = "red"\n{TURN}', "scenario 'one', colour: Extra inputs are not permitted"),
    "no title": (f"[[scene]]\n{TURN}", "scenario 1, title: Field required"),
    "two of a title": ((SCENE + TURN) * 2, "two scenarios have the title 'one'"),
    "no turn": (SCENE, "scenario 'one', turn: Field required"),
    "a turn with nothing said": (f"{SCENE}[[scene.turn]]\n", "scenario 'one', turn 1: it has nothing as its input"),
    "a turn with two inputs": (f'{SCENE}{TURN}media = "slope"\n', "scenario 'one', turn 1: it has say and media as its input"),
    "media that there is not": (f'{SCENE}[[scene.turn]]\nmedia = "film"\n', "there is no media 'film'"),
    "a misspelt expectation": (f'{SCENE}{TURN}{TURN}expect.pth = ["a"]\n', "scenario 'one', turn 2, expect.pth: Extra inputs"),
    "a status that there is not": (f'{SCENE}{TURN}expect.status = "fine"\n', "scenario 'one', turn 1, expect.status: "),
    "a path that is not in the file": (
        f'{SCENE}{TURN}expect.path = ["<x>"]\n',
        "scenario 'one', turn 1, expect.path: there is no path",
    ),
    "a path in a circle": (f'[paths]\na = ["<a>"]\n{SCENE}{TURN}expect.path = ["<a>"]\n', "there is no path 'a'"),
    "paths that are none": (f"paths = 3\n{SCENE}{TURN}", "paths: "),
    "a setting that there is not": (
        f"{SCENE}settings = {{ colour = 1 }}\n{TURN}",
        "scenario 'one', settings: there is no setting",
    ),
    "a setting of a turn": (
        f"{SCENE}{TURN}settings = {{ colour = 1 }}\n",
        "scenario 'one', turn 1, settings: there is no setting",
    ),
    "a flag that is none": (f'{SCENE}tour = "yes"\n{TURN}', "scenario 'one', tour: "),
    "a play that there is not": (f'{SCENE}plays = ["live"]\n{TURN}', "scenario 'one', plays.0: "),
    "a script that is not played": (f"{SCENE}{TURN}script.replies = []\n", "scenario 'one': turn 1 has a script"),
    "a play without its script": (f'{SCENE}plays = ["script"]\n{TURN}', "scenario 'one': turn 1 has no script"),
    "a script without replies": (f'{SCENE}plays = ["script"]\n{TURN}script.output = "x"\n', "script.replies: Field required"),
    "a reply of no kind": (f'{SCENE}plays = ["script"]\n{TURN}script.replies = [{{ says = "x" }}]\n', "script.replies.0.reply.says: Extra"),
    "an error of no model": (
        f'{SCENE}plays = ["script"]\n{TURN}script.replies = [{{ error = "boom" }}]\n',
        "it must be one of model_timeout",
    ),
    "rules that are not played": (f'{SCENE}plays = ["script"]\n{TURN}offline.output = "x"\nscript.replies = []\n', "the offline rules"),
    "a tour by a script alone": (f'{SCENE}plays = ["script"]\ntour = true\n{TURN}script.replies = []\n', "the offline rules"),
    "a tour without titles": (f"{SCENE}tour = true\n{TURN}{TURN}", "scenario 'one': every turn of a scenario of the tour needs a title"),
}


def test_a_file_is_read(tmp_path: Path):
    path = tmp_path / "scenes.toml"
    path.write_text(GOOD, encoding="utf-8")
    [scene] = load_scenarios(path)
    [turn] = scene.turns
    assert turn.expect.path == ("a", "b", "...")
    assert [str(tool) for tool in turn.expect.tools or ()] == ["first", "second (tool_failed)"]
    assert turn.script is not None
    assert len(turn.script.scripted()) == 4


@pytest.mark.parametrize(("written", "says"), BAD.values(), ids=BAD.keys())
def test_a_file_that_cannot_be_used_says_where_and_why(tmp_path: Path, written: str, says: str):
    path = tmp_path / "scenes.toml"
    path.write_text(written, encoding="utf-8")
    with pytest.raises(SettingsInvalid) as refused:
        load_scenarios(path)
    assert says in refused.value.message
    assert f"'{path}'" in refused.value.message
    assert "For further information" not in refused.value.message


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(SettingsInvalid, match="cannot be read"):
        load_scenarios(tmp_path / "scenes.toml")


@pytest.mark.parametrize("name", MEDIA)
def test_media_is_the_same_every_time(name: str):
    assert MEDIA[name]() == MEDIA[name]()
