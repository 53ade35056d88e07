"""What puntini plans where there is no model: a small grammar of plain sentences, and honest about what it does not understand."""

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
from interlock_agents.puntini.reading import EXAMPLES, QUESTIONS, Reading, is_asked, read_goal, which_is_meant
from interlock_agents.puntini.spec import SKIP, ConstraintSpec, EntitySpec, GoalSpec, ParsedGoal, StepPlan, TodoItem, ToolSignature

__all__ = ["PuntiniRules"]

T = TypeVar("T", bound=BaseModel)

_MEDIUM = 4  # steps; more are complex
_CHANGES = frozenset({"add_node", "add_edge", "update_props", "delete_node", "delete_edge"})


class PuntiniRules(Rules):
    """Stands in for the model that understands goals and plans steps."""

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:
        """Understand a goal, or plan its next step: the same goal always becomes the same calls."""
        made: BaseModel
        if schema is ParsedGoal:
            made = _parsed(_payload(messages))
        elif schema is StepPlan:
            made = _planned(_payload(messages))
        else:
            return super().decide(messages, schema)
        return cast("T", made)


def _help(goal: str) -> str:
    examples = QUESTIONS if is_asked(goal) else EXAMPLES[:3]
    return "Nothing was changed. Goals that work: " + ", ".join(f"'{example}'" for example in examples) + "."


def _payload(messages: Sequence[Message]) -> dict[str, Any]:
    said = next((message.text for message in reversed(messages) if message.role == "user"), "")
    return cast("dict[str, Any]", json.loads(said))


def _read(payload: dict[str, Any]) -> tuple[Reading, list[str]]:
    """Read the goal in the light of what a person said about it in the last turn; the notes say what came of that."""
    goal, person = str(payload["goal"]), str(payload.get("person", ""))
    reading = read_goal(goal, meant=person)
    if not person:
        return reading, []
    skipped = person.removeprefix(f"{SKIP}: ")
    left = tuple(call for call in reading.calls if call.says != skipped)
    if skipped != person and left and left != reading.calls:
        return replace(reading, calls=left), [f"Left out, as you said: {skipped}."]
    ref = which_is_meant(person)
    return reading, [f"I do not use what was said before: '{person[:200]}'." if ref is None else f"Taken for what is meant: {ref.said}."]


def _parsed(payload: dict[str, Any]) -> ParsedGoal:
    goal = str(payload["goal"])
    reading, notes = _read(payload)
    against = () if reading.problems else tuple(_contradictions(reading))
    if reading.reply or reading.problems or against:
        why = [reading.reply] if reading.reply else [*against] or [*reading.problems, _help(goal)]
        intent = "small talk" if reading.reply else "contradictory" if against else "not understood"
        spec = GoalSpec(
            original_goal=goal,
            intent=intent,
            complexity="complex",
            requires_human_input=not reading.reply,
            confidence=0.0,
            parsing_notes=why,
            reply="" if against else " ".join(why),
        )
        return ParsedGoal(goal=spec)
    calls, first = reading.calls, reading.calls[0]
    spec = GoalSpec(
        original_goal=goal,
        intent="; ".join(call.says for call in calls[:3]) + ("; ..." if len(calls) > 3 else ""),  # noqa: PLR2004 - a short sentence
        complexity="simple" if len(calls) == 1 else "medium" if len(calls) <= _MEDIUM else "complex",
        entities=_entities(calls),
        constraints=[
            ConstraintSpec(type="none_of", description=f"{owner} has no {label}", applies_to=owner) for owner, label in reading.without
        ],
        todo_list=[
            TodoItem(description=call.says, step_number=number, tool_name=call.tool, dependencies=_needed(calls, number))
            for number, call in enumerate(calls, start=1)
        ],
        estimated_steps=len(calls),
        parsing_notes=notes,
    )
    return ParsedGoal(goal=spec, tool=_signature(first), then=[_signature(call) for call in calls[1:]])


def _planned(payload: dict[str, Any]) -> StepPlan:
    """Plan a step: the same call again after a failure, unless there is another way to ask."""
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
        next_step_hint="" if is_final else calls[number].says,
        overall_progress=(number - 1) / len(calls),
    )


def _signature(call: Call) -> ToolSignature:
    outcome = "The graph is changed so, or was so already." if call.tool in _CHANGES else "It is known."
    return ToolSignature(tool_name=call.tool, tool_args=call.args, reasoning=f"To {call.says}.", expected_outcome=outcome)


def _entities(calls: Sequence[Call]) -> list[EntitySpec]:
    """List the nodes that a goal names, and what it asks."""
    found: dict[str, EntitySpec] = {}
    for call in calls:
        properties = call.args.get("properties")
        having = properties if isinstance(properties, dict) and call.tool in _CHANGES else {}
        for ref in _nodes(call):
            label, key = _split(ref)
            before = found.get(ref, EntitySpec(name=key, type="node", label=label))
            of_node = having if call.tool in {"add_node", "update_props"} and isinstance(call.args.get("target", ""), str) else {}
            found[ref] = before.model_copy(update={"properties": {**before.properties, **of_node}})
        if call.tool not in _CHANGES:
            label = call.args.get("label")
            is_query = call.tool in {"cypher_query", "query_graph"}
            found[call.says] = EntitySpec(
                name=call.says, type="query" if is_query else "unknown", label=label if isinstance(label, str) else None
            )
    labelled = {entity.name for entity in found.values() if entity.label is not None}
    return [entity for entity in found.values() if entity.type != "node" or entity.label is not None or entity.name not in labelled]


def _nodes(call: Call) -> list[str]:
    """Return the nodes that a call is about."""
    args = call.args
    match call.tool:
        case "add_node":
            return [f"{args['label']}:{args['key']}"]
        case "add_edge":
            return [str(args["from_node"]), str(args["to_node"])]
        case "delete_node" | "delete_edge" | "update_props":
            target = args.get("match", args.get("target"))
            return [str(target["from_node"]), str(target["to_node"])] if isinstance(target, dict) else [str(target)]
        case _:
            return []


def _needed(calls: Sequence[Call], number: int) -> list[int]:
    """List the steps that have to be done before one: those that add its nodes."""
    about = _nodes(calls[number - 1])
    added = [n for n, call in enumerate(calls[: number - 1], start=1) if call.tool == "add_node"]
    return [n for n in added if any(_is_one(_nodes(calls[n - 1])[0], ref) for ref in about)]


def _split(ref: str) -> tuple[str | None, str]:
    label, colon, key = ref.partition(":")
    return (label, key) if colon and label.isidentifier() else (None, ref)


def _is_one(one: str, other: str) -> bool:
    """Tell whether two references can be the same node: a label that is not said can be any."""
    (label, key), (other_label, other_key) = _split(one), _split(other)
    return key == other_key and (label is None or other_label is None or label == other_label)


def _contradictions(reading: Reading) -> Iterable[str]:
    """Find what cannot be true together."""
    calls = reading.calls
    values = list(_values(calls))
    for place, (ref, name, value) in enumerate(values):
        for other, other_name, other_value in values[:place]:
            if name == other_name and _is_one(ref, other) and (type(value), value) != (type(other_value), other_value):
                yield f"It contradicts itself: '{name}' of '{_split(ref)[1]}' cannot be both {_told(other_value)} and {_told(value)}."
                break
    gone = [_nodes(call)[0] for call in calls if call.tool == "delete_node"]
    for ref in gone:
        used = next(
            (call for call in calls if call.tool in _CHANGES - {"delete_node"} and any(_is_one(ref, one) for one in _nodes(call))), None
        )
        if used is not None:
            yield f"It contradicts itself: '{_split(ref)[1]}' is to be deleted, and also to '{used.says}'."
    edges = [(call.args["from_node"], call.args["to_node"], call.args["relationship"]) for call in calls if call.tool == "add_edge"]
    for call in calls:
        if call.tool == "delete_edge" and any(_is_same_edge(edge, call.args["match"]) for edge in edges):
            yield f"It contradicts itself: '{call.says}', and also to add it."
    for owner, label in reading.without:
        has = next((end for start, end, _ in edges if _is_one(str(start), owner) and _split(str(end))[0] == label), None)
        if has is not None:
            yield f"It contradicts itself: '{_split(owner)[1]}' is to have no {label}, and also the {label} '{_split(str(has))[1]}'."


def _values(calls: Iterable[Call]) -> Iterable[tuple[str, str, JsonValue]]:
    """Give each property that is set: of what, its name and its value."""
    for call in calls:
        properties = call.args.get("properties")
        if call.tool in {"add_node", "update_props"} and isinstance(properties, dict):
            nodes = _nodes(call)
            ref = nodes[0] if len(nodes) == 1 else json.dumps(call.args["target"], sort_keys=True)
            for name, value in properties.items():
                yield ref, name, value


def _is_same_edge(edge: tuple[JsonValue, JsonValue, JsonValue], match: JsonValue) -> bool:
    ends = cast("dict[str, str]", match)
    start, end, relationship = edge
    return relationship == ends["relationship"] and _is_one(str(start), ends["from_node"]) and _is_one(str(end), ends["to_node"])


def _told(value: JsonValue) -> str:
    return "removed" if value is None else f"'{value}'" if isinstance(value, str) else json.dumps(value)
