"""Questions back to the user: what was understood, what was not, and an example that works."""

from __future__ import annotations

import datetime as dt
import difflib
import re
from functools import lru_cache

from interlock_agents.analyst.figures import CannotAnswer, figures
from interlock_agents.analyst.parser import parse
from interlock_agents.analyst.question import Question
from interlock_agents.analyst.vocabulary import HINTS, MEASURES, PHRASES, VALUES

__all__ = ["EXAMPLES", "clarification", "hint_for", "similar_name"]

EXAMPLES = "revenue by country in 2025; top 5 products; what is net revenue; 17.5 * 24"
_DEFAULT = "revenue by country in 2025"
_SIMILARITY = 0.82
# Shorter words are similar to many figures, and longer ones take long to compare.
_MIN_LETTERS, _MAX_LETTERS = 6, 16
_NAMES = {"customers": "how many customers"}


def clarification(question: Question, today: dt.date) -> str:
    """Name the words that were not understood, or say that their combination was not, and suggest a question that works."""
    known = ", ".join(question.understood())
    if question.unknown:
        words = ", ".join(f"'{word}'" for word in question.unknown)[:200]
        similar = dict.fromkeys(name for word in question.unknown if (name := similar_name(word)) is not None)
        guess = f" Did you mean {' or '.join(similar)}?" if similar else ""
        hint = hint_for(" ".join(question.unknown))
        if not hint and any(word.isdigit() for word in question.unknown):
            hint = "I do not compare figures with a number or look up single orders and customers. SQL can: begin with SELECT."
        text = f"I did not understand {words}.{guess}{f' {hint}' if hint else ''}{f' What I understood is: {known}.' if known else ''}"
    else:
        text = f"I know the words of this question{f': {known}' if known else ''}, but not what they mean together."
    return f"{text} Could you say it in other words? For example: {_example(question, today)}."


def hint_for(text: str) -> str:
    """Return an explanation for words about something that is not in the data, or ''."""
    words = " ".join(re.findall(r"[a-z]+", text.lower()))
    return next((hint for pattern, hint in HINTS if pattern.search(words)), "")


@lru_cache(maxsize=1024)
def similar_name(word: str) -> str | None:
    """Return the known name that an unknown word is similar to. It is only suggested: 'Australia' is not 'Austria'."""
    kinds = {*VALUES, "group", *(["measure"] if len(word) >= _MIN_LETTERS else [])}
    known = {words[0]: one for words, one in PHRASES.items() if one.kind in kinds and len(words) == 1}
    if (word,) in PHRASES or not word.isalpha() or len(word) > _MAX_LETTERS:
        return None
    close = difflib.get_close_matches(word, known, n=1, cutoff=_SIMILARITY)
    return (close[0] if known[close[0]].kind == "measure" else known[close[0]].value) if close else None


def _example(question: Question, today: dt.date) -> str:
    """Build an example from what was understood. Use it only if the rules can answer it."""
    if not (question.measures or question.groups or question.filters or question.periods):
        return _DEFAULT
    measure = question.measures[0] if question.measures else "revenue"
    name = _NAMES.get(measure, MEASURES[measure].label.lower())
    group = "".join(f" by {one}" for one in question.groups[:1])
    value = "".join(
        f" in {one.values[0]}" for one in question.filters[:1] if not one.is_not and one.group in {"country", "city", "category"}
    )
    labels = [one.label for one in question.periods[:1]]
    time = "".join(f" {label}" if label.startswith(("since", "before", "after", "until")) else f" in {label}" for label in labels)
    for example in (f"{name}{group}{value}{time}", f"{name}{value}{time}", f"{name}{time}", f"{name} in 2025", name):
        try:
            figures(parse(example, today))
        except CannotAnswer:
            continue
        return example
    return _DEFAULT
