"""Bodies that hide a decision on text are found, and those that decide on choices are not refused."""

import pytest

from tests.unit.verification.reading import bodies, flows

HIDDEN, CLEAN = bodies("hidden.txt"), bodies("clean.txt")
FOUND = {"untrusted_decision", "body_unread", "ambient"}


@pytest.mark.parametrize("name", HIDDEN)
def test_text_that_decides_is_found(name: str):
    codes = {fault.code for fault in flows("hidden.txt")[name].faults()}
    assert codes & FOUND


@pytest.mark.parametrize("name", CLEAN)
def test_a_body_that_decides_on_choices_passes(name: str):
    others = {"unused_read", "unused_grant", "control_taken"}
    assert [fault for fault in flows("clean.txt")[name].faults() if fault.code not in others] == []


def test_there_are_enough_of_them():
    assert len(HIDDEN) >= 600
    assert len(CLEAN) >= 75
