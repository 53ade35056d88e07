"""The declaration of an agent: its graphs, how input is parsed, and how the final state becomes a reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from interlock.contract import Graph
from interlock.engine.messages import NativeField
from interlock.errors import ContractError, Problem
from interlock.invariants import Invariant
from interlock.models.rules import Rules
from interlock.providers.provider import Provider
from interlock.reply import Reply
from interlock.runtime.targets import Subgraph
from interlock.settings import AgentSettings

__all__ = ["Agent", "Export", "SessionCopy"]


@dataclass(frozen=True)
class Export:
    """A file that can be written of a result: its text, and what it is for a person ("12 rows")."""

    text: str
    what: str


@dataclass(frozen=True, kw_only=True)
class SessionCopy:
    """A session that is to be continued under another name. Both are names under which an agent's own stores keep sessions."""

    session: str
    to: str
    find: Callable[[type], Any]
    """Returns the adapter of a capability."""
    read: Mapping[str, Any]
    """What the forked turn had read, as JSON data: the first result of each method, by `Capability.method`."""


_FIELD_FIX = "name a field of the state."


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A named agent."""

    name: str
    """The name by which commands and programs find the agent."""
    summary: str
    """One line on what the agent does, for `interlock agents`."""
    graphs: Sequence[Graph]
    """All graphs of the agent."""
    entries: Mapping[str | None, Graph]
    """The graph that each role enters. The key None is for a caller who names no role."""
    reply: Callable[[Mapping[str, Any]], Reply]
    """Makes the reply from the final state."""
    parse_input: Callable[[str | Mapping[str, Any], str], Mapping[str, Any]] | None = None
    """Parses text or fields, with the session id, into the input fields. Without it, text becomes the one field that the graph takes."""
    identity: str | None = None
    """The input field that says who calls. It is filled with the principal of a turn, where the caller passes one."""
    speaks: str | Sequence[str] = ()
    """The node that speaks to the user, or one for each role: what a model streams in another node is not part of the reply."""
    answers_empty: bool = False
    """Whether empty text is accepted as input."""
    offline: Rules = field(default_factory=Rules)
    """The rules that answer in place of a model."""
    document: Path | None = None
    """The architecture document that `interlock verify` compares with the rows."""
    invariants: Sequence[Invariant] = ()
    """What the agent guarantees beyond its contracts."""
    scenes: Path | None = None
    """The file with its scenarios, for the tests and the tour."""
    subgraphs: Mapping[type, Subgraph] = field(default_factory=dict[type, Subgraph])
    """The capabilities that are provided by graphs of the agent."""
    has_sessions: bool = False
    """Whether turns of one session run one after the other."""
    pauses: bool = False
    """Whether a turn may be suspended until a person answers."""
    persists: Sequence[str] = ()
    """The persisted fields: saved when a turn succeeds, and loaded when the next turn of the session starts."""
    partial: Callable[[Mapping[str, Any], str], Any] | None = None
    """Makes the output of a turn that failed, from the state that it reached and the text that its model had streamed."""
    native: Mapping[str, NativeField] = field(default_factory=dict[str, NativeField])
    """The fields that appear as LangChain messages in the exported LangGraph graph."""
    follow: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None
    """Returns the input of a turn that is run at once after a successful one, from its final state, or None for no such turn."""
    abort: str | None = None
    """The answer that ends a suspended turn. With it, a new input of the session ends the suspended turn first."""
    least_steps: int = 1
    """How many steps a turn needs to end by its own rows, whatever happens in it. A smaller `max_steps` is refused before the turn."""
    providers: Sequence[Provider] = ()
    """Make the adapters of capabilities that the library does not provide, or that the agent provides in another way."""
    settings: type[AgentSettings] | None = None
    """The class of the settings that belong to this agent alone."""
    exports: Mapping[str, Callable[[Mapping[str, Any]], Sequence[Export]]] = field(
        default_factory=dict[str, Callable[[Mapping[str, Any]], Sequence[Export]]]
    )
    """What `--save FILE` can write of a final state, by the ending of the file's name: `.csv`."""
    stored: Mapping[str, Callable[[Callable[[type], Any], str], Awaitable[JsonValue]]] = field(
        default_factory=dict[str, Callable[[Callable[[type], Any], str], Awaitable[JsonValue]]]
    )
    """What scenarios can expect in the agent's own stores, by name: functions of an adapter finder and the session."""

    copy_session: Callable[[SessionCopy], Awaitable[None]] | None = None
    """Copies what the agent keeps by session in its own stores to another session, for a turn that is forked there."""

    def __post_init__(self) -> None:
        problems = [
            Problem("unknown_field", f"agent '{self.name}' persists '{name}', which is no field of the state.", _FIELD_FIX, graph.name)
            for graph in self.entries.values()
            for name in self.persists
            if name not in graph.state.fields
        ]
        nodes = dict.fromkeys(name for graph in (*self.entries.values(), *self.graphs) for name in graph.nodes)
        fix = f"name one of its nodes: {', '.join(nodes)}."
        problems += [
            Problem("unknown_node", f"agent '{self.name}' speaks by '{name}', which is no node of its graphs.", fix, self.name)
            for name in self.speakers
            if name not in nodes
        ]
        if problems:
            raise ContractError(problems)

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of the nodes that speak to the user."""
        return (self.speaks,) if isinstance(self.speaks, str) else tuple(self.speaks)
