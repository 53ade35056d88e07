"""Suspended turns for a person: the question, how to answer it, and whether a text is an answer."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.capabilities import Question
from interlock.cli.screen import print_error, program, safe
from interlock.contract import Graph
from interlock.errors import RecordInvalid, StateIncompatible
from interlock.runtime.events import Event, Listener
from interlock.runtime.turn import TurnResult

__all__ = ["ABORT", "ABORTED", "SuspendedTurn", "answer_commands", "is_abort", "is_answer", "options_of", "without_repeated"]

ABORT = "abort"
ABORTED = "The suspended turn was ended without an answer."


class SuspendedTurn:
    """The suspended turn of a session, if it has one."""

    def __init__(self, app: Interlock, agent: str | Graph | Agent, session: str | None) -> None:
        self._app, self._agent, self._session = app, agent, session

    async def find(self) -> TurnResult | None:
        """Return the suspended turn with its question. Report one that cannot be resumed and return None."""
        if self._session is None:
            return None
        try:
            found = await self._app.waiting(self._agent, session=self._session)
            fault = None if found is None else found.error
        except (RecordInvalid, StateIncompatible) as error:
            found, fault = None, error
        if fault is None:
            return found
        print_error(f"{fault.code}: {safe(fault.message)} A new input, or '{ABORT}', ends the suspended turn.")
        return None

    async def answer(self, text: str, listener: Listener | None) -> TurnResult | None:
        """Resume the turn with an answer. 'abort' ends it, with the result None where the agent has no reply to that."""
        session = str(self._session)
        if is_abort(text):
            return await self._app.abort(self._agent, session=session)
        return await self._app.answer(self._agent, text, session=session, on_event=listener)

    async def events(self) -> list[Event]:
        """Return the events of the turn so far."""
        return await self._app.waiting_events(self._agent, session=str(self._session))


def without_repeated(earlier: Iterable[Event], listener: Listener) -> Listener:
    """Return a listener for a resumed turn that leaves out the earlier events, which the turn emits again."""
    left = deque(map(_identity, earlier))

    def listen(event: Event) -> None:
        if left and left[0] == _identity(event):
            left.popleft()
            return
        left.clear()
        listener(event)

    return listen


def _identity(event: Event) -> tuple[str, str, str]:
    return event["event"], event["name"], event["run_id"]


def options_of(result: TurnResult) -> Iterator[str]:
    """List the options of a suspended turn's question."""
    if result.status != "waiting":
        return
    asked = result.metadata["waiting"]
    for number, option in enumerate(asked["options"], start=1):
        yield f"  {number}  {option}{'  (recommended)' if option == asked['recommended'] else ''}"


def answer_commands(agent: str, session: str, asked: Mapping[str, Any], options: Sequence[str] = ()) -> Iterator[str]:
    """Write the commands that answer a question and that end its turn, for a shell. `agent` is the argument of the command line."""
    example = asked["recommended"] or next(iter(asked["options"]), "your answer")
    to = f"This question is for {asked['to']}. " if asked.get("to") else ""
    for purpose, text in ((f"{to}Answer with:", example), ("End it without an answer:", ABORT)):
        yield f"{purpose} {program()} {shlex.join(['run', agent, *options, '--session', session, '--answer', text])}"


def is_abort(text: str) -> bool:
    """Return whether a text ends the suspended turn."""
    return text.casefold().strip(" .!") == ABORT


def is_answer(text: str, result: TurnResult) -> bool:
    """Return whether a text answers the question: an option, any text if it has no options, or 'abort'.

    Any other text is a new input, which ends the suspended turn. If the question is for another person, only 'abort' is an answer.
    """
    asked = result.metadata["waiting"]
    return not (asked["options"] or asked.get("to")) or Question(text="", options=(*asked["options"], ABORT)).choice(text) is not None
