"""Notice a model that repeats itself without end, while it does: the same words again and again, or nothing but blanks."""

from __future__ import annotations

from interlock.errors import ModelOutputInvalid

__all__ = ["LoopDetector"]

_EVERY = 128
"""How many new characters come between two looks."""

_PROBE = 32
_LONGEST_UNIT = 500
_MIN_REPEATS = 8
_MIN_CHARACTERS = 1_000
_MIN_CHARACTERS_OF_RULES = 4_000
"""Lines, columns of zeros and the like: `-----`, `0, 0, 0`."""

_DISTINCT = 3


class LoopDetector:
    """Reads an answer as it comes and refuses it once its end is one unit of text, many times over."""

    def __init__(self) -> None:
        self._tail = ""
        self._unread = 0

    def add(self, text: str) -> None:
        """Read on. Raises where the answer has become a loop."""
        for start in range(0, len(text), _EVERY):
            part = text[start : start + _EVERY]
            self._tail += part
            self._unread += len(part)
            if self._unread >= _EVERY:
                self._look()

    def _look(self) -> None:
        self._tail, self._unread = self._tail[-(_MIN_CHARACTERS_OF_RULES + _LONGEST_UNIT) :], 0
        tail = self._tail
        found = tail.rfind(tail[-_PROBE:], max(0, len(tail) - _PROBE - _LONGEST_UNIT), len(tail) - 1)
        if found < 0:
            return
        period = len(tail) - _PROBE - found
        characters = set("".join(tail[-period:].split()))
        is_rule = 0 < len(characters) < _DISTINCT
        least = max(_MIN_REPEATS * period, _MIN_CHARACTERS_OF_RULES if is_rule else _MIN_CHARACTERS)
        if len(tail) >= least and tail[-least:-period] == tail[-least + period :]:
            raise ModelOutputInvalid("The model repeats itself without end, and was stopped. Ask in another way, or choose another model.")
