"""What a command is about: an agent by its name, or a graph of your own as MODULE:GRAPH."""

from __future__ import annotations

import importlib
import sys
from typing import TypeVar

from interlock.contract import Graph
from interlock.errors import AgentUnknown, ContractError
from interlock.runtime.agent import Agent
from interlock.wiring import AGENTS, agent_of, load_agent

__all__ = ["find", "find_all", "load"]

T = TypeVar("T")


def find(name: str) -> Agent:
    """Find an agent, or make one of a graph in a module that can be imported from here."""
    return agent_of(load(name, Graph)) if ":" in name else load_agent(name)


def load(name: str, kind: type[T]) -> T:
    """Load MODULE:NAME from a module that can be imported from the current directory."""
    module_name, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except ContractError:
        raise
    except Exception as error:
        raise AgentUnknown(f"'{name}' cannot be loaded: {type(error).__name__}: {error}.") from error
    if not isinstance(found, kind):
        raise AgentUnknown(f"'{name}' is a {type(found).__name__}, not a {kind.__name__}.")
    return found


def find_all(name: str | None) -> list[Agent]:
    """Find one agent, or all of them."""
    return [load_agent(known) for known in AGENTS] if name is None else [find(name)]
