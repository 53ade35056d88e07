"""Finds the words of a message that no rule used. They may change the meaning, so nothing is searched or recorded if there are any."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from interlock_agents.desk.plans import ABILITIES
from interlock_agents.desk.quantities import masked, take_budget, take_quantity, unmasked
from interlock_agents.desk.reading import CHEAPEST, DEAREST, Line, name_words
from interlock_agents.desk.vocabulary import FUNCTION, TURNING, pattern_of
from interlock_agents.shop.words import forms

__all__ = ["asked_back", "left_over"]

_FRAMES = pattern_of("frames")
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_CLAUSE = re.compile(r"\s*(?:[,;.?!]+(?=\s|$)|\bbut\b)\s*")
# The maximum number of numbers in a message.
_MOST_NUMBERS = 8


def left_over(text: str, lines: Sequence[Line], asides: Iterable[str] = ()) -> list[str]:
    """Return the words that do not belong to a product, a number, a price, a request phrase or an aside."""
    rest = unmasked(text)
    for aside in (one for one in asides if " than " not in one):  # a comparison is not searched
        rest = rest.replace(aside, " ~ ")
    rest = masked(rest)
    for take in (take_budget, take_quantity):
        for _ in range(_MOST_NUMBERS):
            found, left = take(rest)
            if found is None or left == rest:
                break
            rest = left
    for pattern in (CHEAPEST, DEAREST, _FRAMES):
        rest = " ".join(pattern.sub(" ~ ", rest).split())
    used = {form for line in lines for name in _named(line) for form in forms(name)} - TURNING
    if "without" in used:
        used.add("no")  # "with no armrests" is read as without them
    words = (word.removesuffix("'s") for word in _WORD.findall(unmasked(rest)))
    return [word for word in words if not word.isdigit() and word not in FUNCTION and forms(word).isdisjoint(used)]


def _named(line: Line) -> list[str]:
    said = f"{line.get('product', '')} {line.get('prefer', '')} {line.get('sku', '')}".casefold()
    return [*said.split(), *_WORD.findall(said)]


def asked_back(text: str, left: Sequence[str]) -> str:
    """Say which part of a message was understood, which was not, and how to rephrase it."""
    clauses = [part.strip(" ~") for part in _CLAUSE.split(unmasked(text)) if _WORD.search(part)]
    missed = [part for part in clauses if set(left) & {word.removesuffix("'s") for word in _WORD.findall(part)}] or clauses
    kept = [name_words(_FRAMES.sub(" ", part)) for part in clauses if part not in missed]
    known = f" I understood {', '.join(f'“{one}”' for one in kept if one)}, and have not looked it up." if any(kept) else ""
    return f"I did not understand {', '.join(f'“{one}”' for one in missed)}.{known} {ABILITIES}"
