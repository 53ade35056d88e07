"""The agents that are installed."""

from __future__ import annotations

import functools
import importlib

from interlock.errors import AgentUnknown

__all__ = ["AGENTS", "load_installed"]

AGENTS = ("sam", "desk", "analyst", "gateway", "puntini")
"""The names of the agents that are installed."""


@functools.cache
def load_installed(name: str) -> object:
    """Load an agent by its name. Raises AgentUnknown for a name that no agent has."""
    if name not in AGENTS:
        known = ", ".join(AGENTS)
        raise AgentUnknown(f"There is no agent '{name}'. There are: {known}. On the command line, one of your own is MODULE:NAME.")
    return importlib.import_module(f"interlock.agents.{name}").agent
