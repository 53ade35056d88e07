"""A fork: the calls that a recorded turn had made before one of its steps, for a turn in another session that runs on from there.

The recorded turn is replayed as a turn of the other session until the step starts. A call that names the session has other arguments
then, so it is recognised by its place: the next one of its method in its node.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from typing_extensions import override

from interlock.errors import ReplayDiverged
from interlock.runtime.events import Event
from interlock.runtime.journal import Entry, Journal, JournalSlot
from interlock.runtime.sessions import Sessions

__all__ = ["Fork", "ForkJournal", "renamed"]


@dataclass(frozen=True, kw_only=True)
class Fork:
    """Where a turn comes from that runs on from a step of another one, with the calls that are not made again."""

    turn: str
    step: int
    entries: tuple[Entry, ...]


class ForkJournal(Journal):
    """Replays a turn under another session's name until a step starts, and collects the calls that were made until then."""

    def __init__(self, turn: str, *, entries: Iterable[Entry], step: int, session: str, to: str) -> None:
        ended = [entry for entry in entries if entry.question is None and not entry.is_intent]
        super().__init__(turn, entries=ended, complete=True)
        self.is_reached = False
        """Whether the step has started."""
        self._step = step
        self._names = {session: to}
        self._places = {id(entry): number for number, entry in enumerate(ended)}
        self._taken: dict[int, Entry] = {}
        self._waiting: defaultdict[tuple[str, str, str], list[Entry]] = defaultdict(list)
        for entry in sorted(ended, key=lambda entry: entry.sequence):
            self._waiting[entry.node, entry.capability, entry.method].append(entry)

    @property
    def reused(self) -> tuple[Entry, ...]:
        """The calls that were made before the step, in the order in which they ended."""
        return tuple(self._taken[place] for place in sorted(self._taken))

    def on_event(self, event: Event) -> None:
        """Look for the start of the step."""
        where = event["metadata"]
        self.is_reached |= event["event"] == "on_chain_start" and "langgraph_node" in where and where.get("langgraph_step") == self._step

    @override
    def slot(self, sequence: int, node: str, capability: str, method: str, key: str) -> JournalSlot:
        """Return the slot of a call with its recorded result. Ends the replay at the step, and where the record lacks the call."""
        self.check()
        waiting = self._waiting[node, capability, method]
        if self.is_reached or not waiting:
            raise self.fail(ReplayDiverged(f"'{capability}.{method}' is called in '{node}', where the record does not have it."))
        known = next((entry for entry in waiting if entry.key == key), waiting[0])
        waiting.remove(known)
        entry = dataclasses.replace(known, turn=self._turn, sequence=sequence, key=key)
        if known.key != key:
            entry = dataclasses.replace(entry, result=_in_session(known, self._names))
        self.left -= 1
        self.replay_order = [entry if one is known else one for one in self.replay_order]
        self._taken[self._places[id(known)]] = entry
        return JournalSlot(self, dataclasses.replace(entry, told=(), result=None, error=None), entry)


def _in_session(entry: Entry, names: Mapping[str, str]) -> Any:
    """Return the result of a call that names its session, as it is in the other session. Its framework state has no version there."""
    result = renamed(entry.result, names)
    if (entry.capability, entry.method) == (Sessions.__name__, "load") and isinstance(result, dict):
        return {**cast("dict[str, Any]", result), "version": None}
    return result


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return JSON data in which fields and items that are equal to a name have the other one, also inside texts that are JSON objects."""
    if isinstance(value, dict):
        return {key: renamed(one, names) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [renamed(one, names) for one in cast("list[Any]", value)]
    if not isinstance(value, str):
        return value
    if not value.startswith("{"):
        return names.get(value, value)
    try:
        data = json.loads(value)
        changed = renamed(data, names)
    except (ValueError, RecursionError):
        return value
    # A text without the name stays as it is written.
    return value if changed == data else json.dumps(changed, ensure_ascii=False, separators=(",", ":"))
