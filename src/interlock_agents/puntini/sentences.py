"""A goal in plain words: quoted texts are replaced by marks, then sentences are split into words. Replies to what is not a goal."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["COURTESY", "MAX_LENGTH", "is_cypher", "is_question", "outside_request", "sentences", "small_talk", "unreadable", "with_marks"]

MAX_LENGTH = 2_000
"""How many characters a goal in plain sentences may have."""

_QUOTE = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`|(?<![^\s(])['\u2018]([^'\u2019\n]+)['\u2019](?=[\s.,;:!?)]|$)")
_CYPHER = re.compile(
    r"\s*(?:(?:optional\s+)?match\s*(?:\(|\w+\s*=)|unwind\s.*\bas\b|(?:merge|create|delete|detach\s+delete)\s*\("
    r"|return\s+(?:[\d'\"$\[{(*]|\w+\s*\()|with\s+\S+\s+as\s.*\breturn\b|call\s+[\w.]+\s*\(|load\s+(?:csv|from)\b"
    r"|drop\s+(?:table|index|constraint)\b|copy\s+\w+\s+(?:from|to)\b)",
    re.IGNORECASE | re.DOTALL,
)
_QUESTION = re.compile(r"(?i)\s*(?:how|who|what|which|is|are|does|did|was|were|has|have|when|where|why|whose)\b")
_SENTENCE = re.compile(r"[.!?;]+(?=\s|$)|\n")
_WORD = re.compile(
    r"\d{1,3}(?:,\d{3})+(?![\d,])|,|['\u2019](?:s\b|(?=\s|$))|(?<=\s)[<>=!]=?|[=<>]=?|:(?=\s|$)|&(?=\s)|(?:(?!['\u2019]s\b|['\u2019](?:\s|$)|:(?:\s|$))[^\s,=<>])+|\S"
)
_CONTRACTED = {
    "what's": "what is", "who's": "who is", "there's": "there is", "that's": "that is", "it's": "it is", "i'd": "i would",
    "whats": "what is", "whos": "who is", "wheres": "where is", "hows": "how is", "how's": "how is",
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
_COURTESY_WORD = re.compile(
    r"(?i)(?:hi|hello|hey|thanks|thank|you|thx|please|ok|okay|great|cool|perfect|good|morning|evening|afternoon|nice|there|puntini|sorry),*"
)

_SMALL_TALK: dict[str, Any] = tomllib.loads(Path(__file__).with_name("small_talk.toml").read_text(encoding="utf-8"))
_CAN = str(_SMALL_TALK["can"])
COURTESY = str(_SMALL_TALK["courtesy"])
"""The reply to thanks and praise."""
_ONLY = "I only keep a graph of things and how they are connected, so I cannot {}. I can create, connect, change, delete and find nodes."
_OUTSIDE_VERBS = re.compile(
    r"(?:send|email|e-mail|mail|write|compose|tell|sing|translate|play|order|book|buy|call|phone|remind|wake|turn|google|browse|search|what"
    r"|who|why|how|is|will|when|where|give|do|can|open|download|set a|set an)\b"
)
_TO_AGENT = re.compile(
    r"^(?:(?:please|hey|hi|hello|ok|okay|so|puntini|and|also|then)[\s,]+)*"
    r"(?:(?:can|could|would|will) you (?:please )?(?:tell me |give me |show me )?|i (?:want|need|would like) you to )?(?:please )?"
)
_LONGEST_REQUEST = 200


def is_cypher(text: str) -> bool:
    """Return whether a goal is a Cypher query, which is run as it is."""
    return _CYPHER.match(text[:MAX_LENGTH]) is not None


def is_question(text: str) -> bool:
    """Return whether a goal looks like a question."""
    return text.rstrip().endswith("?") or _QUESTION.match(text) is not None


def unreadable(text: str) -> str:
    """Return why a goal cannot be read at all, or an empty text."""
    if len(text) > MAX_LENGTH:
        return f"The goal has {len(text):,} characters; without a model I read {MAX_LENGTH:,}."
    if any(unicodedata.category(letter) in {"Cs", "Co", "Cc"} for letter in text if letter not in "\n\r\t"):
        return "The goal has characters that are not text."
    return ""


def with_marks(text: str) -> tuple[str, tuple[str, ...]]:
    """Replace each quoted text by a mark, and return the quoted texts in the order of their marks."""
    quoted: list[str] = []

    def marked(match: re.Match[str]) -> str:
        quoted.append(next(group for group in match.groups() if group is not None))
        return f" {chr(0xE000 + len(quoted) - 1)} "

    return _QUOTE.sub(marked, text), tuple(quoted)


def sentences(text: str) -> Iterator[list[str]]:
    """Yield the words of each sentence, without polite phrases. Punctuation marks are words of their own."""
    for sentence in _SENTENCE.split(text):
        plain = _POLITE.sub("", _expanded(" ".join(sentence.split()).strip(" ,")), count=1)
        while (shorter := _CLOSING.sub("", plain)) != plain:
            plain = shorter
        words = _WORD.findall(plain)
        if not all(map(_COURTESY_WORD.fullmatch, words)):
            yield words


def _expanded(text: str) -> str:
    return _CONTRACTIONS.sub(lambda match: _CONTRACTED[match[0].casefold()], text.replace("\u2019", "'"))


def small_talk(text: str) -> str:
    """Return the reply to a text that is not a goal; an empty text if it may be one."""
    plain = " ".join(re.sub(r"[^\w\s'-]+", " ", _expanded(text.casefold())).split())
    if not plain:
        return f"I am here. {_CAN}" if re.search(r"[?!]", text) else ""
    replies = (reply["text"] for reply in _SMALL_TALK["reply"] if re.fullmatch(rf"(?:{'|'.join(reply['says'])})(?: please)?", plain))
    return str(next(replies, "")).replace("{can}", _CAN)


def outside_request(text: str) -> str:
    """Return the reply to a request that has nothing to do with a graph, if a text that was not understood looks like one."""
    request = _TO_AGENT.sub("", " ".join(text.casefold().split()))
    if len(text) > _LONGEST_REQUEST or not _OUTSIDE_VERBS.match(request):
        return ""
    outside = (what for what, says in _SMALL_TALK["outside"].items() if re.search(rf"(?<!\w)(?:{'|'.join(says)})(?!\w)", request))
    return next((_ONLY.format(what) for what in outside), "")
