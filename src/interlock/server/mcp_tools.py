"""Agents as tools of the Model Context Protocol: a tool for each role of an agent, with the input schema of its entry graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import ConfigDict, Field, create_model

from interlock.agent import Agent
from interlock.contract import Graph

__all__ = ["OUTPUT_SCHEMA", "AgentTool", "agent_tools"]

_SESSION: Mapping[str, Any] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_-]{1,64}$",
    "description": "The conversation to continue; a new one by default.",
}
OUTPUT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["session", "turn"],
    "properties": {
        "output": {"description": "The reply of the agent."},
        "session": {"type": "string", "description": "The conversation, to continue it by another call."},
        "turn": {"type": ["string", "null"]},
        "question": {"type": "object", "description": "What the agent asks; the next call of the conversation answers it."},
        "error": {"type": "object", "properties": {"code": {"type": "string"}, "message": {"type": "string"}}},
    },
}
_PROBES = ("first", "second")


@dataclass(frozen=True)
class AgentTool:
    """An agent that is entered by a role."""

    agent: Agent
    role: str | None

    @property
    def name(self) -> str:
        """The name of the tool: of letters, digits and `_`, which every model can call."""
        return self.agent.name if self.role is None else f"{self.agent.name}_{self.role}"

    @property
    def graph(self) -> Graph:
        """The graph that is entered."""
        return self.agent.entries[self.role]

    @cached_property
    def text_fields(self) -> list[str]:
        """The input fields that text becomes: what a call has to say."""
        texts = [self._parsed(text, "session") for text in _PROBES]
        return [name for name in self.graph.state.takes if texts[0].get(name) != texts[1].get(name)]

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The input fields that callers may set as a JSON schema, and the session."""
        texts = [self._parsed("text", session) for session in _PROBES]
        of_session = [name for name in self.graph.state.takes if texts[0].get(name) != texts[1].get(name)]
        fields: dict[str, Any] = {
            name: (self.graph.state.fields[name].annotated, ... if name in self.text_fields else Field(default_factory=lambda: None))
            for name in self.graph.state.takes
            if name not in of_session
        }
        schema = create_model("Input", __config__=ConfigDict(extra="forbid"), **fields).model_json_schema()
        schema.pop("title")
        if "session" not in schema["properties"]:
            schema["properties"]["session"] = dict(_SESSION)
        return schema

    def split(self, arguments: Mapping[str, Any]) -> tuple[str | Mapping[str, Any], Any]:
        """Return the input of a call, as text where it is nothing else, and the session that it names."""
        takes_session = "session" in self.graph.state.takes
        given = {name: value for name, value in arguments.items() if name != "session" or takes_session}
        session = None if takes_session else arguments.get("session")
        if len(given) == 1 and list(given) == self.text_fields:
            (value,) = given.values()
            return (value if isinstance(value, str) else given), session
        return given, session

    def _parsed(self, text: str, session: str) -> Mapping[str, Any]:
        if self.agent.parse_input is None:
            return dict.fromkeys(self.graph.state.takes[:1], text)
        return self.agent.parse_input(text, session)


def agent_tools(agents: Mapping[str, Agent]) -> dict[str, AgentTool]:
    """Return the tools of agents by their names."""
    tools = [AgentTool(agent, role) for agent in agents.values() for role in agent.entries]
    return {tool.name: tool for tool in tools}
