"""Take away from a node what LangGraph's ambient functions go by: a guard against mistakes, not a sandbox."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["hide_ambient", "restore_ambient"]

_HOLDER = "langchain_core.runnables.config"


def hide_ambient() -> Any:
    """Hide the config by which get_config(), get_store(), get_runtime() and the like find everything.

    Return what `restore_ambient` needs. Where LangChain is not loaded there is nothing to hide, and no need to load it.
    """
    module = sys.modules.get(_HOLDER)
    if module is None or module.var_child_runnable_config.get() is None:  # as in a graph inside another
        return None
    return module.var_child_runnable_config.set(None)


def restore_ambient(hidden: Any) -> None:
    """Put back what was hidden."""
    if hidden is not None:
        sys.modules[_HOLDER].var_child_runnable_config.reset(hidden)
