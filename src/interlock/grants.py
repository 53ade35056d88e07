"""Settings become adapters: who stands behind each capability. Only what is used is opened, and opened once."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from interlock.adapters.images import PillowImages
from interlock.adapters.media import NoTranscriber
from interlock.adapters.models.guarded import GuardedModelBackend
from interlock.adapters.models.offline import OfflineModel
from interlock.adapters.models.over import BackendOverModel
from interlock.adapters.models.stub import StubModel, StubModelBackend
from interlock.adapters.people import LaterHuman, NobodyHere
from interlock.adapters.system import EventProgress, PlainSpeech, SystemClock, SystemIds, SystemPatience
from interlock.adapters.users import FileProfiles, OpenProfiles, RulePolicy
from interlock.adapters.vaults import SettingsVault
from interlock.agent import Agent
from interlock.agents.gateway.roles import Vault
from interlock.capabilities import (
    Clock,
    Human,
    Ids,
    Images,
    Memory,
    MemoryReader,
    MemoryWriter,
    Model,
    ModelBackend,
    Patience,
    Policy,
    Profiles,
    Progress,
    SessionReader,
    SessionStore,
    SessionWriter,
    Speech,
    Toolbox,
    ToolGateway,
    Transcriber,
)
from interlock.capabilities.capability import is_capability
from interlock.capabilities.files import FileTools
from interlock.capabilities.graph_store import GraphStore
from interlock.capabilities.registry import GraphUndo, ToolCatalogue, ToolRegistry
from interlock.contract import Graph
from interlock.errors import Problem, SettingsInvalid
from interlock.runtime.composed import Composed, part_problems
from interlock.runtime.misfits import misfits
from interlock.runtime.redaction import Redactor
from interlock.runtime.subgraph import Subgraph
from interlock.settings import Settings
from interlock.testing.scripted import ScriptedModel

if TYPE_CHECKING:
    from interlock.adapters.stores.kept import CheckpointedSessions
    from interlock.adapters.stores.memory import StoredMemory
    from interlock.adapters.stores.sessions import RedisSessions
    from interlock.adapters.tools.functions import FunctionTool
    from interlock.adapters.tools.gateway import Tools
    from interlock.adapters.workers.deep import DeepWorker

__all__ = ["Grants"]


def _checked(given: Mapping[type, object]) -> dict[type, object]:
    """Refuse grants whose keys are not capabilities."""
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller may not have checked
        raise SettingsInvalid(f"Grants are a mapping of capabilities to adapters, not a '{type(given).__name__}'.")
    for key in given:
        if not isinstance(key, type):  # pyright: ignore[reportUnnecessaryIsInstance] - likewise
            raise SettingsInvalid(
                f"'{key!s:.100}' is no capability, and nothing can be granted as it. Write the class itself, as in {{Model: adapter}}."
            )
    return dict(given)


class Grants:
    """The adapters of one application. What a caller grants comes before what is configured."""

    def __init__(self, settings: Settings, given: Mapping[type, object]) -> None:
        self._settings = settings
        self._given = {capability: self._adapted(capability, adapter) for capability, adapter in _checked(given).items()}
        self._opened: list[Callable[[], Awaitable[None]]] = []
        self._kept: dict[str, CheckpointedSessions] = {}
        self._workers: dict[tuple[str, bool], DeepWorker] = {}

    def problems(self) -> list[Problem]:
        """Find what a caller grants that is not what it is granted as, whichever graphs use it."""
        found: list[Problem] = []
        for capability, adapter in self._given.items():
            if not is_capability(capability):
                says = f"'{getattr(capability, '__name__', capability)}' is granted, which is no capability."
                found.append(Problem("bad_grant", says, "use a Protocol that inherits from Capability.", ""))
            elif isinstance(adapter, Composed):
                found.extend(part_problems("", adapter))
            elif not isinstance(adapter, Subgraph):
                found.extend(misfits("", capability, adapter))
        return found

    def _adapted(self, capability: type, adapter: object) -> object:
        """Put an adapter around a LangChain chat model that is granted as it is."""
        if isinstance(adapter, Composed):
            return Composed(adapter.adapter, parts={part: self._adapted(part, one) for part, one in adapter.parts.items()})
        module = sys.modules.get("langchain_core.language_models.chat_models")
        # Who has not loaded LangChain has no chat model of it.
        if module is None or capability not in {Model, ModelBackend} or not isinstance(adapter, module.BaseChatModel):
            return adapter
        from interlock.adapters.models.langchain import LangChainModel  # noqa: PLC0415 - takes more than a second

        model = LangChainModel(
            cast("Any", adapter),
            name=str(getattr(adapter, "model_name", None) or getattr(adapter, "model", None) or type(adapter).__name__),
            max_reply_bytes=self._settings.max_output_bytes or 1 << 62,
            timeout_s=self._settings.max_call_seconds or 1 << 31,
        )
        adapters: dict[type, object] = {Model: model, ModelBackend: BackendOverModel(model, name=model.name)}
        return adapters[capability]

    def of(self, agent: Agent, capabilities: tuple[type, ...]) -> dict[type, object]:
        """Put an adapter behind each of these capabilities, as far as there is one."""
        configured: dict[type, Callable[[], object]] = {
            Clock: SystemClock,
            Ids: SystemIds,
            Progress: EventProgress,
            Speech: PlainSpeech,
            Profiles: self.profiles,
            Policy: self.policy,
            Images: lambda: PillowImages(max_pixels=self._settings.max_image_pixels),
            Transcriber: self.transcriber,
            Model: lambda: self.model(agent),
            ModelBackend: lambda: self._backend(agent),
            **dict.fromkeys((SessionReader, SessionWriter, SessionStore), self.sessions),
            **dict.fromkeys((MemoryReader, MemoryWriter, Memory), self.memory),
            **dict.fromkeys((Toolbox, ToolGateway), lambda: self.tools(agent)),
            Vault: self.vault,
            Patience: SystemPatience,
            Human: LaterHuman if self._settings.human == "wait" else NobodyHere,
        }
        found = {capability: adapter for capability, adapter in self._given.items() if not isinstance(adapter, Subgraph | Composed)}
        for capability in capabilities:
            wider = next((given for given in self._given if capability in given.__mro__), None)
            if wider is not None:  # who grants Memory grants what it is made of
                found.setdefault(capability, self._given[wider])
            elif capability not in found and capability in configured:
                found[capability] = configured[capability]()
        if ModelBackend in self._given:
            found[ModelBackend] = GuardedModelBackend(cast("ModelBackend", self._given[ModelBackend]))
        return found

    def composed(self, agent: Agent, capabilities: tuple[type, ...], *, is_open: bool = True) -> dict[type, Composed]:
        """Find the adapters that are made of other capabilities, as far as there are any; shut ones have nothing to work on."""
        found = {one: given for one in capabilities if isinstance(given := self._given.get(one), Composed)}
        for tools in (ToolCatalogue, ToolRegistry, GraphUndo):
            if tools in capabilities and tools not in self._given:
                found[tools] = self._registry(is_open=is_open)
        wanted = [one for one in capabilities if one not in self._given] if agent.name == "gateway" else []
        for capability in wanted:
            made = self._gateway(capability, agent, is_open=is_open)
            if made is not None:
                found[capability] = made
        return found

    def _registry(self, *, is_open: bool) -> Composed:
        """Make the tools of a property graph."""
        from interlock.adapters.graphs.registry import GraphTools  # noqa: PLC0415 - only for such agents

        return Composed(GraphTools(), parts={GraphStore: self.graphs() if is_open else None})

    def graphs(self) -> GraphStore:
        """Choose where property graphs are kept."""
        return cast("GraphStore", self._given[GraphStore]) if GraphStore in self._given else self._graphs

    @cached_property
    def _graphs(self) -> GraphStore:
        settings = self._settings
        limits: dict[str, Any] = {"timeout_s": settings.graph_seconds, "max_rows": 1000, "max_bytes": settings.graph_bytes}
        if settings.graph_url is None:
            from interlock.adapters.graphs.ladybug import open_ladybug  # noqa: PLC0415 - only for such agents

            return self._closing(open_ladybug(settings.folder / "graphs", **limits))
        from interlock.adapters.graphs.bolt import open_bolt  # noqa: PLC0415 - an extra

        key = settings.graph_password
        return self._closing(
            open_bolt(
                settings.graph_url.get_secret_value(),
                user=settings.graph_user,
                password="" if key is None else key.get_secret_value(),
                database=settings.graph_database,
                **limits,
            )
        )

    def _gateway(self, capability: type, agent: Agent, *, is_open: bool) -> Composed | None:
        """Find who works at the gateway."""
        from interlock.agents.gateway.classifier import GuardedClassifier  # noqa: PLC0415 - only for this agent
        from interlock.agents.gateway.roles import AdminWorker, Classifier, DocsWorker  # noqa: PLC0415 - likewise

        if capability is Classifier:
            return Composed(GuardedClassifier(self._settings.gateway_keywords), parts={Model: self.model(agent)})
        sides: dict[type, Literal["admin", "docs"]] = {AdminWorker: "admin", DocsWorker: "docs"}
        if capability not in sides:
            return None
        return Composed(self._worker(sides[capability], is_open=is_open), parts={Model: self.model(agent), FileTools: self._file_tools})

    def subgraphs(self, agent: Agent, capabilities: tuple[type, ...]) -> dict[type, Subgraph]:
        """Find the graphs behind these capabilities, as far as there are any."""
        found = {capability: self._given.get(capability, agent.subgraphs.get(capability)) for capability in capabilities}
        return {capability: behind for capability, behind in found.items() if isinstance(behind, Subgraph)}

    async def close(self) -> None:
        """Release everything that was opened, the last first."""
        while self._opened:
            await self._opened.pop()()

    def model(self, agent: Agent) -> Model:
        """Choose who answers."""
        if Model in self._given:
            return cast("Model", self._given[Model])
        if self._settings.model == "offline":
            return OfflineModel(agent.offline)
        return StubModel() if self._settings.model == "stub" else self._remote

    def _backend(self, agent: Agent) -> ModelBackend:
        """Make sam's kind of model of the configured one; the stub of its document is one of its own."""
        if self._settings.model == "stub" and Model not in self._given:
            return StubModelBackend()
        name = "offline rules" if self._settings.model == "offline" else self._settings.model
        if Model in self._given:
            name = str(getattr(self._given[Model], "name", type(self._given[Model]).__name__))
        return BackendOverModel(self.model(agent), name=name)

    @cached_property
    def _remote(self) -> Model:
        """Open the model that is the same for every agent."""
        settings = self._settings
        kind, _, name = settings.model.partition(":")
        limits: dict[str, Any] = {
            "max_tokens": settings.model_max_tokens,
            "max_reply_bytes": settings.max_output_bytes or 1 << 62,
            "timeout_s": settings.max_call_seconds or 1 << 31,
        }
        if settings.model == "local":
            from interlock.adapters.models.local import open_local  # noqa: PLC0415 - an extra

            return self._closing(open_local(settings.model_path, **limits))
        if kind == "scripted" and name:
            return ScriptedModel.read(Path(name))
        if kind and name:
            from interlock.adapters.models.langchain import open_provider  # noqa: PLC0415 - takes more than a second

            key = settings.model_api_key.get_secret_value() if settings.model_api_key else None
            return self._closing(open_provider(settings.model, base_url=settings.model_base_url, api_key=key, **limits))
        raise SettingsInvalid(
            f"Model '{settings.model}' is unknown. Use 'offline', 'stub', 'local', 'scripted:FILE' or 'provider:name' ('openai:gpt-5')."
        )

    def transcriber(self) -> Transcriber:
        """Choose who hears."""
        return self._hearing

    @cached_property
    def _hearing(self) -> Transcriber:
        settings = self._settings
        kind, _, name = settings.transcriber.partition(":")
        if settings.transcriber == "off":
            return NoTranscriber()
        from interlock.adapters.transcribers import OpenAITranscriber, PocketsphinxTranscriber  # noqa: PLC0415 - an extra

        if settings.transcriber == "pocketsphinx":
            return PocketsphinxTranscriber()
        if kind == "openai" and name:
            key = settings.transcriber_api_key or settings.model_api_key
            opened = OpenAITranscriber(
                name,
                base_url=settings.transcriber_base_url or settings.model_base_url,
                api_key=key.get_secret_value() if key else None,
                timeout_s=settings.max_call_seconds or 1 << 31,
            )
            return self._closing(opened)
        raise SettingsInvalid(f"Transcriber '{settings.transcriber}' is unknown. Use 'off', 'pocketsphinx' or 'openai:name'.")

    def sessions(self) -> RedisSessions:
        """Choose where sessions are kept."""
        return self._sessions

    @cached_property
    def _sessions(self) -> RedisSessions:
        from interlock.adapters.stores.sessions import open_sessions  # noqa: PLC0415 - only for agents with sessions

        settings = self._settings
        return self._closing(
            open_sessions(
                None if settings.session_url is None else settings.session_url.get_secret_value(),
                folder=settings.folder / "valkey",
                ttl_seconds=settings.session_seconds,
                timeout_s=settings.max_call_seconds or 1 << 31,
            )
        )

    def kept(self, graph: Graph, fingerprint: str) -> CheckpointedSessions:
        """Choose where the sessions of an agent are kept whose state outlives its turns."""
        if fingerprint not in self._kept:
            from interlock.adapters.stores.checkpoints import open_checkpoints  # noqa: PLC0415 - only for such agents
            from interlock.adapters.stores.kept import CheckpointedSessions  # noqa: PLC0415 - likewise

            settings = self._settings
            opened = open_checkpoints(
                None if settings.checkpoint_url is None else settings.checkpoint_url.get_secret_value(),
                path=settings.folder / "sessions.sqlite",
                types=graph.state.classes,
                seal=fingerprint,
                timeout_s=settings.max_call_seconds or 1 << 31,
            )
            self._kept[fingerprint] = CheckpointedSessions(self._closing(opened), graph=graph.name, fingerprint=fingerprint)
        return self._kept[fingerprint]

    def profiles(self) -> Profiles:
        """Choose who knows the users."""
        path = self._settings.profiles_path
        return OpenProfiles() if path is None else FileProfiles(path.expanduser())

    def policy(self) -> Policy:
        """Choose what may be asked."""
        settings = self._settings
        return RulePolicy(
            denied=settings.analyst_denied,
            max_characters=settings.analyst_characters,
            max_retries=settings.analyst_retries,
            window=settings.analyst_window,
        )

    def vault(self) -> Vault:
        """Choose where secrets come from."""
        return SettingsVault(self._settings.gateway_secrets, reference=self._settings.gateway_secret_ref)

    def _worker(self, side: Literal["admin", "docs"], *, is_open: bool) -> DeepWorker:
        """Choose who works on a side of the gateway."""
        if (side, is_open) not in self._workers:
            from interlock.adapters.workers.deep import READING, WRITING, DeepWorker  # noqa: PLC0415 - only for such agents
            from interlock.agents.gateway.classifier import PROMPTS  # noqa: PLC0415 - likewise

            writes = side == "admin" or self._settings.gateway_customer_writes
            self._workers[side, is_open] = DeepWorker(
                (lambda: self._backend_of(side, writable=writes)) if is_open else None,
                name=f"gateway.{side}",
                prompt=PROMPTS.text(side),
                tools=WRITING if writes else READING,
            )
        return self._workers[side, is_open]

    def _backend_of(self, side: str, *, writable: bool) -> Any:
        """Open the files of a side."""
        from interlock.adapters.files.backend import ScopedBackend  # noqa: PLC0415 - only for such agents
        from interlock.adapters.files.demo import open_base  # noqa: PLC0415 - likewise
        from interlock.adapters.workers.sealed import SealedScope  # noqa: PLC0415 - likewise

        settings = self._settings
        base = open_base(settings.gateway_path, folder=settings.folder / "gateway")
        scope = SealedScope(base / side, writable=writable, max_bytes=settings.gateway_file_bytes)
        self._opened.append(lambda: asyncio.to_thread(scope.close))
        return ScopedBackend(scope)

    @cached_property
    def _file_tools(self) -> FileTools:
        from interlock.adapters.workers.tools import UpstreamTools  # noqa: PLC0415 - takes most of a second

        return UpstreamTools(redact=Redactor(self._settings.redact, literals=self._settings.secrets).data)

    def memory(self) -> StoredMemory:
        """Choose where the memory is kept."""
        return self._memory

    @cached_property
    def _memory(self) -> StoredMemory:
        from interlock.adapters.stores.memory import open_memory  # noqa: PLC0415 - only for agents with a memory

        settings = self._settings
        return self._closing(
            open_memory(
                None if settings.memory_url is None else settings.memory_url.get_secret_value(),
                path=settings.folder / "memory.sqlite",
                timeout_s=settings.max_call_seconds or 1 << 31,
            )
        )

    def tools(self, agent: Agent | None = None) -> Tools:
        """Choose which tools there are. The desk has none that ask a warehouse."""
        return self._desk_tools if agent is not None and agent.name == "desk" else self._all_tools

    @cached_property
    def _desk_tools(self) -> Tools:
        return self._open_tools({"sales": self._settings.sales_tools, "support": self._settings.support_tools})

    @cached_property
    def _all_tools(self) -> Tools:
        settings = self._settings
        allowed = {"sales": settings.sales_tools, "support": settings.support_tools, "analyst": settings.analyst_tools}
        return self._open_tools(allowed, self._warehouse())

    def _open_tools(self, allowed: Mapping[str, tuple[str, ...]], *more: FunctionTool) -> Tools:
        from interlock.adapters.tools.gateway import open_tools  # noqa: PLC0415 - only for agents with tools

        settings = self._settings
        return self._closing(
            open_tools(
                folder=settings.folder,
                allowed=allowed,
                functions=settings.tool_functions,
                servers={name: server.to_dict() for name, server in settings.tool_servers.items()},
                extra=more,
                catalogue_path=settings.catalogue_path,
                knowledge_path=settings.knowledge_path,
                documents_path=settings.documents_path,
                timeout_s=settings.tool_seconds,
                retries=settings.tool_retries,
                redact=Redactor(settings.redact, literals=settings.secrets).data,
            )
        )

    def _warehouse(self) -> FunctionTool:
        """Make the tool that asks the warehouse."""
        from interlock.adapters.tools.functions import FunctionTool  # noqa: PLC0415 - only for agents with tools
        from interlock.adapters.tools.warehouses import open_warehouse  # noqa: PLC0415 - likewise

        settings = self._settings
        opened = open_warehouse(
            settings.warehouse, folder=settings.folder, timeout_s=settings.tool_seconds, max_bytes_billed=settings.warehouse_bytes
        )
        self._opened.append(lambda: asyncio.to_thread(opened.close))
        return FunctionTool("bq_query", opened.query, description=opened.description)

    def _closing(self, opened: Any) -> Any:
        self._opened.append(opened.aclose)
        return opened
