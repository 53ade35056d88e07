# Rows that route every outcome of their node and one more: a type checker should reject these too.
from __future__ import annotations

from interlock import END, Outcome, node


class Answered(Outcome):
    text: str


class Refused(Outcome):
    pass


class Stranger(Outcome):
    pass


async def answer(text: str) -> Answered | Refused:
    return Answered(text=text)


async def close(text: str) -> Refused:
    return Refused()


node(answer, goes={Answered: END, Refused: END, Stranger: END})  # error: reportArgumentType
node(close, goes={Refused: close, Stranger: END})  # error: reportArgumentType
