"""A replayed turn, compared with its record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from interlock.runtime.events import Event
from interlock.runtime.journal import Entry
from interlock.runtime.recording import Footer, Record
from interlock.runtime.turn import TurnResult

__all__ = ["Replay", "differences"]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A replayed turn: its result, and how that differs from the record."""

    record: Record
    result: TurnResult
    differences: tuple[str, ...]


def differences(record: Record, fingerprint: str, after: Footer, unused: Iterable[Entry]) -> Iterator[str]:
    """Yield how a replayed turn differs from its record: parts of the result, the first event that differs, calls no longer made."""
    before = cast("Footer", record.footer)
    if record.header.fingerprint != fingerprint:
        yield f"graph: the contracts of '{record.header.graph}' have changed"
    for part in ("status", "output", "error", "path", "metadata", "usage"):
        if before.result[part] != after.result[part]:
            yield f"{part}: was {_short(before.result[part])}, is {_short(after.result[part])}"
    was, now = before.result["state"], after.result["state"]
    for name in dict.fromkeys([*was, *now]):
        if was.get(name) != now.get(name):
            yield f"state.{name}: was {_short(was.get(name))}, is {_short(now.get(name))}"
    yield from _event_differences(before.events, after.events)
    for entry in unused:
        yield f"call {entry.sequence}: '{entry.capability}.{entry.method}' in '{entry.node}' is not made any more"


def _event_differences(before: list[Event], after: list[Event]) -> Iterator[str]:
    for number, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        if old != new:
            yield f"event {number}: was {_short(old)}, is {_short(new)}"
            return
    if len(before) != len(after):
        yield f"events: there were {len(before)}, now there are {len(after)}"


def _short(value: Any, limit: int = 200) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
