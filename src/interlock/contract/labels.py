"""Labels say what a state field holds; `Present` reads a field without seeing its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args

__all__ = ["Control", "Label", "Present", "Secret", "Trusted", "Untrusted", "has_value", "is_secret"]


@dataclass(frozen=True)
class Label:
    """What the contents of a field are, written as `Annotated[str, Untrusted]`."""

    name: str

    def __repr__(self) -> str:
        return self.name


Untrusted: Final = Label("Untrusted")
"""A model, a tool or a user wrote it."""

Secret: Final = Label("Secret")
"""It must not leave its scope."""

Control: Final = Label("Control")
"""A closed Literal, or a bool, that routing may depend on."""

Trusted: Final = Label("Trusted")
"""Our own code or settings made it: nothing in it was chosen outside."""


@dataclass(frozen=True)
class _Presence:
    """Mark a parameter that receives whether a field has a value."""


PRESENCE: Final = _Presence()

Present = Annotated[bool, PRESENCE]
"""The annotation of a parameter that is named for a field and receives only whether it has a value."""


def has_value(value: object) -> bool:
    """Tell whether a field has a value: None and whatever is empty (`len()` of 0) are none; 0 and False are values."""
    if value is None:
        return False
    try:
        return len(value) > 0  # pyright: ignore[reportArgumentType] - asking is cheaper than looking for __len__ first
    except TypeError:
        return True


def is_secret(hint: Any) -> bool:
    """Tell whether a type, or a part of it, is labelled Secret: then the whole is."""
    return Secret in getattr(hint, "__metadata__", ()) or any(is_secret(part) for part in get_args(hint))
