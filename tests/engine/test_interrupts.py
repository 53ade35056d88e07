"""A person is asked by LangGraph's own interrupt() where LangGraph drives, and no call is made twice for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END as LANGGRAPH_END
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from interlock import Interlock, Settings
from interlock.capabilities import Clock, Human, Model, Question
from interlock.capabilities.capability import Capability
from interlock.contract import END, Graph, Outcome, node
from interlock.errors import NodeFailed, PersonAwaited
from interlock.human import LaterHuman
from interlock.runtime.targets import Composed, Subgraph
from interlock.testing import FixedClock, ScriptedModel
from tests.support.puntini import many, simple, told

THREAD: RunnableConfig = {"configurable": {"thread_id": "one"}}


class Bank(Capability, Protocol):
    async def pay(self, amount: int) -> str: ...


class RealBank:
    def __init__(self) -> None:
        self.paid: list[int] = []

    async def pay(self, amount: int) -> str:
        self.paid.append(amount)
        return f"receipt {len(self.paid)}"


@dataclass
class Order:
    amount: int
    receipts: str = ""


class Paid(Outcome):
    receipts: str


async def pay(amount: int, *, bank: Bank, human: Human, clock: Clock) -> Paid:
    began = await clock.now()
    first, second = await asyncio.gather(bank.pay(amount), bank.pay(amount + 1))
    sure = await human.ask(Question(text="Pay the rest?", options=("yes", "no"), recommended="no"))
    third = await bank.pay(amount + 2)
    why = await human.ask(Question(text="Why?"))
    if why == "break":
        raise ValueError(why)
    return Paid(receipts=f"{began:%H:%M} {first}, {second}, {sure}, {third}, {why}")


order = Graph("order", state=Order, entry=pay, takes=("amount",), gives="receipts", nodes=[node(pay, goes={Paid: END})])


class Cashier(Capability, Protocol):
    async def settle(self, amount: int) -> str: ...


class AskingCashier:
    async def settle(self, amount: int, *, human: Human, bank: Bank) -> str:
        return f"{await bank.pay(amount)} {await human.ask(Question(text='Sure?'))}"


async def delegate(amount: int, *, cashier: Cashier) -> Paid:
    return Paid(receipts=await cashier.settle(amount))


delegated = Graph("delegated", state=Order, entry=delegate, takes=("amount",), gives="receipts", nodes=[node(delegate, goes={Paid: END})])


@asynccontextmanager
async def saver(kind: str, folder: Path) -> AsyncGenerator[Any]:
    if kind == "memory":
        yield InMemorySaver()
    else:
        async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.sqlite")) as opened:
            yield opened


def asked(state: Any) -> Any:
    (question,) = state["__interrupt__"]
    return question.value


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("checkpointer", ["ours", "plain"])
async def test_an_interrupted_node_goes_on_and_pays_nothing_twice(kind: str, checkpointer: str, durability: Any, tmp_path: Path):
    bank, clock = RealBank(), FixedClock()
    app = Interlock(grants={Bank: bank, Clock: clock})
    async with saver(kind, tmp_path) as opened:
        # As LangGraph's server does it, or with our serializer around the checkpointer.
        graph = (
            app.langgraph(order).copy({"checkpointer": opened}) if checkpointer == "plain" else app.langgraph(order, checkpointer=opened)
        )
        first = await graph.ainvoke({"amount": 5}, THREAD, durability=durability)
        assert asked(first) == {
            "question": "Pay the rest?",
            "options": ["yes", "no"],
            "recommended": "no",
            "schema": {"type": "string", "minLength": 1, "examples": ["yes", "no"]},
        }
        assert first["__interrupt__"][0].response_schema == asked(first)["schema"]
        assert bank.paid == [5, 6]
        again = await graph.ainvoke(None, THREAD, durability=durability)
        assert (asked(again), bank.paid) == (asked(first), [5, 6])
        second = await graph.ainvoke(Command(resume="1"), THREAD, durability=durability)
        assert asked(second) == {"question": "Why?", "options": [], "recommended": "", "schema": {"type": "string", "minLength": 1}}
        assert bank.paid == [5, 6, 7]
        last = await graph.ainvoke(Command(resume="because"), THREAD, durability=durability)
        assert last["receipts"].endswith("receipt 1, receipt 2, yes, receipt 3, because")
        assert bank.paid == [5, 6, 7]
        await graph.ainvoke({"amount": 50}, THREAD, durability=durability)
        assert bank.paid == [5, 6, 7, 50, 51]


@pytest.mark.parametrize(("wrong", "code"), [(5, "input_schema"), ({"answer": "yes"}, "input_schema"), (" ", "input_empty")])
async def test_a_wrong_answer_is_refused_with_its_code_and_asked_for_again(wrong: Any, code: str):
    bank = RealBank()
    graph = Interlock(grants={Bank: bank}).langgraph(order, checkpointer=InMemorySaver())
    first = await graph.ainvoke({"amount": 5}, THREAD)
    for _ in range(2):
        refused = asked(await graph.ainvoke(Command(resume=wrong), THREAD))
        assert (refused["question"], refused["error"]["code"]) == (asked(first)["question"], code)
    after = asked(await graph.ainvoke(Command(resume="yes"), THREAD))
    assert (after["question"], "error" in after) == ("Why?", False)
    assert bank.paid == [5, 6, 7]


async def test_without_a_checkpointer_the_question_is_all_that_comes():
    bank = RealBank()
    state = await Interlock(grants={Bank: bank}).langgraph(order).ainvoke({"amount": 5})
    assert asked(state)["question"] == "Pay the rest?"
    assert bank.paid == [5, 6]


async def test_a_node_that_fails_after_an_answer_fails_as_any_other():
    graph = Interlock(grants={Bank: RealBank()}).langgraph(order, checkpointer=InMemorySaver())
    await graph.ainvoke({"amount": 5}, THREAD)
    await graph.ainvoke(Command(resume="yes"), THREAD)
    with pytest.raises(NodeFailed):
        await graph.ainvoke(Command(resume="break"), THREAD)


class ElsewhereHuman:
    async def ask(self, question: Question) -> str | None:
        raise PersonAwaited("Ask at the counter.")


async def test_a_person_who_is_asked_by_other_means_is_no_interrupt():
    graph = Interlock(grants={Bank: RealBank(), Human: ElsewhereHuman()}).langgraph(order, checkpointer=InMemorySaver())
    with pytest.raises(PersonAwaited):
        await graph.ainvoke({"amount": 5}, THREAD)


async def test_a_question_shows_no_secret():
    settings = Settings(redact=("hunter2",))
    graph = Interlock(settings, grants={Bank: RealBank()}).langgraph(asked_about)
    state = await graph.ainvoke({"amount": 5})
    assert "hunter2" not in str(asked(state))
    assert "Is" in asked(state)["question"]


async def ask_about(amount: int, *, human: Human) -> Paid:
    return Paid(receipts=str(await human.ask(Question(text=f"Is hunter2 worth {amount}?", options=("hunter2",)))))


asked_about = Graph(
    "asked_about", state=Order, entry=ask_about, takes=("amount",), gives="receipts", nodes=[node(ask_about, goes={Paid: END})]
)


@pytest.mark.parametrize("behind", ["graph", "adapter"])
async def test_a_question_from_behind_a_capability_interrupts_too(behind: str):
    bank = RealBank()
    granted: Any = {Bank: bank}
    if behind == "adapter":
        human = LaterHuman()
        granted[Cashier] = Composed(AskingCashier(), parts={Human: human, Bank: bank})
    else:
        granted[Cashier] = Subgraph(inner)
    graph = Interlock(grants=granted).langgraph(delegated, checkpointer=InMemorySaver())
    assert asked(await graph.ainvoke({"amount": 5}, THREAD))["question"] == "Sure?"
    state = await graph.ainvoke(Command(resume="yes"), THREAD)
    assert state["receipts"] == "receipt 1 yes"
    assert bank.paid == [5]


async def ask_inside(amount: int, *, human: Human, bank: Bank) -> Paid:
    return Paid(receipts=f"{await bank.pay(amount)} {await human.ask(Question(text='Sure?'))}")


inner = Graph("inner", state=Order, entry=ask_inside, takes=("amount",), gives="receipts", nodes=[node(ask_inside, goes={Paid: END})])


class Outer(TypedDict, total=False):
    amount: int
    receipts: str


async def test_a_question_interrupts_the_outer_graph():
    bank = RealBank()
    builder = StateGraph(Outer)
    builder.add_node("order", Interlock(grants={Bank: bank}).langgraph(order))
    builder.add_edge(START, "order")
    builder.add_edge("order", LANGGRAPH_END)
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    assert asked(await graph.ainvoke({"amount": 5}, THREAD))["question"] == "Pay the rest?"
    assert asked(await graph.ainvoke(Command(resume="yes"), THREAD))["question"] == "Why?"
    state = await graph.ainvoke(Command(resume="because"), THREAD)
    assert state["receipts"].endswith("receipt 1, receipt 2, yes, receipt 3, because")
    assert bank.paid == [5, 6, 7]


@pytest.mark.parametrize("following", ["continue", "Set the priority of Design to 3"])
async def test_puntini_asks_and_goes_on(tmp_path: Path, following: str):
    async with Interlock(Settings(data_dir=tmp_path)) as app:
        graph = app.langgraph("puntini", checkpointer=InMemorySaver())
        for goal in ("Add a task Design", "Add a person Design"):
            await graph.ainvoke({"goal": goal, "session_id": "one"}, THREAD)
        state = await graph.ainvoke({"goal": "Set the priority of Design to 3"}, THREAD)
        assert asked(state)["options"] == ["Person Design", "Task Design"]
        state = await graph.ainvoke(Command(resume="the task"), THREAD)
        assert "__interrupt__" not in state
        assert state["escalation"].choice == "Task Design"
        assert state["final_answer"].startswith("You said: Task Design. Say 'continue' to have that done.")
        state = await graph.ainvoke({"goal": following}, THREAD)
        assert state["final_answer"] == "You mean Task Design. Changed Task Design (priority: 3)."
        nothing = await graph.ainvoke({"goal": "continue"}, THREAD)
    assert "nothing to go on with" in nothing["final_answer"]


async def test_a_goal_that_puntini_asked_about_is_understood_again_by_continue(tmp_path: Path):
    model = ScriptedModel(many(requires_human_input=True, question="Which colour?"), simple("add_node", label="Car", key="red"))
    async with Interlock(Settings(data_dir=tmp_path), grants={Model: model}) as app:
        graph = app.langgraph("puntini", checkpointer=InMemorySaver())
        state = await graph.ainvoke({"goal": "Add a car.", "session_id": "one"}, THREAD)
        assert asked(state)["question"] == "Which colour?"
        await graph.ainvoke(Command(resume="red"), THREAD)
        state = await graph.ainvoke({"goal": "continue"}, THREAD)
    assert (told(model)[1]["goal"], told(model)[1]["person"]) == ("Add a car.", "red")
    assert (state["goal"], state["final_answer"]) == ("Add a car.", "You said: red. Added Car red.")
