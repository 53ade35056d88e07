"""The state in LangGraph's own API: `messages` and `tool_outputs` are LangChain messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.engine.messages import NativeField, ai_message, human_message, tool_message
from interlock_agents.analyst.input import humans
from interlock_agents.analyst.state import Ai, Human, Message, ToolOutput

__all__ = ["NATIVE"]


def _show_messages(messages: Sequence[Message]) -> list[Any]:
    """Convert messages to LangChain's classes. A Trim never occurs in the state."""
    made: list[Any] = []
    for one in messages:
        if isinstance(one, Human):
            made.append(human_message(one.content, one.id))
        elif isinstance(one, Ai):
            made.append(ai_message(one.content, one.id))
    return made


def _show_outputs(outputs: Sequence[ToolOutput]) -> list[Any]:
    return [
        tool_message(one.id, one.tool, one.result, error=one.error, about={"args": one.args, "code": one.code, "part": one.part})
        for one in outputs
    ]


def _sign(messages: Sequence[Message], own_id: str, text: str) -> tuple[Message, ...]:
    return tuple(
        replace(one, id=own_id) if isinstance(one, Ai) and one.id is None and one.content.startswith(text) else one for one in messages
    )


NATIVE: Mapping[str, NativeField] = {
    "messages": NativeField(show=_show_messages, admit=humans, sign=_sign),
    "tool_outputs": NativeField(show=_show_outputs),
}
