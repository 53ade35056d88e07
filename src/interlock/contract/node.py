"""A node: an async function whose signature is its contract.

Positional parameters are the state fields it reads, keyword-only parameters are the capabilities it is granted, the
fields of the outcomes it returns are what it writes, and the class of the outcome selects the next node.
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
from interlock.contract.schema import ValidationError, error_summary, record_validator
from interlock.contract.state import Field, Values
from interlock.contract.type_hints import format_type, is_assignable
from interlock.errors import ContractViolation

__all__ = ["END", "Grant", "Node", "Read", "Row", "StepResult", "Target", "Transition", "node"]


class End(enum.Enum):
    """The target of an outcome that ends the graph."""

    END = "END"

    def __repr__(self) -> str:
        return "END"


END: Final = End.END
"""The target of an outcome that ends the graph."""
O = TypeVar("O", bound=Outcome)  # noqa: E741 - short for an outcome, as T is for a type
Target: TypeAlias = Callable[..., Awaitable[Outcome]] | End


@dataclass(frozen=True)
class Row:
    """A row of a graph: a node's function and the target of each of its outcomes."""

    run: Callable[..., Awaitable[Outcome]]
    goes: Mapping[type[Outcome], Target]


def node(run: Callable[..., Awaitable[O]], *, goes: Mapping[type[O], Target]) -> Row:
    """Declare a node of a graph."""
    return Row(run, {outcome: target for outcome, target in goes.items()})  # noqa: C416 - the copy has a wider key type


@dataclass(frozen=True)
class Read:
    """A field that a node reads: its value, or only whether it has one."""

    field: Field
    hint: Any
    presence: bool

    def __str__(self) -> str:
        return f"{self.field.name}?" if self.presence else self.field.name

    @cached_property
    def allows_none(self) -> bool:
        """Whether the node accepts None for a field that has no value."""
        return self.presence or is_assignable(self.hint, None)

    @property
    def convert(self) -> Callable[[Any], Any] | None:
        """What is applied to the field's value before the node receives it; None where it is passed as it is."""
        if self.presence:
            return has_value
        return None if is_immutable(self.field.hint) else deep_copy

    @property
    def needs_value(self) -> bool:
        """Whether the node cannot run before the field is written."""
        return self.field.initial is None and not self.allows_none

    def initial_value(self) -> Any:
        """Return what the node receives if the field was never written."""
        if self.field.initial is not None:
            return self.field.initial()
        if self.allows_none:
            return None
        raise ContractViolation(
            f"Field '{self.field.name}' has no value yet. Fix: write it on every path to this node, or declare the parameter"
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
    """One outcome of a node: the fields that it writes and the next node (None is END)."""

    def __init__(self, outcome: type[Outcome], fields: Mapping[str, Any], target: str | None, state: Mapping[str, Field]) -> None:
        self.outcome = outcome
        self.name = outcome.__name__
        self.fields = dict(fields)
        self.target = target
        self.validate = record_validator(outcome.__name__, {name: state[name].constrain(hint) for name, hint in fields.items()})
        self.secret = frozenset(name for name in fields if is_secret(state[name].declared))
        self.shared = tuple(name for name, hint in fields.items() if not copied_by_validation(hint))


StepResult: TypeAlias = tuple[Transition, Values]
"""The result of running one node: the transition and the fields that were written."""


class Node:
    """A row that was checked: the contract of one node."""

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
        self.grants = grants
        self.transitions = transitions
        self._fetches = tuple((read.field.name, read.convert, read) for read in reads)
        self._transitions = {transition.outcome: transition for transition in transitions}

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

    def read(self, state: Mapping[str, Any]) -> list[Any]:
        """Return the node's positional arguments. Raises ContractViolation for a field that has no value."""
        arguments: list[Any] = []
        for name, convert, read in self._fetches:
            value = state[name] if name in state else read.initial_value()
            arguments.append(value if convert is None else convert(value))
        return arguments

    def validate_outcome(self, outcome: object) -> StepResult:
        """Validate what the node returned; return the transition and the update of the state.

        Raises ContractViolation for an outcome that the node does not declare or whose fields do not match the state.
        """
        transition = self._transitions.get(type(outcome))  # pyright: ignore[reportArgumentType] - the class may be any
        if transition is None:
            declared = ", ".join(f"'{transition.name}'" for transition in self.transitions)
            raise ContractViolation(f"Returned '{type(outcome).__name__}', which is not one of its outcomes: {declared}.")
        try:
            update = transition.validate(outcome.__dict__)
        except ValidationError as error:
            wrong = error_summary(error, secret=transition.secret)
        else:
            for name in transition.shared:
                update[name] = deep_copy(update[name])
            return transition, update
        # Raised outside of the `except` block so that `__context__` does not carry the rejected value.
        raise ContractViolation(f"Outcome '{transition.name}' does not fit the state: {wrong}.")
