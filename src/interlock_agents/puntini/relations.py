"""Relations between nodes as they are said: 'depends on', 'is married to', 'is managed by'."""

from __future__ import annotations

from dataclasses import dataclass

from interlock_agents.puntini.words import (
    FUNCTION_WORDS,
    PROPERTIES,
    RELATION_VERBS,
    VERBS,
    Said,
    fail,
    mark_of,
    relationship_of,
    shown,
    singular,
    third_person,
)

__all__ = ["ASSIGNED", "CONNECTED", "Relation", "after_be", "after_do", "after_name", "any_verb", "kin", "past_verb"]

_PREPOSITIONS = frozenset(["at", "by", "for", "from", "in", "into", "of", "on", "to", "under", "with"])
_IRREGULAR = {"led": "lead", "taught": "teach", "sold": "sell", "known": "know"}
_MUTUAL = frozenset({"MARRIED_TO", "ENGAGED_TO", "FRIENDS_WITH", "FRIEND_OF", "NEIGHBOUR_OF", "NEIGHBOR_OF", "SIBLING_OF", "COLLEAGUE_OF"})
_CONNECTED = frozenset({"CONNECTED_TO", "LINKED_TO", "RELATED_TO", "ATTACHED_TO", "CONNECTED_WITH", "LINKED_WITH", "RELATED_WITH"})
_NO_RELATION = frozenset(
    [
        "due",
        "left",
        "wrong",
        "born",
        "worth",
        "named",
        "called",
        "set",
        "changed",
        "good",
        "bad",
        "ready",
        "available",
        "sorted",
        "ordered",
        "grouped",
        "filtered",
        "listed",
        "created",
        "added",
        "made",
        "deleted",
        "removed",
    ]
)
_MOST = 4
_PAST = frozenset(
    ["wrote", "made", "built", "bought", "sold", "led", "taught", "won", "drew", "sang", "ran", "met", "gave", "took", "found"]
)


def _participle(base: str) -> str:
    if base.endswith("y") and base[-2] not in "aeiou":
        return f"{base[:-1]}ied"
    return f"{base}d" if base.endswith("e") else f"{base}ed"


_THIRD = {third_person(base): base for base in RELATION_VERBS}
_PARTICIPLES = {_participle(base): base for base in RELATION_VERBS} | _IRREGULAR


@dataclass(frozen=True)
class Relation:
    """A relationship, whether what is said first is at its end, and whether its direction means nothing in a question."""

    name: str
    is_passive: bool = False
    is_mutual: bool = False

    @property
    def asked(self) -> str | None:
        """The relationship that a question is about; 'connected to' is any."""
        return None if self.name == "CONNECTED_TO" else self.name

    def towards(self, *, subject: bool) -> str:
        """Return where the edge leads of a node that is looked for: as what is said first, or as what is said last."""
        return "any" if self.is_mutual else "to" if subject != self.is_passive else "from"


CONNECTED = Relation("CONNECTED_TO", is_mutual=True)
ASSIGNED = Relation("ASSIGNED_TO", is_mutual=True)


def after_name(words: list[str], said: Said) -> Relation:
    """Read a relation behind the name of what has it: 'depends on', 'work for', 'is married to', 'KNOWS'."""
    low = [word.casefold() for word in words]
    if low[0] in {"is", "are"} and len(words) > 1:
        return after_be(words[1:], said)
    if FUNCTION_WORDS & {*low} - _PREPOSITIONS:
        fail("")
    if len(words) == 1 and words[0].isupper() and len(words[0]) > 1 and low[0] not in FUNCTION_WORDS:
        return Relation(relationship_of(words, said))
    if _is_phrase(low) and (low[0] in _THIRD or (low[0] in RELATION_VERBS and low[-1] != "of")):
        return _active(_THIRD.get(low[0], low[0]), low[1:])
    return fail(f"what does '{shown(words, said)}' mean?" if words[0].islower() else "")


def any_verb(words: list[str], said: Said) -> Relation:
    """Read a verb that is not known: 'admires', 'plays with'."""
    if words[0].islower() and _is_phrase(words) and words[0].endswith("s") and not words[0].endswith("ss"):
        return Relation(relationship_of(words, said))
    return fail("")


def kin(words: list[str], said: Said) -> Relation:
    """Read what somebody is to somebody: the 'father' of 'Ben is Cat's father'. What is a property of its own is none."""
    word = singular(words[0])
    is_word = word.isalpha() and (word.islower() or word.isupper())
    if len(words) > 1 or not is_word or word.casefold() in FUNCTION_WORDS | PROPERTIES | VERBS:
        fail("")
    return Relation(relationship_of([word, "of"], said), is_mutual=f"{word}_OF".upper() in _MUTUAL)


def past_verb(words: list[str], said: Said) -> Relation:
    """Read what somebody did, in a question: 'wrote', 'borrowed', 'worked on'. The graph tells whether it has such a relationship."""
    low = [word.casefold() for word in words]
    if words[0].islower() and _is_phrase(low) and (low[0].endswith("ed") or low[0] in _PAST) and low[0] not in _NO_RELATION - {"made"}:
        return Relation(relationship_of(words, said))
    return fail(f"what does '{shown(words, said)}' mean?")


def after_do(words: list[str], said: Said) -> Relation:
    """Read a relation behind 'does' and a name: 'depend on', 'know'."""
    low = [word.casefold() for word in words]
    if _is_phrase(low) and low[0] in RELATION_VERBS:
        return _active(low[0], low[1:])
    if _is_phrase(low) and words[0].islower() and len(low[0]) > 2:  # noqa: PLR2004 - 'do'
        return _active(low[0], low[1:])
    return fail(f"what does '{shown(words, said)}' mean?")


def after_be(words: list[str], said: Said) -> Relation:
    """Read a relation behind 'is': 'married to', 'the manager of', 'managed by'."""
    low = [word.casefold() for word in words]
    if mark_of(words, said) is not None or not all(word.islower() or word.isupper() for word in words):
        fail(f"what does '{shown(words, said)}' mean?")
    if low[0] in {"a", "an", "the"}:
        low = low[1:]
    base = _of_ing(low[0]) if low else None
    if len(low) == 1 and base is not None:
        return _active(base, [])
    fits = 1 < len(low) <= _MOST and low[-1] in _PREPOSITIONS and all(word.isalpha() and word not in FUNCTION_WORDS for word in low[:-1])
    if not fits or set(low) & _NO_RELATION or low[0] in RELATION_VERBS or low[0] in _THIRD:
        fail(f"what does '{shown(words, said)}' mean?")
    if low[-1] == "by" and low[0] in _PARTICIPLES and len(low) == 2:  # noqa: PLR2004 - 'managed by'
        return Relation(third_person(_PARTICIPLES[low[0]]).upper(), is_passive=True)
    if low[0].endswith("ing"):
        return _active(base, low[1:]) if base is not None else fail(f"what does '{shown(words, said)}' mean?")
    name = relationship_of(low, said)
    if name in _CONNECTED:
        return CONNECTED
    return ASSIGNED if name == ASSIGNED.name else Relation(name, is_mutual=name in _MUTUAL)


def _of_ing(word: str) -> str | None:
    """Return the verb of 'blocking' or 'managing', if it is known."""
    return next((base for base in (word[:-3], f"{word[:-3]}e") if word.endswith("ing") and base in RELATION_VERBS), None)


def _is_phrase(low: list[str]) -> bool:
    """Tell whether words are a verb, perhaps with prepositions."""
    return low[0].isalpha() and low[0] not in FUNCTION_WORDS and len(low) <= _MOST - 1 and all(word in _PREPOSITIONS for word in low[1:])


def _active(base: str, prepositions: list[str]) -> Relation:
    name = "_".join([third_person(base), *prepositions]).upper()
    return Relation(name)
