"""Finding agents and graphs: by the name of an installed agent, or as an agent or graph that a caller passes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from interlock.agent import Agent
from interlock.contract import Graph
from interlock.errors import AgentUnknown, InterlockError, RoleUnknown
from interlock.installed import AGENTS, load_installed
from interlock.reply import Reply

__all__ = ["AGENTS", "agent_of", "entry_of", "find_graph", "load_agent"]


@functools.cache
def load_agent(name: str) -> Agent:
    """Load an installed agent. Raises AgentUnknown for a name that no agent has."""
    found = load_installed(name)
    if not isinstance(found, Agent) or found.name != name:
        is_one = f"an Agent named '{found.name}'" if isinstance(found, Agent) else f"a '{type(found).__name__}'"
        raise AgentUnknown(f"What is installed as agent '{name}' is {is_one}. It has to be an Agent of the same name.")
    return found


def find_graph(name: str) -> tuple[Agent, Graph]:
    """Return a graph by its name, or the entry graph of the agent of that name, with the agent that it belongs to."""
    if name in AGENTS:
        agent = load_agent(name)
        return agent, entry_of(agent, None)
    found: dict[str, tuple[Agent, Graph]] = {}
    for installed in AGENTS:
        # An agent that cannot be loaded has no graphs.
        with suppress(InterlockError):
            agent = load_agent(installed)
            found |= {graph.name: (agent, graph) for graph in agent.graphs}
    if name in found:
        return found[name]
    known = ", ".join(found)
    raise AgentUnknown(f"There is no graph '{name}'. There are: {known}.")


def agent_of(graph: Graph) -> Agent:
    """Return an agent with one graph: text becomes the one field that the graph takes, the reply is the field that it gives."""

    def reply(state: Mapping[str, Any]) -> Reply:
        return Reply(output=state if graph.gives is None else state.get(graph.gives))

    return Agent(name=graph.name, summary="", graphs=(graph,), entries={None: graph}, reply=reply)


def entry_of(agent: Agent, role: str | None) -> Graph:
    """Return the graph that a role enters. Raises RoleUnknown for a role that the agent does not have."""
    if role is not None and not isinstance(role, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
        raise RoleUnknown(f"The role is a '{type(role).__name__}': pass text.")
    if role not in agent.entries:
        roles = ", ".join(f"'{known}'" for known in agent.entries if known is not None) or "no roles"
        if role is None:
            raise RoleUnknown(f"Agent '{agent.name}' is entered by a role: {roles}. Fix: name it, by '--as ROLE' or 'role='.")
        raise RoleUnknown(f"Agent '{agent.name}' has no entry for role '{role}'. It has {roles}.")
    return agent.entries[role]
