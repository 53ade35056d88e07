"""Workers that may be on several machines do not start with agents that would keep other data on each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock import Interlock, Settings
from interlock.capabilities import SessionStore
from interlock.discovery import load_agent
from interlock.errors import SettingsInvalid
from interlock.server.app import create_app
from interlock.stores.sessions import RedisSessions
from tests.support.parcels import agent

NOWHERE = "postgresql://127.0.0.1:1/turns"
SHARED = {"session_url": "redis://127.0.0.1:1", "memory_url": NOWHERE, "checkpoint_url": NOWHERE, "graph_url": "bolt://127.0.0.1:1"}


def app_with(folder: Path, **given: Any) -> Interlock:
    return Interlock(Settings.model_validate({"data_dir": folder, "turn_url": NOWHERE, **given}))


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("desk", "memory_url, session_url"),
        ("analyst", "checkpoint_url"),
        ("puntini", "checkpoint_url, graph_url"),
        ("gateway", "gateway_path"),
    ],
)
async def test_a_worker_names_what_is_missing(tmp_path: Path, name: str, missing: str):
    with pytest.raises(SettingsInvalid) as refused:
        await app_with(tmp_path).work([name])
    assert f"Turns of '{name}'" in refused.value.message
    assert f"set {missing};" in refused.value.message


@pytest.mark.parametrize("name", ["sam", "desk", "analyst", "puntini"])
async def test_a_worker_starts_where_everything_is_shared(tmp_path: Path, name: str):
    assert app_with(tmp_path, **SHARED).check_worker([name])


@pytest.mark.parametrize("given", [{"one_machine": True}, {"turn_url": "sqlite:turns.db"}, {"turn_url": None}])
async def test_a_worker_starts_where_there_is_one_machine(tmp_path: Path, given: dict[str, Any]):
    assert len(app_with(tmp_path, **given).check_worker()) == 5


async def test_an_agent_that_keeps_nothing_can_be_run_on_several_machines(tmp_path: Path):
    assert app_with(tmp_path).check_worker(["sam", agent])


async def test_what_a_program_grants_is_not_looked_at(tmp_path: Path):
    settings = Settings.model_validate({"data_dir": tmp_path, "turn_url": NOWHERE, "memory_url": NOWHERE})
    granted = Interlock(settings, grants={SessionStore: object.__new__(RedisSessions)})
    assert granted.check_worker(["desk"])


async def test_a_server_that_runs_turns_is_refused_as_well(tmp_path: Path):
    with pytest.raises(SettingsInvalid):
        create_app(app_with(tmp_path), agents=[load_agent("desk")], concurrency=1)
    create_app(app_with(tmp_path), agents=[load_agent("desk")], concurrency=0)
