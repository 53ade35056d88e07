"""Where secrets come from: a secret that cannot be had is an error without its place or what is in it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from interlock.engine import EngineName
from interlock.errors import SettingsInvalid
from interlock_agents.gateway.errors import SecretUnavailable
from interlock_agents.gateway.vaults import SettingsVault
from tests.support.gateway import app, code, make_files

HELD = "correct horse battery"


def vault(place: str) -> SettingsVault:
    return SettingsVault({"key": place}, reference="key")


async def test_a_secret_is_read_from_the_environment_and_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("A_SECRET", HELD)
    (tmp_path / "secret").write_text(f"{HELD}\r\n")
    for place in ("env:A_SECRET", f"file:{tmp_path}/secret"):
        opened = vault(place)
        assert await opened.reference() == "key"
        assert await opened.fetch("key") == HELD
        assert HELD not in repr(opened)


async def test_a_secret_is_read_at_each_use_and_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "secret").write_text(HELD)
    in_file, in_environment = vault(f"file:{tmp_path}/secret"), vault("env:A_SECRET")
    monkeypatch.delenv("A_SECRET", raising=False)
    with pytest.raises(SecretUnavailable):
        await in_environment.fetch("key")
    monkeypatch.setenv("A_SECRET", "another secret")
    (tmp_path / "secret").write_text("another secret")
    assert await in_file.fetch("key") == await in_environment.fetch("key") == "another secret"
    assert HELD not in str([vars(in_file), vars(in_environment)])


async def test_line_breaks_and_spaces_inside_a_secret_are_kept(tmp_path: Path):
    for held in ("-----BEGIN KEY-----\r\nabc\ndef\n-----END KEY-----", "  eight letters  ", "ünïcödé ✓ secret"):
        (tmp_path / "secret").write_bytes(f"\n{held}\n".encode())
        assert await vault(f"file:{tmp_path}/secret").fetch("key") == held


async def test_without_a_reference_there_is_no_secret():
    opened = SettingsVault({"key": "env:A"}, reference=None)
    assert await opened.reference() == ""
    with pytest.raises(SecretUnavailable):
        await opened.fetch("other")
    with pytest.raises(SecretUnavailable):
        await opened.fetch("")


def make_place(kind: str, place: Path) -> str:
    """Make something that is no secret, and say where it is."""
    contents = {
        "empty": b"",
        "blank": b" \n" * 20,
        "short": b"Canary7\n",
        "not UTF-8": b"Canary\xff\xfe-no-text",
        "too large": b"Canary" * 11_000,
    }
    elsewhere = {
        "NUL": f"{place}\0x",
        "no home": "~nobody-has-this-name/hidden-place",
        "device": "/dev/zero",
        "through a file": f"{place}/x",
    }
    if kind in contents:
        place.write_bytes(contents[kind])
    elif kind == "folder":
        place.mkdir()
    elif kind == "FIFO":
        os.mkfifo(place)
    elif kind == "through a file":
        place.write_text("a file")
    return elsewhere.get(kind, str(place))


KINDS = (
    *("missing", "empty", "blank", "short", "folder", "FIFO", "not UTF-8", "too large"),
    *("NUL", "no home", "device", "through a file"),
)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unusable_secret_file_is_an_error_without_details(tmp_path: Path, kind: str):
    place = make_place(kind, tmp_path / "hidden-place")
    with pytest.raises(SecretUnavailable) as refused:
        await asyncio.wait_for(vault(f"file:{place}").fetch("key"), 20)
    told = str(refused.value) + repr(refused.value.__cause__)
    assert refused.value.code == "secret_unavailable"
    assert "'key'" in told
    assert [part for part in ("hidden-place", "Canary", "/dev", "nobody") if part in told] == []


async def test_a_pipe_is_not_read_as_a_secret(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDWR | os.O_NONBLOCK)
    os.write(pipe, HELD.encode())
    try:
        with pytest.raises(SecretUnavailable):
            await vault(f"file:{tmp_path}/pipe").fetch("key")
    finally:
        os.close(pipe)


@pytest.mark.parametrize("held", [None, "", "short", "\n\n", "1234567\n", " " * 20, "not text \udcff\udcfe"])
async def test_an_unusable_variable_is_an_error_without_details(monkeypatch: pytest.MonkeyPatch, held: str | None):
    monkeypatch.delenv("A_HIDDEN_VARIABLE", raising=False)
    if held is not None:
        monkeypatch.setenv("A_HIDDEN_VARIABLE", held)
    with pytest.raises(SecretUnavailable) as refused:
        await vault("env:A_HIDDEN_VARIABLE").fetch("key")
    assert "HIDDEN" not in str(refused.value)
    assert "1234567" not in str(refused.value)


BAD = ["", "env", "env:", "file:", "file", ":x", "ENV:A", "http://h/x", "vault:x", "Canary-the-secret-itself", "env;A"]


@pytest.mark.parametrize("place", BAD)
def test_an_invalid_location_is_rejected_and_not_shown(place: str):
    with pytest.raises(SettingsInvalid) as refused:
        vault(place)
    assert refused.value.code == "settings_invalid"
    assert "Canary" not in str(refused.value)
    assert "'key'" in str(refused.value)


@given(place=st.text(alphabet=st.characters(blacklist_categories=["Cs"]), min_size=12))
def test_a_setting_that_may_be_the_secret_is_not_shown(place: str):
    assume(not place.startswith(("env:", "file:")))
    with pytest.raises(SettingsInvalid) as refused:
        vault(place)
    assert place not in str(refused.value)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../x", "a" * 65, "ä", "a\n"])
def test_a_reference_is_a_plain_name(name: str):
    with pytest.raises(SettingsInvalid):
        SettingsVault({name: "env:A"}, reference=None)


def test_an_invalid_reference_is_rejected():
    with pytest.raises(SettingsInvalid, match="There is no secret 'other'"):
        SettingsVault({"key": "env:A"}, reference="other")
    with pytest.raises(SettingsInvalid, match="none"):
        SettingsVault({}, reference="key")


def secrets(place: str) -> dict[str, Any]:
    return {"gateway_secrets": {"key": place}, "gateway_secret_ref": "key"}


async def test_invalid_settings_affect_the_admin_side_only(engine: EngineName, tmp_path: Path):
    async with app(engine, tmp_path, **secrets("Canary-secret")) as running:
        with pytest.raises(SettingsInvalid) as refused:
            await running.run("gateway", "Hello.", role="admin")
        assert "Canary" not in str(refused.value)
        assert (await running.run("gateway", "", role="user")).output == "Empty user input."


async def test_a_missing_secret_ends_the_admins_turn_only(engine: EngineName, tmp_path: Path):
    base = make_files(tmp_path)
    async with app(engine, tmp_path, gateway_path=base, **secrets(f"file:{tmp_path}/gone")) as running:
        result = await running.run("gateway", "Who is on call?", role="admin")
        assert (code(result), result.path) == ("secret_unavailable", ("supervisor",))
        assert str(tmp_path) not in str(result.to_json())
        assert (await running.run("gateway", "What do the docs say about refunds?", role="admin")).status == "success"
        assert (await running.run("gateway", "Refunds?", role="user")).status == "success"
