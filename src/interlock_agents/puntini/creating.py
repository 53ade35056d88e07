"""What is to be created: 'a task Design', 'tasks Design and Build with status open', 'a work package called Alpha'."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from interlock_agents.puntini.patterns import Unread
from interlock_agents.puntini.words import (
    FUNCTION_WORDS,
    LABELS,
    PEOPLE,
    PROPERTIES,
    QUOTE_IT,
    Ref,
    Said,
    fail,
    is_name,
    is_plural,
    items,
    label_of,
    label_words,
    mark_of,
    named,
    property_of,
    shown,
    singular,
    snake,
    value_of,
)

__all__ = ["With", "new_nodes", "read_pair", "with_parts"]

_ARTICLES = frozenset({"a", "an", "the", "another", "one"})
_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_INTRODUCED = frozenset({"called", "named", ":", "titled"})


@dataclass(frozen=True)
class With:
    """What new nodes have: properties, nodes of their own, and labels of which they are to have none."""

    pairs: tuple[tuple[str, JsonValue], ...] = ()
    children: tuple[Ref, ...] = ()
    without: tuple[str, ...] = ()


@dataclass
class _Group:
    label: str
    names: list[Ref]
    is_several: bool
    may_be_phrase: bool
    count: int | None


def new_nodes(words: list[str], said: Said) -> list[Ref]:
    """Read which nodes are to be created, each with its label."""
    groups: list[_Group] = []
    for item in items(words):
        if not item:
            fail(f"a name is missing in '{shown(words, said)}'.")
        if groups and groups[-1].is_several and not _begins(item):
            name = named(item, said, is_new=True, may_be_phrase=groups[-1].may_be_phrase)
            groups[-1].names.append(Ref(name, groups[-1].label))
        else:
            groups.append(_group(item, said, is_first=not groups))
    for group in groups:
        if group.count is not None and group.count != len(group.names):
            fail(f"{group.count} are to be created, and {len(group.names)} named: '{shown(words, said)}'.")
        if group.is_several and len(group.names) == 1 and group.names[0].key.isdigit():
            fail(f"is '{group.names[0].key}' a number or a name in '{shown(words, said)}'? {QUOTE_IT}")
        if not is_name(f"HAS_{snake(group.label)}"):
            fail(f"'{group.label}' is too long for a label.")
    return [ref for group in groups for ref in group.names]


def _begins(item: list[str]) -> bool:
    """Tell whether an item of a list is not one more name, but a label of its own."""
    if item[0].casefold() in _ARTICLES | {"new"} and len(item) > 1 and item[0] != "A":
        return True
    label, _ = label_words(item, is_known=False)
    return bool(label) and label.islower() and is_plural(label.split()[-1])


def _group(item: list[str], said: Said, *, is_first: bool) -> _Group:
    words, count, has_article = list(item), None, False
    low = words[0].casefold()
    if low in _ARTICLES and len(words) > 1:
        has_article, words = low != "the", words[1:]
    elif (low in _NUMBERS or low.isdigit()) and len(words) > 1:
        count, words = _NUMBERS.get(low) or int(low[:3]), words[1:]
    if words[0].casefold() in {"new", "more"} and len(words) > 1:
        words = words[1:]
    label, name, is_introduced = _label_and_name(words, said)
    is_several = not has_article and (is_plural(label[-1]) or (count or 1) > 1 or (mark_of(label, said) is not None and not is_first))
    made = label_of(label, said, plural=is_several)
    if made.casefold() in PROPERTIES - LABELS and mark_of(label, said) is None:
        fail(f"is '{shown(label, said)}' a property? Say 'set the {shown(label, said)} of Design to {shown(name, said)}'.")
    is_person = made.casefold() in PEOPLE
    if is_person and len(name) > 1 and any(word.isdigit() for word in name):
        fail(f"is '{shown(name, said)}' one name? {QUOTE_IT}")
    phrase = is_introduced or (is_person and len(name) == 2 and all(map(str.islower, name)))  # noqa: PLR2004 - 'ada lovelace'
    if len(name) == 1 and name[0].islower() and not is_introduced and singular(name[0]) in LABELS | {"node", "thing"}:
        fail(f"what is the name of '{shown(item, said)}'? {QUOTE_IT}")
    first = Ref(named(name, said, is_new=True, may_be_phrase=phrase), made)
    return _Group(made, [first], is_several=is_several, may_be_phrase=is_introduced, count=count)


def _label_and_name(words: list[str], said: Said) -> tuple[list[str], list[str], bool]:
    """Tell what it is from what it is called, and whether a word stands between the two."""
    at = next((n for n, word in enumerate(words) if word.casefold() in _INTRODUCED), None)
    if at is not None and 0 < at < len(words) - 1:
        label = words[: at - 1] if words[at - 1] == "," else words[:at]
        return label, words[at + 1 :], True
    label, name = label_words(words, is_known=True)
    if not label:
        label, name = label_words(words, is_known=False)
    if label and name:
        return label.split(), name, False
    if len(words) > 1 and mark_of(words[:1], said) is not None:
        return words[:1], words[1:], False
    if words[0].casefold() in FUNCTION_WORDS:
        fail("")
    if len(words) > 1 and words[0].isalpha() and words[0].islower():
        fail(f"what is the name in '{shown(words, said)}'? Say 'a {words[0]} called ...'.")
    return fail(f"what is '{shown(words, said)}', and what is it called? Say 'a task Design', or what it is instead of a task.")


def with_parts(words: list[str], said: Said) -> With:
    """Read what comes after 'with': properties and their values, nodes, 'no' and a label."""
    pairs: list[tuple[str, JsonValue]] = []
    without: list[str] = []
    children: list[list[str]] = []
    for item in items(words):
        if not item:
            fail(f"something is missing in '{shown(words, said)}'.")
        item = item[1:] if item[0].casefold() == "with" and len(item) > 1 else item  # noqa: PLW2901 - 'and with'
        pair = read_pair(item, said)
        if item[0].casefold() in {"no", "without"} and len(item) > 1:
            without.append(label_of(item[1:], said, plural=True))
        elif pair is not None:
            pairs.append(pair)
        elif not children or _begins(item) or _is_label_first(item):
            children.append(item)
        else:
            children[-1] += ["and", *item]
    return With(tuple(pairs), tuple(ref for part in children for ref in new_nodes(part, said)), tuple(without))


def _is_label_first(item: list[str]) -> bool:
    label, _ = label_words(item, is_known=False)
    return bool(label) and label.islower()


def read_pair(item: list[str], said: Said) -> tuple[str, JsonValue] | None:
    """Read a property and its value: 'status open', 'a priority of 3', 'cost = 2.5'; None where it is something else."""
    words = item[1:] if item[0].casefold() in {"a", "an", "the", "its", "their"} and len(item) > 2 else item  # noqa: PLR2004 - and a value
    sign = next((n for n, word in enumerate(words) if word.casefold() in {":", "=", "of", "is", "as"}), None)
    if sign is not None and 0 < sign < len(words) - 1:
        return _property(words[:sign], said), value_of(words[sign + 1 :], said)
    for many in (2, 1):
        name, value = words[:many], words[many:]
        if value and _is_property(name, has_article=words is not item, said=said):
            return _property(name, said), value_of(value, said)
    return None


def _is_property(name: list[str], *, has_article: bool, said: Said) -> bool:
    word = name[-1].casefold()
    if mark_of(name, said) is not None or not all(part.islower() or part.isupper() for part in name):
        return False
    try:
        property_of(name, said)
    except Unread:
        return False
    is_known = word in PROPERTIES or word in {"date", "id"}
    return is_known or (len(name) == 1 and not has_article and word not in LABELS and not is_plural(word) and word.isidentifier())


def _property(words: list[str], said: Said) -> str:
    name = property_of(words, said)
    return "name" if name == "key" else name
