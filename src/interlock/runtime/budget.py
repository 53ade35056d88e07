"""What a turn may use up: time, model calls, tokens, output."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from interlock.errors import BudgetExceeded
from interlock.runtime.watch import Wait

__all__ = ["GRACE", "LATE_STEPS", "Budget", "Heard", "Limits", "TimeRanOut"]

GRACE = 0.25
"""Seconds that a turn whose time is up has for its calls and steps to end by themselves, each with an error of its own."""

LATE_STEPS = 20
"""Steps that a turn whose time is up may take without any call, to end as its rows say."""

_BYTES_PER_TOKEN = 4  # for a model that does not say how many it took


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one turn may use; None is no limit. Each is a setting of the same name."""

    max_steps: int | None = None
    max_turn_seconds: float | None = None
    max_call_seconds: float | None = None
    max_model_calls: int | None = None
    max_tokens: int | None = None
    max_output_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class TimeRanOut:
    """Where the time of a turn ran out: after so many steps, or in the last of them while it waited for something."""

    after_steps: int
    in_a_step: bool


class Heard:
    """What one call of a model has said so far."""

    __slots__ = ("bytes", "tokens")

    def __init__(self) -> None:
        self.bytes = self.tokens = 0


class Budget:
    """What one turn has used so far. `now` is a clock that only goes forward, in seconds."""

    __slots__ = ("_bytes", "_calls", "_late_steps", "_ran_out", "_tokens", "has_time_limit", "limits", "now", "turn_wait", "until")

    def __init__(self, limits: Limits, *, now: Callable[[], float], ran_out: TimeRanOut | None = None) -> None:
        self.limits = limits
        self.now = now
        self.until = None if limits.max_turn_seconds is None else now() + limits.max_turn_seconds
        self._ran_out = ran_out
        if ran_out is not None and ran_out.in_a_step:
            self.until = now() + GRACE  # it waits for something that nobody recorded, and would wait for ever
        self.has_time_limit = self.until is not None or limits.max_call_seconds is not None
        self._calls = self._tokens = self._bytes = self._late_steps = 0
        self.turn_wait: Wait | None = None
        """What ends the turn when its time is up; a step that begins later has a grace of its own."""

    def call_until(self) -> float:
        """Return the moment when a call that begins now has to have ended; 0 where the turn's time is up."""
        now, seconds, until = self.now(), self.limits.max_call_seconds, self.until
        if until is None:
            return math.inf if seconds is None else now + seconds
        if now >= until:
            return 0
        return until if seconds is None or now + seconds > until else now + seconds

    def turn_until(self) -> float:
        """Return the moment when the turn has to have ended."""
        return math.inf if self.until is None else self.until

    def out_of_time(self) -> BudgetExceeded | None:
        """Return the error of a turn whose time is up."""
        return None if self.until is None or self.now() < self.until else self._time_is_up()

    def _time_is_up(self) -> BudgetExceeded:
        return BudgetExceeded(f"The turn took all of its {self.limits.max_turn_seconds or 0:g} seconds (max_turn_seconds).")

    def take_step(self, taken: int, own: int, steps: int) -> BudgetExceeded | None:
        """Begin a step; return why there may be none. Before it the turn took so many, the graph so many of its own.

        Time that is up ends no step, as a node without calls takes none: the next call is refused with an error that its node can
        make an outcome of, and a few more steps without calls let the turn end as its rows say.
        """
        most = self.limits.max_steps
        if own >= steps:
            return BudgetExceeded(f"The graph took all of its {steps} steps without ending.")
        if most is not None and taken >= most:
            return BudgetExceeded(f"The turn took all of its {most} steps without ending (max_steps).")
        if self._ran_out is not None and not self._ran_out.in_a_step and taken >= self._ran_out.after_steps:
            return self._time_is_up()
        if self.until is None or self.now() < self.until:
            return None
        self._late_steps += 1
        if self._late_steps > LATE_STEPS:
            return self._time_is_up()
        if self.turn_wait is not None:
            self.turn_wait.deadline = self.now() + GRACE
        return None

    def ask_model(self) -> Heard:
        """Begin a call of a model."""
        if self._calls == self.limits.max_model_calls:
            times = "once" if self._calls == 1 else f"{self._calls} times"
            raise BudgetExceeded(f"The turn may ask a model {times}, and has (max_model_calls).")
        self._check()
        self._calls += 1
        return Heard()

    def hear_model(self, heard: Heard, said: Any) -> None:
        """Count what a model, or a piece of its stream, said. What it says of its tokens comes in the place of a guess."""
        if self.limits.max_output_bytes is None and self.limits.max_tokens is None:
            return
        size = _size(said)
        usage: Any = getattr(said, "usage", None)
        heard.bytes += size
        tokens = heard.bytes // _BYTES_PER_TOKEN if usage is None else usage.tokens
        self._bytes += size
        self._tokens += tokens - heard.tokens
        heard.tokens = tokens
        self._check()

    def hear_bytes(self, heard: Heard, size: int) -> None:
        """Count a piece of a stream that says nothing of its tokens."""
        heard.bytes += size
        self._bytes += size
        tokens = heard.bytes // _BYTES_PER_TOKEN
        self._tokens += tokens - heard.tokens
        heard.tokens = tokens
        limits = self.limits
        if (limits.max_output_bytes is not None and self._bytes > limits.max_output_bytes) or (
            limits.max_tokens is not None and self._tokens > limits.max_tokens
        ):
            self._check()

    def _check(self) -> None:
        """Refuse to go on once a model has said too much, also for a node that has caught the error."""
        limits = self.limits
        if limits.max_output_bytes is not None and self._bytes > limits.max_output_bytes:
            raise BudgetExceeded(f"The turn's models said more than {limits.max_output_bytes:,} bytes (max_output_bytes).")
        if limits.max_tokens is not None and self._tokens > limits.max_tokens:
            raise BudgetExceeded(f"The turn took more than {limits.max_tokens:,} tokens (max_tokens).")


def _size(said: Any) -> int:
    text = said if isinstance(said, str) else getattr(said, "output", None) or getattr(said, "text", None)
    if isinstance(text, str) and not getattr(said, "calls", None):
        return len(text) if text.isascii() else len(text.encode())
    try:
        return len(to_json(said, bytes_mode="base64", fallback=repr))
    except PydanticSerializationError:  # a model of the caller's with bytes in it
        return len(repr(said))
