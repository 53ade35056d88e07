"""The phrases that a question is made of: every word belongs to one, and those that are not known are phrases of one word."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass

from interlock_agents.analyst.lexicon import PHRASES, REWRITTEN
from interlock_agents.analyst.limits import Limit, limit_at
from interlock_agents.analyst.periods import Period, period_at
from interlock_agents.analyst.shapes import class_of
from interlock_agents.analyst.spelling import respelt

__all__ = ["Phrase", "count_in", "phrases_of", "shape_class"]

_WORD = re.compile(
    r"(?:19|20)\d\d-\d\d(?:-\d\d)?(?!\d)|(?:19|20)\d\d-q[1-4]\b|\d{1,2}[./]\d{1,2}[./](?:19|20)\d\d(?!\d)|\d+(?:st|nd|rd|th)\b|\d+(?:[.,]\d+)*"
    r"|[^\W\d_][\w.-]*\w|\w|(?<=\d) ?[-\u2013] ?(?=\d)|[%&,/<>=]"
)
_LONGEST_PHRASE = max(map(len, PHRASES))
_SINGLED_OUT = {"or": "OR", "there": "THERE", "who": "WHO", "spend": "SPENT", "spends": "SPENT", "spent": "SPENT"}
_MOST_TOP = 1000
_NUMBER_WORDS = {"three": 3, "five": 5, "ten": 10, "two": 2, "four": 4, "six": 6, "seven": 7, "eight": 8, "nine": 9, "twenty": 20}


@dataclass(frozen=True)
class Phrase:
    """Words with their kind and what they stand for. A word that is not known has the kind ''."""

    kind: str
    value: str
    words: str
    period: Period | None = None
    limit: Limit | None = None


def phrases_of(question: str, today: dt.date) -> tuple[list[Phrase], list[str]]:
    """Take a question apart. Return its phrases, and what has to be said about how they were read."""
    words, notes = _spelt(_words(question.strip(" ,")))
    found = _with_amounts(_phrases(words, today))
    while found and (found[-1].words == "," or (found[-1].kind, found[-1].value) == ("neutral", "")):
        found.pop()
    return found, notes


def shape_class(phrase: Phrase) -> str:
    """Return the class of a phrase for the shape of its question."""
    if not phrase.kind:
        return "NUMBER" if count_in(phrase.words) is not None else "UNKNOWN"
    return _SINGLED_OUT.get(phrase.words) or class_of(phrase.kind, phrase.value)


def count_in(word: str) -> int | None:
    """Read a number of rows that can be asked for."""
    if word.isascii() and word.isdigit() and len(word) < len(str(_MOST_TOP)) + 1:
        return int(word) if 0 < int(word) <= _MOST_TOP else None
    return _NUMBER_WORDS.get(word)


def _words(text: str) -> list[str]:
    plain = " ".join(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    plain = re.sub(r"\b(what|how|who|where|there|here|it|that)'(?:s|re)\b", r"\1 is", plain)
    plain = re.sub(r"'(?:s|re|ve|ll|d|m)\b|'", " ", plain).replace("\N{EURO SIGN}", " euro ").replace("$", " dollars ")
    for pattern, plainer in REWRITTEN:
        plain = re.sub(pattern, plainer, plain)
    return [word.strip() for word in _WORD.findall(plain)]


def _spelt(words: Sequence[str]) -> tuple[list[str], list[str]]:
    found = [respelt(word) for word in words]
    notes = [f"I read '{word}' as '{meant}'." for word, meant in zip(words, found, strict=True) if meant is not None]
    return [meant or word for word, meant in zip(words, found, strict=True)], notes


def _phrases(words: list[str], today: dt.date) -> list[Phrase]:
    """Take the longest phrase that is known at each word, or a period or a limit."""
    found: list[Phrase] = []
    at = 0
    while at < len(words):
        phrase = next((n for n in range(min(_LONGEST_PHRASE, len(words) - at), 0, -1) if tuple(words[at : at + n]) in PHRASES), 0)
        period, limit = period_at(words, at, today), limit_at(words, at)
        if limit is not None:
            used = limit[1]
            found.append(Phrase("limit", limit[0].measure, " ".join(words[at : at + used]), limit=limit[0]))
        elif period is not None and period[1] >= phrase:
            used = period[1]
            found.append(Phrase("period", period[0].label, " ".join(words[at : at + used]), period[0]))
        elif phrase:
            used = phrase
            kind, value = PHRASES[tuple(words[at : at + used])]
            found.append(Phrase(kind, value, " ".join(words[at : at + used])))
        else:
            used = 1
            found.append(Phrase("", "", words[at]))
        at += used
    return found


def _with_amounts(phrases: Sequence[Phrase]) -> list[Phrase]:
    """Read 'how much' as revenue where it asks for what was bought; else the figure says what is meant."""
    is_sold = any(one.kind == "word" and one.value == "sold" for one in phrases) and not any(one.kind == "measure" for one in phrases)
    return [Phrase("measure", "revenue", one.words) if is_sold and (one.kind, one.value) == ("word", "amount") else one for one in phrases]
