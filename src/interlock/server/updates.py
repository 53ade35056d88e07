"""Applies the updates of nodes, as events have them, to the values of a graph's fields, as clients see them: both are JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from interlock.contract.schema import to_json
from interlock.contract.state import Field, State
from interlock.errors import ContractViolation, StateIncompatible

__all__ = ["apply_update"]


def apply_update(state: State, values: dict[str, Any], update: Mapping[str, Any]) -> None:
    """Apply an update in place. A field with a reducer is combined by it, as in the turn itself."""
    for name, value in update.items():
        field = state.fields[name] if name in state.reduced else None
        known = values.get(name)
        if field is None or (known is None and field.initial is None):
            values[name] = value
        elif field.concatenates and isinstance(known, list) and isinstance(value, list):
            values[name] = [*cast("list[Any]", known), *cast("list[Any]", value)]
        else:
            values[name] = _reduced(field, known, value)


def _reduced(field: Field, known: Any, update: Any) -> Any:
    current = field.initial() if known is None and field.initial is not None else known
    try:
        return to_json(field.reduce_stored(field.restore(to_json(current)), update))
    except (ContractViolation, StateIncompatible):
        # The value is hidden from clients, and the mark of that is not of the field's type.
        return update
