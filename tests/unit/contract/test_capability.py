from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

from interlock import Capability
from interlock.capabilities import Clock, Ids, Memory
from interlock.capabilities.capability import emits, is_capability, marks_of, methods
from interlock_agents.sam.capabilities import Images, ModelBackend, Transcriber


class Shelf(Capability, Protocol):
    label: str

    async def find(self, title: str) -> str: ...

    @emits("tool")
    async def borrow(self, title: str) -> str: ...

    @property
    def size(self) -> int: ...

    async def _dust(self) -> None: ...


class Archive(Shelf, Protocol):
    @emits("chat_model")
    async def find(self, title: str) -> str: ...

    async def pages(self) -> AsyncIterator[str]: ...


class Unrelated(Protocol):
    async def find(self, title: str) -> str: ...


class RealShelf(Shelf):
    async def find(self, title: str) -> str:
        return title


@pytest.mark.parametrize("candidate", [Shelf, Archive, Clock, Ids, Images, Memory, ModelBackend, Transcriber])
def test_a_protocol_that_inherits_from_capability_can_be_granted(candidate: object):
    assert is_capability(candidate)


@pytest.mark.parametrize("candidate", [Capability, Unrelated, RealShelf, str, "Shelf", None, Shelf | None])
def test_nothing_else_can_be_granted(candidate: object):
    assert not is_capability(candidate)


def test_the_public_methods_of_a_capability_are_its_own_and_those_it_inherits():
    assert methods(Shelf).keys() == {"find", "borrow"}
    assert methods(Archive).keys() == {"find", "borrow", "pages"}
    assert methods(Archive)["find"] is vars(Archive)["find"]


def test_only_a_marked_method_appears_in_the_event_stream():
    kinds: dict[str, Any] = {name: marks_of(run).event for name, run in methods(Shelf).items()}
    assert kinds == {"find": None, "borrow": "tool"}
    assert marks_of(Archive.find).event == "chat_model"
    assert marks_of(Archive.borrow).event == "tool"
    assert marks_of(ModelBackend.generate).event == "chat_model"
