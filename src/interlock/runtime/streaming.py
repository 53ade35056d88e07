"""A capability's result that comes in pieces, on its way through the gate. There are many of them, so what a piece costs counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

from interlock.capabilities.model import Piece
from interlock.contract.values import ValidationError
from interlock.runtime.budget import Heard
from interlock.runtime.events import Run
from interlock.runtime.ledger import JournalFailed
from interlock.runtime.redaction import Redactor
from interlock.runtime.redaction.encodings import text_content
from interlock.runtime.scope import Scope
from interlock.runtime.watch import Wait, Watch

if TYPE_CHECKING:
    from interlock.runtime.method import Args, Kwargs, Method

__all__ = ["Stream"]

_TURNS = 32  # pieces after which others get to run


class Stream:
    """What a node reads: `async for piece in model.stream(...)`. It begins with the first piece that is asked for."""

    def __init__(self, method: Method, scope: Scope, args: Args, kwargs: Kwargs) -> None:
        self._method = method
        self._scope = scope
        self._args = args
        self._kwargs = kwargs
        self._source: AsyncGenerator[Any, None] | None = None
        self._is_over = False
        self._heard: Heard | None = None
        self._told: _Told | None = None
        self._wait: Wait | None = None
        self._watch: Watch | None = None
        self._validate: Callable[[Any], Any] | None = None
        self._count = 0

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:  # noqa: C901, PLR0912 - in one step, because every step costs
        """Return the next piece: within its time, of its type, counted, and told to whoever listens."""
        scope = self._scope
        if not scope.is_open:
            scope.check_open(self._method.called)
        if self._is_over:
            raise StopAsyncIteration
        task = asyncio.current_task()
        other = None if task is scope.task else scope.enter(task)
        try:
            source = self._source or await self._begin()
            if self._watch is not None:
                until = scope.budget.call_until()
                if not until:
                    await self._out_of_time()
                self._wait = self._watch.again(self._wait, until, task)
            piece = await anext(source)
            if _is_plain(piece):
                self._hear(piece)
            else:
                piece = self._checked(piece)
            self._count += 1
            if not self._count % _TURNS:
                await asyncio.sleep(0)  # whoever reads the events gets to read some, also where the source never waits
        except StopAsyncIteration:
            await self._end()
            raise
        except (Exception, asyncio.CancelledError, JournalFailed) as error:
            failure, source = await self._failed(error)
            if failure is error:
                raise
            if source is not None:
                raise failure from source
        else:
            return piece
        finally:
            if self._wait is not None:
                self._wait.rest()
            if other is not None:
                scope.leave(other)
        raise failure  # here, where the value that was refused is not dragged along

    def _hear(self, piece: Piece) -> None:
        """Count a piece that is nothing but text, and tell of it."""
        if self._heard is not None:
            self._scope.hear_text(self._heard, piece.text, piece.model)
        told = self._told
        if told is not None:
            told.pieces.append(piece)
            if told.learns is None and told.run is not None:
                told.run.stream_text(piece.text, piece.model)
            else:
                told.learn(piece)

    def _checked(self, piece: Any) -> Any:
        """Hold a piece to its type, and count it."""
        if self._validate is not None:
            piece = self._validate(piece)
        if self._heard is not None:
            self._scope.hear_piece(self._heard, piece)
        if self._told is not None:
            self._told.hear(piece)
        return piece

    async def aclose(self) -> None:
        """Stop reading."""
        if not self._is_over:
            await self._end()

    async def _begin(self) -> AsyncGenerator[Any, None]:
        """Let the call in."""
        method, scope = self._method, self._scope
        self._heard = await method.ask(scope)
        run = method.begin(scope, self._args, self._kwargs)
        if run is not None or method.gives_secret:
            self._told = _Told(run, scope.redactor if method.gives_secret else None)
        if scope.ledger is None:
            self._validate = method.validator(self._args, self._kwargs)
            self._watch = scope.shared.watch
            source = method.made(*self._args, **self._kwargs)
        else:  # which keeps its own time, and has looked at what it keeps
            source = method.recorded(scope, scope.ledger, self._args, self._kwargs)
        self._source = source
        return source

    async def _out_of_time(self) -> None:
        await asyncio.sleep(0)  # let others run: the node may try again and again
        raise self._method.late(self._scope.budget)

    async def _end(self) -> None:
        try:
            await self._close()
        finally:
            if self._told is not None:
                self._told.end()

    async def _close(self) -> None:
        """Let go of the source."""
        self._is_over = True
        wait, self._wait = self._wait, None
        self._scope.end_wait(wait)
        if self._source is not None:
            await self._method.wait_for(self._scope, self._source.aclose())

    async def _failed(self, error: BaseException) -> tuple[BaseException, BaseException | None]:
        """End, tell whoever listens why, and return what the node gets to see, with what it comes from."""
        comes_from: BaseException | None = None if isinstance(error, ValidationError) else error
        if isinstance(error, asyncio.CancelledError) and self._wait is not None and self._wait.was_ended():
            error, comes_from = self._method.late(self._scope.budget), None
        await self._close()
        failure = self._method.failed(None if self._told is None else self._told.run, error)
        return failure, comes_from


def _is_plain(piece: Any) -> bool:
    """Tell whether a piece is nothing but ASCII text of a model's, as nearly every one is."""
    if piece.__class__ is not Piece or piece.calls.__class__ is not tuple or piece.calls or piece.usage is not None:
        return False
    return piece.text.__class__ is str and piece.text.isascii() and piece.model.__class__ is str


class _Told:
    """What is told of a stream while it comes; or learnt, where it is secret."""

    def __init__(self, run: Run | None, learns: Redactor | None) -> None:
        self.run = run
        self.learns = learns
        self.pieces: list[Any] = []

    def hear(self, piece: Any) -> None:
        """Tell of a piece, or learn it."""
        self.pieces.append(piece)
        if self.learns is not None:
            self.learn(piece)
        elif self.run is not None:  # pragma: no branch - it is made for one of the two
            self.run.stream(piece)

    def learn(self, piece: Any) -> None:
        """Learn a piece as it is, and as the end of what came before."""
        if self.learns is not None:  # pragma: no branch - where it is not, nobody asks
            self.learns.add_secret(piece)
            self.learns.add_secret("".join(text_content(one) for one in self.pieces))

    def end(self) -> None:
        """Tell that no more pieces come, if that was not told."""
        if self.run is not None and not self.run.has_ended:
            self.run.end_stream([] if self.learns is not None else self.pieces)
