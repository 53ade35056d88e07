"""Refuses workers on several machines whose agents would keep data on each machine for itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from interlock.agent import Agent
from interlock.errors import SettingsInvalid
from interlock.providers.resolver import Providers
from interlock.providers.stores import missing_session_state
from interlock.settings import Settings

__all__ = ["check_machines"]


def check_machines(settings: Settings, providers: Providers, agents: Iterable[Agent]) -> None:
    """Raise SettingsInvalid where machines share the turns of an agent, but not what it keeps beside them.

    A session would have other data on each machine, and lose it from one turn to the next.
    """
    url = None if settings.turn_url is None else settings.turn_url.get_secret_value()
    if settings.one_machine or url is None or not url.startswith(("postgresql://", "postgres://")):
        return
    for agent in agents:
        missing = sorted(set(_missing(settings, providers, agent)))
        if missing:
            says = (
                f"Turns of '{agent.name}' can be run by several machines, because 'turn_url' is PostgreSQL, but each would keep other data."
            )
            names = ", ".join(missing)
            raise SettingsInvalid(f"{says} Fix: set {names}; or 'one_machine', if all workers are on this machine; or run other agents.")


def _missing(settings: Settings, providers: Providers, agent: Agent) -> Iterator[str]:
    """Yield the settings that several machines need to share what an agent keeps."""
    found = [missing_session_state(settings)] if agent.persists else []
    found += [provider.missing(settings) for provider in providers.used(agent) if provider.missing is not None]
    yield from (name for name in found if name is not None)
