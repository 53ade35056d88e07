# Rows that a type checker must reject, each marked with the rule that rejects it.
from __future__ import annotations

from dataclasses import dataclass

from interlock import END, Graph, Outcome, node


@dataclass
class Ticket:
    text: str


class Answered(Outcome):
    text: str


class Refused(Outcome):
    pass


class Stranger(Outcome):
    pass


class NotAnOutcome:
    pass


async def answer(text: str) -> Answered | Refused:
    return Answered(text=text)


async def close(text: str) -> Refused:
    return Refused()


async def returns_text(text: str) -> str:
    return text


def not_async(text: str) -> Answered:
    return Answered(text=text)


# A row routes an outcome that its node cannot return.
node(close, goes={Answered: END})  # error: reportArgumentType
node(answer, goes={Answered: END, Stranger: END})  # error: reportArgumentType
node(answer, goes={Stranger: answer})  # error: reportArgumentType

# A row routes something that is no outcome.
node(close, goes={NotAnOutcome: END})  # error: reportArgumentType
node(close, goes={"Refused": END})  # error: reportArgumentType
node(close, goes={Refused(): END})  # error: reportArgumentType

# A row leads to something that is no node.
node(close, goes={Refused: "close"})  # error: reportArgumentType
node(close, goes={Refused: returns_text})  # error: reportArgumentType
node(close, goes={Refused: not_async})  # error: reportArgumentType
node(close, goes={Refused: None})  # error: reportArgumentType

# A node is no async function that returns an outcome.
node(returns_text, goes={})  # error: reportArgumentType
node(not_async, goes={Answered: END})  # error: reportArgumentType

# A row says nothing about where it leads.
node(close)  # error: reportCallIssue

# A graph is declared with what it does not know.
Graph("tickets", state=Ticket, entry="close", nodes=[])  # error: reportArgumentType
Graph("tickets", state=Ticket, entry=close, nodes=[close])  # error: reportArgumentType
Graph("tickets", state=Ticket, entry=close, nodes=[], budget=3)  # error: reportCallIssue
Graph("tickets", entry=close, nodes=[])  # error: reportCallIssue
