"""The lists of everything that a query may consist of, from `allowlist.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["BOUNDED", "CALLED", "CLAUSES", "DATA_TYPES", "EXPRESSIONS", "FUNCTIONS", "NAMES", "NO_COLUMNS", "PARTS", "WORDS"]

_DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

EXPRESSIONS, FUNCTIONS, CALLED, NO_COLUMNS, PARTS, DATA_TYPES = (
    frozenset(str(_DATA[name]).split()) for name in ("expressions", "functions", "called", "no_columns", "parts", "data_types")
)
CLAUSES: Mapping[str, frozenset[str]] = {name: frozenset(parts.split()) for name, parts in _DATA["clauses"].items()}
BOUNDED: Mapping[str, tuple[str, ...]] = {name: tuple(parts.split()) for name, parts in _DATA["bounded"].items()}
NAMES: Mapping[str, str] = _DATA["names"]
WORDS: Mapping[str, frozenset[str]] = {name: frozenset(texts.split(" | ")) for name, texts in _DATA["words"].items()}
