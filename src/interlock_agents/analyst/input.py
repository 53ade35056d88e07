"""Input validation: accepts user messages in every form that LangChain accepts, and no other kind of message."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from interlock.errors import InputSchema
from interlock.input import check_characters
from interlock_agents.analyst.state import ANYBODY, Human

__all__ = ["humans", "parse_input"]

_SHAPE = '{"role": "user", "content": TEXT}'
_ROLES = frozenset({"human", "user"})
# LangChain writes these fields when it serialises a message.
_OTHER_ROLES = frozenset({"system", "developer", "ai", "assistant", "tool", "function", "remove", "chat"})
_IGNORED = frozenset({"name", "additional_kwargs", "response_metadata", "example"})
_PAIR = 2
_MAX_ID_LENGTH = 256


def parse_input(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
    """Convert text, or a mapping with messages, to the fields of the graph. Raise InputSchema for anything else."""
    fields: Mapping[str, Any] = {"messages": given} if isinstance(given, str) else given
    if fields.get("session_id", session) != session:
        raise InputSchema("Name the session with the 'session' argument, not inside the input.")
    return {"user_id": ANYBODY, **fields, "messages": humans(fields.get("messages")), "session_id": session}


def humans(messages: Any) -> tuple[Human, ...]:
    """Convert one message or several, each in any form that LangChain accepts for a user message."""
    found: Sequence[object] = () if messages is None else (messages,)
    if isinstance(messages, Sequence) and not isinstance(messages, str) and not _is_pair(cast("object", messages)):
        found = cast("Sequence[object]", messages)
    if not found:
        raise InputSchema(f"The input needs 'messages': a list of {_SHAPE}.")
    return tuple(_checked(*_parts(one)) for one in found)


def _parts(message: object) -> tuple[object, object, object]:
    """Return the role, the content and the id of a message."""
    if isinstance(message, str):
        return "human", message, None
    if isinstance(message, Mapping):
        fields: dict[str, object] = {**cast("Mapping[str, object]", message)}
        roles = {fields.pop(name) for name in ("type", "role") if isinstance(fields.get(name), str)}
        content, message_id = fields.pop("content", None), fields.pop("id", None)
        return "human" if roles and roles <= _ROLES and not fields.keys() - _IGNORED else None, content, message_id
    if _is_pair(message, is_tuple=False):
        role, text = cast("Sequence[object]", message)
        return role, text, None
    # A message class, ours or LangChain's. The latter are not imported here, so read the attributes by name.
    role, content, message_id = (getattr(message, name, None) for name in ("type", "content", "id"))
    return role, content, message_id


def _is_pair(message: object, *, is_tuple: bool = True) -> bool:
    """Return whether this is a role and a text, as in ("user", "Hello"). At the top level, a list is a list of messages."""
    if not isinstance(message, tuple if is_tuple else (tuple, list)):
        return False
    parts = cast("Sequence[object]", message)
    return len(parts) == _PAIR and all(isinstance(part, str) for part in parts) and parts[0] in {*_ROLES, *_OTHER_ROLES}


def _checked(role: object, content: object, message_id: object) -> Human:
    if role not in _ROLES:
        raise _not_a_user_message()
    text = _text(content)
    check_characters(text, max_bytes=sys.maxsize)
    if message_id is not None and (not isinstance(message_id, str) or not 0 < len(message_id) <= _MAX_ID_LENGTH):
        raise InputSchema(f"The id of a message must be a string of 1 to {_MAX_ID_LENGTH} characters.")
    if message_id is not None:
        check_characters(message_id, max_bytes=sys.maxsize)
    return Human(content=text, id=message_id)


def _text(content: object) -> str:
    """Return the text of a message's content: a string, or a list of text blocks."""
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
                raise InputSchema("A message may only contain text: the analyst does not read images, files or audio.")
    return "\n".join(parts)


def _not_a_user_message() -> InputSchema:
    return InputSchema(f"The input may only contain user messages, such as {_SHAPE}, not messages of a system, an assistant or a tool.")
