"""The sequence numbers of events, as a listener needs them to come back after a break."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event

__all__ = ["check_numbers", "numbers"]


def numbers(events: Iterable[Event]) -> list[int]:
    return [event["metadata"]["sequence"] for event in events]


def check_numbers(events: Iterable[Event]) -> None:
    """Check that the numbers of each turn start at 1 and have no gaps. A listener may have heard several turns in a row.

    A listener of a resumed turn is not shown the events that were replaced: the event that says so has the next number after them.
    """
    for turn in _turns(events):
        expected = 1
        for event, number in zip(turn, numbers(turn), strict=True):
            assert number == expected or (event["name"] == RETOLD and number > expected)
            expected = number + 1


def _turns(events: Iterable[Event]) -> Iterator[list[Event]]:
    turn: list[Event] = []
    for event in events:
        if turn and not event["parent_ids"] and event["event"] == "on_chain_start":
            yield turn
            turn = []
        turn.append(event)
    yield turn
