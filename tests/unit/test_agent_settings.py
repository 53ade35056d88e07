"""An agent brings its own settings: from the environment, from `interlock.toml` and from Python, as Interlock's own."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr

from interlock import END, Agent, Capability, Graph, Interlock, Outcome, Settings, Untrusted, node
from interlock.discovery import agent_of
from interlock.doctor import examine
from interlock.engine import EngineName
from interlock.errors import SettingsInvalid, ToolError
from interlock.logs import configure_logging
from interlock.providers.provider import Check, Context, Provider
from interlock.runtime.events import Event
from interlock.runtime.observe import LOGGER
from interlock.settings import AgentSettings, read_settings, unknown_settings

KEY = "an-unlikely-canary"


class Account(BaseModel):
    key: SecretStr | None = None


class ShopSettings(AgentSettings):
    shop_name: Annotated[str, Field(min_length=2)] = "the corner shop"
    shop_days: tuple[str, ...] = ("Monday",)
    shop_key: SecretStr | None = None
    shop_accounts: Annotated[dict[str, list[Account]], Field(default_factory=dict)]


class Shop(Capability, Protocol):
    async def greet(self, text: str) -> str: ...


class CornerShop:
    def __init__(self, settings: ShopSettings) -> None:
        self._settings = settings

    async def greet(self, text: str) -> str:
        if text == "fail":
            raise ToolError(f"refused: {' '.join(keys(self._settings))}")
        LOGGER.warning("greeting with %s", " ".join(keys(self._settings)))
        return f"{self._settings.shop_name} is open on {', '.join(self._settings.shop_days)}. Keys: {' '.join(keys(self._settings))}."


def keys(settings: ShopSettings) -> list[str]:
    accounts = [account.key for found in settings.shop_accounts.values() for account in found]
    return [key.get_secret_value() for key in (settings.shop_key, *accounts) if key is not None]


@dataclass
class State:
    text: Annotated[str, Untrusted]
    answer: Annotated[str, Untrusted] = ""


class Greeted(Outcome):
    answer: Annotated[str, Untrusted]


async def greet(text: str, *, shop: Shop) -> Greeted:
    return Greeted(answer=await shop.greet(text))


async def check_shop(context: Context) -> AsyncIterator[Check]:
    own = context.settings.of(ShopSettings)
    yield Check(what="shop", state="ok", found=f"{own.shop_name} {' '.join(keys(own))}".strip())


graph = Graph("shop", state=State, entry=greet, nodes=[node(greet, goes={Greeted: END})], takes=["text"], gives="answer")
PROVIDER = Provider(capabilities=(Shop,), open=lambda context: CornerShop(context.settings.of(ShopSettings)), check=check_shop)
shop: Agent = replace(agent_of(graph), providers=(PROVIDER,), settings=ShopSettings)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def answer(engine: EngineName, **given: Any) -> str:
    async with Interlock(read_settings(engine=engine, **given)) as app:
        return str((await app.run(shop, "hello")).output)


async def test_a_setting_of_an_agent_comes_from_python_else_the_environment_else_the_file(
    engine: EngineName, here: Path, monkeypatch: pytest.MonkeyPatch
):
    assert await answer(engine) == "the corner shop is open on Monday. Keys: ."
    (here / "interlock.toml").write_text('shop_name = "from the file"\nshop_days = ["Friday"]\nmodel = "stub"\n')
    assert await answer(engine) == "from the file is open on Friday. Keys: ."
    monkeypatch.setenv("INTERLOCK_SHOP_NAME", "from the environment")
    monkeypatch.setenv("INTERLOCK_SHOP_DAYS", '["Tuesday", "Sunday"]')
    assert await answer(engine) == "from the environment is open on Tuesday, Sunday. Keys: ."
    assert await answer(engine, shop_name="from Python") == "from Python is open on Tuesday, Sunday. Keys: ."
    assert read_settings(shop_name="from Python").model == "stub"  # the file has settings of both


def test_settings_are_read_once_and_again_where_a_copy_has_others(monkeypatch: pytest.MonkeyPatch):
    settings = Settings()
    assert settings.of(ShopSettings).shop_name == "the corner shop"
    monkeypatch.setenv("INTERLOCK_SHOP_NAME", "too late")
    assert settings.of(ShopSettings).shop_name == "the corner shop"
    assert settings.model_copy(update={"shop_name": "another"}).of(ShopSettings).shop_name == "another"


def test_isolated_settings_read_neither_the_environment_nor_the_file(here: Path, monkeypatch: pytest.MonkeyPatch):
    (here / "interlock.toml").write_text('shop_days = ["Friday"]\nmodel = "stub"\n')
    monkeypatch.setenv("INTERLOCK_SHOP_NAME", "from the environment")
    isolated = Settings.isolated(shop_key=SecretStr(KEY))
    own = isolated.of(ShopSettings)
    assert (isolated.model, own.shop_name, own.shop_days) == ("offline", "the corner shop", ("Monday",))
    assert set(isolated.secrets) == {KEY}


@pytest.mark.parametrize("wrong", ["shop_nam", "modle", "gateway_keyword"])
def test_a_name_that_is_no_setting_is_refused_in_the_file_and_in_python(here: Path, wrong: str):
    with pytest.raises(SettingsInvalid, match=f"'{wrong}' is not a setting; '{wrong[:3]}.*' is one"):
        read_settings(**{wrong: "x"})
    (here / "interlock.toml").write_text(f'{wrong} = "x"\n')
    with pytest.raises(SettingsInvalid, match=f"'{wrong}' is not a setting"):
        read_settings()


def test_settings_of_installed_agents_are_known_before_the_agents_are_loaded():
    assert unknown_settings(["gateway_path", "analyst_window", "sales_tools", "model", "shop_key", "nonsense"]) == ["nonsense"]


async def test_a_bad_value_is_named_when_the_agent_is_used_and_does_not_keep_others_from_running(
    engine: EngineName, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("INTERLOCK_SHOP_NAME", "x")
    async with Interlock(Settings(engine=engine)) as app:
        assert (await app.run("sam", "hello")).status == "success"
        with pytest.raises(SettingsInvalid, match="'shop_name': String should have at least 2 characters"):
            await app.run(shop, "hello")
    with pytest.raises(SettingsInvalid, match="'shop_name'"):
        read_settings(shop_name="y")  # at once, where it is passed


def test_an_agent_cannot_declare_a_setting_of_interlock():
    with pytest.raises(SettingsInvalid, match="'Greedy' declares 'model_api_key', which is a setting of Interlock"):

        class Greedy(AgentSettings):  # pyright: ignore[reportUnusedClass]
            model_api_key: SecretStr | None = None


# Secrets


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """What is logged to standard error, as the command line sets it up."""
    root = logging.getLogger()
    before, level = root.handlers[:], LOGGER.level
    yield lambda: capsys.readouterr().err
    root.handlers[:] = before
    LOGGER.setLevel(level)


@pytest.mark.parametrize("text", ["hello", "fail"])
async def test_a_secret_of_an_agent_is_shown_nowhere(
    engine: EngineName, text: str, logged: Callable[[], str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("INTERLOCK_SHOP_KEY", KEY)
    monkeypatch.setenv("INTERLOCK_SHOP_ACCOUNTS", json.dumps({"one": [{"key": f"{KEY}-nested"}]}))
    events: list[Event] = []
    async with Interlock(Settings(engine=engine, log_level="debug")) as app:
        configure_logging("debug", app.redactor)
        result = await app.run(shop, text, on_event=events.append)
    log = logged()
    assert "[redacted]" in json.dumps(events)
    assert KEY not in json.dumps(events)
    assert KEY not in json.dumps(result.to_json())
    assert log.count("on_chain_start")
    assert KEY not in log
    if text == "hello":
        assert "greeting with [redacted]" in log


NESTED: list[Callable[[Any], Any]] = [lambda v: [v], lambda v: {"a": v}, lambda v: {"a": [v]}, lambda v: [[v], {"b": v}]]


@given(st.lists(st.sampled_from(NESTED), max_size=5), st.text("abcdefghijklmnop-", min_size=8, max_size=30))
def test_a_secret_of_a_class_that_no_one_has_listed_is_found_however_it_is_nested(wrappers: list[Callable[[Any], Any]], key: str):
    class NewSettings(AgentSettings):
        quite_new: Any = None

    value: Any = SecretStr(key)
    for wrap in wrappers:
        value = wrap(value)
    app = Interlock(read_settings(quite_new=value))
    assert key in app.settings.secrets
    assert key not in app.redactor.text(f"it is {key}.")
    assert NewSettings in AgentSettings.__subclasses__()  # it lives as long as the test


# The doctor


async def test_the_doctor_has_a_line_for_the_agent_and_what_its_providers_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("INTERLOCK_SHOP_KEY", KEY)
    monkeypatch.setenv("INTERLOCK_SHOP_NAME", "Harrods")
    found = {check.what: check async for check in examine(Settings(data_dir=tmp_path), [shop])}
    assert found["agent shop"].found == "1 graph, 1 node, every contract holds; shop_key = set, shop_name = Harrods"
    assert found["shop"].found == "Harrods [redacted]"
    monkeypatch.setenv("INTERLOCK_SHOP_NAME", "x")
    found = {check.what: check async for check in examine(Settings(data_dir=tmp_path), [shop])}
    assert found["agent shop"].state == "broken"
    assert "shop" not in found


def test_secrets_come_from_files_and_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "interlock_turn_url").write_text("postgresql://user:hunter2@db/shop\n")
    (tmp_path / "interlock_shop_key").write_text(KEY)
    (tmp_path / "another_program").write_text("x")
    monkeypatch.delenv("INTERLOCK_TURN_URL", raising=False)
    monkeypatch.setenv("INTERLOCK_SECRETS_DIR", str(tmp_path))
    read = read_settings()
    assert read.turn_url is not None
    assert read.turn_url.get_secret_value() == "postgresql://user:hunter2@db/shop"
    assert keys(read.of(ShopSettings)) == [KEY]
    monkeypatch.setenv("INTERLOCK_TURN_URL", "memory:")
    assert str((read_settings().turn_url or SecretStr("")).get_secret_value()) == "memory:"
    monkeypatch.setenv("INTERLOCK_SECRETS_DIR", str(tmp_path / "none"))
    with pytest.raises(SettingsInvalid, match="INTERLOCK_SECRETS_DIR"):
        read_settings()
