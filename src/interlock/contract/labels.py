"""Labels of state fields, and `Present`, which reads whether a field has a value without its value."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args

from interlock.labels import Control, Label, Secret, Trusted, Untrusted

__all__ = ["Control", "Label", "Present", "Secret", "Trusted", "Untrusted", "has_value", "is_secret"]


PRESENCE: Final = object()
"""Marks a parameter that receives whether a field has a value."""

Present = Annotated[bool, PRESENCE]
"""Annotation of a parameter that has the name of a field and receives only whether the field has a value."""


def has_value(value: object) -> bool:
    """Return whether a field has a value. None and empty containers (`len()` of 0) are not values; 0 and False are."""
    if value is None:
        return False
    try:
        # Calling len() is cheaper than a check for __len__.
        return len(value) > 0  # pyright: ignore[reportArgumentType]
    except TypeError:
        return True


def is_secret(hint: Any) -> bool:
    """Return whether a type, or a type inside it, is labelled Secret. Then the whole value is secret."""
    return Secret in getattr(hint, "__metadata__", ()) or any(is_secret(part) for part in get_args(hint))
