"""Verbs with a particle, such as "sign up" and "log in": the offline rules look each one up as one expression.

The verb alone, or with another particle, means something else: a page about "sign-in" does not answer how to sign up.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

__all__ = ["display", "join_phrasal_verbs", "phrasal_verb_pattern", "search_terms", "with_particle"]

_PARTICLES: Mapping[str, str] = {
    "back": "up",
    "break": "down",
    "bring": "back",
    "call": "off|back",
    "check": "in|out",
    "close": "down",
    "cut": "off",
    "drop": "off",
    "fill": "in|out",
    "give": "back|up",
    "hand": "over|in|out|back",
    "log": "in|out|on|off",
    "opt": "in|out",
    "pay": "back|off|out",
    "pick": "up",
    "put": "off",
    "roll": "back",
    "run": "out",
    "send": "back",
    "set": "up",
    "shut": "down|off",
    "sign": "up|in|out|off",
    "switch": "on|off|over",
    "take": "back|over",
    "top": "up",
    "turn": "on|off|up|down",
}
"""Verbs whose particle changes their meaning. "Get back" and "look up" are not here: people say them of any answer."""

_IRREGULAR: Mapping[str, tuple[str, ...]] = {
    "break": ("broke", "broken"),
    "bring": ("brought",),
    "give": ("gave", "given"),
    "pay": ("paid",),
    "run": ("ran",),
    "send": ("sent",),
    "take": ("took", "taken"),
}


def _verb_forms(verb: str) -> str:
    root = verb.removesuffix("e")
    regular = rf"{root}(?:es?|ed|ing)" if root != verb else rf"{verb}(?:{verb[-1]}?(?:ed|ing)|e?s)?"
    return "|".join((regular, *_IRREGULAR.get(verb, ())))


_ADJACENT = tuple(
    (verb, re.compile(rf"(?i)\b(?:(?:{_verb_forms(verb)})[ -]|{verb})({particles})\b")) for verb, particles in _PARTICLES.items()
)
# "In" and "on" after other words are prepositions: "check the prices in July".
_SEPARATED = tuple(
    (verb, re.compile(rf"(?i)\b(?:{_verb_forms(verb)})((?: [\w'-]+){{1,3}}) (?!in\b|on\b)({particles})(?=\s*(?:[,.;!?]|$))"))
    for verb, particles in _PARTICLES.items()
)


def join_phrasal_verbs(text: str) -> str:
    """Write each verb with a particle as one hyphenated word: "signed up", "signup" and "sign me up" all have "sign-up"."""
    for verb, pattern in _ADJACENT:
        text = pattern.sub(lambda found, verb=verb: f"{verb}-{found[1].lower()}", text)
    for verb, pattern in _SEPARATED:
        text = pattern.sub(lambda found, verb=verb: f"{verb}-{found[2].lower()}{found[1]}", text)
    return text


def display(word: str) -> str:
    """Return a word as a person writes it: "sign-up" is "sign up"."""
    return word.replace("-", " ") if phrasal_verb_pattern(word) is not None else word


def search_terms(stem: str) -> tuple[str, ...]:
    """Return the literal texts, one of which a line must have to have any form of the stem."""
    if phrasal_verb_pattern(stem) is None:
        return (stem,)
    verb = stem.partition("-")[0]
    return verb.removesuffix("e"), *_IRREGULAR.get(verb, ())


@functools.cache
def phrasal_verb_pattern(word: str) -> re.Pattern[str] | None:
    """Match the forms of a hyphenated verb with its particle in a text. Return None for any other word."""
    verb, _, particle = word.partition("-")
    if particle not in _PARTICLES.get(verb, "").split("|") or not particle:
        return None
    return re.compile(rf"(?i)(?<![^\W_])(?:(?:{_verb_forms(verb)})(?:[ -]|(?: [\w'-]+){{1,3}} )|{verb}){particle}(?![^\W_])")


def with_particle(verb: str) -> str:
    """Return a pattern for a particle that follows a verb and changes its meaning; one that never matches for other words."""
    particles = _PARTICLES.get(verb) or _PARTICLES.get(f"{verb}e")
    return rf"[ -]?(?:{particles})(?![^\W_])" if particles else r"(?!)"
