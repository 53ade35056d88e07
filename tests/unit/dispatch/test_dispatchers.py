from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from interlock import Interlock, Settings
from interlock.dispatch import temporal_workflow
from interlock.dispatch.embedded import EmbeddedDispatcher
from interlock.dispatch.temporal import TemporalDispatcher
from interlock.errors import ExtraMissing, SettingsInvalid
from interlock.settings import read_settings


async def test_turns_are_dispatched_by_the_turn_store_unless_the_settings_say_otherwise(tmp_path: Path):
    async with Interlock(Settings(data_dir=tmp_path)) as app:
        assert type(app.turns) is EmbeddedDispatcher
    async with Interlock(Settings(data_dir=tmp_path, dispatcher="temporal")) as app:
        assert type(app.turns) is TemporalDispatcher


async def test_a_dispatcher_whose_extra_is_not_installed_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "temporalio", None)
    async with Interlock(Settings(data_dir=tmp_path, dispatcher="temporal")) as app:
        with pytest.raises(ExtraMissing) as missing:
            await app.submit("sam", "hello")
        # What needs no turn store runs without it.
        assert (await app.run("sam", "hello")).status == "success"
    assert missing.value.command == "pip install 'interlock[temporal]'"


def test_an_unknown_dispatcher_is_refused():
    with pytest.raises(SettingsInvalid, match="dispatcher"):
        read_settings(dispatcher="kafka")


def test_the_workflow_imports_nothing_of_interlock_so_that_a_history_can_be_replayed_by_any_version():
    tree = ast.parse(Path(temporal_workflow.__file__).read_text(encoding="utf-8"))
    imported = [alias.name for part in ast.walk(tree) if isinstance(part, ast.Import) for alias in part.names]
    imported += [part.module or "" for part in ast.walk(tree) if isinstance(part, ast.ImportFrom)]
    assert {name.partition(".")[0] for name in imported} == {"datetime", "temporalio", "typing"}
