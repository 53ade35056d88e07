"""The answer: what was asked, done and changed, what failed and why, what is left."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from interlock.agents.puntini.spec import Done, EscalateContext, Failure, GoalSpec
from interlock.capabilities.graph_store import Changed, Edge, Node

__all__ = ["report"]

_MOST_ROWS = 50


def report(
    goal: str, spec: GoalSpec | None, *, done: Sequence[Done], failures: Sequence[Failure], escalation: EscalateContext | None
) -> str:
    """Write the answer of a turn."""
    if spec is not None and spec.reply:
        return spec.reply
    parts = [*_findings(done), *_changes(done)]
    if len(done) > 1 or escalation is not None:
        parts.insert(0, f"Asked: {goal}")
    told = [failure for failure in failures if escalation is None or failure.message != escalation.error]
    parts += dict.fromkeys(f"On the way: {_told(failure)}" for failure in told)
    if escalation is not None:
        parts.append(_escalated(escalation))
    left = _left(spec, done, is_over=escalation is None)
    if left:
        parts.append("Left to do:\n" + "\n".join(f"- {item}" for item in left))
    return "\n\n".join(parts) or f"Nothing had to be changed for '{goal}'."


def _findings(done: Sequence[Done]) -> Iterable[str]:
    """Say what questions found."""
    for one in done:
        if one.changed is None:
            yield _found(one.result)


def _found(result: Any) -> str:
    if not isinstance(result, dict):
        return str(result)
    found = cast("dict[str, Any]", result)
    if "rows" in found:
        return _table(found["columns"], found["rows"], more=bool(found.get("more")))
    nodes = cast("list[dict[str, Any]]", found.get("nodes", []))
    if not nodes:
        return "Nothing in the graph is like that."
    names = list(dict.fromkeys(name for node in nodes for name in node["properties"]))
    rows = [[node["label"], node["key"], *(node["properties"].get(name, "") for name in names)] for node in nodes]
    return _table(["label", "key", *names], rows, more=bool(found.get("more")))


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, more: bool) -> str:
    if not rows:
        return "Nothing in the graph is like that."
    if len(columns) == 1 and len(rows) == 1:
        return _cell(rows[0][0])
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_in_table(cell) for cell in row) + " |" for row in rows[:_MOST_ROWS]]
    if more or len(rows) > _MOST_ROWS:
        lines.append("\n... and more")
    return "\n".join(lines)


def _in_table(value: Any) -> str:
    return " ".join(_cell(value).split()).replace("|", "\\|")


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _changes(done: Sequence[Done]) -> Iterable[str]:
    """Say step by step what was done, and what that changed in all."""
    steps = [(one, list(_lines(one.changed))) for one in done if one.changed is not None]
    if any(lines for _, lines in steps):
        yield "\n".join(f"{one.step}. {', '.join(lines) or f'{one.call.tool_name}: it was so already'}" for one, lines in steps)
        yield f"Changed in the graph: {', '.join(_counts([one.changed for one, _ in steps if one.changed is not None]))}."
    elif steps:
        yield "Nothing changed in the graph: it was so already."


def _counts(changed: Sequence[Changed]) -> Iterable[str]:
    for what in ("added", "changed", "removed"):
        for noun in ("node", "edge"):
            count = sum(len(getattr(one, f"{noun}s_{what}")) for one in changed)
            if count:
                yield f"{count} {noun}{'' if count == 1 else 's'} {what}"


def _lines(changed: Changed) -> Iterable[str]:
    yield from (f"added {_node(node)}" for node in changed.nodes_added)
    yield from (f"changed {_node(node)}" for node in changed.nodes_changed)
    yield from (f"removed {_node(node)}" for node in changed.nodes_removed)
    yield from (f"added {_edge(edge)}" for edge in changed.edges_added)
    yield from (f"changed {_edge(edge)}" for edge in changed.edges_changed)
    yield from (f"removed {_edge(edge)}" for edge in changed.edges_removed)


def _node(node: Node) -> str:
    return f"{node.label} {node.key}{_properties(node.properties)}"


def _edge(edge: Edge) -> str:
    return f"{edge.start.key} -[{edge.relationship}]-> {edge.end.key}{_properties(edge.properties)}"


def _properties(properties: dict[str, Any]) -> str:
    return f" ({', '.join(f'{name}: {_cell(value)}' for name, value in properties.items())})" if properties else ""


def _escalated(escalation: EscalateContext) -> str:
    lines = [f"I could not do all of it. {escalation.reason} {escalation.error}"]
    if escalation.choice is None:
        lines += ["Nobody was there to be asked. What can be done:", *(f"- {option}" for option in escalation.options)]
    else:
        lines.append(f"You said: {escalation.choice}")
    return "\n".join(lines)


def _told(failure: Failure) -> str:
    return f"{failure.tool or failure.node} failed ({failure.error_type}: {failure.message}) and was tried again."


def _left(spec: GoalSpec | None, done: Sequence[Done], *, is_over: bool) -> list[str]:
    """List what was planned and is not done."""
    if spec is None or is_over:
        return []
    return [item.description for item in spec.todo_list[len(done) :]]
