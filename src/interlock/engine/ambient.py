"""What LangChain and LangGraph find without being handed it, and how a turn is kept apart from it.

Two things are ambient. One is the config by which get_config(), get_store(), get_runtime() and the like find everything:
hiding it is a guard against mistakes, not a sandbox. The other is callback handlers that nobody passed: a LangSmith tracer
because of an environment variable, the console in debug mode, a handler that a library registered for the whole process.
They would see every value before secrets are taken out of it.

LangChain adds such handlers in `CallbackManager.configure` and has no switch for most of them. So `configure` is wrapped,
once; what the wrapper does depends on a context variable, and where that is not set it does nothing.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

__all__ = ["Treatment", "alone", "treating"]

Treatment: TypeAlias = Callable[[Any], None]
"""Is called with every callback manager that LangChain makes, and may change its handlers."""

_CONFIG = "langchain_core.runnables.config"
_MANAGERS = "langchain_core.callbacks.manager"
_LANGSMITH = "langsmith.run_helpers"


def _no_others(_manager: Any) -> None:
    """Stand for a context in which no handler is called but those that are passed."""


_treatment: ContextVar[Treatment | None] = ContextVar("interlock_callbacks", default=None)


@contextmanager
def alone() -> Generator[None]:
    """Run something without LangChain's ambient config, and without any callback handler that it does not pass itself.

    Where LangChain is not loaded there is nothing to hide, and no need to load it.
    """
    with ExitStack() as undone:
        config = sys.modules.get(_CONFIG)
        if config is not None and config.var_child_runnable_config.get() is not None:
            undone.callback(config.var_child_runnable_config.reset, config.var_child_runnable_config.set(None))
        if _treatment.get() is not _no_others:
            undone.enter_context(treating(_no_others))
            langsmith = sys.modules.get(_LANGSMITH)
            if langsmith is not None:  # whose decorators trace without LangChain's callbacks
                undone.enter_context(langsmith.tracing_context(enabled=False))
        _wrap_managers()
        yield


@contextmanager
def treating(treatment: Treatment) -> Generator[None]:
    """Let a function see, and change, every callback manager that LangChain makes; inside `alone` it is not called."""
    _wrap_managers()
    token = _treatment.set(_no_others if _treatment.get() is _no_others else treatment)
    try:
        yield
    finally:
        _treatment.reset(token)


def _wrap_managers() -> None:
    """Wrap `configure` of LangChain's two callback managers, once they are loaded."""
    module: Any = sys.modules.get(_MANAGERS)
    if not hasattr(module, "AsyncCallbackManager") or hasattr(module, "interlock_wrapped"):
        return  # not loaded, or another thread is about to; or done before
    module.interlock_wrapped = True
    for kind in (module.CallbackManager, module.AsyncCallbackManager):
        kind.configure = classmethod(_wrapped(kind.configure.__func__))


def _wrapped(configure: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(configure)
    def treated(kind: Any, *args: Any, **kwargs: Any) -> Any:
        treatment = _treatment.get()
        if treatment is _no_others:
            return _only_passed(kind, *args, **kwargs)
        made = configure(kind, *args, **kwargs)
        if treatment is not None:
            treatment(made)
        return made

    return treated


def _only_passed(  # noqa: PLR0917 - LangChain's own parameters
    kind: Any,
    inheritable_callbacks: Any = None,
    local_callbacks: Any = None,
    _verbose: bool = False,  # noqa: FBT001, FBT002 - likewise
    inheritable_tags: list[str] | None = None,
    local_tags: list[str] | None = None,
    inheritable_metadata: dict[str, Any] | None = None,
    local_metadata: dict[str, Any] | None = None,
    **_for_tracers: Any,
) -> Any:
    """Make a callback manager as `configure` does, of nothing but what is passed."""
    passed, above = _handlers(inheritable_callbacks), inheritable_callbacks
    is_manager = hasattr(above, "inheritable_handlers")
    made = kind(handlers=[], parent_run_id=above.parent_run_id if is_manager else None)
    # Set, not passed: libraries that trace everything add themselves to every manager that is made.
    made.handlers = list(passed)
    made.inheritable_handlers = list(above.inheritable_handlers if is_manager else passed)
    for handler in _handlers(local_callbacks):
        made.add_handler(handler, False)
    if is_manager:
        made.tags, made.inheritable_tags = [*above.tags], [*above.inheritable_tags]
        made.metadata, made.inheritable_metadata = {**above.metadata}, {**above.inheritable_metadata}
    made.add_tags(inheritable_tags or [])
    made.add_tags(local_tags or [], False)
    made.add_metadata({**(inheritable_metadata or {})})
    made.add_metadata({**(local_metadata or {})}, False)
    return made


def _handlers(callbacks: Any) -> list[Any]:
    """Return the handlers of what LangChain takes for callbacks: None, a list, or a manager."""
    return list(getattr(callbacks, "handlers", callbacks) or [])
