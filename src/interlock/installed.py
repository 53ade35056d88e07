"""Installed agents: packages declare them as entry points.

[project.entry-points."interlock.agents"]
shop = "my_shop:agent"
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping, Sequence

from interlock.errors import AgentUnknown, ContractError, ExtraMissing
from interlock.extras import missing_packages
from interlock.spelling import closest

__all__ = ["AGENTS", "GROUP", "how_to_install", "load_installed"]

GROUP = "interlock.agents"
"""The group of entry points that name agents."""


def _entry_points() -> Mapping[str, Sequence[importlib.metadata.EntryPoint]]:
    found: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return found


_POINTS = _entry_points()

AGENTS = tuple(sorted(_POINTS))
"""The names of the installed agents. Listing them loads none."""


@functools.cache
def load_installed(name: str) -> object:
    """Load the agent of this name. Raises AgentUnknown if it does not exist or cannot be loaded."""
    points = _POINTS.get(name, ())
    if not points:
        close = closest(name, AGENTS)
        meant = f"Did you mean '{close[0]}'?" if close else _known()
        raise AgentUnknown(f"There is no agent '{name}'. {meant} On the command line, one of your own is MODULE:NAME.")
    if len(points) > 1:
        packages = " and ".join(f"'{'?' if point.dist is None else point.dist.name}'" for point in points)
        raise AgentUnknown(f"Agent '{name}' is in several packages: {packages}. Uninstall all but one of them.")
    install = how_to_install(name)
    if install is not None:
        raise ExtraMissing(f"Agent '{name}' is not installed completely. Run: {install}")
    try:
        return points[0].load()
    except ContractError:
        raise
    except Exception as error:
        raise AgentUnknown(f"Agent '{name}' cannot be loaded from '{points[0].value}': {type(error).__name__}: {error}.") from error


def how_to_install(name: str) -> str | None:
    """Return the command that installs the missing packages of an agent, or None if it has all. The agent is not loaded.

    An entry point names the extras that its agent needs: `shop = "my_shop:agent [shop]"`.
    """
    for point in _POINTS.get(name, ()):
        if point.dist is not None and any(missing_packages(point.dist.name, extra) for extra in point.extras):
            return f"pip install '{point.dist.name}[{','.join(point.extras)}]'"
    return None


def _known() -> str:
    if AGENTS:
        return f"There are: {', '.join(AGENTS)}."
    # In a development environment the entry points date from the last installation of the package.
    return "No agent is installed, not even those of Interlock. Install it again: 'make setup', or 'pip install -e .'."
