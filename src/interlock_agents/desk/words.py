"""Text of a customer. Every word is used, is known to mean nothing, or is reported as not understood."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from interlock_agents.desk.vocabulary import SAYS_NOTHING, SPELLING, TALK, TOPICS

__all__ = [
    "ORDINALS",
    "Text",
    "content",
    "normalised",
    "small_talk",
    "sum_in",
    "topic_of",
    "topics_of",
]

_QUOTES = str.maketrans(
    {"\N{RIGHT SINGLE QUOTATION MARK}": "'", "\N{LEFT SINGLE QUOTATION MARK}": "'", "\N{ACUTE ACCENT}": "'", "`": "'"}
    | {"\N{MINUS SIGN}": "-", "\N{EN DASH}": "-"}
)

_SHORT_WORD = re.compile(rf"\b(?:{'|'.join(SPELLING)})\b(?!')")


def normalised(text: str) -> str:
    """Write a message in lower case, with plain apostrophes, single spaces and whole words."""
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES).casefold()
    plain = _SHORT_WORD.sub(lambda found: SPELLING[found[0]], plain)
    plain = re.sub(r"\b(know|see|check|wonder|wondering|ask|asking|tell me|sure) if\b", r"\1 whether", plain)
    plain = re.sub(r"(?<=\d)x(?=\d|\s|$)", " x ", plain)
    return " ".join(re.sub(r"(?<=\d)(?=(?:cm|mm|pcs|tiers?|drawers?|sheets?)\b)", " ", plain).split())


class Text:
    """A message from which understood parts are removed."""

    def __init__(self, text: str) -> None:
        self.rest = text

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Remove all matches, and return the first."""
        found = pattern.search(self.rest)
        if found is not None:
            self.rest = " ".join(pattern.sub(" ~ ", self.rest).split())
        return found

    def has(self, pattern: re.Pattern[str]) -> bool:
        """Return whether a pattern matches."""
        return pattern.search(self.rest) is not None


def content(text: str) -> list[str]:
    """Return the meaningful words, each once."""
    found = re.findall(r"[^\W_]+(?:['-][^\W_]+)*", text)
    return list(dict.fromkeys(word.removesuffix("'s") for word in found if word not in SAYS_NOTHING))


_BETWEEN = re.compile(r"^(?:please\b|pls\b|(?!-\d|-?\(|#\d|[€$£½]|\+\d|/\w)\W)+")


def small_talk(text: str) -> tuple[tuple[str, ...], str]:
    """Remove small talk from both ends of a message. Return its kinds and the rest."""
    kinds: list[str] = []
    rest = text
    while True:
        rest = _BETWEEN.sub("", rest).strip()
        kind, after = _longest(rest)
        if not kind or not (_stands_alone(kind, after) or (after[:1].isspace() and not re.search(r"\w", small_talk(after.strip())[1]))):
            break
        kinds.append(kind)
        rest = after
    tail = re.search(
        r"[\s,.!?;:]+(?:(?:many )?(?:thanks|thank you|thx|cheers|ty)(?: (?:a lot|so much|very much|in advance))?|please|pls|bye)[\s.!]*$",
        f" {rest}",
    )
    return tuple(kinds), (rest[: max(tail.start() - 1, 0)] if tail else rest).strip()


def _longest(text: str) -> tuple[str, str]:
    """Find the longest small talk at the start of a text. Return its kind and the rest."""
    best, end = "", 0
    for kind, pattern in TALK:
        found = pattern.match(text)
        if found is not None and found.end() > end:
            best, end = kind, found.end()
    return best, text[end:]


_GOES_ON = (
    "and|but|so|then|now|please|thanks|thank|thx|bye|i|i'll|i'd|we|you|do|can|could|would|what|how|is|are|it|that|the|my|add|order|give|get|"
    "take|let|let's|show|make|put|cancel|remove|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
)


def _stands_alone(kind: str, after: str) -> bool:
    """Return whether small talk is a separate part: "good morning, ..." is, the "good" of "good desks" is not."""
    if kind in {"greeting", "thanks", "anger"}:
        return True
    return not after.strip() or bool(re.match(rf"\s*[,.!?;:)~-]|\s+(?:{_GOES_ON})\b|\s+\d|\W+$", after))


ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5}


def topic_of(text: Text) -> str | None:
    """Find the topic of a request for help as search words, and remove it. Return None if it has no topic."""
    return next(_topics(text), None)


def topics_of(text: Text) -> list[str]:
    """Find all topics of a request for help, and remove them."""
    return list(_topics(text))


def _topics(text: Text) -> Iterator[str]:
    """Remove each topic once. Words in a gap of its pattern stay, and can be another topic."""
    seen: set[str] = set()
    for words, query in TOPICS:
        if text.has(words):
            text.rest = " ".join(words.sub(lambda found: f" ~ {_between(found)} ", text.rest).split())
            if query not in seen:
                seen.add(query)
                yield query


def _between(found: re.Match[str]) -> str:
    """Return the words in the gaps of a match, which its pattern does not cover."""
    return " ".join(word for word in content(found[0]) if word.isdigit() or word[:4] not in found.re.pattern)


_SUM_SIGNS = r"[-+*/x×÷%^().\d\s]"  # noqa: RUF001 - what people type
_WHAT_IS = r"(?:(?:what(?:'s| is)|how much is|calculate|compute|work out|can you (?:calculate|do|work out))\s+)?"
_SUM = re.compile(rf"{_WHAT_IS}(?P<sum>[-+(\d]{_SUM_SIGNS}*[)\d])[\s=?.!]*")
_DECIMAL = r"\d+(?:\.\d+)?"
_PERCENT = re.compile(rf"{_WHAT_IS}(?P<part>{_DECIMAL}) ?(?:%|percent) of (?:€ ?)?(?P<whole>{_DECIMAL})(?: ?(?:€|eur|euros?))?[\s?.!]*")
_SPOKEN = (("plus", "+"), ("minus", "-"), ("times|multiplied by", "*"), ("divided by", "/"))
_LONGEST_SUM = 200


def sum_in(said: str) -> str | None:
    """Find a calculation, if the message is nothing else."""
    if len(said) > _LONGEST_SUM:
        return None
    said = said.strip()
    percent = _PERCENT.fullmatch(said)
    if percent:
        return f"{percent['whole']} * {percent['part']} / 100"
    for spoken, sign in _SPOKEN:
        said = re.sub(rf"(?<=[\d)]) (?:{spoken}) (?=[\d(])", sign, said)
    found = _SUM.fullmatch(said)
    if found is None or not re.search(r"\d[\s)]*[-+*/x×÷%^]+\s*[-\d(]", found["sum"]):  # noqa: RUF001 - what people type
        return None
    return re.sub("[x×]", "*", found["sum"]).replace("÷", "/").strip()  # noqa: RUF001 - what people type
