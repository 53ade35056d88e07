"""The values in the events of a turn: what a step reads was written by an earlier one, and is not written again in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from interlock.contract.copying import deep_copy
from interlock.runtime.json_lines import encode_json

__all__ = ["KnownValues", "Names"]

Names = Mapping[str, list[str]]
"""All names of the mappings in the data of an event of which values are left out, in their order."""

_Values = dict[str, Any]
_ABSENT = object()
_STATE = "state"
"""What the output of a turn has its values under."""
_PARTS = (("input", "input.state"), ("output", "output.state"))
_CONTAINERS = frozenset({dict, list})
_LONGEST = 8
"""How long a text may be that is rather written again than left out."""


class KnownValues:
    """The last value of each name in the inputs and outputs of a turn's events. Values are JSON data."""

    def __init__(self) -> None:
        self._values: _Values = {}
        self._before: list[tuple[int, str, Any]] = []
        """What a value was before the event of a number, for `go_back`."""

    def note(self, data: Mapping[str, Any]) -> None:
        """Remember the values of an event that is written with all of them."""
        for part, inside in _PARTS:
            whole = _mapping(data.get(part))
            if _STATE in whole:
                self._rest(_mapping(whole[_STATE]), inside, {})
                self._rest(whole, part, {})
            else:
                self._values.update(whole)

    def shorten(self, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], Names]:
        """Return the data of an event without the values that are known, and the names of what they were left out of."""
        names: dict[str, list[str]] = {}
        short: _Values = {}
        for part, inside in _PARTS:
            whole = _mapping(data.get(part))
            if whole:
                state = _mapping(whole.get(_STATE))
                if state:
                    whole = {**whole, _STATE: self._rest(state, inside, names)}
                short[part] = self._rest(whole, part, names)
        return ({**data, **short} if names else data), names

    def restore(self, data: _Values, names: Names, number: int) -> _Values:
        """Return the whole data of the event of a number. It is changed."""
        for part, inside in _PARTS:
            written = _mapping(data.get(part))
            if written or part in names:
                state = _mapping(written.get(_STATE))
                if state or inside in names:
                    written[_STATE] = self._whole(state, names.get(inside), number)
                data[part] = self._whole(written, names.get(part), number)
        return data

    def go_back(self, number: int) -> None:
        """Forget the values of the events from a number on: they were replaced by others."""
        while self._before and self._before[-1][0] >= number:
            _, name, value = self._before.pop()
            if value is _ABSENT:
                del self._values[name]
            else:
                self._values[name] = value

    def _rest(self, whole: _Values, part: str, names: dict[str, list[str]]) -> _Values:
        """Return what is not known of a mapping, or all of it where leaving something out would save nothing."""
        values, rest, saves = self._values, _Values(), False
        for name, value in whole.items():
            kind, known = cast("type[Any]", type(value)), values.get(name, _ABSENT)
            if name == _STATE and kind is dict:
                rest[name] = value  # its values are known, not it as a whole
            elif kind is type(known) and known == value and not (kind in _UNLIKE and encode_json(known) != encode_json(value)):
                saves = saves or kind in _CONTAINERS or (kind is str and len(value) > _LONGEST)
            else:
                rest[name] = values[name] = value
        if not saves:
            return whole
        names[part] = list(whole)
        return rest

    def _whole(self, written: _Values, names: list[str] | None, number: int) -> _Values:
        """Return a mapping with the values that were left out."""
        values = self._values
        for name, value in written.items():
            if name != _STATE or type(value) is not dict:
                self._before.append((number, name, values.get(name, _ABSENT)))
                # The reader of the event may change it.
                values[name] = deep_copy(value)
        if names is None:
            return written
        return {name: written[name] if name in written else deep_copy(values[name]) for name in names}


_UNLIKE = frozenset({dict, list, float})
"""Types whose values may be equal and yet be written in another way: 1 and 1.0 in a list, or mappings in another order."""


def _mapping(value: Any) -> _Values:
    """Return a value that is a mapping; an empty one for any other value."""
    return cast("_Values", value) if type(value) is dict else {}
