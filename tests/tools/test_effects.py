"""What a tool does outside: as it says itself, as its server says, or as the settings say; unknown is what must not be repeated."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import pytest
from langchain_core.tools import tool as langchain_tool

from interlock import Interlock, Settings
from interlock.capabilities import Effect, Toolbox, ToolGateway, ToolRequest, asks, keyed
from interlock.errors import SettingsInvalid
from interlock.settings import read_settings
from interlock.tools.functions import FunctionTool
from interlock.tools.langchain import LangChainTool
from interlock.tools.runner import Tools, open_tools
from interlock_agents.gateway.workers.deep import WRITING
from interlock_agents.gateway.workers.tools import UpstreamTools

SERVER = {"command": [sys.executable, str(Path(__file__).parent / "annotated_server.py")]}


async def effect(tools: Tools, name: str) -> Effect:
    return await tools.effect_of(ToolRequest(tool=name, args={}))


@asks
def read(what: str) -> str:
    """Read something."""
    return what


@keyed
async def write(what: str, *, idempotency_key: str) -> str:
    """Write something."""
    return f"{what} {idempotency_key}"


def pay(what: str) -> str:
    """Pay for something."""
    return what


class Shelf:
    @asks
    def look(self, what: str) -> str:
        """Look at something."""
        return what

    @asks
    async def __call__(self, what: str) -> str:
        """Look at something."""
        return what


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        (FunctionTool("t", read), "asks"),
        (FunctionTool("t", write), "keyed"),
        (FunctionTool("t", pay), "once"),
        (FunctionTool("t", pay, effect="asks"), "asks"),
        (FunctionTool("t", read, effect="once"), "once"),
        (FunctionTool("t", Shelf().look), "asks"),
        (FunctionTool("t", Shelf()), "asks"),
        (FunctionTool("t", partial(read)), "asks"),
    ],
)
async def test_a_function_has_the_effect_that_it_is_marked_with(tool: FunctionTool, expected: Effect):
    assert await effect(Tools([tool]), "t") == expected


async def test_a_tool_that_does_not_exist_may_do_anything():
    assert await effect(Tools([FunctionTool("t", read)]), "other") == "once"
    assert await effect(Tools([FunctionTool("t", read)]), "other.tool") == "once"


async def test_the_key_of_a_call_is_no_argument_of_the_tool():
    tools = Tools([FunctionTool("write", write)])
    assert (await tools.offered("any"))[0].parameters["properties"] == {"what": {"type": "string"}}
    made = await tools.run("any", ToolRequest(tool="write", args={"what": "x"}), idempotency_key="k")
    assert made.result == "x k"
    refused = await tools.run("any", ToolRequest(tool="write", args={"what": "x", "idempotency_key": "mine"}))
    assert refused.code == "tool_input_invalid"


async def test_a_langchain_tool_must_be_declared():
    @langchain_tool
    def look(what: str) -> str:
        """Look at something."""
        return what

    assert await effect(Tools([look]), "look") == "once"
    assert await effect(Tools([LangChainTool(look, effect="asks")]), "look") == "asks"
    assert await effect(Tools([look], effects={"look": "asks"}), "look") == "asks"


@pytest.fixture
async def served(request: pytest.FixtureRequest) -> AsyncGenerator[Tools]:
    tools = open_tools(servers={"far": SERVER}, effects=getattr(request, "param", None), timeout_s=30)
    yield tools
    await tools.aclose()


async def test_the_annotations_of_a_server_say_what_its_tools_do(served: Tools):
    found = {name: await effect(served, f"far.{name}") for name in ("look", "store", "pay", "silent", "absent")}
    assert found == {"look": "asks", "store": "keyed", "pay": "once", "silent": "once", "absent": "once"}


@pytest.mark.parametrize("served", [{"far.look": "once", "far.*": "asks"}], indirect=True)
async def test_the_settings_win_over_the_annotations(served: Tools):
    assert [await effect(served, f"far.{name}") for name in ("look", "pay")] == ["once", "asks"]


async def test_a_server_that_cannot_be_reached_may_do_anything():
    tools = open_tools(servers={"far": {"command": ["/nonexistent/program"]}})
    assert await effect(tools, "far.look") == "once"
    await tools.aclose()


def test_effects_name_tools_that_exist():
    with pytest.raises(SettingsInvalid, match="'other' has an effect or a policy, but is not a tool"):
        Tools([FunctionTool("t", read)], effects={"other": "asks"})
    with pytest.raises(SettingsInvalid, match="'tool_effects' names 'other'"):
        read_settings(tool_functions={"t": "m:f"}, tool_effects={"other": "asks"})
    with pytest.raises(SettingsInvalid, match="tool_effects"):
        read_settings(tool_functions={"t": "m:f"}, tool_effects={"t": "sometimes"})
    settings = read_settings(
        tool_functions={"t": "m:f"}, tool_servers={"far": {"url": "http://x"}}, tool_effects={"t": "asks", "far.*": "once"}
    )
    assert settings.tool_effects == {"t": "asks", "far.*": "once"}


@pytest.mark.parametrize(("agent", "specialists"), [("analyst", ["analyst"]), ("desk", ["sales", "support"])])
async def test_the_tools_of_analyst_and_desk_only_ask(agent: str, specialists: list[str], tmp_path: Path):
    async with Interlock(Settings(data_dir=tmp_path)) as app:
        box, tools = app.adapter(agent, Toolbox), app.adapter(agent, ToolGateway)
        assert isinstance(tools, Tools)
        found = {tool.name: await effect(tools, tool.name) for who in specialists for tool in await box.offered(who)}
    assert len(found) == 3
    assert set(found.values()) == {"asks"}


async def test_the_file_tools_of_the_gateway_say_which_of_them_only_ask():
    tools = UpstreamTools(redact=lambda value: value)
    found = {name: await tools.effect_of(ToolRequest(tool=name, args={})) for name in (*WRITING, "unknown")}
    assert {name for name, kind in found.items() if kind == "asks"} == {"ls", "read_file", "glob", "grep"}
    assert {name for name, kind in found.items() if kind == "once"} == {"write_file", "edit_file", "delete", "unknown"}
