"""A worker holds leases on the turns that it runs. A lease writes the journal and the events of its turn under the turn's epoch.

Nothing is shown that is not stored: a listener gets an event after it was committed, together with the journal entries on which it
may rest. A turn that another worker has claimed, or that is wanted to end, is interrupted; it writes nothing after that.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Callable, Collection, Sequence

from pydantic import TypeAdapter

from interlock.errors import Fenced, InterlockError, StoreError, StoreUnavailable, TurnStopped
from interlock.runtime.event_lines import EventDecoder, EventEncoder, event_of, retold_line, standing_lines, timed
from interlock.runtime.events import Event, Listener
from interlock.runtime.journal import Entry
from interlock.runtime.json_lines import decode_json, encode_json
from interlock.runtime.observe import LOGGER
from interlock.runtime.turns import Claim, StoredTurn, TurnEnd, TurnStore, Verdict, Writes

__all__ = ["FLUSH_S", "Lease", "Worker", "decode_entry", "encode_entry"]

FLUSH_S = 0.004
"""How long events may wait to be stored, and so to be shown."""

_ENTRY = TypeAdapter(Entry)


def encode_entry(entry: Entry) -> bytes:
    """Return a journal entry as JSON."""
    return encode_json(vars(entry))


def decode_entry(stored: bytes) -> Entry:
    """Return the journal entry that was stored."""
    return _ENTRY.validate_python(decode_json(stored))


class Lease:
    """The right to run one turn. It is the journal store of the turn, and the listener of its events."""

    shows_late = True
    """Events are shown after they were stored, so a call that is shown need not be stored first."""

    def __init__(self, store: TurnStore, claim: Claim, *, listener: Listener | None = None, lease_s: float = 3.0) -> None:
        self._store = store
        self._lease_s = lease_s
        self._loop = asyncio.get_running_loop()
        self._confirmed = claim.asked
        self._listener = listener
        self.claim = claim
        self.turn: StoredTurn = claim.turn
        self.entries = [decode_entry(entry) for entry in claim.journal]
        self.failure: InterlockError | None = None
        """Why the turn must not go on."""
        self.listener_error: Exception | None = None
        """What the listener raised. It gets no more events after that."""
        self.on_failure: Callable[[], object] | None = None
        """Interrupts the turn."""
        self.released = asyncio.Event()
        """Set when this process runs the turn no more under this lease."""
        self._entry_count = len(claim.journal)
        self._sent: list[Entry] = []
        """What was stored by writes whose callers were cancelled. The same entries come again."""
        # By the clock of the store, in which the lease began when the turn was claimed.
        since_start_s = (claim.turn.lease_until or 0.0) - lease_s - (claim.turn.started or 0.0)
        self._started = self._loop.time() - max(0.0, since_start_s)
        self._known_lines = claim.events
        self._standing = standing_lines(claim.events)
        self._line_count = len(claim.events)
        self._emitted = 0
        self._has_differed = False
        self._encoder = EventEncoder(claim.turn.turn)
        self._decoder = EventDecoder(claim.turn.turn)
        self._lines: list[bytes] = []
        self._writing = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None

    def on_event(self, event: Event) -> None:
        """Store an event with the next commit. Events that an earlier attempt has stored are not stored again, but shown."""
        line = self._encoder.encode(event)
        number, self._emitted = self._emitted, self._emitted + 1
        if not self._has_differed and number < len(self._standing):
            known = self._standing[number]
            if line == event_of(self._known_lines[known]):
                self._show([self._known_lines[known]], first=known)
                return
            self._has_differed = True
            self._lines.append(timed(retold_line(self._standing[number]), self._ms()))
        self._lines.append(timed(line, self._ms()))
        if self._timer is None:
            self._timer = self._loop.call_later(FLUSH_S, self._flush)

    def _ms(self) -> int:
        return round((self._loop.time() - self._started) * 1000)

    @property
    def is_stale(self) -> bool:
        """Whether the lease may be over, by the clock of this process, which went on while the process was frozen."""
        return self._loop.time() - self._confirmed >= self._lease_s

    @property
    def shown(self) -> int:
        """The number of the last event that the listener has had."""
        return self._decoder.count

    async def append(self, entries: Sequence[Entry]) -> None:
        """Store journal entries, with all events so far. Raises Fenced where the turn was taken over, TurnStopped where it is to end."""
        await self._write_whole(entries)
        self._sent.clear()

    async def end(self, end: TurnEnd, entries: Sequence[Entry] = ()) -> None:
        """Store how the turn ended, with its last entries and events. Raises Fenced where it was taken over."""
        self._stop_timer()
        await self._write_whole(entries, end)

    async def give_back(self) -> None:
        """Let another worker resume the turn."""
        self._stop_timer()
        await self._store.give_back(self.turn.turn, self.turn.epoch)

    def fail(self, failure: InterlockError) -> None:
        """Interrupt the turn: it must not go on."""
        if self.failure is None:
            self.failure = failure
            if self.on_failure is not None:
                self.on_failure()

    def judge(self, verdict: Verdict, *, asked: float) -> None:
        """Interrupt the turn if the store says so, which was asked at this time of the event loop's clock."""
        self._confirmed = max(self._confirmed, asked)
        if verdict == "lost":
            self.fail(Fenced(f"Turn '{self.turn.turn}' was taken over by another worker."))
        elif verdict == "stop":
            self.fail(TurnStopped("The turn was cancelled."))

    async def _write_whole(self, entries: Sequence[Entry], end: TurnEnd | None = None) -> None:
        """Write, and do not cancel it half way: what is stored and what is counted must agree."""
        writing = asyncio.ensure_future(self._write(entries, end))
        # Where the caller is cancelled meanwhile, `failure` has why it failed.
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(writing)

    async def _write(self, entries: Sequence[Entry], end: TurnEnd | None = None) -> None:
        async with self._writing:
            if self.failure is not None and not (end is not None and isinstance(self.failure, TurnStopped)):
                raise self.failure
            entries = [entry for entry in entries if not any(entry is sent for sent in self._sent)]
            lines = [*self._lines]
            writes = Writes(
                entries=[encode_entry(entry) for entry in entries],
                first_entry=self._entry_count,
                events=lines,
                first_event=self._line_count,
            )
            asked = asyncio.get_running_loop().time()
            if end is None:
                verdict = await self._store.write(self.turn.turn, self.turn.epoch, writes)
            else:
                verdict = await self._store.end(self.turn.turn, self.turn.epoch, end, writes)
            if verdict != "lost":
                self._sent += entries
                self._entry_count += len(entries)
                first, self._line_count = self._line_count, self._line_count + len(lines)
                del self._lines[: len(lines)]
                self._show(lines, first=first)
            if verdict == "lost" or end is None:
                self.judge(verdict, asked=asked)
            if self.failure is not None and (verdict == "lost" or end is None):
                raise self.failure

    def _show(self, lines: Sequence[bytes], *, first: int) -> None:
        if self._listener is None or self.listener_error is not None:
            return
        self._decoder.skip_to(first)
        for line in lines:
            event = self._decoder.decode(line)
            try:
                self._listener(event)
            except Exception as error:  # noqa: BLE001 - it is raised to the listener's owner when the turn has ended
                self.listener_error = error
                return

    def _flush(self) -> None:
        self._timer = None
        self._flushing = asyncio.ensure_future(self._flush_now())

    async def _flush_now(self) -> None:
        try:
            if self._lines and self.failure is None:
                await self._write(())
        except StoreError as error:
            self.fail(error)
        except InterlockError:
            pass  # The lease has interrupted the turn.
        except Exception as error:  # noqa: BLE001 - what a store raises ends the turn
            self.fail(StoreUnavailable(f"The events of the turn cannot be stored: {type(error).__name__}."))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Worker:
    """Renews the leases of this process, all of them at once. `name` identifies it in the store."""

    def __init__(self, store: TurnStore, *, name: str, lease_s: float = 3.0) -> None:
        self.store = store
        self.name = name
        self.lease_s = lease_s
        self._leases: dict[str, Lease] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._renewing: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def holding(self, lease: Lease) -> AsyncGenerator[None]:
        """Renew a lease while its turn runs.

        If this process lost the turn and claimed it again, the earlier attempt is ended first: a turn never runs twice in one process.
        """
        turn = lease.turn.turn
        earlier, self._leases[turn] = self._leases.get(turn), lease
        if self._timer is None:
            self._renew_later()
        try:
            if earlier is not None:
                earlier.fail(Fenced(f"This process lost turn '{turn}' and has claimed it again."))
                await earlier.released.wait()
            yield
        finally:
            lease.released.set()
            if self._leases.get(turn) is lease:
                del self._leases[turn]
            if not self._leases and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    @property
    def may_have_lost(self) -> bool:
        """Whether a lease of this process may be over."""
        return any(lease.is_stale for lease in self._leases.values())

    def holds(self, turn: str) -> bool:
        """Return whether this process runs a turn."""
        return turn in self._leases

    async def claim(self, fingerprints: Collection[str], *, limit: int = 1, only: Collection[str] = ()) -> list[Claim]:
        """Claim turns with these contracts."""
        asked = asyncio.get_running_loop().time()
        claims = await self.store.claim(self.name, fingerprints=fingerprints, limit=limit, lease_s=self.lease_s, only=only)
        return [dataclasses.replace(claim, asked=asked) for claim in claims]

    async def renew(self) -> None:
        """Extend the leases; interrupt the turns that are lost or wanted to end."""
        leases, asked = dict(self._leases), asyncio.get_running_loop().time()
        verdicts = await self.store.renew(self.name, {name: lease.turn.epoch for name, lease in leases.items()}, lease_s=self.lease_s)
        for name, verdict in verdicts.items():
            leases[name].judge(verdict, asked=asked)

    def _renew_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.lease_s / 3, self._renew_now)

    def _renew_now(self) -> None:
        self._renewing = asyncio.ensure_future(self._renew_safely())
        self._renew_later()

    async def _renew_safely(self) -> None:
        try:
            await self.renew()
        except StoreError as error:
            # The turns go on: their next write finds out whether they still may.
            LOGGER.warning("leases are not renewed", extra={"fields": {"worker": self.name, "code": error.code}})
