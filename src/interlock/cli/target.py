"""What a command is about: an agent by its name, or an agent or a graph of your own as MODULE:NAME; and the options that say how."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, TypeVar, cast

import typer

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.contract import Graph
from interlock.discovery import AGENTS, agent_of, load_agent
from interlock.engine import ENGINES
from interlock.errors import AgentUnknown, ContractError, InterlockError
from interlock.runtime.observe import configure_logging
from interlock.settings import read_settings

__all__ = [
    "INTRODUCED",
    "AgentArgument",
    "EngineOption",
    "GrantsOption",
    "ModelOption",
    "agent_names",
    "closing",
    "find",
    "find_all",
    "find_introduced",
    "load",
    "open_app",
    "own",
    "starting_with",
    "target",
]

T = TypeVar("T")
INTRODUCED = ("sam", "desk", "analyst", "gateway", "puntini")
"""The agents that come with Interlock, in the order in which the documentation introduces them."""
MODELS = ("offline", "stub", "local", "scripted:", "openai:")


def starting_with(*known: str) -> Callable[[str], list[str]]:
    """Complete a word of the command line to one of these."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


AgentArgument = Annotated[str, typer.Argument(help="An agent, or one of your own as MODULE:NAME.", autocompletion=starting_with(*AGENTS))]
ModelOption = Annotated[
    str | None,
    typer.Option(help="Who answers: offline, stub, local, scripted:FILE or provider:name.", autocompletion=starting_with(*MODELS)),
]
EngineOption = Annotated[str | None, typer.Option(help="Who walks the rows: langgraph or direct.", autocompletion=starting_with(*ENGINES))]
GrantsOption = Annotated[str | None, typer.Option(help="For one of your own: a mapping of capabilities to adapters, as MODULE:NAME.")]


def open_app(grants: str | None = None, **given: Any) -> Interlock:
    """Make the application of one command, with its log on standard error."""
    app = Interlock(read_settings(**given), grants=None if grants is None else cast("Mapping[type, object]", load(grants, dict)))
    configure_logging(app.settings.log_level, app.redactor)
    return app


async def closing(app: Interlock, work: Awaitable[T]) -> T:
    """Do something with an application and release it, also where the process is told to end."""
    task = asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        # With any handler of its own the loop wakes for every signal. Without one, Ctrl-C that comes as it falls asleep waits.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with app:
        return await work


def target(name: str) -> str | Graph | Agent:
    """Return what to run: the name of an agent, or an agent or a graph of your own."""
    return own(name) if ":" in name else name


def own(name: str) -> Graph | Agent:
    """Load an agent or a graph of your own."""
    found = load(name, object)
    if not isinstance(found, Graph | Agent):
        raise AgentUnknown(f"'{name}' is a {type(found).__name__}, not an Agent or a Graph.")
    return found


def find(name: str) -> Agent:
    """Find an agent, one graph of an agent, or what is one in a module that can be imported from here."""
    if ":" in name:
        found = own(name)
        return found if isinstance(found, Agent) else agent_of(found)
    for known in agent_names() if name not in AGENTS else ():
        with suppress(InterlockError):  # an agent that cannot be loaded has no graphs
            for graph in (agent := load_agent(known)).graphs:
                if graph.name == name:
                    return replace(agent, graphs=(graph,), subgraphs={}, invariants=())
    return load_agent(name)


def load(name: str, kind: type[T]) -> T:
    """Load MODULE:NAME from a module that can be imported from the current directory."""
    module_name, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except ContractError:
        raise
    except (Exception, SystemExit) as error:
        raise AgentUnknown(f"'{name}' cannot be loaded: {type(error).__name__}: {error}.") from error
    if not isinstance(found, kind):
        raise AgentUnknown(f"'{name}' is a {type(found).__name__}, not a {kind.__name__}.")
    return found


def agent_names() -> list[str]:
    """List the names of the installed agents: first those that come with Interlock, then the others by the alphabet."""
    return sorted(AGENTS, key=lambda name: (INTRODUCED.index(name) if name in INTRODUCED else len(INTRODUCED), name))


def find_introduced() -> list[Agent]:
    """Load the agents that come with Interlock."""
    return [load_agent(name) for name in INTRODUCED]


def find_all(name: str | None) -> list[Agent]:
    """Find one agent, or all that are installed."""
    return [load_agent(known) for known in agent_names()] if name is None else [find(name)]
