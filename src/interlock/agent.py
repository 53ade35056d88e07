"""What makes a graph an agent: how text comes in, and what of the final state is the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.adapters.models.rules import Rules
from interlock.contract import Graph
from interlock.engine.messages import NativeField
from interlock.errors import ContractError, Problem
from interlock.providers.provider import Provider
from interlock.reply import Reply
from interlock.runtime.subgraph import Subgraph
from interlock.verification.invariants import Invariant

__all__ = ["Agent"]


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A named agent.

    `entries` says which graph a role enters (None is the caller who names no role), `admit` turns text, or fields, and the
    session id into input fields (without it text goes into the one field that the graph takes), `reply` turns the final
    state into the reply. `offline` are the rules that stand in for a model, `document` the architecture document that the
    rows are held to, `invariants` what it promises beyond its contracts, `scenes` the file of its conversations for tests
    and tour, `subgraphs` the capabilities behind which a graph of its own stands. Where it `has_sessions`, turns of one
    session follow one another. Where it `pauses`, a turn may wait for a person. `keeps` are the fields that outlive a turn: they
    are saved when a turn succeeds, and there when the next one of the session begins. `partial` makes what can be said
    after a turn that did not succeed, from the state that it reached and the text that its model had streamed. Text that is
    empty is refused unless it `answers_empty`. `follow` returns the input of a turn that follows at once after one that
    succeeded, from the state that it left, or None. `abort` is the answer that gives up a turn that waits for a person: with it,
    a new input ends the waiting turn.
    `least_steps` is how many steps a turn needs to end by its own rows, whatever happens in it: a smaller `max_steps` is refused before
    the turn begins.
    `providers` make the adapters of capabilities that the library does not provide, or provides in another way.
    `native` says which fields look like LangChain's messages in a graph that is handed out.
    """

    name: str
    summary: str
    graphs: Sequence[Graph]
    entries: Mapping[str | None, Graph]
    reply: Callable[[Mapping[str, Any]], Reply]
    admit: Callable[[str | Mapping[str, Any], str], Mapping[str, Any]] | None = None
    answers_empty: bool = False
    offline: Rules = field(default_factory=Rules)
    document: Path | None = None
    invariants: Sequence[Invariant] = ()
    scenes: Path | None = None
    subgraphs: Mapping[type, Subgraph] = field(default_factory=dict[type, Subgraph])
    has_sessions: bool = False
    pauses: bool = False
    keeps: Sequence[str] = ()
    partial: Callable[[Mapping[str, Any], str], Any] | None = None
    native: Mapping[str, NativeField] = field(default_factory=dict[str, NativeField])
    follow: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] | None = None
    abort: str | None = None
    least_steps: int = 1
    providers: Sequence[Provider] = ()

    def __post_init__(self) -> None:
        strangers = [(graph, name) for graph in self.entries.values() for name in self.keeps if name not in graph.state.fields]
        if strangers:
            fix = "name a field of the state."
            raise ContractError(
                Problem("unknown_field", f"agent '{self.name}' keeps '{name}', which is no field.", fix, graph.name)
                for graph, name in strangers
            )
