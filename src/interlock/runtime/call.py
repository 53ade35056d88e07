"""One capability call on its way out of a node and back. Every call passes the layers in `LAYERS`, whatever answers it.

A target answers the calls of one method: an adapter, a graph, an adapter composed of other capabilities, or the session's own
load and save. It says which of the optional layers its calls pass. A call that returns one value is a stream of one chunk.
To add a concern, write a `Layer` in a file of its own and name it in `LAYERS`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

from interlock.contract.schema import ValidationError
from interlock.errors import CapabilityTimeout, InterlockError, JournalFailed, ModelTimeout
from interlock.runtime.events import Run
from interlock.runtime.journal import JournalSlot
from interlock.runtime.journal_layers import CommitPending, JournalCalls
from interlock.runtime.layers import CheckOpen, EmitEvents, Layer, SecretArguments, SecretResults, ValidateResult, raise_alone
from interlock.runtime.limits import CallDeadline, CallUsage, CloseStream, CountUsage, Deadline, ModelCallLimit
from interlock.runtime.origins import TrackOrigins
from interlock.runtime.rate_limits import CallRate

if TYPE_CHECKING:
    from interlock.capabilities.capability import Effect
    from interlock.runtime.context import NodeContext, TurnFeatures
    from interlock.runtime.targets import Args, Kwargs, Method

__all__ = ["LAYERS", "Call", "Pipeline", "Stream", "Target"]

LAYERS: tuple[Layer, ...] = (
    CheckOpen(),
    ModelCallLimit(),
    SecretArguments(),
    CommitPending(),
    TrackOrigins(),
    EmitEvents(),
    SecretResults(),
    CountUsage(),
    JournalCalls(),
    CallRate(),
    ValidateResult(),
    CloseStream(),
    CallDeadline(),
)
"""From the node to the target. A call starts in this order; its chunks, its end and its errors come back in the reverse order.

The journal is inside the limits: an answer that exceeds a limit was paid for, so it is recorded, and a replay exceeds the same limit.
It is outside the rate limit, validation and deadline, whose errors it records: a replay asks none of them again.
"""

_ERRORS = (Exception, asyncio.CancelledError, JournalFailed)
"""What a call can end with, other than its result."""

_CHUNKS_PER_YIELD = 32
"""After this many chunks a stream yields to the event loop, so that listeners can read the events of a source that never waits."""


class Pipeline:
    """The layers that the calls of a target pass in turns with the same features, and the hooks that each overrides, with its index."""

    def __init__(self, target: Target, turn: TurnFeatures) -> None:
        self.layers = tuple(layer for layer in LAYERS if layer.applies(target, turn))
        self.start = self._overridden("start")
        self.wait = self._overridden("wait")
        self.chunk = self._overridden("chunk")[::-1]
        self.end = self._overridden("end")[::-1]
        self.fail = self._overridden("fail")[::-1]

    def _overridden(self, hook: str) -> tuple[tuple[int, Callable[..., Any]], ...]:
        found = [(index, layer) for index, layer in enumerate(self.layers) if getattr(type(layer), hook) is not getattr(Layer, hook)]
        return tuple((index, getattr(layer, hook)) for index, layer in found)


class Target(ABC):
    """Answers the calls of one method. Subclasses say what differs."""

    is_journaled = True
    """Whether its results are journal entries. The calls that a graph or a composed adapter makes are entries of their own."""
    has_deadline = True
    """Whether a call has a deadline of its own, or only the turn's."""
    is_validated = True
    """Whether its results and errors are still to be validated; a graph's are, by its nodes' contracts."""

    def __init__(self, method: Method) -> None:
        self.method = method
        self.pipelines: dict[TurnFeatures, Pipeline] = {}

    def new_pipeline(self, turn: TurnFeatures) -> Pipeline:
        """Create the pipeline of calls in turns with these features."""
        self.pipelines[turn] = Pipeline(self, turn)
        return self.pipelines[turn]

    @abstractmethod
    def open(self, call: Call) -> Any:
        """Make the call: return a coroutine, or an async generator for a method that streams."""

    async def effect_of(self, call: Call) -> Effect:  # noqa: ARG002 - for targets whose calls differ
        """Return what a call does outside."""
        return self.method.effect

    def start_event(self, call: Call) -> Run | None:  # noqa: ARG002 - for targets that have events
        """Emit the start event of a call; return the run for its other events, None where it has none."""
        return None

    def end_event(self, call: Call, run: Run) -> None:  # noqa: B027 - for targets that have events
        """Emit the end event of a call."""


class Call:
    """A call under way. The layers keep here what they need to know about it."""

    # Class attributes are the defaults: most calls set few of them.
    reached = 0
    """How many layers have started. Where a layer answers in place of the target, the layers behind it never start."""
    source: Any = None
    """Gives the result: a coroutine, or an async generator for a method that streams."""
    task: asyncio.Task[Any] | None = None
    """The task that waits for the result or the next chunk."""
    on_chunk: Callable[[str], None] | None = None
    """Shows the beginning of an answer before all of it is there. It does not change the result."""
    sequence = 0
    """The number of the call in its turn, from 1; 0 for a call that is not a journal entry."""
    prepared: Any = None
    """What the target has prepared for the call."""
    usage: CallUsage | None = None
    slot: JournalSlot | None = None
    is_clean = True
    """Whether nothing from outside was read before the call started."""
    effect: Effect | None = None
    """The effect of this call, where it is known better than that of its method."""
    encoded: list[Any] | None = None
    deadline: Deadline | None = None
    run: Run | None = None
    chunks: list[Any] | None = None
    secret_text = ""
    _rejected_by: int | None = None

    def __init__(self, target: Target, node: NodeContext, args: Args, kwargs: Kwargs) -> None:
        self.target = target
        features = node.turn.features
        self.pipeline = target.pipelines.get(features) or target.new_pipeline(features)
        self.node = node
        self.args = args
        self.kwargs = kwargs

    async def result(self) -> Any:
        """Make a call that returns one value."""
        node = self.node
        self.task = task = asyncio.current_task()
        if task is not node.task:
            node.tasks.add(task)
        try:
            await self.open()
            chunk = self.pass_on(await self.source)
            await self.end()
        except _ERRORS as error:
            await self.fail(error)
        else:
            return chunk
        finally:
            node.tasks.discard(task)

    async def open(self) -> None:
        """Start the call in every layer, until one of them answers it; otherwise make it."""
        for index, start in self.pipeline.start:
            self.reached = index + 1
            pending = start(self)
            if pending is not None:
                await pending
            if self.source is not None:
                return
        self.reached = len(self.pipeline.layers)
        for _, wait in self.pipeline.wait:
            pending = wait(self)
            if pending is not None:
                await pending
        self.source = self.target.open(self)

    def pass_on(self, chunk: Any) -> Any:
        """Pass a chunk through the layers, from the target to the node."""
        index, reached = 0, self.reached
        try:
            for index, hook in self.pipeline.chunk:
                if index < reached:
                    chunk = hook(self, chunk)
        except BaseException:
            self._rejected_by = index
            raise
        return chunk

    async def end(self, *, until: int = 0) -> None:
        """End the call in its layers, from the target to the node."""
        for index, end in self.pipeline.end:
            if until <= index < self.reached:
                self.reached = index
                pending = end(self)
                if pending is not None:
                    await pending
        self.reached = until

    async def fail(self, error: BaseException) -> NoReturn:
        """Pass an error through the layers, from where it was raised to the node, and raise what they make of it."""
        failure = error
        if self._rejected_by is not None:
            # A layer rejected a chunk. The layers inside it have done their part and end; it and the layers outside it fail.
            rejected_by, self._rejected_by = self._rejected_by, None
            try:
                await self.end(until=rejected_by + 1)
            except _ERRORS as other:
                failure = other
        for index, fail in self.pipeline.fail:
            if index < self.reached:
                self.reached = index
                try:
                    changed = fail(self, failure)
                    failure = changed if isinstance(changed, BaseException) else await changed
                except _ERRORS as other:
                    failure = other
        self.reached = 0
        if failure is error:
            raise error
        if isinstance(error, asyncio.CancelledError | ValidationError) or failure.__cause__ is not None:
            raise_alone(failure)
        raise failure from error

    @property
    def idempotency_key(self) -> str:
        """Identifies the call: the same when a resumed turn makes it again."""
        if not self.sequence:
            self.sequence = self.node.turn.next_sequence()
        return f"{self.node.turn.turn}:{self.sequence}"

    def late(self) -> InterlockError:
        """Return the error of a call that missed its deadline: its own, or the turn's."""
        budget, method = self.node.turn.budget, self.target.method
        kind = ModelTimeout if method.asks_model else CapabilityTimeout
        return budget.out_of_time() or kind(f"'{method.label}' took longer than {budget.limits.max_call_seconds:g} seconds.")


class Stream:
    """What a node reads: `async for chunk in model.stream(...)`. The call starts when the first chunk is asked for."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._is_over = False
        self._count = 0

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:  # noqa: C901 - in one place, because it runs for every chunk
        call, node = self._call, self._call.node
        if not node.is_open:
            node.refuse(call.target.method.label)
        if self._is_over:
            raise StopAsyncIteration
        call.task = task = asyncio.current_task()
        if task is not node.task:
            node.tasks.add(task)
        try:
            if call.source is None:
                await call.open()
            else:
                for index, wait in call.pipeline.wait:
                    pending = wait(call) if index < call.reached else None
                    if pending is not None:
                        await pending
            chunk = call.pass_on(await anext(cast("Any", call.source)))
            self._count += 1
            if not self._count % _CHUNKS_PER_YIELD:
                await asyncio.sleep(0)
        except StopAsyncIteration:
            await self.aclose()
            raise
        except _ERRORS as error:
            self._is_over = True
            await call.fail(error)
        else:
            return chunk
        finally:
            node.tasks.discard(task)

    async def aclose(self) -> None:
        """Stop reading."""
        if self._is_over:
            return
        self._is_over = True
        try:
            await self._call.end()
        except _ERRORS as error:
            await self._call.fail(error)
