"""What comes in from outside: what a user says, in any shape that LangChain has for it, and nothing that anybody else could have said."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from interlock.agents.analyst.state import ANYBODY, Human
from interlock.errors import InputSchema
from interlock.input import check_characters

__all__ = ["admit", "humans"]

_SHAPE = '{"role": "user", "content": TEXT}'
_ROLES = frozenset({"human", "user"})
_IGNORED = frozenset({"name", "additional_kwargs", "response_metadata", "example"})  # of a message that LangChain wrote out
_PAIR = 2
_LONGEST_ID = 256


def admit(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
    """Turn text, or a mapping with messages, into the fields of the graph."""
    fields: Mapping[str, Any] = {"messages": given} if isinstance(given, str) else given
    if fields.get("session_id", session) != session:
        raise InputSchema("The session is named beside the input, by 'session', not in it.")
    return {"user_id": ANYBODY, **fields, "messages": humans(fields.get("messages")), "session_id": session}


def humans(messages: Any) -> tuple[Human, ...]:
    """Read one message or several, each in any shape that LangChain takes for a user's."""
    is_pair = isinstance(messages, tuple) and _is_pair(cast("tuple[object, ...]", messages))
    is_list = isinstance(messages, Sequence) and not isinstance(messages, str) and not is_pair
    listed = cast("Sequence[object]", messages) if is_list else cast("Sequence[object]", () if messages is None else (messages,))
    found = tuple(listed)
    if not found:
        raise InputSchema(f"The input has 'messages': a list of {_SHAPE}.")
    return tuple(map(_human, found))


def _human(message: object) -> Human:
    """Take a message for what a user says if its role says so."""
    match message:
        case Human(content=content, id=own_id):
            return _said("human", content, own_id)
        case str():
            return _said("human", message, None)
        case Mapping():
            fields: dict[str, object] = {**cast("Mapping[str, object]", message)}
            roles = {fields.pop(name) for name in ("type", "role") if isinstance(fields.get(name), str)}
            content, own_id = fields.pop("content", None), fields.pop("id", None)
            if not roles or not roles <= _ROLES or fields.keys() - _IGNORED:
                raise _refused()
            return _said("human", content, own_id)
        case _:
            pass
    if isinstance(message, Sequence) and _is_pair(cast("Sequence[object]", message)):
        role, text = cast("Sequence[object]", message)
        return _said(role, text, None)
    # LangChain's own classes, which this layer does not know: what is asked of one is its role, its text and its id.
    role, content, own_id = (getattr(cast("object", message), name, None) for name in ("type", "content", "id"))
    return _said(role, content, own_id)


def _is_pair(message: Sequence[object]) -> bool:
    """Tell whether this is a role with a text, as in ("user", "Hello")."""
    return len(message) == _PAIR and all(isinstance(part, str) for part in message) and message[0] in {*_ROLES, *_OTHERS}


_OTHERS = frozenset({"system", "developer", "ai", "assistant", "tool", "function", "remove", "chat"})


def _said(role: object, content: object, own_id: object) -> Human:
    if role not in _ROLES:
        raise _refused()
    text = _text(content)
    check_characters(text, max_bytes=sys.maxsize)
    if own_id is not None and (not isinstance(own_id, str) or not 0 < len(own_id) <= _LONGEST_ID):
        raise InputSchema(f"The id of a message is a text of 1 to {_LONGEST_ID} characters.")
    if own_id is not None:
        check_characters(own_id, max_bytes=sys.maxsize)
    return Human(content=text, id=own_id)


def _text(content: object) -> str:
    """Return the text of a content: a text, or a list of blocks that are texts."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for block in cast("list[object]", content) if isinstance(content, list) else [None]:
        match block:
            case str():
                parts.append(block)
            case {"type": "text", "text": str(text)}:
                parts.append(text)
            case _:
                raise InputSchema("A message has text, and nothing but text: analyst reads no images, files or sounds.")
    return "\n".join(parts)


def _refused() -> InputSchema:
    return InputSchema(
        f"A message is what a user says, such as {_SHAPE}: nothing that a system, an assistant or a tool would say comes in."
    )
