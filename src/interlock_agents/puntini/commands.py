"""Commands about goals, which need no model: continue the last goal, or undo it."""

from __future__ import annotations

import re

from pydantic import JsonValue

from interlock.contract import guard
from interlock_agents.puntini.graph_store import AddEdge, AddNode, Change, DeleteNode, EdgeRef, NodeRef, UpdateEdge, UpdateNode
from interlock_agents.puntini.spec import Finished, GoalSpec, TodoItem, ToolSignature

__all__ = ["is_continue", "is_same_goal", "is_undo", "undoing"]

_POLITE = r"(?:(?:please|oops|ups|no|sorry|wait|ok|okay|hm+|ah|oh)[\s,.!]+)*(?:(?:can|could)\s+you\s+)?(?:please\s+)?"
_CONTINUE = re.compile(
    rf"{_POLITE}(?:continue|go\s+on|carry\s+on|keep\s+going|proceed|resume)(?:\s+with\s+(?:it|that|the\s+rest))?(?:[\s,]+please)?"
)
_IT = r"(?:it|that|this|the\s+last\s+(?:goal|change|changes|thing|one|step)|my\s+last\s+(?:goal|change)|what\s+you\s+(?:just\s+)?did)"
_UNDO = re.compile(rf"{_POLITE}(?:(?:undo|revert|reverse)(?:\s+{_IT})?|take\s+{_IT}\s+back)(?:[\s,]+please)?")


@guard
def is_continue(goal: str) -> bool:
    """Return whether a person wants to continue the goal that is not done yet."""
    return _CONTINUE.fullmatch(_normalized(goal)) is not None


@guard
def is_undo(goal: str) -> bool:
    """Return whether a person wants to undo the last goal."""
    return _UNDO.fullmatch(_normalized(goal)) is not None


@guard
def is_same_goal(one: str, other: str) -> bool:
    """Return whether two goals differ only in case, spaces and the last punctuation mark."""
    return _normalized(one) == _normalized(other)


def undoing(goal: str, last: Finished) -> tuple[GoalSpec, tuple[ToolSignature, ...]]:
    """Return the goal that undoes another one, and its calls, which undo the last change first."""
    calls = tuple(_call(change) for changed in reversed(last.changes) for change in changed.inverse())
    spec = GoalSpec(
        original_goal=goal,
        intent=f"undo '{last.goal[:200]}'",
        complexity="complex",
        todo_list=[TodoItem(description=call.reasoning, tool_name=call.tool_name) for call in calls],
        estimated_steps=len(calls),
    )
    return spec, calls


def _normalized(goal: str) -> str:
    return " ".join(goal.casefold().split()).strip(" .!")


def _call(change: Change) -> ToolSignature:
    element = change.node if isinstance(change, AddNode) else change.edge if isinstance(change, AddEdge) else change
    ref = element.ref
    what = f"{ref.label} {ref.key}" if isinstance(ref, NodeRef) else str(ref)
    match: JsonValue = _text(ref) if isinstance(ref, NodeRef) else _ends(ref)
    if isinstance(change, AddNode):
        args: dict[str, JsonValue] = {"label": change.node.label, "key": change.node.key, "properties": change.node.properties}
        return ToolSignature(tool_name="add_node", tool_args=args, reasoning=f"add {what} again")
    if isinstance(change, AddEdge):
        args = {**_ends(change.edge.ref), "properties": change.edge.properties}
        return ToolSignature(tool_name="add_edge", tool_args=args, reasoning=f"add {what} again")
    if isinstance(change, UpdateNode | UpdateEdge):
        args = {"target": match, "properties": change.properties}
        return ToolSignature(tool_name="update_props", tool_args=args, reasoning=f"set back {what}")
    tool = "delete_node" if isinstance(change, DeleteNode) else "delete_edge"
    return ToolSignature(tool_name=tool, tool_args={"match": match}, reasoning=f"delete {what}")


def _text(ref: NodeRef) -> str:
    return f"{ref.label}:{ref.key}"


def _ends(ref: EdgeRef) -> dict[str, JsonValue]:
    return {"from_node": _text(ref.start), "to_node": _text(ref.end), "relationship": ref.relationship}
