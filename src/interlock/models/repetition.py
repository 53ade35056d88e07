"""Detects a model that repeats itself endlessly while it streams: the same words over and over, or only whitespace."""

from __future__ import annotations

from interlock.errors import ModelOutputInvalid

__all__ = ["LoopDetector"]

_EVERY = 128
"""How many new characters there are between two checks."""

_PROBE = 32
_LONGEST_UNIT = 500
_MIN_REPEATS = 8
_MIN_CHARACTERS = 1_000
_MIN_CHARACTERS_OF_RULES = 4_000
"""Limit for horizontal rules, columns of zeros and so on: `-----`, `0, 0, 0`."""

_DISTINCT = 3


class LoopDetector:
    """Raises ModelOutputInvalid once the end of a streamed answer is one unit of text, repeated many times."""

    def __init__(self) -> None:
        self._tail = ""
        self._unread = 0

    def add(self, text: str) -> None:
        """Add text. Raises ModelOutputInvalid if the answer repeats itself."""
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
            raise ModelOutputInvalid("The model repeated itself endlessly and was stopped. Rephrase the request, or choose another model.")
