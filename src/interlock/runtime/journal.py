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
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any, NotRequired, Protocol, cast

from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from interlock.capabilities.human import FormQuestion, Question
from interlock.contract.type_hints import format_type
from interlock.errors import (
    EffectUnknown,
    InterlockError,
    JournalFailed,
    ModelError,
    RecordInvalid,
    RejectedAnswer,
    ReplayDiverged,
    StoreError,
    StoreUnavailable,
    create_error,
)
from interlock.secrets import fields_of

__all__ = ["Entry", "Journal", "JournalSlot", "JournalStore", "key_of", "recorded_error"]


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
    schema: NotRequired[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One capability call: which node made it, the method, and its result as JSON data, or its error.

    `key` is a hash of the arguments; `told` is what was shown of an answer before all of it was there. The result of a stream is
    the list of its chunks, together with an error if it broke off. An entry with a `question` has no result yet: the turn is
    suspended until a person answers. An intent is stored before a call that must not be repeated: where it has no result, whether the
    call had its effect is not known.
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
    is_intent: bool = False

    def answered(self, text: str) -> Entry:
        """Return the entry of a suspended call with the person's answer."""
        return dataclasses.replace(self, question=None, result=text)


class JournalStore(Protocol):
    """Stores the journal of one turn, for one writer: another one gets Fenced."""

    @property
    def shows_late(self) -> bool:
        """Whether events are shown after they were stored, with the entries before them. Then a call that is shown need not wait."""
        ...

    @property
    def is_stale(self) -> bool:
        """Whether another writer may have the turn by now: before an effect, the store has to be asked."""
        ...

    async def append(self, entries: Sequence[Entry]) -> None:
        """Store entries, all or none. When this returns, they are durable. Raises Fenced where another writer has the turn.

        Where the task that waits for it is cancelled, the same entries come again: those that are stored already are left out.
        """
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
        self._journal.is_suspended = True
        question: AskedQuestion = {"text": asked.text, "options": list(asked.options), "recommended": asked.recommended}
        if isinstance(asked, FormQuestion):
            question["schema"] = dict(asked.schema)
        entry = dataclasses.replace(self.call, question=question)
        if entry not in self._journal.suspended:
            self._journal.pending.append(entry)
        if not self._journal.shows_late:
            await self._journal.commit()

    @property
    def is_begun(self) -> bool:
        """Whether an earlier attempt had begun the call as one that must not be repeated, and has no result."""
        return self._journal.begun[_identity(self.call)] > 0

    async def begin(self) -> None:
        """Write the intent to make a call that must not be repeated. Ends the turn where an earlier attempt had begun it."""
        journal, call = self._journal, self.call
        if self.is_begun:
            says = f"A worker died while it made the call '{call.capability}.{call.method}', which must not be repeated."
            raise journal.fail(EffectUnknown(f"{says} Fix: find out whether it had its effect, and run a new turn."))
        journal.pending.append(dataclasses.replace(call, is_intent=True))
        await journal.commit()


class Journal:
    """The calls of one turn.

    The entry of a call that may have an effect is stored before the node gets the result. The entry of a call that only asks may stay
    `pending`, because a resumed turn can ask again: it is stored, with others in one batch, before the next effect, before anything is
    shown that may rest on it, and when the turn ends. A journal that is complete has the whole turn: a call that it does not have is
    refused.
    """

    def __init__(self, turn: str, *, entries: Iterable[Entry] = (), store: JournalStore | None = None, complete: bool = False) -> None:
        entries = tuple(entries)
        self._turn = turn
        self._store = store
        self._complete = complete
        self._known: defaultdict[tuple[str, str, str, str], deque[Entry]] = defaultdict(deque)
        self._committing = asyncio.Lock()
        self.pending: list[Entry] = []
        """The entries that are not stored yet."""
        self.failure: InterlockError | None = None
        """Why no more calls may be made."""
        self.is_suspended = False
        """Whether a call waits for a person."""
        self.shows_late = store is not None and store.shows_late
        """Whether only effects have to be stored before the turn goes on: what is shown is shown when it is stored."""
        intents = [entry for entry in entries if entry.is_intent]
        entries = tuple(entry for entry in entries if not entry.is_intent)
        self.begun = Counter(map(_identity, intents)) - Counter(map(_identity, entries))
        """The calls that must not be repeated, and whose result was not stored."""
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
            self._known[_identity(entry)].append(entry)

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

    @property
    def is_stale(self) -> bool:
        """Whether another writer may have the turn by now."""
        return self._store is not None and self._store.is_stale

    @property
    def is_left_open(self) -> bool:
        """Whether the turn stops here without its end, because a store failed: a worker that can reach the store resumes it."""
        return self.shows_late and isinstance(self.failure, StoreError)

    def take_pending(self) -> list[Entry]:
        """Return the entries that are not stored, to be stored with the end of the turn."""
        pending, self.pending = self.pending, []
        return pending

    async def commit(self) -> None:
        """Store the pending entries. Ends the turn where they cannot be stored."""
        # One batch after the other, so that entries are stored in the order in which their calls ended. A call whose entry is part of
        # a batch that is being stored waits for it, too.
        async with self._committing:
            self.check()
            batch, self.pending = self.pending, []
            if self._store is None or not (batch or self._store.is_stale):
                return
            try:
                await self._store.append(batch)
            except BaseException as error:
                # Whether they are stored is not known. The store recognises them, and nothing may follow without them.
                self.pending[:0] = batch
                if not isinstance(error, Exception):
                    raise
                known = isinstance(error, InterlockError)
                reason = error if known else StoreUnavailable(f"The record cannot be written: {type(error).__name__}.")
                raise self.fail(reason) from error

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


def _identity(entry: Entry) -> tuple[str, str, str, str]:
    """Return what a call is recognised by when a turn is resumed: concurrent calls may get other numbers then."""
    return entry.node, entry.capability, entry.method, entry.key[:_KEY_DIGITS]


def recorded_error(error: RecordedError) -> InterlockError:
    """Return an error of the recorded class, which must be one of the known error classes with the recorded code."""
    made = create_error(error["code"], error["message"], name=error.get("kind"))
    if made is None:
        raise RecordInvalid(f"The record has an error of the unknown code '{error['code']}'.")
    if isinstance(made, ModelError):
        made.rejected = error.get("rejected")
    return made


_KEY_DIGITS = 32
"""128 bits tell the calls of a node apart, and random digits are most of what is left of a turn that was compressed.

Older keys have 64 digits, of which these are the first.
"""


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the key of a call: a hash of its arguments, the same for equal arguments in every process."""
    return hashlib.sha256(_canonical((args, kwargs)).encode()).hexdigest()[:_KEY_DIGITS]


def _canonical(value: Any) -> str:
    """Return a text that is the same for equal values: keys and the members of sets are sorted."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if value is None or isinstance(value, bool | int | float):
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
