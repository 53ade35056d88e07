"""sam's providers: a model backend that returns failures as values, a transcriber, and images."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

from interlock.capabilities import Model
from interlock.errors import InterlockError, SettingsInvalid
from interlock.extras import require
from interlock.providers.models import check_package, check_server
from interlock.providers.provider import Check, Context, Provider
from interlock_agents.sam.backends import BackendFromModel, SafeBackend, StubBackend
from interlock_agents.sam.capabilities import Images, ModelBackend, Transcriber
from interlock_agents.sam.media.images import PillowImages
from interlock_agents.sam.media.refusing import NoTranscriber
from interlock_agents.sam.settings import SamSettings

__all__ = ["PROVIDERS"]


def _open_backend(context: Context) -> ModelBackend:
    """Wrap the model as a ModelBackend. The stub has an implementation of its own."""
    name = "offline rules" if context.settings.model == "offline" else context.settings.model
    if Model in context.granted:
        granted = context.find(Model)
        name = str(getattr(granted, "name", type(granted).__name__))
    elif context.settings.model == "stub":
        return StubBackend()
    return BackendFromModel(context.find(Model), name=name)


def _open_transcriber(context: Context) -> Transcriber:
    settings, shared = context.settings.of(SamSettings), context.settings
    kind, _, name = settings.transcriber.partition(":")
    if settings.transcriber == "off":
        return NoTranscriber()
    require("openai", extra="openai", what="OpenAI's client, which transcribers use,")
    from interlock_agents.sam.media import transcribers  # noqa: PLC0415 - an extra

    if settings.transcriber == "pocketsphinx":
        return transcribers.PocketsphinxTranscriber()
    if kind == "openai" and name:
        key = settings.transcriber_api_key or shared.model_api_key
        opened = transcribers.OpenAITranscriber(
            name,
            base_url=settings.transcriber_base_url or shared.model_base_url,
            api_key=key.get_secret_value() if key else None,
            timeout_s=shared.max_call_seconds or 1 << 31,
        )
        return context.closing(opened)
    raise SettingsInvalid(f"Transcriber '{settings.transcriber}' is unknown. Use 'off', 'pocketsphinx' or 'openai:name'.")


def _open_images(context: Context) -> Images:
    return context.closing(PillowImages(max_pixels=context.settings.of(SamSettings).max_image_pixels))


async def _check_transcriber(context: Context) -> AsyncIterator[Check]:
    """Check the configured transcriber, and whether the offline one is installed."""
    yield await _check_configured(context)
    yield check_package("offline speech", "pocketsphinx", "pip install 'interlock[speech]'", "INTERLOCK_TRANSCRIBER=pocketsphinx")


async def _check_configured(context: Context) -> Check:
    settings, shared = context.settings.of(SamSettings), context.settings
    if settings.transcriber == "off":
        return Check(what="transcriber", state="off", found="audio is refused", fix="INTERLOCK_TRANSCRIBER=pocketsphinx or openai:name")
    try:
        _open_transcriber(context)
    except InterlockError as error:
        return Check(what="transcriber", state="broken", found=f"{settings.transcriber}: {error.message}")
    base_url = settings.transcriber_base_url or shared.model_base_url
    if settings.transcriber == "pocketsphinx" or base_url is None:
        return Check(what="transcriber", state="ok", found=settings.transcriber)
    return await check_server("transcriber", settings.transcriber, base_url, settings.transcriber_api_key or shared.model_api_key)


PROVIDERS = (
    Provider(
        capabilities=(ModelBackend,),
        open=_open_backend,
        adapt=lambda backend: SafeBackend(cast("ModelBackend", backend)),
        shared=False,
    ),
    Provider(capabilities=(Transcriber,), open=_open_transcriber, check=_check_transcriber),
    Provider(capabilities=(Images,), open=_open_images),
)
