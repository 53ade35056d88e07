"""What no event, log line, span or error may show: configured patterns, and the values of fields labelled Secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import regex
from pydantic_core import PydanticSerializationError, SchemaError, SchemaValidator, core_schema, from_json

from interlock.contract.codec import Write, to_json, write_any
from interlock.runtime.redaction.encodings import forms, text_of
from interlock.runtime.redaction.prefixes import Looker, beginnings, looker

__all__ = ["REDACTED", "Redactor", "StreamRedactor"]

REDACTED = "[redacted]"
# Patterns that mean the same everywhere: characters, groups, classes of characters; no anchors, look-around or flags.
_ESCAPED = r"\\(?:[^A-Za-z0-9]|[nrt])"
_CLASS = rf"\[\^?(?:(?!--|&&|~~|\|\|)[^\\\[\]]|{_ESCAPED})+\]"
_SIMPLE = regex.compile(rf"(?:[^\\\[\]^$()]|\((?!\?)|\(\?:|\)|{_ESCAPED}|{_CLASS})*")
_SHORT, _MOST_CLEAN = 128, 2048  # characters of a text that is remembered to have nothing to hide, and how many are
_MOST_HELD = 64 * 1024  # characters of a stream that may wait for the end of what could become a secret
_GLANCE = 1024  # characters of a piece that are looked at in one go
_BEFORE = 256  # characters before a piece that a pattern may look back at

_LONE = re.compile("[\ud800-\udfff]")  # the fast engine takes no text that has one
Span = tuple[int, int]


class Redactor:
    """Takes secrets out of text and of JSON data. It learns more of them while a turn runs."""

    __slots__ = ("_begins", "_clean", "_finds", "_names", "_pattern", "known", "looks_back")

    def __init__(self, patterns: Sequence[str] = (), *, literals: Iterable[str] = (), names: frozenset[str] = frozenset()) -> None:
        """Look for patterns and literals; `names` are keys of JSON data that stay, because the code has them."""
        is_simple = all(_SIMPLE.fullmatch(pattern) for pattern in patterns)
        self._names = names
        self._pattern: Any = regex.compile("|".join(f"(?:{p})" for p in patterns)) if patterns else None
        self._finds = _finder(patterns, is_simple=is_simple)
        self._begins = beginnings(tuple(patterns)) if is_simple else None
        self.known: tuple[str, ...] = ()
        self._clean: set[str] = set()
        self.looks_back = _BEFORE if patterns and not is_simple else 0
        self.learn(list(literals))

    def for_turn(self, names: frozenset[str] = frozenset()) -> Redactor:
        """Return one that starts with what this one knows and keeps what it learns to itself."""
        made = object.__new__(Redactor)
        made._pattern = self._pattern
        made._finds = self._finds
        made._begins = self._begins
        made.known = self.known
        made.looks_back = self.looks_back
        made._names = names
        made._clean = self._clean  # until it learns something
        return made

    def learn(self, secret: Any) -> None:
        """Look for a value from now on, also as it looks inside JSON, a repr, base64 or a URL."""
        self._add({form for form in forms(secret) if form not in REDACTED})

    def learn_from(self, other: Redactor) -> None:
        """Look for everything that another one has learnt."""
        self._add(set(other.known))

    def _add(self, found: set[str]) -> None:
        if not found <= set(self.known):
            self.known = (*self.known, *(found - set(self.known)))
            self._clean = set()  # another one: whoever knows less goes on with what is clean for him

    @property
    def longest(self) -> int:
        """How long the longest secret is that is known."""
        return max(map(len, self.known), default=0)

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        if text in self._clean:
            return text
        spans = self.spans(text)
        if spans:
            return _hidden(text, spans)
        if len(text) <= _SHORT:
            if len(self._clean) >= _MOST_CLEAN:
                self._clean.clear()
            self._clean.add(text)
        return text

    def spans(self, text: str) -> list[Span]:
        """Find the secrets in a text."""
        found = [span for literal in self.known if literal in text for span in _spans(text, literal)]
        if self._finds(text):
            found += [match.span() for match in self._pattern.finditer(text) if match.end() > match.start()]
        return found

    def plain(self, value: Any, write: Write | None = None) -> Any:
        """Turn a value into plain JSON data without secrets; `write` knows how its type is written.

        Nearly everything is clean. Of short texts that is known or soon found out; of the rest it shows fastest in the JSON
        text as a whole: where nothing in it is escaped, it has every text of the value as it is.
        """
        if write is not None and value.__class__ is dict:
            clean = self._clean
            for item in value.values():
                if item is None or item is True or item is False:
                    continue
                if item.__class__ is not str or (item not in clean and (len(item) > _SHORT or self.text(item) != item)):
                    break
            else:
                return {**value}
        try:
            written = (write or write_any)(value)
            data = from_json(written)
        except (PydanticSerializationError, ValueError):  # a lone surrogate, or nested too deep
            return self.data(to_json(value))
        if b"\\" not in written and not self._finds(written):
            if not self.known:
                return data
            text = written.decode()
            if not any(literal in text for literal in self.known):
                return data
        return self.data(data)

    def literals_only(self, value: Any) -> Any:
        """Return JSON data without the values that are known to be secret; what only looks like one stays."""
        if not self.known:
            return value
        plainly = Redactor(names=self._names)
        plainly.known = self.known
        return plainly.data(value)

    def data(self, value: Any) -> Any:
        """Return JSON data without secrets, in its keys too. It is changed in place where it can be."""
        kind = value.__class__
        if kind is str:
            return value if value in self._clean else self.text(value)
        if kind is dict:
            for key in list(value):
                shown = key if key in self._names or key in self._clean else self.text(key)
                item = self.data(value[key])
                if shown != key:
                    del value[key]
                    while shown in value:  # two keys that look alike now are two all the same
                        shown += "'"
                value[shown] = item
            return value
        if kind is list:
            for position, item in enumerate(value):
                value[position] = self.data(item)
            return value
        if self.known and kind in (int, float) and str(value) in self.known:
            return REDACTED
        return value

    def looker(self) -> Looker | None:
        """Make what tells at a glance that a text neither has a secret nor ends with the beginning of one; None where nothing can."""
        return None if self._begins is None else looker((*self._begins, *self.known))

    def held(self, text: str, spans: list[Span]) -> int:
        """Return from which position on a text could be the beginning of a secret, or of one that goes on."""
        length = len(text)
        spans = [*spans, *((begin, length + 1) for literal in self.known for begin in _beginning(text, literal))]
        if self._pattern is not None:
            position = 0
            while position < length and (found := self._pattern.search(text, position, partial=True)) is not None:
                goes_on = self._pattern.fullmatch(text, found.start(), partial=True) is not None
                spans.append((found.start(), length + 1 if goes_on else found.end()))
                position = max(found.end(), position + 1)
        start = length
        for begin, end in sorted(spans, reverse=True):
            if begin < start < end:
                start = begin
        return start


class StreamRedactor:
    """Takes secrets out of text that comes in pieces: what could be the beginning of one waits for what follows."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before = ""
        self._waiting = ""
        self._is_closed = False
        self._known: tuple[str, ...] | None = None
        self._looker: Looker | None = None

    def feed(self, text: str) -> str:
        """Take a piece and return what can be shown now."""
        if self._is_closed:
            return ""
        redactor = self._redactor
        if self._known is not redactor.known:
            self._known, self._looker = redactor.known, redactor.looker()
        looker = self._looker
        if looker is not None and not self._waiting and looker.search(text) is None and len(text) <= _GLANCE:
            return text  # as nearly always
        self._waiting += text
        if looker is not None and len(self._waiting) <= _GLANCE:
            clear = looker.clear(self._waiting)
            if clear >= 0:
                shown, self._waiting = self._waiting[:clear], self._waiting[clear:]
                return shown
        whole = self._before + self._waiting
        spans = self._redactor.spans(whole)
        position = max(self._redactor.held(whole, spans), len(self._before))
        if len(whole) - position > max(_MOST_HELD, self._redactor.longest):
            # It may be one secret as long as this, and where it ends cannot be told: nothing more is shown.
            self._is_closed = True
            return self._show(whole, spans, position) + REDACTED
        return self._show(whole, spans, position)

    def hides(self, piece: Any) -> bool:
        """Take a piece that is no text, and tell whether it has, begins or ends a secret."""
        said = text_of(piece)
        return self.feed(said) != said

    def flush(self) -> str:
        """Return what is left."""
        if self._is_closed:
            return ""
        whole = self._before + self._waiting
        return self._show(whole, self._redactor.spans(whole), len(whole))

    def _show(self, whole: str, spans: list[Span], position: int) -> str:
        """Show a text up to a position, without what was shown before."""
        start = len(self._before)
        self._before = whole[max(0, position - self._redactor.looks_back) : position] if self._redactor.looks_back else ""
        self._waiting = whole[position:]
        return _hidden(
            whole[start:position], [(begin - start, min(end, position) - start) for begin, end in spans if start <= begin < position]
        )


def _finder(patterns: Sequence[str], *, is_simple: bool) -> Callable[[str | bytes], bool]:
    """Make a fast test for whether a text has anything to redact: nearly all texts have nothing.

    Pydantic's engine for patterns takes a tenth of the time. It has a language of its own, so it gets only what means the
    same in both, and a text that it finds nothing in is not looked at again.
    """
    if not patterns:
        return lambda _: False
    try:
        if is_simple:
            one = core_schema.str_schema(pattern="|".join(f"(?:{p})" for p in patterns), regex_engine="rust-regex")
            fast = SchemaValidator(one).isinstance_python
            return lambda text: fast(text) or (isinstance(text, str) and not text.isascii() and _LONE.search(text) is not None)
    except SchemaError:  # too large for it
        pass
    return lambda _: True


def _spans(text: str, literal: str) -> Iterable[Span]:
    """Find a literal in a text."""
    begin = text.find(literal)
    while begin >= 0:
        yield begin, begin + len(literal)
        begin = text.find(literal, begin + 1)


def _beginning(text: str, literal: str) -> Iterable[int]:
    """Find where the longest end of a text begins that a literal begins with: it may go on."""
    begin = text.find(literal[0], max(0, len(text) - len(literal) + 1))
    while begin >= 0:
        if literal.startswith(text[begin:]):
            yield begin
            return
        begin = text.find(literal[0], begin + 1)


def _hidden(text: str, spans: list[Span]) -> str:
    """Put a mark in the place of these parts of a text; parts that overlap become one."""
    shown: list[str] = []
    done = hidden = 0
    for begin, end in sorted(spans):
        if begin >= hidden:
            shown += [text[done:begin], REDACTED]
        hidden = done = max(hidden, end)
    return "".join([*shown, text[done:]])
