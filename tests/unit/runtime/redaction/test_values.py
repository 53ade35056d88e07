"""A tracer sees a value of the same type, without its secrets."""

from __future__ import annotations

import dataclasses
from collections import UserDict, deque
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict

from interlock.errors import NodeFailed
from interlock.runtime.redaction import REDACTED, Redactor
from interlock.runtime.redaction.values import ValueRedactor

SECRET = "correct horse battery"  # noqa: S105 - it is looked for


class Pair(NamedTuple):
    left: str
    right: str


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    text: str
    token: str | None = None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    text: str


class Odd:
    def __repr__(self) -> str:
        raise ValueError


def redaction(*known: str) -> ValueRedactor:
    redactor = Redactor(("sk-[a-z]+",), literals=known)
    return ValueRedactor(redactor, secret=frozenset({"token"}), keys=frozenset({"token", "horse"}))


def test_what_has_no_secret_is_the_same_object():
    for value in (
        {"text": "x", "list": [1, 2.5, None, True], "tuple": ("a", b"b")},
        Pair("a", "b"),
        Frozen("a"),
        Open(text="a"),
        Command(update={"text": "a"}, goto="b"),
        AIMessage("hello", tool_calls=[{"name": "look", "args": {"a": 1}, "id": "1"}]),
        {1, "a"},
        Odd(),
        int,
        NodeFailed("It failed."),
    ):
        assert redaction(SECRET).redact(value) is value


SHOWN: list[tuple[Any, Any]] = [
    (f"it is {SECRET}.", f"it is {REDACTED}."),
    ({"token": "x", "text": "x"}, {"token": REDACTED, "text": "x"}),
    ({"token": None}, {"token": None}),
    (UserDict({"text": SECRET}), {"text": REDACTED}),
    ({f"a {SECRET}": 1, f"a {REDACTED}": 2}, {f"a {REDACTED}": 1, f"a {REDACTED}'": 2}),
    ({"horse": "sk-abc"}, {"horse": REDACTED}),
    (["a", SECRET], ["a", REDACTED]),
    (deque([SECRET]), deque([REDACTED])),
    (Pair("a", SECRET), Pair("a", REDACTED)),
    ({SECRET, "a"}, {REDACTED, "a"}),
    (frozenset({SECRET}), frozenset({REDACTED})),
    (Frozen(SECRET, "x"), Frozen(REDACTED, REDACTED)),
    (Open(text="a", more=SECRET), Open(text="a", more=REDACTED)),  # pyright: ignore[reportCallIssue] - it takes any
    (Command(update={"token": "x"}), Command(update={"token": REDACTED})),
    ({"node": {"token": "x"}}, {"node": {"token": REDACTED}}),
    (HumanMessage(SECRET, id="1"), HumanMessage(REDACTED, id="1")),
    (SECRET.encode(), REDACTED),
    (bytearray(SECRET, "ascii"), REDACTED),
    (123456, REDACTED),
]


@pytest.mark.parametrize(("value", "shown"), SHOWN)
def test_secrets_are_taken_out_and_the_rest_stays(value: Any, shown: Any):
    found = redaction(SECRET, "123456").redact(value)
    assert found == shown
    assert type(found) is type(shown)


def test_the_value_of_a_secret_field_is_redacted_everywhere_from_then_on():
    seen = redaction()
    first = seen.redact({"text": "the password is hunter2!", "inside": [{"token": "hunter2!"}]})
    assert first == {"text": f"the password is {REDACTED}", "inside": [{"token": REDACTED}]}
    assert seen.redact("hunter2! again") == f"{REDACTED} again"
    assert seen.redactor.text("hunter2!") == REDACTED
    assert seen.redact(first) is first


def test_a_graph_without_secret_fields_adds_no_secrets():
    seen = ValueRedactor(Redactor(), secret=frozenset(), keys=frozenset())
    assert seen.redact({"token": "hunter2!"}) == {"token": "hunter2!"}


def test_an_error_with_a_secret_is_replaced_by_one_without():
    error = NodeFailed(f"No {SECRET} here.")
    shown = redaction(SECRET).redact(error)
    assert (type(shown), str(shown)) == (RuntimeError, f"NodeFailed: No {REDACTED} here.")
    assert str(error) == f"No {SECRET} here."


def test_a_value_that_contains_itself_ends():
    value: list[Any] = [{"token": "abcdef"}]
    value.append(value)
    assert "abcdef" not in repr(redaction().redact(value))


LEAVES = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.just(SECRET)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["token", "text", SECRET]), inner)
        | st.builds(Frozen, inner.map(str), st.none())
        | st.builds(Pair, inner, inner)
    ),
)


@given(VALUES)
def test_no_secret_is_ever_shown(value: Any):
    assert SECRET not in repr(redaction(SECRET).redact(value))
