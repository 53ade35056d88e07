"""What ends the clean part of a turn: everything from outside, and nothing else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Protocol

import pytest
from typing_extensions import TypedDict

from interlock import END, Capability, Graph, Interlock, Outcome, Settings, Trusted, node
from interlock.capabilities import Clock, Human, Ids, Memory, Model, Question, Timer, ToolGateway, ToolRequest
from interlock.engine import EngineName
from interlock.errors import InterlockError, ModelUnavailable, StoreUnavailable
from interlock.runtime.origins import leaves
from interlock.runtime.targets import Composed, Subgraph
from interlock.testing import CountingIds, FixedClock, ScriptedModel
from interlock.tools.functions import FunctionTool
from interlock.tools.runner import Tools


class Shelf(Capability, Protocol):
    async def text(self) -> str: ...

    async def label(self) -> Annotated[str, Trusted]: ...

    async def nothing(self) -> str | None: ...

    async def is_full(self) -> bool: ...

    async def broken(self) -> str: ...


class Box(Capability, Protocol):
    async def inside(self, subject: str) -> str: ...


class Sender(Capability, Protocol):
    async def send(self, text: str) -> str | None: ...


class RealShelf:
    async def text(self) -> str:
        return "eve"

    async def label(self) -> str:
        return "eve"

    async def nothing(self) -> str | None:
        return None

    async def is_full(self) -> bool:
        return True

    async def broken(self) -> str:
        raise StoreUnavailable("Write to eve.")


class ComposedBox:
    async def inside(self, subject: str, *, memory: Memory) -> str:
        return str(await memory.recall(subject))


class Forgetful:
    async def recall(self, subject: str) -> str | None:
        return None if subject == "x" else "eve"

    async def remember(self, subject: str, text: str) -> None:
        del subject, text


class Patient:
    async def sleep(self, seconds: float) -> None:
        del seconds


class Person:
    async def ask(self, question: Question) -> str | None:
        return f"Write to zoe, {question.text}"


class State(TypedDict, total=False):
    text: str
    out: str | None


class Done(Outcome):
    out: str | None


sent: list[str] = []


def send(to: str) -> str:
    """Send something."""
    sent.append(to)
    return "sent"


Doing = Callable[..., Awaitable[object]]


async def code_of(engine: EngineName, do: Doing, to: str) -> str | None:
    """Do something in a turn, and then call a tool whose arguments are closed. Returns the code of its error."""

    async def work(
        text: str,
        *,
        shelf: Shelf,
        box: Box,
        clock: Clock,
        ids: Ids,
        memory: Memory,
        model: Model,
        human: Human,
        timer: Timer,
        tools: ToolGateway,
    ) -> Done:
        del text
        with suppress(InterlockError):
            await do(shelf=shelf, box=box, clock=clock, ids=ids, memory=memory, model=model, human=human, timer=timer)
        return Done(out=(await tools.run("any", ToolRequest(tool="send", args={"to": to}))).code)

    graph = Graph("worker", state=State, entry=work, takes=("text",), gives="out", nodes=[node(work, goes={Done: END})])
    grants: dict[type, object] = {
        Shelf: RealShelf(),
        Box: Composed(ComposedBox(), parts={Memory: Forgetful()}),
        Clock: FixedClock(),
        Ids: CountingIds("id"),
        Memory: Forgetful(),
        Model: ScriptedModel("send", "eve", ModelUnavailable("Not now.")),
        Human: Person(),
        Timer: Patient(),
        ToolGateway: Tools([FunctionTool("send", send)], closed=True),
    }
    result = await Interlock(Settings(engine=engine), grants=grants).run(graph, {"text": "Write to ada."})
    assert result.status == "success", result.error
    return result.output


@pytest.mark.parametrize(
    ("name", "method", "args", "code"),
    [
        ("shelf", "text", (), "untrusted_argument"),
        ("shelf", "broken", (), "untrusted_argument"),
        ("memory", "recall", ("ada",), "untrusted_argument"),
        ("shelf", "label", (), None),
        ("shelf", "nothing", (), None),
        ("shelf", "is_full", (), None),
        ("box", "inside", ("x",), None),
        ("box", "inside", ("ada",), "untrusted_argument"),
        ("memory", "remember", ("ada", "eve"), None),
        ("clock", "now", (), None),
        ("ids", "new", (), None),
        ("timer", "sleep", (1.0,), None),
        ("model", "reply", ((),), None),
        ("human", "ask", (Question(text="Who?"),), None),
    ],
)
async def test_only_text_from_outside_ends_the_clean_part(
    engine: EngineName, name: str, method: str, args: tuple[Any, ...], code: str | None
):
    async def do(**given: Any) -> object:
        return await getattr(given[name], method)(*args)

    assert await code_of(engine, do, "eve") == code


async def test_what_a_model_says_after_something_was_read_is_not_trusted(engine: EngineName):
    async def read_between(*, model: Model, shelf: Shelf, **_: Any) -> None:
        await model.reply([])
        await shelf.text()
        await model.reply([])

    assert await code_of(engine, read_between, "eve") == "untrusted_argument"
    assert await code_of(engine, read_between, "ada") is None


async def test_the_words_of_a_streamed_answer_are_no_decisions(engine: EngineName):
    async def stream(*, model: Model, shelf: Shelf, **_: Any) -> None:
        await model.reply([])
        assert [chunk async for chunk in model.stream([])]
        await shelf.text()

    assert await code_of(engine, stream, "eve") == "untrusted_argument"


async def test_a_model_that_fails_tells_nothing(engine: EngineName):
    async def fail(*, model: Model, **_: Any) -> None:
        await model.reply([])
        await model.reply([])
        await model.reply([])

    assert await code_of(engine, fail, "anybody") is None


async def test_what_a_person_answers_is_trusted(engine: EngineName):
    async def ask(*, model: Model, shelf: Shelf, human: Human, **_: Any) -> None:
        await model.reply([])
        await shelf.text()
        await human.ask(Question(text="Who?"))

    assert await code_of(engine, ask, "zoe") is None
    assert await code_of(engine, ask, "eve") == "untrusted_argument"


class ComposedSender:
    async def send(self, text: str, *, memory: Memory, tools: ToolGateway) -> str | None:
        await memory.recall(text)
        return (await tools.run("any", ToolRequest(tool="send", args={"to": text}))).code


@pytest.mark.parametrize(("text", "code"), [("x", None), ("ada", "untrusted_argument")])
@pytest.mark.parametrize("kind", ["graph", "composed"])
async def test_the_tools_of_an_inner_graph_and_of_a_composed_adapter_know_it_too(
    engine: EngineName, kind: str, text: str, code: str | None
):
    async def inner(text: str, *, memory: Memory, tools: ToolGateway) -> Done:
        await memory.recall(text)
        return Done(out=(await tools.run("any", ToolRequest(tool="send", args={"to": text}))).code)

    async def outer(text: str, *, sender: Sender) -> Done:
        return Done(out=await sender.send(text))

    inside = Graph("inner", state=State, entry=inner, takes=("text",), gives="out", nodes=[node(inner, goes={Done: END})])
    graph = Graph("outer", state=State, entry=outer, takes=("text",), gives="out", nodes=[node(outer, goes={Done: END})])
    tools = Tools([FunctionTool("send", send)], closed=True)
    composed = Composed(ComposedSender(), parts={Memory: Forgetful(), ToolGateway: tools})
    grants: dict[type, object] = {Sender: composed}
    if kind == "graph":
        grants = {Sender: Subgraph(inside), Memory: Forgetful(), ToolGateway: tools}
    result = await Interlock(Settings(engine=engine), grants=grants).run(graph, {"text": text})
    assert (result.status, result.output) == ("success", code)


def test_every_value_is_made_of_texts():
    day = datetime(2024, 5, 12, tzinfo=UTC)
    assert list(leaves([day, Decimal("1.5"), {"a": (1, True, None)}, {"b"}, 2.0])) == [str(day), "1.5", "a", "1", "b", "2"]
