"""A turn of a scene that was taken, and every difference from what is expected of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from interlock.capabilities.graph_store import Edge, Node
from interlock.capabilities.model import Message
from interlock.errors import InputError
from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult
from interlock.testing.scenes import ANYTHING, Expected, Graphed, Kind, Scene, Script, Turn, Used

__all__ = ["Played", "as_graph", "report"]

_SHOWN = 400  # characters of a text that a difference shows
_MISSING = object()


@dataclass(frozen=True, kw_only=True)
class Played:
    """A turn that was taken: how it ended, what was told of it, what its model was asked, what its graph is."""

    scene: Scene
    turn: Turn
    kind: Kind
    result: TurnResult | None
    """None where it was refused before it began."""
    refusal: InputError | None = None
    events: Sequence[Event] = ()
    asked: Sequence[Sequence[Message]] = ()
    """What the script was asked, each time."""
    graph: Graphed | None = None

    @property
    def place(self) -> str:
        """Name the turn for a person."""
        number = next(at for at, turn in enumerate(self.scene.turns, 1) if turn is self.turn)
        return f"scene '{self.scene.title}' ({self.kind}), turn {number}: {_short(self.turn.text, 60)}"

    @property
    def tools(self) -> tuple[Used, ...]:
        """The tools that were used, in the order in which they began, with the codes of those that failed."""
        ended = {event["run_id"]: _code(event) for event in self.events if event["event"] in {"on_tool_end", "on_tool_error"}}
        return tuple(
            Used(name=event["name"], code=ended.get(event["run_id"])) for event in self.events if event["event"] == "on_tool_start"
        )

    @cached_property
    def differences(self) -> tuple[str, ...]:
        """Every difference from what is expected, each a line."""
        return tuple(_Comparison(self).differences())


def report(played: Iterable[Played]) -> str:
    """Write down everything that is not as expected; nothing where everything is."""
    return "\n".join(f"{one.place}\n    {difference}" for one in played for difference in one.differences)


def as_graph(nodes: Iterable[Node], edges: Iterable[Edge]) -> Graphed:
    """Write a property graph as scenes do."""
    return Graphed(
        nodes=tuple(sorted(f"{one.label} {one.key}" + (f" {json.dumps(one.properties)}" if one.properties else "") for one in nodes)),
        edges=tuple(sorted(f"{one.start.key} -[{one.relationship}]-> {one.end.key}" for one in edges)),
    )


class _Comparison:
    """Holds a turn against what is expected of it."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._expected = played.turn.expected(played.kind)
        self._result: dict[str, Any] = played.result.to_json() if played.result is not None else {}
        output: object = self._result.get("output")
        self._output = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)

    def differences(self) -> Iterator[str]:
        yield from self._ending()
        for expected in self._expected:
            yield from self._way(expected)
            yield from self._saying(expected)
            yield from _values(self._result, expected.values, expected.none)
            if expected.graph is not None and self._played.graph is not None:
                yield from _sets("graph, nodes", expected.graph.nodes, self._played.graph.nodes)
                yield from _sets("graph, edges", expected.graph.edges, self._played.graph.edges)
            if isinstance(expected, Script):
                yield from self._script(expected)

    def _ending(self) -> Iterator[str]:
        """Compare how it ended: with success where nothing else is said."""
        errors = [one.error for one in self._expected if one.error is not None] or [None]
        statuses = [one.status for one in self._expected if one.status is not None] or ["success" if errors == [None] else "error"]
        refusal, result = self._played.refusal, self._played.result
        was = "refused" if result is None else result.status
        fault = refusal or (result.error if result is not None else None)
        code, why = (fault.code, f" ({_short(fault.message)})") if fault is not None else (None, "")
        yield from (f"status: expected '{status}', was '{was}'{why}" for status in statuses if status != was)
        yield from (f"error: expected {_named(error)}, was {_named(code)}{why}" for error in errors if error != code)

    def _way(self, expected: Expected) -> Iterator[str]:
        """Compare what happened on the way."""
        path = tuple(self._result.get("path", ()))
        if expected.path is not None and not _leads(path, expected.path):
            yield f"path: expected {_arrows(expected.path)}, was {_arrows(path)}"
        tools = self._played.tools
        if expected.tools is not None and tools != expected.tools:
            yield f"tools: expected {_listed(expected.tools)}, were {_listed(tools)}"
        if expected.side_by_side is not None and (most := _most_at_once(self._played.events)) != expected.side_by_side:
            yield f"tools side by side: expected {expected.side_by_side}, were {most}"
        told = tuple(event["name"] for event in self._played.events if event["event"] == "on_custom_event")
        if expected.told is not None and told != expected.told:
            yield f"told: expected {_listed(expected.told)}, was {_listed(told)}"
        asks = sum(event["event"] == "on_chat_model_start" and event["name"].startswith("Model") for event in self._played.events)
        if expected.asks is not None and asks != expected.asks:
            yield f"asks: a model was expected to be asked {expected.asks} times, was asked {asks} times"

    def _saying(self, expected: Expected) -> Iterator[str]:
        """Compare what it says, and look for what nobody may see."""
        if expected.output is not None and self._output != expected.output:
            yield f"output: expected {_quoted(expected.output)}, was {_quoted(self._output)}"
        for phrase in expected.says:
            if phrase not in self._output:
                yield f"output: expected {_quoted(phrase)} in it, was {_quoted(self._output)}"
        for phrase in expected.says_not:
            if phrase in self._output:
                yield f"output: expected no {_quoted(phrase)} in it, was {_quoted(self._output)}"
        if expected.nowhere:
            state = "" if self._played.result is None else str(self._played.result.state)
            told = {"the result": str(self._result), "the state": state, "an event": str(list(self._played.events))}
            for phrase in expected.nowhere:
                yield from (f"nowhere: {_quoted(phrase)} is in {where}" for where, text in told.items() if phrase in text)

    def _script(self, expected: Script) -> Iterator[str]:
        """Compare how often the script was asked, and what."""
        asked = [messages[-1].text if messages else "" for messages in self._played.asked]
        if len(asked) != len(expected.replies):
            yield f"script: it has {len(expected.replies)} replies, and was asked {len(asked)} times"
        for number, (wanted, text) in enumerate(zip(expected.asked, asked, strict=False), 1):
            if isinstance(wanted, str):
                if wanted not in text:
                    yield f"script, asked {number}: expected {_quoted(wanted)} in it, was {_quoted(text)}"
                continue
            for difference in _values(_json(text), wanted):
                yield f"script, asked {number}, {difference}"


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
    """Find a value by its place; `*` makes a list of what is in each item."""
    if not where:
        return data
    first, *rest = where
    items = cast("dict[str, Any] | list[Any]", data) if isinstance(data, dict | list) else {}
    if first == "*":
        return [_find(item, rest) for item in (items.values() if isinstance(items, dict) else items)]
    if isinstance(items, dict):
        return _find(items[first], rest) if first in items else _MISSING
    return _find(items[int(first)], rest) if first.isdecimal() and int(first) < len(items) else _MISSING


def _leads(path: Sequence[str], expected: Sequence[str]) -> bool:
    """Tell whether a path is the expected one, in which `...` is any number of nodes."""
    if not expected:
        return not path
    first, *rest = expected
    if first == ANYTHING:
        return any(_leads(path[at:], rest) for at in range(len(path) + 1))
    return bool(path) and path[0] == first and _leads(path[1:], rest)


def _most_at_once(events: Iterable[Event]) -> int:
    running = most = 0
    for event in events:
        running += {"on_tool_start": 1, "on_tool_end": -1, "on_tool_error": -1}.get(event["event"], 0)
        most = max(most, running)
    return most


def _code(event: Event) -> str | None:
    """Find by what error a tool ended, be it raised or returned."""
    output: object = event["data"].get("error") or event["data"].get("output")
    return cast("dict[str, Any]", output).get("code") if isinstance(output, dict) else None


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
