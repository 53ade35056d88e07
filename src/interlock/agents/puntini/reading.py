"""How the offline rules read a goal: plain sentences become calls of tools, all of them or none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from interlock.agents.puntini.calls import Call
from interlock.agents.puntini.clauses import Found, declare, is_same, read_clause
from interlock.agents.puntini.sentences import MAX_LENGTH, clauses, is_cypher, set_aside, unreadable
from interlock.agents.puntini.words import Ref, Said, Unread, ref_of

__all__ = ["EXAMPLES", "MAX_CALLS", "Reading", "read_goal", "which_is_meant"]

MAX_CALLS = 80
"""How many calls a goal may become: a turn has no steps for more."""

EXAMPLES = (
    "Create a project Apollo with tasks Design and Build",
    "Assign Ada to Design",
    "Build depends on Design",
    "Set the status of Design to done",
    "How many tasks does Apollo have?",
    "List all tasks",
    "Delete the task Build",
)
"""What can be said."""


@dataclass(frozen=True)
class Reading:
    """What a goal becomes, or why it cannot become anything; `without` are the nodes that are to have none of a label."""

    calls: tuple[Call, ...] = ()
    problems: tuple[str, ...] = ()
    without: tuple[tuple[str, str], ...] = ()


def read_goal(text: str, meant: str = "") -> Reading:
    """Read a goal whole. Cypher is taken as it is; what is not understood, even in part, is a problem, and then there are no calls.

    `meant` is what a person said about it: 'I mean the task Design' says which node is meant by its name alone.
    """
    if is_cypher(text):
        return Reading((Call("cypher_query", {"query": text.strip(), "parameters": {}}, "ask the graph in Cypher"),))
    if why := unreadable(text):
        return Reading(problems=(why,))
    plain, quoted = set_aside(text)
    found = Found(quoted)
    problems: list[str] = []
    ref = which_is_meant(meant)
    if ref is not None and ref.label is not None:
        found.made[ref.key] = {ref.label}
    said = list(clauses(plain))
    for clause in said:
        with suppress(Unread):
            declare(clause, found)
    for clause in said:
        try:
            read_clause(clause, found)
        except Unread as error:
            problems.append(str(error))
    calls = _ordered(found.calls)
    if not calls and not problems:
        problems.append("There is nothing to do in it.")
    if len(calls) > MAX_CALLS:
        problems.append(f"That takes {len(calls)} steps; I do {MAX_CALLS} at a time.")
    return Reading(problems=tuple(dict.fromkeys(problems))) if problems else Reading(tuple(calls), without=tuple(found.without))


def which_is_meant(text: str) -> Ref | None:
    """Read which node a person means, if that is what is said, with its label."""
    plain, quoted = set_aside(text[:MAX_LENGTH])
    try:
        ref = ref_of(re.sub(r"(?i)^(?:no,\s+)?(?:i\s+meant?|it\s+is|it's|take|use)\s+", "", plain.strip(" .!")), Said(quoted))
    except (Unread, IndexError):
        return None
    return ref if ref.label is not None else None


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
