"""What no agent could take is refused before a turn begins, and never repaired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from interlock.errors import InputEmpty, InputEncoding, InputError, InputSchema, InputTooLarge
from interlock.input import check_session, check_size, check_text


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("", InputEmpty),
        (" \n\t", InputEmpty),
        ("x" * 11, InputTooLarge),
        ("é" * 6, InputTooLarge),  # of bytes, not of characters
        ("half \ud800", InputEncoding),
        ("a\0b", InputEncoding),
    ],
)
def test_an_unusable_or_too_large_text_is_refused(text: str, refused: type[InputError]):
    with pytest.raises(refused):
        check_text(text, max_bytes=10)


@pytest.mark.parametrize("text", ["x" * 10, "é" * 5, " x "])
def test_every_other_text_is_taken_as_it_is(text: str):
    assert check_text(text, max_bytes=10) == text


@dataclass
class Note:
    text: str


@dataclass(slots=True)
class Slip:
    text: str


class Letter(BaseModel, extra="allow"):
    text: str


@pytest.mark.parametrize(
    "given",
    [
        *("x" * 11, b"x" * 11, ["x" * 6, "y" * 6], {"a": {"b": ("x" * 11,)}}, {"x" * 11: 1}, {"x" * 11}, [0] * 11, ["\ud800" * 4]),
        *(Note("x" * 11), Slip("x" * 11), Letter(text="x" * 11), Letter.model_validate({"text": "", "more": "x" * 11})),
    ],
    ids=repr,
)
def test_texts_are_counted_together_however_deep_they_lie(given: Any):
    with pytest.raises(InputTooLarge):
        check_size({"given": given}, max_bytes=10)


def test_what_holds_itself_is_too_large():
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InputTooLarge):
        check_size({"given": endless}, max_bytes=10)


@pytest.mark.parametrize("given", ["x" * 10, ["x" * 4, "y" * 4], 1, None, Note("x"), Note])
def test_what_fits_is_taken(given: Any):
    check_size({"given": given}, max_bytes=10)


@pytest.mark.parametrize("session", ["", "a" * 65, "../a", "a b", "a\n", "ä"])
def test_a_session_that_is_no_plain_name_is_refused(session: str):
    with pytest.raises(InputSchema):
        check_session(session)
    assert check_session("a-B_9") == "a-B_9"
