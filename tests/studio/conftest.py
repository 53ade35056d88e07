"""One Chromium for the tests of the studio: they share an event loop, because a browser belongs to one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.studio.browser import Studio, shared, studio


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def close_chromium() -> AsyncGenerator[None]:
    yield
    await shared.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(tmp_path: Path) -> AsyncGenerator[Studio]:
    """The page of a server."""
    async with studio(tmp_path) as found:
        yield found
