"""Secrets among settings are found by their type, wherever they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Secret, SecretBytes, SecretStr, create_model

from interlock import Settings
from interlock.runtime.redaction import Redactor
from interlock.secrets import SecretIfLong, SecretUrl, find_secrets

CANARY = "canary-of-the-settings"


def test_passwords_and_environments_of_tool_servers_are_secret_and_the_rest_of_a_url_is_not():
    settings = {
        "session_url": "redis://user:open-sesame@127.0.0.1/0",
        "memory_url": "postgresql://user:abra%40cadabra@127.0.0.1/db",
        "checkpoint_url": "memory:",
        "model_api_key": "hunter2-hunter2",
        "tool_servers": {"shop": {"url": "http://127.0.0.1", "headers": {"Authorization": "Token hunter2"}, "env": {"DEBUG": "1"}}},
    }
    found = Settings.model_validate(settings).secrets
    assert sorted(found) == ["Token hunter2", "abra%40cadabra", "abra@cadabra", "hunter2-hunter2", "open-sesame"]


@pytest.mark.parametrize("name", [name for name, field in Settings.model_fields.items() if "Secret" in str(field.annotation)])
def test_no_secret_of_the_settings_is_forgotten(name: str):
    """The names come from the class, so that a new field is tested too."""
    value = f"scheme://user:{CANARY}@127.0.0.1"
    made = Settings.model_validate({name: value})
    assert CANARY in made.secrets
    assert CANARY not in Redactor((), literals=made.secrets).text(f"it was {value}")
    assert CANARY not in f"{made!r} {made} {made.model_dump_json()}"


def in_model(value: Any) -> Any:
    return create_model("Made", part=(Any, ...))(part=value)


def in_extra(value: Any) -> Any:
    return create_model("Open", __config__={"extra": "allow"})(part=value)


def in_dataclass(value: Any) -> Any:
    return make_dataclass("Data", ["part"])(value)


def in_slots(value: Any) -> Any:
    return make_dataclass("Slots", ["part"], slots=True, frozen=True)(value)


WRAPPERS: list[Callable[[Any], Any]] = [
    in_model,
    in_extra,
    in_dataclass,
    in_slots,
    lambda value: [None, value],
    lambda value: (value, 1),
    lambda value: {"part": value},
    lambda value: {1: {"part": value}},
]
SECRETS: list[Callable[[str], Any]] = [SecretStr, SecretIfLong, Secret[str], lambda text: SecretBytes(text.encode())]


@given(
    st.sampled_from(SECRETS),
    st.lists(st.sampled_from(WRAPPERS), max_size=6),
    st.text(st.characters(codec="utf-8", exclude_characters="[]"), min_size=8, max_size=40).filter(lambda text: text.strip() == text),
)
def test_a_secret_is_found_and_hidden_however_deep_it_is(secret: Callable[[str], Any], wrappers: list[Callable[[Any], Any]], text: str):
    value = secret(text)
    for wrap in wrappers:
        value = wrap(value)
    redactor = Redactor((), literals=find_secrets(value))
    assert text not in redactor.text(f"before {text} after")


def test_a_secret_may_be_a_key_of_a_mapping_or_in_a_set():
    found = set(find_secrets({SecretStr("the-key-itself"): {SecretStr("one-of-a-set")}, "more": frozenset({SecretStr("frozen-one")})}))
    assert found == {"the-key-itself", "one-of-a-set", "frozen-one"}


@dataclass
class Secretive:
    parts: tuple[str, ...]


def test_everything_inside_a_secret_is_secret():
    redactor = Redactor((), literals=find_secrets([Secret(Secretive(parts=("one-part", "other-part")))]))
    assert "part" not in redactor.text("one-part and other-part")


def test_a_value_that_contains_itself_is_looked_at_once():
    ring: list[Any] = [SecretStr("in-a-ring")]
    ring.append(ring)
    assert list(find_secrets(ring)) == ["in-a-ring"]


def test_of_a_url_only_the_password_is_secret_where_the_type_says_so():
    url = "https://user:open-sesame@example.org/hook"
    assert list(find_secrets(SecretUrl(url))) == ["open-sesame"]
    assert list(find_secrets(SecretStr(url))) == [url, "open-sesame"]
    assert list(find_secrets(SecretUrl("memory:"))) == []


def test_what_is_short_may_be_a_flag_and_stays_visible_where_the_type_says_so():
    assert list(find_secrets([SecretIfLong("1"), SecretIfLong("long-enough")])) == ["long-enough"]
