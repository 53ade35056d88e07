"""The words of a goal: which of them are names, labels, properties and values.

What is in quotes is one name or value, whatever words it has. Outside of quotes a name has none of the words that could mean something
else, so a part that is not understood is never taken for a part of a name. A node that is there already may be named more freely than one
that is to be created: the graph tells whether there is such a node.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import NoReturn

from pydantic import JsonValue

from interlock.spelling import closest, edit_distance
from interlock_agents.puntini.patterns import Unread
from interlock_agents.puntini.vocabulary import (
    AUXILIARY,
    EVERY,
    FUNCTION_WORDS,
    IRREGULAR,
    LABELS,
    MONTHS,
    OF_PROPERTY,
    PARTICLES,
    PEOPLE,
    PHRASES,
    PRONOUNS,
    PROPERTIES,
    RELATION_VERBS,
    RELATIVE,
    TELLING,
    THAT_ONE,
    THIRD_PERSON,
    TWO_WORDS,
    UNITS,
    VERBS,
    WHICH,
    third_person,
    word_set,
)

__all__ = [
    "FUNCTION_WORDS", "LABELS", "PEOPLE", "PHRASES", "PROPERTIES", "QUOTE_IT", "RELATION_VERBS", "VERBS", "Ref", "Said", "fail", "is_name",
    "is_plural", "items", "label_of", "label_words", "mark_of", "named", "property_of", "refs_of", "relationship_of", "shown",
    "singular", "snake", "third_person", "value_of",
]  # fmt: skip


_MARK = re.compile("[\ue000-\uf8ff]")
_NO_PLURAL = re.compile(r"(?:ss|us|is|news|series|species)$")
_INTEGER, _REAL = re.compile(r"[-+]?\d{1,18}"), re.compile(r"[-+]?\d{1,15}\.\d{1,15}")
_REFERENCE = re.compile(r"([^\W\d_]\w{0,63}):(\S.*)", re.DOTALL)
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_AMOUNT = re.compile(r"[$€£]\d\S*|\d[\d.,]*(?:[$€£%]|h|d|kg|g|km|min|eur|usd)|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_LONGEST_NAME, _LONGEST_KEY, _MOST_SHOWN, _MOST_ITEMS, _MOST_WORDS = 64, 500, 120, 60, 8
_SHORT_LABEL = 4  # letters; one more or less makes another word of a short one
QUOTE_IT = 'If that is one name, put it in quotes: "..."'


@dataclass
class Said:
    """What a goal has in quotes, the labels of the nodes that it creates by key, and what was spoken of last."""

    quoted: tuple[str, ...] = ()
    made: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    last: tuple[Ref, ...] = ()


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


def fail(says: str) -> NoReturn:
    """Say what is not understood."""
    raise Unread(says)


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


def shown(words: list[str], said: Said) -> str:
    """Return a part of a goal as it may stand in a message: short, and with its quotes."""
    text = re.sub(r" (?=[,:]|'s?\b)", "", " ".join(words))
    text = _MARK.sub(lambda match: f'"{said.quoted[ord(match[0]) - 0xE000]}"', text)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def mark_of(words: list[str], said: Said) -> str | None:
    """Return what is in quotes, if that is all there is."""
    return said.quoted[ord(words[0]) - 0xE000] if len(words) == 1 and _MARK.fullmatch(words[0]) else None


# Lists.


def items(words: list[str]) -> list[list[str]]:
    """Split words at commas and 'and'."""
    found: list[list[str]] = [[]]
    for number, word in enumerate(words):
        if word == "," or word.casefold() in {"and", "&", "plus"}:
            if word == "," or words[number - 1 : number] != [","]:
                found.append([])
        else:
            found[-1].append(word)
    if len(found) > _MOST_ITEMS:
        fail(f"I read {_MOST_ITEMS} names at a time.")
    return found


# Names.


def named(words: list[str], said: Said, *, is_new: bool, may_be_phrase: bool = False) -> str:
    """Read the name of a node. One of a new node has capitals, or is one word, unless `may_be_phrase`."""
    key = mark_of(words, said)
    if key is None:
        key = " ".join(words)
        low = [word.casefold() for word in words]
        inner = {n for n in range(1, len(words) - 1) if low[n] in PARTICLES and _is_capital(words[0], words[-1])}
        odd = next((word for n, word in enumerate(low) if word in FUNCTION_WORDS and n not in inner and not _is_initial(words, n)), None)
        if odd is not None or not words:
            _fail_at(odd or "", words, said)
        if low and low[0] in WHICH and words[0].islower():
            fail(f"which one is '{shown(words, said)}'? Say its name.")
        if _MARK.search(key) or re.search(r"^'|[\"“”`()\[\]{}]", key):
            fail(f"'{shown(words, said)}' is no name. {QUOTE_IT}")
        if len(words) > 1 and not may_be_phrase and (low[0] in VERBS or THIRD_PERSON & {*words}):
            fail(f"is '{shown(words, said)}' a name? {QUOTE_IT}")
        is_plain = len(words) == 1 or may_be_phrase or all(n in inner or _is_capital(word) for n, word in enumerate(words))
        tells = TELLING & {*words[1:]} or (is_new and len(words) > 1 and (low[-1] in RELATIVE or any(map(_AMOUNT.fullmatch, low[1:]))))
        if (is_new and not is_plain) or len(words) > _MOST_WORDS or tells:
            fail(f"is '{shown(words, said)}' one name? {QUOTE_IT}")
    key = key.strip()
    if not key or len(key) > _LONGEST_KEY:
        fail(f"a name has 1 to {_LONGEST_KEY} characters.")
    return key


def _fail_at(odd: str, words: list[str], said: Said) -> NoReturn:
    """Say that a word cannot be a part of a name, and what to do about it."""
    if odd in PRONOUNS:
        fail(f"who or what is '{odd}' in '{shown(words, said)}'? Say the name.")
    if odd in EVERY:
        fail(f"I take only nodes that are named: say the names instead of '{shown(words, said)}'.")
    fail("" if len(words) < 2 or odd in AUXILIARY else f"what does '{odd}' mean in '{shown(words, said)}'? {QUOTE_IT}")  # noqa: PLR2004 - one word


def _is_capital(*words: str) -> bool:
    return all(not word[:1].isalpha() or not word[:1].islower() or any(map(str.isdigit, word)) for word in words)


def _is_initial(words: list[str], at: int) -> bool:
    """Tell whether a word that looks like an article or 'I' is a letter in a name: 'Plan A', 'A', 'Henry I'."""
    return words[at] in {"A", "I"} and (len(words) == 1 or (at > 0 and not " ".join(words).isupper()))


def refs_of(words: list[str], said: Said, *, most: int | None = None) -> list[Ref]:
    """Read one node or several that are named; 'tasks A and B' gives each of them the label, 'it' is what was spoken of last."""
    low = [word.casefold() for word in words]
    if len(low) == 1 and low[0] in THAT_ONE | {"them", "both", "they"}:
        return _meant(words[0], said)
    parts = items(words)
    label, first = label_words(parts[0], is_known=False)
    refs: list[Ref]
    if label and len(parts) > 1 and is_plural(label.split()[-1]):
        of = _said_label(label, said, plural=True)
        refs = [Ref(named(part, said, is_new=False), of) for part in (first, *parts[1:])]
    elif label and is_plural(label.split()[-1]) and label.split()[-1].casefold() not in LABELS and len(parts) == 1:
        fail(f"which one is '{shown(words, said)}'?")
    else:
        refs = [_ref(part, said) for part in parts]
    if most is not None and len(refs) > most:
        fail(f"name one of '{shown(words, said)}' in each sentence.")
    return refs


def _meant(word: str, said: Said) -> list[Ref]:
    is_one = word.casefold() in THAT_ONE
    if not said.last or is_one != (len(said.last) == 1):
        fail(f"I do not know what '{word}' is, as each goal is read by itself: say the name.")
    return list(said.last)


def _ref(words: list[str], said: Said) -> Ref:
    has_article = words[:1] != [] and words[0].casefold() == "the"
    words = words[1:] if has_article else words
    label, rest = label_words(words, is_known=False)
    if label:
        if rest[:1] and rest[0].casefold() in {"called", "named", ":"}:
            rest = rest[1:]
        return Ref(named(rest, said, is_new=False), _said_label(label, said))
    if len(words) > 1 and words[-1].islower() and words[-1] in LABELS and (has_article or _is_capital(*words[:-1])):
        # 'the Launch task' is the task Launch.
        return Ref(named(words[:-1], said, is_new=False), label_of(words[-1:], said))
    key = named(words, said, is_new=False)
    reference = _REFERENCE.fullmatch(key) if mark_of(words, said) is None else None
    if reference is not None and is_name(reference[1]):
        return Ref(reference[2], reference[1])
    if len(words) > 1 and words[-1].islower() and is_plural(words[-1]) and singular(words[-1]) in LABELS | {"node", "thing"}:
        fail(f"which ones are '{shown(words, said)}'? Say their names.")
    made = said.made.get(key, set())
    return Ref(key, next(iter(made))) if len(made) == 1 else Ref(key)


def _said_label(label: str, said: Said, *, plural: bool = False) -> str | None:
    """Make a label of words; 'the node Ada' says none."""
    return None if singular(label.casefold()) in {"node", "thing"} else label_of(label.split(), said, plural=plural)


# Labels, properties, relationships.


_NO_LABEL = PARTICLES | FUNCTION_WORDS | VERBS | WHICH | word_set("top new old open done")


def label_words(words: list[str], *, is_known: bool) -> tuple[str, list[str]]:
    """Tell the words of a label from those of a name behind it; there may be no label."""
    for many in (2, 1):
        first = " ".join(words[:many])
        one = singular(first.casefold())
        if len(words) > many and one in (TWO_WORDS if many > 1 else LABELS) and (first[:1].islower() or first.isupper() or is_known):
            return first, words[many:]
    if (
        len(words) > 1
        and not is_known
        and words[0].isalpha()
        and words[0].islower()
        and words[0] not in _NO_LABEL
        and words[0][-3:] != "ing"
    ):
        second = words[1]
        if second[:1].isupper() or second[:1].isdigit() or _MARK.match(second) or second.casefold() in {"called", "named"}:
            return words[0], words[1:]
    return "", words


def label_of(words: list[str], said: Said, *, plural: bool = False) -> str:
    """Make a label of words: in CamelCase, and of one thing. One that looks misspelt is asked back."""
    quoted = mark_of(words, said)
    parts = quoted.split() if quoted is not None else list(words)
    if plural and parts:
        parts[-1] = singular(parts[-1])
    label = "".join(word[:1].upper() + (word[1:].lower() if word.isupper() else word[1:]) for word in parts)
    low = " ".join(parts).casefold()
    if len(parts) > 1 and low not in TWO_WORDS and quoted is None:
        fail(f"what is '{shown(words, said)}'? Say one word for what it is, and put the rest behind it: 'a task Design with status open'.")
    if not is_name(label) or any(word.casefold() in FUNCTION_WORDS for word in parts):
        fail(f"'{shown(words, said)}' cannot be a label: use letters and digits, a letter first.")
    if quoted is None and low not in LABELS | TWO_WORDS | PROPERTIES and (near := misspelt(low) or misspelt(" ".join(words).casefold())):
        fail(f"what is '{shown(words, said)}'? Did you mean '{near}'? If not, put it in quotes.")
    return label


def misspelt(word: str) -> str:
    """Return the known label that a word is a misspelling of, if it looks like one."""
    near = closest(word, LABELS)
    is_swapped = bool(near) and sorted(near[0]) == sorted(word)
    is_close = bool(near) and len(word) > _SHORT_LABEL and edit_distance(word, near[0]) <= 1 + (len(word) > _SHORT_LABEL + 3)
    return near[0] if is_swapped or is_close else ""


def singular(word: str) -> str:
    """Return what one of them is called."""
    low = word.casefold()
    if low in IRREGULAR:
        return IRREGULAR[low] if word[:1].islower() or word.isupper() else IRREGULAR[low].capitalize()
    if _NO_PLURAL.search(low) or not low.endswith("s") or len(low) < 3:  # noqa: PLR2004 - 'as'
        return word
    if low.endswith("ies") and len(low) > 4 and low != "movies":  # noqa: PLR2004 - 'ties'
        return f"{word[:-3]}{'Y' if word.isupper() else 'y'}"
    return word[:-2] if re.search(r"(?:ss|sh|ch|x|zz|[^ao]us)es$", low) else word[:-1]


def is_plural(word: str) -> bool:
    """Tell whether a word is for several."""
    return word.casefold() in IRREGULAR or singular(word) != word


def _spaced(label: str) -> str:
    return re.sub(r"(?<=[^\W\d_])(?=[A-Z][^\WA-Z\d_])", " ", label).lower()


def property_of(words: list[str], said: Said) -> str:
    """Make the name of a property of words: in lower case, with '_' between them; 'name' is the key."""
    name = mark_of(words, said)
    if name is None:
        low = [word.casefold() for word in words]
        if any(word in FUNCTION_WORDS | WHICH | (VERBS - PROPERTIES) for word in low) or (
            len(words) > 1 and low[-1] not in OF_PROPERTY | PROPERTIES
        ):
            fail(f"which property is '{shown(words, said)}'?")
        if singular(low[-1]) in LABELS - PROPERTIES and low[-1] not in PROPERTIES:
            fail(f"is '{shown(words, said)}' a property? Put it in quotes if it is.")
        if words[0][:1].isupper() and not words[0].isupper() and low[0] not in PROPERTIES:
            fail(f"is '{shown(words, said)}' a property? Put it in quotes if it is.")
        is_mixed = len(words) == 1 and not words[0].isupper() and words[0][1:] != words[0][1:].lower()
        name = words[0] if is_mixed else "_".join(low).replace("-", "_")
    if not is_name(name):
        fail(f"'{shown(words, said)}' cannot be the name of a property: use letters and digits, a letter first.")
    if name.casefold() == "label":
        fail("The label of a node cannot be changed: create another node and delete this one.")
    return "key" if name.casefold() in {"key", "name"} else name


def value_of(words: list[str], said: Said) -> JsonValue:
    """Read a value: a number, true or false, a date, a word, a name with capitals, or what is in quotes."""
    quoted = mark_of(words, said)
    if quoted is not None:
        return quoted
    text, low = " ".join(words), [word.casefold() for word in words]
    if len(words) == 1 and re.fullmatch(r"\d{1,3}(?:,\d{3})+", text):
        text = text.replace(",", "")
    if _INTEGER.fullmatch(text):
        return int(text)
    if _REAL.fullmatch(text):
        return float(text)
    if text.casefold() in {"true", "false", "yes", "no"}:
        return text.casefold() in {"true", "yes"}
    if set(low) & RELATIVE and not _is_capital(*words):
        fail(f"I do not know what day '{shown(words, said)}' is. Write a date as 2030-01-31, or put the words in quotes.")
    if {*"+-*/^"} & {*words}:
        fail(f"I do not calculate: what is the value of '{shown(words, said)}'?")
    if " ".join(low) in PHRASES or _is_amount(low) or (len(words) == 1 and low[0] not in FUNCTION_WORDS and not _MARK.search(text)):
        return text
    if not set(low) & FUNCTION_WORDS and _is_capital(*words) and not re.search(r"[\"“”`]", text) and not _MARK.search(text):
        return text
    return fail(f"is '{shown(words, said)}' one value? If it is, put it in quotes." if len(words) > 1 else "")


def _is_amount(low: list[str]) -> bool:
    """Tell whether words are a number with a unit, or a date with a month."""
    is_number = [re.fullmatch(r"\d[\d.]*(?:st|nd|rd|th)?", word) is not None for word in low]
    return (len(low) == 2 and is_number[0] and low[1] in UNITS) or (  # noqa: PLR2004 - a number and its unit
        len(low) in {2, 3} and sum(word in MONTHS for word in low) == 1 and sum(is_number) == len(low) - 1
    )


def relationship_of(words: list[str], said: Said) -> str:
    """Make the name of a relationship of words: in capitals, with '_' between them."""
    quoted = mark_of(words, said)
    name = snake(quoted if quoted is not None else " ".join(words))
    if (
        not is_name(name)
        or words[0].casefold() in {"a", "an", "the", "new", "another"}
        or {word.casefold() for word in words} & {"and", "or", "if", ","}
    ):
        fail(f"'{shown(words, said)}' cannot be a relationship: use letters and digits, a letter first.")
    return name


def snake(text: str) -> str:
    """Write words in capitals, with '_' between them."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"[\s-]+", "_", spaced.strip()).upper()
