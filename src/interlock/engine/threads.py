"""Threads of a LangGraph checkpointer: which fields of the state a new run of an exported graph starts with.

A checkpointer keeps every field from one run to the next, also after a run that failed. So a new input resets the fields that
belong to one run, and restores the persisted fields to what the last finished run left. LangGraph can still resume a failed run by
an input of None, because nothing is restored before a new input comes.
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

__all__ = ["BEFORE", "begin_turns", "channel_of"]

BEFORE = "interlock_before"
"""The channel that holds, during a run, the values that the persisted fields had before it."""

_RESTART = "interlock_restart"


def channel_of(field: Field, native: NativeField | None = None) -> Any:
    """Create the channel of a field; `native` is given for a field that callers see as messages."""
    return (_Plain if field.reducer is None else _Reduced)(field, native)


def begin_turns(compiled: CompiledStateGraph[Any, Any, Any, Any], fields: Iterable[str], persisted: Collection[str]) -> None:
    """Change a compiled graph so that each run starts with the persisted fields and no others."""
    compiled.channels[BEFORE] = _Before(Any, key=BEFORE)
    start = compiled.nodes[START]
    taking, *others = cast("list[ChannelWrite]", start.writers)
    read_input, *more = cast("Sequence[ChannelWriteTupleEntry]", taking.writes)
    begin = ChannelWriteTupleEntry(mapper=_beginning(read_input.mapper, tuple(fields), tuple(persisted)))
    writers = [ChannelWrite((begin, *map(_of_input, more))), *others]
    compiled.nodes[START] = start.copy({"channels": [START, BEFORE, *persisted], "writers": writers})


def _beginning(
    read_input: Callable[[Any], Any], fields: tuple[str, ...], persisted: tuple[str, ...]
) -> Callable[[Mapping[str, Any] | None], Sequence[tuple[str, Any]]]:
    per_run = [(name, _restart()) for name in fields if name not in persisted]

    def begin(read: Mapping[str, Any] | None) -> Sequence[tuple[str, Any]]:
        """Return what is written when a new input comes. `BEFORE` has a value only if the last run did not finish."""
        if read is None:
            # LangGraph calls it without a state to draw the graph.
            return ()
        before: Values | None = read.get(BEFORE)
        restored: list[tuple[str, Any]] = []
        if before is None:
            before = {name: records_of(read[name]) for name in persisted if name in read}
        else:
            restored = [(name, _restart(*([before[name]] if name in before else []))) for name in persisted]
        return [(BEFORE, before), *per_run, *restored, *(read_input(read[START]) or ())]

    return begin


def _of_input(entry: ChannelWriteTupleEntry) -> ChannelWriteTupleEntry:
    """Pass a writer of LangGraph's own the input alone, without the fields that START reads besides."""

    def of_input(read: Mapping[str, Any] | None) -> Any:
        return entry.mapper(read and read[START])

    return entry._replace(mapper=of_input)


def _restart(*value: Any) -> Overwrite:
    """Return a marker that resets a field: to a value, or to unset as on a new thread.

    It is of LangGraph's own class, because a checkpointer has to store it until the step has ended.
    """
    return Overwrite({_RESTART: list(value)})


def _is_restart(value: Any) -> bool:
    return type(value) is Overwrite and isinstance(value.value, dict) and _RESTART in value.value


class _FieldChannel(BaseChannel[Any, Any, Any]):
    """The channel of a field. Where callers see messages (`native`), it holds and stores the records that they are made from."""

    value: Any

    def __init__(self, field: Field, native: NativeField | None) -> None:
        self.field = field
        self.native = native

    def copy(self) -> Self:
        return self._with(self.value)

    def from_checkpoint(self, checkpoint: Any) -> Self:
        return self._with(self._restored(checkpoint))

    def get(self) -> Any:
        value = super().get()
        return value if self.native is None else Shown(self.native, value)

    def _with(self, value: Any) -> Self:
        made = type(self)(self.field, self.native)
        made.value = made.value if value is MISSING else value
        return made

    def _restored(self, value: Any) -> Any:
        """Convert a stored value to the field's type. A serializer may return dicts where it cannot create the field's classes.

        A value that does not fit is returned as it is, so that the thread can still be inspected. A node that reads it fails.
        """
        try:
            return value if value is MISSING else self.field.restore(value)
        except StateIncompatible:
            return value

    def _restarted(self, marker: Overwrite) -> Any:
        """Return the value that a marker resets the field to."""
        found = marker.value[_RESTART]
        return self._restored(found[0]) if found else self._with(MISSING).value


class _Plain(_FieldChannel, LastValue[Any]):
    """The channel of a field without a reducer."""

    def __init__(self, field: Field, native: NativeField | None) -> None:
        _FieldChannel.__init__(self, field, native)
        LastValue.__init__(self, field.hint, field.name)

    def update(self, values: Sequence[Any]) -> bool:
        written = [records_of(value) for value in values if not _is_restart(value)]
        if written or not values:
            return super().update(written)
        before, self.value = self.value, self._restarted(values[-1])
        return self.value is not before


class _Reduced(_FieldChannel, BinaryOperatorAggregate[Any]):
    """The channel of a field with a reducer. The reducer gets every value that is written, also one that looks like a marker."""

    def __init__(self, field: Field, native: NativeField | None) -> None:
        _FieldChannel.__init__(self, field, native)
        BinaryOperatorAggregate.__init__(self, field.hint, field.reduce_stored)

    def update(self, values: Sequence[Any]) -> bool:
        for value in map(records_of, values):
            if _is_restart(value):
                self.value = self._restarted(value)
            else:
                self.value = self.operator(self.value, value) if self.is_available() else value
        return bool(values)


class _Before(LastValue[Any]):
    """The channel BEFORE, which is empty after the end of a run."""

    def finish(self) -> bool:
        had_value = self.is_available()
        self.value = MISSING
        return had_value
