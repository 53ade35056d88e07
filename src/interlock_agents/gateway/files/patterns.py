"""Patterns for the names of files: `*.md`, `src/**/*.{py,pyi}`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import regex
from wcmatch import glob as wcmatch_glob

from interlock.errors import InputTooLarge, ToolInputInvalid, ToolTimeout
from interlock_agents.gateway.errors import PathDenied
from interlock_agents.gateway.files.paths import shown

__all__ = ["NamePattern"]

_LENGTH = 1_000
_ALTERNATIVES = 1_000
_ALTERNATIVES_LENGTH = 100_000  # characters of all alternatives together: compiling more takes seconds
_SECONDS = 0.25  # for one name and one alternative; an ordinary pattern takes microseconds
_translate = cast("Any", wcmatch_glob.translate)


class NamePattern:
    """Matches paths as deepagents' own backends do.

    A pattern without `/` matches names in any folder, one with `/` matches paths relative to the start of the search. wcmatch
    translates it, and `regex` matches it with a timeout: `*a*a*a*b` takes exponential time on some names.
    """

    def __init__(self, text: str, *, until: float) -> None:
        if len(text) > _LENGTH:
            raise InputTooLarge(f"The pattern {shown(text)} is longer than {_LENGTH:,} characters.")
        if ".." in text.replace("\\", "/").split("/"):
            raise PathDenied(f"The pattern {shown(text)} has '..' in it. Patterns begin at '/' and go down only.")
        self._text = text
        self._until = until
        self._of_paths = "/" in text
        self._compiled: list[regex.Pattern[str]] = []
        self._left = iter(self._alternatives())

    def matches(self, path: str) -> bool:
        """Return whether a path matches. It is relative to the start of the search, without a leading `/`."""
        subject = path if self._of_paths else path.rpartition("/")[2]
        return any(self._fits(pattern, subject) for pattern in self._patterns())

    def _fits(self, pattern: regex.Pattern[str], subject: str) -> bool:
        left = self._until - time.monotonic()
        if left <= 0:
            raise self._too_slow()
        try:
            return pattern.fullmatch(subject, timeout=min(left, _SECONDS)) is not None
        except TimeoutError:
            raise self._too_slow() from None

    def _patterns(self) -> Iterator[regex.Pattern[str]]:
        yield from self._compiled
        for alternative in self._left:
            if time.monotonic() > self._until:
                raise self._too_slow()
            self._compiled.append(regex.compile(alternative))
            yield self._compiled[-1]

    def _alternatives(self) -> list[str]:
        try:
            translated = _translate(self._text.lstrip("/"), flags=wcmatch_glob.BRACE | wcmatch_glob.GLOBSTAR, limit=_ALTERNATIVES)
        except Exception:  # noqa: BLE001 - the library has no public type for a pattern that it refuses
            raise ToolInputInvalid(f"The pattern {shown(self._text)} cannot be used; it may stand for too many others.") from None
        alternatives = [str(alternative) for alternative in translated[0]]
        if sum(map(len, alternatives)) > _ALTERNATIVES_LENGTH:
            raise InputTooLarge(f"The pattern {shown(self._text)} stands for too many others.")
        return alternatives

    def _too_slow(self) -> ToolTimeout:
        return ToolTimeout(f"The pattern {shown(self._text)} takes too long to match.")
