"""Limits of a turn: steps, time, model calls, tokens and output. `Limits` are the settings, `Budget` counts what a turn has used."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import override

from interlock.capabilities.model import Usage
from interlock.errors import BudgetExceeded, ModelError, RejectedAnswer
from interlock.runtime.layers import Layer

if TYPE_CHECKING:
    from interlock.runtime.call import Call, Target
    from interlock.runtime.context import TurnFeatures
    from interlock.runtime.deadlines import Deadline

__all__ = ["GRACE", "LATE_STEPS", "Budget", "CallUsage", "CountUsage", "Limits", "ModelCallLimit", "TimeRanOut", "TurnUsage"]

GRACE = 0.25
"""Seconds in which the calls and nodes of a turn whose time is up can end by themselves, each with its own typed error."""

LATE_STEPS = 20
"""Steps that a turn whose time is up may still take, without calls, so that it ends as its rows say."""

_BYTES_PER_TOKEN = 4
"""Used to estimate tokens where a model does not report them."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one turn may use; None means no limit. Each is a setting of the same name."""

    max_steps: int | None = None
    max_turn_seconds: float | None = None
    max_call_seconds: float | None = None
    max_model_calls: int | None = None
    max_tokens: int | None = None
    max_output_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class TimeRanOut:
    """When a recorded turn ran out of time: after this many steps, or while the last of them was running."""

    after_steps: int
    in_a_step: bool


@dataclass(frozen=True, kw_only=True)
class TurnUsage:
    """What a turn used of its models. Tokens are those that models reported; None means that no model reported any."""

    model_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    output_bytes: int = 0


class CallUsage:
    """Output of one model call so far. `tokens` are estimated until the model reports them."""

    __slots__ = ("bytes", "reported", "tokens")

    def __init__(self) -> None:
        self.bytes = self.tokens = 0
        self.reported: Usage | None = None


class Budget:
    """What one turn has used so far. `now` is a monotonic clock, in seconds."""

    __slots__ = (
        "_calls",
        "_late_steps",
        "_output_bytes",
        "_ran_out",
        "_tokens",
        "has_time_limit",
        "limits",
        "now",
        "turn_deadline",
        "until",
    )

    def __init__(
        self, limits: Limits, *, now: Callable[[], float], ran_out: TimeRanOut | None = None, seconds_left: float | None = None
    ) -> None:
        self.limits = limits
        self.now = now
        self.until = None if limits.max_turn_seconds is None else now() + limits.max_turn_seconds
        if self.until is not None and seconds_left is not None:
            self.until = min(self.until, now() + seconds_left)
        self._ran_out = ran_out
        if ran_out is not None and ran_out.in_a_step:
            # In a replay the node waits for something that was not recorded and would wait for ever.
            self.until = now() + GRACE
        self.has_time_limit = self.until is not None or limits.max_call_seconds is not None
        self._tokens = self._output_bytes = self._late_steps = 0
        self._calls: list[CallUsage] = []
        self.turn_deadline: Deadline | None = None
        """Ends the turn when its time is up; a step that starts later has a grace period of its own."""

    def call_until(self) -> float:
        """Return the deadline of a call that starts now; 0 where the turn's time is up."""
        now, seconds, until = self.now(), self.limits.max_call_seconds, self.until
        if until is None:
            return math.inf if seconds is None else now + seconds
        if now >= until:
            return 0
        return until if seconds is None or now + seconds > until else now + seconds

    def turn_until(self) -> float:
        """Return the deadline of the turn."""
        return math.inf if self.until is None else self.until

    def out_of_time(self) -> BudgetExceeded | None:
        """Return the error of a turn whose time is up."""
        return None if self.until is None or self.now() < self.until else self._time_is_up()

    def _time_is_up(self) -> BudgetExceeded:
        return BudgetExceeded(f"The turn took all of its {self.limits.max_turn_seconds or 0:g} seconds (max_turn_seconds).")

    def take_step(self, taken: int, own: int, steps: int) -> BudgetExceeded | None:
        """Charge one step; return the error where it exceeds a limit. `taken` steps of the turn and `own` of the graph came before.

        Time that is up ends no step, because a node without calls takes none: the next call is refused with an error from which its
        node can make an outcome, and a few more steps without calls let the turn end as its rows say.
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
        if self.turn_deadline is not None:
            self.turn_deadline.start_grace(self.now())
        return None

    def charge_model_call(self) -> CallUsage:
        """Charge one model call. Raises BudgetExceeded where none is left."""
        made = len(self._calls)
        if made == self.limits.max_model_calls:
            calls = "1 model call" if made == 1 else f"{made:,} model calls"
            raise BudgetExceeded(f"The turn reached its limit of {calls} (max_model_calls).")
        self._check()
        self._calls.append(CallUsage())
        return self._calls[-1]

    def count(self, usage: CallUsage, output: Any) -> None:
        """Count a model's answer, or one chunk of it. Tokens that the model reports replace the estimate."""
        reported: Any = getattr(output, "usage", None)
        self._charge(usage, _size(output), reported if isinstance(reported, Usage) else None)

    def count_rejected(self, usage: CallUsage, answer: RejectedAnswer) -> None:
        """Count an answer that cannot be used: it was paid for all the same."""
        given, made = answer.input_tokens, answer.output_tokens
        reported = None if given is None and made is None else Usage(input_tokens=given or 0, output_tokens=made or 0)
        self._charge(usage, answer.output_bytes, reported)

    def _charge(self, usage: CallUsage, size: int, reported: Usage | None) -> None:
        usage.bytes += size
        self._output_bytes += size
        if reported is not None:
            usage.reported = reported
        tokens = usage.bytes // _BYTES_PER_TOKEN if usage.reported is None else usage.reported.tokens
        self._tokens += tokens - usage.tokens
        usage.tokens = tokens
        self._check()

    def usage(self) -> TurnUsage:
        """Return what the turn has used so far."""
        reported = [call.reported for call in self._calls if call.reported is not None]
        return TurnUsage(
            model_calls=len(self._calls),
            input_tokens=sum(usage.input_tokens for usage in reported) if reported else None,
            output_tokens=sum(usage.output_tokens for usage in reported) if reported else None,
            output_bytes=self._output_bytes,
        )

    def _check(self) -> None:
        """Raise BudgetExceeded once models have produced too much; also for a node that caught the first error."""
        limits = self.limits
        if limits.max_output_bytes is not None and self._output_bytes > limits.max_output_bytes:
            raise BudgetExceeded(f"The turn's models returned more than {limits.max_output_bytes:,} bytes (max_output_bytes).")
        if limits.max_tokens is not None and self._tokens > limits.max_tokens:
            raise BudgetExceeded(f"The turn used more than {limits.max_tokens:,} tokens (max_tokens).")


def _size(output: Any) -> int:
    text = output if isinstance(output, str) else getattr(output, "output", None) or getattr(output, "text", None)
    if isinstance(text, str) and not getattr(output, "calls", None):
        return len(text) if text.isascii() else len(text.encode())
    try:
        return len(to_json(output, bytes_mode="base64", fallback=repr))
    except PydanticSerializationError:  # A caller's own model may contain bytes.
        return len(repr(output))


class ModelCallLimit(Layer):
    """Charges model calls to the budget."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return target.method.asks_model

    @override
    def start(self, call: Call) -> Awaitable[None] | None:
        try:
            call.usage = call.node.turn.budget.charge_model_call()
        except BudgetExceeded as error:
            return _refuse(error)
        return None


async def _refuse(error: BudgetExceeded) -> None:
    # Yield to the event loop so that a node which retries again and again cannot starve other turns.
    await asyncio.sleep(0)
    raise error


class CountUsage(Layer):
    """Counts what a model returns, chunk by chunk, and notes which model it was."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return target.method.asks_model

    @override
    def chunk(self, call: Call, chunk: Any) -> Any:
        turn = call.node.turn
        if turn.streamed is not None and call.target.method.is_stream:
            turn.streamed.append(chunk if isinstance(chunk, str) else getattr(chunk, "text", ""))
        if call.usage is not None:  # pragma: no branch - `ModelCallLimit` has set it
            turn.budget.count(call.usage, chunk)
        name: Any = getattr(chunk, "model", None)
        if isinstance(name, str) and name:
            turn.models[name] = None
        return chunk

    @override
    def fail(self, call: Call, error: BaseException) -> BaseException:
        if call.usage is not None and isinstance(error, ModelError) and error.rejected is not None:
            call.node.turn.budget.count_rejected(call.usage, error.rejected)
        return error
