from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import subprocess
import sys
import threading
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from interlock.adapters.tools import gateway
from interlock.adapters.tools.functions import FunctionTool
from interlock.adapters.tools.gateway import ALLOWED, MAX_ERROR, MAX_RESULT, Tools, open_tools
from interlock.capabilities.tools import Toolbox, ToolGateway, ToolRequest, ToolResult
from interlock.errors import SettingsInvalid, ToolDenied, ToolError

SECRET = "hunter2"  # noqa: S105 - what no result may show


async def run(tools: Tools, tool: str, specialist: str = "sales", **args: Any) -> ToolResult:
    return await tools.run(specialist, ToolRequest(tool=tool, args=args))


def one(function: Any, *, timeout_s: float = 10) -> Tools:
    return Tools([FunctionTool("it", function)], allowed={"sales": ("it",)}, timeout_s=timeout_s)


async def error_of(tools: Tools, **args: Any) -> str:
    result = await run(tools, "it", **args)
    assert result.result is None
    assert result.error is not None
    assert SECRET not in result.error
    assert "Traceback" not in result.error
    return result.error


# What ships


async def test_sales_and_support_have_their_tools_in_order(tmp_path: Path):
    tools = open_tools(tmp_path)
    box: Toolbox = tools
    way: ToolGateway = tools
    assert box is way
    assert [tool.name for tool in await tools.offered("sales")] == ["inventory.query", "math.evaluate"]
    assert [tool.name for tool in await tools.offered("support")] == ["knowledge_base.search", "math.evaluate"]
    for tool in (*await tools.offered("sales"), *await tools.offered("support")):
        assert tool.description.endswith(".")
        assert tool.parameters["type"] == "object"
        assert tool.parameters["additionalProperties"] is False
        json.dumps(tool.parameters)


async def test_every_tool_that_ships_does_its_work(tmp_path: Path):
    tools = open_tools(tmp_path)
    price = await run(tools, "math.evaluate", expression="3 * 39.90")
    assert price == ToolResult(tool="math.evaluate", result={"expression": "3 * 39.90", "value": "119.7", "exact": True})
    stock: Any = (await run(tools, "inventory.query", query="LMP-1003")).result
    assert stock["products"][0]["stock"] == 0
    help_: Any = (await run(tools, "knowledge_base.search", "support", query="forgot my password")).result
    assert help_["articles"][0]["id"] == "password"
    await tools.aclose()


def test_nothing_is_opened_before_it_is_used(tmp_path: Path):
    began = threading.active_count()
    open_tools(tmp_path / "data", servers={"shop": {"command": ["no-such-command"]}})
    assert threading.active_count() == began
    assert [*tmp_path.iterdir()] == []


IMPORTED = """
import sys, pathlib
from interlock.adapters.tools.gateway import open_tools
open_tools(pathlib.Path("unused"))
print("mcp" in sys.modules, "jsonschema" in sys.modules)
"""


def test_the_sdk_of_mcp_is_not_imported_for_tools_that_are_not_its():
    ended = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert ended.stdout == "False False\n"


def test_one_object_serves_one_event_loop_after_another(tmp_path: Path):
    tools = open_tools(tmp_path)
    results = [asyncio.run(run(tools, "inventory.query", query="LMP-1003")) for _ in range(3)]
    assert results[0].error is None
    assert results[0] == results[1] == results[2]


# Who may


@pytest.mark.parametrize(
    ("specialist", "tool"),
    [
        ("sales", "knowledge_base.search"),
        ("support", "inventory.query"),
        ("nobody", "math.evaluate"),
        ("", "math.evaluate"),
        ("sales", "math"),
        ("sales", "rm"),
        ("sales", ""),
        ("sales", "math.*"),
        ("sales", "MATH.evaluate"),
    ],
)
async def test_a_tool_that_is_not_on_the_list_is_denied(tmp_path: Path, specialist: str, tool: str):
    with pytest.raises(ToolDenied, match="is not on the list of") as caught:
        await run(open_tools(tmp_path), tool, specialist, expression="1")
    assert f"'{tool}'" in str(caught.value)


async def test_a_stranger_is_offered_nothing(tmp_path: Path):
    assert await open_tools(tmp_path).offered("nobody") == ()


async def test_the_list_of_a_specialist_is_what_was_set(tmp_path: Path):
    tools = open_tools(tmp_path, allowed={"sales": ["math.evaluate", "math.evaluate"], "quiet": []})
    assert [tool.name for tool in await tools.offered("sales")] == ["math.evaluate"]
    assert await tools.offered("quiet") == ()
    with pytest.raises(ToolDenied):
        await run(tools, "inventory.query", query="oak")


@pytest.mark.parametrize("name", ["crm.lookup", "math", "math.*", "inventory.*", "shop.*", ""])
def test_a_name_on_a_list_that_is_no_tool_is_found_at_once(tmp_path: Path, name: str):
    with pytest.raises(SettingsInvalid, match="which is no tool") as caught:
        open_tools(tmp_path, allowed={"sales": ("math.evaluate", name)})
    assert f"'{name}'" in str(caught.value)


def about(name: str) -> dict[str, str]:
    """Look a customer up."""
    return {"customer": name}


async def test_a_function_of_ones_own_is_a_tool_and_may_take_the_place_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my_own_tools.py").write_text('def query(query: str) -> list[str]:\n    """Ask the ERP."""\n    return [query]\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    tools = open_tools(
        tmp_path,
        allowed={"sales": ("crm.lookup", "inventory.query")},
        functions={"crm.lookup": about, "inventory.query": "my_own_tools:query"},
    )
    assert (await run(tools, "crm.lookup", name="Ada")).result == {"customer": "Ada"}
    assert (await run(tools, "inventory.query", query="oak")).result == ["oak"]


@pytest.mark.parametrize("name", ["", " ", "a b", "a..b", ".a", "a.", "a" * 65, "a/b", "ä"])
def test_a_tool_has_a_name_that_can_be_written(tmp_path: Path, name: str):
    with pytest.raises(SettingsInvalid, match="cannot be called"):
        open_tools(tmp_path, functions={name: about})


@pytest.mark.parametrize("name", ["math", "inventory", "crm", "a.b", "a b"])
def test_a_server_is_not_called_like_the_beginning_of_a_tool(tmp_path: Path, name: str):
    with pytest.raises(SettingsInvalid, match="cannot be called"):
        open_tools(tmp_path, functions={"crm.lookup": about}, servers={name: {"command": ["x"]}})


def test_who_may_what_is_not_changed_from_outside(tmp_path: Path):
    mine = {"sales": ["math.evaluate"]}
    tools = open_tools(tmp_path, allowed=mine)
    mine["sales"].append("knowledge_base.search")
    mine["hr"] = ["math.evaluate"]
    assert asyncio.run(tools.offered("hr")) == ()
    assert len(asyncio.run(tools.offered("sales"))) == 1
    assert set(ALLOWED) == {"sales", "support"}


# What goes wrong


@pytest.mark.parametrize(
    "args",
    [{}, {"expression": 1}, {"expression": "1", "more": 1}, {"expression": "1" * 300}, {"expression": None}, {"expression": "\ud800"}],
)
async def test_arguments_that_do_not_fit_are_the_error_of_the_result(tmp_path: Path, args: dict[str, Any]):
    result = await open_tools(tmp_path).run("sales", ToolRequest(tool="math.evaluate", args=args))
    assert result.result is None
    assert result.error is not None
    result.error.encode()


async def test_what_a_tool_refuses_and_a_store_that_fails_are_the_error_of_the_result(tmp_path: Path):
    tools = open_tools(tmp_path, catalogue_path=tmp_path / "none.sqlite", knowledge_path=tmp_path / "none")
    assert (await run(tools, "math.evaluate", expression="1 / 0")).error == "Division by zero."
    assert (
        await run(tools, "inventory.query", query="oak")
    ).error == "Catalogue 'none.sqlite' cannot be opened: unable to open database file."
    assert "is not a folder" in str((await run(tools, "knowledge_base.search", "support", query="refund")).error)


async def test_of_an_exception_only_the_kind_is_told_and_the_rest_is_logged(caplog: pytest.LogCaptureFixture):
    def fail() -> str:
        """Fail."""
        raise KeyError(SECRET)

    async def fail_too() -> str:
        """Fail."""
        raise KeyError(SECRET)

    with caplog.at_level(logging.DEBUG, "interlock"):
        assert await error_of(one(fail)) == "'it' failed: KeyError."
        assert await error_of(one(fail_too)) == "'it' failed: KeyError."
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


async def test_a_function_says_itself_what_may_be_told():
    def fail() -> str:
        """Fail."""
        raise ToolError("There is no customer of that name.")

    def deny() -> str:
        """Deny."""
        raise ToolDenied("This customer is locked.")

    assert await error_of(one(fail)) == "There is no customer of that name."
    assert await error_of(one(deny)) == "This customer is locked."  # of the function: it was on the list


@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError(), TimeoutError(SECRET), StopIteration(), BaseExceptionGroup("x", [ValueError()])]
)
async def test_a_function_that_tries_to_end_more_than_itself_only_fails(error: BaseException):
    def fail() -> str:
        """Fail."""
        raise error

    async def fail_too() -> str:
        """Fail."""
        raise error

    assert "failed" in await error_of(one(fail))
    assert "failed" in await error_of(one(fail_too))


async def test_a_tool_that_takes_too_long_is_left():
    ended = threading.Event()

    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    def hang_too() -> str:
        """Hang."""
        ended.wait(10)
        return ""

    assert await error_of(one(hang, timeout_s=0.01)) == "'it' took longer than 0.01 seconds."
    assert await error_of(one(hang_too, timeout_s=0.01)) == "'it' took longer than 0.01 seconds."
    ended.set()


def test_ten_seconds_are_enough_if_nothing_else_is_said(tmp_path: Path):
    assert open_tools(tmp_path)._timeout_s == 10  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


async def test_whoever_leaves_takes_the_tool_along():
    began, left = asyncio.Event(), asyncio.Event()

    async def hang() -> str:
        """Hang."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return ""

    running = asyncio.create_task(run(one(hang), "it"))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert left.is_set()


async def test_tools_run_side_by_side():
    both = asyncio.Barrier(2)

    async def meet() -> str:
        """Meet."""
        await both.wait()
        return "met"

    tools = one(meet)
    results = await asyncio.gather(run(tools, "it"), run(tools, "it"))
    assert [result.result for result in results] == ["met", "met"]


async def test_a_long_error_is_cut():
    def fail() -> str:
        """Fail."""
        raise ToolError("x" * 10_000)

    assert len(await error_of(one(fail))) < MAX_ERROR + 10


async def test_an_error_can_always_be_written():
    def fail() -> str:
        """Fail."""
        raise ToolError("\ud800")

    assert await error_of(one(fail)) == "?"


# What comes out


class Order(BaseModel):
    number: int
    day: date


@dataclasses.dataclass
class Line:
    sku: str
    when: datetime


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (None, None),
        ("text", "text"),
        ({"a": (1, 2), 3: {4}}, {"a": [1, 2], "3": [4]}),
        (Order(number=1, day=date(2026, 5, 4)), {"number": 1, "day": "2026-05-04"}),
        ([Line("A-1", datetime(2026, 5, 4, tzinfo=UTC))], [{"sku": "A-1", "when": "2026-05-04T00:00:00Z"}]),
        (float("nan"), None),
        (b"\xff", "_w=="),
        (Path("a/b"), "a/b"),
    ],
)
async def test_a_result_is_made_into_json(returned: Any, result: Any):
    def give() -> Any:
        """Give."""
        return returned

    made = await run(one(give), "it")
    assert (made.result, made.error) == (result, None)


def endless() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep() -> list[Any]:
    made: list[Any] = []
    for _ in range(100_000):
        made = [made]
    return made


@pytest.mark.parametrize(
    "returned",
    [object(), threading.Lock(), {"a": object()}, "\ud800", {"\ud800": 1}, endless(), deep()],
    ids=lambda value: type(value).__name__,
)
async def test_a_result_that_is_no_json_is_an_error(returned: Any):
    def give() -> Any:
        """Give."""
        return returned

    assert "no JSON data" in await error_of(one(give))


async def test_a_result_that_is_too_large_is_cut_and_says_so():
    async def give(size: int) -> str:
        """Give."""
        return "ü" * size

    tools = one(give)
    fits = await run(tools, "it", size=MAX_RESULT // 2 - 1)
    assert fits.result == "ü" * (MAX_RESULT // 2 - 1)
    cut: Any = (await run(tools, "it", size=5_000_000)).result
    assert cut["cut"] == "The result has 10,000,002 bytes; these are the first 262,144."
    assert len(cut["text"].encode()) in (MAX_RESULT, MAX_RESULT - 1)
    assert gateway.MAX_RESULT == 256 * 1024
