"""How much is tried: a build takes a share of what is slow, and `make test INTERLOCK_TEST_EXAMPLES=200` all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["ALL", "EXAMPLES", "share"]

T = TypeVar("T")

EXAMPLES = int(os.environ.get("INTERLOCK_TEST_EXAMPLES", "50"))
"""How many examples hypothesis makes where a test does not say."""

ALL = 200
"""From how many examples on a test tries everything."""


def share(cases: Sequence[T], *, of: int) -> list[T]:
    """Return all cases where there is time for them, else one of so many."""
    return [*cases[:: 1 if EXAMPLES >= ALL else of]]
