"""One measured figure, and what it should be."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figure", "at_least", "at_most", "ratio"]


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    unit: str
    target: str = ""
    met: bool | None = None


def at_most(name: str, value: float, limit: float, unit: str = "x") -> Figure:
    return Figure(name, value, unit, f"<= {limit:g}", value <= limit)


def at_least(name: str, value: float, limit: float, unit: str = "x") -> Figure:
    return Figure(name, value, unit, f">= {limit:g}", value >= limit)


def ratio(of: Sequence[float], to: Sequence[float]) -> float:
    """Compare what was measured in the same rounds."""
    return statistics.median(a / b for a, b in zip(of, to, strict=True))
