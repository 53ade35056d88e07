"""The adapters of one application: granted by the caller, else by the agent's providers, else by the library's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from interlock.agent import Agent
from interlock.capabilities.capability import is_capability
from interlock.contract import Graph
from interlock.errors import ExtraMissing, InterlockError, Problem, SettingsInvalid
from interlock.grant_checks import adapter_problems, part_problems
from interlock.models.rules import Rules
from interlock.providers.library import LIBRARY
from interlock.providers.models import adapt_granted
from interlock.providers.provider import Check, Context, Provider
from interlock.providers.stores import open_session_state
from interlock.runtime.targets import Composed, Subgraph
from interlock.settings import Settings

if TYPE_CHECKING:
    from interlock.stores.session_state import CheckpointedSessions

__all__ = ["Providers"]


class Providers:
    """Resolves capabilities to adapters. An adapter is opened when it is first needed, once, and closed by `close`."""

    def __init__(self, settings: Settings, granted: Mapping[type, object]) -> None:
        self._settings = settings
        self._granted = {capability: self._adapted(capability, adapter) for capability, adapter in _checked(granted).items()}
        self._opened: dict[tuple[Provider, bool], object] = {}
        self._session_state: dict[str, CheckpointedSessions] = {}
        self._closing: list[Callable[[], Awaitable[None]]] = []

    def problems(self) -> list[Problem]:
        """Find every grant that does not fit its capability, also where no graph uses it."""
        found: list[Problem] = []
        for capability, adapter in self._granted.items():
            if not is_capability(capability):
                says = f"'{getattr(capability, '__name__', capability)}' is granted, which is no capability."
                found.append(Problem("bad_grant", says, "use a Protocol that inherits from Capability.", ""))
            elif isinstance(adapter, Composed):
                found.extend(part_problems("", adapter))
            elif not isinstance(adapter, Subgraph):
                found.extend(adapter_problems("", capability, adapter))
        return found

    def subgraphs(self, agent: Agent, capabilities: Iterable[type]) -> dict[type, Subgraph]:
        """Return the capabilities that are provided by a graph, each with that graph."""
        found = {capability: self._granted.get(capability, agent.subgraphs.get(capability)) for capability in capabilities}
        return {capability: behind for capability, behind in found.items() if isinstance(behind, Subgraph)}

    def composed(self, agent: Agent, capabilities: Iterable[type], *, replaying: bool = False) -> dict[type, Composed]:
        """Return the composed adapters, with the capabilities that they receive as parts. For a replay the parts are left out."""
        found: dict[type, Composed] = {}
        for capability in capabilities:
            granted, provider = self._grant(capability), self._provider(agent, capability)
            if isinstance(granted, Composed):
                found[capability] = Composed(granted.adapter, parts=dict.fromkeys(granted.parts)) if replaying else granted
            elif granted is None and provider is not None and provider.parts:
                parts = {part: None if replaying else self.adapter(part, agent) for part in provider.parts}
                found[capability] = Composed(self._open(provider, agent, replaying=replaying), parts=parts)
        return found

    def adapters(self, agent: Agent, capabilities: Iterable[type]) -> dict[type, object]:
        """Return an adapter for each of these capabilities that has a provider."""
        found = {capability: self.adapter(capability, agent) for capability in capabilities}
        return {capability: adapter for capability, adapter in found.items() if adapter is not None}

    def adapter(self, capability: type, agent: Agent | None = None) -> Any:
        """Return the adapter of one capability, for this agent; None where it has no provider."""
        granted, provider = self._grant(capability), self._provider(agent, capability)
        if granted is not None:
            return granted if provider is None or provider.adapt is None else provider.adapt(granted)
        return None if provider is None else self._open(provider, agent)

    def used(self, agent: Agent) -> list[Provider]:
        """Return the providers that adapters of an agent come from, those of its subgraphs and of parts included."""
        graphs, capabilities = list(agent.entries.values()), list[type]()
        for graph in graphs:  # which gets longer
            capabilities += graph.capabilities
            graphs += [one.graph for one in self.subgraphs(agent, graph.capabilities).values() if one.graph not in graphs]
        found: list[Provider] = []
        for capability in capabilities:
            provider = None if self._grant(capability) is not None else self._provider(agent, capability)
            if provider is not None and provider not in found:
                found.append(provider)
                capabilities += provider.parts
        return found

    def session_state(self, graph: Graph, fingerprint: str) -> CheckpointedSessions:
        """Return the store of the fields that outlive a turn of this graph."""
        if fingerprint not in self._session_state:
            self._session_state[fingerprint], close = open_session_state(self._settings, graph, fingerprint)
            self._closing.append(close)
        return self._session_state[fingerprint]

    async def check(self, providers: Sequence[Provider] = LIBRARY, agent: Agent | None = None) -> AsyncIterator[Check]:
        """Run the checks of providers for `interlock doctor`. Everything that they open is closed again."""
        for provider in providers:
            if provider.check is None:
                continue
            try:
                context = self._context(agent)
                async for check in provider.check(context):
                    redact = context.redactor.text
                    yield replace(check, found=redact(check.found), fix=redact(check.fix))
            except ExtraMissing as error:
                yield Check(what=provider.capabilities[0].__name__, state="off", found="not installed", fix=error.command)
            except InterlockError as error:
                yield Check(what=provider.capabilities[0].__name__, state="broken", found=error.message)
            finally:
                await self.close()

    async def close(self) -> None:
        """Close everything that was opened, the last one first."""
        self._opened.clear()
        self._session_state.clear()
        while self._closing:
            await self._closing.pop()()

    def _grant(self, capability: type) -> object | None:
        """Find what the caller grants: the capability itself, else one that inherits from it."""
        if capability in self._granted:
            return self._granted[capability]
        return next((adapter for granted, adapter in self._granted.items() if capability in granted.__mro__), None)

    def _provider(self, agent: Agent | None, capability: type) -> Provider | None:
        own = () if agent is None else agent.providers
        return next((provider for provider in (*own, *LIBRARY) if provider.provides(capability)), None)

    def _open(self, provider: Provider, agent: Agent | None, *, replaying: bool = False) -> Any:
        if not provider.shared:
            return provider.open(self._context(agent, replaying=replaying))
        key = (provider, replaying)
        if key not in self._opened:
            self._opened[key] = provider.open(self._context(agent, replaying=replaying))
        return self._opened[key]

    def _context(self, agent: Agent | None, *, replaying: bool = False) -> Context:
        return Context(
            settings=self._settings,
            rules=Rules() if agent is None else agent.offline,
            granted=frozenset(self._granted),
            replaying=replaying,
            find=lambda capability: self.adapter(capability, agent),
            open=lambda provider: self._open(provider, agent, replaying=replaying),
            at_close=self._closing.append,
        )

    def _adapted(self, capability: type, adapter: object) -> object:
        if isinstance(adapter, Composed):
            return Composed(adapter.adapter, parts={part: self._adapted(part, one) for part, one in adapter.parts.items()})
        return adapt_granted(capability, adapter, self._settings)


def _checked(granted: Mapping[type, object]) -> dict[type, object]:
    """Refuse grants whose keys are not classes."""
    if not isinstance(granted, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
        raise SettingsInvalid(f"Grants are a mapping of capabilities to adapters, not a '{type(granted).__name__}'.")
    for key in granted:
        if not isinstance(key, type):  # pyright: ignore[reportUnnecessaryIsInstance] - as above
            raise SettingsInvalid(
                f"'{key!s:.100}' is not a capability, so nothing can be granted for it. Write the class itself, as in {{Model: adapter}}."
            )
    return dict(granted)
