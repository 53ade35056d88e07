"""Splits texts into words for searching."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["ASKING", "ATTRIBUTES", "DEFINING", "ORDINARY", "STOP", "beginning", "content", "forms", "words"]

_WORD = re.compile(r"([^\W_]+)(?:'(?:s|t|re|ve|ll|d|m)\b)?")
_LEAST = 4  # letters of a plural: "bus" and "gas" are singular

_STOP = """
a about after again all also am an and any are as at be been before but by can could did do does doing don done else for from get
give got had has have he hello her here hi him his how i if in into is it its just let like ll may me might more most my need no not
of off ok on one only or other our out over please re s she should so some such t tell than thank thanks that the their them then
there these they this those to too up us ve very want was we were what when where which while who whom whose why will with would
you your yours aren couldn didn doesn hadn hasn haven isn shouldn wasn weren won wouldn
"""
_ASKING = """
available availability buy carry cheap cost costs currently expensive find item items left long looking many much now order price
prices priced product products purchase search sell selling show stock stocked today
"""

_DEFINING = """
applied applies apply calculate calculated calculates calculating called compute computed computes consider considered counted counts define
defined defines defining definition definitions exactly explain handled happen happens include
included includes mean meaning means meant measured often qualifies
qualify treated understand understood work works
"""

_ATTRIBUTES = """
beige black blue brown charcoal colored colorful coloured colourful cream dark gold golden gray green grey lime multicolour navy
olive orange pink purple red silver turquoise violet white yellow
acrylic aluminium aluminum bamboo beech birch brass ceramic chrome concrete copper cork cotton fabric glass leather linen marble metal
metallic oak pine plastic plywood recycled rubber solid steel stone terracotta velvet walnut wood wooden wool
big bigger compact deep double extra giant high huge large larger little long low medium mini narrow oversized pack packs set sets short
single slim small smaller tall tiny wide
adjustable cheap cheaper classic comfortable cool cosy cute decent dimmable dotted durable electric elegant ergonomic fancy foldable good
heavy lightweight lined lovely magnetic matching matte minimalist modern natural new nice old plain portable pretty quality rectangular
round rustic shiny simple soft square strong stylish sturdy thick thin vintage warm waterproof
"""

STOP = frozenset(_STOP.split())
"""Function words, which are not searched for."""

DEFINING = frozenset(_DEFINING.split())
"""Words that ask what something means or how it is done. A page that answers need not contain them."""

ASKING = frozenset(_ASKING.split())
"""Words that ask for a property of a product, unless they are part of its name."""

ATTRIBUTES = frozenset(_ATTRIBUTES.split())
"""Colours, materials, sizes and shapes. A query also needs the word for the product itself."""

_ORDINARY = """
back
bases basis birth blank block blocks chain chains chars chart charts closure colour colours comply concept confer confidence cooler core
corn cram disable disk disks draw draws dress failing filling firing fixing flood flour graphic grass greedy greek greet lager lasts
liked line linen lines linked listing lives magnet magnets melting official officer packet packets pager paint pants plain plan plane
planet plans plate plates port post pouch school scream sees self sending sets shall sheep shell sine sing sleep smell stage staging stall
stating station staying steal steep steer stole stolen stood store stories story strange stranger tablet tablets tabs tears terms
tie ties tiger tiles timer timers times tired treaty tries waiting wallet wallets want while whole width witch within write
writes
"""
ORDINARY = frozenset(_ORDINARY.split())
"""Words that are spelled almost like a word of the catalogue: they are never corrected."""


def words(text: str) -> list[str]:
    """Split a text into words, without case, accents and punctuation."""
    if text.isascii():
        return _WORD.findall(text.lower())
    decomposed = unicodedata.normalize("NFKD", text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").casefold())
    bare = "".join(letter for letter in decomposed if unicodedata.category(letter) != "Mn")
    return _WORD.findall(unicodedata.normalize("NFC", bare))


def content(text: str) -> list[str]:
    """Return the content words of a text, each once. All parts of an article number, such as A-100, count."""
    found: dict[str, None] = {}
    for piece in text.split():
        parts = words(piece)
        is_number = len(parts) > 1 and any(part.isdigit() for part in parts)
        found |= dict.fromkeys(part for part in parts if is_number or part not in STOP)
    return list(found)


def forms(word: str) -> frozenset[str]:
    """Return a word and its possible singulars. Two words match if they have a form in common."""
    found = {word}
    if len(word) >= _LEAST and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        found.add(word[:-1])
        if word.endswith(("ses", "xes", "zes", "ches", "shes", "oes")):
            found.add(word[:-2])
        elif word.endswith("ies"):
            found.add(f"{word[:-3]}y")
        elif word.endswith("ves"):
            found.update((f"{word[:-3]}f", f"{word[:-3]}fe"))
    return frozenset(found)


def beginning(word: str) -> str:
    """Return the common prefix of all words that match this one."""
    found = forms(word)
    shared = min(found, key=len)
    while not all(form.startswith(shared) for form in found):
        shared = shared[:-1]
    # A word in y, f or fe has its plural in ies or ves.
    return shared[:-2] if any(form.endswith(("y", "f", "fe")) for form in found) else shared
