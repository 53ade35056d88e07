"""A node: an async function whose signature is its contract.

Positional parameters are the state fields it reads, keyword-only parameters are the capabilities it is granted, the
fields of the outcomes it returns are what it writes, and the type of the outcome is where it leads.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeVar

from interlock.contract.copying import copied_by_validation, deep_copy, is_immutable
from interlock.contract.labels import has_value, is_secret
from interlock.contract.outcome import Outcome
from interlock.contract.schema import ValidationError, Write, error_summary, record_validator, record_writer
from interlock.contract.state import Field, Values
from interlock.contract.type_hints import format_type, is_assignable
from interlock.errors import ContractViolation

__all__ = ["END", "Grant", "Node", "Read", "Row", "StepResult", "Target", "Transition", "node"]


class End(enum.Enum):
    """Where a graph ends."""

    END = "END"

    def __repr__(self) -> str:
        return "END"


END: Final = End.END
O = TypeVar("O", bound=Outcome)  # noqa: E741 - the design's own name for it
Target: TypeAlias = Callable[..., Awaitable[Outcome]] | End


@dataclass(frozen=True)
class Row:
    """A line of a graph: a node's function, and where each of its outcomes leads."""

    run: Callable[..., Awaitable[Outcome]]
    goes: Mapping[type[Outcome], Target]


def node(run: Callable[..., Awaitable[O]], *, goes: Mapping[type[O], Target]) -> Row:
    """Declare a node of a graph."""
    return Row(run, {outcome: target for outcome, target in goes.items()})  # noqa: C416 - a dict of the wider key type


@dataclass(frozen=True)
class Read:
    """A field that a node is handed, or only whether it has a value."""

    field: Field
    hint: Any
    presence: bool

    def __str__(self) -> str:
        return f"{self.field.name}?" if self.presence else self.field.name

    @cached_property
    def allows_none(self) -> bool:
        """Whether the node takes the absence of a value for None."""
        return self.presence or is_assignable(self.hint, None)

    @property
    def convert(self) -> Callable[[Any], Any] | None:
        """What is applied to the field's value before the node receives it; None where it is passed as it is."""
        if self.presence:
            return has_value
        return None if is_immutable(self.field.hint) else deep_copy

    @property
    def needs_value(self) -> bool:
        """Whether the node fails where the field was never written."""
        return self.field.initial is None and not self.allows_none

    def initial_value(self) -> Any:
        """Return what the node is handed where the field was never written."""
        if self.field.initial is not None:
            return self.field.initial()
        if self.allows_none:
            return None
        raise ContractViolation(
            f"Field '{self.field.name}' has no value yet. Fix: write it on every way to this node, or declare the parameter"
            f" as '{format_type(self.hint)} | None'."
        )


@dataclass(frozen=True)
class Grant:
    """A capability that a node is granted, and the parameter that receives it."""

    parameter: str
    capability: type

    @property
    def name(self) -> str:
        return self.capability.__name__


class Transition:
    """One outcome of a node: what it writes and where it leads (None is END)."""

    def __init__(self, outcome: type[Outcome], fields: Mapping[str, Any], target: str | None, state: Mapping[str, Field]) -> None:
        self.outcome = outcome
        self.name = outcome.__name__
        self.fields = dict(fields)
        self.target = target
        self.validate = record_validator(outcome.__name__, {name: state[name].constrain(hint) for name, hint in fields.items()})
        self.secret = frozenset(name for name in fields if is_secret(state[name].declared))
        self._written = {name: state[name].hint for name in fields}
        self.shared = tuple(name for name, hint in fields.items() if not copied_by_validation(hint))

    @cached_property
    def write(self) -> Write:
        """Write what this outcome wrote as JSON, for whoever listens."""
        return record_writer(self.name, self._written)


StepResult: TypeAlias = tuple[Transition, Values]
"""What one node did: how it ended, and what it wrote."""


class Node:
    """A checked row: the contract of one node, and the only way to run it."""

    def __init__(
        self,
        name: str,
        run: Callable[..., Awaitable[Outcome]],
        *,
        reads: tuple[Read, ...],
        grants: tuple[Grant, ...],
        transitions: tuple[Transition, ...],
    ) -> None:
        self.name = name
        self.run = run
        self.reads = reads
        self.read_names = tuple(str(read) for read in reads)
        self._read_hints = {str(read): bool if read.presence else read.field.hint for read in reads}
        self.grants = grants
        self.transitions = transitions
        self._fetches = tuple((read.field.name, read.convert, read) for read in reads)
        self._transitions = {transition.outcome: transition for transition in transitions}

    @cached_property
    def write_reads(self) -> Write:
        """Write what this node is handed as JSON, for whoever listens."""
        return record_writer(self.name, self._read_hints)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for transition in self.transitions for name in transition.fields))

    @property
    def targets(self) -> tuple[str | None, ...]:
        return tuple(dict.fromkeys(transition.target for transition in self.transitions))

    def read(self, state: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the node's positional arguments. Raises ContractViolation for a field that has no value."""
        arguments: list[Any] = []
        for name, convert, read in self._fetches:
            value = state[name] if name in state else read.initial_value()
            arguments.append(value if convert is None else convert(value))
        return tuple(arguments)

    def validate_outcome(self, outcome: object) -> StepResult:
        """Hold what the node returned to its contract; build the update from exactly what the outcome declares."""
        transition = self._transitions.get(type(outcome))  # pyright: ignore[reportArgumentType] - any type may be asked for
        if transition is None:
            declared = ", ".join(f"'{transition.name}'" for transition in self.transitions)
            raise ContractViolation(f"Returned '{type(outcome).__name__}', which is none of its outcomes: {declared}.")
        try:
            update = transition.validate(outcome.__dict__)
        except ValidationError as error:
            wrong = error_summary(error, secret=transition.secret)
        else:
            for name in transition.shared:
                update[name] = deep_copy(update[name])
            return transition, update
        raise ContractViolation(f"Outcome '{transition.name}' does not fit the state: {wrong}.")  # here: the value is not dragged along
