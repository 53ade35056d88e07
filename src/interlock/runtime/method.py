"""A capability's method, and the way of every call of it through the gate.

scope -> budget -> ledger -> deadline -> the adapter -> validation of the result -> ledger -> events
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, get_args

from pydantic import PydanticSchemaGenerationError, PydanticUserError

from interlock.capabilities.capability import asks_model, event_kind, is_stream, takes_no_time
from interlock.capabilities.telling import hearing
from interlock.capabilities.tools import ToolRequest
from interlock.contract.codec import Codec, Write, writer
from interlock.contract.labels import is_secret
from interlock.contract.shapes import asked_class, closed, hints, is_generic, peel
from interlock.contract.values import ValidationError, attempt, reasons, value_validator
from interlock.errors import (
    BudgetExceeded,
    CapabilityError,
    CapabilityResultInvalid,
    CapabilityTimeout,
    ContractViolation,
    InterlockError,
    ModelTimeout,
    PersonAwaited,
    TurnError,
)
from interlock.runtime.budget import GRACE, Budget, Heard
from interlock.runtime.events import Run
from interlock.runtime.ledger import JournalFailed, Ledger, key_of, recorded_error
from interlock.runtime.redaction import REDACTED
from interlock.runtime.scope import Scope

__all__ = ["Method"]

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Tell = Callable[[str], None]


_NO_MORE = object()
_PARTS = 2  # of a custom event: its name, its data


class Declared:
    """What a method's declaration says. It is the same whoever stands behind it, and takes long to read."""

    def __init__(self, capability: type, name: str) -> None:
        declared = getattr(capability, name)
        parameters = dict(hints(declared).resolved)
        returned = parameters.pop("return")
        self.is_stream = is_stream(declared)
        self._capability = capability.__name__
        self._name = name
        self.called = f"{self._capability}.{name}"
        self._event = event_kind(capability, name)
        self._asks_model = asks_model(capability, name)
        self._takes_no_time = takes_no_time(capability, name)
        self._hint, _ = peel(get_args(returned)[0] if self.is_stream else returned)
        self.gives_secret = is_secret(returned)
        self._takes_secrets = {parameter for parameter, hint in parameters.items() if is_secret(hint)}
        self._signature = inspect.signature(declared)
        self._asked = asked_class(parameters) if is_generic(self._hint) else None
        self._validate = None if self._asked else value_validator(self._hint)
        self._codecs: dict[Any, Codec[Any]] = {}
        self._validators: dict[Any, Callable[[Any], Any]] = {}
        self._count = len(parameters)
        self._check_event = value_validator(tuple[tuple(parameters.values())]) if self._event == "custom" else None
        self._write_given = _writer(tuple[tuple(parameters.values())]) if parameters else None
        self._write = None if self._asked or self.is_stream else _writer(self._hint)


_declared = functools.lru_cache(maxsize=1024)(Declared)


class Method(Declared):
    """One method of a granted capability; `made` is the adapter's."""

    def __init__(self, capability: type, name: str, made: Callable[..., Any]) -> None:
        vars(self).update(vars(_declared(capability, name)))
        self.made = made

    async def call(self, scope: Scope, args: Args, kwargs: Kwargs) -> Any:
        """Take a call through the gate."""
        if not scope.is_open:
            scope.check_open(self.called)
        heard = await self.ask(scope) if self._asks_model else None
        run = self.begin(scope, args, kwargs)
        task = scope.enter(asyncio.current_task())
        try:
            ledger = scope.ledger
            tell = None if run is None or heard is None else run.stream
            result = await (self._make(scope, args, kwargs, tell) if ledger is None else self._make_once(scope, ledger, args, kwargs, tell))
            if self.gives_secret:
                scope.redactor.add_secret(result)
            if heard is not None:
                scope.hear_model(heard, result)
        except (Exception, asyncio.CancelledError, JournalFailed) as error:
            failure = self.failed(run, error)
            if failure is error:
                raise
            if not isinstance(error, ValidationError):
                raise failure from error
        else:
            if run is not None:
                run.end(REDACTED if self.gives_secret else result, None if self.gives_secret else self._write)
            return result
        finally:
            scope.leave(task)
        raise failure  # here, where the value that was refused is not dragged along

    def begin(self, scope: Scope, args: Args, kwargs: Kwargs) -> Run | None:
        """Let a call in, and tell whoever listens."""
        if scope.run is None and not self._takes_secrets and self._event != "custom":
            return None  # as nearly always
        shown: list[Any] = [*args, *kwargs.values()]
        if self._event == "custom":
            shown = self._custom(args, kwargs)  # also where nobody listens: how a node ends does not depend on that
        if self._takes_secrets:
            given = self._bound(args, kwargs)
            scope.redactor.add_secret([given[name] for name in self._takes_secrets if name in given])
            shown = [REDACTED if name in self._takes_secrets else value for name, value in list(given.items())[1:]]
        if scope.run is None:
            return None
        if self._event == "custom":
            name, data = shown
            scope.run.custom(name, {"data": data} if data == REDACTED else data)
            return None
        run = scope.run.call(self._event, self.called)
        if run is None:
            return None
        if self._event == "tool" and not self._takes_secrets:
            request = next((value for value in shown if isinstance(value, ToolRequest)), None)
            if request is not None:
                return run.start_tool(request)
        if len(args) == self._count and not self._takes_secrets:
            return run.start(args, self._write_given)
        return run.start(shown)

    def _custom(self, args: Args, kwargs: Kwargs) -> list[Any]:
        """Return the name and the data of a custom event."""
        try:
            given: tuple[Any, ...] = tuple(self._bound(args, kwargs).values())[1:]
        except TypeError:
            given = ()
        wrong = len(given) != _PARTS or self._check_event is None or isinstance(attempt(self._check_event, given), ValidationError)
        if wrong:
            raise ContractViolation(f"'{self.called}' was called with something else than the name and the data of an event.")
        return [*given]

    async def _make(self, scope: Scope, args: Args, kwargs: Kwargs, tell: Tell | None) -> Any:
        """Make a call, within its time; `tell` passes on what the adapter tells on the way."""
        validate = self.validator(args, kwargs)
        wait = None
        if scope.budget.has_time_limit:
            until = scope.budget.call_until()
            if not until:
                await asyncio.sleep(0)  # let others run: the node may try again and again
                if not self._takes_no_time:
                    raise self.late(scope.budget)
                until = scope.budget.now() + GRACE
            wait = scope.begin_wait(until)
        elif tell is None:
            return validate(await self.made(*args, **kwargs))
        try:
            if tell is None:
                result = await self.made(*args, **kwargs)
            else:
                with hearing(tell):
                    result = await self.made(*args, **kwargs)
        except asyncio.CancelledError:
            if wait is not None and wait.was_ended():
                raise self.late(scope.budget) from None
            raise
        finally:
            scope.end_wait(wait)
        return validate(result)

    async def _make_once(self, scope: Scope, ledger: Ledger, args: Args, kwargs: Kwargs, tell: Tell | None) -> Any:
        """Make a call, unless the ledger holds what came of it."""
        codec, note = self._codec(args, kwargs), ledger.note(scope.node, self._capability, self._name, key_of(args, kwargs))
        if note.known is not None:
            await note.come()
            for text in note.known.told:
                if tell is not None:
                    tell(text)
            if note.known.error is not None:
                raise recorded_error(note.known.error)
            return codec.decode(note.known.result)
        await note.catch_up()
        try:
            result = await self._make(scope, args, kwargs, note.listen(tell))
            recorded = codec.encode(result)
        except PersonAwaited:
            raise  # nothing has come of it yet
        except Exception as error:
            note.write(error=self._typed(error))
            raise
        note.write(result=recorded)
        return result

    async def _make_pieces(self, scope: Scope, args: Args, kwargs: Kwargs) -> AsyncGenerator[Any, None]:
        """Make a call; no piece may take longer than a call."""
        validate = self.validator(args, kwargs)
        if scope.budget.has_time_limit and not scope.budget.call_until():
            await asyncio.sleep(0)  # let others run: the node may try again and again
            raise self.late(scope.budget)
        source: AsyncGenerator[Any, None] = self.made(*args, **kwargs)
        try:
            while (piece := await self.wait_for(scope, anext(source, _NO_MORE))) is not _NO_MORE:
                yield validate(piece)
        finally:
            await self.wait_for(scope, source.aclose())

    async def wait_for(self, scope: Scope, something: Awaitable[Any]) -> Any:
        """Wait for a part of a stream, for as long as a call may take."""
        wait = scope.begin_wait()
        try:
            return await something
        except asyncio.CancelledError:
            if wait is not None and wait.was_ended():
                raise self.late(scope.budget) from None
            raise
        finally:
            scope.end_wait(wait)

    async def recorded(self, scope: Scope, ledger: Ledger, args: Args, kwargs: Kwargs) -> AsyncGenerator[Any, None]:
        """Make a call, unless the ledger holds its pieces."""
        codec, note = self._codec(args, kwargs), ledger.note(scope.node, self._capability, self._name, key_of(args, kwargs))
        if note.known is not None:
            await note.come()
            for piece in note.known.result or ():
                yield codec.decode(piece)
            if note.known.error is not None:
                raise recorded_error(note.known.error)
            return
        await note.catch_up()
        pieces: list[Any] = []
        failure: InterlockError | None = None
        try:
            async with aclosing(self._make_pieces(scope, args, kwargs)) as source:
                async for piece in source:
                    pieces.append(codec.encode(piece))
                    yield piece
        except Exception as error:
            failure = self._typed(error)
            raise
        except asyncio.CancelledError:
            scope.is_cancelled = True  # what came is not all that would have come
            raise
        finally:
            if not scope.is_cancelled:
                note.write(result=pieces, error=failure)

    async def ask(self, scope: Scope) -> Heard | None:
        """Ask for leave to ask a model, if it is one; where there is none, let others run: the node may try again and again."""
        if not self._asks_model:
            return None
        try:
            return scope.budget.ask_model()
        except BudgetExceeded:
            await asyncio.sleep(0)
            raise

    def failed(self, run: Run | None, error: BaseException) -> BaseException:
        """Tell whoever listens that a call did not succeed, and return what the node gets to see."""
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the turn is cancelled
                if run is not None:
                    run.cancel()
                return error
        failure = error.reason if isinstance(error, JournalFailed) else self._typed(error)
        if run is not None:
            run.error(failure.code, failure.message)
        return error if isinstance(error, JournalFailed) else failure

    def _typed(self, error: BaseException) -> InterlockError:
        """Make a typed error of whatever an adapter raised or returned."""
        if isinstance(error, TurnError):
            error.node = error.turn = None  # an adapter may raise one error again and again
        if isinstance(error, InterlockError):
            return error
        if isinstance(error, ValidationError):
            told = "" if self.gives_secret else f": {reasons(error)}"
            return CapabilityResultInvalid(f"'{self.called}' returned something else{told}.")
        return CapabilityError(f"'{self.called}' failed: {type(error).__name__}.")

    def late(self, budget: Budget) -> InterlockError:
        """Make the error of a call whose time is up: its own, or the turn's."""
        kind = ModelTimeout if self._asks_model else CapabilityTimeout
        return budget.out_of_time() or kind(f"'{self.called}' took longer than {budget.limits.max_call_seconds:g} seconds.")

    def _returned(self, args: Args, kwargs: Kwargs) -> tuple[Any, Any]:
        """Return what a call asks for and the type of its result: by the class that it is handed, if it is handed one."""
        if self._asked is None:
            return None, self._hint
        asked = kwargs[self._asked] if self._asked in kwargs else self._bound(args, kwargs)[self._asked]
        return asked, closed(self._hint, asked)

    def validator(self, args: Args, kwargs: Kwargs) -> Callable[[Any], Any]:
        """Return what holds a result of the call to its type."""
        if self._validate is not None:
            return self._validate
        asked, hint = self._returned(args, kwargs)
        if asked not in self._validators:
            self._validators[asked] = value_validator(hint)
        return self._validators[asked]

    def _codec(self, args: Args, kwargs: Kwargs) -> Codec[Any]:
        asked, hint = self._returned(args, kwargs)
        if asked not in self._codecs:
            self._codecs[asked] = Codec(hint)
        return self._codecs[asked]

    def _bound(self, args: Args, kwargs: Kwargs) -> dict[str, Any]:
        """Return the arguments by their names."""
        return self._signature.bind(None, *args, **kwargs).arguments


def _writer(hint: Any) -> Write | None:
    """Make what writes values of a type for whoever listens; None for a type that only its values tell."""
    try:
        return writer(hint)
    except (PydanticSchemaGenerationError, PydanticUserError):
        return None
