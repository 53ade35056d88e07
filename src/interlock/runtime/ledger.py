"""The ledger of a turn: every capability call with what came of it. A call that it holds is never made again.

Since time, ids and everything else from outside are capability calls, a turn is a function of its input and its ledger:
running it again with the whole ledger repeats it, running it again with part of a ledger goes on where that stops.

Where the ledger cannot vouch for what was done, because an entry cannot be written or a call is not the one that was
recorded, the turn ends: no more calls are made, whatever a node does about it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NotRequired, cast

from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from typing_extensions import TypedDict

from interlock.contract.shapes import render
from interlock.errors import InputError, InterlockError, RecordInvalid, ReplayDiverged, StoreUnavailable, TurnError

__all__ = ["Entry", "JournalFailed", "Ledger", "Note", "key_of", "recorded_error"]


class RecordedError(TypedDict):
    """The error of a call, as JSON data; `kind` is the name of its class."""

    code: str
    message: str
    kind: NotRequired[str]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One capability call: where it was made, what was called, and its result as JSON data, or its error.

    `key` stands for the arguments, `told` is what was told of an answer ahead of the whole. A stream has the list of its
    pieces for a result, and an error as well if it broke off.
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


_text = json.encoder.encode_basestring_ascii  # what json.dumps does with a text, at a tenth of the cost
_PATIENCE = 1000  # rounds of the event loop for a call that was made at once with another to be made again
_LONGEST = 1.0  # seconds without a recorded call being made again, until a new one is taken for a change of the code
Identity = tuple[str, str, str, str]


class JournalFailed(BaseException):
    """Ends a turn. It is no Exception, so that a node which catches errors and tries again does not catch this.

    `reason` is the typed error that the turn ends with.
    """

    def __init__(self, reason: InterlockError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class Place:
    """The place of a recorded call in the order in which calls ended."""

    def __init__(self, waiting: list[Entry], entry: Entry) -> None:
        self._waiting = waiting
        self._entry = entry

    def comes(self) -> bool:
        return self._waiting[0] is self._entry

    def leave(self) -> None:
        """Make way for the next."""
        self._waiting[:] = [entry for entry in self._waiting if entry is not self._entry]


class Note:
    """One call on its way: what is known of it, or where to write what comes of it."""

    def __init__(self, ledger: Ledger, make: Callable[..., Entry], known: Entry | None, place: Place | None) -> None:
        self.known = known
        self._ledger = ledger
        self._place = place
        self._make = make
        self._told: list[str] = []

    def listen(self, tell: Callable[[str], None] | None) -> Callable[[str], None] | None:
        """Take down what is told on the way, and pass it on."""
        if tell is None:
            return None

        def hear(text: str) -> None:
            self._told.append(text)
            tell(text)

        return hear

    async def come(self) -> None:
        """Let what came before this come before it again: calls that are made at once end in the order in which they did."""
        place = cast("Place", self._place)  # which every call has that is known
        for _ in range(_PATIENCE):
            if place.comes():
                break
            await asyncio.sleep(0)
        place.leave()

    async def catch_up(self) -> None:
        """Wait until every recorded call has been made again, before a call is made that the record does not have.

        Calls that were made at once may begin in another order now, but within moments. If some are still left then, the code
        has changed since, and nothing is called for real. Calls that were under way when the turn stopped are not in the
        record either: as many as there were of those have nothing to wait for, since later ones may go by what they said so far.
        """
        ledger, loop = self._ledger, asyncio.get_running_loop()
        if ledger.left and ledger.under_way:
            ledger.under_way -= 1
            return
        left, rounds, since = ledger.left, 0, loop.time()
        while ledger.left:
            await asyncio.sleep(0 if rounds < _PATIENCE else _LONGEST / 100)
            ledger.check()
            if ledger.left != left:
                left, rounds, since = ledger.left, 0, loop.time()
            elif rounds > _PATIENCE and loop.time() - since > _LONGEST:
                entry = self._make()
                says = f"'{entry.capability}.{entry.method}' is called with arguments that the record does not have here."
                fix = "resume the turn with the code that it was recorded with, or run it again"
                raise ledger.fail(ReplayDiverged(f"{says} Its next call is {ledger.next_left}. Fix: {fix}."))
            rounds += 1

    def write(self, *, result: Any = None, error: InterlockError | None = None) -> None:
        """Keep what came of the call."""
        said: RecordedError | None = None if error is None else {"code": error.code, "kind": type(error).__name__, "message": error.message}
        self._ledger.keep(partial(self._make, told=tuple(self._told), result=result, error=said))


class Ledger:
    """The calls of one turn. `keep` is told of every new entry before its result reaches the node.

    A ledger that is complete has the whole turn: a call that it does not hold is not made but refused.
    """

    def __init__(
        self, turn: str, *, entries: Iterable[Entry] = (), keep: Callable[[Entry], None] | None = None, complete: bool = False
    ) -> None:
        self._turn = turn
        self._keep = keep
        self._complete = complete
        self._known: defaultdict[Identity, deque[Entry]] = defaultdict(deque)
        self._sequence = 0
        self.failure: InterlockError | None = None
        """Why no more calls may be made."""
        self._waiting = list(entries)
        recorded = {entry.sequence for entry in self._waiting}
        self.under_way = max(0, max(recorded, default=0) - len(recorded))
        """How many calls had begun, and not ended, when the last one ended that was recorded; less those that were made again."""
        self.left = len(self._waiting)
        """How many recorded calls have not been made again."""
        for entry in sorted(self._waiting, key=lambda entry: entry.sequence):
            self._known[entry.node, entry.capability, entry.method, entry.key].append(entry)

    def note(self, node: str, capability: str, method: str, key: str) -> Note:
        """Give a call its place in the order, with what came of it when it was made before."""
        self.check()
        self._sequence += 1
        known = self._known.get((node, capability, method, key))
        if not known and self._complete:
            raise self.fail(ReplayDiverged(f"'{capability}.{method}' is called with arguments that the record does not have here."))
        make = partial(Entry, turn=self._turn, sequence=self._sequence, node=node, capability=capability, method=method, key=key)
        if not known:
            return Note(self, make, None, None)
        self.left -= 1
        found = known.popleft()
        return Note(self, make, found, Place(self._waiting, found))

    def keep(self, make: Callable[[], Entry]) -> None:
        """Write an entry. Where it cannot be written, the turn ends."""
        if self._keep is None:
            return
        try:
            self._keep(make())
        except InterlockError as error:
            raise self.fail(error) from error
        except Exception as error:
            raise self.fail(StoreUnavailable(f"The record cannot be written: {type(error).__name__}.")) from error

    def fail(self, reason: InterlockError) -> JournalFailed:
        """Let no more calls be made; return what to raise."""
        if self.failure is None:
            self.failure = reason
        return JournalFailed(self.failure)

    def check(self) -> None:
        """End the turn if no more calls may be made."""
        if self.failure is not None:
            raise JournalFailed(self.failure)

    def check_end(self) -> None:
        """End a turn that was gone on with, and has come to its end without some of the recorded calls."""
        if self.left and not self._complete:
            raise self.fail(ReplayDiverged(f"The turn has ended without {self.next_left}, which the record has."))

    @property
    def next_left(self) -> str:
        """Name the first recorded call that was not made again."""
        entry = min(self.unused, key=lambda entry: entry.sequence)
        return f"'{entry.capability}.{entry.method}' in '{entry.node}'" if entry.node else f"'{entry.capability}.{entry.method}'"

    @property
    def unused(self) -> list[Entry]:
        """What was recorded and not asked for again."""
        return [entry for entries in self._known.values() for entry in entries]


def key_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Make the key of a call: equal for equal arguments in every process, and nothing can be read from it."""
    return _hashed(_canonical((args, kwargs))) if args or kwargs else _NO_ARGUMENTS


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_NO_ARGUMENTS = _hashed("[[],{}]")


def _canonical(value: Any) -> str:
    """Write a value in one way only.

    What most arguments are made of comes first, by its exact class: to ask of each what it is an instance of takes most of the time.
    """
    kind = cast("type[Any]", type(value))
    if kind is str:
        return _text(value)
    if value is None:
        return "null"
    if kind is tuple or kind is list:
        return f"[{','.join([_canonical(item) for item in value])}]"
    if kind is dict:
        return _pairs(cast("dict[Any, Any]", value))
    if kind in _RECORDS:
        return _pairs(value.__dict__)
    return _of_instance(value)


def _of_instance(value: Any) -> str:
    if isinstance(value, type):
        return render(value)
    if isinstance(value, bool | int | float | str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return _pairs(cast("Mapping[Any, Any]", value))
    if isinstance(value, list | tuple):
        return f"[{','.join(_canonical(item) for item in cast('Iterable[Any]', value))}]"
    if isinstance(value, set | frozenset):
        return f"({','.join(sorted(_canonical(item) for item in cast('Iterable[Any]', value)))})"
    if isinstance(value, BaseModel) or dataclasses.is_dataclass(value):
        if not hasattr(value, "__dict__"):
            return _canonical(dataclasses.asdict(cast("Any", value)))
        _RECORDS.add(type(value))
        return _pairs(vars(value))
    return json.dumps(to_jsonable_python(value, bytes_mode="base64"))


_RECORDS: set[type[Any]] = set()
"""Classes that are known to be records with a dict."""


def _pairs(value: Mapping[Any, Any]) -> str:
    pairs = [(_canonical(key), _canonical(item)) for key, item in value.items()]
    pairs.sort()
    return f"{{{','.join([f'{key}:{item}' for key, item in pairs])}}}"


def recorded_error(error: RecordedError) -> InterlockError:
    """Make a recorded error anew: of the class that has its name and code, none but those that are there."""
    known = [one for one in _classes() if one.code == error["code"]]
    found = next((one for one in known if one.__name__ == error.get("kind")), known[0] if known else None)
    if found is None:
        raise RecordInvalid(f"The record has an error of the unknown code '{error['code']}'.")
    made = found.__new__(found, error["message"])
    if isinstance(made, TurnError):
        TurnError.__init__(made, error["message"])  # not its own, which may want more than a message
    else:
        InterlockError.__init__(made, error["message"])
    return made


def _classes() -> list[type[InterlockError]]:
    """Find every class of error that a capability call can end in."""
    classes: list[type[InterlockError]] = [TurnError, InputError]
    for one in classes:
        classes.extend(one.__subclasses__())
    return classes
