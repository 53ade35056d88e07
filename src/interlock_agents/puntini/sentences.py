"""How a goal in plain words comes apart: names in quotes are set aside, then sentences become words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

__all__ = ["MAX_LENGTH", "is_cypher", "sentences", "set_aside", "unreadable"]

MAX_LENGTH = 2_000
"""How many characters a goal in plain sentences may have."""

_QUOTE = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`|(?<![^\s(])['\u2018]([^'\u2019\n]+)['\u2019](?=[\s.,;:!?)]|$)")
_CYPHER = re.compile(
    r"\s*(?:(?:optional\s+)?match\s*(?:\(|\w+\s*=)|unwind\s.*\bas\b|(?:merge|create|delete|detach\s+delete)\s*\("
    r"|return\s+(?:[\d'\"$\[{(*]|\w+\s*\()|with\s+\S+\s+as\s.*\breturn\b|call\s+[\w.]+\s*\(|load\s+(?:csv|from)\b"
    r"|drop\s+(?:table|index|constraint)\b|copy\s+\w+\s+(?:from|to)\b)",
    re.IGNORECASE | re.DOTALL,
)
_SENTENCE = re.compile(r"[.!?;]+(?=\s|$)|\n")
_WORD = re.compile(
    r"\d{1,3}(?:,\d{3})+(?![\d,])|,|['\u2019](?:s\b|(?=\s|$))|(?<=\s)[<>=!]=?|[=<>]=?|:(?=\s|$)|&(?=\s)|(?:(?!['\u2019]s\b|['\u2019](?:\s|$)|:(?:\s|$))[^\s,=<>])+|\S"
)
_CONTRACTED = {
    "what's": "what is", "who's": "who is", "there's": "there is", "that's": "that is", "it's": "it is", "i'd": "i would",
    "whats": "what is", "whos": "who is", "wheres": "where is", "hows": "how is",
}  # fmt: skip
_CONTRACTIONS = re.compile(rf"(?i)(?<!\S)(?:{'|'.join(_CONTRACTED)})(?!\S)")
_OPENING = (
    r"please|kindly|pls|then|also|and|now|next|first|finally|ok|okay|so|well|hi|hello|hey|hi there|hello there|hey there|thanks|thank you"
    r"|hey puntini|hi puntini|hello puntini|puntini|great|cool|perfect|good morning|good evening|good afternoon|just|just quickly|alright"
)
_REQUEST = (
    r"(?:can|could|would|will) you(?: please| kindly| just)?(?: tell me(?! about)| let me know)?"
    r"|(?:i|we) (?:want|need)(?: you)? to|(?:i|we) would like(?: you)? to|(?:i|we)'d like(?: you)? to|would you mind|let's|let us"
    r"|do you know(?! about)|i want to know|i would like to know|i'd like to know|(?:please )?tell me(?! about)|i wonder"
)
_POLITE = re.compile(rf"(?i)^(?:(?:{_OPENING})(?:\s*,\s*|\s+))*(?:(?:{_REQUEST})(?:\s*,\s*|\s+))?(?:(?:please|also|then|now)\s+)*")
_CLOSING = re.compile(r"(?i)(?:\s*,\s*|\s+)(?:please|pls|thanks|thank you|thx|for me|ok|okay|right now|now|will you|would you)$")


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
        return f" {chr(0xE000 + len(quoted) - 1)} "

    return _QUOTE.sub(marked, text), tuple(quoted)


def sentences(text: str) -> Iterator[list[str]]:
    """Give the words of each sentence, without those that are only polite; signs are words of their own."""
    for said in _SENTENCE.split(text):
        plain = " ".join(said.split()).strip(" ,")
        plain = _CONTRACTIONS.sub(lambda match: _CONTRACTED[match[0].casefold().replace("\u2019", "'")], plain.replace("\u2019", "'"))
        plain = _POLITE.sub("", plain, count=1)
        while (shorter := _CLOSING.sub("", plain)) != plain:
            plain = shorter
        words = _WORD.findall(plain)
        if words:
            yield words
