"""What LangChain and LangGraph find without being passed it, and how a turn is isolated from it.

Two things are ambient. One is the config by which get_config(), get_store(), get_runtime() and the like find everything:
hiding it is a guard against mistakes, not a sandbox. The other is callback handlers that the caller did not pass: a LangSmith
tracer because of an environment variable, the console in debug mode, a handler that a library registered for the whole process.
They would see every value before it is redacted.

LangChain adds such handlers in `CallbackManager.configure` and has no switch for most of them. So `configure` is wrapped,
once. What the wrapper does depends on a context variable, and where that is not set it does nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

__all__ = ["ManagerHook", "alone", "manager_hook"]

ManagerHook: TypeAlias = Callable[[Any], None]
"""Is called with every callback manager that LangChain creates, and may change its handlers."""

_CONFIG = "langchain_core.runnables.config"
_MANAGERS = "langchain_core.callbacks.manager"
_LANGSMITH = "langsmith.run_helpers"


def _passed_only(_manager: Any) -> None:
    """Mark a context in which only those handlers are called that were passed."""


_hook: ContextVar[ManagerHook | None] = ContextVar("interlock_callbacks", default=None)


@contextmanager
def alone() -> Generator[None]:
    """Run a block without LangChain's ambient config, and without callback handlers that the block does not pass itself.

    Where LangChain is not loaded there is nothing to hide, and no need to load it.
    """
    _wrap_managers()
    config: ContextVar[Any] | None = getattr(_loaded(_CONFIG), "var_child_runnable_config", None)
    config_token = None if config is None else config.set(None)
    hook_token = None if _hook.get() is _passed_only else _hook.set(_passed_only)
    tracing = None if hook_token is None else getattr(_loaded(_LANGSMITH), "tracing_context", None)
    try:
        if tracing is None:
            yield
        else:
            # LangSmith's decorators trace without LangChain's callbacks.
            with tracing(enabled=False, parent=False):
                yield
    finally:
        if hook_token is not None:
            _hook.reset(hook_token)
        if config is not None and config_token is not None:
            config.reset(config_token)


@contextmanager
def manager_hook(hook: ManagerHook) -> Generator[None]:
    """Pass every callback manager that LangChain creates to a function. Inside `alone` it is not called."""
    _wrap_managers()
    token = _hook.set(_passed_only if _hook.get() is _passed_only else hook)
    try:
        yield
    finally:
        _hook.reset(token)


def _loaded(name: str) -> Any:
    """Return a module that is loaded. One that another thread is about to load has only some of its names, and nothing to hide yet."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


def _wrap_managers() -> None:
    """Wrap `configure` of LangChain's two callback managers, once they are loaded."""
    module = _loaded(_MANAGERS)
    if module is None or hasattr(module, "interlock_wrapped"):
        return
    module.interlock_wrapped = True
    for kind in (module.CallbackManager, module.AsyncCallbackManager):
        kind.configure = classmethod(_wrapped(kind.configure.__func__))


def _wrapped(configure: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(configure)
    def wrapper(kind: Any, inheritable_callbacks: Any = None, local_callbacks: Any = None, *args: Any, **kwargs: Any) -> Any:
        made = configure(kind, inheritable_callbacks, local_callbacks, *args, **kwargs)
        hook = _hook.get()
        if hook is _passed_only:
            passed = {id(handler) for callbacks in (inheritable_callbacks, local_callbacks) for handler in _handlers(callbacks)}
            made.handlers = [handler for handler in made.handlers if id(handler) in passed]
            made.inheritable_handlers = [handler for handler in made.inheritable_handlers if id(handler) in passed]
        elif hook is not None:
            hook(made)
        return made

    return wrapper


def _handlers(callbacks: Any) -> list[Any]:
    """Return the handlers of a callbacks argument, which is None, a list or a manager."""
    return list(getattr(callbacks, "handlers", callbacks) or [])
