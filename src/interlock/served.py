"""The graphs that `langgraph.json` names, for LangGraph's own server and studio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.wiring import Interlock

if TYPE_CHECKING:
    from interlock.engine.langgraph import AnyCompiledGraph

__all__ = ["analyst", "desk", "sam"]


def sam() -> AnyCompiledGraph:
    """Make sam's graph."""
    return Interlock().langgraph("sam")


def desk() -> AnyCompiledGraph:
    """Make the graph that handles a message at the desk."""
    return Interlock().langgraph("desk")


def analyst() -> AnyCompiledGraph:
    """Make the analyst's graph."""
    return Interlock().langgraph("analyst")
