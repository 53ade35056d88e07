"""Several requests in one message: the rules answer the first kind, and list the others."""

from __future__ import annotations

import re

from interlock_agents.desk.plans import CANCEL, HELP, ORDER, STOCK, SUMMARY
from interlock_agents.desk.quantities import masked, take_quantity, unmasked
from interlock_agents.desk.reading import name_words
from interlock_agents.desk.roles import PERSON
from interlock_agents.desk.vocabulary import pattern_of
from interlock_agents.desk.words import Text, topic_of

__all__ = ["first_of"]

_PART = re.compile(
    r"(?:\A|(?:\b(?:and|then|but|also|plus)\b|[.;?!,](?=\s|$))\s*)(?P<said>(?:(?!\b(?:and|then|but|also|plus)\b|[.;?!,](?:\s|$)).)*)"
)
_TELLS = re.compile(r"(?:how|when|where|why|if|because|since|did|have|had|was|were|which|that|who)\b")
_ASKS_HOW = re.compile(r"\s*(?:how (?!much|many|about)|where|why|when|who)\b")
_PERSON = pattern_of("person")
_SUMMARY = pattern_of("summary")
_CANCEL = pattern_of("cancel")
_FIRST_WORDS = re.compile(r"^(?:\W|(?:actually|oh|ok|okay|no|please|well|sorry|hmm?|so|just|i want to|can you|could you)\b)+")
_HARD = pattern_of("hard")
_ASKING = pattern_of("asking")
_SOFT = pattern_of("soft")


_NAMES_ONE = re.compile(
    r"\s*(?:also |maybe |perhaps )?(?:an?|another|some|one|two|three|four|five|six|\d+) (?!bit|lot|few|while|moment|question|problem)\w"
)
_ENDS_WITH_ONE = re.compile(r"\b(?:an?|another|some|my|our|the|one|two|three|four|five|six|\d+)(?: [\w-]+){1,3}\W*$")


def first_of(said: str) -> tuple[str, list[str]]:
    """Return a message without the requests of other kinds than its first one, and those requests."""
    text = masked(said)
    parts = [(part, _request(part["said"])) for part in _PART.finditer(text)]
    first = next((kind for _, kind in parts if kind), "")
    others = [part for at, (part, kind) in enumerate(parts) if (kind and kind != first) or _is_another(parts, at, first)]
    for part in reversed(others):
        text = text[: part.start()] + text[part.end() :]
    return unmasked(text), [unmasked(part["said"].strip()) for part in others]


def _is_another(parts: list[tuple[re.Match[str], str]], at: int, first: str) -> bool:
    """Return whether a part without a verb names a product beside another request: "delivery and a lamp"."""
    part, kind = parts[at]
    if kind or first not in {HELP, PERSON, SUMMARY}:
        return False
    if at > 0 and _ASKS_MORE.match(part["said"]) and not _is_asked(parts[at - 1][0]["said"]):
        return True
    if _NAMES_ONE.match(part["said"]) is None:
        return False
    is_listed = at > 0 and _ENDS_WITH_ONE.search(parts[at - 1][0]["said"]) is not None  # "return a desk and a lamp"
    return not is_listed and not _SENTENCE.search(part["said"]) and bool(name_words(take_quantity(part["said"])[1]))


def _is_asked(part: str) -> bool:
    """Return whether a part only introduces the question after it: "my parcel is late, where is it"."""
    return re.search(r"^\s*(?:do|does|can|could|will|is|are|how|what|when|where|which)\b", part) is None


_ASKS_MORE = re.compile(r"\s*(?:how (?:long|much|fast|often|many|soon)|when|where|why)\b")
_SENTENCE = re.compile(r"\b(?:is|are|was|were|has|have|had|do|does|did|can|could|will|would|came|come|arrived|i|you|we|it)\b")


def _request(part: str) -> str:
    """Return the kind of goal of a part of a message, or nothing if it is not a request."""
    if topic_of(Text(part)) is not None:
        return HELP
    for pattern, kind in ((_PERSON, PERSON), (_SUMMARY, SUMMARY)):
        if pattern.search(part):
            return kind
    if _FIRST_WORDS.sub("", part) and _CANCEL.match(_FIRST_WORDS.sub("", part)):
        return CANCEL
    if _ASKS_HOW.match(part) and _HARD.search(part):
        return "asks how"
    for pattern, kind in ((_HARD, ORDER), (_ASKING, STOCK), (_SOFT, ORDER)):
        found = pattern.search(part)
        if found is not None and name_words(take_quantity(part[found.end() :])[1]):
            return "" if _TELLS.match(part) and kind == ORDER else kind
    return ""
