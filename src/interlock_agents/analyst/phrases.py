"""Splits a question into phrases. Every word belongs to one phrase; an unknown word is a phrase of its own."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from interlock_agents.analyst.periods import NUMBERS, Period, join, open_ended, period_at
from interlock_agents.analyst.vocabulary import IDIOMS, MISSPELLINGS, PHRASES

__all__ = ["Phrase", "count_in", "phrases_of"]

_WORD = re.compile(
    r"(?:19|20)\d\d-\d\d(?:-\d\d)?(?!\d)|(?:19|20)\d\d-q[1-4]\b|\d{1,2}[./]\d{1,2}[./](?:19|20)\d\d(?!\d)|\d+(?:st|nd|rd|th)\b|\d+(?:[.,]\d+)*"
    r"|[^\W\d_][\w.-]*\w|\w|(?<=\d) ?[-\u2013] ?(?=\d)|[%&,/<>=]"
)
_MAX_PHRASE = max(map(len, PHRASES))
_MAX_COUNT = 1000


@dataclass(frozen=True)
class Phrase:
    """Words with their kind, their value and their class in the grammar. The kind of an unknown word is ''."""

    kind: str
    value: str
    word_class: str
    words: str
    period: Period | None = None


def phrases_of(question: str, today: dt.date) -> tuple[list[Phrase], list[str]]:
    """Return the phrases of a question, and notes about corrected words."""
    words = _words(question.strip(" ,"))
    found = _with_ranges(_phrases([MISSPELLINGS.get(word, word) for word in words], today))
    while found and (found[-1].words == "," or found[-1].word_class == "ANYWHERE"):
        found.pop()
    # 'How much' asks for revenue if something was sold and no figure is named.
    if any(one.word_class == "SOLD" for one in found) and not any(one.kind == "measure" for one in found):
        found = [replace(one, kind="measure", value="revenue", word_class="FIGURE") if one.word_class == "AMOUNT" else one for one in found]
    return found, [f"I read '{word}' as '{MISSPELLINGS[word]}'." for word in dict.fromkeys(words) if word in MISSPELLINGS]


def count_in(word: str) -> int | None:
    """Parse the number of rows of a ranking."""
    if word.isascii() and word.isdigit() and len(word) <= len(str(_MAX_COUNT)):
        return int(word) if 0 < int(word) <= _MAX_COUNT else None
    return {name: number for number, name in enumerate(NUMBERS) if number > 1}.get(word, 20 if word == "twenty" else None)


def _words(text: str) -> list[str]:
    plain = " ".join(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    plain = re.sub(r"\b(what|how|who|where|there|here|it|that)'(?:s|re)\b", r"\1 is", plain)
    plain = re.sub(r"'(?:s|re|ve|ll|d|m)\b|'", " ", plain).replace("\N{EURO SIGN}", " euro ").replace("$", " dollars ")
    for pattern, plainer in IDIOMS:
        plain = pattern.sub(plainer, plain)
    return [word.strip() for word in _WORD.findall(plain)]


def _phrases(words: list[str], today: dt.date) -> list[Phrase]:
    """Take a period or the longest known phrase at each word."""
    found: list[Phrase] = []
    at = 0
    while at < len(words):
        known = next((n for n in range(min(_MAX_PHRASE, len(words) - at), 0, -1) if tuple(words[at : at + n]) in PHRASES), 0)
        period = period_at(words, at, today)
        used = period[1] if period is not None and period[1] >= known else known or 1
        text = " ".join(words[at : at + used])
        if period is not None and period[1] >= known:
            found.append(Phrase("period", period[0].label, "TIME", text, period[0]))
        elif known:
            found.append(Phrase(*PHRASES[tuple(words[at : at + used])], text))
        else:
            found.append(Phrase("", "", "NUMBER" if count_in(text) is not None else "UNKNOWN", text))
        at += used
    return found


def _with_ranges(phrases: Sequence[Phrase]) -> list[Phrase]:
    """Join the phrases of one period: 'from March to May 2025', 'since 2025'."""
    found: list[Phrase] = []
    for phrase in phrases:
        before = [at for at, one in enumerate(found) if one.word_class not in {"IN", "ANYWHERE"}][-3:]
        word, *earlier = (found[at] for at in reversed(before)) if before else (phrase,)
        period, first = phrase.period, earlier[0].period if earlier else None
        is_from = [one.value for one in earlier[1:]] == ["from"]
        is_open = bool(before) and not (earlier and earlier[0].value == "from")
        is_open = is_open and all(one.word_class == "ANYWHERE" for one in found[before[-1] + 1 :])
        if period is not None and first is not None and not first.ends and (word.value == "to" or (word.value == "and" and is_from)):
            joined = join(first, period)
            if joined is None:
                found.append(replace(phrase, kind="", word_class="UNKNOWN", period=None))
                continue
            del found[before[-2] :]
            phrase = replace(phrase, period=joined)  # noqa: PLW2901 - the phrase with the words before it
        elif period is not None and period.start is not None and is_open and word.value in {"since", "after", "before", "to"}:
            del found[before[-1] :]
            phrase = replace(phrase, period=open_ended(word.value, period))  # noqa: PLW2901 - the phrase with the word before it
        found.append(phrase)
    return found
