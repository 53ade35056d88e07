"""Two processes that open a new file of turns at the same moment."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interlock.runtime.turns import TurnFilter
from interlock.stores.turns_sqlite import SqliteTurns


async def use(path: Path) -> list[Any]:
    store = SqliteTurns(path)
    try:
        return list(await store.find(TurnFilter()))
    finally:
        await store.aclose()


async def test_a_file_that_another_process_sets_up_while_it_is_looked_at_is_not_taken_for_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, connect = tmp_path / "turns.db", sqlite3.connect

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            read = super().execute(sql, *given)
            if sql == "PRAGMA user_version":
                monkeypatch.setattr(sqlite3, "connect", connect)
                # The value is read, and stays what it was while another process creates the tables.
                with ThreadPoolExecutor(1) as other:
                    other.submit(lambda: asyncio.run(use(path))).result()
            return read

    def watched(*given: Any, **options: Any) -> sqlite3.Connection:
        return connect(*given, **options, factory=Watched)

    monkeypatch.setattr(sqlite3, "connect", watched)
    assert await use(path) == []
