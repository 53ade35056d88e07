"""The answer: what was done and changed, what failed and why, what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from interlock.spelling import closest
from interlock_agents.puntini.graph_store import Changed, Edge, Node, differing
from interlock_agents.puntini.spec import ABORT, Done, EscalateContext, Failure, GoalSpec

__all__ = ["report"]

_MOST_ROWS = 50
_NOTHING = "Nothing in the graph is like that."


def report(
    goal: str,
    spec: GoalSpec | None,
    *,
    meant: str,
    skipped: Sequence[str],
    done: Sequence[Done],
    failures: Sequence[Failure],
    escalation: EscalateContext | None,
) -> str:
    """Write the answer of a turn."""
    if spec is not None and spec.reply:
        return spec.reply
    is_undone = escalation is not None and escalation.taken_back
    parts = [*_findings(done), *_changes(done, is_undone=is_undone, has_failed=escalation is not None)]
    parts += [] if is_undone else dict.fromkeys(note for one in done if one.changed is not None for note in _misspelt(one.changed))
    if meant:
        first = parts.pop(0) if parts and "\n" not in parts[0] else ""
        parts.insert(0, f"{meant} {first}".strip())
    if len(done) > 1 or (escalation is not None and done):
        parts.insert(0, f"Asked: {goal}")
    retried = [failure for failure in failures if escalation is None or failure.message != escalation.error]
    parts += dict.fromkeys(f"On the way: {one.tool or one.node} failed and was tried again: {one.message}" for one in retried)
    if skipped:
        parts.append("Left out, as you said:\n" + "\n".join(f"- {step}" for step in skipped))
    if escalation is not None:
        parts.append("\n".join(_escalated(goal, escalation, done)))
    left = _left(spec, len(done) + len(skipped)) if escalation is not None and escalation.goes_on else []
    if left:
        parts.append("Left to do:\n" + "\n".join(f"- {item}" for item in left))
    return "\n\n".join(parts) or f"Nothing had to be changed for '{goal}'."


def _findings(done: Sequence[Done]) -> Iterable[str]:
    """Return the results of the queries."""
    for one in done:
        if one.changed is None:
            yield _found(one.result)


def _found(result: Any) -> str:
    if not isinstance(result, dict):
        return _cell(result)
    found = cast("dict[str, Any]", result)
    if "rows" in found:
        return _table(found["columns"], found["rows"], more=bool(found.get("more")))
    nodes = cast("list[dict[str, Any]]", found.get("nodes", []))
    if not nodes:
        return _NOTHING
    names = list(dict.fromkeys(name for node in nodes for name in node["properties"]))
    rows = [[node["label"], node["key"], *(node["properties"].get(name) for name in names)] for node in nodes]
    return _table(["label", "key", *names], rows, more=bool(found.get("more")))


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, more: bool) -> str:
    if not rows:
        return _NOTHING
    if len(columns) == 1 and len(rows) == 1:
        return "It has no value." if rows[0][0] is None else _cell(rows[0][0])
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_in_table(cell) for cell in row) + " |" for row in rows[:_MOST_ROWS]]
    if more:
        lines.append(f"\nThese are the first {min(len(rows), _MOST_ROWS)} of more than {len(rows)} rows.")
    elif len(rows) > _MOST_ROWS:
        lines.append(f"\nThese are the first {_MOST_ROWS} of {len(rows)} rows.")
    return "\n".join(lines)


def _in_table(value: Any) -> str:
    return " ".join(_cell(value).split()).replace("|", "\\|")


def _cell(value: Any) -> str:
    """Format a value for a person: a node by label and key, an edge or path by its nodes, a missing value as a dash."""
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case {"label": label, "key": key, "properties": properties}:
            return f"{_cell(label)} {_cell(key)}{_properties(properties)}"
        case {"start": {"key": start}, "relationship": relationship, "end": {"key": end}, "properties": properties}:
            return f"{_cell(start)} -[{relationship}]-> {_cell(end)}{_properties(properties)}"
        case {"nodes": nodes, "edges": edges}:
            return _cell(edges or nodes)
        case dict():
            return ", ".join(f"{name}: {_cell(item)}" for name, item in cast("dict[str, Any]", value).items())
        case list():
            return ", ".join(_cell(item) for item in cast("list[Any]", value))
        case _:
            return str(value)


def _changes(done: Sequence[Done], *, is_undone: bool, has_failed: bool) -> Iterable[str]:
    """List the actions with their changes, then the total."""
    steps = [(one, list(_lines(one.changed))) for one in done if one.changed is not None]
    if not any(lines for _, lines in steps):
        if steps and not has_failed:
            yield f"Nothing changed in the graph: {' and '.join(dict.fromkeys(_why_unchanged(one) for one, _ in steps))}."
        return
    if len(done) == 1 and not is_undone:
        text = ", ".join(steps[0][1])
        yield f"{text[0].upper()}{text[1:]}."
        return
    if is_undone:
        yield "Done, and then taken back:"
    yield "\n".join(f"{one.step}. {', '.join(lines) or _unchanged(one)}" for one, lines in steps)
    if not is_undone:
        yield f"Changed in the graph: {_total([one.changed for one, _ in steps if one.changed is not None])}."


def _misspelt(changed: Changed) -> Iterable[str]:
    """Point out a new property whose name resembles an existing one of the same node."""
    for now, before in zip(changed.nodes_changed, changed.nodes_before, strict=True):
        for name in now.properties.keys() - before.properties.keys():
            near = closest(name, before.properties)
            if near:
                yield f"{now.label} {now.key} has '{near[0]}' as well as '{name}' now. Say 'undo' if that was meant for '{near[0]}'."


def _why_unchanged(one: Done) -> str:
    """Say why an action changed nothing."""
    if isinstance(one.result, dict) and one.result.get("matched") == 0:
        return "nothing in it matched"
    properties = one.call.tool_args.get("properties")
    if one.call.tool_name == "update_props" and isinstance(properties, dict) and all(value is None for value in properties.values()):
        return f"there was no {' and no '.join(f'{name!r}' for name in properties)} to remove"
    if one.call.tool_name == "add_node" and properties:
        return f"there is a {one.call.tool_args.get('label')} {one.call.tool_args.get('key')} already, and it stays as it is"
    return "it was so already"


def _unchanged(one: Done) -> str:
    """Say in words that an action changed nothing, without the name of its tool."""
    args = one.call.tool_args
    if one.call.tool_name == "add_node":
        # With `if_missing` the existing node may have another label.
        label = "" if args.get("if_missing") else f"{args.get('label')} "
        return f"{label}{args.get('key')} is there already"
    return f"{one.call.reasoning}: {_why_unchanged(one)}" if one.call.reasoning else _why_unchanged(one)


def _total(all_changed: Sequence[Changed]) -> str:
    fields = ("nodes_added", "edges_added", "nodes_changed", "edges_changed", "nodes_removed", "edges_removed")
    total = Changed(**{name: tuple(element for one in all_changed for element in getattr(one, name)) for name in fields})
    return ", ".join(f"{number} {what} {how}" for how, what, number in total.counts())


def _lines(changed: Changed) -> Iterable[str]:
    for kind in ("nodes", "edges"):
        before = getattr(changed, f"{kind}_before")
        yield from (f"added {_element(one)}" for one in getattr(changed, f"{kind}_added"))
        for one, old in zip(getattr(changed, f"{kind}_changed"), before, strict=True):
            yield f"changed {_name(one)}{_new(one, old)}"
        yield from (f"removed {_element(one)}" for one in getattr(changed, f"{kind}_removed"))


def _name(element: Node | Edge) -> str:
    return f"{element.label} {element.key}" if isinstance(element, Node) else str(element.ref)


def _element(element: Node | Edge) -> str:
    return f"{_name(element)}{_properties(element.properties)}"


def _new(now: Node | Edge, before: Node | Edge) -> str:
    """List the properties that were set or removed."""
    changed = differing(before, now)
    parts = [f"{name}: {_cell(value)}" if value is not None else f"{name} removed" for name, value in changed.items()]
    return f" ({', '.join(parts)})" if parts else ""


def _properties(properties: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'{name}: {_cell(value)}' for name, value in properties.items())})" if properties else ""


def _escalated(goal: str, escalation: EscalateContext, done: Sequence[Done]) -> Iterable[str]:
    """Say why the goal is not done, and whether its changes were undone."""
    if escalation.goes_on and escalation.choice is None:
        yield f"{escalation.reason} {escalation.error} Say 'continue' to go on."
        return
    if escalation.goes_on:
        yield f"You said: {str(escalation.choice).rstrip(' .')}. Say 'continue' to have that done."
        return
    if escalation.choice == ABORT:
        yield f"Given up: '{goal}'."
    elif escalation.left_out:
        yield f"Left out, as you said: {escalation.left_out}."
    else:
        yield f"{escalation.reason} {escalation.error}".strip()
    if escalation.was_asked and escalation.choice is None:
        yield "\n".join(["No person could be asked. What can be done:", *(f"- {option}" for option in escalation.options)])
    if escalation.taken_back:
        yield "What had been changed for it was taken back: the graph is as it was before."
    elif escalation.stays:
        yield f"What had been changed for it stays in the graph. It could not be taken back: {escalation.stays}"
    elif not any(one.changed is not None and one.changed.count for one in done) and escalation.reason:
        yield "Nothing was changed."


def _left(spec: GoalSpec | None, past: int) -> list[str]:
    """List the planned actions that are not done."""
    return [] if spec is None else [item.description for item in spec.todo_list[past:]]
