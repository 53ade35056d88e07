from __future__ import annotations

import pytest
from hypothesis import settings

from interlock.engine import ENGINES, EngineName

settings.register_profile("interlock", deadline=None)  # an engine's first turn takes longer than the others
settings.load_profile("interlock")


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> EngineName:
    return request.param
