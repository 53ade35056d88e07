"""Nodes that LangGraph drives, with no turn of ours around the graph: each of them is run as a turn of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from interlock.capabilities.human import Human, Question, answered_by
from interlock.contract import Graph
from interlock.contract.node import Node, Step
from interlock.errors import InputError, InputSchema, PersonAwaited
from interlock.input import check_text
from interlock.reply import Reply
from interlock.runtime.events import Sink
from interlock.runtime.gate import Gate
from interlock.runtime.ledger import Entry, Ledger
from interlock.runtime.redaction import Redactor
from interlock.runtime.turn import Order, Terms, Turn

__all__ = ["Pause", "Standalone"]

_ID = "langgraph"


class Pause(Protocol):
    """How a node that LangGraph runs waits for a person."""

    def ask(self, asked: dict[str, Any], schema: dict[str, Any]) -> tuple[Any, ...]:
        """Return the answer, or nothing where it has not come yet. `schema` is the JSON schema of an answer."""
        ...

    async def load(self) -> list[dict[str, Any]]:
        """Return the calls that the node made before it waited."""
        ...

    async def save(self, calls: list[dict[str, Any]]) -> None:
        """Keep the calls that the node has made since."""
        ...


class Standalone:
    """Runs the nodes of one graph."""

    def __init__(self, graph: Graph, gate: Gate, terms: Callable[[], Terms], *, max_answer_bytes: int) -> None:
        self._order = Order(agent=graph.name, graph=graph, role=None, session=_ID, turn=_ID, given={}, reply=lambda _: Reply())
        self._gate = gate
        self._terms = terms
        self._max_answer_bytes = max_answer_bytes

    async def step(self, node: Node, state: Mapping[str, Any], tell: Sink | None, pause: Pause) -> Step:
        """Run one node. Raises PersonAwaited where it waits for a person: then its calls are kept for when it runs again."""
        made: list[Entry] = []
        ledger, terms = None, self._terms()
        if node.name in self._gate.asking:
            known = [dataclasses.replace(Entry(**call), told=tuple(call["told"])) for call in await pause.load()]
            ledger = Ledger(_ID, entries=known, keep=made.append)
        turn = Turn(self._order, self._gate, terms=terms, sink=tell, ledger=ledger)
        try:
            with answered_by(partial(self._ask, pause, turn.redactor)):
                return await turn.walk.step(node, state)
        except PersonAwaited:
            # Not the answers: LangGraph has them, and hands them out again in their order.
            await pause.save([dataclasses.asdict(call) for call in made if call.capability != Human.__name__])
            raise
        finally:
            terms.redactor.add_secrets_of(turn.redactor)
            turn.close()

    def _ask(self, pause: Pause, redactor: Redactor, question: Question) -> str | None:
        """Return what a person says, asking again after an answer that is no text."""
        text = redactor.text
        asked: dict[str, Any] = {"question": text(question.text), "options": [text(option) for option in question.options]}
        asked["recommended"] = text(question.recommended)
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        if question.options:  # which are proposals: a person may say something else
            schema["examples"] = asked["options"]
        while answers := pause.ask(asked, schema):
            try:
                return self._text(answers[0])
            except InputError as refused:
                asked = asked | {"error": {"code": refused.code, "message": refused.message}}
        return None

    def _text(self, answer: object) -> str:
        if not isinstance(answer, str):
            raise InputSchema(f"The answer is a '{type(answer).__name__}'. Fix: answer with text.")
        return check_text(answer, max_bytes=self._max_answer_bytes)
