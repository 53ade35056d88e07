"""The layers of the call pipeline that keep the journal: calls that it has are replayed, others are written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import override

from interlock.capabilities.human import Question
from interlock.errors import InterlockError, PersonAwaited
from interlock.runtime.journal import Entry, Journal, JournalSlot, key_of, recorded_error
from interlock.runtime.layers import Layer

if TYPE_CHECKING:
    from interlock.runtime.call import Call, Target
    from interlock.runtime.context import TurnFeatures

__all__ = ["CommitPending", "JournalCalls"]


class CommitPending(Layer):
    """Commits the journal before a call that may have an effect or that is shown: what it is given may rest on pending entries.

    The call is numbered before that, because concurrent calls must get the same numbers when the turn is resumed, with nothing pending.
    """

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return turn.journal

    @override
    def start(self, call: Call) -> Awaitable[None] | None:
        turn, target = call.node.turn, call.target
        if target.is_journaled:
            call.sequence = turn.next_sequence()
        journal = cast("Journal", turn.journal)
        if journal.shows_late or journal.is_stored or not (turn.features.events or _may_have_effect(target)):
            return None
        return journal.commit()

    @override
    def end(self, call: Call) -> Awaitable[None] | None:
        # After the end event was emitted, so that events have the order of the entries, in which they are replayed.
        journal = cast("Journal", call.node.turn.journal)
        return journal.commit() if journal.shows_late and journal.pending and _has_effect(call) else None

    @override
    async def fail(self, call: Call, error: BaseException) -> BaseException:
        journal = cast("Journal", call.node.turn.journal)
        is_suspended = isinstance(error, PersonAwaited)
        if journal.shows_late and isinstance(error, InterlockError) and not is_suspended and _has_effect(call):
            await journal.commit()
        return error


class JournalCalls(Layer):
    """Replays a call that the journal has; writes the entry of any other."""

    @override
    def applies(self, target: Target, turn: TurnFeatures) -> bool:
        return turn.journal

    @override
    def start(self, call: Call) -> Awaitable[None] | None:
        turn, target = call.node.turn, call.target
        journal = cast("Journal", turn.journal)
        if not target.is_journaled:
            journal.check()
            return None
        method = target.method
        slot = journal.slot(call.sequence, call.node.node, method.capability, method.name, key_of(call.args, call.kwargs))
        call.slot = slot
        if slot.known is not None:
            return _replay(call, slot, slot.known)
        call.encoded = []
        call.on_chunk = slot.listen(call.on_chunk)
        if _may_have_effect(target):
            return _before_effect(call, slot, journal)
        return slot.catch_up() if journal.left else None

    @override
    def chunk(self, call: Call, chunk: Any) -> Any:
        if call.encoded is not None:
            call.encoded.append(call.target.method.codec(call.args, call.kwargs).encode(chunk))
        return chunk

    @override
    def end(self, call: Call) -> Awaitable[None] | None:
        if call.slot is None:
            # A composed adapter may have caught the error with which its own calls ended the turn.
            cast("Journal", call.node.turn.journal).check()
            return None
        if call.encoded is None:
            return _close_replay(call)
        if call.node.is_cancelled:
            return None
        result = call.encoded if call.target.method.is_stream else call.encoded[0]
        return call.slot.write(result=result, now=_is_shown_or_done(call))

    @override
    async def fail(self, call: Call, error: BaseException) -> BaseException:
        if call.slot is None:
            return error
        if call.encoded is None:
            await _close_replay(call)
        elif isinstance(error, PersonAwaited):
            if isinstance(error.question, Question):
                await call.slot.suspend(error.question)
        elif isinstance(error, InterlockError):
            result = call.encoded if call.target.method.is_stream else None
            await call.slot.write(result=result, error=error, now=_is_shown_or_done(call))
        else:
            # The turn is cancelled or its journal failed: what came so far is not the whole result, and must not be recorded as it.
            call.node.is_cancelled = call.node.is_cancelled or isinstance(error, asyncio.CancelledError)
        return error


def _may_have_effect(target: Target) -> bool:
    """Return whether a call of a target may have an effect, as far as its method says."""
    return target.is_journaled and target.method.effect != "asks"


def _has_effect(call: Call) -> bool:
    """Return whether a call may have had an effect, as far as is known of this call."""
    return call.target.is_journaled and (call.effect or call.target.method.effect) != "asks"


async def _before_effect(call: Call, slot: JournalSlot, journal: Journal) -> None:
    """Store what an effect may rest on, and for one that must not be repeated the intent.

    The event loop always gets to run other tasks before a call that may have an effect, as in a replay: concurrent calls start in
    the same order.
    """
    await asyncio.sleep(0)
    if journal.left:
        await slot.catch_up()
    call.effect = await call.target.effect_of(call)
    if not journal.shows_late:
        return
    if call.effect == "once" or slot.is_begun:
        await slot.begin()
    elif call.effect == "keyed" and (journal.is_stale or not journal.is_stored):
        await journal.commit()


def _is_shown_or_done(call: Call) -> bool:
    """Return whether a call may have had an effect, or its end is shown before it is stored."""
    journal = cast("Journal", call.node.turn.journal)
    return not journal.shows_late and (call.run is not None or _has_effect(call))


async def _replay(call: Call, slot: JournalSlot, known: Entry) -> None:
    """Answer a call from its entry."""
    if _may_have_effect(call.target):
        await asyncio.sleep(0)
    await slot.wait_for_order()
    if call.on_chunk is not None:
        for text in known.told:
            call.on_chunk(text)
    call.source = _replay_chunks(call, known) if call.target.method.is_stream else _replay_result(call, known)


async def _replay_result(call: Call, known: Entry) -> Any:
    if known.error is not None:
        raise recorded_error(known.error)
    return call.target.method.codec(call.args, call.kwargs).decode(known.result)


async def _replay_chunks(call: Call, known: Entry) -> AsyncGenerator[Any, None]:
    codec = call.target.method.codec(call.args, call.kwargs)
    for chunk in known.result or ():
        yield codec.decode(chunk)
    if known.error is not None:
        raise recorded_error(known.error)


async def _close_replay(call: Call) -> None:
    if call.source is not None and call.target.method.is_stream:
        await call.source.aclose()
