from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import Control, Present, Secret, Untrusted
from interlock.contract.labels import has_value
from interlock.contract.type_hints import unwrap_annotated


@dataclass(frozen=True)
class Sized:
    text: str

    def __len__(self) -> int:
        return len(self.text)


@dataclass(frozen=True)
class Unsized:
    text: str = ""


EMPTY: list[object] = [None, "", b"", [], (), {}, set(), frozenset(), deque(), Sized("")]


@pytest.mark.parametrize("value", EMPTY)
def test_nothing_and_what_is_empty_are_no_value(value: object):
    assert has_value(value) is False


@pytest.mark.parametrize("value", [0, 0.0, False, " ", "\0", [None], (0,), {"": None}, Sized("a"), Unsized(), object()])
def test_zero_false_and_blanks_are_values(value: object):
    assert has_value(value) is True


@given(st.one_of(st.integers(), st.floats(), st.booleans(), st.text(min_size=1), st.lists(st.none(), min_size=1)))
def test_everything_that_is_not_empty_is_a_value(value: object):
    assert has_value(value)


def test_a_label_reads_as_its_name_and_is_one_of_a_kind():
    assert [repr(label) for label in (Untrusted, Secret, Control)] == ["Untrusted", "Secret", "Control"]
    assert len({Untrusted, Secret, Control}) == 3


def test_present_is_a_bool_to_the_node_that_reads_it():
    assert unwrap_annotated(Present)[0] is bool
    assert unwrap_annotated(Annotated[bool, Untrusted])[1] != unwrap_annotated(Present)[1]
