from __future__ import annotations

from pathlib import Path

import pytest

from interlock_agents.analyst.warehouse.demo import build_demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a demo warehouse in it, which is made once: only read it, or copy it."""
    folder = tmp_path_factory.mktemp("demo")
    build_demo(folder / "warehouse.duckdb")
    return folder
