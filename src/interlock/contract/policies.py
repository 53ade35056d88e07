"""Policies of arguments: which values a tool with an effect accepts if they do not come from the user or from trusted code.

A parameter is annotated with one or more of them: `to: Annotated[str, Allowed("office@example.org"), Approval]`. A value that is trusted
is always accepted; any other one if one of the policies accepts it. `Annotated[str, Trusted]` accepts nothing else.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from interlock.contract.labels import Label, Trusted
from interlock.contract.type_hints import is_closed, unwrap_annotated
from interlock.errors import SettingsInvalid

__all__ = ["CLOSED", "Allowed", "Approval", "ArgumentPolicy", "DataOnly", "Guarded", "policy_of"]

Approval: Final = Label("Approval")
"""A person may approve a call with such a value. The approval is for this call with these arguments, once."""

DataOnly: Final = Label("DataOnly")
"""Any value is accepted: it cannot do harm, such as the text of a note to oneself."""


class Allowed:
    """Accepts these values."""

    def __init__(self, *values: str | float) -> None:
        self.values = frozenset(values)


class Guarded:
    """Accepts the values of which a guard says so: a named, synchronous function of one value that is annotated to return a bool."""

    def __init__(self, guard: Callable[[Any], bool]) -> None:
        name = getattr(guard, "__qualname__", type(guard).__name__)
        if not inspect.isfunction(guard) or inspect.iscoroutinefunction(guard) or "<lambda>" in name:
            raise SettingsInvalid(f"The guard '{name}' is not a named, synchronous function.")
        returned, _ = unwrap_annotated(typing.get_type_hints(guard, include_extras=True).get("return", str))
        if returned is not bool or not is_closed(returned):
            raise SettingsInvalid(f"The guard '{name}' is not annotated to return a bool.")
        self.guard = guard


@dataclass(frozen=True, kw_only=True)
class ArgumentPolicy:
    """What one argument accepts beside trusted values."""

    allowed: frozenset[str | float] = frozenset()
    guards: tuple[Guarded, ...] = ()
    approval: bool = False
    data_only: bool = False

    def accepts(self, value: Any) -> bool:
        """Return whether the policy accepts one value that is not trusted, without a person."""
        if self.data_only:
            return True
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value in self.allowed:
            return True
        return any(one.guard(value) is True for one in self.guards)

    @property
    def decides(self) -> bool:
        """Whether the policy itself says which values from outside are accepted."""
        return self.data_only or bool(self.allowed) or bool(self.guards)


CLOSED: Final = ArgumentPolicy(approval=True)
"""The policy of a parameter that has none, in a catalogue of tools that is closed: trusted values, or what a person approves."""


def policy_of(metadata: Iterable[Any]) -> ArgumentPolicy | None:
    """Return the policy that the annotations of a parameter declare, None where they declare none."""
    found = [one for one in metadata if isinstance(one, Allowed | Guarded) or one in (Trusted, Approval, DataOnly)]
    if not found:
        return None
    return ArgumentPolicy(
        allowed=frozenset(value for one in found if isinstance(one, Allowed) for value in one.values),
        guards=tuple(one for one in found if isinstance(one, Guarded)),
        approval=Approval in found,
        data_only=DataOnly in found,
    )
