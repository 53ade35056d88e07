"""A folder of somebody who is not root."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.postgres import NOBODY, reachable

__all__ = ["owned_by_nobody"]


@contextmanager
def owned_by_nobody() -> Generator[Path]:
    """Give a folder to somebody who cannot write what is read-only, as root can."""
    inside = Path(tempfile.gettempdir()).resolve()
    if not reachable(inside):
        pytest.skip("only root gets to the temporary files")
    with tempfile.TemporaryDirectory(dir=inside) as name:
        if os.geteuid() != 0:
            yield Path(name)
            return
        os.chown(name, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            os.seteuid(0)
