"""A thread of a LangGraph checkpointer: which fields of the state a new turn begins with.

A plain checkpointer keeps every field from one turn to the next, also those of a turn that failed. So when a new input comes,
fields that belong to one turn are emptied, and the fields that outlive a turn go back to what the last finished turn left.
LangGraph can still continue a failed turn, by an input of None: nothing is taken back before a new input comes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Self, cast

from langgraph._internal._typing import MISSING
from langgraph.channels import BinaryOperatorAggregate, LastValue
from langgraph.channels.base import BaseChannel
from langgraph.constants import START
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel._write import ChannelWrite, ChannelWriteTupleEntry
from langgraph.types import Overwrite

from interlock.contract.state import Field, Values
from interlock.engine.messages import NativeField, Shown, records_of
from interlock.errors import StateIncompatible

__all__ = ["BEFORE", "Begun", "begin_turns", "channel_of"]

BEFORE = "interlock_before"
"""The channel that holds, during a turn, what the fields that outlive it held before."""

_RESTART = "interlock_restart"


class Begun:
    """What a field begins with in a turn of ours. Only this package makes one, and it is never stored."""

    def __init__(self, value: Any) -> None:
        self.value = value


def channel_of(field: Field, native: NativeField | None = None) -> Any:
    """Make the channel of a field of the state; `native` says how callers see it, where that is not what nodes have."""
    if native is None:
        return _Plain(field) if field.reducer is None else _Reduced(field.hint, field.reduce_stored)
    channel = _PlainMessages(field) if field.reducer is None else _ReducedMessages(field.hint, field.reduce_stored)
    channel.shown_as = native
    return channel


def begin_turns(compiled: CompiledStateGraph[Any, Any, Any, Any], fields: Iterable[str], outlive: Collection[str]) -> None:
    """Let a graph begin each turn with the fields that outlive a turn, and with no others."""
    compiled.channels[BEFORE] = _Before(Any, key=BEFORE)
    start = compiled.nodes[START]
    taking, *others = cast("list[ChannelWrite]", start.writers)
    read_input, *more = cast("Sequence[ChannelWriteTupleEntry]", taking.writes)
    begin = ChannelWriteTupleEntry(mapper=_beginning(read_input.mapper, tuple(fields), tuple(outlive)))
    writers = [ChannelWrite((begin, *map(_of_input, more))), *others]
    compiled.nodes[START] = start.copy({"channels": [START, BEFORE, *outlive], "writers": writers})


def _beginning(
    read_input: Callable[[Any], Any], fields: tuple[str, ...], outlive: tuple[str, ...]
) -> Callable[[Mapping[str, Any] | None], Sequence[tuple[str, Any]]]:
    per_turn = [(name, _restart()) for name in fields if name not in outlive]

    def begin(read: Mapping[str, Any] | None) -> Sequence[tuple[str, Any]]:
        """Return what is written when a new input comes. `BEFORE` is there only if the last turn did not end."""
        if read is None:
            return ()  # LangGraph asks while it draws the graph
        before: Values | None = read.get(BEFORE)
        taken_back: list[tuple[str, Any]] = []
        if before is None:
            before = {name: records_of(read[name]) for name in outlive if name in read}
        else:
            taken_back = [(name, _restart(*([before[name]] if name in before else []))) for name in outlive]
        return [(BEFORE, before), *per_turn, *taken_back, *(read_input(read[START]) or ())]

    return begin


def _of_input(entry: ChannelWriteTupleEntry) -> ChannelWriteTupleEntry:
    """Hand a writer of LangGraph's own the input alone, as it would be without the fields that are read beside it."""

    def of_input(read: Mapping[str, Any] | None) -> Any:
        return entry.mapper(read and read[START])

    return entry._replace(mapper=of_input)


def _restart(*value: Any) -> Overwrite:
    """Mark a field that begins again: with a value, or without one as on a new thread.

    LangGraph's own class, because every checkpointer can store it until the step has ended.
    """
    return Overwrite({_RESTART: list(value)})


def _restarts(value: Any) -> bool:
    return type(value) is Overwrite and isinstance(value.value, dict) and _RESTART in value.value


def _restored(field: Field, value: Any) -> Any:
    """Return a stored value as the field's type: a serializer may leave dicts where it may not, or cannot, make the field's classes.

    What does not fit stays as it is, so that a thread with it can be looked at; a node that reads it is told.
    """
    try:
        return value if value is MISSING else field.restore(value)
    except StateIncompatible:
        return value


class _Plain(LastValue[Any]):
    """A field that holds what was written last."""

    def __init__(self, field: Field) -> None:
        super().__init__(field.hint, field.name)
        self.field = field

    def copy(self) -> Self:
        made = type(self)(self.field)
        made.value = self.value
        return made

    def from_checkpoint(self, checkpoint: Any) -> Self:
        made = type(self)(self.field)
        made.value = _restored(self.field, checkpoint)
        return made

    def update(self, values: Sequence[Any]) -> bool:
        written = [value for value in values if not _restarts(value)]
        if written or not values:
            return super().update(written)
        found, before = values[-1].value[_RESTART], self.value
        self.value = _restored(self.field, found[0]) if found else MISSING
        return self.value is not before


class _Reduced(BinaryOperatorAggregate[Any]):
    """A field with a reducer, which gets every value that is written, whatever the value looks like."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reduced) and self.operator == other.operator

    __hash__ = None  # as LangGraph's own channels

    def from_checkpoint(self, checkpoint: Any) -> Self:
        return super().from_checkpoint(_restored(self._field, checkpoint))

    def update(self, values: Sequence[Any]) -> bool:
        for value in values:
            if type(value) is Begun:
                self.value = value.value
            elif _restarts(value):
                found = value.value[_RESTART]
                self.value = _restored(self._field, found[0]) if found else _Reduced(self.typ, self.operator).value
            else:
                self.value = value if not self.is_available() else self.operator(self.value, value)
        return bool(values)

    @property
    def _field(self) -> Field:
        return cast("Any", self.operator).__self__


class _AsMessages(BaseChannel[Any, Any, Any]):
    """A field that callers see as messages. What is reduced and stored are its records."""

    shown_as: NativeField

    def copy(self) -> Self:
        return self._of(super().copy())

    def from_checkpoint(self, checkpoint: Any) -> Self:
        return self._of(super().from_checkpoint(checkpoint))

    def get(self) -> Any:
        return Shown(self.shown_as, super().get())

    def update(self, values: Sequence[Any]) -> bool:
        return super().update([records_of(value) for value in values])

    def _of(self, made: Self) -> Self:
        made.shown_as = self.shown_as
        return made


class _PlainMessages(_AsMessages, _Plain):
    """One that holds what was written last."""


class _ReducedMessages(_AsMessages, _Reduced):
    """One with a reducer."""


class _Before(LastValue[Any]):
    """Holds its value until the turn ends."""

    def finish(self) -> bool:
        had_value = self.is_available()
        self.value = MISSING
        return had_value
