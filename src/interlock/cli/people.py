"""A turn that waits for a person, for that person: what is asked, what can be answered, and whether a text is an answer."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.capabilities import Question
from interlock.cli.screen import print_error, safe
from interlock.contract import Graph
from interlock.errors import RecordInvalid, StateIncompatible
from interlock.runtime.events import Listener
from interlock.runtime.turn import TurnResult

__all__ = ["ABORT", "GIVEN_UP", "Waiting", "is_answer", "options_of"]

ABORT = "abort"
GIVEN_UP = "The turn that waited for an answer is given up."


class Waiting:
    """A session whose turn may wait for a person."""

    def __init__(self, app: Interlock, agent: str | Graph | Agent, session: str | None) -> None:
        self._app, self._agent, self._session = app, agent, session

    async def find(self) -> TurnResult | None:
        """Return the turn that waits, with its question. One that cannot go on is said so: the next input, or 'abort', ends it."""
        if self._session is None:
            return None
        try:
            found = await self._app.waiting(self._agent, session=self._session)
            fault = None if found is None else found.error
        except (RecordInvalid, StateIncompatible) as error:
            found, fault = None, error
        if fault is None:
            return found
        print_error(f"{fault.code}: {safe(fault.message)} A new input, or '{ABORT}', ends the turn that waits.")
        return None

    async def answer(self, text: str, told: Listener | None) -> TurnResult | None:
        """Answer the turn that waits; 'abort' gives it up, and is None where the agent has nothing to say to that."""
        session = str(self._session)
        if text.casefold().strip(" .!") == ABORT:
            return await self._app.abort(self._agent, session=session)
        return await self._app.answer(self._agent, text, session=session, on_event=told)


def options_of(result: TurnResult) -> Iterator[str]:
    """List what can be answered to a turn that waits; nothing where it does not."""
    if result.status != "waiting":
        return
    asked = result.metadata["waiting"]
    for number, option in enumerate(asked["options"], start=1):
        yield f"  {number}  {option}{'  (recommended)' if option == asked['recommended'] else ''}"
    how = f"interlock run {result.agent} --session {result.session} --answer TEXT (or '{ABORT}' to give it up)"
    yield f"This is for {asked['to']}, who answers with: {how}" if asked.get("to") else f"Answer with: {how}"


def is_answer(text: str, result: TurnResult) -> bool:
    """Tell whether a text answers the question: one of the options, anything where the question has none, or 'abort'.

    Anything else is a new input, which ends the turn that waits; so is everything but 'abort' where somebody else is asked.
    """
    asked = result.metadata["waiting"]
    return not (asked["options"] or asked.get("to")) or Question(text="", options=(*asked["options"], ABORT)).choice(text) is not None
