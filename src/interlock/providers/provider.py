"""What a provider is. An agent brings its own in `Agent(providers=...)`; the library has a table of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from interlock.adapters.models.rules import Rules
from interlock.runtime.redaction import Redactor
from interlock.settings import Settings

__all__ = ["Check", "Context", "Provider"]

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of `interlock doctor`. `off` is what nobody asked for; `fix` says how to get it, or how to repair it."""

    what: str
    state: Literal["ok", "off", "broken"]
    found: str
    fix: str = ""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a provider may use to make its adapter.

    `rules` are the offline rules of the agent that the adapter is for. `granted` are the capabilities that the caller of `Interlock`
    has granted himself. While a turn is `replaying`, only the code of an adapter with parts runs, so nothing may be opened.
    """

    settings: Settings
    rules: Rules = field(default_factory=Rules)
    granted: frozenset[type] = frozenset()
    replaying: bool = False
    find: Callable[[type], Any]
    """Returns the adapter behind another capability."""
    open: Callable[[Provider], Any]
    """Returns the adapter of another provider, which is opened once."""
    at_close: Callable[[Callable[[], Awaitable[None]]], None]
    """Registers what is to be awaited when the application is closed; the last one registered comes first."""

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
    """How the adapter behind one or several capabilities is made, and looked at.

    `open` returns the adapter; it is called when a graph that uses the capability is prepared. A provider of `Memory` also provides
    `MemoryReader` and `MemoryWriter`, which it inherits from. `parts` are capabilities that the adapter's methods are handed as
    keyword-only parameters, as nodes are. An adapter is shared by all agents of an application unless `shared` is false.
    `check` yields what `interlock doctor` says; looking must not change anything.
    """

    capabilities: tuple[type, ...]
    open: Callable[[Context], object]
    check: Callable[[Context], AsyncIterator[Check]] | None = None
    parts: tuple[type, ...] = ()
    shared: bool = True

    def provides(self, capability: type) -> bool:
        """Tell whether the adapter has all methods of a capability."""
        return any(capability in provided.__mro__ for provided in self.capabilities)
