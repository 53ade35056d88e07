"""An outcome: what happened in a node, as a frozen record of the state fields that it writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, dataclass_transform

__all__ = ["Outcome"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Outcome:
    """Base class of outcomes. A subclass has one annotated attribute for each state field that it writes.

    Returning an outcome is the only way to write state. The class of the outcome alone decides which node runs next.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, kw_only=True)(cls)
