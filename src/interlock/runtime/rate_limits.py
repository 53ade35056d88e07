"""Rate limits: how many calls of a capability an application makes in a minute."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from typing_extensions import override

from interlock.errors import RateLimited
from interlock.runtime.layers import Layer

if TYPE_CHECKING:
    from interlock.runtime.call import Call, Target
    from interlock.runtime.context import TurnFeatures

__all__ = ["CallRate", "RateLimits"]

_WINDOW = 60.0
"""Seconds over which calls are counted."""


class RateLimits:
    """Counts the calls of each limited capability over the last minute. Shared by all turns of an application."""

    def __init__(self, limits: Mapping[str, int], *, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._now = now
        self._calls: dict[str, deque[float]] = {capability: deque() for capability in limits}

    def take(self, capability: str) -> None:
        """Count one call. Raises RateLimited where the capability was called as often as it may be."""
        calls = self._calls.get(capability)
        if calls is None:
            return
        now, limit = self._now(), self._limits[capability]
        while calls and calls[0] <= now - _WINDOW:
            calls.popleft()
        if len(calls) >= limit:
            seconds = calls[0] + _WINDOW - now if calls else _WINDOW
            raise RateLimited(
                f"'{capability}' was called {limit:,} times in the last minute, its limit. "
                f"Fix: try again in {max(1, round(seconds))} s, or raise it in the setting 'rate_limits'."
            )
        calls.append(now)


class CallRate(Layer):
    """Refuses calls beyond a capability's rate limit. Inside the journal, so that a replayed call is not counted again."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return turn.rate_limits

    @override
    def start(self, call: Call) -> None:
        cast("RateLimits", call.node.turn.rate_limits).take(call.target.method.capability)
