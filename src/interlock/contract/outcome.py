"""An outcome is what happened in a node: a frozen record of the state fields that it writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, dataclass_transform

__all__ = ["Outcome"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Outcome:
    """Subclass it with one annotated attribute for each state field that this outcome writes.

    Returning an outcome is the only way to write state, and its type alone chooses the next node.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, kw_only=True)(cls)
