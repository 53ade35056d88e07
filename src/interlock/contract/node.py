"""A node: an async function whose signature is its contract.

Positional parameters are the state fields it reads, keyword-only parameters are the capabilities it is granted, the
fields of the outcomes it returns are what it writes, and the type of the outcome is where it leads.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from interlock.contract.labels import has_value
from interlock.contract.outcome import Outcome
from interlock.contract.shapes import covers, render
from interlock.contract.state import Field, Values
from interlock.contract.values import ValidationError, copied_by_validation, detached, immutable, reasons, validator
from interlock.errors import ContractViolation

__all__ = ["END", "Ending", "Grant", "Node", "Read", "Row", "Step", "Target", "node"]


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

    def picker(self) -> Callable[[Mapping[str, Any]], Any]:
        """Make the function that takes this read out of the state."""
        name, start = self.field.name, self.field.start
        if start is None and covers(self.hint, None):
            start = _nothing

        def begin() -> Any:
            if start is not None:
                return start()
            raise ContractViolation(
                f"Field '{name}' has no value yet. Fix: write it on every way to this node, or declare the parameter as"
                f" '{render(self.hint)} | None'."
            )

        def presence(state: Mapping[str, Any]) -> bool:
            return has_value(state[name] if name in state else start and start())

        def share(state: Mapping[str, Any]) -> Any:
            return state[name] if name in state else begin()

        def copy(state: Mapping[str, Any]) -> Any:
            return detached(state[name]) if name in state else begin()

        return presence if self.presence else share if immutable(self.field.hint) else copy


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Grant:
    """A capability that a node is granted, and the parameter that receives it."""

    parameter: str
    capability: type

    @property
    def name(self) -> str:
        return self.capability.__name__


class Step(NamedTuple):
    """What one node did: which outcome, what it wrote, which node is next (None is END)."""

    outcome: str
    update: Values
    target: str | None


class Ending:
    """One outcome of a node: what it writes and where it leads (None is END)."""

    def __init__(self, outcome: type[Outcome], fields: Mapping[str, Any], target: str | None, state: Mapping[str, Field]) -> None:
        self.outcome = outcome
        self.name = outcome.__name__
        self.fields = dict(fields)
        self.target = target
        self._validate = validator(outcome.__name__, {name: state[name].constrain(hint) for name, hint in fields.items()})
        self._copied = tuple(name for name, hint in fields.items() if not copied_by_validation(hint))

    def settle(self, outcome: object) -> Step:
        """Build the state update from exactly what the outcome declares, validated and shared with nobody."""
        try:
            update = self._validate(outcome.__dict__)
        except ValidationError as error:
            raise ContractViolation(f"Outcome '{self.name}' does not fit the state: {reasons(error)}.") from error
        for name in self._copied:
            update[name] = detached(update[name])
        return Step(self.name, update, self.target)


class Node:
    """A checked row: the contract of one node, and the only way to run it."""

    def __init__(
        self,
        name: str,
        run: Callable[..., Awaitable[Outcome]],
        *,
        reads: tuple[Read, ...],
        grants: tuple[Grant, ...],
        endings: tuple[Ending, ...],
    ) -> None:
        self.name = name
        self.run = run
        self.reads = reads
        self.grants = grants
        self.endings = endings
        self._pickers = tuple(read.picker() for read in reads)
        self._endings = {ending.outcome: ending for ending in endings}

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (self.run.__doc__ or "").strip().partition("\n")[0]

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for ending in self.endings for name in ending.fields))

    @property
    def targets(self) -> tuple[str | None, ...]:
        return tuple(dict.fromkeys(ending.target for ending in self.endings))

    def read(self, state: Mapping[str, Any]) -> list[Any]:
        """Take what this node reads out of the state, and nothing else."""
        return [pick(state) for pick in self._pickers]

    def settle(self, outcome: object) -> Step:
        """Hold what the node returned to its contract."""
        ending = self._endings.get(type(outcome))  # pyright: ignore[reportArgumentType] - any type may be asked for
        if ending is None:
            declared = ", ".join(f"'{ending.name}'" for ending in self.endings)
            raise ContractViolation(f"Returned '{type(outcome).__name__}', which is none of its outcomes: {declared}.")
        return ending.settle(outcome)
