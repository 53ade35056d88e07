"""What comes in from outside: what a user says, and nothing that anybody else could have said."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

from interlock.agents.analyst.state import Human
from interlock.errors import InputSchema
from interlock.runtime.admission import check_characters

__all__ = ["ANYBODY", "admit"]

ANYBODY = "anybody"
"""Who asks, where nobody says."""

_SHAPE = '{"type": "human", "content": TEXT}'


def admit(given: str | Mapping[str, Any], session: str) -> Mapping[str, Any]:
    """Turn text, or a mapping with messages, into the fields of the graph."""
    fields: Mapping[str, Any] = {"messages": [{"type": "human", "content": given}]} if isinstance(given, str) else given
    if fields.get("session_id", session) != session:
        raise InputSchema("The session is named beside the input, by 'session', not in it.")
    messages: object = fields.get("messages")
    if isinstance(messages, str) or not isinstance(messages, Sequence) or not messages:
        raise InputSchema(f"The input has 'messages': a list of {_SHAPE}.")
    return {"user_id": ANYBODY, **fields, "messages": tuple(map(_human, cast("Sequence[object]", messages))), "session_id": session}


def _human(message: object) -> Human:
    """Take a message for what a user says if it is exactly that."""
    if type(message) is Human:
        message = vars(message)
    if isinstance(message, Mapping):
        fields = {**cast("Mapping[str, object]", message)}
        kinds = {fields.pop(name) for name in ("type", "role") if isinstance(fields.get(name), str)}
        content = fields.pop("content", None)
        if kinds in ({"human"}, {"user"}) and isinstance(content, str) and not fields:
            check_characters(content, max_bytes=sys.maxsize)
            return Human(content=content)
    raise InputSchema(f"A message is {_SHAPE} and nothing else: only what a user says comes in.")
