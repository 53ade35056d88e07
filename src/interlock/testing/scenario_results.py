"""The result of one turn of a scenario, and every difference from what the scenario expects."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from interlock.capabilities.model import Message
from interlock.errors import InputError
from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult
from interlock.testing.scenarios import ANYTHING, Kind, Scenario, Script, Turn, Used

__all__ = ["ScenarioResult", "report"]

_MAX_SHOWN = 400  # characters of a text that a difference shows
_MISSING = object()


@dataclass(frozen=True, kw_only=True)
class ScenarioResult:
    """The result of one turn of a scenario, with its events and the prompts of its model calls."""

    scenario: Scenario
    turn: Turn
    kind: Kind
    result: TurnResult | None
    """None if the input was refused."""
    refusal: InputError | None = None
    events: Sequence[Event] = ()
    prompts: Sequence[Sequence[Message]] = ()
    """The messages of each call of the scripted model."""
    stored: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The contents of the agent's stores that the turn has expectations for."""

    @property
    def place(self) -> str:
        """The scenario, the number and the input of the turn, for a message."""
        number = next(at for at, turn in enumerate(self.scenario.turns, 1) if turn is self.turn)
        return f"scenario '{self.scenario.title}' ({self.kind}), turn {number}: {_short(self.turn.text, 60)}"

    @property
    def tools(self) -> tuple[Used, ...]:
        """The tool calls in the order in which they started, each with its error code if it failed."""
        ended = {event["run_id"]: _code(event) for event in self.events if event["event"] in {"on_tool_end", "on_tool_error"}}
        return tuple(
            Used(name=event["name"], code=ended.get(event["run_id"])) for event in self.events if event["event"] == "on_tool_start"
        )

    @cached_property
    def differences(self) -> tuple[str, ...]:
        """Every difference from what is expected, one line each."""
        return tuple(_differences(self))


def report(results: Iterable[ScenarioResult]) -> str:
    """Return every difference of the results, or an empty text."""
    return "\n".join(f"{one.place}\n    {difference}" for one in results for difference in one.differences)


def _differences(found: ScenarioResult) -> Iterator[str]:
    result: dict[str, Any] = found.result.to_json() if found.result is not None else {}
    output: object = result.get("output")
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    state = "" if found.result is None else str(found.result.state)
    searched = {"the result": str(result), "the state": state, "an event": str(list(found.events))}
    events = [(event["event"], event["name"]) for event in found.events]
    were: dict[str, Any] = {
        "path": tuple(result.get("path", ())),
        "tools": found.tools,
        "side_by_side": _most_at_once(found.events),
        "emitted": tuple(name for kind, name in events if kind == "on_custom_event"),
        "asks": sum(kind == "on_chat_model_start" and name.startswith("Model") for kind, name in events),
        "output": text,
    }
    yield from _status(found)
    for expected in found.turn.expected(found.kind):
        for name, was in were.items():
            wanted: Any = getattr(expected, name)
            if wanted is not None and not (_matches(was, wanted) if name == "path" else was == wanted):
                yield f"{name}: expected {_shown(wanted)}, was {_shown(was)}"
        yield from (f"output: expected {_shown(one)} in it, was {_shown(text)}" for one in expected.says if one not in text)
        yield from (f"output: expected no {_shown(one)} in it, was {_shown(text)}" for one in expected.says_not if one in text)
        for phrase in expected.nowhere:
            yield from (f"nowhere: {_shown(phrase)} is in {where}" for where, inside in searched.items() if phrase in inside)
        yield from _values(result, expected.values, expected.none)
        for name, wanted in expected.stored.items():
            yield from _stored(name, wanted, found.stored.get(name))
        if isinstance(expected, Script):
            yield from _script(expected, [messages[-1].text if messages else "" for messages in found.prompts])


def _status(found: ScenarioResult) -> Iterator[str]:
    """Compare the status and the error. A turn is expected to succeed unless the scenario says otherwise."""
    expected = found.turn.expected(found.kind)
    errors = [one.error for one in expected if one.error is not None] or [None]
    statuses = [one.status for one in expected if one.status is not None] or ["success" if errors == [None] else "error"]
    was = "refused" if found.result is None else found.result.status
    fault = found.refusal or (found.result.error if found.result is not None else None)
    code, why = (fault.code, f" ({_short(fault.message)})") if fault is not None else (None, "")
    yield from (f"status: expected '{status}', was '{was}'{why}" for status in statuses if status != was)
    yield from (f"error: expected {_shown(error)}, was {_shown(code)}{why}" for error in errors if error != code)


def _script(expected: Script, prompts: Sequence[str]) -> Iterator[str]:
    """Compare the number and the last messages of the calls of the scripted model."""
    if len(prompts) != len(expected.replies):
        yield f"script: it has {len(expected.replies)} replies, and the model was called {len(prompts)} times"
    for number, (wanted, text) in enumerate(zip(expected.asked, prompts, strict=False), 1):
        if isinstance(wanted, dict):
            yield from (f"script, call {number}, {difference}" for difference in _values(_json(text), wanted))
        elif wanted not in text:
            yield f"script, call {number}: expected {_shown(wanted)} in it, was {_shown(text)}"


def _values(data: Any, wanted: Mapping[str, Any], none: Sequence[str] = ()) -> Iterator[str]:
    for where, value in wanted.items():
        found = _find(data, where.split("."))
        if found != value:
            yield f"{where}: expected {_shown(value)}, was {'not there' if found is _MISSING else _shown(found)}"
    for where in none:
        found = _find(data, where.split("."))
        if found is not None and found is not _MISSING:
            yield f"{where}: expected none, was {_shown(found)}"


def _find(data: Any, where: Sequence[str]) -> Any:
    """Return the value at a path; `*` returns a list with the value of each item."""
    if not where:
        return data
    first, *rest = where
    items = cast("dict[str, Any] | list[Any]", data) if isinstance(data, dict | list) else {}
    if first == "*":
        return [_find(item, rest) for item in (items.values() if isinstance(items, dict) else items)]
    if isinstance(items, dict):
        return _find(items[first], rest) if first in items else _MISSING
    return _find(items[int(first)], rest) if first.isdecimal() and int(first) < len(items) else _MISSING


def _matches(path: Sequence[str], expected: Sequence[str]) -> bool:
    """Return whether a path matches the expected one, in which `...` matches any number of nodes."""
    if not expected:
        return not path
    first, *rest = expected
    if first == ANYTHING:
        return any(_matches(path[at:], rest) for at in range(len(path) + 1))
    return bool(path) and path[0] == first and _matches(path[1:], rest)


def _most_at_once(events: Iterable[Event]) -> int:
    running = most = 0
    for event in events:
        running += {"on_tool_start": 1, "on_tool_end": -1, "on_tool_error": -1}.get(event["event"], 0)
        most = max(most, running)
    return most


def _code(event: Event) -> str | None:
    """Return the code of the error that a tool raised or returned."""
    output: object = event["data"].get("error") or event["data"].get("output")
    return cast("dict[str, Any]", output).get("code") if isinstance(output, dict) else None


def _stored(name: str, wanted: Any, found: Any) -> Iterator[str]:
    """Compare a value of a store. Lists are compared as sets, so that only the difference is reported. A missing list is empty."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        expected, there = cast("dict[str, Any]", wanted), cast("dict[str, Any]", found)
        for key in dict.fromkeys((*expected, *there)):
            yield from _stored(f"{name}, {key}", expected.get(key, []), there.get(key, []))
    elif isinstance(wanted, list) and isinstance(found, list):
        yield from _sets(name, cast("list[str]", wanted), cast("list[str]", found))
    elif wanted != found:
        yield f"{name}: expected {_shown(cast('object', wanted))}, was {_shown(cast('object', found))}"


def _sets(what: str, expected: Iterable[str], were: Iterable[str]) -> Iterator[str]:
    wanted, found = Counter(expected), Counter(were)
    missing, more = sorted((wanted - found).elements()), sorted((found - wanted).elements())
    if missing or more:
        yield f"{what}: missing {', '.join(missing) or 'none'}, unexpected {', '.join(more) or 'none'}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " > ".join(map(str, cast("tuple[object, ...]", value))) or "none"
    return "none" if value is None else _short(repr(value))


def _short(text: str, limit: int = _MAX_SHOWN) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
