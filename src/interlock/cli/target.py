"""The agent that a command is about, by its name or as MODULE:NAME, and the options that several commands share."""

from __future__ import annotations

import asyncio
import importlib
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import typer

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.cli.screen import safe
from interlock.contract import Graph
from interlock.discovery import AGENTS, agent_of, load_agent
from interlock.engine import ENGINES
from interlock.errors import AgentUnknown, ContractError, InterlockError
from interlock.logs import configure_logging
from interlock.settings import read_settings
from interlock.spelling import closest

__all__ = [
    "AgentArgument",
    "EngineOption",
    "GrantsOption",
    "ModelOption",
    "RoleOption",
    "SessionOption",
    "UserOption",
    "YesOption",
    "check_user",
    "closed_at_end",
    "closing",
    "confirm",
    "find",
    "find_all",
    "given_options",
    "load",
    "open_app",
    "own",
    "starting_with",
    "target",
]

T = TypeVar("T")
MODELS = ("offline", "stub", "local", "scripted:", "openai:")


def starting_with(*known: str) -> Callable[[str], list[str]]:
    """Return a completion that suggests these words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


AgentArgument = Annotated[
    str, typer.Argument(help="The name of an agent, or MODULE:NAME for an agent of your own.", autocompletion=starting_with(*AGENTS))
]
ModelOption = Annotated[
    str | None,
    typer.Option(help="The model: offline, stub, local, scripted:FILE or provider:name.", autocompletion=starting_with(*MODELS)),
]
EngineOption = Annotated[str | None, typer.Option(help="The engine: langgraph or direct.", autocompletion=starting_with(*ENGINES))]
GrantsOption = Annotated[str | None, typer.Option(help="For an agent of your own: a mapping of capabilities to adapters, as MODULE:NAME.")]
SessionOption = Annotated[str | None, typer.Option(help="The session of the turn; a new one by default.")]
RoleOption = Annotated[str | None, typer.Option("--as", help="The role of the caller, for an agent with several roles.")]
UserOption = Annotated[
    str | None, typer.Option("--user", "--customer", help="Who calls: the value of the agent's identity field, such as the customer's id.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is deleted. Without a terminal, `--yes` is required."""
    if yes:
        return
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise typer.BadParameter("This cannot be undone. Fix: add '--yes'.")
    typer.confirm(safe(question), abort=True)


def open_app(grants: str | None = None, **given: Any) -> Interlock:
    """Create the application of a command, with its log on standard error."""
    app = Interlock(read_settings(**given), grants=None if grants is None else cast("Mapping[type, object]", load(grants, dict)))
    configure_logging(app.settings.log_level, app.redactor)
    return app


def given_options(**given: str | None) -> list[str]:
    """Return the options that were given, as arguments of another command."""
    return [part for name, value in given.items() if value is not None for part in (f"--{name}", value)]


def check_user(agent: str, user: str | None) -> None:
    """Refuse `--user` for an agent without an identity field, which would ignore it."""
    if user is not None and find(agent).identity is None:
        raise typer.BadParameter(f"Agent '{agent}' has no identity field, so '--user' has no effect.")


async def closing(app: Interlock, work: Awaitable[T]) -> T:
    """Await the work and close the application, also on SIGTERM."""
    async with closed_at_end(app):
        return await work


@asynccontextmanager
async def closed_at_end(app: Interlock) -> AsyncGenerator[None]:
    """Close the application at the end of the block, also on SIGTERM."""
    task = asyncio.current_task()
    if task is not None and threading.current_thread() is threading.main_thread():
        # A loop with a signal handler wakes up for every signal. Without one, Ctrl-C may wait until the next event.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with app:
        yield


def target(name: str) -> str | Graph | Agent:
    """Return the argument of `Interlock.run`: the name of an installed agent, or the object at MODULE:NAME."""
    if ":" in name:
        return own(name)
    _check_own(name)
    return name


def _check_own(name: str) -> None:
    """Refuse the name of a module here, which is only the first half of the name of an agent of your own."""
    if name not in AGENTS and name.isidentifier() and (Path(name, "__init__.py").is_file() or Path(f"{name}.py").is_file()):
        raise AgentUnknown(f"No agent '{name}' is installed. Fix: for the module '{name}' here, name the agent in it, as '{name}:agent'.")


def own(name: str) -> Graph | Agent:
    """Load an Agent or a Graph from MODULE:NAME."""
    found = load(name, object)
    if not isinstance(found, Graph | Agent):
        raise AgentUnknown(f"'{name}' is a {type(found).__name__}, not an Agent or a Graph.")
    return found


def find(name: str) -> Agent:
    """Return an agent: an installed one by its name or by the name of one of its graphs, or the one at MODULE:NAME."""
    if ":" in name:
        found = own(name)
        return found if isinstance(found, Agent) else agent_of(found)
    _check_own(name)
    for known in AGENTS if name not in AGENTS else ():
        # An agent that cannot be loaded has no graphs.
        with suppress(InterlockError):
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
        module = importlib.import_module(module_name)
        found = getattr(module, attribute, None)
    except ContractError:
        raise
    except (Exception, SystemExit) as error:
        raise AgentUnknown(f"'{name}' cannot be loaded: {type(error).__name__}: {error}.") from error
    if found is None:
        wanted = (Agent, Graph) if kind is object else (kind,)
        fitting = [known for one in wanted for known, value in vars(module).items() if isinstance(value, one)]
        close = closest(attribute, fitting) or fitting
        fix = f" Did you mean '{module_name}:{close[0]}'?" if close else ""
        raise AgentUnknown(f"'{name}' cannot be loaded: module '{module_name}' has no name '{attribute}'.{fix}")
    if not isinstance(found, kind):
        raise AgentUnknown(f"'{name}' is a {type(found).__name__}, not a {kind.__name__}.")
    return found


def find_all(name: str | None) -> list[Agent]:
    """Return one agent, or all installed agents."""
    return [load_agent(known) for known in AGENTS] if name is None else [find(name)]
