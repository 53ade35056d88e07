"""The graphs that `langgraph.json` names, for LangGraph's own server and studio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.settings import read_settings
from interlock.wiring import Interlock

if TYPE_CHECKING:
    from interlock.engine.langgraph import AnyCompiledGraph

__all__ = ["analyst", "desk", "gateway_admin", "gateway_user", "puntini", "sam"]


def sam() -> AnyCompiledGraph:
    """Make sam's graph."""
    return Interlock().langgraph("sam")


def desk() -> AnyCompiledGraph:
    """Make the graph that handles a message at the desk."""
    return Interlock().langgraph("desk")


def analyst() -> AnyCompiledGraph:
    """Make the analyst's graph."""
    return Interlock().langgraph("analyst")


def gateway_admin() -> AnyCompiledGraph:
    """Make the graph of the gateway's admin side: whoever may reach the server may reach it, so let the server ask who it is."""
    return Interlock().langgraph("gateway.admin")


def gateway_user() -> AnyCompiledGraph:
    """Make the graph of the gateway's customer side."""
    return Interlock().langgraph("gateway.user")


def puntini() -> AnyCompiledGraph:
    """Make puntini's graph; a turn there goes on without a person."""
    return Interlock(read_settings(human="nobody")).langgraph("puntini")
