"""The agents that are installed: those that a package names in its entry points.

[project.entry-points."interlock.agents"]
shop = "my_shop:agent"
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping, Sequence

from interlock.errors import AgentUnknown, ContractError

__all__ = ["AGENTS", "GROUP", "load_installed"]

GROUP = "interlock.agents"
"""The group of entry points that name agents."""


def _entry_points() -> Mapping[str, Sequence[importlib.metadata.EntryPoint]]:
    found: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        found.setdefault(point.name, []).append(point)
    return found


_POINTS = _entry_points()

AGENTS = tuple(sorted(_POINTS))
"""The names of the agents that are installed. None of them is loaded to find that out."""


@functools.cache
def load_installed(name: str) -> object:
    """Load what is installed as an agent of this name. Raises AgentUnknown where there is none, or it cannot be loaded."""
    points = _POINTS.get(name, ())
    if not points:
        raise AgentUnknown(f"There is no agent '{name}'. {_known()} On the command line, one of your own is MODULE:NAME.")
    if len(points) > 1:
        packages = " and ".join(f"'{'?' if point.dist is None else point.dist.name}'" for point in points)
        raise AgentUnknown(f"Agent '{name}' is in several packages: {packages}. Uninstall all but one of them.")
    try:
        return points[0].load()
    except ContractError:
        raise
    except Exception as error:
        raise AgentUnknown(f"Agent '{name}' cannot be loaded from '{points[0].value}': {type(error).__name__}: {error}.") from error


def _known() -> str:
    if AGENTS:
        return f"There are: {', '.join(AGENTS)}."
    # As after an update of a development environment: the entry points are those of the time when the package was installed.
    return "No agent is installed, not even those of Interlock. Install it again: 'make setup', or 'pip install -e .'."
