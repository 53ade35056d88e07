"""The turn store: accepted turns with their journal, their events and the session state that they leave.

    queued -> ready -> running -> success | error | cancelled
                 ^        |
                 |        +-> waiting     until a person answers, then ready
                 +--------+               given back by a worker that stops

A turn is `queued` while an earlier turn of its session is open. A worker that claims a turn gets a lease and raises the turn's epoch,
which every later write names: a worker whose lease is over and whose turn was claimed again writes nothing any more. The end of a
turn, the session state that it leaves, its last events and the start of the session's next turn are one transaction.

Journal entries and events are bytes here; stores do not look into them.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from interlock.errors import Internal, KeyReused, NothingWaits, SessionBusy, TurnUnknown, TurnWaiting

__all__ = [
    "BEGUN",
    "CANCELLED",
    "ENDED",
    "OPEN",
    "Accepted",
    "Claim",
    "Load",
    "NewTurn",
    "Page",
    "Policy",
    "Progress",
    "SavedState",
    "StoredTurn",
    "TurnEnd",
    "TurnFilter",
    "TurnStatus",
    "TurnStore",
    "Verdict",
    "Writes",
    "check_key",
    "check_numbers",
    "check_policy",
    "effective_end",
    "find_all",
    "is_same_answer",
    "is_same_end",
    "latest_lease",
    "refuse_answer",
    "refuse_turn",
    "seconds_used",
]

TurnStatus = Literal["queued", "ready", "running", "waiting", "success", "error", "cancelled"]

OPEN: tuple[TurnStatus, ...] = ("queued", "ready", "running", "waiting")
BEGUN: tuple[TurnStatus, ...] = ("ready", "running", "waiting")
"""The open turns that do not wait for an earlier one of their session."""
ENDED: tuple[TurnStatus, ...] = ("success", "error", "cancelled")

Policy = Literal["reject", "enqueue", "interrupt", "rollback"]
"""What happens to a turn whose session has an open turn: it is refused, it waits for it, or the open ones are cancelled first.

After `rollback` the cancelled turns are hidden from the session's history as well.
"""

Verdict = Literal["ok", "stop", "lost"]
"""The store's answer to a write under an epoch. `ok`: it is stored. `stop`: it is stored, and the turn is wanted to end as cancelled.
`lost`: nothing is stored, because another worker has claimed the turn, or it has ended."""


@dataclass(frozen=True, kw_only=True)
class NewTurn:
    """A turn to be accepted."""

    turn: str
    agent: str
    session: str
    header: bytes
    """The request with its limits, as the header of a record: what a worker needs to run the turn."""
    fingerprint: str
    """The contracts of the graph: only a worker that has the same ones runs the turn."""
    tenant: str = ""
    role: str | None = None
    key: str | None = None
    """The caller's idempotency key: a turn with the same key and input is the same turn."""
    digest: str = ""
    """A hash of what the caller asked for, by which a key that is used again for something else is recognised."""
    principal: str | None = None
    build: str = ""
    """The version of the code that accepted it."""
    is_exclusive: bool = True
    """Whether the turn runs after the other exclusive turns of its session, and not beside them."""
    policy: Policy = "enqueue"
    due: float | None = None
    """When the turn may start at the earliest, in seconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class StoredTurn(NewTurn):
    """An accepted turn. Times are in seconds since 1970, by the clock of the store."""

    position: int
    """The number of the turn in its session, from 1."""
    status: TurnStatus
    created: float
    epoch: int = 0
    attempts: int = 0
    """How often a worker has claimed the turn."""
    owner: str | None = None
    lease_until: float | None = None
    is_cancel_wanted: bool = False
    is_hidden: bool = False
    """Whether the turn was rolled back."""
    used: float = 0.0
    """For how many seconds workers had it since it began, or since a person's answer, as of the last time its lease was extended."""
    answer: bytes | None = None
    """The last answer of a person, with who gave it."""
    started: float | None = None
    ended: float | None = None
    result: bytes | None = None
    """The result of a turn that has ended or waits, as JSON."""
    code: str | None = None
    """The code of the error that it ended with."""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """The turn that was accepted, or the one that was accepted before with the same key."""

    turn: StoredTurn
    is_new: bool
    claim: Claim | None = None
    """For a turn that the accepting worker runs itself, if it can start at once."""


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """The session state that the last turn left; `turn` is that turn."""

    values: bytes
    turn: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A turn that a worker may run, with what earlier attempts have stored of it."""

    turn: StoredTurn
    journal: tuple[bytes, ...] = ()
    events: tuple[bytes, ...] = ()
    state: SavedState | None = None
    """The session state that the turn starts from."""
    asked: float = -math.inf
    """When the worker asked for it, by the clock of its event loop, which the worker fills in.

    A process that was frozen until the claim came back must not take an old lease for a new one.
    """


@dataclass(frozen=True, kw_only=True)
class Writes:
    """Journal entries and events to be stored together. `first_entry` and `first_event` number the first of each, from 0.

    Numbers that the store has already are left out, so a write whose answer was lost can be sent again. Numbers that would leave a
    gap are refused with `Internal`.
    """

    entries: Sequence[bytes] = ()
    first_entry: int = 0
    events: Sequence[bytes] = ()
    first_event: int = 0


@dataclass(frozen=True, kw_only=True)
class TurnEnd:
    """How a turn ended, or that it waits for a person: `waiting`."""

    status: Literal["success", "error", "cancelled", "waiting"]
    result: bytes | None = None
    code: str | None = None
    state: bytes | None = None
    """The session state that it leaves; None leaves the state as it is."""


CANCELLED = TurnEnd(status="cancelled", code="cancelled")


@dataclass(frozen=True, kw_only=True)
class TurnFilter:
    """Selects turns. None, or an empty collection, selects all."""

    tenant: str | None = None
    agent: str | None = None
    session: str | None = None
    statuses: Collection[TurnStatus] = ()
    key: str | None = None
    principal: str | None = None
    with_hidden: bool = False


@dataclass(frozen=True, kw_only=True)
class Page:
    """How many turns to return, newest first, and after which one."""

    limit: int = 100
    before: str | None = None
    """The id of the last turn of the page before."""


class Progress(NamedTuple):
    """How far a turn is. The events of a turn that has ended may be compressed; they are not counted then."""

    status: TurnStatus
    events: int


class Load(NamedTuple):
    """How many turns of an agent have a status, and when the oldest of them was accepted."""

    agent: str
    status: TurnStatus
    turns: int
    oldest: float


class TurnStore(Protocol):
    """Keeps turns. Every method is one transaction. Raises StoreError where the store cannot be used."""

    async def accept(self, new: NewTurn, *, worker: str | None = None, lease_s: float = 3.0) -> Accepted:
        """Store a turn; with `worker`, claim it at once if it can start.

        A turn whose id or key is stored already is returned as it is. If it has the same id, and the same worker owns it by its first
        claim, it is returned with that claim: an accept whose answer was lost can be sent again.
        Raises KeyReused where its key was used with another digest, SessionBusy where the policy is `reject` and the session has an
        open turn, and TurnWaiting where a turn of the session waits for a person, unless the policy cancels it.
        """
        ...

    async def claim(
        self,
        worker: str,
        *,
        fingerprints: Collection[str],
        limit: int = 1,
        lease_s: float = 3.0,
        only: Collection[str] = (),
    ) -> list[Claim]:
        """Claim turns with these contracts: first those whose lease is over, then those that are ready and due.

        All workers of a store have the same `lease_s`. A lease that is more than a second longer was given before the clock was set
        back: it is over, too, or the turn of a worker that died would stay with it until the clock is there again.
        The lease that is over for the longest time comes first, and the turn that could start the longest time ago. With `only`, just
        these turns. A turn whose worker died after it was wanted to end is not run again: it ends as cancelled.
        """
        ...

    async def write(self, turn: str, epoch: int, writes: Writes) -> Verdict:
        """Store journal entries and events. When this returns, they are durable."""
        ...

    async def end(self, turn: str, epoch: int, end: TurnEnd, writes: Writes) -> Verdict:
        """Store how a turn ended, with its last writes and its session state; make the session's next turn ready.

        A turn that waits keeps its session: the next turn stays queued. A turn that is to wait although it is wanted to end is
        cancelled. An end that is stored already, of the same epoch and status, is `ok`: it can be sent again.
        """
        ...

    async def renew(self, worker: str, turns: Mapping[str, int], *, lease_s: float = 3.0) -> dict[str, Verdict]:
        """Extend the leases of a worker's turns, given by their epochs."""
        ...

    async def give_back(self, turn: str, epoch: int) -> Verdict:
        """End the lease of a turn that another worker is to go on with. A turn that is wanted to end is cancelled.

        One that was given back already under this epoch is `ok`.
        """
        ...

    async def answer(self, turn: str, answer: bytes, entry: bytes, *, worker: str | None = None, lease_s: float = 3.0) -> Accepted:
        """Store a person's answer to a waiting turn, as the next entry of its journal; make it ready, or claim it with `worker`.

        An answer that is stored already can be sent again: the turn is returned as it is, without a claim.
        Raises NothingWaits where the turn does not wait.
        """
        ...

    async def cancel(self, turn: str, *, is_rollback: bool = False) -> StoredTurn:
        """End a turn as cancelled: at once where no worker runs it, else by asking its worker. Raises TurnUnknown."""
        ...

    async def get(self, turn: str) -> StoredTurn | None:
        """Return a turn."""
        ...

    async def find(self, chosen: TurnFilter, page: Page | None = None) -> list[StoredTurn]:
        """Return turns, newest first."""
        ...

    async def journal(self, turn: str) -> list[bytes]:
        """Return the journal of a turn."""
        ...

    async def events(self, turn: str, *, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return the events of a turn from number `after` on."""
        ...

    async def progress(self, turns: Collection[str]) -> dict[str, Progress]:
        """Return the status of turns and how many events they have, of all that are stored, in one query."""
        ...

    async def load(self) -> list[Load]:
        """Return how many turns are open, by agent and status."""
        ...

    async def state(self, tenant: str, agent: str, session: str) -> SavedState | None:
        """Return the state of a session."""
        ...

    async def prune(self, *, ended_before: float, limit: int = 1000) -> int:
        """Delete turns that ended before a time, with their journal and events; return how many. Session state stays."""
        ...

    async def delete(self, turn: str) -> bool:
        """Delete a turn that has ended, with its journal and events. Session state stays. Return False if there is no such turn."""
        ...

    async def compact(self, *, ended_before: float, limit: int = 1000) -> int:
        """Compress the journals and events of turns that ended before a time, where the store can; return of how many."""
        ...

    async def changed(self, *, timeout_s: float, since: int | None = None) -> int:
        """Return when turns may have changed, or after a time.

        The result is a number for the next call's `since`, which then also reports what changed between the two calls. Without
        `since`, only what changes from now on is reported. The number belongs to this store and this event loop.
        """
        ...

    async def now(self) -> float:
        """Return the time of the store's clock, in seconds since 1970."""
        ...

    async def aclose(self) -> None:
        """Close what is open."""
        ...


async def find_all(store: TurnStore, chosen: TurnFilter, *, page: int = 200) -> AsyncGenerator[StoredTurn]:
    """Yield all turns that a filter selects, newest first. They are read page by page: there may be more than fit into memory."""
    before: str | None = None
    while found := await store.find(chosen, Page(limit=page, before=before)):
        for turn in found:
            yield turn
        before = found[-1].turn


def check_key(known: StoredTurn, new: NewTurn) -> None:
    """Raise KeyReused where a key was used for something else."""
    if known.digest != new.digest:
        raise KeyReused(f"The key '{new.key}' was used before, for turn '{known.turn}' with another input. Fix: use a new key.")


def check_policy(new: NewTurn, earlier: Collection[StoredTurn]) -> None:
    """Refuse a turn that may not follow the open turns of its session."""
    if new.policy in {"interrupt", "rollback"}:
        return
    is_waiting = any(turn.status == "waiting" for turn in earlier)
    if is_waiting or (new.policy == "reject" and earlier):
        raise refuse_turn(new, is_waiting=is_waiting)


def refuse_turn(new: NewTurn, *, is_waiting: bool) -> SessionBusy | TurnWaiting:
    """Return the error of a turn that may not follow the open turns of its session."""
    if is_waiting:
        return TurnWaiting(f"Session '{new.session}' waits for a person's answer: answer its question, or give the turn up by 'abort'.")
    return SessionBusy(f"Session '{new.session}' has a turn that has not ended.")


def check_numbers(writes: Writes, *, entries: int, events: int) -> None:
    """Refuse writes that would leave a gap after what is stored."""
    if (writes.entries and writes.first_entry > entries) or (writes.events and writes.first_event > events):
        raise Internal(
            f"A write begins at entry {writes.first_entry} and event {writes.first_event}, but only {entries} and {events} are stored."
        )


def is_same_end(status: TurnStatus, epoch: int, end: TurnEnd, end_epoch: int) -> bool:
    """Return whether a turn has ended in this way under this epoch: the answer to its first end was lost."""
    return (status, epoch) == (end.status, end_epoch)


def is_same_answer(turn: StoredTurn, answer: bytes, journal: Collection[bytes], entry: bytes) -> bool:
    """Return whether a turn has got this answer: the answer to its first sending was lost."""
    return turn.status in {"ready", "running"} and turn.answer == answer and entry in journal


def latest_lease(now: float, lease_s: float) -> float:
    """Return when a lease can end at the latest. One that ends later was given before the clock was set back, and is over.

    The second more is for leases that were given while another worker had looked at the clock already.
    """
    return now + lease_s + 1.0


def seconds_used(turn: StoredTurn, now: float, lease_s: float) -> float:
    """Return for how many seconds workers had a turn, when its lease is extended or another worker claims it.

    No more than one lease is added: no worker had the turn for longer, or the clock was set ahead.
    """
    since = 0.0 if turn.lease_until is None else now - (turn.lease_until - lease_s)
    return turn.used + max(0.0, min(lease_s, since))


def effective_end(end: TurnEnd, *, is_cancel_wanted: bool) -> TurnEnd:
    """Return how a turn ends. One that is wanted to end does not wait for a person: no worker would be asked again."""
    return CANCELLED if is_cancel_wanted and end.status == "waiting" else end


def refuse_answer(turn: StoredTurn | None, name: str) -> NothingWaits | TurnUnknown:
    """Return the error of an answer to a turn that does not wait."""
    if turn is None:
        return TurnUnknown(f"There is no turn '{name}'.")
    return NothingWaits(f"Turn '{name}' does not wait for an answer: it is {turn.status}.")
