"""The sequence numbers of events, as a listener needs them to come back after a break."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.runtime.events import Event

__all__ = ["check_numbers", "numbers"]


def numbers(events: Iterable[Event]) -> list[int]:
    return [event["metadata"]["sequence"] for event in events]


def check_numbers(events: Iterable[Event]) -> None:
    """Check that the numbers of each turn start at 1 and have no gaps. A listener may have heard several turns in a row."""
    for turn in _turns(events):
        assert numbers(turn) == list(range(1, len(turn) + 1))


def _turns(events: Iterable[Event]) -> Iterator[list[Event]]:
    turn: list[Event] = []
    for event in events:
        if turn and not event["parent_ids"] and event["event"] == "on_chain_start":
            yield turn
            turn = []
        turn.append(event)
    yield turn
