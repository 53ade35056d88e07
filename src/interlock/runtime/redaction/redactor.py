"""Finds and replaces secrets in text and JSON data: what matches a configured pattern, and values that are known to be secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import regex
from pydantic_core import PydanticSerializationError, from_json

from interlock.contract.schema import regex_test, to_json, write_json
from interlock.runtime.redaction.encodings import encodings, text_content

__all__ = ["REDACTED", "Redactor", "StreamRedactor"]

REDACTED = "[redacted]"

# A simple pattern means the same to Python's and to Rust's regular expressions: characters, groups and character classes, but
# no anchors, look-around or flags.
_ESCAPED = r"\\(?:[^A-Za-z0-9]|[nrt])"
_CLASS = rf"\[\^?(?:(?!--|&&|~~|\|\|)[^\\\[\]]|{_ESCAPED})+\]"
_SIMPLE = regex.compile(rf"(?:[^\\\[\]^$()]|\((?!\?)|\(\?:|\)|{_ESCAPED}|{_CLASS})*")

_MAX_CACHED_LENGTH, _MAX_CACHED = 128, 2048  # final chunks that are remembered: their length, and how many
_MAX_HELD = 64 * 1024  # characters of a stream that are held back because they could be the start of a secret
_LOOK_BEHIND = 256  # characters before a chunk that a pattern with look-behind can see

_SURROGATE = re.compile("[\ud800-\udfff]")  # Rust's engine does not accept text with a lone surrogate
Span = tuple[int, int]


class Redactor:
    """Replaces secrets in text and JSON data. Secrets can be added while a turn runs."""

    def __init__(self, patterns: Sequence[str] = (), *, literals: Iterable[str] = (), keys: frozenset[str] = frozenset()) -> None:
        """Look for patterns and literals. `keys` are keys of JSON data that are never redacted, because the code defines them."""
        is_simple = all(_SIMPLE.fullmatch(pattern) for pattern in patterns)
        self._keys = keys
        self._pattern: Any = regex.compile("|".join(f"(?:{p})" for p in patterns)) if patterns else None
        self._may_match = _fast_test(patterns, is_simple=is_simple)
        self.literals: tuple[str, ...] = ()
        self._final: set[str] = set()
        self.look_behind = _LOOK_BEHIND if patterns and not is_simple else 0
        self.add_secret(list(literals))

    def for_turn(self, keys: frozenset[str] = frozenset()) -> Redactor:
        """Return a redactor that knows the same secrets. Secrets that are added to it are not added to this one."""
        copy = object.__new__(Redactor)
        # The cache is shared until a secret is added to one of the two.
        copy.__dict__.update(self.__dict__, _keys=keys)
        return copy

    def add_secret(self, secret: Any) -> None:
        """Redact a value from now on, also where it is written inside JSON, a repr, base64 or a URL."""
        self.add_literals({literal for literal in encodings(secret) if literal not in REDACTED})

    def add_literals(self, literals: Iterable[str]) -> None:
        """Redact these texts from now on, such as those that another redactor knows."""
        new = set(literals) - set(self.literals)
        if new:
            self.literals = (*self.literals, *new)
            # Replace the cache instead of clearing it: a redactor that shares it does not know the new secret.
            self._final = set()

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        spans = self.spans(text)
        return _replace(text, spans) if spans else text

    def spans(self, text: str) -> list[Span]:
        """Return where the secrets in a text are. Spans may overlap."""
        spans = [span for literal in self.literals if literal in text for span in _occurrences(text, literal)]
        if self._may_match(text):
            spans += [match.span() for match in self._pattern.finditer(text) if match.end() > match.start()]
        return spans

    def to_json(self, value: Any) -> Any:
        """Convert a value to JSON data without secrets.

        Nearly every value is clean, so it is first searched as a whole, as serialized JSON: JSON without escapes contains every text
        of the value literally.
        """
        try:
            written = write_json(value)
            data = from_json(written)
        except (PydanticSerializationError, ValueError):
            # The value has a lone surrogate, or is nested too deep.
            return self.data(to_json(value))
        if b"\\" not in written and not self._may_match(written):
            if not self.literals:
                return data
            text = written.decode()
            if not any(literal in text for literal in self.literals):
                return data
        return self.data(data)

    def redact_literals(self, data: Any) -> Any:
        """Return JSON data without the known secrets. Text that only matches a pattern stays."""
        if not self.literals:
            return data
        literals_only = Redactor(keys=self._keys)
        literals_only.literals = self.literals
        return literals_only.data(data)

    def data(self, value: Any) -> Any:
        """Return JSON data without secrets, also in its keys. Lists and mappings are changed in place."""
        kind = value.__class__
        if kind is str:
            return self.text(value)
        if kind is dict:
            for key in list(value):
                shown = key if key in self._keys else self.text(key)
                item = self.data(value[key])
                if shown != key:
                    del value[key]
                    # Two keys that became equal by redaction both stay.
                    while shown in value:
                        shown += "'"
                value[shown] = item
            return value
        if kind is list:
            for position, item in enumerate(value):
                value[position] = self.data(item)
            return value
        if self.literals and kind in (int, float) and str(value) in self.literals:
            return REDACTED
        return value

    def is_final(self, chunk: str) -> bool:
        """Return whether a chunk contains no secret and does not end with the start of one. The tokens of a model recur."""
        if chunk in self._final:
            return True
        is_final = len(chunk) <= _MAX_CACHED_LENGTH and not (spans := self.spans(chunk)) and self.safe_length(chunk, spans) == len(chunk)
        if is_final:
            if len(self._final) >= _MAX_CACHED:
                self._final.clear()
            self._final.add(chunk)
        return is_final

    def safe_length(self, text: str, spans: list[Span]) -> int:
        """Return how many characters of a text are final. What follows them could be the start of a secret that continues."""
        length = len(text)
        spans = [*spans, *((start, length + 1) for literal in self.literals for start in _partial_occurrence(text, literal))]
        pattern, position = self._pattern, 0
        # At the very end of a text the pattern matches partially, with nothing.
        while pattern is not None and (found := pattern.search(text, position, partial=True)) is not None and found.start() < length:
            may_continue = pattern.fullmatch(text, found.start(), partial=True) is not None
            spans.append((found.start(), length + 1 if may_continue else found.end()))
            position = max(found.end(), position + 1)
        safe = length
        for start, end in sorted(spans, reverse=True):
            if start < safe < end:
                safe = start
        return safe


class StreamRedactor:
    """Replaces secrets in text that arrives in chunks. What could be the start of a secret is held back until more arrives."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before = ""
        self._held = ""
        self._is_closed = False

    def feed(self, text: str) -> str:
        """Add a chunk and return the text that can be shown now."""
        if self._is_closed:
            return ""
        redactor = self._redactor
        if not self._held and not redactor.look_behind and redactor.is_final(text):
            return text
        self._held += text
        whole = self._before + self._held
        spans = redactor.spans(whole)
        position = max(redactor.safe_length(whole, spans), len(self._before))
        if len(whole) - position > max([_MAX_HELD, *map(len, redactor.literals)]):
            # All of it may be one secret, and where that secret ends cannot be known. Show nothing more of this stream.
            self._is_closed = True
            return self._show(whole, spans, position) + REDACTED
        return self._show(whole, spans, position)

    def hides(self, chunk: Any) -> bool:
        """Add a chunk that is not text. Return whether its text contains, starts or ends a secret."""
        text = text_content(chunk)
        return self.feed(text) != text

    def flush(self) -> str:
        """Return the text that was held back, at the end of the stream."""
        if self._is_closed:
            return ""
        whole = self._before + self._held
        return self._show(whole, self._redactor.spans(whole), len(whole))

    def _show(self, whole: str, spans: list[Span], position: int) -> str:
        """Return the text up to a position, without the part that was shown before, and hold back the rest."""
        start = len(self._before)
        look_behind = self._redactor.look_behind
        self._before = whole[max(0, position - look_behind) : position] if look_behind else ""
        self._held = whole[position:]
        inside = [(begin - start, min(end, position) - start) for begin, end in spans if start <= begin < position]
        return _replace(whole[start:position], inside)


def _fast_test(patterns: Sequence[str], *, is_simple: bool) -> Callable[[str | bytes], bool]:
    """Return a fast test for text that may match one of the patterns. Nearly no text does.

    The syntax of the Rust engine differs from Python's, so it gets only patterns that mean the same in both. A text for
    which the test is true is searched with Python's engine afterwards.
    """
    if not patterns:
        return lambda _: False
    matches = regex_test("|".join(f"(?:{p})" for p in patterns)) if is_simple else None
    if matches is None:
        return lambda _: True
    return lambda text: matches(text) or (isinstance(text, str) and not text.isascii() and _SURROGATE.search(text) is not None)


def _occurrences(text: str, literal: str) -> Iterable[Span]:
    """Find every occurrence of a literal in a text, overlapping ones included."""
    start = text.find(literal)
    while start >= 0:
        yield start, start + len(literal)
        start = text.find(literal, start + 1)


def _partial_occurrence(text: str, literal: str) -> Iterable[int]:
    """Find the start of the longest suffix of `text` that is a prefix of `literal`."""
    start = text.find(literal[0], max(0, len(text) - len(literal) + 1))
    while start >= 0:
        if literal.startswith(text[start:]):
            yield start
            return
        start = text.find(literal[0], start + 1)


def _replace(text: str, spans: list[Span]) -> str:
    """Replace these parts of a text by `REDACTED`. Overlapping parts are replaced by one."""
    shown: list[str] = []
    end_of_last = 0
    for start, end in sorted(spans):
        if start >= end_of_last:
            shown += [text[end_of_last:start], REDACTED]
        end_of_last = max(end_of_last, end)
    return "".join([*shown, text[end_of_last:]])
