"""`interlock doctor`: what is configured, what can be reached, what is missing and how to get it.

Each provider checks what it provides. This module checks the rest: Python, packages, engine, settings, data folder, agents.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr
from pydantic_settings import BaseSettings

from interlock.agent import Agent
from interlock.discovery import AGENTS, load_agent
from interlock.errors import ExtraMissing, InterlockError, StoreUnavailable
from interlock.extras import is_installed
from interlock.providers.provider import Check
from interlock.providers.resolver import Providers
from interlock.providers.stores import open_session_state
from interlock.secrets import without_password
from interlock.settings import Settings, misspelt_variables
from interlock.stores.session_files import read_threads

__all__ = ["Check", "examine"]

PACKAGES = ("pydantic", "langgraph", "langchain-core", "langchain-openai")
_CALL_S = 5.0  # how long a server may take to answer
_NO_SESSION = ".doctor"  # cannot be the name of a session, because it has a dot


async def examine(settings: Settings, agents: Iterable[str | Agent] = AGENTS) -> AsyncIterator[Check]:
    """Run all checks, one after the other. `agents` are names of installed agents, or agents. No check changes anything."""
    yield Check(what="python", state="ok", found=f"{platform.python_version()}, interlock {importlib.metadata.version('interlock')}")
    yield Check(what="packages", state="ok", found=", ".join(map(_version, PACKAGES)))
    yield _check_engine(settings)
    yield _check_settings(settings)
    yield _check_folder(settings.folder)
    quick = settings.model_copy(update={"max_call_seconds": _CALL_S, "graph_seconds": _CALL_S})
    providers = Providers(quick, {})
    async for check in providers.check():
        yield check
    yield await _check_session_state(quick)
    yield _check_tracing()
    for agent in agents:
        try:
            found = load_agent(agent) if isinstance(agent, str) else agent
            yield _check_agent(found, settings)
        except ExtraMissing as error:
            yield Check(what=f"agent {agent}", state="off", found="not installed", fix=error.command)
            continue
        except InterlockError as error:
            yield Check(what=f"agent {agent if isinstance(agent, str) else agent.name}", state="broken", found=error.message)
            continue
        async for check in providers.check(found.providers, found):
            yield check


def _version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} not installed"


def _check_engine(settings: Settings) -> Check:
    """Check the engine, and say why it is chosen."""
    if is_installed("langgraph"):
        why = "as set" if "engine" in settings.model_fields_set else "the default, because LangGraph is installed"
        return Check(what="engine", state="ok", found=f"{settings.engine} ({why})")
    fix = "pip install 'interlock[langgraph]'"
    if settings.engine == "langgraph":
        return Check(what="engine", state="broken", found="langgraph is set, but LangGraph is not installed", fix=fix)
    return Check(what="engine", state="ok", found="direct (LangGraph is not installed)", fix=fix)


def _check_settings(settings: Settings) -> Check:
    file = "interlock.toml is read" if Path("interlock.toml").exists() else "no interlock.toml here"
    misspelt = [f"{name} (did you mean {close}?)" for name, close in misspelt_variables()]
    if misspelt:
        return Check(what="settings", state="broken", found=f"without effect, because it is not a setting: {', '.join(misspelt)}")
    return Check(what="settings", state="ok", found=f"{file}; {_changed(settings) or 'all defaults'}")


def _changed(settings: BaseSettings) -> str:
    """List the settings that differ from their defaults."""
    names = sorted(settings.model_fields_set & type(settings).model_fields.keys())
    return ", ".join(f"{name} = {_shown(getattr(settings, name))}" for name in names)


def _shown(value: object) -> str:
    """Write a setting. Of a mapping only the keys are shown, because a value may be an API key."""
    if isinstance(value, SecretStr):
        return "set"
    return ", ".join(cast("dict[str, Any]", value)) if isinstance(value, dict) else without_password(str(value))


def _check_folder(folder: Path) -> Check:
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Check(what="data", state="broken", found=f"{folder} cannot be written", fix="set INTERLOCK_DATA_DIR to a folder of yours")
    return Check(what="data", state="ok", found=f"{folder}{'' if folder.exists() else ' (created when it is needed)'}")


async def _check_session_state(settings: Settings) -> Check:
    """Look for the sessions of agents whose fields outlive a turn. Neither a file nor a table is made or changed."""
    url = None if settings.checkpoint_url is None else settings.checkpoint_url.get_secret_value()
    shown = str(settings.folder / "sessions.sqlite") if url is None else without_password(url)
    fix = "INTERLOCK_CHECKPOINT_URL=postgresql://... or firestore:PROJECT" if url is None else ""
    try:
        found = await _find_session_state(settings, url)
    except ExtraMissing as error:
        return Check(what="checkpoints", state="off", found="not installed", fix=error.command)
    except InterlockError as error:
        return Check(what="checkpoints", state="broken", found=f"{shown}: {error.message}", fix=fix)
    return Check(what="checkpoints", state="ok", found=f"{shown} {found}", fix=fix)


async def _find_session_state(settings: Settings, url: str | None) -> str:
    """Say what is at the URL, or raise what a turn would raise."""
    store, close = open_session_state(settings, None, "")
    try:
        if url == "memory:":
            return "(gone when the command ends)"
        if url is None or url.startswith("sqlite:"):
            return _sessions_in(settings.folder / "sessions.sqlite" if url is None else Path(url.removeprefix("sqlite:")))
        if url.startswith("firestore:"):
            await store.load(_NO_SESSION)
        else:
            async with store.exclusive(_NO_SESSION):  # asks the server for a lock, and makes no table
                pass
    finally:
        await close()
    return "answers"


def _sessions_in(place: Path) -> str:
    path = place.expanduser()
    if not path.exists():
        return "(created when it is needed)"
    if not path.is_file() or not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreUnavailable("it cannot be written.")
    count = len(read_threads(path))
    return f"has {count} session{'' if count == 1 else 's'}"


def _check_tracing() -> Check:
    if not is_installed("opentelemetry.sdk"):
        return Check(what="tracing", state="off", found="no OpenTelemetry SDK", fix="pip install opentelemetry-distro and configure it")
    is_set_up = "opentelemetry.sdk.trace" in sys.modules
    found = "an OpenTelemetry SDK is installed" + ("" if is_set_up else "; spans go where it is configured to send them")
    return Check(what="tracing", state="ok", found=found)


def _check_agent(agent: Agent, settings: Settings) -> Check:
    graphs, nodes = len(agent.graphs), sum(len(graph.nodes) for graph in agent.graphs)
    found = f"{graphs} graph{'' if graphs == 1 else 's'}, {nodes} node{'' if nodes == 1 else 's'}, every contract holds"
    changed = "" if agent.settings is None else _changed(settings.of(agent.settings))
    return Check(what=f"agent {agent.name}", state="ok", found=f"{found}; {changed}" if changed else found)
