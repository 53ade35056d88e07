"""What is stored of turns: their events, as they are stored and afterwards, and their records."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

from pydantic_core import from_json

from interlock.errors import TurnUnknown
from interlock.runtime.event_lines import EventDecoder, standing_lines
from interlock.runtime.events import Event
from interlock.runtime.recording import Footer, Record, read_header, write_record
from interlock.runtime.turns import ENDED, StoredTurn, TurnStore
from interlock.runtime.worker import decode_entry

__all__ = ["POLL_S", "TurnReader"]

POLL_S = 0.5
"""How long to wait for news from the store before looking again."""


class TurnReader:
    """Reads the turns of a store."""

    def __init__(self, store: TurnStore) -> None:
        self.store = store

    async def events(self, turn: str, *, after: int = 0) -> AsyncGenerator[Event, None]:
        """Yield the events of a turn from number `after` on, as they are stored, until it has ended or waits for a person."""
        decoder, since = EventDecoder(turn), await self.store.changed(timeout_s=0)
        while True:
            stored = await self._stored(turn)
            while lines := await self.store.events(turn, after=decoder.count):
                for line in lines:
                    event = decoder.decode(line)
                    if decoder.count > after:
                        yield event
            if stored.status in ENDED or stored.status == "waiting":
                return
            since = await self.store.changed(timeout_s=POLL_S, since=since)

    async def standing_events(self, turn: str) -> list[Event]:
        """Return the stored events of a turn without those that a later attempt has replaced, numbered from 1 without gaps."""
        return [event for _, event in await self.timed_events(turn)]

    async def timed_events(self, turn: str) -> list[tuple[int, Event]]:
        """Return the standing events of a turn, each after its time: milliseconds since the turn was first claimed."""
        lines: list[bytes] = []
        while more := await self.store.events(turn, after=len(lines)):
            lines.extend(more)
        decoder, timed = EventDecoder(turn), list[tuple[int, Event]]()
        for number in standing_lines(lines):
            event = decoder.decode(lines[number])
            timed.append((decoder.ms, event))
        return timed

    async def stored_events(self, turn: str) -> AsyncGenerator[Event, None]:
        """Yield the events of a turn that are stored now."""
        decoder = EventDecoder(turn)
        while lines := await self.store.events(turn, after=decoder.count):
            for line in lines:
                yield decoder.decode(line)

    async def export(self, turn: str, path: Path) -> None:
        """Write a turn to a new record file, for `replay`. Raises RecordInvalid where the file exists."""
        write_record(path, await self.record(turn))

    async def record(self, turn: str) -> Record:
        """Return the record of a turn: with a footer if it has ended."""
        stored = await self._stored(turn)
        header = read_header(stored.header)
        entries = [*(header.fork.entries if header.fork else ()), *map(decode_entry, await self.store.journal(turn))]
        if stored.status in ENDED:
            entries = [entry for entry in entries if not entry.is_intent]
        footer = None
        if stored.status in ENDED and stored.result is not None:
            footer = Footer(result=from_json(stored.result), events=await self.standing_events(turn))
        return Record(header=replace(header, fork=None), entries=entries, footer=footer)

    async def _stored(self, turn: str) -> StoredTurn:
        stored = await self.store.get(turn)
        if stored is None:
            raise TurnUnknown(f"There is no turn '{turn}'.")
        return stored
