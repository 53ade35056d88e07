"""Node runs where LangGraph drives the graph, with no turn of ours around it: each node is run as a turn of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from interlock.capabilities.human import Question, resolve_answer
from interlock.contract import Graph
from interlock.contract.node import Node, StepResult
from interlock.errors import InputError, InputSchema, PersonAwaited
from interlock.input import check_text
from interlock.reply import Reply
from interlock.runtime.events import Listener
from interlock.runtime.gate import Gate
from interlock.runtime.journal import Entry, Journal
from interlock.runtime.recording import MemoryJournal
from interlock.runtime.redaction import Redactor
from interlock.runtime.turn import Turn, TurnOptions, TurnRequest

__all__ = ["Pause", "Standalone"]

_ID = "langgraph"


class Pause(Protocol):
    """How a node that LangGraph runs waits for a person."""

    def ask(self, asked: dict[str, Any], schema: dict[str, Any]) -> tuple[Any, ...]:
        """Return the answer, or an empty tuple where it has not come yet. `schema` is the JSON schema of an answer."""
        ...

    async def load(self) -> list[dict[str, Any]]:
        """Return the journal of the node's earlier runs."""
        ...

    async def save(self, calls: list[dict[str, Any]]) -> None:
        """Store the journal entries of this run."""
        ...


class Standalone:
    """Runs the nodes of one graph."""

    def __init__(self, graph: Graph, gate: Gate, options: Callable[[], TurnOptions], *, max_answer_bytes: int) -> None:
        self._request = TurnRequest(
            agent=graph.name, graph=graph, role=None, session=_ID, turn=_ID, given={}, reply=lambda _: Reply(), is_whole=False
        )
        self._gate = gate
        self._options = options
        self._max_answer_bytes = max_answer_bytes

    async def run_node(self, node: Node, state: Mapping[str, Any], listener: Listener | None, pause: Pause) -> StepResult:
        """Run one node. Raises PersonAwaited where it waits for a person; its journal is then stored for its next run."""
        options = self._options()
        if node.name not in self._gate.asking:
            return await self._run(node, state, listener, options, None)
        entries: list[Entry] = []
        for call in await pause.load():
            entry = dataclasses.replace(Entry(**call["entry"]), told=tuple(call["entry"]["told"]))
            entries.append(self._answered(entry, call["asked"], pause))
        while True:
            store = MemoryJournal()
            await store.claim(_ID, 0)
            try:
                return await self._run(node, state, listener, options, Journal(_ID, entries=entries, store=store))
            except PersonAwaited:
                made = store.turns[_ID].entries
                if not any(entry.question for entry in made):
                    raise
                asked = [_asked(entry, options.redactor) for entry in made]
                await pause.save([{"entry": dataclasses.asdict(entry), "asked": shown} for entry, shown in zip(made, asked, strict=True)])
                # Where LangGraph has the answer already, the node is run again with it.
                entries += [self._answered(entry, shown, pause) for entry, shown in zip(made, asked, strict=True)]

    async def _run(
        self, node: Node, state: Mapping[str, Any], listener: Listener | None, options: TurnOptions, journal: Journal | None
    ) -> StepResult:
        turn = Turn(self._request, self._gate, options=options, listener=listener, journal=journal)
        try:
            return await turn.graph_run.run_node(node, state)
        finally:
            options.redactor.add_literals(turn.redactor.literals)

    def _answered(self, entry: Entry, asked: Mapping[str, Any], pause: Pause) -> Entry:
        """Return the entry, with the person's answer where it has a question. Raises PersonAwaited where the answer has not come yet."""
        if entry.question is None:
            return entry
        question = Question(text=entry.question["text"], options=tuple(entry.question["options"]))
        return entry.answered(self._ask(pause, dict(asked), entry.question, question))

    def _ask(self, pause: Pause, asked: dict[str, Any], stored: Mapping[str, Any], question: Question) -> str:
        """Return the person's answer; ask again after an answer that is not text or does not fit the form of the question."""
        schema: dict[str, Any] = {"type": "string", "minLength": 1}
        if asked["options"]:
            # Examples and not an enum: a person may answer something else.
            schema["examples"] = asked["options"]
        while answers := pause.ask(asked, schema):
            try:
                return resolve_answer(stored, self._text(answers[0]))
            except InputError as refused:
                asked = asked | {"error": {"code": refused.code, "message": refused.message}}
        raise PersonAwaited(question=question)

    def _text(self, answer: object) -> str:
        if not isinstance(answer, str):
            raise InputSchema(f"The answer is a '{type(answer).__name__}'. Fix: answer with text.")
        return check_text(answer, max_bytes=self._max_answer_bytes)


def _asked(entry: Entry, redactor: Redactor) -> dict[str, Any]:
    """Return the question of an entry as it is shown to the person, without secrets."""
    if entry.question is None:
        return {}
    text, question = redactor.text, entry.question
    options = [text(option) for option in question["options"]]
    return {"question": text(question["text"]), "options": options, "recommended": text(question["recommended"])}
