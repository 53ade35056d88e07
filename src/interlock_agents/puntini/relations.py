"""Relationships in words: 'depends on', 'is married to', 'is managed by'."""

from __future__ import annotations

from dataclasses import dataclass

from interlock_agents.puntini.patterns import reject
from interlock_agents.puntini.terms import Context, excerpt, quoted_text, read_relationship, singular
from interlock_agents.puntini.vocabulary import (
    FUNCTION_WORDS,
    MUTUAL,
    NO_RELATION,
    PAST_VERBS,
    PREPOSITIONS,
    PROPERTIES,
    RELATION_VERBS,
    THIRD_PERSON,
    VERBS,
    third_person,
)

__all__ = ["ASSIGNED", "CONNECTED", "READERS", "Relation"]

_IRREGULAR = {"led": "lead", "taught": "teach", "sold": "sell", "known": "know"}
_CONNECTED = frozenset(f"{verb}_{word}" for verb in ("CONNECTED", "LINKED", "RELATED", "ATTACHED") for word in ("TO", "WITH"))
_MUTUALLY = {"friends": "with", "married": "to", "engaged": "to", "connected": "to", "linked": "to", "related": "to"}
_MOST_WORDS = 4


def _participle(verb: str) -> str:
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ied"
    return f"{verb}d" if verb.endswith("e") else f"{verb}ed"


_PARTICIPLES = {_participle(verb): verb for verb in RELATION_VERBS} | _IRREGULAR


@dataclass(frozen=True)
class Relation:
    """A relationship. In the passive voice the subject of the sentence is its end; a mutual one has no direction in a question."""

    name: str
    is_passive: bool = False
    is_mutual: bool = False

    @property
    def asked(self) -> str | None:
        """The relationship that a question is about; 'connected to' is any."""
        return None if self.name == "CONNECTED_TO" else self.name

    def direction(self, *, subject: bool) -> str:
        """Return the direction of the edge from the node that a question looks for, which is the subject or the object of the sentence."""
        return "any" if self.is_mutual else "to" if subject != self.is_passive else "from"


CONNECTED = Relation("CONNECTED_TO", is_mutual=True)
ASSIGNED = Relation("ASSIGNED_TO", is_mutual=True)


def _after_subject(words: list[str], context: Context) -> Relation:
    """Read a relation after its subject: 'depends on', 'work for', 'is married to', 'KNOWS'."""
    low = [word.casefold() for word in words]
    if low[0] in {"is", "are"} and len(words) > 1:
        return _after_is(words[1:], context)
    if FUNCTION_WORDS & {*low} - PREPOSITIONS:
        reject()
    if len(words) == 1 and words[0].isupper() and len(words[0]) > 1 and low[0] not in PREPOSITIONS:
        return Relation(read_relationship(words, context))
    if _is_verb(low) and (low[0] in THIRD_PERSON or (low[0] in RELATION_VERBS and low[-1] != "of")):
        return _active(THIRD_PERSON.get(low[0], low[0]), low[1:])
    return reject(_question(words, context) if words[0].islower() else "")


def _unknown_verb(words: list[str], context: Context) -> Relation:
    """Read a verb in the third person that is not in the vocabulary: 'admires', 'plays with'."""
    if words[0].islower() and _is_verb(words) and words[0].endswith("s") and not words[0].endswith("ss"):
        return Relation(read_relationship(words, context))
    return reject()


def _kinship(words: list[str], context: Context) -> Relation:
    """Read the noun of a relation: the 'father' of 'Ben is Cat's father'. The name of a property is not a relation."""
    word = singular(words[0])
    is_word = word.isalpha() and (word.islower() or word.isupper())
    if len(words) > 1 or not is_word or word.casefold() in FUNCTION_WORDS | PROPERTIES | VERBS:
        reject()
    return Relation(read_relationship([word, "of"], context), is_mutual=f"{word}_OF".upper() in MUTUAL)


def _mutual(words: list[str], context: Context) -> Relation:
    """Read a relation of two nodes to each other: 'friends', 'married', 'connected'."""
    preposition = _MUTUALLY.get(words[0].casefold())
    return _after_is([words[0], preposition], context) if len(words) == 1 and preposition else reject()


def _past_verb(words: list[str], context: Context) -> Relation:
    """Read a verb in the past tense, in a question: 'wrote', 'worked on'. The graph decides whether it has such a relationship."""
    low = [word.casefold() for word in words]
    if words[0].islower() and _is_verb(low) and (low[0].endswith("ed") or low[0] in PAST_VERBS) and low[0] not in NO_RELATION - {"made"}:
        return Relation(read_relationship(words, context))
    return reject(_question(words, context))


def _plain_verb(words: list[str], context: Context) -> Relation:
    """Read a relation after 'does' and a name: 'depend on', 'know'."""
    low = [word.casefold() for word in words]
    if _is_verb(low) and (low[0] in RELATION_VERBS or (words[0].islower() and len(low[0]) > len("do"))):
        return _active(low[0], low[1:])
    return reject(_question(words, context))


def _after_is(words: list[str], context: Context) -> Relation:
    """Read a relation after 'is': 'married to', 'the manager of', 'managed by', 'blocking'."""
    low = [word.casefold() for word in words]
    if low[0] in {"a", "an", "the"}:
        low = low[1:]
    is_plain = quoted_text(words, context) is None and all(word.islower() or word.isupper() for word in words)
    verb = (
        next((base for base in (low[0][:-3], f"{low[0][:-3]}e") if base in RELATION_VERBS), None) if low and low[0][-3:] == "ing" else None
    )
    if is_plain and len(low) == 1 and verb is not None:
        return _active(verb, [])
    fits = (
        1 < len(low) <= _MOST_WORDS and low[-1] in PREPOSITIONS and all(word.isalpha() and word not in FUNCTION_WORDS for word in low[:-1])
    )
    is_other = fits and (set(low) & NO_RELATION or low[0] in RELATION_VERBS or low[0] in THIRD_PERSON)
    if not is_plain or not fits or is_other or (low[0].endswith("ing") and verb is None):
        reject(_question(words, context))
    if low[1:] == ["by"] and low[0] in _PARTICIPLES:
        return Relation(third_person(_PARTICIPLES[low[0]]).upper(), is_passive=True)
    if verb is not None:
        return _active(verb, low[1:])
    name = read_relationship(low, context)
    if name in _CONNECTED:
        return CONNECTED
    return ASSIGNED if name == ASSIGNED.name else Relation(name, is_mutual=name in MUTUAL)


def _question(words: list[str], context: Context) -> str:
    return f"what does '{excerpt(words, context)}' mean?"


def _is_verb(low: list[str]) -> bool:
    """Return whether words are a verb that prepositions may follow."""
    return low[0].isalpha() and low[0] not in FUNCTION_WORDS and len(low) < _MOST_WORDS and all(word in PREPOSITIONS for word in low[1:])


def _active(verb: str, prepositions: list[str]) -> Relation:
    return Relation("_".join([third_person(verb), *prepositions]).upper())


READERS = {
    "after_subject": _after_subject,
    "after_is": _after_is,
    "plain_verb": _plain_verb,
    "past_verb": _past_verb,
    "unknown_verb": _unknown_verb,
    "kinship": _kinship,
    "mutual": _mutual,
}
"""The readers of relations, by the kind of their slot."""
