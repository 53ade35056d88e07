"""Labels of values: of state fields, of the parameters of capabilities and tools, and of what a capability returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Control", "Label", "Secret", "Trusted", "Untrusted"]


@dataclass(frozen=True)
class Label:
    """A label, written as `Annotated[str, Untrusted]`."""

    name: str

    def __repr__(self) -> str:
        return self.name


Untrusted: Final = Label("Untrusted")
"""The value is text or data from a model, a tool or a user."""

Secret: Final = Label("Secret")
"""The value must not leave its scope."""

Control: Final = Label("Control")
"""The field is a Literal or a bool that routing may depend on."""

Trusted: Final = Label("Trusted")
"""The value comes from code or settings alone. A parameter with this label refuses text from outside."""
