"""The graphs that `langgraph.json` names, for LangGraph's own server and studio.

The server calls one of these functions for every run. All runs of one event loop share an application, because stores, connections and
locks belong to the application and to the loop that they were opened on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from interlock.app import Interlock
from interlock.discovery import load_agent
from interlock.settings import read_settings

if TYPE_CHECKING:
    from interlock.engine.langgraph import AnyCompiledGraph

__all__ = ["analyst", "desk", "gateway_admin", "gateway_user", "puntini", "sam"]

# Read the settings at import time: the server forbids blocking calls on the event loop.
_SETTINGS = read_settings()
for _agent in map(load_agent, ("sam", "desk", "analyst", "gateway", "puntini")):
    if _agent.settings is not None:
        _SETTINGS.of(_agent.settings)

_GRAPHS: WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Interlock, dict[str, AnyCompiledGraph]]] = WeakKeyDictionary()


def sam() -> AnyCompiledGraph:
    """Return sam's graph."""
    return _graph("sam")


def desk() -> AnyCompiledGraph:
    """Return the graph that handles a message at the desk."""
    return _graph("desk")


def analyst() -> AnyCompiledGraph:
    """Return the analyst's graph."""
    return _graph("analyst")


def gateway_admin() -> AnyCompiledGraph:
    """Return the graph of the gateway's admin side. Every client of the server can use it, so the server has to authenticate them."""
    return _graph("gateway.admin")


def gateway_user() -> AnyCompiledGraph:
    """Return the graph of the gateway's customer side."""
    return _graph("gateway.user")


def puntini() -> AnyCompiledGraph:
    """Return puntini's graph."""
    return _graph("puntini")


def _graph(name: str) -> AnyCompiledGraph:
    loop = asyncio.get_running_loop()
    if loop not in _GRAPHS:
        _GRAPHS[loop] = Interlock(_SETTINGS), {}
    app, graphs = _GRAPHS[loop]
    if name not in graphs:
        graphs[name] = app.langgraph(name)
    return graphs[name]
