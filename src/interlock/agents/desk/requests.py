"""Several requests in one message: the desk's rules work on the first kind of them, and name the others."""

from __future__ import annotations

import re

from interlock.agents.desk.plans import CANCEL, HELP, ORDER, STOCK, SUMMARY
from interlock.agents.desk.quantities import masked, take_quantity, unmasked
from interlock.agents.desk.reading import name_words
from interlock.agents.desk.roles import PERSON
from interlock.agents.desk.vocabulary import pattern_of
from interlock.agents.desk.words import Text, topic_of

__all__ = ["first_of"]

_PART = re.compile(
    r"(?:\A|(?:\b(?:and|then|but|also|plus)\b|[.;?!,](?=\s|$))\s*)(?P<said>(?:(?!\b(?:and|then|but|also|plus)\b|[.;?!,](?:\s|$)).)*)"
)
_TELLS = re.compile(r"(?:how|when|where|why|if|because|since|did|have|had|was|were|which|that|who)\b")
_PERSON = pattern_of("person")
_SUMMARY = pattern_of("summary")
_CANCEL = pattern_of("cancel")
_HARD = pattern_of("hard")
_ASKING = pattern_of("asking")


def first_of(said: str) -> tuple[str, list[str]]:
    """Return a message without the parts that ask for something of another kind than its first request, and those parts."""
    text = masked(said)
    asking = [(part, kind) for part in _PART.finditer(text) if (kind := _request(part["said"]))]
    others = [part for part, kind in asking if kind != asking[0][1]]
    for part in reversed(others):
        text = text[: part.start()] + text[part.end() :]
    return unmasked(text), [unmasked(part["said"].strip()) for part in others]


def _request(part: str) -> str:
    """Say which kind of goal a part of a message would be for by itself; nothing where it only tells something."""
    if topic_of(Text(part)) is not None:
        return HELP
    for pattern, kind in ((_PERSON, PERSON), (_SUMMARY, SUMMARY)):
        if pattern.search(part):
            return kind
    if _CANCEL.match(part):
        return CANCEL
    for pattern, kind in ((_HARD, ORDER), (_ASKING, STOCK)):
        found = pattern.search(part)
        if found is not None and name_words(take_quantity(part[found.end() :])[1]):
            return "" if _TELLS.match(part) and kind == ORDER else kind
    return ""
