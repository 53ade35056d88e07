"""Who stands behind a capability."""

from __future__ import annotations

from interlock.capabilities import Clock, Memory, MemoryReader, MemoryWriter
from interlock.grants import Grants
from interlock.settings import Settings
from interlock.testing import FixedClock
from interlock.wiring import load_agent


class Notes:
    async def recall(self, subject: str) -> str | None:
        return None

    async def remember(self, subject: str, text: str) -> None:
        pass


def test_who_grants_the_whole_grants_its_parts():
    notes = Notes()
    found = Grants(Settings(), {Memory: notes}).of(load_agent("desk"), (MemoryReader, MemoryWriter))
    assert found[MemoryReader] is found[MemoryWriter] is notes


def test_a_part_that_is_granted_itself_comes_before_the_whole():
    reader, whole = Notes(), Notes()
    found = Grants(Settings(), {MemoryReader: reader, Memory: whole}).of(load_agent("desk"), (MemoryReader, MemoryWriter))
    assert found[MemoryReader] is reader
    assert found[MemoryWriter] is whole


def test_what_nobody_grants_is_what_is_configured():
    clock = FixedClock()
    found = Grants(Settings(), {Clock: clock}).of(load_agent("desk"), (Clock, MemoryReader))
    assert found[Clock] is clock
    assert type(found[MemoryReader]).__name__ == "StoredMemory"
