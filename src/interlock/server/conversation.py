"""A message of a person and the reply to it, for protocols of chat clients.

A message is the input of a new turn, or the answer to the question of a suspended one. The reply is a part of the turn's events: from
the message on, until the turn has ended or asks (again). What a model streams in a node that speaks to the user is its text so far.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json, to_json

from interlock.agent import Agent
from interlock.capabilities import Question
from interlock.dispatch.embedded import result_of
from interlock.errors import InterlockError, KeyReused
from interlock.runner import first_turn, next_turn
from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event
from interlock.runtime.turns import ENDED, Page, StoredTurn
from interlock.server.problems import turn_error
from interlock.server.request_errors import Overloaded
from interlock.server.service import rests

if TYPE_CHECKING:
    from interlock.server.app import Server
    from interlock.server.auth import Principal

__all__ = [
    "Ended",
    "Message",
    "SpokenText",
    "continues",
    "ended_of",
    "find_reply",
    "follow_events",
    "follow_reply",
    "last_reply",
    "questions_of",
    "reply_of",
    "said_before",
    "say",
    "was_said",
]

_ABORT = "abort"
"""What a person says to end a suspended turn without an answer."""
_SEARCHED = 20
"""How many turns of a session are looked at for an answer that is sent again."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message that was accepted. The reply to it are the events of its turn after number `after`."""

    turn: StoredTurn
    after: int = 0

    @property
    def id(self) -> str:
        """The id of the reply: of its turn, and where the message is an answer, of its place in the turn."""
        return f"{self.turn.turn}.{self.after}" if self.after else self.turn.turn


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a reply ended: with a text, or with an error and perhaps the part of a text. A question is a text."""

    text: str
    error: InterlockError | None = None
    asks: Mapping[str, Any] | None = None
    """The question, where the turn waits for a person."""
    number: int = 0
    """The number of the event that it ended with."""
    input_tokens: int = 0
    output_tokens: int = 0
    """The tokens that the models of the turn reported; 0 where they report none."""
    turn: str = ""
    """The turn that it ended with: the message's own, or one that the agent has started after it."""

    def followed_by(self, later: Ended) -> Ended:
        """Return the end of a reply of two turns."""
        return replace(
            later,
            text="\n\n".join(text for text in (self.text, later.text) if text),
            input_tokens=self.input_tokens + later.input_tokens,
            output_tokens=self.output_tokens + later.output_tokens,
        )


async def say(
    server: Server,
    principal: Principal,
    agent: Agent,
    given: str | Mapping[str, Any],
    *,
    session: str | None,
    role: str | None = None,
    key: str | None = None,
) -> Message:
    """Accept a message. With the same idempotency key, the message that was accepted first is returned.

    Where a turn of the session waits for an answer, text is that answer. It is a new input instead if the question has options and the
    text does not select one, or if the question is for another person; the agent's word for that then ends the suspended turn.
    """
    service = server.service
    found: list[StoredTurn] = []
    if session is not None:
        found = await service.find(principal, agent=agent.name, session=session, page=Page(limit=_SEARCHED))
    again = None if key is None else await said_before(server, found, given, key)
    if again is not None:
        return again
    waiting = next((turn for turn in found if turn.status == "waiting"), None)
    # A request that has led to a question and is sent again is not the answer to it.
    is_new = waiting is not None and (key is None or waiting.key != key)
    if waiting is not None and is_new and service.role(principal, agent, role) == waiting.role:
        answer = _answer_in(given, agent, result_of(waiting).metadata["waiting"])
        if answer is not None:
            after = len([event async for event in server.interlock.turns.stored_events(waiting.turn)])
            return Message(turn=await service.answer(principal, waiting.turn, answer, key=key), after=after)
        if agent.abort is not None:
            await service.answer(principal, waiting.turn, agent.abort)
    return Message(turn=await service.submit(principal, agent.name, given, session=session, role=role, key=key))


async def said_before(server: Server, turns: Iterable[StoredTurn], given: str | Mapping[str, Any], key: str) -> Message | None:
    """Return the answer of a turn that was given with an idempotency key. Raises KeyReused where it is another answer."""
    for turn in turns:
        answer = _answer_of(turn)
        if answer.get("key") == key:
            if answer["text"] != given:
                raise KeyReused
            return await last_reply(server, turn)
    return None


def _answer_of(turn: StoredTurn) -> Mapping[str, Any]:
    return {} if turn.answer is None else from_json(turn.answer)


def continues(message: Message, last: Message) -> bool:
    """Return whether the last reply of a session is the one to this message, or of a turn that the agent has started after it."""
    if message.turn.turn == last.turn.turn:
        return message.after == last.after
    is_later = message.turn.position < last.turn.position
    return is_later and last.after == 0 and first_turn(last.turn.turn) == first_turn(message.turn.turn)


def was_said(turn: StoredTurn, key: str) -> bool:
    """Return whether a turn was submitted, or its question answered, with an idempotency key."""
    return turn.key == key or _answer_of(turn).get("key") == key


async def last_reply(server: Server, turn: StoredTurn) -> Message:
    """Return the message that the last reply of a turn is to: its input, or the last answer."""
    if turn.answer is None:
        return Message(turn=turn)
    asked = await questions_of(server, turn)
    # A question that is asked again in the same words, at the same place, is the same event.
    return Message(turn=turn, after=asked[-2] if turn.status == "waiting" and len(asked) > 1 else asked[-1])


async def questions_of(server: Server, turn: StoredTurn) -> list[int]:
    """Return the numbers of the events with which a turn asked a person. Where the turn waits, the last one has its question."""
    return [number for number, status in await _ends(server, turn) if status == "waiting"]


async def find_reply(server: Server, turn: StoredTurn, after: int) -> tuple[Message, bool] | None:
    """Return the message after an event of a turn, and whether the reply to it has ended; None where there is no such message."""
    ends = await _ends(server, turn)
    later = [number for number, _ in ends if number > after]
    is_said = after == 0 or ((after, "waiting") in ends and (bool(later) or turn.status != "waiting"))
    return (Message(turn=turn, after=after), bool(later) or turn.status in ENDED) if is_said else None


async def _ends(server: Server, turn: StoredTurn) -> list[tuple[int, str]]:
    """Return the numbers of the events with which a turn asked a person or ended, each with the turn's status."""
    return [
        (event["metadata"]["sequence"], result["status"])
        async for event in server.interlock.turns.stored_events(turn.turn)
        if (result := _result_in(event))
    ]


def _answer_in(given: str | Mapping[str, Any], agent: Agent, asked: Mapping[str, Any]) -> str | None:
    """Return a message as the answer to a question, or None where it does not answer it."""
    if not isinstance(given, str):
        return None
    if given.casefold().strip(" .!") == _ABORT and agent.abort is not None:
        return agent.abort
    if asked.get("to"):
        return None
    is_free = not asked["options"] or agent.abort is None
    return given if is_free or Question(text="", options=tuple(asked["options"])).choice(given) is not None else None


def _result_in(event: Event) -> Mapping[str, Any]:
    """Return the result of a turn, if this is the event that it ended with or asks a person with."""
    is_end = event["event"] == "on_chain_end" and not event["parent_ids"]
    return cast("Mapping[str, Any]", event["data"]["output"]) if is_end else {}


@dataclass
class SpokenText:
    """The text of a reply while it arrives. What a client has been sent cannot be taken back."""

    speakers: Collection[str]
    sent: str = ""
    _chunks: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    _is_level: bool = True
    """Whether the chunks are what was sent: not where a turn that was resumed emits them again."""

    def add(self, event: Event) -> str:
        """Take an event; return the text that comes next."""
        if event["event"] == "on_chat_model_stream" and self._is_spoken(event):
            text = str(event["data"]["chunk"].get("text", ""))
            self._chunks.append((event["metadata"]["sequence"], text))
            return self._send(text) if self._is_level else self._catch_up()
        if event["event"] == "on_custom_event" and event["name"] == RETOLD and not event["run_id"]:
            # Another worker resumed the turn. The events from this number on, counted from 0, come again.
            first = event["data"]["from"]
            self._chunks = [chunk for chunk in self._chunks if chunk[0] <= first]
            self._is_level = False
        return ""

    def end(self, text: str) -> str:
        """Return what is missing of the final text: the rest, or all of it in a paragraph of its own where it begins otherwise."""
        return self._send(text[len(self.sent) :] if text.startswith(self.sent) else f"\n\n{text}")

    def _catch_up(self) -> str:
        text = "".join(text for _, text in self._chunks)
        self._is_level = text.startswith(self.sent)
        return self._send(text[len(self.sent) :]) if self._is_level else ""

    def _send(self, text: str) -> str:
        self.sent += text
        return text

    def _is_spoken(self, event: Event) -> bool:
        node = str(event["metadata"].get("langgraph_node", ""))
        return not self.speakers or not set(self.speakers).isdisjoint(node.split("/"))


async def follow_events(server: Server, message: Message) -> AsyncGenerator[list[Event] | Ended, None]:
    """Yield the events of a reply as they arrive, an empty list where nothing happens for a while, and at last how it ended."""
    async with aclosing(server.hub.follow(message.turn.turn, after=message.after)) as following:
        async for events in following:
            for count, event in enumerate(events, start=1):
                if result := _result_in(event):
                    yield events[:count]
                    yield _ended(server, result, event["metadata"]["sequence"])
                    return
            yield events
    turn = await server.interlock.turns.store.get(message.turn.turn)
    yield Ended(text="", error=Overloaded()) if turn is None or not rests(turn) else ended_of(server, turn)


async def follow_reply(server: Server, message: Message) -> AsyncGenerator[list[str] | Ended, None]:
    """Yield the texts of a reply as they arrive, an empty list where nothing happens for a while, and at last how it ended.

    The texts follow from the events alone, whenever the reply is followed. What turns say that the agent starts after this one belongs
    to the reply, each in a paragraph of its own.
    """
    before: Ended | None = None
    current: Message | None = message
    while current is not None:
        ended = Ended(text="", error=Overloaded())
        opening = [] if before is None else ["\n\n"]
        async with aclosing(_follow_turn(server, current)) as following:
            async for arrived in following:
                if isinstance(arrived, Ended):
                    ended = arrived
                elif arrived:
                    yield [*opening, *arrived]
                    opening = []
                else:
                    yield arrived
        before = ended if before is None else before.followed_by(ended)
        current = await _next_message(server, current, ended)
    if before is not None:
        yield before


async def _next_message(server: Server, message: Message, ended: Ended) -> Message | None:
    """Return the turn that the agent has started after this one, if it has. It was accepted before the end of this one was stored."""
    if ended.error is not None or ended.asks is not None or server.agents[message.turn.agent].follow is None:
        return None
    turn = await server.interlock.turns.store.get(next_turn(message.turn.turn))
    return None if turn is None else Message(turn=turn)


async def _follow_turn(server: Server, message: Message) -> AsyncGenerator[list[str] | Ended, None]:
    spoken = SpokenText(server.agents[message.turn.agent].speakers)
    async with aclosing(follow_events(server, message)) as following:
        async for arrived in following:
            if isinstance(arrived, Ended):
                rest = spoken.end(arrived.text) if arrived.error is None else ""
                if rest:
                    yield [rest]
                yield replace(arrived, text=spoken.sent) if isinstance(arrived.error, Overloaded) else arrived
                return
            texts = [text for event in arrived if (text := spoken.add(event))]
            if texts or not arrived:
                yield texts


async def reply_of(server: Server, message: Message) -> Ended:
    """Wait for the end of a reply."""
    async with aclosing(follow_reply(server, message)) as following:
        async for arrived in following:
            if isinstance(arrived, Ended):
                return arrived
    raise Overloaded


def ended_of(server: Server, turn: StoredTurn) -> Ended:
    """Return how the last reply of a turn that has ended or waits ended."""
    return _ended(server, result_of(turn).to_json())


def _ended(server: Server, result: Mapping[str, Any], number: int = 0) -> Ended:
    """Return how a reply ended. Secrets that became known since the event was stored are removed here."""
    shown = cast("dict[str, Any]", server.interlock.redactor.data({name: result[name] for name in ("output", "error", "metadata")}))
    usage, fault = result["usage"], result["error"]
    asks = shown["metadata"].get("waiting") if result["status"] == "waiting" else None
    error = None
    if fault is not None:
        error = turn_error(fault["code"], shown["error"]["message"])
    return Ended(
        text=_as_text(shown["output"]) if asks is None else _question_text(asks),
        error=error,
        asks=asks,
        number=number,
        turn=result["turn"],
        input_tokens=usage["input_tokens"] or 0,
        output_tokens=usage["output_tokens"] or 0,
    )


def _as_text(output: Any) -> str:
    if output is None:
        return ""
    return output if isinstance(output, str) else to_json(output, inf_nan_mode="null").decode()


def _question_text(asked: Mapping[str, Any]) -> str:
    """Return a question as text, with its options. One that is for another person is not shown to the user of the session."""
    if asked.get("to"):
        return f"This was passed on to {asked['to']}, who has not answered yet."
    lines = [
        f"{number}. {option}{' (recommended)' if option == asked['recommended'] else ''}"
        for number, option in enumerate(asked["options"], start=1)
    ]
    return "\n".join([asked["question"], *(["", *lines] if lines else [])])
