"""The words of a goal: which of them are names, labels, properties and values.

What is in quotes is one name or value, whatever words it has. Outside of quotes a name has no 'and', no comma and none of the words that
could mean something else, so a part that is not understood is never taken for a part of a name.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import NoReturn

from pydantic import JsonValue

__all__ = [
    "LABELS", "LIST", "MARK", "NO_NAME", "NO_RENAME", "PROPERTIES", "QUOTE_IT", "TWO_WORDS", "Ref", "Said", "Unread", "asked_label",
    "asked_property", "fail", "is_name", "is_plural", "key_of", "label_of", "property_of", "ref_of", "refs_of", "relationship_of", "shown",
    "singular", "snake", "split_label", "value_of", "whole",
]  # fmt: skip


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MARK = "\ue000-\uf8ff"  # stand for what is in quotes, one character each
LIST = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+", re.IGNORECASE)
NO_NAME = _words(
    """
    again all also and another any anything are as assigned at be because between but by called can cannot connected could depend depends
    did do does doesn't don't each every everybody everyone everything except for from had has have her him his how i if immediately in
    into is it its itself just later linked may maybe me must my myself named never no nobody none not nothing now on only onto or our
    perhaps please should some somebody someone something soon that their them then there these they this those to today together tomorrow
    unless until us was we were what when where which while who whose why will with without would you your
    """
)
_CONDITION = re.compile(
    r"(?i)(?<!\S)(?:if|unless|when|whenever|because|until|while|except|but|or|only|then)(?!\S)|(?<!\S)for\s+(?:all|each|every)(?!\S)"
)
_PARTICLES = _words("al bin da de del den der di du el ibn la le ten van von zu")
LABELS = _words(
    """
    bug category city client comment company component country customer department document employee epic event feature file goal group
    issue location manager meeting milestone module note order organisation organization person place product programme project requirement
    resource risk role service skill sprint step story supplier system tag task team ticket tool topic user
    """
)
TWO_WORDS = frozenset({"work package", "user story", "action item", "business unit"})
PROPERTIES = _words(
    """
    address age budget colour color cost date deadline description due email end estimate hours name note owner points price priority size
    start state status title type url value version
    """
)
_IRREGULAR = {"people": "person", "children": "child", "men": "man", "women": "woman", "criteria": "criterion", "data": "data"}
_NO_PLURAL = re.compile(r"(?:ss|us|is|news|series)$")
_INTEGER, _REAL = re.compile(r"[-+]?\d{1,18}"), re.compile(r"[-+]?\d{1,15}\.\d{1,15}")
_REFERENCE = re.compile(r"([^\W\d_]\w{0,63}):(\S.*)", re.DOTALL)
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_LONGEST_NAME, _LONGEST_KEY, _LONGEST_LABEL, _MOST_SHOWN, _MOST_ITEMS = 64, 500, 3, 120, 60
NO_RENAME = "A key cannot be changed, so nothing can be renamed: create another node and delete this one."
QUOTE_IT = "Put it in quotes if it is one name."


@dataclass
class Said:
    """What a goal has in quotes, and the labels of the nodes that it creates, by key."""

    quoted: tuple[str, ...] = ()
    made: dict[str, set[str]] = field(default_factory=dict[str, set[str]])


@dataclass(frozen=True)
class Ref:
    """A node that is named: by its key, and by its label where that is said."""

    key: str
    label: str | None = None

    def __str__(self) -> str:
        return self.key if self.label is None else f"{self.label}:{self.key}"

    @property
    def said(self) -> str:
        return f"'{self.key}'" if self.label is None else f"{_spaced(self.label)} '{self.key}'"


class Unread(Exception):
    """A part was not understood."""


def is_name(name: str) -> bool:
    """Tell whether a label, relationship or property may have this name: letters, digits and '_', a letter first, 64 at most."""
    return (
        len(name) <= _LONGEST_NAME
        and not name.startswith("_")
        and name.replace("_", "a").isidentifier()
        and not any(unicodedata.category(letter) == "Pc" for letter in name if letter != "_")
        and unicodedata.is_normalized("NFC", name)
        and _UNSEEN.search(name) is None
    )


def shown(text: str, said: Said) -> str:
    """Return a part of a goal as it may stand in a message: short, and with its quotes."""
    text = re.sub(f"[{MARK}]", lambda match: f'"{said.quoted[ord(match[0]) - 0xE000]}"', text)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def fail(says: str) -> NoReturn:
    """Say what is not understood."""
    raise Unread(says)


def whole(text: str, said: Said) -> str | None:
    """Return what is in quotes, if that is all there is."""
    return said.quoted[ord(text) - 0xE000] if re.fullmatch(f"[{MARK}]", text) else None


def key_of(text: str, said: Said) -> str:
    """Read the name of a node."""
    key = whole(text, said)
    if key is None:
        key = text
        words = text.casefold().split()
        odd = next((word for word in words if word in NO_NAME), None)
        if odd is not None:
            fail(f"what does '{odd}' mean in '{shown(text, said)}'? {QUOTE_IT}")
        if len(words) > 1 and words[0] in {"a", "an", "new"} and (text[:2] != "A " or text.isupper()):
            fail(f"which one is '{shown(text, said)}'? {QUOTE_IT}")
        if not words or "," in text or re.search(f"^'|[\"“”`{MARK}]", text):
            fail(f"'{shown(text, said)}' is no name. {QUOTE_IT}")
    key = key.strip()
    if not key or len(key) > _LONGEST_KEY:
        fail(f"a name has 1 to {_LONGEST_KEY} characters.")
    return key


def label_of(text: str, said: Said, *, plural: bool = False) -> str:
    """Make a label of words: in CamelCase, and of one thing."""
    words = (whole(text, said) or text).split()
    if plural and words:
        words[-1] = singular(words[-1])
    label = "".join(word[:1].upper() + (word[1:].lower() if word.isupper() else word[1:]) for word in words)
    if len(words) > _LONGEST_LABEL or not is_name(label) or any(word.casefold() in NO_NAME for word in words):
        fail(f"'{shown(text, said)}' cannot be a label: use letters and digits, a letter first.")
    return label


def asked_label(text: str, said: Said) -> str:
    """Make a label of what a question calls it: one word, or words that are known to be one label."""
    words = text.split()
    known = " ".join([*words[:-1], singular(words[-1])]).casefold() if words else ""
    if len(words) > 1 and known not in TWO_WORDS:
        fail(f"which label is '{shown(text, said)}'? Say one word, and properties behind it: 'tasks with status open'.")
    return label_of(text, said, plural=True)


def singular(word: str) -> str:
    """Return what one of them is called."""
    low = word.casefold()
    if low in _IRREGULAR:
        return _IRREGULAR[low] if word[:1].islower() or word.isupper() else _IRREGULAR[low].capitalize()
    if _NO_PLURAL.search(low) or not low.endswith("s") or len(low) < 3:  # noqa: PLR2004 - 'as'
        return word
    if low.endswith("ies") and len(low) > 4:  # noqa: PLR2004 - 'ties'
        return f"{word[:-3]}{'Y' if word.isupper() else 'y'}"
    return word[:-2] if re.search(r"(?:ss|sh|ch|x|zz|[^ao]us)es$", low) else word[:-1]


def is_plural(word: str) -> bool:
    """Tell whether a word is for several."""
    return word.casefold() in _IRREGULAR or singular(word) != word


def _spaced(label: str) -> str:
    return re.sub(r"(?<=[^\W\d_])(?=[A-Z][^\WA-Z\d_])", " ", label).lower()


def property_of(text: str, said: Said) -> str:
    """Make the name of a property of words: in lower case, with '_' between them."""
    name = whole(text, said)
    if name is None:
        words = text.split()
        is_mixed = len(words) == 1 and not words[0].isupper() and words[0][1:] != words[0][1:].lower()
        name = words[0] if is_mixed else "_".join(words).lower().replace("-", "_")
    if not is_name(name):
        fail(f"'{shown(text, said)}' cannot be the name of a property: use letters and digits, a letter first.")
    if name.casefold() in {"key", "label"}:
        fail(NO_RENAME)
    return name


def asked_property(text: str, said: Said) -> str:
    """Read the name of a property where 'the tasks of Apollo' could be said as well."""
    if singular(text).casefold() in LABELS - PROPERTIES:
        fail(f"is '{shown(text, said)}' a property? Put it in quotes if it is.")
    return property_of(text, said)


def value_of(text: str, said: Said) -> JsonValue:
    """Read a value: a number, true or false, or a text."""
    quoted = whole(text, said)
    if quoted is not None:
        return quoted
    if _INTEGER.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    if text.casefold() in {"true", "false"}:
        return text.casefold() == "true"
    if not text or "," in text or re.search(f'(?i) and |["“”`{MARK}]', text) or _CONDITION.search(text):
        fail(f"is '{shown(text, said)}' one value? Put it in quotes if it is.")
    return text


def ref_of(text: str, said: Said) -> Ref:
    """Read which node is meant: a name, or a label and a name."""
    words = text.split()
    has_article = len(words) > 1 and words[0] in {"the", "The", "THE"}
    if has_article:
        words = words[1:]
    label, rest = split_label(words, is_known_only=False)
    if label:
        return Ref(key_of(rest, said), label_of(label, said))
    if has_article and len(words) > 1 and " ".join(words).islower():
        fail(f"what is the name in '{shown(text, said)}'? {QUOTE_IT}")
    key = key_of(" ".join(words), said)
    reference = _REFERENCE.fullmatch(key) if whole(" ".join(words), said) is None else None
    if reference is not None and is_name(reference[1]):
        return Ref(reference[2], reference[1])
    made = said.made.get(key, set())
    return Ref(key, next(iter(made))) if len(made) == 1 else Ref(key)


def split_label(words: list[str], *, is_known_only: bool) -> tuple[str, str]:
    """Tell the words of a label from those of a name behind it; there may be no label."""
    for many in (2, 1):
        first = " ".join(words[:many])
        is_lower = first.islower() or (first.isupper() and len(first) > 1)
        known = first.casefold() in (TWO_WORDS if many > 1 else LABELS)
        if len(words) > many and known and is_lower:
            return first, " ".join(words[many:])
    if len(words) > 1 and not is_known_only and words[0].isalpha() and words[0].islower() and words[0] not in _PARTICLES | NO_NAME:
        second = words[1]
        if second[:1].isupper() or second[:1].isdigit() or re.match(f"[{MARK}]", second):
            return words[0], " ".join(words[1:])
    return "", " ".join(words)


def refs_of(text: str, said: Said) -> list[Ref]:
    """Read one node or several; 'tasks A and B' gives each of them the label."""
    items = LIST.split(text)
    words = re.sub(r"(?i)^the\s+", "", items[0]).split()
    if len(items) > _MOST_ITEMS:
        fail(f"I read {_MOST_ITEMS} names at a time.")
    if len(items) > 1 and len(words) > 1 and words[0].islower() and is_plural(words[0]):
        label = label_of(words[0], said, plural=True)
        return [Ref(key_of(item, said), label) for item in (" ".join(words[1:]), *items[1:])]
    return [ref_of(item, said) for item in items]


def relationship_of(text: str, said: Said) -> str:
    """Make the name of a relationship of words: in capitals, with '_' between them."""
    name = snake(re.sub(r"(?i)^(?:an?|the)\s+", "", whole(text, said) or text))
    if not is_name(name) or any(word.casefold() in {"and", "or", "if"} for word in text.split()):
        fail(f"'{shown(text, said)}' cannot be a relationship: use letters and digits, a letter first.")
    return name


def snake(text: str) -> str:
    """Write words in capitals, with '_' between them."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"[\s-]+", "_", spaced.strip()).upper()
