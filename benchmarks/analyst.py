"""What a token of the analyst costs, how long tools side by side take, and how a conversation of 500 turns grows."""

from __future__ import annotations

import asyncio
import operator
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from figures import Figure, at_most, ratio
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel
from typing_extensions import TypedDict

from interlock import Interlock, Settings
from interlock.capabilities import Chunk, Decision, Message, Model, Tool
from interlock.models.stub import StubModel
from interlock.runtime.events import Event
from interlock_agents.analyst.plan import PlannerDecision, Summary

T = TypeVar("T", bound=BaseModel)
TOKENS, NATIVE_TOKENS, ROUNDS = 1000, 200, 25
TURNS, YOUNG, SAID = 500, 20, "x" * 399 + " "
PIECES = tuple(Chunk(text=f" word{number}") for number in range(TOKENS))


class InstantModel(StubModel):
    """Plans what it was created with, and answers with chunks that are ready at once."""

    def __init__(self, pieces: Sequence[Chunk], calls: Sequence[dict[str, Any]] = ()) -> None:
        self._pieces = pieces
        self._calls = calls

    async def stream(self, messages: Sequence[Message], *, tools: Sequence[Tool] = ()) -> AsyncGenerator[Chunk, None]:
        del messages, tools
        for piece in self._pieces:
            yield piece

    async def decide(self, messages: Sequence[Message], *, schema: type[T]) -> Decision[T]:
        del messages
        made: Any = Summary(summary="They talked.")
        if schema is PlannerDecision:
            made = PlannerDecision.model_validate({"next_step": "tool_use" if self._calls else "generate", "tool_calls": [*self._calls]})
        return Decision(value=made)


async def waits() -> str:
    """Wait for a tenth of a second."""
    await asyncio.sleep(0.1)
    return "done"


async def measure_analyst() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as folder:
        return [*await _tokens(Path(folder)), *await _tools(Path(folder)), *await _growth(Path(folder))]


class Looking:
    """Receive every event."""

    def __init__(self) -> None:
        self.seen = 0

    def at(self, event: Event) -> None:
        self.seen += len(event["data"])

    async def hear(self, app: Interlock) -> None:
        await app.run("analyst", "Hello.", on_event=self.at)

    async def read(self, app: Interlock) -> None:
        async for event in app.stream("analyst", "Hello."):
            self.at(event)

    async def bare(self) -> None:
        async for piece in InstantModel(PIECES).stream(()):
            self.seen += len(piece.text)


async def _tokens(folder: Path) -> list[Figure]:
    """Compare the CPU time of a turn with many tokens with that of one with a single token, and with the model's own stream."""
    settings = Settings.model_validate({"engine": "direct", "data_dir": folder, "checkpoint_url": "memory:"})
    few, many = (Interlock(settings, grants={Model: InstantModel(pieces)}) for pieces in (PIECES[:1], PIECES))
    looking, native = Looking(), _native().compile()
    works: dict[str, Callable[[], Awaitable[None]]] = {
        "model": looking.bare,
        "one token, listening": lambda: looking.hear(few),
        "listening": lambda: looking.hear(many),
        "one token, reading": lambda: looking.read(few),
        "reading": lambda: looking.read(many),
    }
    for work in works.values():
        await work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            times[name].append(await _spent(work, time.process_time))
    figures = [Figure("analyst, a token of the model's own stream", statistics.median(times["model"]) / TOKENS * 1e6, "us")]
    for how, call in (("listening", "run(on_event=...)"), ("reading", "stream()")):
        more = [(a - b - c) / TOKENS * 1e6 for a, b, c in zip(times[how], times[f"one token, {how}"], times["model"], strict=True)]
        figures.append(at_most(f"a token on direct by {call}: more than that", statistics.median(more), 5, "us"))
    await few.close()
    await many.close()
    spent = [await _spent(lambda: _read(native), time.process_time) for _ in range(5)]
    return [*figures, Figure("a token by LangGraph's own astream_events", statistics.median(spent) / NATIVE_TOKENS * 1e6, "us")]


async def _read(native: Any) -> None:
    async for _ in native.astream_events({"said": []}, version="v2"):
        pass


async def _tools(folder: Path) -> list[Figure]:
    """Compare ten tools of 100 ms with one."""
    settings = Settings.model_validate(
        {
            "engine": "direct",
            "data_dir": folder,
            "checkpoint_url": "memory:",
            "tool_functions": {f"wait{number}": f"{__name__}:waits" for number in range(10)},
            "analyst_tools": [f"wait{number}" for number in range(10)],
        }
    )
    calls: list[dict[str, Any]] = [{"tool": f"wait{number}", "args": {}} for number in range(10)]
    one, ten = (Interlock(settings, grants={Model: InstantModel(PIECES[:1], wanted)}) for wanted in (calls[:1], calls))
    times: dict[str, list[float]] = {"one": [], "ten": []}
    for _ in range(5):
        times["one"].append(await _spent(lambda: one.run("analyst", "Wait.")))
        times["ten"].append(await _spent(lambda: ten.run("analyst", "Wait.")))
    await one.close()
    await ten.close()
    return [at_most("ten tools of 100 ms / one", ratio(times["ten"], times["one"]), 1.5)]


async def _growth(folder: Path) -> list[Figure]:
    """Take 500 turns of 2 x 400 characters on SQLite, and the same by a hand-written graph whose messages are added up."""
    settings = Settings.model_validate({"engine": "direct", "data_dir": folder})
    async with Interlock(settings, grants={Model: InstantModel([Chunk(text=SAID)])}) as app:
        grows = await _turns(lambda thread: app.run("analyst", SAID.strip(), session=thread))
    figures = [
        at_most(f"{TURNS} turns of 2 x 400 characters on SQLite", _size(folder, "sessions.sqlite"), 10, "MB"),
        at_most("turn 500 / turn 10", grows, 2),
    ]
    file = folder / "by-hand.sqlite"
    async with AsyncSqliteSaver.from_conn_string(str(file)) as saver:
        graph = _native(SAID).compile(checkpointer=saver)
        grows = await _turns(lambda thread: graph.ainvoke({"said": [SAID]}, {"configurable": {"thread_id": thread}}))
    figures.append(Figure("the same by hand, with operator.add", _size(folder, file.name), "MB"))
    return [*figures, Figure("by hand: turn 500 / turn 10", grows, "x")]


async def _turns(turn: Callable[[str], Awaitable[object]]) -> float:
    """Take the turns of a long session, and beside its last ones the tenth turns of young sessions; return how they compare."""
    for _ in range(TURNS - YOUNG):
        await turn("long")
    for _ in range(9):
        for number in range(YOUNG):
            await turn(f"young-{number}")
    late: list[float] = []
    early: list[float] = []
    for number in range(YOUNG):
        early.append(await _spent(lambda thread=f"young-{number}": turn(thread)))
        late.append(await _spent(lambda: turn("long")))
    return ratio(late, early)


class _Talk(TypedDict):
    said: Annotated[list[str], operator.add]


def _native(answer: str | None = None) -> StateGraph[_Talk]:
    """LangGraph by hand: one node that answers, with a model of LangChain's where it streams."""

    async def speak(state: _Talk) -> dict[str, list[str]]:
        del state
        if answer is not None:
            return {"said": [answer]}
        model = GenericFakeChatModel(messages=iter([AIMessage("".join(piece.text for piece in PIECES[: NATIVE_TOKENS // 2]))]))
        return {"said": [str((await model.ainvoke("hi")).content)]}

    graph = StateGraph(_Talk)
    graph.add_node("speak", speak)
    graph.add_edge(START, "speak")
    graph.add_edge("speak", END)
    return graph


async def _spent(work: Callable[[], Awaitable[object]], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    await work()
    return clock() - start


def _size(folder: Path, name: str) -> float:
    """Return how large a database is, with what lies beside it, in MB."""
    return sum(file.stat().st_size for file in folder.glob(f"{name}*") if file.is_file()) / 1e6
