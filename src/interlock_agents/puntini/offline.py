"""The offline rules of puntini: a small grammar of plain sentences, which reports what it does not understand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from pydantic import BaseModel, JsonValue

from interlock.capabilities import Message
from interlock.errors import ModelOutputInvalid
from interlock.models.rules import Rules
from interlock_agents.puntini.calls import Call
from interlock_agents.puntini.errors import NotInGraph
from interlock_agents.puntini.graph_store import is_same
from interlock_agents.puntini.reading import Reading, meant_node, read_goal
from interlock_agents.puntini.sentences import is_question
from interlock_agents.puntini.spec import SKIP, ConstraintSpec, EntitySpec, GoalSpec, ParsedGoal, StepPlan, TodoItem, ToolSignature

__all__ = ["EXAMPLES", "PuntiniRules"]

T = TypeVar("T", bound=BaseModel)

EXAMPLES = (
    "Create a project Apollo with tasks Design and Build",
    "Set the status of Design to done",
    "How many tasks does Apollo have?",
    "Assign Ada to Design",
    "Build depends on Design",
    "List all tasks",
    "Delete the task Build",
)
"""Goals that work."""

_QUESTIONS = ("How many tasks does Apollo have?", "Who is assigned to Design?", "Show Apollo")
_MEDIUM = 4  # steps; a goal with more is complex
_CHANGES = frozenset({"add_node", "add_edge", "update_props", "delete_node", "delete_edge"})


class PuntiniRules(Rules):
    """Replaces the model that parses goals and plans steps. The same goal always becomes the same calls."""

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:
        """Parse a goal, or plan its next step."""
        text = next((message.text for message in reversed(messages) if message.role == "user"), "")
        made: BaseModel
        if schema is ParsedGoal:
            made = _parsed(json.loads(text))
        elif schema is StepPlan:
            made = _planned(json.loads(text))
        else:
            return super().decide(messages, schema)
        return cast("T", made)


def _help(goal: str) -> str:
    examples = _QUESTIONS if is_question(goal) else EXAMPLES[:3]
    return "Nothing was changed. Goals that work: " + ", ".join(f"'{example}'" for example in examples) + "."


def _read(payload: dict[str, Any]) -> tuple[Reading, list[str]]:
    """Read the goal with a person's answer about it. The notes say what the answer changed."""
    goal, person = str(payload["goal"]), str(payload.get("person", ""))
    reading = read_goal(goal, answer=person)
    if not person:
        return reading, []
    skipped = person.removeprefix(f"{SKIP}: ")
    left = tuple(call for call in reading.calls if call.text != skipped)
    if skipped != person and left and left != reading.calls:
        return replace(reading, calls=left), [f"Left out, as you said: {skipped}."]
    ref = meant_node(person)
    return reading, [f"This answer was not used: '{person[:200]}'." if ref is None else f"The answer refers to {ref.text}."]


def _parsed(payload: dict[str, Any]) -> ParsedGoal:
    goal = str(payload["goal"])
    reading, notes = _read(payload)
    calls, against = reading.calls, () if reading.problems else tuple(_contradictions(reading))
    if reading.reply or reading.problems or against or not calls:
        why = [reading.reply] if reading.reply else [*against] or [*reading.problems, _help(goal)]
        spec = GoalSpec(
            original_goal=goal,
            intent="small talk" if reading.reply else "contradictory" if against else "not understood",
            complexity="complex",
            requires_human_input=not reading.reply,
            confidence=0.0,
            parsing_notes=why,
            reply="" if against else " ".join(why),
        )
        return ParsedGoal(goal=spec)
    spec = GoalSpec(
        original_goal=goal,
        intent="; ".join(call.text for call in calls[:3]) + ("; ..." if len(calls) > 3 else ""),  # noqa: PLR2004 - a short sentence
        complexity="simple" if len(calls) == 1 else "medium" if len(calls) <= _MEDIUM else "complex",
        entities=_entities(calls),
        constraints=[
            ConstraintSpec(type="none_of", description=f"{owner} has no {label}", applies_to=owner) for owner, label in reading.without
        ],
        todo_list=[
            TodoItem(description=call.text, step_number=number, tool_name=call.tool, dependencies=_dependencies(calls, number))
            for number, call in enumerate(calls, start=1)
        ],
        estimated_steps=len(calls),
        parsing_notes=notes,
    )
    first, *others = map(_signature, calls)
    return ParsedGoal(goal=spec, tool=first, then=others)


def _planned(payload: dict[str, Any]) -> StepPlan:
    """Plan a step. After a failure it is the same call again, unless there is another call to make instead."""
    reading, _ = _read(payload)
    against = reading.problems or tuple(_contradictions(reading))
    if against or not reading.calls:
        raise ModelOutputInvalid(" ".join((*against, reading.reply or _help(str(payload["goal"])))))
    calls = reading.calls
    number = min(max(int(payload.get("step", 1)), 1), len(calls))
    call = calls[number - 1]
    failed: dict[str, Any] = payload.get("last_error") or {}
    if failed.get("error") == NotInGraph.code and failed.get("tool") == call.tool and call.instead is not None:
        call = call.instead
    is_final = number == len(calls)
    return StepPlan(
        step_number=number,
        tool_signature=_signature(call),
        is_final_step=is_final,
        next_step_hint="" if is_final else calls[number].text,
        overall_progress=(number - 1) / len(calls),
    )


def _signature(call: Call) -> ToolSignature:
    outcome = "The graph has this change." if call.tool in _CHANGES else "The question is answered."
    return ToolSignature(tool_name=call.tool, tool_args=call.args, reasoning=f"To {call.text}.", expected_outcome=outcome)


def _entities(calls: Sequence[Call]) -> list[EntitySpec]:
    """List the nodes that a goal names, and its questions."""
    found: dict[str, EntitySpec] = {}
    for call in calls:
        properties = call.args.get("properties")
        for ref in _nodes(call):
            label, key = _split(ref)
            entity = found.get(ref, EntitySpec(name=key, type="node", label=label))
            is_own = call.tool == "add_node" or (call.tool == "update_props" and isinstance(call.args["target"], str))
            more = properties if is_own and isinstance(properties, dict) else {}
            found[ref] = entity.model_copy(update={"properties": {**entity.properties, **more}})
        if call.tool not in _CHANGES:
            label = call.args.get("label")
            found[call.text] = EntitySpec(name=call.text, type="query", label=label if isinstance(label, str) else None)
    labelled = {entity.name for entity in found.values() if entity.label is not None}
    return [entity for entity in found.values() if entity.type != "node" or entity.label is not None or entity.name not in labelled]


def _nodes(call: Call) -> list[str]:
    """Return the nodes that a call refers to: one, or both ends of an edge."""
    if call.tool == "add_node":
        return [f"{call.args['label']}:{call.args['key']}"]
    target = call.args if call.tool == "add_edge" else call.args.get("match", call.args.get("target"))
    if call.tool not in _CHANGES or target is None:
        return []
    return [str(target["from_node"]), str(target["to_node"])] if isinstance(target, dict) else [str(target)]


def _dependencies(calls: Sequence[Call], number: int) -> list[int]:
    """Return the earlier steps that add the nodes of a step."""
    nodes = _nodes(calls[number - 1])
    added = [n for n, call in enumerate(calls[: number - 1], start=1) if call.tool == "add_node"]
    return [n for n in added if any(_is_one(_nodes(calls[n - 1])[0], ref) for ref in nodes)]


def _split(ref: str) -> tuple[str | None, str]:
    label, colon, key = ref.partition(":")
    return (label, key) if colon and label.isidentifier() else (None, ref)


def _is_one(one: str, other: str) -> bool:
    """Return whether two references can be the same node: one without a label matches every label."""
    (label, key), (other_label, other_key) = _split(one), _split(other)
    return key == other_key and (label is None or other_label is None or label == other_label)


def _is_edge(one: Call, other: Call) -> bool:
    ends = zip(_nodes(one), _nodes(other), strict=True)
    return one.args["relationship"] == cast("dict[str, str]", other.args["match"])["relationship"] and all(_is_one(*pair) for pair in ends)


def _contradictions(reading: Reading) -> Iterable[str]:
    """Yield what cannot be true together."""
    calls = reading.calls
    values = list(_values(calls))
    for place, (ref, name, value) in enumerate(values):
        for other, other_name, other_value in values[:place]:
            if name == other_name and _is_one(ref, other) and not is_same(value, other_value):
                yield f"It contradicts itself: '{name}' of '{_split(ref)[1]}' cannot be both {_shown(other_value)} and {_shown(value)}."
                break
    for call in calls:
        ref = _nodes(call)[0] if call.tool == "delete_node" else None
        used = [one for one in calls if one.tool in _CHANGES - {"delete_node"} and any(_is_one(ref or "", node) for node in _nodes(one))]
        if ref is not None and used:
            yield f"It contradicts itself: '{_split(ref)[1]}' is to be deleted, and also to '{used[0].text}'."
    added = [call for call in calls if call.tool == "add_edge"]
    for call in calls:
        if call.tool == "delete_edge" and any(_is_edge(edge, call) for edge in added):
            yield f"It contradicts itself: '{call.text}', and also to add it."
    for owner, label in reading.without:
        ends = [_nodes(call) for call in added]
        has = next((end for start, end in ends if _is_one(start, owner) and _split(end)[0] == label), None)
        if has is not None:
            yield f"It contradicts itself: '{_split(owner)[1]}' is to have no {label}, and also the {label} '{_split(has)[1]}'."


def _values(calls: Iterable[Call]) -> Iterable[tuple[str, str, JsonValue]]:
    """Yield each property that is set: its node or edge, its name and its value."""
    for call in calls:
        properties = call.args.get("properties")
        if call.tool in {"add_node", "update_props"} and isinstance(properties, dict):
            nodes = _nodes(call)
            ref = nodes[0] if len(nodes) == 1 else json.dumps(call.args["target"], sort_keys=True)
            yield from ((ref, name, value) for name, value in properties.items())


def _shown(value: JsonValue) -> str:
    return "removed" if value is None else f"'{value}'" if isinstance(value, str) else json.dumps(value)
