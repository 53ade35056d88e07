from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock_agents.gateway.files.resolvers import ResolverName
from interlock_agents.gateway.files.scope import Scope

RESOLVERS: tuple[ResolverName, ...] = ("openat2", "walk")


@pytest.fixture(params=RESOLVERS)
def resolver(request: pytest.FixtureRequest) -> ResolverName:
    return request.param


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "the-host-path-of-the-root"
    root.mkdir()
    return root


@pytest.fixture
def scope(root: Path, resolver: ResolverName) -> Iterator[Scope]:
    scope = Scope(root, writable=True, max_bytes=10_000, max_entries=100, resolver=resolver)
    yield scope
    scope.close()
