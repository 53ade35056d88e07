"""Settings become adapters: who stands behind each capability. Only what is used is opened, and opened once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from interlock.adapters.images import PillowImages
from interlock.adapters.media import NoTranscriber
from interlock.adapters.models.guarded import GuardedModelBackend
from interlock.adapters.models.offline import OfflineModel
from interlock.adapters.models.over import BackendOverModel
from interlock.adapters.models.stub import StubModel, StubModelBackend
from interlock.adapters.system import SystemClock, SystemIds
from interlock.capabilities import Clock, Ids, Images, Model, ModelBackend, Transcriber
from interlock.errors import SettingsInvalid
from interlock.runtime.agent import Agent
from interlock.settings import Settings
from interlock.testing.scripted import ScriptedModel

__all__ = ["Grants"]


class Grants:
    """The adapters of one application. What a caller grants comes before what is configured."""

    def __init__(self, settings: Settings, given: Mapping[type, object]) -> None:
        self._settings = settings
        self._given = dict(given)
        self._opened: list[Callable[[], Awaitable[None]]] = []

    def of(self, agent: Agent, capabilities: tuple[type, ...]) -> dict[type, object]:
        """Put an adapter behind each of these capabilities, as far as there is one."""
        configured: dict[type, Callable[[], object]] = {
            Clock: SystemClock,
            Ids: SystemIds,
            Images: lambda: PillowImages(max_pixels=self._settings.max_image_pixels),
            Transcriber: self.transcriber,
            Model: lambda: self.model(agent),
            ModelBackend: lambda: self._backend(agent),
        }
        found = dict(self._given)
        for capability in capabilities:
            if capability not in found and capability in configured:
                found[capability] = configured[capability]()
        if ModelBackend in self._given:
            found[ModelBackend] = GuardedModelBackend(cast("ModelBackend", self._given[ModelBackend]))
        return found

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
            name = type(self._given[Model]).__name__
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

    def _closing(self, opened: Any) -> Any:
        self._opened.append(opened.aclose)
        return opened
