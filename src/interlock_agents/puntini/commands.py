"""What a person says about goals rather than as one: to go on with the last one, or to undo it. No model is needed for that."""

from __future__ import annotations

import re

from pydantic import JsonValue

from interlock_agents.puntini.graph_store import AddEdge, AddNode, Change, DeleteEdge, DeleteNode, Edge, NodeRef, UpdateEdge, UpdateNode
from interlock_agents.puntini.spec import Finished, GoalSpec, TodoItem, ToolSignature

__all__ = ["is_continue", "is_same_goal", "is_undo", "undoing"]

_POLITE = r"(?:(?:please|oops|ups|no|sorry|wait|ok|okay|hm+|ah|oh)[\s,.!]+)*(?:(?:can|could)\s+you\s+)?(?:please\s+)?"
_CONTINUE = re.compile(
    rf"{_POLITE}(?:continue|go\s+on|carry\s+on|keep\s+going|proceed|resume)(?:\s+with\s+(?:it|that|the\s+rest))?(?:[\s,]+please)?"
)
_IT = r"(?:it|that|this|the\s+last\s+(?:goal|change|changes|thing|one|step)|my\s+last\s+(?:goal|change)|what\s+you\s+(?:just\s+)?did)"
_UNDO = re.compile(rf"{_POLITE}(?:(?:undo|revert|reverse)(?:\s+{_IT})?|take\s+{_IT}\s+back)(?:[\s,]+please)?")


def is_continue(goal: str) -> bool:
    """Return whether a person wants to go on with the goal that is not done yet."""
    return _CONTINUE.fullmatch(_plain(goal)) is not None


def is_undo(goal: str) -> bool:
    """Return whether a person wants to undo the last goal."""
    return _UNDO.fullmatch(_plain(goal)) is not None


def is_same_goal(one: str, other: str) -> bool:
    """Return whether two goals are the same but for case, spaces and the sign at the end."""
    return _plain(one) == _plain(other)


def undoing(goal: str, last: Finished) -> tuple[GoalSpec, tuple[ToolSignature, ...]]:
    """Return the goal that undoes another, and its calls: the same tools, the last change first."""
    calls = tuple(_call(change) for changed in reversed(last.changes) for change in changed.inverse())
    spec = GoalSpec(
        original_goal=goal,
        intent=f"undo '{last.goal[:200]}'",
        complexity="complex",
        todo_list=[TodoItem(description=call.reasoning, tool_name=call.tool_name) for call in calls],
        estimated_steps=len(calls),
    )
    return spec, calls


def _plain(goal: str) -> str:
    return " ".join(goal.casefold().split()).strip(" .!")


def _call(change: Change) -> ToolSignature:
    match change:
        case AddNode(node=node):
            return _signature("add_node", f"add {node.label} {node.key} again", label=node.label, key=node.key, properties=node.properties)
        case AddEdge(edge=edge):
            return _signature("add_edge", f"add {_told(edge)} again", **_edge(edge), properties=edge.properties)
        case UpdateNode(ref=ref, properties=properties):
            return _signature("update_props", f"set back {ref.label} {ref.key}", target=_ref(ref), properties=properties)
        case UpdateEdge(properties=properties):
            return _signature("update_props", f"set back {_told(change)}", target=_edge(change), properties=properties)
        case DeleteNode(ref=ref):
            return _signature("delete_node", f"delete {ref.label} {ref.key}", match=_ref(ref))
        case DeleteEdge():
            return _signature("delete_edge", f"delete {_told(change)}", match=_edge(change))


def _signature(tool: str, reasoning: str, **args: JsonValue) -> ToolSignature:
    return ToolSignature(tool_name=tool, tool_args=args, reasoning=reasoning)


def _ref(ref: NodeRef) -> str:
    return f"{ref.label}:{ref.key}"


def _edge(edge: Edge | UpdateEdge | DeleteEdge) -> dict[str, JsonValue]:
    return {"from_node": _ref(edge.start), "to_node": _ref(edge.end), "relationship": edge.relationship}


def _told(edge: Edge | UpdateEdge | DeleteEdge) -> str:
    return f"{edge.start.key} -[{edge.relationship}]-> {edge.end.key}"
