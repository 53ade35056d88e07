"""LangChain tools, granted as they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.tools import StructuredTool, ToolException, tool

from interlock.capabilities.tools import ToolRequest
from interlock.errors import SettingsInvalid, ToolDenied
from interlock.tools.runner import Tools


@tool
def add(first: int, second: int = 1) -> int:
    """Add two numbers."""
    return first + second


@tool
async def fail(kind: str) -> str:
    """Fail in some way."""
    await asyncio.sleep(0)
    raise {"told": ToolException("The shop is closed."), "lost": ConnectionError("10.0.0.1"), "other": KeyError("secret")}[kind]


async def ran(one: Any, **args: Any) -> Any:
    return await Tools([one], retries=0).run("anybody", ToolRequest(tool=one.name, args=args))


async def test_a_langchain_tool_is_offered_with_its_schema():
    (offered,) = await Tools([add]).offered("analyst")
    assert (offered.name, offered.description) == ("add", "Add two numbers.")
    assert offered.parameters["properties"] == {"first": {"type": "integer"}, "second": {"default": 1, "type": "integer"}}
    assert offered.parameters["required"] == ["first"]


async def test_a_langchain_tool_runs():
    assert (await ran(add, first=2)).result == 3
    assert (await ran(add, first=2, second=5)).result == 7


@pytest.mark.parametrize("args", [{}, {"first": "two"}, {"first": 1, "third": 3}])
async def test_invalid_arguments_are_named(args: dict[str, Any]):
    result = await ran(add, **args)
    assert (result.result, result.code) == (None, "tool_input_invalid")
    assert result.error
    assert "first" in result.error or "third" in result.error


@pytest.mark.parametrize(
    ("kind", "code", "says"),
    [
        ("told", "tool_failed", "The shop is closed."),
        ("lost", "tool_unavailable", "could not connect"),
        ("other", "tool_failed", "KeyError"),
    ],
)
async def test_the_message_of_a_tool_exception_is_returned(kind: str, code: str, says: str):
    result = await ran(fail, kind=kind)
    assert result.code == code
    assert says in result.error
    assert "secret" not in result.error
    assert "10.0.0.1" not in result.error


async def test_a_langchain_tool_without_arguments_runs():
    now = StructuredTool.from_function(func=lambda: "noon", name="now", description="Tell the time.")
    assert (await ran(now)).result == "noon"


async def test_the_list_of_a_specialist_applies_to_langchain_tools():
    tools = Tools([add], allowed={"sales": ("add",)})
    assert (await tools.run("sales", ToolRequest(tool="add", args={"first": 1}))).result == 2
    with pytest.raises(ToolDenied):
        await tools.run("support", ToolRequest(tool="add", args={"first": 1}))
    assert await tools.offered("support") == ()


async def test_an_unknown_tool_is_denied():
    with pytest.raises(ToolDenied):
        await Tools([add]).run("sales", ToolRequest(tool="subtract", args={}))


@pytest.mark.parametrize("wrong", [5, "add", print, object()])
def test_an_object_that_is_not_a_tool_is_rejected(wrong: Any):
    with pytest.raises(SettingsInvalid, match="is not a tool"):
        Tools([wrong])
