"""Limits of a turn: steps, time, model calls, tokens and output.

`Limits` are the settings, `Budget` counts what a turn has used, and a `Deadline` ends what waits for too long.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import override

from interlock.capabilities.model import Usage
from interlock.errors import BudgetExceeded, ModelError, RejectedAnswer
from interlock.runtime.layers import Layer

if TYPE_CHECKING:
    from interlock.runtime.call import Call, Target
    from interlock.runtime.context import TurnFeatures

__all__ = [
    "GRACE",
    "LATE_STEPS",
    "Budget",
    "CallDeadline",
    "CallUsage",
    "CloseStream",
    "CountUsage",
    "Deadline",
    "Limits",
    "ModelCallLimit",
    "TimeRanOut",
    "TurnUsage",
]

GRACE = 0.25
"""Seconds in which the calls and nodes of a turn whose time is up can end by themselves, each with its own typed error."""

_GRACE_ROUNDS = 25
"""A grace period ends only when the event loop has come round to it this often: a process that stands still in it loses nothing."""

LATE_STEPS = 20
"""Steps that a turn whose time is up may still take, without calls, so that it ends as its rows say."""

_RETRY_SECONDS = 0.1
"""After this time a task that did not end when it was cancelled is cancelled again."""

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


@dataclass
class CallUsage:
    """Output of one model call so far. `tokens` are estimated until the model reports them."""

    bytes: int = 0
    tokens: int = 0
    reported: Usage | None = None


class Budget:
    """What one turn has used so far. `now` is a monotonic clock, in seconds."""

    def __init__(
        self, limits: Limits, *, now: Callable[[], float], ran_out: TimeRanOut | None = None, seconds_left: float | None = None
    ) -> None:
        self.limits = limits
        self.now = now
        self._call_seconds = math.inf if limits.max_call_seconds is None else limits.max_call_seconds
        self.until = math.inf
        """When the turn has to end."""
        if limits.max_turn_seconds is not None:
            self.until = now() + min(limits.max_turn_seconds, math.inf if seconds_left is None else seconds_left)
        self._ran_out = ran_out
        if ran_out is not None and ran_out.in_a_step:
            # In a replay the node waits for something that was not recorded and would wait for ever.
            self.until = now() + GRACE
        self.has_time_limit = min(self.until, self._call_seconds) < math.inf
        self._tokens = self._output_bytes = self._late_steps = 0
        self._calls: list[CallUsage] = []
        self.turn_deadline: Deadline | None = None
        """Ends the turn when its time is up; a step that starts later has a grace period of its own."""

    def call_until(self) -> float:
        """Return the deadline of a call that starts now; 0 where the turn's time is up."""
        now = self.now()
        return min(self.until, now + self._call_seconds) if now < self.until else 0

    def out_of_time(self) -> BudgetExceeded | None:
        """Return the error of a turn whose time is up."""
        return None if self.now() < self.until else self._time_is_up()

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
        if self.now() < self.until:
            return None
        self._late_steps += 1
        if self._late_steps > LATE_STEPS:
            return self._time_is_up()
        if self.turn_deadline is not None:
            self.turn_deadline.start_grace()
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
        usage.reported = reported or usage.reported
        tokens = usage.bytes // _BYTES_PER_TOKEN if usage.reported is None else usage.reported.tokens
        self._tokens += tokens - usage.tokens
        usage.tokens = tokens
        self._check()

    def usage(self) -> TurnUsage:
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


class Deadline:
    """Cancels a task, the current one where none is given, at a moment. Unlike `asyncio.timeout`, it insists.

    A task that does not end when it is cancelled is cancelled again. The seconds of a grace period count from when the missed deadline is
    noticed, which on a busy machine is long after it: inner deadlines that were missed at the same time fire first.
    """

    __slots__ = ("_cancellations", "_cancelling", "_grace", "_loop", "_moment", "_rounds_left", "_task", "_timer")

    def __init__(self, moment: float, task: asyncio.Task[Any] | None = None, *, grace: float = 0.0) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = task or cast("asyncio.Task[Any]", asyncio.current_task())
        self._grace = grace
        self._rounds_left = _GRACE_ROUNDS if grace else 0
        self._cancellations = 0
        self._cancelling = self._task.cancelling()
        self._timer: asyncio.TimerHandle | None = None
        self._set(moment)

    def _set(self, moment: float) -> None:
        self._moment = moment
        if self._timer is None and moment < math.inf:
            self._timer = self._loop.call_at(moment, self._expire)

    def _expire(self) -> None:
        """Cancel the task; with a grace period, only when that is over too."""
        self._timer = None
        if self._moment > self._loop.time():
            self._set(self._moment)
            return
        if self._rounds_left:
            self._rounds_left -= 1
            self._timer = self._loop.call_later(self._grace / _GRACE_ROUNDS, self._expire)
            return
        self._cancellations += 1
        self._timer = self._loop.call_later(_RETRY_SECONDS, self._expire)
        self._task.cancel()

    def move(self, moment: float, task: asyncio.Task[Any] | None) -> bool:
        """Use the deadline and its timer again, for the next chunk of a stream. Return False for another task."""
        if self._task is not task:
            return False
        self._set(moment)
        self._cancelling = self._task.cancelling()
        return True

    def pause(self) -> None:
        """Cancel nothing until the deadline is moved."""
        self._moment = math.inf
        if self._cancellations:
            self._uncancel()

    def start_grace(self) -> None:
        self._stop()
        self._rounds_left = _GRACE_ROUNDS
        self._expire()

    def caused_cancellation(self) -> bool:
        """Return whether a cancellation was caused by this deadline alone."""
        return self._cancellations > 0 and self._uncancel() <= self._cancelling

    def end(self) -> None:
        """Cancel nothing from now on."""
        self._stop()
        if self._cancellations:
            self._uncancel()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _uncancel(self) -> int:
        """Withdraw this deadline's cancellations; return how many others the task has."""
        while self._cancellations:
            self._cancellations -= 1
            self._task.uncancel()
        return self._task.cancelling()


# The layers of the call pipeline


class ModelCallLimit(Layer):
    """Charges model calls to the budget."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return target.method.asks_model

    @override
    async def start(self, call: Call) -> None:
        try:
            call.usage = call.node.turn.budget.charge_model_call()
        except BudgetExceeded:
            # Yield to the event loop so that a node which retries again and again cannot starve other turns.
            await asyncio.sleep(0)
            raise


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


class CallDeadline(Layer):
    """Limits how long a call may take, and a stream for each chunk. Between two chunks no time counts."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return turn.deadlines and target.has_deadline

    @override
    def wait(self, call: Call) -> Awaitable[None] | None:
        until = call.node.turn.budget.call_until()
        if until and call.deadline is not None and call.deadline.move(until, call.task):
            return None
        self.end(call)
        if not until:
            return _wait_late(call)
        call.deadline = Deadline(until, call.task)
        return None

    @override
    def chunk(self, call: Call, chunk: Any) -> Any:
        if call.deadline is not None:  # pragma: no branch - `wait` has set it
            call.deadline.pause()
        return chunk

    @override
    def end(self, call: Call) -> None:
        if call.deadline is not None:
            call.deadline.end()
            call.deadline = None

    @override
    def fail(self, call: Call, error: BaseException) -> BaseException:
        is_late = isinstance(error, asyncio.CancelledError) and call.deadline is not None and call.deadline.caused_cancellation()
        self.end(call)
        return call.late() if is_late else error


async def _wait_late(call: Call) -> None:
    """Refuse a call where the turn's time is up, unless it takes no time."""
    # As above: yield to the event loop.
    await asyncio.sleep(0)
    if not call.target.method.is_instant:
        raise call.late()
    call.deadline = Deadline(call.node.turn.budget.now(), call.task, grace=GRACE)


class CloseStream(Layer):
    """Closes the source of a stream, within the time that a call may take."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return target.method.is_stream

    @override
    async def end(self, call: Call) -> None:
        deadline = Deadline(call.node.turn.budget.call_until())
        try:
            if call.source is not None:
                await call.source.aclose()
        except asyncio.CancelledError:
            if deadline.caused_cancellation():
                raise call.late() from None
            raise
        finally:
            deadline.end()

    @override
    async def fail(self, call: Call, error: BaseException) -> BaseException:
        await self.end(call)
        return error
