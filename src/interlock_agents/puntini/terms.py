"""The terms of a goal: names, labels, properties, relationships and values.

A text in quotes is one name or value. Outside of quotes a name has no word that could mean something else, so a part that is not
understood never becomes part of a name. An existing node may be named more freely than a new one: the graph tells whether it exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pydantic import JsonValue

from interlock.spelling import closest, edit_distance
from interlock_agents.puntini.graphs import cypher
from interlock_agents.puntini.patterns import reject
from interlock_agents.puntini.vocabulary import (
    AUXILIARY,
    EVERY,
    FUNCTION_WORDS,
    IRREGULAR_PLURALS,
    LABELS,
    MONTHS,
    OF_PROPERTY,
    PARTICLES,
    PHRASES,
    PRONOUNS,
    PROPERTIES,
    RELATIVE,
    TELLING,
    THAT_ONE,
    THIRD_PERSON,
    TWO_WORDS,
    UNITS,
    VERBS,
    WHICH,
)

__all__ = [
    "QUOTE_IT", "READERS", "Context", "Ref", "excerpt", "is_name", "is_plural", "quoted_text", "read_label", "read_name", "read_nodes",
    "read_property", "read_relationship", "read_value", "singular", "split_label", "split_list", "upper_snake_case",
]  # fmt: skip

# A quoted text is replaced by one character of the private use area, which is its number.
_QUOTED = re.compile("[\ue000-\uf8ff]")
_NO_PLURAL = re.compile(r"(?:ss|us|is|news|series|species)$")
_NUMBERS = ((re.compile(r"[-+]?\d{1,18}"), int), (re.compile(r"[-+]?\d{1,15}\.\d{1,15}"), float))
_REFERENCE = re.compile(r"([^\W\d_]\w{0,63}):(\S.*)", re.DOTALL)
_AMOUNT = re.compile(r"[$€£]\d\S*|\d[\d.,]*(?:[$€£%]|h|d|kg|g|km|min|eur|usd)|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_LONGEST_KEY, _MOST_SHOWN, _MOST_ITEMS, _MOST_WORDS = 500, 120, 60, 8
_SHORT_LABEL = 4  # letters; one more or less makes another word of a short one
_NO_LABEL = PARTICLES | FUNCTION_WORDS | VERBS | WHICH | {"top", "new", "old", "open", "done"}
_ANY_NODE = frozenset({"node", "thing"})
QUOTE_IT = 'If that is one name, put it in quotes: "..."'


@dataclass(frozen=True)
class Ref:
    """A node by its key, and by its label if the goal has it."""

    key: str
    label: str | None = None

    def __str__(self) -> str:
        return self.key if self.label is None else f"{self.label}:{self.key}"

    @property
    def text(self) -> str:
        """The node in words: "task 'Design'"."""
        label = "" if self.label is None else re.sub(r"(?<=[^\W\d_])(?=[A-Z][^\WA-Z\d_])", " ", self.label).lower() + " "
        return f"{label}'{self.key}'"


@dataclass
class Context:
    """The quoted texts of a goal, the labels of the nodes that it creates by key, and the nodes that it mentioned last."""

    quoted: tuple[str, ...] = ()
    created: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    last: tuple[Ref, ...] = ()


def is_name(name: str) -> bool:
    """Return whether a label, relationship or property may have this name."""
    return cypher.is_name(name) and not name.startswith("_")


def excerpt(words: list[str], context: Context) -> str:
    """Return a part of a goal for a message: shortened, and with its quotes."""
    text = re.sub(r" (?=[,:]|'s?\b)", "", " ".join(words))
    text = _QUOTED.sub(lambda match: f'"{context.quoted[ord(match[0]) - 0xE000]}"', text)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def quoted_text(words: list[str], context: Context) -> str | None:
    """Return the quoted text if the words are nothing else."""
    return context.quoted[ord(words[0]) - 0xE000] if len(words) == 1 and _QUOTED.fullmatch(words[0]) else None


def split_list(words: list[str]) -> list[list[str]]:
    """Split words at commas and 'and'."""
    found: list[list[str]] = [[]]
    for number, word in enumerate(words):
        if word == "," or word.casefold() in {"and", "&", "plus"}:
            if word == "," or words[number - 1 : number] != [","]:
                found.append([])
        else:
            found[-1].append(word)
    if len(found) > _MOST_ITEMS:
        reject(f"I read {_MOST_ITEMS} names at a time.")
    return found


# Names.


def read_name(words: list[str], context: Context, *, is_new: bool, may_be_phrase: bool = False) -> str:
    """Read the name of a node. The name of a new node is capitalized or one word, unless `may_be_phrase`."""
    key = quoted_text(words, context)
    if key is None:
        key = " ".join(words)
        low, said = [word.casefold() for word in words], excerpt(words, context)
        inner = {n for n in range(1, len(words) - 1) if low[n] in PARTICLES and _is_capital(words[0], words[-1])}
        odd = next((word for n, word in enumerate(low) if word in FUNCTION_WORDS and n not in inner and not _is_initial(words, n)), None)
        if odd is not None or not words:
            reject(_why_no_name(odd or "", words, said))
        if low[0] in WHICH and words[0].islower():
            reject(f"which one is '{said}'? Say its name.")
        if _QUOTED.search(key) or re.search(r"^'|[\"“”`()\[\]{}]", key):
            reject(f"'{said}' is not a name. {QUOTE_IT}")
        if len(words) > 1 and not may_be_phrase and (low[0] in VERBS or any(word in THIRD_PERSON for word in words)):
            reject(f"is '{said}' a name? {QUOTE_IT}")
        is_plain = len(words) == 1 or may_be_phrase or all(n in inner or _is_capital(word) for n, word in enumerate(words))
        tells = TELLING & {*words[1:]} or (is_new and len(words) > 1 and (low[-1] in RELATIVE or any(map(_AMOUNT.fullmatch, low[1:]))))
        if (is_new and not is_plain) or len(words) > _MOST_WORDS or tells:
            reject(f"is '{said}' one name? {QUOTE_IT}")
    key = key.strip()
    if not key or len(key) > _LONGEST_KEY:
        reject(f"a name has 1 to {_LONGEST_KEY} characters.")
    return key


def _why_no_name(odd: str, words: list[str], said: str) -> str:
    """Say that a word cannot be part of a name, and what to do about it."""
    if odd in PRONOUNS:
        return f"who or what is '{odd}' in '{said}'? Say the name."
    if odd in EVERY:
        return f"I take only nodes that are named: say the names instead of '{said}'."
    return f"what does '{odd}' mean in '{said}'? {QUOTE_IT}" if len(words) > 1 and odd not in AUXILIARY else ""


def _is_capital(*words: str) -> bool:
    return all(not word[:1].islower() or any(map(str.isdigit, word)) for word in words)


def _is_initial(words: list[str], at: int) -> bool:
    """Return whether a word that looks like an article or 'I' is a letter in a name: 'Plan A', 'A', 'Henry I'."""
    return words[at] in {"A", "I"} and (len(words) == 1 or (at > 0 and not " ".join(words).isupper()))


def read_nodes(words: list[str], context: Context, *, most: int | None = None) -> list[Ref]:
    """Read named nodes. 'tasks A and B' gives each of them the label; 'it' is the node that was mentioned last."""
    low = [word.casefold() for word in words]
    if len(low) == 1 and low[0] in THAT_ONE | {"them", "both", "they"}:
        if not context.last or (low[0] in THAT_ONE) != (len(context.last) == 1):
            reject(f"I do not know what '{words[0]}' is, as each goal is read by itself: say the name.")
        return list(context.last)
    parts = split_list(words)
    label, first = split_label(parts[0], is_known=False)
    is_several = bool(label) and is_plural(label.split()[-1])
    if is_several and len(parts) > 1:
        of = _label_or_any(label, context, plural=True)
        refs = [Ref(read_name(part, context, is_new=False), of) for part in (first, *parts[1:])]
    elif is_several and label.split()[-1].casefold() not in LABELS:
        reject(f"which one is '{excerpt(words, context)}'?")
    else:
        refs = [_ref(part, context) for part in parts]
    if most is not None and len(refs) > most:
        reject(f"name one of '{excerpt(words, context)}' in each sentence.")
    return refs


def _ref(words: list[str], context: Context) -> Ref:
    has_article = words[:1] != [] and words[0].casefold() == "the"
    words = words[1:] if has_article else words
    label, rest = split_label(words, is_known=False)
    if label:
        rest = rest[1:] if rest[:1] and rest[0].casefold() in {"called", "named", ":"} else rest
        return Ref(read_name(rest, context, is_new=False), _label_or_any(label, context))
    if len(words) > 1 and words[-1].islower() and words[-1] in LABELS and (has_article or _is_capital(*words[:-1])):
        # 'the Launch task' is the task Launch.
        return Ref(read_name(words[:-1], context, is_new=False), read_label(words[-1:], context))
    key = read_name(words, context, is_new=False)
    reference = _REFERENCE.fullmatch(key) if quoted_text(words, context) is None else None
    if reference is not None and is_name(reference[1]):
        return Ref(reference[2], reference[1])
    if len(words) > 1 and words[-1].islower() and is_plural(words[-1]) and singular(words[-1]) in LABELS | _ANY_NODE:
        reject(f"which ones are '{excerpt(words, context)}'? Say their names.")
    created = context.created.get(key, set())
    return Ref(key, next(iter(created))) if len(created) == 1 else Ref(key)


def _label_or_any(label: str, context: Context, *, plural: bool = False) -> str | None:
    """Return a label; 'the node Ada' has none."""
    return None if singular(label.casefold()) in _ANY_NODE else read_label(label.split(), context, plural=plural)


# Labels, properties, relationships.


def split_label(words: list[str], *, is_known: bool) -> tuple[str, list[str]]:
    """Split the words of a label from the name after it. The label may be empty; with `is_known` it is one of the vocabulary."""
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
        if second[:1].isupper() or second[:1].isdigit() or _QUOTED.match(second) or second.casefold() in {"called", "named"}:
            return words[0], words[1:]
    return "", words


def read_label(words: list[str], context: Context, *, plural: bool = False) -> str:
    """Make a label of words: in CamelCase and the singular. A misspelt one is rejected with the right one."""
    quoted = quoted_text(words, context)
    parts = quoted.split() if quoted is not None else list(words)
    if plural and parts:
        parts[-1] = singular(parts[-1])
    label = "".join(word[:1].upper() + (word[1:].lower() if word.isupper() else word[1:]) for word in parts)
    low, said = " ".join(parts).casefold(), excerpt(words, context)
    if len(parts) > 1 and low not in TWO_WORDS and quoted is None:
        reject(f"what is '{said}'? Say one word for what it is, and put the rest behind it: 'a task Design with status open'.")
    if not is_name(label) or any(word.casefold() in FUNCTION_WORDS for word in parts):
        reject(f"'{said}' cannot be a label: use letters and digits, a letter first.")
    if quoted is None and low not in LABELS | TWO_WORDS | PROPERTIES and (near := _misspelt(low) or _misspelt(" ".join(words).casefold())):
        reject(f"what is '{said}'? Did you mean '{near}'? If not, put it in quotes.")
    return label


def _misspelt(word: str) -> str:
    """Return the known label that a word is a misspelling of, if it looks like one."""
    near = closest(word, LABELS)
    is_swapped = bool(near) and sorted(near[0]) == sorted(word)
    is_close = bool(near) and len(word) > _SHORT_LABEL and edit_distance(word, near[0]) <= 1 + (len(word) > _SHORT_LABEL + 3)
    return near[0] if is_swapped or is_close else ""


def singular(word: str) -> str:
    """Return the singular of a noun."""
    low = word.casefold()
    if low in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[low] if word[:1].islower() or word.isupper() else IRREGULAR_PLURALS[low].capitalize()
    if _NO_PLURAL.search(low) or not low.endswith("s") or len(low) <= len("as"):
        return word
    if low.endswith("ies") and len(low) > len("ties") and low != "movies":
        return f"{word[:-3]}{'Y' if word.isupper() else 'y'}"
    return word[:-2] if re.search(r"(?:ss|sh|ch|x|zz|[^ao]us)es$", low) else word[:-1]


def is_plural(word: str) -> bool:
    """Return whether a noun is in the plural."""
    return word.casefold() in IRREGULAR_PLURALS or singular(word) != word


def read_property(words: list[str], context: Context) -> str:
    """Make the name of a property of words: in lower case, with '_' between them. 'name' is the key."""
    name, said = quoted_text(words, context), excerpt(words, context)
    if name is None:
        low = [word.casefold() for word in words]
        if any(word in FUNCTION_WORDS | WHICH | (VERBS - PROPERTIES) for word in low) or (
            len(words) > 1 and low[-1] not in OF_PROPERTY | PROPERTIES
        ):
            reject(f"which property is '{said}'?")
        is_label = singular(low[-1]) in LABELS - PROPERTIES and low[-1] not in PROPERTIES
        if is_label or (words[0][:1].isupper() and not words[0].isupper() and low[0] not in PROPERTIES):
            reject(f"is '{said}' a property? Put it in quotes if it is.")
        is_mixed = len(words) == 1 and not words[0].isupper() and words[0][1:] != words[0][1:].lower()
        name = words[0] if is_mixed else "_".join(low).replace("-", "_")
    if not is_name(name):
        reject(f"'{said}' cannot be the name of a property: use letters and digits, a letter first.")
    if name.casefold() == "label":
        reject("The label of a node cannot be changed: create another node and delete this one.")
    return "key" if name.casefold() in {"key", "name"} else name


def read_value(words: list[str], context: Context) -> JsonValue:
    """Read a value: a number, true or false, a date, a word, a capitalized name, or a quoted text."""
    quoted = quoted_text(words, context)
    if quoted is not None:
        return quoted
    text, low, said = " ".join(words), [word.casefold() for word in words], excerpt(words, context)
    plain = text.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+", text) else text
    for number, kind in _NUMBERS:
        if number.fullmatch(plain):
            return kind(plain)
    if text.casefold() in {"true", "false", "yes", "no"}:
        return text.casefold() in {"true", "yes"}
    if set(low) & RELATIVE and not _is_capital(*words):
        reject(f"I do not know what day '{said}' is. Write a date as 2030-01-31, or put the words in quotes.")
    if {*"+-*/^"} & {*words}:
        reject(f"I do not calculate: what is the value of '{said}'?")
    has_quotes = _QUOTED.search(text) is not None or (len(words) > 1 and re.search(r"[\"“”`]", text) is not None)
    is_plain = not set(low) & FUNCTION_WORDS and not has_quotes
    if " ".join(low) in PHRASES or _is_amount(low) or (is_plain and (len(words) == 1 or _is_capital(*words))):
        return text
    return reject(f"is '{said}' one value? If it is, put it in quotes." if len(words) > 1 else "")


def _is_amount(low: list[str]) -> bool:
    """Return whether words are a number with a unit, or a date with a month."""
    is_number = [re.fullmatch(r"\d[\d.]*(?:st|nd|rd|th)?", word) is not None for word in low]
    return (len(low) == 2 and is_number[0] and low[1] in UNITS) or (  # noqa: PLR2004 - a number and its unit
        len(low) in {2, 3} and sum(word in MONTHS for word in low) == 1 and sum(is_number) == len(low) - 1
    )


def read_relationship(words: list[str], context: Context) -> str:
    """Make the name of a relationship of words: in capitals, with '_' between them."""
    quoted = quoted_text(words, context)
    name, low = upper_snake_case(quoted if quoted is not None else " ".join(words)), [word.casefold() for word in words]
    if not is_name(name) or low[0] in {"a", "an", "the", "new", "another"} or {*low} & {"and", "or", "if", ","}:
        reject(f"'{excerpt(words, context)}' cannot be a relationship: use letters and digits, a letter first.")
    return name


def upper_snake_case(text: str) -> str:
    """Write words in capitals, with '_' between them."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"[\s-]+", "_", spaced.strip()).upper()


READERS = {"nodes": read_nodes, "property": read_property, "value": read_value, "relationship": read_relationship}
"""The readers of terms, by the kind of their slot."""
