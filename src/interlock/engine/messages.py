"""How fields of a handed-out graph look to LangGraph's users: as LangChain's messages, while nodes and stores have records.

LangChain is imported when the first message is shown: declaring an agent must not take the time that it needs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["NativeField", "Shown", "ai_message", "human_message", "records_of", "tool_message"]


@dataclass(frozen=True)
class NativeField:
    """One field: what a caller gets to see, what a caller may pass, and the id of a message that was streamed."""

    show: Callable[[Any], list[Any]]
    admit: Callable[[Any], Any] | None = None
    sign: Callable[[Any, str, str], Any] | None = None
    """Give the record of what was streamed the id of the message that its chunks had: LangGraph shows a message once."""


class Shown(list[Any]):
    """A value as a caller sees it, together with the records that it stands for."""

    def __init__(self, field: NativeField, records: Any) -> None:
        super().__init__(field.show(records))
        self.records = records


def records_of(value: Any) -> Any:
    """Return the records behind a value that a caller sees; any other value is returned as it is."""
    return value.records if type(value) is Shown else value


def human_message(text: str, own_id: str | None) -> Any:
    """Make the message of what a user said."""
    from langchain_core.messages import HumanMessage  # noqa: PLC0415 - see above

    return HumanMessage(content=text, id=own_id)


def ai_message(text: str, own_id: str | None) -> Any:
    """Make the message of what an agent said."""
    from langchain_core.messages import AIMessage  # noqa: PLC0415 - see above

    return AIMessage(content=text, id=own_id)


def tool_message(call: str, tool: str, found: Any, *, error: str | None, about: Mapping[str, Any]) -> Any:
    """Make the message of a tool's result: its text is what a model would read, `artifact` has the result as it is."""
    from langchain_core.messages import ToolMessage  # noqa: PLC0415 - see above

    text = error if error is not None else found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return ToolMessage(
        content=text, tool_call_id=call, name=tool, status="success" if error is None else "error", artifact={"result": found, **about}
    )
