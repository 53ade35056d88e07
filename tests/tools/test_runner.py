from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import subprocess
import sys
import threading
import time
import tracemalloc
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from interlock.capabilities.tools import Toolbox, ToolGateway, ToolRequest, ToolResult
from interlock.errors import (
    CapabilityTimeout,
    NodeFailed,
    QueryDenied,
    QueryTimeout,
    SettingsInvalid,
    StoreCorrupt,
    StoreUnavailable,
    ToolDenied,
    ToolError,
    ToolInputInvalid,
    ToolTimeout,
    ToolUnavailable,
)
from interlock.runtime.redaction import REDACTED, Redactor
from interlock.tools import runner
from interlock.tools.failure import ToolFailure
from interlock.tools.functions import FunctionTool
from interlock.tools.runner import MAX_ERROR, MAX_RESULT, Tools
from tests.support.shop import ALLOWED, open_tools

SECRET = "hunter2"  # noqa: S105 - what no result may show


async def run(tools: Tools, tool: str, specialist: str = "sales", **args: Any) -> ToolResult:
    return await tools.run(specialist, ToolRequest(tool=tool, args=args))


def one(function: Any, **options: Any) -> Tools:
    given: dict[str, Any] = {"backoff_s": 0, **options}
    return Tools([FunctionTool("it", function)], allowed={"sales": ("it",)}, **given)


async def error_of(tools: Tools, **args: Any) -> str:
    result = await run(tools, "it", **args)
    assert result.result is None
    assert result.error is not None
    assert SECRET not in result.error
    assert "Traceback" not in result.error
    return result.error


# What ships


async def test_the_specialists_of_desk_have_their_tools_in_order(tmp_path: Path):
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


async def test_every_bundled_tool_runs(tmp_path: Path):
    tools = open_tools(tmp_path)
    price = await run(tools, "math.evaluate", expression="3 * 39.90")
    assert price == ToolResult(tool="math.evaluate", result={"expression": "3 * 39.90", "value": "119.7", "exact": True})
    stock: Any = (await run(tools, "inventory.query", query="LMP-1003")).result
    assert stock["products"][0]["stock"] == 0
    help_: Any = (await run(tools, "knowledge_base.search", "support", query="forgot my password")).result
    assert help_["articles"][0]["id"] == "password"
    await tools.aclose()


async def test_analyst_has_search_calculation_and_a_warehouse(tmp_path: Path):
    def ask(sql: str) -> list[str]:
        """Ask the warehouse."""
        return [sql]

    assert [tool.name for tool in await open_tools(tmp_path).offered("analyst")] == ["search", "calculate"]
    tools = open_tools(tmp_path, extra=[FunctionTool("bq_query", ask)])
    assert [tool.name for tool in await tools.offered("analyst")] == ["bq_query", "search", "calculate"]
    assert (await run(tools, "bq_query", "analyst", sql="SELECT 1")).result == ["SELECT 1"]
    value: Any = (await run(tools, "calculate", "analyst", expression="3 * 39.90")).result
    assert value == (await run(tools, "math.evaluate", expression="3 * 39.90")).result
    found: Any = (await run(tools, "search", "analyst", query="net revenue")).result
    assert (set(found), found["documents"][0]["id"]) == ({"query", "count", "documents"}, "net-revenue")
    with pytest.raises(SettingsInvalid, match="'analyst' may use 'bq_query', which is not a tool"):
        open_tools(tmp_path, allowed=ALLOWED)


async def test_configured_functions_replace_bundled_tools(tmp_path: Path):
    def theirs(query: str) -> str:
        """Search."""
        return "theirs"

    def mine(sql: str) -> str:
        """Ask."""
        return "mine"

    further = [FunctionTool("bq_query", theirs), FunctionTool("search", theirs)]
    tools = open_tools(tmp_path, extra=further, functions={"bq_query": mine})
    assert (await run(tools, "search", "analyst", query="x")).result == "theirs"
    assert (await run(tools, "bq_query", "analyst", sql="x")).result == "mine"


def test_opening_tools_opens_no_file(tmp_path: Path):
    began = set(threading.enumerate())
    open_tools(tmp_path / "data", servers={"shop": {"command": ["no-such-command"]}})
    assert set(threading.enumerate()) <= began
    assert [*tmp_path.iterdir()] == []


IMPORTED = """
import sys, pathlib
from interlock.tools.runner import open_tools
open_tools()
print("mcp" in sys.modules, "jsonschema" in sys.modules)
"""


def test_the_mcp_sdk_is_imported_only_for_mcp_servers():
    ended = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert ended.stdout == "False False\n"


def test_one_object_serves_several_event_loops(tmp_path: Path):
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
async def test_a_tool_outside_the_list_is_denied(tmp_path: Path, specialist: str, tool: str):
    with pytest.raises(ToolDenied, match="is not on the list of") as caught:
        await run(open_tools(tmp_path), tool, specialist, expression="1")
    assert f"'{tool}'" in str(caught.value)


@pytest.mark.parametrize("tool", ["\ud800", "a\x00b", "x" * 10_000_000, "shop." + "x" * 10_000_000])
async def test_any_unknown_name_is_denied_with_a_printable_message(tmp_path: Path, tool: str):
    with pytest.raises(ToolDenied, match="is not on the list of 'sales'") as caught:
        await run(open_tools(tmp_path), tool)
    assert len(str(caught.value).encode()) < 300


async def test_an_unknown_specialist_is_offered_no_tools(tmp_path: Path):
    assert await open_tools(tmp_path).offered("nobody") == ()


async def test_the_list_of_a_specialist_is_as_configured(tmp_path: Path):
    tools = open_tools(tmp_path, allowed={"sales": ["math.evaluate", "math.evaluate"], "quiet": []})
    assert [tool.name for tool in await tools.offered("sales")] == ["math.evaluate"]
    assert await tools.offered("quiet") == ()
    with pytest.raises(ToolDenied):
        await run(tools, "inventory.query", query="oak")


@pytest.mark.parametrize("name", ["crm.lookup", "math", "math.*", "inventory.*", "shop.*", ""])
def test_an_unknown_name_on_a_list_is_rejected_at_once(tmp_path: Path, name: str):
    with pytest.raises(SettingsInvalid, match="which is not a tool") as caught:
        open_tools(tmp_path, allowed={"sales": ("math.evaluate", name)})
    assert f"'{name}'" in str(caught.value)


def about(name: str) -> dict[str, str]:
    """Look a customer up."""
    return {"customer": name}


async def test_a_configured_function_may_replace_a_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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
def test_an_invalid_tool_name_is_rejected(tmp_path: Path, name: str):
    with pytest.raises(SettingsInvalid, match="cannot be called"):
        open_tools(tmp_path, functions={name: about})


@pytest.mark.parametrize("name", ["math", "inventory", "crm", "a.b", "a b"])
def test_a_server_name_must_not_be_the_prefix_of_a_tool(tmp_path: Path, name: str):
    with pytest.raises(SettingsInvalid, match="cannot be called"):
        open_tools(tmp_path, functions={"crm.lookup": about}, servers={name: {"command": ["x"]}})


def test_the_lists_are_copied(tmp_path: Path):
    mine = {"sales": ["math.evaluate"]}
    tools = open_tools(tmp_path, allowed=mine)
    mine["sales"].append("knowledge_base.search")
    mine["hr"] = ["math.evaluate"]
    assert asyncio.run(tools.offered("hr")) == ()
    assert len(asyncio.run(tools.offered("sales"))) == 1
    assert set(ALLOWED) == {"sales", "support", "analyst"}


# What goes wrong


@pytest.mark.parametrize(
    "args",
    [{}, {"expression": 1}, {"expression": "1", "more": 1}, {"expression": "1" * 300}, {"expression": None}, {"expression": "\ud800"}],
)
async def test_invalid_arguments_are_the_error_of_the_result(tmp_path: Path, args: dict[str, Any]):
    result = await open_tools(tmp_path).run("sales", ToolRequest(tool="math.evaluate", args=args))
    assert result.result is None
    assert result.error is not None
    assert result.code == "tool_input_invalid"
    result.error.encode()


@pytest.mark.parametrize("tool", ["inventory.query", "knowledge_base.search", "math.evaluate", "search", "calculate"])
@pytest.mark.parametrize("text", ["\ud800", "\x00", "desk\x00", "x" * 10_000_000, "(" * 150])
async def test_any_text_has_a_result_or_a_typed_error(tmp_path: Path, tool: str, text: str):
    tools = open_tools(tmp_path, allowed={"sales": (tool,)})
    (offered,) = await tools.offered("sales")
    (name,) = cast("list[str]", offered.parameters["required"])
    every: list[dict[str, Any]] = [{name: text}, {text: "x"}, {name: "x", "more": text}]
    for args in every:
        result = await tools.run("sales", ToolRequest(tool=tool, args=args))
        assert (result.error is None) == (result.code is None)
        assert result.code in (None, "tool_input_invalid", "tool_failed")
        assert len(str(result.error).encode()) < 2 * MAX_ERROR


CODES = [
    (ToolError, "tool_failed"),
    (ToolFailure, "tool_failed"),
    (KeyError, "tool_failed"),
    (TimeoutError, "tool_failed"),
    (SystemExit, "tool_failed"),
    (NodeFailed, "tool_failed"),  # of a turn, not of a tool
    (ToolDenied, "tool_denied"),
    (ToolInputInvalid, "tool_input_invalid"),
    (ToolTimeout, "tool_timeout"),
    (ToolUnavailable, "tool_unavailable"),
    (ConnectionRefusedError, "tool_unavailable"),
    (QueryDenied, "query_denied"),
    (QueryTimeout, "query_timeout"),
    (StoreUnavailable, "store_unavailable"),
    (StoreCorrupt, "store_corrupt"),
    (CapabilityTimeout, "capability_timeout"),
]


@pytest.mark.parametrize(("error", "code"), CODES)
async def test_an_error_has_its_code(error: type[BaseException], code: str):
    def fail() -> str:
        """Fail."""
        raise error("It does not work.")

    async def fail_too() -> str:
        """Fail."""
        raise error("It does not work.")

    for function in (fail, fail_too):
        result = await run(one(function), "it")
        assert (result.result, result.code) == (None, code)
        assert result.error is not None


async def test_capability_errors_are_the_error_of_the_result(tmp_path: Path):
    none = tmp_path / "none"
    tools = open_tools(tmp_path, catalogue_path=tmp_path / "none.sqlite", knowledge_path=none, documents_path=none, retries=0)
    divided = await run(tools, "math.evaluate", expression="1 / 0")
    assert (divided.error, divided.code) == ("Division by zero.", "tool_failed")
    stock = await run(tools, "inventory.query", query="oak")
    assert (stock.error, stock.code) == ("Catalogue 'none.sqlite' cannot be opened: unable to open database file.", "store_unavailable")
    for tool, specialist, what in (("knowledge_base.search", "support", "Knowledge base"), ("search", "analyst", "Document folder")):
        found = await run(tools, tool, specialist, query="refund")
        assert (found.error, found.code) == (
            f"{what} 'none' is not a folder. Name one with Markdown files in it.",
            "store_unavailable",
        )


async def test_only_the_class_of_an_unknown_exception_is_reported(caplog: pytest.LogCaptureFixture):
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


async def test_the_message_of_a_tool_error_is_reported():
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
async def test_system_exit_and_cancellation_of_a_function_are_errors(error: BaseException):
    def fail() -> str:
        """Fail."""
        raise error

    async def fail_too() -> str:
        """Fail."""
        raise error

    assert "failed" in await error_of(one(fail))
    assert "failed" in await error_of(one(fail_too))


async def test_a_tool_that_takes_too_long_times_out():
    ended = threading.Event()

    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    def hang_too() -> str:
        """Hang."""
        ended.wait(10)
        return ""

    for function in (hang, hang_too):
        late = await run(one(function, timeout_s=0.01), "it")
        assert late == ToolResult(tool="it", error="'it' took longer than 0.01 seconds.", code="tool_timeout")
    ended.set()


def test_the_default_timeout_is_ten_seconds(tmp_path: Path):
    assert open_tools(tmp_path)._timeout_s == 10  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


async def test_cancelling_the_caller_cancels_the_tool():
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


async def test_tools_run_concurrently():
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


async def test_an_error_is_always_valid_unicode():
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
async def test_a_result_is_converted_to_json(returned: Any, result: Any):
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
async def test_a_result_that_is_not_json_is_an_error(returned: Any):
    def give() -> Any:
        """Give."""
        return returned

    result = await run(one(give), "it")
    assert (result.result, result.code) == (None, "tool_failed")
    assert "not JSON data" in str(result.error)


async def test_a_result_over_the_limit_is_cut_and_marked():
    async def give(size: int) -> str:
        """Give."""
        return "ü" * size

    tools = one(give)
    fits = await run(tools, "it", size=MAX_RESULT // 2 - 1)
    assert fits.result == "ü" * (MAX_RESULT // 2 - 1)
    cut: Any = (await run(tools, "it", size=5_000_000)).result
    assert cut["cut"] == "The result has 10,000,002 bytes; these are the first 262,144."
    assert len(cut["text"].encode()) in (MAX_RESULT, MAX_RESULT - 1)
    assert runner.MAX_RESULT == 256 * 1024


SIZE = 10_000_000


@pytest.mark.parametrize("kind", ["text", "rows"])
async def test_ten_megabytes_are_cut_in_bounded_time(kind: str):
    def give() -> Any:
        """Give."""
        return "x" * SIZE if kind == "text" else [{"number": n, "note": f"a note\nof customer {n}"} for n in range(SIZE // 60)]

    tools = one(give, redact=Redactor(["sk-[a-z]{16,}"], literals=[SECRET]).data, timeout_s=60)
    began = time.process_time()
    cut: Any = (await run(tools, "it")).result
    assert time.process_time() - began < 10
    assert set(cut) == {"cut", "text"}
    assert len(cut["text"]) <= MAX_RESULT


async def test_redacting_a_large_result_does_not_block_the_event_loop():
    loop, others = asyncio.get_running_loop(), threading.Event()

    def give() -> str:
        """Give."""
        return "x" * SIZE

    def redact(data: Any) -> Any:
        loop.call_soon_threadsafe(others.set)
        return f"others went on: {others.wait(5)}"

    assert (await run(one(give, redact=redact), "it")).result == "others went on: True"


def test_ten_megabytes_need_bounded_memory():
    def give() -> str:
        """Give."""
        return "x" * SIZE

    tracemalloc.start()
    try:
        result = asyncio.run(run(one(give, redact=Redactor(literals=[SECRET]).data), "it"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert result.error is None
    assert peak < 6 * SIZE


# What may be seen of it


KEY = f"sk-{'k' * 40}"


def hiding(function: Any, **options: Any) -> Tools:
    return one(function, redact=Redactor([r"sk-[A-Za-z0-9_-]{16,}"], literals=[SECRET]).data, **options)


async def test_secrets_anywhere_in_a_result_are_redacted():
    kept = {"key": KEY, KEY: 1, "list": [f"before {KEY} after", {"deep": SECRET}], "plain": "text"}

    def give() -> Any:
        """Give."""
        return kept

    result: Any = (await run(hiding(give), "it")).result
    assert result == {"key": REDACTED, REDACTED: 1, "list": [f"before {REDACTED} after", {"deep": REDACTED}], "plain": "text"}
    assert kept["key"] == KEY, "what the tool keeps is its own"


@dataclasses.dataclass
class Account:
    file: Path
    key: str


async def test_secrets_in_converted_objects_are_redacted():
    def give() -> Account:
        """Give."""
        return Account(file=Path("keys") / SECRET, key=KEY)

    assert (await run(hiding(give), "it")).result == {"file": f"keys/{REDACTED}", "key": REDACTED}


@pytest.mark.parametrize("kind", [ToolError, ToolFailure, ToolInputInvalid, StoreUnavailable, ToolDenied])
async def test_secrets_in_errors_are_redacted(kind: type[Exception]):
    def fail() -> str:
        """Fail."""
        raise kind(f"The key {KEY} of {SECRET} is wrong.")

    result = await run(hiding(fail, retries=0), "it")
    assert result.error == f"The key {REDACTED} of {REDACTED} is wrong."


async def test_secrets_in_names_of_tools_and_arguments_are_redacted():
    tools = hiding(about)
    unknown: dict[str, Any] = {"name": "Ada", KEY: 1}
    assert (await run(tools, "it", **unknown)).error == f"Argument '{REDACTED}' is unknown."
    with pytest.raises(ToolDenied) as caught:
        await run(tools, f"it.{KEY}")
    assert KEY not in str(caught.value)
    with pytest.raises(ToolDenied) as caught:
        await run(tools, "x" * 180 + KEY)
    assert "sk-k" not in str(caught.value)


async def test_secrets_next_to_invalid_characters_are_redacted():
    def fail() -> str:
        """Fail."""
        raise ToolError(f"\ud800 {KEY}")

    assert (await run(hiding(fail), "it")).error == f"? {REDACTED}"


@given(st.integers(-60, 20), st.sampled_from(["result", "list", "error"]))
@settings(max_examples=60, deadline=None)
def test_a_secret_at_the_cut_is_redacted_completely(shift: int, where: str):
    before = "." * ((MAX_ERROR if where == "error" else MAX_RESULT) + shift)

    def give() -> Any:
        """Give."""
        if where == "error":
            raise ToolError(f"{before}{KEY}")
        return [before, KEY] if where == "list" else f"{before}{KEY}{before}"

    result = asyncio.run(run(hiding(give), "it"))
    assert "kkk" not in json.dumps(dataclasses.asdict(result))
    assert "cut" in json.dumps(dataclasses.asdict(result)) or shift < 0


async def test_a_message_that_cannot_be_redacted_is_not_shown():
    def give() -> str:
        """Give."""
        return SECRET

    def fail() -> str:
        """Fail."""
        raise ToolError(SECRET)

    def broken(_: Any) -> Any:
        raise LookupError(SECRET)

    given = await run(one(give, redact=broken), "it")
    assert (given.result, given.code) == (None, "tool_failed")
    assert SECRET not in str(given.error)
    failed = await run(one(fail, redact=broken), "it")
    assert (failed.error, failed.code) == ("The message of the tool is not shown, because it could not be redacted.", "tool_failed")
    denied = one(give, redact=broken)
    with pytest.raises(ToolDenied):
        await run(denied, SECRET)


async def test_without_a_redactor_nothing_is_changed(tmp_path: Path):
    tools = open_tools(tmp_path, functions={"it": about}, allowed={"sales": ("it",)})
    assert (await run(tools, "it", name=KEY)).result == {"customer": KEY}
    tools = open_tools(tmp_path, functions={"it": about}, allowed={"sales": ("it",)}, redact=Redactor(literals=[KEY]).data)
    assert (await run(tools, "it", name=KEY)).result == {"customer": REDACTED}


# Side by side


@pytest.mark.parametrize("is_async", [True, False])
async def test_ten_concurrent_tools_take_hardly_longer_than_one(is_async: bool):  # noqa: FBT001 - pytest passes it
    one_takes = 0.1

    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(one_takes)
        return "done"

    def wait_too() -> str:
        """Wait."""
        time.sleep(one_takes)
        return "done"

    tools = one(wait if is_async else wait_too)
    took = list[float]()
    while len(took) < 10 and min(took, default=1) > 1.5 * one_takes:  # the machine may be busy with something else
        began = time.perf_counter()
        results = await asyncio.gather(*(run(tools, "it") for _ in range(10)))
        took.append(time.perf_counter() - began)
        assert [result.result for result in results] == ["done"] * 10
    assert min(took) < 1.5 * one_takes


async def test_a_hanging_tool_does_not_delay_others():
    release = threading.Event()

    def hang() -> str:
        """Hang."""
        release.wait(10)
        return ""

    def answer() -> str:
        """Answer."""
        return "here"

    tools = Tools([FunctionTool("hang", hang), FunctionTool("it", answer)], allowed={"sales": ("hang", "it")}, timeout_s=1)
    try:
        *hung, answered = await asyncio.gather(*(run(tools, "hang") for _ in range(20)), run(tools, "it"))
    finally:
        release.set()
    assert {result.code for result in hung} == {"tool_timeout"}
    assert answered.result == "here"
