"""The journal of a turn: every capability call with its result. A call that the journal has is never made again.

Time, ids and everything else from outside are capability calls, so a turn is a function of its input and its journal: with the
whole journal it is replayed, with part of one it is resumed where that ends. Where an entry cannot be written, or a resumed turn
makes a call that was not recorded, the turn ends and makes no more calls, whatever a node does about it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, Protocol, cast

from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict, override

from interlock.capabilities.human import Question
from interlock.contract.type_hints import format_type
from interlock.errors import (
    InputError,
    InterlockError,
    JournalFailed,
    ModelError,
    PersonAwaited,
    RecordInvalid,
    RejectedAnswer,
    ReplayDiverged,
    StoreUnavailable,
    TurnError,
)
from interlock.runtime.layers import Layer
from interlock.secrets import fields_of

if TYPE_CHECKING:
    from interlock.runtime.call import Call, Target
    from interlock.runtime.context import TurnFeatures

__all__ = ["CommitPending", "Entry", "Journal", "JournalCalls", "JournalSlot", "JournalStore", "key_of", "recorded_error"]


class RecordedError(TypedDict):
    """The error of a call as JSON data; `kind` is the name of its class."""

    code: str
    message: str
    kind: NotRequired[str]
    rejected: NotRequired[RejectedAnswer]


class AskedQuestion(TypedDict):
    """A question to a person as JSON data."""

    text: str
    options: list[str]
    recommended: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One capability call: which node made it, the method, and its result as JSON data, or its error.

    `key` is a hash of the arguments; `told` is what was shown of an answer before all of it was there. The result of a stream is
    the list of its chunks, together with an error if it broke off. An entry with a `question` has no result yet: the turn is
    suspended until a person answers.
    """

    turn: str
    sequence: int
    node: str
    capability: str
    method: str
    key: str
    told: tuple[str, ...] = ()
    result: Any = None
    error: RecordedError | None = None
    question: AskedQuestion | None = None

    def answered(self, text: str) -> Entry:
        """Return the entry of a suspended call with the person's answer."""
        return dataclasses.replace(self, question=None, result=text)


class JournalStore(Protocol):
    """Stores the journal of one turn. Only the claim with the highest epoch may write: other writers get Fenced."""

    async def claim(self, turn: str, epoch: int) -> Sequence[Entry]:
        """Take the turn over; return the entries that it has."""
        ...

    async def append(self, entries: Sequence[Entry]) -> None:
        """Store entries, all or none. When this returns, they are durable. Raises Fenced where a higher epoch claimed the turn.

        Where the task that waits for it is cancelled, the same entries come again: those that are stored already are left out.
        """
        ...

    async def end(self, footer: Mapping[str, Any]) -> None:
        """Store how the turn ended. Raises Fenced as `append` does."""
        ...


_REPLAY_ROUNDS = 1000
"""Rounds of the event loop in which a call that was made concurrently with another one must be made again."""

_REPLAY_SECONDS = 1.0
"""Seconds without any recorded call being made again, after which a new call is taken for a change of the code."""


class JournalSlot:
    """The place of one call in the journal: its entry where it is replayed, otherwise where its entry is written."""

    def __init__(self, journal: Journal, call: Entry, known: Entry | None) -> None:
        self._journal = journal
        self.call = call
        """The call without its result."""
        self.known = known
        self._told: list[str] = []

    def listen(self, on_chunk: Callable[[str], None] | None) -> Callable[[str], None] | None:
        """Record what is shown of an answer before all of it is there."""
        if on_chunk is None:
            return None

        def record(text: str) -> None:
            self._told.append(text)
            on_chunk(text)

        return record

    async def wait_for_order(self) -> None:
        """Wait until earlier entries have been replayed, so that concurrent calls complete in their recorded order."""
        known, waiting = self.known, self._journal.replay_order
        for _ in range(_REPLAY_ROUNDS):
            if waiting[0] is known:
                break
            await asyncio.sleep(0)
        waiting[:] = [entry for entry in waiting if entry is not known]

    async def catch_up(self) -> None:
        """Wait until every recorded call has been replayed, before a call is made that was not recorded.

        Concurrent calls may start in another order than they did, but soon. Where recorded calls are still left after that, the
        code has changed, and the turn ends before the new call is made. Calls that were under way when the turn stopped have no
        entry; as many new calls as there were of those need not wait, because later calls may depend on their chunks.
        """
        journal, loop = self._journal, asyncio.get_running_loop()
        if journal.left and journal.under_way:
            journal.under_way -= 1
            return
        left, rounds, since = journal.left, 0, loop.time()
        while journal.left:
            await asyncio.sleep(0 if rounds < _REPLAY_ROUNDS else _REPLAY_SECONDS / 100)
            journal.check()
            if journal.left != left:
                left, rounds, since = journal.left, 0, loop.time()
            elif rounds > _REPLAY_ROUNDS and loop.time() - since > _REPLAY_SECONDS:
                says = f"'{self.call.capability}.{self.call.method}' is called with arguments that the record does not have here."
                fix = "resume the turn with the code that it was recorded with, or run it again"
                raise journal.fail(ReplayDiverged(f"{says} Its next call is {journal.next_left}. Fix: {fix}."))
            rounds += 1

    async def write(self, *, result: Any = None, error: InterlockError | None = None, now: bool = True) -> None:
        """Write the entry of the call, or keep it for the next commit unless `now`."""
        recorded: RecordedError | None = None
        if error is not None:
            recorded = {"code": error.code, "kind": type(error).__name__, "message": error.message}
            if isinstance(error, ModelError) and error.rejected is not None:
                recorded["rejected"] = error.rejected
        self._journal.pending.append(dataclasses.replace(self.call, told=tuple(self._told), result=result, error=recorded))
        if now:
            await self._journal.commit()

    async def suspend(self, asked: Question) -> None:
        """Write that the call waits for a person's answer."""
        question: AskedQuestion = {"text": asked.text, "options": list(asked.options), "recommended": asked.recommended}
        entry = dataclasses.replace(self.call, question=question)
        if entry not in self._journal.suspended:
            self._journal.pending.append(entry)
        await self._journal.commit()


class Journal:
    """The calls of one turn.

    The entry of a call that may have an effect is stored before the node gets the result. The entry of a call that only asks may stay
    `pending`, because a resumed turn can ask again: it is stored, with others in one batch, before the next effect, before anything is
    shown that may rest on it, and when the turn ends. A journal that is complete has the whole turn: a call that it does not have is
    refused.
    """

    def __init__(self, turn: str, *, entries: Iterable[Entry] = (), store: JournalStore | None = None, complete: bool = False) -> None:
        self._turn = turn
        self._store = store
        self._complete = complete
        self._known: defaultdict[tuple[str, str, str, str], deque[Entry]] = defaultdict(deque)
        self._committing = asyncio.Lock()
        self.pending: list[Entry] = []
        """The entries that are not stored yet."""
        self.failure: InterlockError | None = None
        """Why no more calls may be made."""
        entries = tuple(entries)
        self.suspended = [entry for entry in entries if entry.question is not None]
        """The calls that waited for a person when the turn was suspended."""
        self.replay_order = [entry for entry in entries if entry.question is None]
        """The entries to be replayed, in the order in which the calls ended."""
        recorded = {entry.sequence for entry in self.replay_order}
        self.under_way = max(0, max(recorded, default=0) - len(recorded))
        """How many calls were under way when the last recorded call ended, less those that were made again."""
        self.left = len(self.replay_order)
        """How many recorded calls have not been replayed."""
        for entry in sorted(self.replay_order, key=lambda entry: entry.sequence):
            self._known[entry.node, entry.capability, entry.method, entry.key].append(entry)

    def slot(self, sequence: int, node: str, capability: str, method: str, key: str) -> JournalSlot:
        """Return the slot of a call. Ends the turn where the journal is complete and does not have the call."""
        self.check()
        known = self._known.get((node, capability, method, key))
        if not known and self._complete:
            raise self.fail(ReplayDiverged(f"'{capability}.{method}' is called with arguments that the record does not have here."))
        call = Entry(turn=self._turn, sequence=sequence, node=node, capability=capability, method=method, key=key)
        if not known:
            return JournalSlot(self, call, None)
        self.left -= 1
        return JournalSlot(self, call, known.popleft())

    @property
    def is_stored(self) -> bool:
        """Whether every entry is stored: none is pending, and none is being stored."""
        return not self.pending and not self._committing.locked()

    async def commit(self) -> None:
        """Store the pending entries. Ends the turn where they cannot be stored."""
        # One batch after the other, so that entries are stored in the order in which their calls ended. A call whose entry is part of
        # a batch that is being stored waits for it, too.
        async with self._committing:
            self.check()
            batch, self.pending = self.pending, []
            if not batch or self._store is None:
                return
            try:
                await self._store.append(batch)
            except InterlockError as error:
                raise self.fail(error) from error
            except Exception as error:
                raise self.fail(StoreUnavailable(f"The record cannot be written: {type(error).__name__}.")) from error
            except BaseException:
                # The task was cancelled while it waited for the store. Other calls of the turn must not go on without these entries.
                self.pending[:0] = batch
                raise

    def fail(self, reason: InterlockError) -> JournalFailed:
        """Refuse all further calls; return the exception to raise."""
        self.failure = self.failure or reason
        return JournalFailed(self.failure)

    def check(self) -> None:
        """End the turn if no more calls may be made."""
        if self.failure is not None:
            raise JournalFailed(self.failure)

    def check_end(self) -> None:
        """End a resumed turn with an error where it did not make some of the recorded calls."""
        if self.left and not self._complete:
            raise self.fail(ReplayDiverged(f"The turn has ended without {self.next_left}, which the record has."))

    @property
    def next_left(self) -> str:
        """The first recorded call that was not replayed."""
        entry = min(self.unused, key=lambda entry: entry.sequence)
        return f"'{entry.capability}.{entry.method}' in '{entry.node}'" if entry.node else f"'{entry.capability}.{entry.method}'"

    @property
    def unused(self) -> list[Entry]:
        """The recorded calls that were not replayed."""
        return [entry for entries in self._known.values() for entry in entries]


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
        if journal.is_stored or not (turn.features.events or (target.is_journaled and not target.method.only_asks)):
            return None
        return journal.commit()


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


def _is_shown_or_done(call: Call) -> bool:
    """Return whether a call may have had an effect, or its end is shown."""
    return call.run is not None or not call.target.method.only_asks


async def _replay(call: Call, slot: JournalSlot, known: Entry) -> None:
    """Answer a call from its entry."""
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


def recorded_error(error: RecordedError) -> InterlockError:
    """Return an error of the recorded class, which must be one of the known error classes with the recorded code."""
    known = [one for one in _classes() if one.code == error["code"]]
    found = next((one for one in known if one.__name__ == error.get("kind")), known[0] if known else None)
    if found is None:
        raise RecordInvalid(f"The record has an error of the unknown code '{error['code']}'.")
    made = found.__new__(found, error["message"])
    if isinstance(made, TurnError):
        # Not the class's own __init__, which may take more than a message.
        TurnError.__init__(made, error["message"])
    else:
        InterlockError.__init__(made, error["message"])
    if isinstance(made, ModelError):
        made.rejected = error.get("rejected")
    return made


def _classes() -> list[type[InterlockError]]:
    """Return every class of error that a capability call can raise."""
    classes: list[type[InterlockError]] = [TurnError, InputError]
    for one in classes:
        classes.extend(one.__subclasses__())
    return classes


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the key of a call: a hash of its arguments, the same for equal arguments in every process."""
    return hashlib.sha256(_canonical((args, kwargs)).encode()).hexdigest()


def _canonical(value: Any) -> str:
    """Return a text that is the same for equal values: keys and the members of sets are sorted."""
    if value is None or isinstance(value, str | bool | int | float):
        return json.dumps(value)
    if isinstance(value, type):
        return format_type(cast("Any", value))
    if isinstance(value, list | tuple):
        return f"[{','.join(_canonical(item) for item in cast('Iterable[Any]', value))}]"
    if isinstance(value, set | frozenset):
        return f"({','.join(sorted(_canonical(item) for item in cast('Iterable[Any]', value)))})"
    fields = fields_of(value)
    if fields is None:
        return json.dumps(to_jsonable_python(value, bytes_mode="base64"))
    return f"{{{','.join(sorted(f'{_canonical(key)}:{_canonical(item)}' for key, item in fields.items()))}}}"
