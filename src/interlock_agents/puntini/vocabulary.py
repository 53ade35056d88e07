"""The words that the offline rules know, from `vocabulary.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

__all__ = [
    "AUXILIARY", "EVERY", "FUNCTION_WORDS", "IRREGULAR_PLURALS", "LABELS", "MONTHS", "MUTUAL", "NO_RELATION", "NO_VALUE", "OF_PROPERTY",
    "PARTICLES", "PAST_VERBS", "PEOPLE", "PHRASES", "PREPOSITIONS", "PRONOUNS", "PROPERTIES", "RELATION_VERBS", "RELATIVE", "STATES",
    "TELLING", "THAT_ONE", "THIRD_PERSON", "TWO_WORDS", "UNITS", "VERBS", "WHICH", "third_person",
]  # fmt: skip

_TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_name("vocabulary.toml").read_text(encoding="utf-8"))
_SETS = {name: frozenset(text.split()) for name, text in _TEXTS.items()}


def third_person(verb: str) -> str:
    """Return the third person of a verb: 'works', 'teaches', 'studies'."""
    if verb.endswith("y") and verb[-2:-1] not in {*"aeiou"}:
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("ch", "sh", "ss", "x")) else f"{verb}s"


FUNCTION_WORDS, AUXILIARY, EVERY, PRONOUNS, THAT_ONE = (
    _SETS[name] for name in ("function_words", "auxiliary", "every", "pronouns", "that_one")
)
VERBS, RELATION_VERBS, PAST_VERBS, PREPOSITIONS = (_SETS[name] for name in ("verbs", "relation_verbs", "past_verbs", "prepositions"))
THIRD_PERSON = {third_person(verb): verb for verb in RELATION_VERBS}
MUTUAL, NO_RELATION, TELLING, WHICH, PARTICLES = (_SETS[name] for name in ("mutual", "no_relation", "telling", "which", "particles"))
PEOPLE, PROPERTIES, OF_PROPERTY = _SETS["people"], _SETS["properties"], _SETS["of_property"]
LABELS = PEOPLE | _SETS["labels"]
STATES, NO_VALUE, UNITS, MONTHS, RELATIVE = (_SETS[name] for name in ("states", "no_value", "units", "months", "relative"))
PHRASES, TWO_WORDS = (frozenset(_TEXTS[name].split(", ")) for name in ("phrases", "two_words"))
IRREGULAR_PLURALS = dict(pair.split(":") for pair in _TEXTS["irregular_plurals"].split())
