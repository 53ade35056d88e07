from __future__ import annotations

import asyncio
import contextvars
import enum
import functools
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext, suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from interlock.errors import SettingsInvalid, ToolInputInvalid, ToolUnavailable
from interlock.tools.functions import MAX_THREADS, FunctionTool, load_function
from interlock.tools.threads import Threads


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    city: str


def book(day: date, seats: Annotated[int, Field(ge=1, description="how many")] = 1, *, size: Size = Size.SMALL) -> str:
    """Book a table.

    More that a model need not know.
    """
    return f"{day!r} {seats} {size.name}"


def test_the_description_and_schema_come_from_the_function():
    tool = FunctionTool("table.book", book).tool
    assert (tool.name, tool.description) == ("table.book", "Book a table.")
    assert tool.parameters["required"] == ["day"]
    assert tool.parameters["additionalProperties"] is False
    properties: Any = tool.parameters["properties"]
    assert properties["day"] == {"type": "string", "format": "date"}
    assert properties["seats"] == {"type": "integer", "minimum": 1, "default": 1, "description": "how many"}
    assert "title" not in tool.parameters


async def test_arguments_are_converted_to_the_types_of_the_hints():
    tool = FunctionTool("table.book", book)
    assert await tool.run({"day": "2026-05-04", "size": "large"}) == "datetime.date(2026, 5, 4) 1 LARGE"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({}, "Argument 'day' is missing."),
        ({"day": "2026-05-04", "colour": "red"}, "Argument 'colour' is unknown."),
        ({"day": "soon"}, "Argument 'day' is invalid"),
        ({"day": "2026-05-04", "seats": "2"}, "Argument 'seats' is invalid: Input should be a valid integer."),
        ({"day": "2026-05-04", "seats": 0}, "Argument 'seats' is invalid"),
        ({"day": "2026-05-04", "seats": True}, "Argument 'seats' is invalid"),
        ({"day": "2026-05-04", "size": "huge"}, "Argument 'size' is invalid"),
        ({"day": "\ud800"}, "not JSON data"),
    ],
)
async def test_invalid_arguments_are_rejected_before_the_call(args: dict[str, Any], sentence: str):
    ran = list[str]()

    @functools.wraps(book)
    def noting(*given: Any, **named: Any) -> str:
        ran.append("")
        return book(*given, **named)

    with pytest.raises(ToolInputInvalid) as caught:
        await FunctionTool("table.book", noting).run(args)
    assert sentence in str(caught.value)
    assert ran == []


async def test_errors_do_not_quote_the_arguments():
    def sign_in(pin: Annotated[int, Field(lt=10000)]) -> str:
        """Sign in."""
        return str(pin)

    for secret in ("hunter2", 123456789):
        with pytest.raises(ToolInputInvalid) as caught:
            await FunctionTool("sign_in", sign_in).run({"pin": secret})
        assert str(secret) not in str(caught.value)


async def test_infinite_numbers_are_rejected():
    def half(amount: float) -> float:
        """Halve."""
        return amount / 2

    tool = FunctionTool("half", half)
    assert await tool.run({"amount": 3}) == 1.5
    for amount in (float("nan"), float("inf")):
        with pytest.raises(ToolInputInvalid):
            await tool.run({"amount": amount})


async def test_arguments_that_contain_themselves_are_rejected():
    def take(data: list[Any]) -> int:
        """Take."""
        return len(data)

    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(ToolInputInvalid):
        await FunctionTool("take", take).run({"data": deep})


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["day", "seats", "size", "x", ""]) | st.text(max_size=5), json_data))
def test_arguments_are_accepted_or_rejected_with_a_typed_error(args: dict[str, Any]):
    with suppress(ToolInputInvalid):
        asyncio.run(FunctionTool("table.book", book).run(args))


@pytest.mark.parametrize(
    ("text", "is_measured", "is_taken"), [("\ud800", False, False), ("a\x00b", True, True), ("x" * 10_000_000, False, True)]
)
async def test_any_text_is_accepted_or_rejected_with_a_typed_error(text: str, is_measured: bool, is_taken: bool):  # noqa: FBT001 - pytest passes it
    def measure(text: Annotated[str, Field(max_length=1000)]) -> int:
        """Measure a text."""
        return len(text)

    def take(text: str) -> int:
        """Take any text."""
        return len(text)

    for function, fits in ((measure, is_measured), (take, is_taken)):
        tool = FunctionTool("it", function)
        with nullcontext() if fits else pytest.raises(ToolInputInvalid):
            assert await tool.run({"text": text}) == len(text)
        with pytest.raises(ToolInputInvalid):
            await tool.run({text: "x"})


async def test_a_description_can_be_passed():
    tool = FunctionTool("table.book", book, description="Reserve a seat.").tool
    assert (tool.description, tool.parameters["required"]) == ("Reserve a seat.", ["day"])
    assert FunctionTool("it", silent, description="Say it.").tool.description == "Say it."


@pytest.mark.parametrize("error", [ConnectionError, ConnectionRefusedError, ConnectionResetError, BrokenPipeError])
async def test_a_connection_error_is_transient(error: type[ConnectionError]):
    def call() -> str:
        """Call."""
        raise error("hunter2")

    async def call_too() -> str:
        """Call."""
        raise error("hunter2")

    def call_later() -> Any:
        """Call."""
        return call_too()

    for function in (call, call_too, call_later):
        with pytest.raises(ToolUnavailable) as caught:
            await FunctionTool("crm.find", function).run({})
        assert str(caught.value) == f"'crm.find' could not connect to a service: {error.__name__}."


async def test_parameters_may_have_names_that_pydantic_reserves():
    def look(schema: str, json: int, model_config: str = "c", copy: Literal["a", "b"] = "a", validate: tuple[int, ...] = ()) -> str:
        """Look."""
        return f"{schema}{json}{model_config}{copy}{validate}"

    tool = FunctionTool("look", look)
    assert await tool.run({"schema": "s", "json": 1, "validate": [1, 2]}) == "s1ca(1, 2)"


async def test_models_and_decimals_are_parsed_from_json():
    def send(to: Address, price: Decimal, via: list[str] | None = None) -> str:
        """Send."""
        return f"{to.city} {price} {via}"

    assert await FunctionTool("send", send).run({"to": {"city": "Bern"}, "price": "1.10"}) == "Bern 1.10 None"


class Counter:
    """Counts."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, by: int = 1) -> int:
        """Count up."""
        self.count += by
        return self.count

    async def __call__(self, by: int) -> int:
        """Count at once."""
        return self.add(by)


async def test_methods_callable_objects_and_partials_are_accepted():
    counter = Counter()
    assert await FunctionTool("count", counter.add).run({}) == 1
    assert await FunctionTool("count", counter).run({"by": 2}) == 3
    assert FunctionTool("count", counter).tool.description == "Count at once."
    assert await FunctionTool("count", functools.partial(book, date(2026, 1, 1))).run({"seats": 4}) == "datetime.date(2026, 1, 1) 4 SMALL"


async def test_a_synchronous_function_runs_in_a_thread_with_the_context():
    name = contextvars.ContextVar("name", default="nobody")
    name.set("caller")

    def where() -> tuple[bool, str]:
        """Tell where it runs."""
        return threading.current_thread() is threading.main_thread(), name.get()

    async def here() -> tuple[bool, str]:
        """Tell where it runs."""
        return where()

    assert await FunctionTool("where", where).run({}) == (False, "caller")
    assert await FunctionTool("here", here).run({}) == (True, "caller")


async def test_a_returned_coroutine_is_awaited():
    async def inner() -> int:
        return 7

    def outer() -> Any:
        """Return a coroutine."""
        return inner()

    assert await FunctionTool("outer", outer).run({}) == 7


def untyped(day: str) -> str:
    """Do it."""
    return day


del untyped.__annotations__["day"]


def many(*days: str) -> str:
    """Do it."""
    return str(days)


def named(**days: str) -> str:
    """Do it."""
    return str(days)


def positional(day: str, /) -> str:
    """Do it."""
    return day


def silent(day: str) -> str:
    return day


def strange(day: threading.Lock) -> str:
    """Do it."""
    return str(day)


def called(day: str) -> str:
    """Do it."""
    return day


called.__annotations__["day"] = "NoSuchType"


def back(day: functools.partial[str]) -> str:
    """Do it."""
    return str(day)


@pytest.mark.parametrize(
    ("function", "fix"),
    [
        (untyped, "parameter 'day' has no type hint. Write 'day: str'"),
        (many, "can be passed by name"),
        (named, "can be passed by name"),
        (positional, "can be passed by name"),
        (silent, "no docstring. Write one"),
        (strange, "type hint that cannot be"),
        (called, "type hint that cannot be resolved"),
        (back, "type hint that"),
        (Counter, "not a function"),
        (7, "not a function"),
    ],
)
def test_an_unusable_function_is_rejected_with_a_fix(function: Any, fix: str):
    with pytest.raises(SettingsInvalid) as caught:
        FunctionTool("crm.lookup", function)
    assert "'crm.lookup'" in str(caught.value)
    assert fix in str(caught.value)
    assert str(caught.value).endswith(".")


CRM = '''
class Crm:
    @staticmethod
    def find(name: str) -> str:
        """Find a customer."""
        return name

find = Crm.find
'''


def test_a_function_is_loaded_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    (tmp_path / "my_crm_tools.py").write_text(CRM)
    assert load_function("crm.find", "my_crm_tools:find").tool.description == "Find a customer."
    assert load_function("crm.find", "my_crm_tools:Crm.find").tool.description == "Find a customer."
    assert load_function("crm.find", book).tool.name == "crm.find"
    (tmp_path / "my_leaving_tools.py").write_text("raise SystemExit(3)")
    for target, says in (
        ("my_crm_tools", "Write MODULE:FUNCTION"),
        (":find", "Write MODULE:FUNCTION"),
        ("my_crm_tools:lost", "AttributeError"),
        ("no_such_module:f", "ModuleNotFoundError"),
        ("my_leaving_tools:f", "SystemExit"),
    ):
        with pytest.raises(SettingsInvalid, match=says):
            load_function("crm.find", target)


# Threads


@asynccontextmanager
async def held(threads: Threads, count: int) -> AsyncGenerator[threading.Event, None]:
    """Keep some threads busy."""
    release, busy = threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        busy.release()
        assert release.wait(10)

    tasks = [asyncio.create_task(threads.run(hold)) for _ in range(count)]
    for _ in tasks:
        await asyncio.to_thread(busy.acquire)
    try:
        yield release
    finally:
        release.set()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_at_most_at_once_functions_run_concurrently():
    threads, done = Threads(2), list[int]()
    async with held(threads, 2) as release:
        waiting = asyncio.create_task(threads.run(lambda: done.append(1)))
        await asyncio.sleep(0)
        assert done == []
        release.set()
        await waiting
    assert done == [1]


async def test_each_function_has_its_own_threads():
    release, began = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        """Hang."""
        began.release()
        assert release.wait(10)

    def answer() -> str:
        """Answer."""
        return "here"

    hanging, other = FunctionTool("hang", hang), FunctionTool("answer", answer)
    tasks = [asyncio.create_task(hanging.run({})) for _ in range(MAX_THREADS + 4)]
    try:
        for _ in range(MAX_THREADS):
            assert await asyncio.to_thread(began.acquire, timeout=10)
        assert not began.acquire(blocking=False)
        assert await other.run({}) == "here"
    finally:
        release.set()
        await asyncio.gather(*tasks)
    assert MAX_THREADS >= 16


async def test_a_queued_function_of_a_cancelled_caller_never_starts():
    threads, done = Threads(1), list[int]()
    async with held(threads, 1):
        waiting = asyncio.create_task(threads.run(lambda: done.append(1)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await threads.run(lambda: done.append(2))
    assert done == [2]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), StopIteration()])
async def test_every_exception_in_a_thread_reaches_the_caller(error: BaseException):
    def fail() -> None:
        raise error

    with pytest.raises((type(error), RuntimeError)):
        await Threads().run(fail)


HANGS = """
import asyncio, time
from interlock.tools.threads import Threads

async def main():
    try:
        async with asyncio.timeout(0.05):
            await Threads().run(lambda: time.sleep(600))
    except TimeoutError:
        print("left")

asyncio.run(main())
"""


def test_a_hanging_thread_does_not_delay_the_end_of_the_process():
    ended = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")


async def test_a_thread_may_end_after_its_caller_was_cancelled():
    threads, wrong = Threads(1), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: wrong.append(context))
    async with held(threads, 1) as release:
        (running,) = (task for task in asyncio.all_tasks() if task is not asyncio.current_task())
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        release.set()
        await threads.run(lambda: None)
    assert wrong == []


def test_a_thread_may_end_after_its_event_loop():
    release, ended = threading.Event(), threading.Event()

    def work() -> None:
        assert release.wait(10)
        ended.set()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await Threads().run(work)

    asyncio.run(leave())
    release.set()
    assert ended.wait(10)
