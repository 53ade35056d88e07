"""Providers, which create adapters from settings. An agent declares its own in `Agent(providers=...)`; the library has a table of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from interlock.models.rules import Rules
from interlock.runtime.redaction import Redactor
from interlock.settings import Settings

__all__ = ["Check", "Context", "Provider"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of `interlock doctor`. `off` means not configured; `fix` says how to turn it on, or how to repair it."""

    what: str
    state: Literal["ok", "off", "broken"]
    found: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a provider may use to create its adapter.

    `rules` are the offline rules of the agent that the adapter is for. `granted` are the capabilities that the caller of `Interlock`
    has granted. While a turn is `replaying`, only the code of an adapter with parts runs, so nothing may be opened.
    """

    settings: Settings
    rules: Rules = field(default_factory=Rules)
    granted: frozenset[type] = frozenset()
    replaying: bool = False
    find: Callable[[type], Any]
    """Returns the adapter of another capability."""
    open: Callable[[Provider], Any]
    """Returns the adapter of another provider, which is opened once."""
    at_close: Callable[[Callable[[], Awaitable[None]]], None]
    """Registers a coroutine function to await when the application closes, in reverse order of registration."""

    def closing(self, opened: T) -> T:
        """Return an adapter after registering its `aclose`."""
        self.at_close(getattr(opened, "aclose"))  # noqa: B009 - not every type that is passed here declares it
        return opened

    @property
    def redactor(self) -> Redactor:
        """A redactor that knows the patterns and the secrets of the settings."""
        return Redactor(self.settings.redact, literals=self.settings.secrets)


@dataclass(frozen=True, kw_only=True, eq=False)
class Provider:
    """Creates and checks the adapter of one or several capabilities.

    `open` returns the adapter; it is called when a graph that uses the capability is compiled. A provider of `Memory` also provides
    `MemoryReader` and `MemoryWriter`, from which `Memory` inherits. `parts` are capabilities that the adapter's methods receive as
    keyword-only parameters, as nodes do. `adapt` wraps an adapter that the caller grants instead of the provider's. All agents of an
    application share an adapter unless `shared` is false. `check` yields lines for `interlock doctor`; it must not change anything.
    `missing` returns the name of the setting that several machines need to share what the adapter keeps, where it is not set.
    """

    capabilities: tuple[type, ...]
    open: Callable[[Context], object]
    check: Callable[[Context], AsyncIterator[Check]] | None = None
    parts: tuple[type, ...] = ()
    adapt: Callable[[object], object] | None = None
    shared: bool = True
    missing: Callable[[Settings], str | None] | None = None

    def provides(self, capability: type) -> bool:
        """Return whether the adapter has all methods of a capability."""
        return any(capability in provided.__mro__ for provided in self.capabilities)
