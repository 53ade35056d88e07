"""Projects a turn's events to its steps: what each run of a node read, wrote and called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, cast

from interlock.runtime.events import Event
from interlock.server.shapes import Call, Step, Tokens

__all__ = ["steps_of"]

_CALLS: dict[str, Literal["model", "tool"]] = {"on_chat_model": "model", "on_tool": "tool"}


def steps_of(events: Iterable[tuple[int, Event]]) -> list[Step]:
    """Return the steps of a turn, in the order in which they started, from its standing events and their times in milliseconds."""
    steps: dict[str, Step] = {}
    calls: dict[str, tuple[int, Call]] = {}
    for ms, event in events:
        kind, _, moment = event["event"].rpartition("_")
        if kind == "on_chain" and "langgraph_node" in event["metadata"]:
            _add_step(steps, event, moment, ms)
        elif kind in _CALLS and moment != "stream":
            _add_call(steps, calls, event, ms)
    for step in steps.values():
        step.tokens = _tokens(step.calls)
    return list(steps.values())


def _add_step(steps: dict[str, Step], event: Event, moment: str, ms: int) -> None:
    run, number = event["run_id"], event["metadata"]["sequence"]
    if moment == "start":
        node = event["metadata"]["langgraph_node"]
        given = event["data"].get("input")
        steps[run] = Step(
            number=event["metadata"].get("langgraph_step", len(steps) + 1),
            node=node,
            depth=node.count("/"),
            status="running",
            reads=_fields(given),
            writes={},
            calls=[],
            started_ms=ms,
            first_event=number,
            last_event=None,
        )
    elif run in steps:
        step = steps[run]
        step.status, step.last_event = ("success", number) if moment == "end" else ("error", number)
        step.ms = ms - step.started_ms
        step.writes, step.error = _fields(event["data"].get("output")), event["data"].get("error")


def _add_call(steps: dict[str, Step], calls: dict[str, tuple[int, Call]], event: Event, ms: int) -> None:
    run = event["run_id"]
    kind, _, moment = event["event"].rpartition("_")
    if moment == "start":
        call = Call(kind=_CALLS[kind], name=event["name"], input=event["data"].get("input"))
        calls[run] = ms, call
        owner = next((steps[parent] for parent in reversed(event["parent_ids"]) if parent in steps), None)
        if owner is not None:
            owner.calls.append(call)
    elif run in calls:
        started, call = calls[run]
        call.output, call.error, call.ms = event["data"].get("output"), event["data"].get("error"), ms - started


def _tokens(calls: Iterable[Call]) -> Tokens | None:
    """Return the tokens of the model calls of a step. A count that no provider gave is None, not zero."""
    used = [_fields(_fields(call.output).get("usage")) for call in calls if call.kind == "model"]
    known = {name: [usage[name] for usage in used if isinstance(usage.get(name), int)] for name in Tokens.model_fields}
    return Tokens(**{name: sum(counts) if counts else None for name, counts in known.items()}) if any(known.values()) else None


def _fields(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {} if value is None else {"value": value}
