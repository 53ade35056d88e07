"""Fields of an exported graph that callers see as LangChain messages, while nodes and stores have records.

LangChain is imported when the first message is created, so that declaring an agent does not take the time of that import.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["NativeField", "Shown", "ai_message", "human_message", "records_of", "tool_message"]


@dataclass(frozen=True)
class NativeField:
    """How a field is shown to callers (`show`), how a caller's messages are parsed (`admit`), and how a streamed record gets its id."""

    show: Callable[[Any], list[Any]]
    admit: Callable[[Any], Any] | None = None
    sign: Callable[[Any, str, str], Any] | None = None
    """Set the id of the record whose text was streamed to the id of its chunks, so that LangGraph shows the message once."""


class Shown(list[Any]):
    """A field's value as a list of messages, with the records that they were made from."""

    def __init__(self, field: NativeField, records: Any) -> None:
        super().__init__(field.show(records))
        self.records = records


def records_of(value: Any) -> Any:
    """Return the records of a Shown value; return any other value as it is."""
    return value.records if type(value) is Shown else value


def human_message(text: str, own_id: str | None) -> Any:
    """Create the message of a user."""
    from langchain_core.messages import HumanMessage  # noqa: PLC0415 - see above

    return HumanMessage(content=text, id=own_id)


def ai_message(text: str, own_id: str | None) -> Any:
    """Create the message of an agent."""
    from langchain_core.messages import AIMessage  # noqa: PLC0415 - see above

    return AIMessage(content=text, id=own_id)


def tool_message(call: str, tool: str, found: Any, *, error: str | None, about: Mapping[str, Any]) -> Any:
    """Create the message of a tool's result. Its text is what a model would read; `artifact` has the result itself."""
    from langchain_core.messages import ToolMessage  # noqa: PLC0415 - see above

    text = error if error is not None else found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return ToolMessage(
        content=text, tool_call_id=call, name=tool, status="success" if error is None else "error", artifact={"result": found, **about}
    )
