"""The gateway's providers: the classifier, the vault, and a worker with files for each of its two sides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Literal

from interlock.capabilities import Model
from interlock.errors import InterlockError
from interlock.providers.provider import Check, Context, Provider
from interlock.settings import Settings
from interlock_agents.gateway.classifier import PROMPTS, GuardedClassifier
from interlock_agents.gateway.demo import open_base
from interlock_agents.gateway.file_tools import READING, FileTools
from interlock_agents.gateway.roles import AdminWorker, Classifier, DocsWorker, Vault
from interlock_agents.gateway.settings import GatewaySettings
from interlock_agents.gateway.vaults import SettingsVault

if TYPE_CHECKING:
    from interlock_agents.gateway.workers.deep import DeepWorker

__all__ = ["PROVIDERS"]

Side = Literal["admin", "docs"]


def _open_classifier(context: Context) -> GuardedClassifier:
    return GuardedClassifier(context.settings.of(GatewaySettings).gateway_keywords)


def _open_vault(context: Context) -> SettingsVault:
    settings = context.settings.of(GatewaySettings)
    return SettingsVault(settings.gateway_secrets, reference=settings.gateway_secret_ref)


def _open_file_tools(context: Context) -> FileTools:
    from interlock_agents.gateway.workers.tools import UpstreamTools  # noqa: PLC0415 - takes most of a second

    return UpstreamTools(redact=context.redactor.data)


def _open_admin_worker(context: Context) -> DeepWorker:
    return _open_worker(context, "admin", writable=True)


def _open_docs_worker(context: Context) -> DeepWorker:
    return _open_worker(context, "docs", writable=context.settings.of(GatewaySettings).gateway_customer_writes)


def _open_worker(context: Context, side: Side, *, writable: bool) -> DeepWorker:
    from interlock_agents.gateway.workers.deep import WRITING, DeepWorker  # noqa: PLC0415 - takes most of a second

    return DeepWorker(
        None if context.replaying else lambda: _open_files(context, side, writable=writable),
        name=f"gateway.{side}",
        prompt=PROMPTS.text(side),
        tools=WRITING if writable else READING,
    )


def _missing_files(settings: Settings) -> str | None:
    return "gateway_path" if settings.of(GatewaySettings).gateway_path is None else None


def _open_files(context: Context, side: Side, *, writable: bool) -> Any:
    from interlock_agents.gateway.files.backend import ScopedBackend  # noqa: PLC0415 - takes most of a second
    from interlock_agents.gateway.workers.sealed import SealedScope  # noqa: PLC0415 - takes most of a second

    settings = context.settings.of(GatewaySettings)
    base = open_base(settings.gateway_path, folder=context.settings.folder / "gateway")
    scope = SealedScope(base / side, writable=writable, max_bytes=settings.gateway_file_bytes)
    context.at_close(lambda: asyncio.to_thread(scope.close))
    return ScopedBackend(scope)


async def _check_files(context: Context) -> AsyncIterator[Check]:
    """Check whether the workers have files."""
    demo, path = context.settings.folder / "gateway", context.settings.of(GatewaySettings).gateway_path
    if path is None:
        made = "" if demo.exists() else " (made when they are needed)"
        fix = "INTERLOCK_GATEWAY_PATH=FOLDER with admin and docs"
        yield Check(what="files", state="ok", found=f"demo files in {demo}{made}", fix=fix)
        return
    try:
        open_base(path, folder=demo)
    except InterlockError as error:
        yield Check(what="files", state="broken", found=error.message)
    else:
        yield Check(what="files", state="ok", found=str(path))


async def _check_secret(context: Context) -> AsyncIterator[Check]:
    """Check whether the admin's secret can be read, without showing its location."""
    try:
        vault = _open_vault(context)
        reference = await vault.reference()
        if reference:
            await vault.fetch(reference)
    except InterlockError as error:
        yield Check(what="admin secret", state="broken", found=error.message)
        return
    if reference:
        yield Check(what="admin secret", state="ok", found=f"'{reference}' is there")
    else:
        fix = "INTERLOCK_GATEWAY_SECRETS and INTERLOCK_GATEWAY_SECRET_REF"
        yield Check(what="admin secret", state="off", found="none is configured", fix=fix)


PROVIDERS = (
    Provider(capabilities=(Classifier,), open=_open_classifier, parts=(Model,)),
    Provider(capabilities=(FileTools,), open=_open_file_tools),
    Provider(capabilities=(AdminWorker,), open=_open_admin_worker, parts=(Model, FileTools), check=_check_files, missing=_missing_files),
    Provider(capabilities=(DocsWorker,), open=_open_docs_worker, parts=(Model, FileTools), missing=_missing_files),
    Provider(capabilities=(Vault,), open=_open_vault, check=_check_secret),
)
