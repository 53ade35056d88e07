"""How a goal in plain words comes apart: names in quotes are set aside, then each clause that asks for one thing stands alone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["MAX_LENGTH", "SEPARATOR", "clauses", "is_cypher", "set_aside", "unreadable"]

MAX_LENGTH = 2_000
"""How many characters a goal in plain sentences may have."""

SEPARATOR = r"(?:\s*,\s*(?:and\s+)?(?:then\s+|also\s+)?|\s+and\s+(?:then\s+|also\s+)?|\s+then\s+)"
"""What stands between two things that are said."""

_QUOTE = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`|(?<!\S)'([^'\n]+)'(?=[\s.,;:!?)]|$)")
_CYPHER = re.compile(
    r"\s*(?:(?:optional\s+)?match\s*(?:\(|\w+\s*=)|unwind\s.*\bas\b|(?:merge|create|delete|detach\s+delete)\s*\("
    r"|return\s+(?:[\d'\"$\[{(*]|\w+\s*\()|with\s+\S+\s+as\s.*\breturn\b|call\s+[\w.]+\s*\(|load\s+(?:csv|from)\b"
    r"|drop\s+(?:table|index|constraint)\b|copy\s+\w+\s+(?:from|to)\b)",
    re.IGNORECASE | re.DOTALL,
)
_SENTENCE = re.compile(r"[.!?;]+(?=\s|$)|\n")
_VERB = (
    r"(?:create|add|make|assign|unassign|connect|link|disconnect|unlink|set|change|update|mark|delete|remove|clear|rename|list|show|find"
    r"|count|send|e-?mail(?!\s+\S*@)|how\s+many|who\s+is|which|what)"
)
_SUBJECT = r"(?:(?!\s+and\s|,).){1,200}?"
_CLAUSE = re.compile(
    rf"{SEPARATOR}(?=(?:please\s+)?{_VERB}\s+(?!and\s|,)\S|{_SUBJECT}\s+(?:no\s+longer\s+)?depends\s+on\s)"
    rf"|\s*,\s*(?:and\s+)?(?=(?:(?!,).){{1,200}}?\s+depend\s+on\s)",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"^(?:(?:please|kindly|then|also|and|now|next|first|finally)[\s,]+)*(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?"
    r"|i\s+(?:want|need|would\s+like)\s+(?:you\s+)?to\s+)?",
    re.IGNORECASE,
)


def is_cypher(text: str) -> bool:
    """Tell whether a goal is a query, which is taken as it is."""
    return _CYPHER.match(text[:MAX_LENGTH]) is not None


def unreadable(text: str) -> str:
    """Say why a goal cannot be read at all, if it cannot."""
    if len(text) > MAX_LENGTH:
        return f"The goal has {len(text):,} characters; without a model I read {MAX_LENGTH:,}."
    if any(unicodedata.category(letter) in {"Cs", "Co", "Cc"} for letter in text if letter not in "\n\r\t"):
        return "The goal has characters that are no text."
    return ""


def set_aside(text: str) -> tuple[str, tuple[str, ...]]:
    """Put a mark in the place of each text in quotes; return these texts too, in the order of their marks."""
    quoted: list[str] = []

    def marked(match: re.Match[str]) -> str:
        quoted.append(next(group for group in match.groups() if group is not None))
        return chr(0xE000 + len(quoted) - 1)

    return _QUOTE.sub(marked, text), tuple(quoted)


def clauses(text: str) -> Iterator[str]:
    """Split a text into what asks for one thing each, without the words that are only polite."""
    for sentence in _SENTENCE.split(text):
        for clause in _CLAUSE.split(" ".join(sentence.split())):
            said = re.sub(r"(?i)[\s,]+please$", "", clause.strip(" ,.!?;"))
            said = _POLITE.sub("", said, count=1).strip()
            if said:
                yield said
