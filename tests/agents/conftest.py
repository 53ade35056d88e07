from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from tests.support.desk import Store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Generator[Store, None, None]:
    """A session store that nobody stops."""
    made = Store(tmp_path_factory.mktemp("desk"))
    asyncio.run(made.start())
    yield made
    asyncio.run(made.close())


@pytest.fixture
async def own_store(tmp_path: Path) -> AsyncGenerator[Store, None]:
    """A session store that a test may stop and start."""
    made = Store(tmp_path)
    await made.start()
    yield made
    await made.close()
