"""The conversation of a session as LangChain messages, and a client's messages as the input of a turn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from interlock.agent import Agent
from interlock.contract import Graph
from interlock.discovery import entry_of
from interlock.dispatch.embedded import result_of
from interlock.errors import InputEmpty, InputSchema, InterlockError
from interlock.runtime.events import hide
from interlock.runtime.recording import read_header
from interlock.runtime.turns import StoredTurn
from interlock.server.service import rests

__all__ = ["ai_message", "conversation", "message_chunk", "parse_messages", "reply_id", "reply_text", "user_message"]

_PROBE = "the text of a user"
_HUMAN = frozenset({"human", "user"})


def human_message(text: str, id_: str) -> dict[str, Any]:
    """Return the message of a user."""
    return {"content": text, "additional_kwargs": {}, "response_metadata": {}, "type": "human", "name": None, "id": id_}


def ai_message(text: str, id_: str) -> dict[str, Any]:
    """Return the message of an agent."""
    calls: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None}
    return {"content": text, "additional_kwargs": {}, "response_metadata": {}, "type": "ai", "name": None, "id": id_, **calls}


def message_chunk(text: str, id_: str) -> dict[str, Any]:
    """Return a part of an agent's message."""
    return {**ai_message(text, id_), "type": "AIMessageChunk", "tool_call_chunks": []}


def reply_text(output: Any) -> str:
    """Return the output of a turn as the text of a message."""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def user_message(agent: Agent, turn: StoredTurn, note: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the user said in a turn."""
    graph = entry_of(agent, turn.role)
    given = hide(read_header(turn.header).given, graph.state.secret)
    text = _text_of(given.get(_text_field(agent, graph)))
    return human_message(text, note.get("message_id") or f"{turn.turn}-user")


def reply_id(turn: str) -> str:
    """Return the id of the message in which a turn replies."""
    return f"{turn}-reply"


def conversation(agent: Agent, turns: Sequence[StoredTurn], notes: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a session's turns, given newest first. A turn that was cancelled or waits has no reply."""
    messages: list[dict[str, Any]] = []
    for turn in reversed(turns):
        messages.append(user_message(agent, turn, notes.get(turn.turn, {})))
        if rests(turn) and turn.status in {"success", "error"}:
            output = result_of(turn).output
            if output is not None:
                messages.append(ai_message(reply_text(output), reply_id(turn.turn)))
    return messages


def _text_of(value: Any) -> str:
    """Return the text in a field: itself, the content of its last message, or its member `text`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value:
        return _text_of(cast("Sequence[Any]", value)[-1])
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Any]", value)
        return _text_of(found.get("content", found.get("text")))
    return ""


def _text_field(agent: Agent, graph: Graph) -> str:
    """Return the input field that gets a user's text: where it is found when the agent parses one."""
    fields: Mapping[str, Any] = {}
    if agent.parse_input is not None:
        with suppress(InterlockError):
            fields = agent.parse_input(_PROBE, "session")
    found = [name for name, value in fields.items() if _PROBE in repr(value)]
    if found:
        return found[0]
    return graph.state.takes[0] if graph.state.takes else ""


def parse_messages(graph: Graph, given: Any) -> tuple[str | Mapping[str, Any], str | None]:
    """Return the input of a turn and the id of the user's message.

    The input is the text of a user, or the agent's own fields. `{"messages": [...]}` with one message of a user is its text. Only the
    user speaks here: messages of an agent, a tool or the system are refused.
    """
    if isinstance(given, str):
        return given, None
    if not isinstance(given, Mapping):
        raise InputSchema("The input of a run is text, or an object with 'messages' or the agent's fields.")
    fields = cast("Mapping[str, Any]", given)
    if "messages" not in fields:
        return fields, None
    if "messages" in graph.state.takes:
        return fields, _own_id(fields["messages"])
    if len(fields) > 1:
        raise InputSchema("The input has 'messages' and other fields: pass one or the other.")
    messages = fields["messages"]
    listed = cast("list[Any]", messages if isinstance(messages, list) else [messages] if messages else [])
    if not listed:
        raise InputEmpty("The input has no message.")
    if len(listed) > 1:
        raise InputSchema("A run takes one new message of a user: the thread has those before it.")
    return _parse_message(listed[0])


def _own_id(messages: Any) -> str | None:
    """Return the id of the last message, which the agent parses itself."""
    listed = cast("list[Any]", messages if isinstance(messages, list) else [messages])
    last = listed[-1] if listed else None
    id_ = cast("Mapping[str, Any]", last).get("id") if isinstance(last, Mapping) else None
    return id_ if isinstance(id_, str) and id_ else None


def _parse_message(message: Any) -> tuple[str, str | None]:
    if isinstance(message, str):
        return message, None
    if isinstance(message, list) and len(cast("list[Any]", message)) == 2:  # noqa: PLR2004 - a role and a text
        role, content = cast("list[Any]", message)
        message = {"role": role, "content": content}
    if not isinstance(message, Mapping):
        raise InputSchema("A message is text, a pair of a role and text, or an object.")
    found = cast("Mapping[str, Any]", message)
    role, id_ = found.get("role", found.get("type", "human")), found.get("id")
    if role not in _HUMAN:
        raise InputSchema("A client sends messages of a user only: those of agents, tools and the system are the server's.")
    if id_ is not None and (not isinstance(id_, str) or not 0 < len(id_) <= 128 or not id_.isprintable()):  # noqa: PLR2004
        raise InputSchema("The id of a message is text of 1 to 128 printable characters.")
    return _content(found.get("content")), id_


def _content(content: Any) -> str:
    """Return the text of a message: itself, or that of its text blocks."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InputSchema("The content of a message is text, or a list of text blocks.")
    texts: list[str] = []
    for block in cast("list[Any]", content):
        given = cast("Mapping[str, Any]", block if isinstance(block, Mapping) else {"text": block})
        text = given.get("text")
        if not isinstance(text, str) or given.get("type", "text") != "text":
            raise InputSchema("A block of a message is text here. Pass files in the agent's own fields.")
        texts.append(text)
    return "\n".join(texts)
