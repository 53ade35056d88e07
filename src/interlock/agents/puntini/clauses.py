"""What each kind of clause asks for: the calls of tools that it becomes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import JsonValue

from interlock.agents.puntini.calls import (
    Call,
    add_edge,
    add_node,
    count_all,
    count_near,
    delete_edge,
    list_label,
    list_near,
    look,
    related,
    set_edge,
    set_properties,
    show_property,
)
from interlock.agents.puntini.sentences import SEPARATOR
from interlock.agents.puntini.words import (
    LABELS,
    LIST,
    MARK,
    NO_NAME,
    NO_RENAME,
    PROPERTIES,
    QUOTE_IT,
    TWO_WORDS,
    Ref,
    Said,
    Unread,
    asked_label,
    asked_property,
    fail,
    is_name,
    is_plural,
    key_of,
    label_of,
    property_of,
    ref_of,
    refs_of,
    relationship_of,
    shown,
    singular,
    snake,
    split_label,
    value_of,
    whole,
)

__all__ = ["Found", "declare", "is_same", "read_clause"]

_RELATIONS = {"assigned to": "ASSIGNED_TO", "depend on": "DEPENDS_ON", "connected to": "CONNECTED_TO", "linked to": "CONNECTED_TO"}
_EDGE = r"(?:the\s+)?(\S+)\s+(?:edge|relationship|relation)\s+from\s+(.+?)\s+to\s+(.+?)"


@dataclass
class Found(Said):
    """What was read so far."""

    calls: list[Call] = field(default_factory=list[Call])
    without: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def declare(clause: str, found: Found) -> None:
    """Take note of the nodes that a clause creates: others may speak of them before."""
    for pattern, reader in _READERS:
        if reader is _create and (match := pattern.fullmatch(clause)) is not None:
            beside = Found(found.quoted)
            _create(match, beside)
            for key, labels in beside.made.items():
                found.made.setdefault(key, set()).update(labels)


def read_clause(clause: str, found: Found) -> None:
    """Add the calls that a clause asks for, or raise Unread with what was not understood."""
    for pattern, reader in _READERS:
        match = pattern.fullmatch(clause)
        if match is not None:
            try:
                reader(match, found)
            except Unread as error:
                raise Unread(f"I did not understand '{shown(clause, found)}': {error}") from None
            return
    raise Unread(f"I did not understand '{shown(clause, found)}'.")


def is_same(one: JsonValue, other: JsonValue) -> bool:
    """Tell whether two values are the same, 1 and 1.0 and true not being so."""
    return type(one) is type(other) and one == other


# What creates.


def _new(text: str, found: Found) -> list[Ref]:
    """Read what is to be created: 'a task Design', 'tasks Design and Build', 'a work package called Alpha'."""
    article = re.match(r"(?i)(?:an?|the|another|one)\s+(?:new\s+)?|new\s+", text)
    said = text[article.end() :] if article is not None else text
    items = LIST.split(said)
    named = re.fullmatch(r"(?i)(.+?),?\s+(?:called|named)\s+(.+)", items[0])
    if named is not None:
        label, first = named[1], named[2]
    else:
        label, first = _label_first(items[0].split(), found)
    is_several = (article is None or article[0].casefold().strip() == "the") and (
        is_plural(label.split()[-1]) or re.fullmatch(f"[{MARK}]", label) is not None
    )
    if len(items) > 1 and not is_several:
        fail(
            f"is '{shown(' and '.join([first, *items[1:]]), found)}' one name? Put it in quotes if it is; say 'tasks A and B' for several."
        )
    if article is None and not is_several and label.casefold() not in LABELS | TWO_WORDS:
        fail(f"what is '{shown(text, found)}'? Say 'a task {shown(first, found)}', or what it is instead of a task.")
    if label.casefold() in PROPERTIES - LABELS:
        fail(f"is '{shown(label, found)}' a property? Say 'set the {shown(label, found)} of Design to {shown(first, found)}'.")
    made = label_of(label, found, plural=is_several)
    if not is_name(f"HAS_{snake(made)}"):
        fail(f"'{shown(label, found)}' is too long for a label.")
    return [Ref(key_of(item, found), made) for item in (first, *items[1:])]


def _label_first(words: list[str], found: Found) -> tuple[str, str]:
    label, rest = split_label(words, is_known_only=True)
    if label:
        return label, rest
    two = " ".join([*words[:1], *map(singular, words[1:2])]).casefold()
    if len(words) > 2 and two in TWO_WORDS:  # noqa: PLR2004 - the label and a name
        return " ".join(words[:2]), " ".join(words[2:])
    names = [n for n, word in enumerate(words) if n and (not word.islower() or re.match(f"[{MARK}]", word))]
    if len(words) < 2:  # noqa: PLR2004 - a label and a name
        fail(f"what is the name of '{shown(' '.join(words), found)}'? Say 'a task Design'.")
    if words[0].islower() and names:
        return " ".join(words[: names[0]]), " ".join(words[names[0] :])
    if " ".join(words).islower() and len(words) > 2 and not is_plural(words[0]):  # noqa: PLR2004 - a label and a name
        fail(f"what is the name in '{shown(' '.join(words), found)}'? {QUOTE_IT}")
    return words[0], " ".join(words[1:])


def _create(match: re.Match[str], found: Found) -> None:
    body, *withs = re.split(r"(?i),?\s+(?:and\s+)?(?=with(?:out)?\s)", match[1])
    owners = [ref for item in re.split(rf"(?i){SEPARATOR}(?=an?\s)", body) for ref in _owned(item, found)]
    properties: dict[str, JsonValue] = {}
    items: list[Ref] = []
    if withs and len(owners) > 1:
        fail("which of them is it with? Say it in two sentences.")
    for said in withs:
        for segment in _segments(said[len(said.split(maxsplit=1)[0]) :].strip(), found):
            none = re.fullmatch(r"(?i)no\s+(.+)", segment) or (re.fullmatch(r"(.+)", segment) if said[:7].casefold() == "without" else None)
            pair = _pair(segment, found)
            if none is not None:
                found.without.append((str(owners[0]), asked_label(none[1], found)))
            elif pair is not None:
                if pair[0] in properties and not is_same(properties[pair[0]], pair[1]):
                    found.calls.append(set_properties(owners[0], {pair[0]: pair[1]}))
                properties.setdefault(*pair)
            else:
                items += _new(segment, found)
    for ref in owners:
        found.calls.append(add_node(ref, properties))
    for item in items:
        found.calls += [add_node(item, {}), add_edge(owners[0], item, f"HAS_{snake(item.label or '')}")]
    for ref in (*owners, *items):
        found.made.setdefault(ref.key, set()).add(ref.label or "")


def _owned(text: str, found: Found) -> list[Ref]:
    """Read what is created, and add it to what it is to belong to: 'a task Test to Apollo'."""
    new, *to = re.split(r"(?i)\s+(?:to|in|under)\s+(?:the\s+)?", text)
    if len(to) > 1:
        fail("to what is it added? Put names with 'to' or 'in' in quotes.")
    refs = _new(new, found)
    if to:
        owner = ref_of(to[0], found)
        for ref in refs:
            found.calls += [add_node(ref, {}), add_edge(owner, ref, f"HAS_{snake(ref.label or '')}")]
    return refs


def _segments(text: str, found: Found) -> list[str]:
    """Split what comes after 'with': before an article, 'no', a property, and more than one name after a plural."""
    segments: list[str] = []
    for item in LIST.split(text):
        first = item.split(maxsplit=1)[0] if item else ""
        is_new = not segments or _pair(item, found) is not None or _starts(item)
        is_new = is_new or (is_plural(first) and first.islower() and " " in item and singular(first.casefold()) in LABELS)
        if is_new:
            segments.append(item)
        else:
            segments[-1] += f" and {item}"
    return segments


def _starts(item: str) -> bool:
    return re.match(r"(?i)(?:an?|the|no)\s", item) is not None


def _assign(match: re.Match[str], found: Found) -> None:
    parts = re.split(r"(?i)\s+to\s+", match[1])
    if len(parts) == 1:
        fail("to what? Say 'assign Ada to Design'.")
    pairs = [parts[0]]
    for middle in parts[1:-1]:
        names = LIST.split(middle)
        if len(names) != 2:  # noqa: PLR2004 - to one, and the next one
            fail("who to what? Say one assignment in each sentence.")
        pairs += names
    pairs.append(parts[-1])
    for who, what in zip(pairs[::2], pairs[1::2], strict=True):
        for one in refs_of(who, found):
            for other in refs_of(what, found):
                _assign_one(one, other, found)


def _assign_one(who: Ref, what: Ref, found: Found) -> None:
    if who.label == "Task" and what.label != "Task":
        who, what = what, who
    if who.label is None and who.key not in found.made:
        who = Ref(who.key, "Person")
    if who.label == "Person":
        found.calls.append(add_node(who, {}))
    found.calls.append(add_edge(who, what, "ASSIGNED_TO"))


def _connect(match: re.Match[str], found: Found) -> None:
    body, *named = re.split(r"(?i)\s+(?:as|by|via)\s+", match[1])
    ends = re.split(r"(?i)\s+(?:to|with)\s+", body)
    if len(ends) != 2 or len(named) > 1:  # noqa: PLR2004 - from and to
        fail("what to what? Say 'connect Design to Build as PRECEDES'.")
    relationship = relationship_of(named[0], found) if named else "CONNECTED_TO"
    found.calls += [add_edge(one, other, relationship) for one in refs_of(ends[0], found) for other in refs_of(ends[1], found)]


def _depend(match: re.Match[str], found: Found) -> None:
    for one in refs_of(match[1], found):
        for other in refs_of(match[3], found):
            found.calls.append(delete_edge(one, other, "DEPENDS_ON") if match[2] else add_edge(one, other, "DEPENDS_ON"))


# What changes and removes.


def _change(match: re.Match[str], found: Found) -> None:
    last: Ref | None = None
    sets = re.split(rf"(?i){SEPARATOR}(?=(?:the\s+|its\s+)?[\w {MARK}-]{{1,80}}?\s+of\s|(?:the|its)\s+[\w-]+\s+to\s)", match[1])
    for said in sets:
        edge = re.fullmatch(rf"(?i)(?:the\s+)?(.{{1,80}}?)\s+of\s+{_EDGE}\s+to\s+(.+)", said)
        of = re.fullmatch(r"(?i)(?:the\s+)?(.{1,80}?)\s+of\s+(.+?)\s+(?:to|=)\s+(.+)", said)
        its = re.fullmatch(r"(?i)(?:the|its)\s+(.+?)\s+to\s+(.+)", said)
        whose = re.fullmatch(r"(?i)(.+?)['\u2019]s\s+(.{1,80}?)\s+to\s+(.+)", said)
        if edge is not None:
            start, end, relationship = ref_of(edge[3], found), ref_of(edge[4], found), relationship_of(edge[2], found)
            found.calls.append(set_edge(start, end, relationship, {property_of(edge[1], found): value_of(edge[5], found)}))
        elif of is not None:
            for last in refs_of(of[2], found):
                found.calls.append(set_properties(last, {property_of(of[1], found): value_of(of[3], found)}))
        elif its is not None and last is not None:
            found.calls.append(set_properties(last, {property_of(its[1], found): value_of(its[2], found)}))
        elif whose is not None:
            last = ref_of(whose[1], found)
            found.calls.append(set_properties(last, {property_of(whose[2], found): value_of(whose[3], found)}))
        else:
            fail("say 'set the status of Design to done'.")


def _mark(match: re.Match[str], found: Found) -> None:
    value = value_of(match[2], found)
    found.calls += [set_properties(ref, {"status": value}) for ref in refs_of(match[1], found)]


def _clear(match: re.Match[str], found: Found) -> None:
    name = asked_property(match[1], found)
    found.calls += [set_properties(ref, {name: None}) for ref in refs_of(match[2], found)]


def _remove(match: re.Match[str], found: Found) -> None:
    attached = re.fullmatch(r"(?i)(.+?),?\s+(?:and|with|including)\s+(?:all\s+)?(?:of\s+)?(?:its|their|the|everything|all)\b(.*)", match[1])
    if attached is not None and not re.fullmatch(
        r"(?i)\s*(?:of\s+)?(?:its\s+|their\s+)?(?:edges?|relations?|relationships?|connections?|links?|attached(?:\s+to\s+(?:it|them))?"
        r"|connected\s+to\s+(?:it|them)|(?:that\s+is|that's)\s+attached(?:\s+to\s+(?:it|them))?)",
        attached[2],
    ):
        fail("I delete nodes, with their edges if you say 'and its edges'.")
    for ref in refs_of(attached[1] if attached is not None else match[1], found):
        args: dict[str, JsonValue] = {"match": str(ref), "detach": attached is not None}
        found.calls.append(Call("delete_node", args, f"delete {ref.said}{' and its edges' if attached is not None else ''}"))


def _remove_edge(match: re.Match[str], found: Found) -> None:
    found.calls.append(delete_edge(ref_of(match[2], found), ref_of(match[3], found), relationship_of(match[1], found)))


def _unassign(match: re.Match[str], found: Found) -> None:
    for one in refs_of(match[1], found):
        found.calls += [delete_edge(one, other, "ASSIGNED_TO") for other in refs_of(match[2], found)]


def _disconnect(match: re.Match[str], found: Found) -> None:
    relationship = relationship_of(match[3], found) if match[3] else "CONNECTED_TO"
    for one in refs_of(match[1], found):
        found.calls += [delete_edge(one, other, relationship) for other in refs_of(match[2], found)]


def _rename(match: re.Match[str], found: Found) -> None:  # noqa: ARG001 - a reader
    fail(NO_RENAME)


def _send(match: re.Match[str], found: Found) -> None:
    to, *text = re.split(r"(?i)\s+(?:saying|that|about|with)\s+", match[1], maxsplit=1)
    args: dict[str, JsonValue] = {"to": shown(to, found).strip('"')}
    if text:
        args["text"] = whole(text[0], found) or shown(text[0], found)
    found.calls.append(Call("send_email", args, f"send an email to {args['to']}"))


def _asked_pair(item: str, found: Found) -> tuple[str, JsonValue]:
    said = re.fullmatch(r"(?i)(?:the\s+)?(.{1,80}?)(?:\s+(?:is|of)\s+|\s*[:=]\s*)(.+)", item) or re.fullmatch(
        r"(?:the\s+)?(\S+)\s+(.+)", item
    )
    if said is None:
        fail(f"which property and value is '{shown(item, found)}'? Say 'with status open'.")
    return property_of(said[1], found), value_of(said[2], found)


def _pair(item: str, found: Found) -> tuple[str, JsonValue] | None:
    """Read a property and its value."""
    signed = re.fullmatch(r"(?:the\s+)?([^:=]{1,80}?)\s*(?::(?=\s)|=)\s*(.+)", item)
    spoken = re.fullmatch(r"(?i)(?:an?\s+|the\s+)?(\S+(?:\s+(?:date|name|time))?)\s+(?:of\s+)?(.+)", item)
    pair = signed or (spoken if spoken is not None and _is_property(spoken[1], has_article=_starts(item)) else None)
    if pair is None:
        return None
    value = pair[2]
    if whole(value, found) is None and re.search(r"(?i)\s(?:by|for|from|in|to|under)\s", value):
        fail(f"is '{shown(value, found)}' one value? Put it in quotes if it is.")
    return property_of(pair[1], found), value_of(value, found)


def _is_property(text: str, *, has_article: bool) -> bool:
    """Tell whether words before others are for a property, and not for a label."""
    word = text.rsplit(maxsplit=1)[-1].casefold()
    is_word = (text.islower() or text.isupper()) and word not in LABELS | NO_NAME | {"work", "user", "action", "business"}
    return word in PROPERTIES or (is_word and not has_article and not is_plural(word))


def _list_all(match: re.Match[str], found: Found) -> None:  # noqa: ARG001 - a reader
    found.calls.append(Call("query_graph", {}, "list all nodes"))


def _list_label(match: re.Match[str], found: Found) -> None:
    pairs = [_asked_pair(item, found) for item in LIST.split(match[2])] if match[2] else []
    if len(dict(pairs)) != len(pairs):
        fail("a property is there twice.")
    found.calls.append(list_label(asked_label(match[1], found), dict(pairs)))


def _show(match: re.Match[str], found: Found) -> None:
    words = match[1].split()
    if len(words) == 1 and is_plural(words[0]) and (words[0].islower() or singular(words[0]).casefold() in LABELS):
        found.calls.append(list_label(label_of(words[0], found, plural=True)))
    else:
        found.calls += [look(ref) for ref in refs_of(match[1], found)]


def _count_all(match: re.Match[str], found: Found) -> None:
    found.calls.append(count_all(None if match[1].casefold() in {"nodes", "things"} else asked_label(match[1], found)))


def _count_near(match: re.Match[str], found: Found) -> None:
    found.calls.append(count_near(asked_label(match[1], found), ref_of(match[2], found)))


def _list_near(match: re.Match[str], found: Found) -> None:
    found.calls.append(list_near(asked_label(match[1], found), ref_of(match[2], found)))


def _related(match: re.Match[str], found: Found) -> None:
    """Read 'which tasks depend on Build' and 'which tasks does Build depend on'."""
    said = match.groupdict()
    label = asked_label(said["label"], found) if said.get("label") else None
    relationship = _RELATIONS[" ".join(said["relation"].casefold().replace("depends", "depend").split())]
    arrow = "--" if relationship == "CONNECTED_TO" else "<-" if said.get("back") else "->"
    ref = ref_of(said["ref"], found)
    found.calls.append(related(label, ref, arrow=arrow, relationship=relationship, is_counted=bool(said.get("count"))))


def _what_property(match: re.Match[str], found: Found) -> None:
    found.calls.append(show_property(asked_property(match["name"], found), ref_of(match["ref"], found)))


# What can be said, in the order in which it is tried.

_SHOWING = r"(?:list|show|find|give|get)(?:\s+me)?"
_IN_GRAPH = r"(?:\s+(?:are\s+there|do\s+(?:we|i|you)\s+have|exist|is\s+there))?(?:\s+in\s+(?:the|this|my)\s+graph)?"
_RELATED = r"(?P<relation>assigned\s+to|connected\s+to|linked\s+to)"
_Reader = Callable[[re.Match[str], Found], None]


def _reads(pattern: str, reader: _Reader) -> tuple[re.Pattern[str], _Reader]:
    return re.compile(pattern, re.IGNORECASE), reader


_READERS: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    _reads(r"(?:send|write)\s+(?:an?\s+)?(?:e-?mail|mail|message)\s+to\s+(.+)", _send),
    _reads(r"(?:e-?mail|mail)\s+(.+)", _send),
    _reads(r"rename\s+(.+)", _rename),
    _reads(rf"(?:delete|remove)\s+{_EDGE}", _remove_edge),
    _reads(r"(?:remove|delete|clear|unset)\s+the\s+(\S+(?:\s\S+)?)\s+of\s+(.+)", _clear),
    _reads(r"(?:delete|remove)\s+(.+)", _remove),
    _reads(r"unassign\s+(.+?)\s+from\s+(.+)", _unassign),
    _reads(r"(?:disconnect|unlink)\s+(.+?)\s+(?:from|and)\s+(.+?)(?:\s+as\s+(.+))?", _disconnect),
    _reads(r"(?:create|add|make)\s+(.+)", _create),
    _reads(r"assign\s+(.+)", _assign),
    _reads(r"(?:connect|link)\s+(.+)", _connect),
    _reads(r"mark\s+(.+?)\s+as\s+(.+)", _mark),
    _reads(r"(?:set|change|update)\s+(.+)", _change),
    _reads(rf"(?:how\s+many|count(?:\s+all)?(?:\s+the)?)\s+(\S+(?:\s\S+)??){_IN_GRAPH}", _count_all),
    _reads(rf"(?P<count>how\s+many)\s+(?P<label>.+?)\s+(?:is|are)\s+{_RELATED}\s+(?P<ref>.+)", _related),
    _reads(r"(?P<count>how\s+many)\s+(?P<label>.+?)\s+(?P<relation>depends?\s+on)\s+(?P<ref>.+)", _related),
    _reads(rf"(?P<count>how\s+many)\s+(?P<label>.+?)\s+(?P<back>is|are)\s+(?P<ref>.+?)\s+{_RELATED}", _related),
    _reads(r"(?P<count>how\s+many)\s+(?P<label>.+?)\s+(?P<back>does|do)\s+(?P<ref>.+?)\s+(?P<relation>depend\s+on)", _related),
    _reads(r"how\s+many\s+(.+?)\s+(?:does|do)\s+(.+?)\s+have", _count_near),
    _reads(r"how\s+many\s+(.+?)\s+(?:has|(?:are\s+)?(?:there\s+)?in|of|belong\s+to|does)\s+(.+)", _count_near),
    _reads(rf"(?:who|what|(?:which|what)\s+(?P<label>.+?))\s+(?:is|are)\s+{_RELATED}\s+(?P<ref>.+)", _related),
    _reads(r"(?:who|what|(?:which|what)\s+(?P<label>.+?))\s+(?P<relation>depends?\s+on)\s+(?P<ref>.+)", _related),
    _reads(rf"(?:what|(?:which|what)\s+(?P<label>.+?))\s+(?P<back>is|are)\s+(?P<ref>.+?)\s+{_RELATED}", _related),
    _reads(r"(?:what|(?:which|what)\s+(?P<label>.+?))\s+(?P<back>does|do)\s+(?P<ref>.+?)\s+(?P<relation>depend\s+on)", _related),
    _reads(r"(?:which|what)\s+(.+?)\s+does\s+(.+?)\s+have", _list_near),
    _reads(r"(?:which|what)\s+(.+?)\s+(?:has|are\s+in|belong\s+to)\s+(.+)", _list_near),
    _reads(r"what(?:\s+is|'s|\u2019s)\s+the\s+(?P<name>.+?)\s+of\s+(?P<ref>.+)", _what_property),
    _reads(r"what(?:\s+is|'s|\u2019s)\s+(?P<ref>.+?)['\u2019]s\s+(?P<name>.+)", _what_property),
    _reads(rf"(?:which|what)\s+(\S+(?:\s\S+)??)(?=\s){_IN_GRAPH}()", _list_label),
    _reads(r"what\s+are\s+(?:all\s+)?the\s+(\S+(?:\s\S+)??)(?:\s+with\s+(.+))?", _list_label),
    _reads(rf"{_SHOWING}\s+(?:everything|all\s+(?:the\s+)?(?:nodes|things)|the\s+(?:whole\s+)?graph)", _list_all),
    _reads(rf"{_SHOWING}\s+(?:all\s+)?(?:of\s+)?(?:the\s+)?(\S+(?:\s\S+)?)\s+(?:with|whose|where)\s+(.+)", _list_label),
    _reads(rf"{_SHOWING}\s+(?:all\s+)?(?:of\s+)?(?:the\s+)?(\S+)\s+(?:of|in)\s+(.+)", _list_near),
    _reads(rf"{_SHOWING}\s+all\s+(?:of\s+)?(?:the\s+)?(.+?)()", _list_label),
    _reads(r"list\s+(?:the\s+)?(.+?)()", _list_label),
    _reads(rf"{_SHOWING}\s+(.+)", _show),
    _reads(r"(?:what|who)\s+is\s+(.+)", _show),
    _reads(r"(.+?)\s+(no\s+longer\s+)?depends?\s+on\s+(.+)", _depend),
)
