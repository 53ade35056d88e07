"""An agent that asks for data: a question with an answer schema, which the studio shows as a form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from interlock import END, Agent, Graph, Outcome, Reply, Untrusted, node
from interlock.capabilities import FormQuestion, Human

__all__ = ["SCHEMA", "agent"]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "guest": {"type": "string", "minLength": 2, "maxLength": 20, "description": "as in the passport"},
        "nights": {"type": "integer", "minimum": 1, "maximum": 14},
        "room": {"enum": ["single", "double"]},
        "breakfast": {"type": "boolean"},
        "remark": {"type": "string"},
    },
    "required": ["guest", "nights", "room", "breakfast"],
}
_SCHEMAS: dict[str, dict[str, Any]] = {"colour": {"enum": ["red", "blue"]}, "sure": {"type": "boolean"}, "amount": {"type": "number"}}


@dataclass
class State:
    text: Annotated[str, Untrusted]
    answer: Annotated[str, Untrusted] = ""


class Booked(Outcome):
    answer: Annotated[str, Untrusted]


async def book(text: str, *, human: Human) -> Booked:
    """Ask for what the booking needs."""
    said = await human.ask(FormQuestion(text=f"What do you want to book for {text}?", schema=_SCHEMAS.get(text, SCHEMA)))
    return Booked(answer=f"booked {said}")


graph = Graph("booking", state=State, entry=book, takes=("text",), gives="answer", nodes=[node(book, goes={Booked: END})], max_steps=3)
agent = Agent(
    name="booking",
    summary="books a room",
    graphs=(graph,),
    entries={None: graph},
    reply=lambda state: Reply(output=state["answer"]),
    has_sessions=True,
    pauses=True,
)
