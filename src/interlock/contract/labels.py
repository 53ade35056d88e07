"""Labels of state fields, and `Present`, which reads whether a field has a value without its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args

__all__ = ["Control", "Label", "Present", "Secret", "Trusted", "Untrusted", "has_value", "is_secret"]


@dataclass(frozen=True)
class Label:
    """A label of a field, written as `Annotated[str, Untrusted]`."""

    name: str

    def __repr__(self) -> str:
        return self.name


Untrusted: Final = Label("Untrusted")
"""The field holds text or data from a model, a tool or a user."""

Secret: Final = Label("Secret")
"""The field must not leave its scope."""

Control: Final = Label("Control")
"""The field is a Literal or a bool that routing may depend on."""

Trusted: Final = Label("Trusted")
"""The field's content comes from code or settings alone."""


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
