"""Nodes to create: 'a task Design', 'tasks Design and Build with status open', 'a work package called Alpha'."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from interlock_agents.puntini.patterns import NotUnderstood, reject
from interlock_agents.puntini.terms import (
    QUOTE_IT,
    Context,
    Ref,
    excerpt,
    is_name,
    is_plural,
    quoted_text,
    read_label,
    read_name,
    read_property,
    read_value,
    singular,
    split_label,
    split_list,
    upper_snake_case,
)
from interlock_agents.puntini.vocabulary import FUNCTION_WORDS, LABELS, PEOPLE, PROPERTIES

__all__ = ["With", "new_nodes", "read_pair", "with_parts"]

_ARTICLES = frozenset({"a", "an", "the", "another", "one"})
_NUMBERS = {word: number for number, word in enumerate(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], start=2)}
_INTRODUCED = frozenset({"called", "named", ":", "titled"})


@dataclass(frozen=True)
class With:
    """What a goal says about new nodes: their properties, nodes that belong to them, and labels that they must not have."""

    pairs: tuple[tuple[str, JsonValue], ...] = ()
    children: tuple[Ref, ...] = ()
    without: tuple[str, ...] = ()


@dataclass
class _Group:
    """Nodes with one label. Only a group of several takes further names; `count` is the number of nodes that the goal states."""

    label: str
    names: list[Ref]
    is_several: bool
    may_be_phrase: bool
    count: int | None


def new_nodes(words: list[str], context: Context) -> list[Ref]:
    """Read the nodes to create, each with its label."""
    groups: list[_Group] = []
    said = excerpt(words, context)
    for item in split_list(words):
        if not item:
            reject(f"a name is missing in '{said}'.")
        if groups and groups[-1].is_several and not _begins_group(item):
            name = read_name(item, context, is_new=True, may_be_phrase=groups[-1].may_be_phrase)
            groups[-1].names.append(Ref(name, groups[-1].label))
        else:
            groups.append(_group(item, context, is_first=not groups))
    for group in groups:
        if group.count is not None and group.count != len(group.names):
            reject(f"{group.count} are to be created, and {len(group.names)} named: '{said}'.")
        if group.is_several and len(group.names) == 1 and group.names[0].key.isdigit():
            reject(f"is '{group.names[0].key}' a number or a name in '{said}'? {QUOTE_IT}")
        if not is_name(f"HAS_{upper_snake_case(group.label)}"):
            reject(f"'{group.label}' is too long for a label.")
    return [ref for group in groups for ref in group.names]


def _begins_group(item: list[str]) -> bool:
    """Return whether an item of a list is not another name, but has a label of its own."""
    if item[0].casefold() in _ARTICLES | {"new"} and len(item) > 1 and item[0] != "A":
        return True
    label, _ = split_label(item, is_known=False)
    return bool(label) and label.islower() and is_plural(label.split()[-1])


def _group(item: list[str], context: Context, *, is_first: bool) -> _Group:
    words, count, has_article = list(item), None, False
    low = words[0].casefold()
    if low in _ARTICLES and len(words) > 1:
        has_article, words = low != "the", words[1:]
    elif (low in _NUMBERS or low.isdigit()) and len(words) > 1:
        count, words = _NUMBERS.get(low) or int(low[:3]), words[1:]
    if words[0].casefold() in {"new", "more"} and len(words) > 1:
        words = words[1:]
    label_words, name, is_introduced = _label_and_name(words, context)
    is_quoted = quoted_text(label_words, context) is not None
    is_several = not has_article and (is_plural(label_words[-1]) or (count or 1) > 1 or (is_quoted and not is_first))
    label, said = read_label(label_words, context, plural=is_several), excerpt(name, context)
    if label.casefold() in PROPERTIES - LABELS and not is_quoted:
        of = excerpt(label_words, context)
        reject(f"is '{of}' a property? Say 'set the {of} of Design to {said}'.")
    is_person = label.casefold() in PEOPLE
    if is_person and len(name) > 1 and any(word.isdigit() for word in name):
        reject(f"is '{said}' one name? {QUOTE_IT}")
    phrase = is_introduced or (is_person and len(name) == 2 and all(map(str.islower, name)))  # noqa: PLR2004 - 'ada lovelace'
    if len(name) == 1 and name[0].islower() and not is_introduced and singular(name[0]) in LABELS | {"node", "thing"}:
        reject(f"what is the name of '{excerpt(item, context)}'? {QUOTE_IT}")
    first = Ref(read_name(name, context, is_new=True, may_be_phrase=phrase), label)
    return _Group(label, [first], is_several=is_several, may_be_phrase=is_introduced, count=count)


def _label_and_name(words: list[str], context: Context) -> tuple[list[str], list[str], bool]:
    """Split a label from a name, and return whether a word such as 'called' introduces the name."""
    at = next((n for n, word in enumerate(words) if word.casefold() in _INTRODUCED), None)
    if at is not None and 0 < at < len(words) - 1:
        return words[: at - 1] if words[at - 1] == "," else words[:at], words[at + 1 :], True
    for is_known in (True, False):
        label, name = split_label(words, is_known=is_known)
        if label and name:
            return label.split(), name, False
    if len(words) > 1 and quoted_text(words[:1], context) is not None:
        return words[:1], words[1:], False
    if words[0].casefold() in FUNCTION_WORDS:
        reject()
    said = excerpt(words, context)
    if len(words) > 1 and words[0].isalpha() and words[0].islower():
        reject(f"what is the name in '{said}'? Say 'a {words[0]} called ...'.")
    return reject(f"what is '{said}', and what is it called? Say 'a task Design', or what it is instead of a task.")


def with_parts(words: list[str], context: Context) -> With:
    """Read what follows 'with': properties and their values, nodes, or 'no' and a label."""
    pairs: list[tuple[str, JsonValue]] = []
    without: list[str] = []
    children: list[list[str]] = []
    for item in split_list(words):
        if not item:
            reject(f"something is missing in '{excerpt(words, context)}'.")
        part = item[1:] if item[0].casefold() == "with" and len(item) > 1 else item
        pair, (label, _) = read_pair(part, context), split_label(part, is_known=False)
        if part[0].casefold() in {"no", "without"} and len(part) > 1:
            without.append(read_label(part[1:], context, plural=True))
        elif pair is not None:
            pairs.append(pair)
        elif not children or _begins_group(part) or label.islower():
            children.append(part)
        else:
            children[-1] += ["and", *part]
    return With(tuple(pairs), tuple(ref for part in children for ref in new_nodes(part, context)), tuple(without))


def read_pair(item: list[str], context: Context) -> tuple[str, JsonValue] | None:
    """Read a property and its value: 'status open', 'a priority of 3', 'cost = 2.5'. None if the words are something else."""
    words = item[1:] if item[0].casefold() in {"a", "an", "the", "its", "their"} and len(item) > 2 else item  # noqa: PLR2004 - and a value
    sign = next((n for n, word in enumerate(words) if word.casefold() in {":", "=", "of", "is", "as"}), None)
    if sign is not None and 0 < sign < len(words) - 1:
        return _property(words[:sign], context), read_value(words[sign + 1 :], context)
    for many in (2, 1):
        name, value = words[:many], words[many:]
        if value and _is_property(name, has_article=words is not item, context=context):
            return _property(name, context), read_value(value, context)
    return None


def _is_property(name: list[str], *, has_article: bool, context: Context) -> bool:
    word = name[-1].casefold()
    if quoted_text(name, context) is not None or not all(part.islower() or part.isupper() for part in name):
        return False
    try:
        read_property(name, context)
    except NotUnderstood:
        return False
    is_known = word in PROPERTIES or word in {"date", "id"}
    return is_known or (len(name) == 1 and not has_article and word not in LABELS and not is_plural(word) and word.isidentifier())


def _property(words: list[str], context: Context) -> str:
    name = read_property(words, context)
    return "name" if name == "key" else name
