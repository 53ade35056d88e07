"""Opens the dispatcher that the settings name."""

from __future__ import annotations

from interlock.dispatch.embedded import EmbeddedDispatcher
from interlock.dispatch.retention import Retention
from interlock.extras import require
from interlock.runner import Runner
from interlock.runtime.turns import TurnStore
from interlock.settings import Settings

__all__ = ["open_dispatcher"]


def open_dispatcher(settings: Settings, store: TurnStore, runner: Runner, *, name: str, build: str) -> EmbeddedDispatcher:
    """Return the dispatcher for a turn store. Raises ExtraMissing where its extra is not installed."""
    retention = Retention(store, days=settings.turn_days, unserved_s=settings.turn_unserved_seconds)
    if settings.dispatcher == "embedded":
        return EmbeddedDispatcher(store, runner, name=name, build=build, retention=retention)
    require("temporalio", extra="temporal", what="Dispatcher 'temporal'")
    from interlock.dispatch.temporal import TemporalDispatcher  # noqa: PLC0415 - an extra

    server, namespace = settings.temporal_url, settings.temporal_namespace
    return TemporalDispatcher(store, runner, name=name, build=build, retention=retention, url=server, namespace=namespace)
