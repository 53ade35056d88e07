"""Take away from a node what LangGraph's ambient functions go by: a guard against mistakes, not a sandbox."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["no_ambient_access"]


@contextmanager
def no_ambient_access() -> Generator[None]:
    """Hide the config that get_config(), get_store(), get_runtime() and the like find everything by.

    Where LangChain is not loaded there is nothing to hide, and no need to load it.
    """
    module = sys.modules.get("langchain_core.runnables.config")
    if module is None:
        yield
        return
    token = module.var_child_runnable_config.set(None)
    try:
        yield
    finally:
        module.var_child_runnable_config.reset(token)
