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
from interlock.testing.scenarios import ANYTHING, Expected, Kind, Scenario, Script, Turn, Used

__all__ = ["ScenarioResult", "report"]

_SHOWN = 400  # characters of a text that a difference shows
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
        return tuple(_Comparison(self).differences())


def report(results: Iterable[ScenarioResult]) -> str:
    """Return every difference of the results, or an empty text."""
    return "\n".join(f"{one.place}\n    {difference}" for one in results for difference in one.differences)


class _Comparison:
    """Compares a result with what its turn expects."""

    def __init__(self, found: ScenarioResult) -> None:
        self._found = found
        self._expected = found.turn.expected(found.kind)
        self._result: dict[str, Any] = found.result.to_json() if found.result is not None else {}
        output: object = self._result.get("output")
        self._output = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)

    def differences(self) -> Iterator[str]:
        yield from self._status()
        for expected in self._expected:
            yield from self._steps(expected)
            yield from self._texts(expected)
            yield from _values(self._result, expected.values, expected.none)
            for name, wanted in expected.stored.items():
                yield from _stored(name, wanted, self._found.stored.get(name))
            if isinstance(expected, Script):
                yield from self._script(expected)

    def _status(self) -> Iterator[str]:
        """Compare the status and the error. A turn is expected to succeed unless the scenario says otherwise."""
        errors = [one.error for one in self._expected if one.error is not None] or [None]
        statuses = [one.status for one in self._expected if one.status is not None] or ["success" if errors == [None] else "error"]
        refusal, result = self._found.refusal, self._found.result
        was = "refused" if result is None else result.status
        fault = refusal or (result.error if result is not None else None)
        code, why = (fault.code, f" ({_short(fault.message)})") if fault is not None else (None, "")
        yield from (f"status: expected '{status}', was '{was}'{why}" for status in statuses if status != was)
        yield from (f"error: expected {_named(error)}, was {_named(code)}{why}" for error in errors if error != code)

    def _steps(self, expected: Expected) -> Iterator[str]:
        """Compare the path, the tools, the custom events and the number of model calls."""
        path = tuple(self._result.get("path", ()))
        if expected.path is not None and not _matches(path, expected.path):
            yield f"path: expected {_arrows(expected.path)}, was {_arrows(path)}"
        tools = self._found.tools
        if expected.tools is not None and tools != expected.tools:
            yield f"tools: expected {_listed(expected.tools)}, were {_listed(tools)}"
        if expected.side_by_side is not None and (most := _most_at_once(self._found.events)) != expected.side_by_side:
            yield f"tools side by side: expected {expected.side_by_side}, were {most}"
        emitted = tuple(event["name"] for event in self._found.events if event["event"] == "on_custom_event")
        if expected.emitted is not None and emitted != expected.emitted:
            yield f"emitted: expected {_listed(expected.emitted)}, was {_listed(emitted)}"
        calls = sum(event["event"] == "on_chat_model_start" and event["name"].startswith("Model") for event in self._found.events)
        if expected.asks is not None and calls != expected.asks:
            yield f"asks: expected {expected.asks} model calls, were {calls}"

    def _texts(self, expected: Expected) -> Iterator[str]:
        """Compare the output, and search the result and the events for texts that must not occur."""
        if expected.output is not None and self._output != expected.output:
            yield f"output: expected {_quoted(expected.output)}, was {_quoted(self._output)}"
        for phrase in expected.says:
            if phrase not in self._output:
                yield f"output: expected {_quoted(phrase)} in it, was {_quoted(self._output)}"
        for phrase in expected.says_not:
            if phrase in self._output:
                yield f"output: expected no {_quoted(phrase)} in it, was {_quoted(self._output)}"
        if expected.nowhere:
            state = "" if self._found.result is None else str(self._found.result.state)
            searched = {"the result": str(self._result), "the state": state, "an event": str(list(self._found.events))}
            for phrase in expected.nowhere:
                yield from (f"nowhere: {_quoted(phrase)} is in {where}" for where, text in searched.items() if phrase in text)

    def _script(self, expected: Script) -> Iterator[str]:
        """Compare the number and the last messages of the calls of the scripted model."""
        prompts = [messages[-1].text if messages else "" for messages in self._found.prompts]
        if len(prompts) != len(expected.replies):
            yield f"script: it has {len(expected.replies)} replies, and the model was called {len(prompts)} times"
        for number, (wanted, text) in enumerate(zip(expected.asked, prompts, strict=False), 1):
            if isinstance(wanted, str):
                if wanted not in text:
                    yield f"script, call {number}: expected {_quoted(wanted)} in it, was {_quoted(text)}"
                continue
            for difference in _values(_json(text), wanted):
                yield f"script, call {number}, {difference}"


def _values(data: Any, wanted: Mapping[str, Any], none: Sequence[str] = ()) -> Iterator[str]:
    for where, value in wanted.items():
        found = _find(data, where.split("."))
        if found != value:
            yield f"{where}: expected {_short(repr(value))}, was {'not there' if found is _MISSING else _short(repr(found))}"
    for where in none:
        found = _find(data, where.split("."))
        if found is not None and found is not _MISSING:
            yield f"{where}: expected none, was {_short(repr(found))}"


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
        yield f"{name}: expected {_short(repr(cast('object', wanted)))}, was {_short(repr(cast('object', found)))}"


def _sets(what: str, expected: Iterable[str], were: Iterable[str]) -> Iterator[str]:
    wanted, found = Counter(expected), Counter(were)
    missing, more = sorted((wanted - found).elements()), sorted((found - wanted).elements())
    if missing or more:
        yield f"{what}: missing {_listed(missing)}, unexpected {_listed(more)}"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _named(code: str | None) -> str:
    return "none" if code is None else f"'{code}'"


def _listed(items: Iterable[object]) -> str:
    return ", ".join(str(item) for item in items) or "none"


def _arrows(path: Iterable[str]) -> str:
    return " > ".join(path) or "none"


def _quoted(text: str) -> str:
    return repr(_short(text))


def _short(text: str, limit: int = _SHOWN) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
