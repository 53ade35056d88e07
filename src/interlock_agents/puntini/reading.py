"""How the offline rules read a goal: plain sentences become calls of tools, all of them or none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from interlock_agents.puntini.calls import Call, Clause, is_same
from interlock_agents.puntini.clauses import clause_reader
from interlock_agents.puntini.patterns import Unread
from interlock_agents.puntini.sentences import MAX_LENGTH, is_cypher, sentences, set_aside, unreadable
from interlock_agents.puntini.small_talk import COURTESY, is_courtesy, outside, small_talk
from interlock_agents.puntini.words import VERBS, Ref, Said, refs_of, shown

__all__ = ["EXAMPLES", "MAX_CALLS", "QUESTIONS", "Reading", "is_asked", "read_goal", "which_is_meant"]

MAX_CALLS = 80
"""How many calls a goal may become: a turn has no steps for more."""

EXAMPLES = (
    "Create a project Apollo with tasks Design and Build",
    "Set the status of Design to done",
    "How many tasks does Apollo have?",
    "Assign Ada to Design",
    "Build depends on Design",
    "List all tasks",
    "Delete the task Build",
)
"""What can be said."""

QUESTIONS = ("How many tasks does Apollo have?", "Who is assigned to Design?", "Show Apollo")
"""What can be asked."""

_MOST_WORDS = 200
_ASKING = frozenset({"how", "who", "what", "which", "is", "are", "does", "do", "whose"})
_ASKS = re.compile(r"(?i)\s*(?:how|who|what|which|is|are|does|did|was|were|has|have|when|where|why|whose)\b")
_PRONOUNS = frozenset({"it", "its", "them", "their", "both", "he", "him", "she", "her"})
_JOINING = frozenset({"and", ",", "then", "also", "please", "&"})


@dataclass(frozen=True)
class Reading:
    """What a goal becomes, or why it cannot become anything.

    `reply` is the answer to what is no goal. `without` are the nodes that are to have none of a label.
    """

    calls: tuple[Call, ...] = ()
    problems: tuple[str, ...] = ()
    reply: str = ""
    without: tuple[tuple[str, str], ...] = ()


def read_goal(text: str, meant: str = "") -> Reading:
    """Read a goal whole. Cypher is taken as it is; what is not understood, even in part, is a problem, and then there are no calls.

    `meant` is what a person said about it: 'I mean the task Design' says which node is meant by its name alone.
    """
    if is_cypher(text):
        return Reading((Call("cypher_query", {"query": text.strip(), "parameters": {}}, "ask the graph in Cypher"),))
    if why := unreadable(text):
        return Reading(problems=(why,))
    if reply := small_talk(text):
        return Reading(reply=reply)
    plain, quoted = set_aside(text)
    said = [words for words in sentences(plain) if not is_courtesy(words)]
    ref = which_is_meant(meant)
    known = {ref.key: {ref.label}} if ref is not None and ref.label is not None else {}
    first, _ = _read(said, Said(quoted, {key: {*labels} for key, labels in known.items()}))
    for made in (made for clause in first for made in clause.made):
        known.setdefault(made.key, set()).add(made.label or "")
    found, problems = _read(said, Said(quoted, known))
    calls = _ordered(call for clause in found for call in clause.calls)
    if not said and re.search(r"\w", plain):
        return Reading(reply=COURTESY)
    if not calls and not problems:
        problems.append("There is nothing to do in it.")
    if len(calls) > MAX_CALLS:
        problems.append(f"That takes {len(calls)} steps; I do {MAX_CALLS} at a time.")
    if problems and not found and (reply := outside(text)):
        return Reading(reply=reply)
    if problems:
        return Reading(problems=tuple(dict.fromkeys(problems)))
    return Reading(tuple(calls), without=tuple(one for clause in found for one in clause.without))


def is_asked(text: str) -> bool:
    """Tell whether a goal looks like a question."""
    return text.rstrip().endswith("?") or _ASKS.match(text) is not None


def _read(said: Iterable[list[str]], known: Said) -> tuple[list[Clause], list[str]]:
    """Read sentences; what is spoken of in one is 'it' in the next."""
    found: list[Clause] = []
    problems: list[str] = []
    for words in said:
        if len(words) > _MOST_WORDS:
            problems.append(f"I did not understand '{shown(words, known)}': that is too long. Say it in several sentences.")
            continue
        try:
            found += _clauses(words, known)
        except Unread as error:
            problems.append(str(error))
    return found, problems


def _clauses(words: list[str], known: Said) -> list[Clause]:
    """Read a sentence as one clause, or as several with 'and', 'then' or a comma between them: the longest that fits comes first."""
    reader = clause_reader(known)
    problem = ""
    for end in (len(words), *reversed(_joints(words))):
        try:
            clause: Clause = reader.read("clause", words[:end])
        except Unread as error:
            problem = problem or f"I did not understand '{shown(words, known)}'{f': {error}' if str(error) else '.'}"
            continue
        # What is said of 'it' leaves 'it' what it was.
        before = known.last
        known.last = before if _PRONOUNS & {word.casefold() for word in words[:end]} else clause.about
        if end == len(words):
            return [clause]
        begin = next(n for n in range(end, len(words)) if words[n].casefold() not in _JOINING)
        try:
            return [clause, *_following(clause, words[0], words[begin:], known)]
        except Unread as error:
            known.last = before
            problem = str(error) if len(words) - begin > 1 else problem
    raise Unread(problem)


def _following(clause: Clause, verb: str, words: list[str], known: Said) -> list[Clause]:
    """Read what comes behind a clause; a verb may be left out: 'remove Ada's age and Bob's age', 'connect A to B and B to C'.

    Behind a command it is no question unless it begins like one. What is created behind another has an article: 'and a task Build'.
    """
    first, before = words[0].casefold(), known.last
    try:
        more = _clauses(words, known)
        if _is_question(clause) or not _is_question(more[0]) or first in _ASKING | VERBS:
            return more
        problem = f"I did not understand '{shown(words, known)}': what is to be done with it?"
    except Unread as error:
        problem = str(error)
    known.last = before
    if verb.casefold() in VERBS and first not in VERBS and (not clause.made or first in {"a", "an", "another"}):
        try:
            more = _clauses([verb, *words], known)
        except Unread:
            raise Unread(problem) from None
        edges = {str(call.args["relationship"]) for one in (clause, *more) for call in one.calls if call.tool == "add_edge"}
        if len(edges) < 2:  # noqa: PLR2004 - 'as' is said of one of them only
            return more
        problem = f"I did not understand '{shown(words, known)}': say with each how it is connected, as in 'connect A to B as NEXT'."
    raise Unread(problem)


def _is_question(clause: Clause) -> bool:
    return all(call.tool in {"query_graph", "cypher_query"} for call in clause.calls)


def _joints(words: list[str]) -> list[int]:
    """Find where another clause could begin: behind a comma, 'and' or 'then'."""
    return [
        n
        for n in range(1, len(words) - 1)
        if words[n].casefold() in {"and", ",", "then", "&"}
        and words[n - 1].casefold() not in _JOINING
        and any(word.casefold() not in _JOINING for word in words[n:])
    ]


def which_is_meant(text: str) -> Ref | None:
    """Read which node a person means, if that is what is said, with its label."""
    plain, quoted = set_aside(text[:MAX_LENGTH])
    said = re.sub(r"(?i)^\s*(?:no,\s+)?(?:i\s+meant?|it\s+is|it's|take|use)\s+", "", plain).strip(" .!")
    try:
        refs = refs_of(said.split(), Said(quoted)) if said else []
    except Unread:
        return None
    return refs[0] if len(refs) == 1 and refs[0].label is not None else None


def _ordered(calls: Iterable[Call]) -> list[Call]:
    """Leave out what is there twice; where everything only adds and sets, nodes come first."""
    once: dict[str, Call] = {}
    for call in calls:
        about = [call.tool, call.args["label"], call.args["key"]] if call.tool == "add_node" else [call.tool, call.args]
        name = json.dumps(about, sort_keys=True)
        before = once.get(name)
        if before is None:
            once[name] = call
        elif (both := _together(before, call)) is not None:
            once[name] = both
        else:
            once[json.dumps([call.tool, call.args], sort_keys=True)] = call
    found = list(once.values())
    if all(call.tool in {"add_node", "add_edge", "update_props"} for call in found):
        found.sort(key=lambda call: call.tool != "add_node")
    return found


def _together(one: Call, other: Call) -> Call | None:
    """Put two calls that are about the same into one, unless they want different values."""
    kept, new = one.args.get("properties"), other.args.get("properties")
    if one.tool != "add_node" or not isinstance(kept, dict) or not isinstance(new, dict):
        return one
    if any(name in kept and not is_same(kept[name], value) for name, value in new.items()):
        return None
    return Call(one.tool, {**one.args, "properties": {**kept, **new}}, other.says if new else one.says)
