"""How the offline rules read a goal: plain sentences become tool calls, all of them or none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from interlock_agents.puntini.calls import Call, Clause
from interlock_agents.puntini.clauses import clause_reader
from interlock_agents.puntini.graph_store import is_same
from interlock_agents.puntini.patterns import NotUnderstood
from interlock_agents.puntini.sentences import (
    COURTESY,
    MAX_LENGTH,
    is_cypher,
    outside_request,
    sentences,
    small_talk,
    unreadable,
    with_marks,
)
from interlock_agents.puntini.terms import Context, Ref, excerpt, read_nodes
from interlock_agents.puntini.vocabulary import VERBS

__all__ = ["MAX_CALLS", "Reading", "meant_node", "read_goal"]

MAX_CALLS = 80
"""How many calls a goal may become: a turn has no steps for more."""

_MOST_WORDS = 200
_ASKING = frozenset({"how", "who", "what", "which", "is", "are", "does", "do", "whose"})
_PRONOUNS = frozenset({"it", "its", "them", "their", "both", "he", "him", "she", "her"})
_SEPARATORS = frozenset({"and", ",", "then", "&"})
_JOINING = _SEPARATORS | {"also", "please"}


@dataclass(frozen=True)
class Reading:
    """The calls that a goal becomes, or the problems that keep it from becoming any, or the reply to a text that is not a goal."""

    calls: tuple[Call, ...] = ()
    problems: tuple[str, ...] = ()
    reply: str = ""
    without: tuple[tuple[str, str], ...] = ()
    """Nodes, each with a label that none of its children may have."""


def read_goal(text: str, answer: str = "") -> Reading:
    """Read a whole goal. If any part is not understood, there are problems and no calls. Cypher is run as it is.

    `answer` is a person's answer about the goal: 'I mean the task Design' tells which node its name refers to.
    """
    if is_cypher(text):
        return Reading((Call("cypher_query", {"query": text.strip(), "parameters": {}}, "ask the graph in Cypher"),))
    if why := unreadable(text):
        return Reading(problems=(why,))
    if reply := small_talk(text):
        return Reading(reply=reply)
    plain, quoted = with_marks(text)
    parts = list(sentences(plain))
    ref = meant_node(answer)
    labels = {ref.key: {ref.label}} if ref is not None and ref.label is not None else {}
    first, _ = _read(parts, Context(quoted, {key: {*some} for key, some in labels.items()}))
    for created in (created for clause in first for created in clause.created):
        labels.setdefault(created.key, set()).add(created.label or "")
    found, problems = _read(parts, Context(quoted, labels))
    calls = _ordered(call for clause in found for call in clause.calls)
    if not parts and re.search(r"\w", plain):
        return Reading(reply=COURTESY)
    if not calls and not problems:
        problems.append("There is nothing to do in it.")
    if len(calls) > MAX_CALLS:
        problems.append(f"That takes {len(calls)} steps; I do {MAX_CALLS} at a time.")
    if problems and not found and (reply := outside_request(text)):
        return Reading(reply=reply)
    if problems:
        return Reading(problems=tuple(dict.fromkeys(problems)))
    return Reading(tuple(calls), without=tuple(one for clause in found for one in clause.without))


def _read(parts: Iterable[list[str]], context: Context) -> tuple[list[Clause], list[str]]:
    """Read sentences. The nodes that one of them mentions are 'it' in the next."""
    found: list[Clause] = []
    problems: list[str] = []
    for words in parts:
        if len(words) > _MOST_WORDS:
            problems.append(f"I did not understand '{excerpt(words, context)}': that is too long. Say it in several sentences.")
            continue
        try:
            found += _clauses(words, context)
        except NotUnderstood as error:
            problems.append(str(error))
    return found, problems


def _clauses(words: list[str], context: Context) -> list[Clause]:
    """Read a sentence as one clause, or as several that 'and', 'then' or a comma separates: the longest first clause that fits."""
    reader = clause_reader(context)
    problem = ""
    for end in (len(words), *reversed(_separators(words))):
        try:
            clause: Clause = reader.read("clause", words[:end])
        except NotUnderstood as error:
            problem = problem or f"I did not understand '{excerpt(words, context)}'{f': {error}' if str(error) else '.'}"
            continue
        # A clause about 'it' does not change what 'it' refers to.
        before = context.last
        context.last = before if _PRONOUNS & {word.casefold() for word in words[:end]} else clause.mentioned
        if end == len(words):
            return [clause]
        begin = next(n for n in range(end, len(words)) if words[n].casefold() not in _JOINING)
        try:
            return [clause, *_following(clause, words[0], words[begin:], context)]
        except NotUnderstood as error:
            context.last = before
            problem = str(error) if len(words) - begin > 1 else problem
    raise NotUnderstood(problem)


def _following(clause: Clause, verb: str, words: list[str], context: Context) -> list[Clause]:
    """Read what follows a clause. It may lack a verb: 'remove Ada's age and Bob's age', 'connect A to B and B to C'.

    After a command it is not a question unless it begins like one. A node that is created after another has an article: 'and a task Build'.
    """
    first, before = words[0].casefold(), context.last
    try:
        more = _clauses(words, context)
        if _is_question(clause) or not _is_question(more[0]) or first in _ASKING | VERBS:
            return more
        problem = f"I did not understand '{excerpt(words, context)}': what is to be done with it?"
    except NotUnderstood as error:
        problem = str(error)
    context.last = before
    if verb.casefold() in VERBS and first not in VERBS and (not clause.created or first in {"a", "an", "another"}):
        try:
            more = _clauses([verb, *words], context)
        except NotUnderstood:
            raise NotUnderstood(problem) from None
        edges = {str(call.args["relationship"]) for one in (clause, *more) for call in one.calls if call.tool == "add_edge"}
        if len(edges) <= 1:
            return more
        problem = f"I did not understand '{excerpt(words, context)}': say with each how it is connected, as in 'connect A to B as NEXT'."
    raise NotUnderstood(problem)


def _is_question(clause: Clause) -> bool:
    return all(call.tool in {"query_graph", "cypher_query"} for call in clause.calls)


def _separators(words: list[str]) -> list[int]:
    """Return where the first clause could end: before a comma, 'and' or 'then'."""
    low = [word.casefold() for word in words]
    return [
        n
        for n in range(1, len(low) - 1)
        if low[n] in _SEPARATORS and low[n - 1] not in _JOINING and any(word not in _JOINING for word in low[n:])
    ]


def meant_node(text: str) -> Ref | None:
    """Return the node that a person's answer refers to, if the answer has its label and name."""
    plain, quoted = with_marks(text[:MAX_LENGTH])
    name = re.sub(r"(?i)^\s*(?:no,\s+)?(?:i\s+meant?|it\s+is|it's|take|use)\s+", "", plain).strip(" .!")
    try:
        refs = read_nodes(name.split(), Context(quoted)) if name else []
    except NotUnderstood:
        return None
    return refs[0] if len(refs) == 1 and refs[0].label is not None else None


def _ordered(calls: Iterable[Call]) -> list[Call]:
    """Merge calls that add the same node, and drop repeated calls. If all calls add or set, nodes are added first."""
    once: dict[str, Call] = {}
    for call in calls:
        is_node = call.tool == "add_node"
        name = json.dumps([call.tool, call.args["label"], call.args["key"]] if is_node else [call.tool, call.args], sort_keys=True)
        merged = _merged(once[name], call) if name in once and is_node else call
        once[name if merged is not None else json.dumps([call.tool, call.args], sort_keys=True)] = merged or call
    found = list(once.values())
    if all(call.tool in {"add_node", "add_edge", "update_props"} for call in found):
        found.sort(key=lambda call: call.tool != "add_node")
    return found


def _merged(one: Call, other: Call) -> Call | None:
    """Merge two calls that add the same node; None if they set a property to different values."""
    kept, new = one.args["properties"], other.args["properties"]
    if not isinstance(kept, dict) or not isinstance(new, dict):
        return None
    if any(name in kept and not is_same(kept[name], value) for name, value in new.items()):
        return None
    return replace(one, args={**one.args, "properties": {**kept, **new}}, text=other.text if new else one.text)
