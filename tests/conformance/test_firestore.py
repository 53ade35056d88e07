from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from interlock.engine.serializer import ClosedSerializer
from interlock.stores.firestore import FirestoreCheckpointer
from tests.support.firestore import shared_emulator

TESTS = 81


@pytest.mark.parametrize("serde", [ClosedSerializer(), JsonPlusSerializer()], ids=["closed", "langgraph's own"])
async def test_everything_that_a_checkpointer_can_be_asked_for_works(serde: SerializerProtocol, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", shared_emulator())

    async def made() -> AsyncGenerator[FirestoreCheckpointer]:
        saver = FirestoreCheckpointer(project="conformance", serde=serde)
        yield saver
        await saver.aclose()

    registered: Any = checkpointer_test(name="FirestoreCheckpointer")(made)
    report = await validate(registered)
    assert {name: result.failures for name, result in report.results.items() if result.failures} == {}
    assert {name for name, result in report.results.items() if result.passed} == {capability.value for capability in Capability}
    assert sum(result.tests_skipped for result in report.results.values()) == 0
    assert sum(result.tests_passed for result in report.results.values()) == TESTS
