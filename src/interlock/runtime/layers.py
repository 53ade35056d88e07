"""A layer of the call pipeline is one concern of every capability call. Those that need no module of their own are here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NoReturn

from typing_extensions import override

from interlock.errors import InterlockError, JournalFailed
from interlock.runtime.redaction.encodings import text_content

if TYPE_CHECKING:
    from interlock.runtime.call import Call, Target
    from interlock.runtime.context import TurnFeatures

__all__ = ["CheckOpen", "EmitEvents", "Layer", "SecretArguments", "SecretResults", "ValidateResult", "is_cancelled", "raise_alone"]


def raise_alone(error: BaseException) -> NoReturn:
    """Raise an error without the exception that is being handled as its `__context__`: that may contain a rejected value."""
    try:
        raise error
    finally:
        error.__context__ = None


class Layer:
    """Hooks into a call. A layer overrides the hooks that it needs and keeps no state: what belongs to one call is stored on it.

    `start` runs from the first layer of the list to the last, every other hook from the last to the first.
    """

    def applies(self, target: Target, turn: TurnFeatures) -> bool:  # noqa: ARG002 - for layers that override it
        """Return whether the calls of a target pass the layer in a turn with these features."""
        return True

    def start(self, call: Call) -> Awaitable[None] | None:
        """Begin the call. Raise to refuse it; set `call.source` to answer it in place of the target."""

    def wait(self, call: Call) -> Awaitable[None] | None:
        """Prepare to wait for the next chunk of the target."""

    def chunk(self, call: Call, chunk: Any) -> Any:  # noqa: ARG002 - for layers that override it
        """Return the chunk, or what is passed on in its place. Raise to reject it."""
        return chunk  # pragma: no cover - only hooks that a layer overrides are called

    def end(self, call: Call) -> Awaitable[None] | None:
        """End the call: the target has no more chunks, or the caller or an outer layer wants no more."""

    def fail(self, call: Call, error: BaseException) -> BaseException | Awaitable[BaseException]:  # noqa: ARG002 - as above
        """Return the error that an inner layer or the target raised, or the one to raise in its place."""
        return error  # pragma: no cover - as above


class CheckOpen(Layer):
    """Refuses calls after the node has ended."""

    @override
    def start(self, call: Call) -> None:
        if not call.node.is_open:
            call.node.refuse(call.target.method.label)


class SecretArguments(Layer):
    """Redacts secret arguments from here on, wherever they appear."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return bool(target.method.secret_parameters)

    @override
    def start(self, call: Call) -> None:
        method = call.target.method
        given = method.arguments(call.args, call.kwargs)
        call.node.turn.redactor.add_secret([given[name] for name in method.secret_parameters if name in given])


class EmitEvents(Layer):
    """Emits the events of a call: start, chunk, end, error."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        # Whether the arguments of a custom event are valid does not depend on who listens.
        return turn.events or target.method.event == "custom"

    @override
    def start(self, call: Call) -> None:
        call.run = call.target.start_event(call)
        if call.run is not None:
            call.chunks = []
            if call.usage is not None:
                call.on_chunk = call.run.stream

    @override
    def chunk(self, call: Call, chunk: Any) -> Any:
        if call.chunks is not None and call.run is not None:
            call.chunks.append(chunk)
            method = call.target.method
            if method.is_stream and not method.returns_secret:
                call.run.stream(chunk)
        return chunk

    @override
    def end(self, call: Call) -> None:
        if call.run is not None and not call.run.has_ended:
            call.target.end_event(call, call.run)

    @override
    def fail(self, call: Call, error: BaseException) -> BaseException:
        if call.run is None:
            return error
        if isinstance(error, JournalFailed):
            call.run.error(error.reason.code, error.reason.message)
        elif isinstance(error, InterlockError):
            call.run.error(error.code, error.message)
        else:
            call.run.cancel()
        return error


class SecretResults(Layer):
    """Redacts a secret result from here on, each chunk of it and all chunks together."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return target.method.returns_secret

    @override
    def chunk(self, call: Call, chunk: Any) -> Any:
        redactor = call.node.turn.redactor
        redactor.add_secret(chunk)
        if call.target.method.is_stream:
            call.secret_text += text_content(chunk)
            redactor.add_secret(call.secret_text)
        return chunk


class ValidateResult(Layer):
    """Validates results against their declared type, and turns every exception of an adapter into a typed error."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return target.is_validated

    @override
    def chunk(self, call: Call, chunk: Any) -> Any:
        return call.target.method.validator(call.args, call.kwargs)(chunk)

    @override
    def fail(self, call: Call, error: BaseException) -> BaseException:
        if isinstance(error, JournalFailed) or (isinstance(error, asyncio.CancelledError) and is_cancelled()):
            return error
        return call.target.method.typed_error(error)


def is_cancelled() -> bool:
    """Return whether the turn itself is being cancelled, and not something that an adapter or a node waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
