"""A seeded simulator of workers on a turn store: the real dispatcher, worker, lease and memory store, in virtual time.

Each process has an event loop of its own. When no loop has anything to do, the scheduler draws the next thing that happens from the
seed: a store operation is committed, time passes, a process is killed, frozen or thawed, a client acts. The same seed gives the same
schedule. What must never happen is checked while it runs and at its end; a violation names the seed.
"""

# ruff: noqa: SLF001, S311 - it reaches into event loops and the memory store, and its chance is not for secrets
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import heapq
import itertools
from asyncio import events as asyncio_events
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

from interlock.attempts import run_attempt
from interlock.dispatch.embedded import EmbeddedDispatcher
from interlock.errors import InterlockError, Internal, StoreUnavailable, TurnWaiting
from interlock.runtime.journal import Entry
from interlock.runtime.turns import ENDED, OPEN, Claim, NewTurn, StoredTurn
from interlock.runtime.worker import Lease, decode_entry, encode_entry
from interlock.stores.turns_memory import MemoryTurns

__all__ = ["Simulation", "Violation"]

_FINGERPRINT = "f"
_ANSWER = 100
"""The number of the entry with a person's answer."""
_STEPS_FOR_ONE = 400
"""So many steps without the end of a turn, though all workers are awake, are a livelock."""
_AGENT = cast("Any", SimpleNamespace(name="agent", entries={None: "graph"}))


class Violation(AssertionError):
    """A schedule in which something happened that must never happen."""


class Callback:
    """What a loop is to call. Smaller than asyncio's handles, of which a schedule makes a thousand."""

    __slots__ = ("_args", "_callback", "_context", "is_cancelled")

    def __init__(self, callback: Any, args: tuple[Any, ...], context: Any) -> None:
        self._callback, self._args, self._context = callback, args, context
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def run(self) -> None:
        if self._context is None:
            self._callback(*self._args)
        else:
            self._context.run(self._callback, *self._args)


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of one simulated process. Its clock is the simulation's."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self.ready: deque[Callback] = deque()
        self._timers: list[tuple[float, int, Callback]] = []
        self._numbers = itertools.count()
        self._tasks: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self._world.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        called = Callback(callback, args, context)
        self.ready.append(called)
        return called

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        called = Callback(callback, args, context)
        heapq.heappush(self._timers, (when, next(self._numbers), called))
        return called

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def create_future(self) -> Any:
        return cast("Any", asyncio.Future(loop=self))

    def create_task(self, coro: Any, **_: Any) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self)
        self._tasks.append(task)
        return task

    def close(self) -> None:
        """End all tasks, so that nothing is left for the interpreter to report."""
        while left := [task for task in self._tasks if not task.done()]:
            for task in left:
                task.cancel()
            self.step()
        self._timers.clear()
        for task in self._tasks:
            if not task.cancelled():
                task.exception()

    def call_exception_handler(self, context: Any) -> None:
        pass

    def default_exception_handler(self, context: Any) -> None:
        pass

    @property
    def next_timer(self) -> float | None:
        timers = self._timers
        while timers and timers[0][2].is_cancelled:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    @property
    def has_work(self) -> bool:
        """Whether something is ready, or a timer is over."""
        return bool(self.ready) or ((at := self.next_timer) is not None and at <= self._world.now)

    def step(self) -> None:
        """Run everything that is ready now."""
        while (at := self.next_timer) is not None and at <= self.time():
            self.ready.append(heapq.heappop(self._timers)[2])
        asyncio_events._set_running_loop(self)
        try:
            while self.ready:
                called = self.ready.popleft()
                if not called.is_cancelled:
                    called.run()
        finally:
            asyncio_events._set_running_loop(None)


class Process:
    """A simulated process: a loop, a dispatcher on the shared store, and whether it still runs."""

    def __init__(self, world: Simulation, name: str) -> None:
        self.name = name
        self.loop = VirtualLoop(world)
        self.is_frozen = False
        self.working: Any = None
        self.dispatcher = EmbeddedDispatcher(cast("Any", RemoteStore(world, self)), cast("Any", world.runner), name=name)
        self.dispatcher.worker.lease_s = world.lease_s

    def start(self, coroutine: Any) -> Any:
        asyncio_events._set_running_loop(self.loop)
        try:
            return self.loop.create_task(coroutine)
        finally:
            asyncio_events._set_running_loop(None)


class RemoteStore:
    """The store as a process sees it: an operation happens when the scheduler commits it, and its answer comes later."""

    def __init__(self, world: Simulation, process: Process) -> None:
        self._world, self._process = world, process

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            if self._world.is_over:
                raise asyncio.CancelledError
            if name == "changed":
                # No change is noticed before the time is over, as where a notification is lost.
                await asyncio.sleep(kwargs["timeout_s"])
                return 0
            answer: asyncio.Future[Any] = self._process.loop.create_future()
            self._world.operations.append((self._process, answer, name, args, kwargs))
            return await answer

        return call


class ScriptedJournal:
    """What an attempt asks of a journal."""

    is_suspended = False

    def __init__(self) -> None:
        self.failure: InterlockError | None = None
        self.is_left_open = False
        self.pending: list[Entry] = []

    def take_pending(self) -> list[Entry]:
        pending, self.pending = self.pending, []
        return pending

    async def commit(self) -> None:
        pass


class ScriptedTurn:
    """A turn of so many effects: each is made, then its entry is stored, unless an earlier attempt has stored it."""

    is_saving = False

    def __init__(self, world: Simulation, lease: Lease, journal: ScriptedJournal) -> None:
        self._world, self._lease, self._journal = world, lease, journal
        journal.is_suspended = lease.turn.turn in world.asking and not any(entry.sequence == _ANSWER for entry in lease.entries)

    async def run(self, compiled: object) -> Any:
        del compiled
        try:
            await self._effects()
        except StoreUnavailable:
            self._journal.is_left_open = True
        except InterlockError as error:
            self._journal.failure = error
        return _result("waiting" if self._journal.is_suspended else "success")

    def cancelled(self) -> Any:
        return _result("cancelled")

    async def _effects(self) -> None:
        world, lease, turn = self._world, self._lease, self._lease.turn.turn
        done = {entry.sequence for entry in lease.entries}
        for number in range(1, world.effects + 1):
            lease.on_event(_event(turn, number))
            if number in done:
                continue
            await asyncio.sleep(world.random.random() * 0.3)
            world.effect(lease, number)
            entry = Entry(turn=turn, sequence=number, node="n", capability="C", method="m", key=str(number), result=lease.turn.epoch)
            if world.random.random() < 0.2:
                await _impatient(lease, entry)
            self._journal.pending = [entry]
            await lease.append([entry])
            self._journal.pending = []


class ScriptedRunner:
    """Runs scripted turns as Runner runs real ones: by the same attempts."""

    def __init__(self, world: Simulation) -> None:
        self._world = world

    def fingerprint(self, agent: object, graph: object) -> str:
        del agent, graph
        return _FINGERPRINT

    def following(self, agent: object, turn: object, result: object) -> None:
        """Let no turn follow another one."""
        del agent, turn, result

    async def execute(self, agent: object, lease: Lease, *, gives_back: bool = False, before_end: Any = None) -> Any:
        del agent
        journal = ScriptedJournal()
        turn = ScriptedTurn(self._world, lease, journal)
        result = await run_attempt(
            lease, cast("Any", journal), cast("Any", turn), cast("Any", None), gives_back=gives_back, before_end=before_end
        )
        if not journal.is_left_open:
            self._world.finished(lease, result.status)
        return result


def _result(status: str) -> Any:
    return SimpleNamespace(status=status, error=None, to_json=dict)


async def _impatient(lease: Lease, entry: Entry) -> None:
    """Store an entry, but give up waiting: the store may or may not have got it. The journal then stores the same entry again."""
    waiting = asyncio.ensure_future(lease.append([entry]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


def _event(turn: str, number: int) -> Any:
    return {
        "event": "on_custom_event",
        "name": "n",
        "run_id": f"{number}",
        "parent_ids": [],
        "tags": [],
        "metadata": {},
        "data": {"t": turn},
    }


class Simulation:
    """One schedule. `run` raises Violation where something happened that must never happen."""

    lease_s = 3.0

    def __init__(self, seed: int, *, store: type[MemoryTurns] = MemoryTurns) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = 1000.0
        self.store = store(now=lambda: self.now)
        self.operations: list[tuple[Process, Any, str, tuple[Any, ...], dict[str, Any]]] = []
        self.effects = self.random.randint(1, 3)
        self.turns = self.random.randint(1, 6)
        self.runner = ScriptedRunner(self)
        self.processes: list[Process] = []
        self.killed: list[Process] = []
        self.is_over = False
        self.accepted: dict[str, str] = {}
        self.asking: set[str] = set()
        """Turns that ask a person before they end."""
        self.cancelled: dict[str, float] = {}
        self.ended: dict[str, str] = {}
        self._found: Violation | None = None
        self._checked = -1
        self._is_grouped = hasattr(store, "grouped")
        actions = {
            self._pass_time: 40,
            self._submit: 18,
            self._cancel: 4,
            self._answer_person: 6,
            self._kill: 6,
            self._freeze: 10,
            self._drain: 3,
            self._cut: 6,
            self._start_worker: 7,
        }
        self._actions, self._weights = list(actions), list(itertools.accumulate(actions.values()))
        self._turns = itertools.count(1)
        self._names = itertools.count(1)

    def run(self, *, steps: int = 40) -> None:
        """Let things happen at random, then let one healthy worker finish what is left, and look at the whole."""
        try:
            self._run(steps)
        finally:
            self.is_over = True
            for process in (*self.processes, *self.killed):
                process.loop.close()

    def _run(self, steps: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self._start_worker()
        for _ in range(steps):
            self._settle()
            self._happen()
            self._check()
        for process in list(self.processes):
            if process.is_frozen:
                process.is_frozen = False
        # A fixed number of steps for all turns would not do: a queue of 26 turns needs more than 400, and is no livelock.
        left, count = _STEPS_FOR_ONE, len(self.ended)
        while left:
            self._settle()
            if self.operations:
                self._commit(self.random.randrange(len(self.operations)))
            elif all(row.turn.status not in OPEN for row in self._rows()):
                break
            elif all(process.working.done() for process in self.processes):
                self._start_worker()
            else:
                self._answer_person()
                self._pass_time()
            self._check()
            left, count = (left - 1, count) if len(self.ended) == count else (_STEPS_FOR_ONE, len(self.ended))
        self._settle()
        self._check_end()

    def effect(self, lease: Lease, number: int) -> None:
        """An effect happens outside. It must not where its entry is stored already.

        A worker that was frozen may make the effect in which it was frozen, though another one has made it since: the effect's key is
        for that. It must not where the worker that made it was one before it.
        """
        turn, epoch = lease.turn.turn, lease.turn.epoch
        stored = [entry for one in self.store._rows[turn].journal if (entry := decode_entry(one)).sequence == number]
        if any(cast("int", entry.result) <= epoch for entry in stored):
            raise self.violation(f"effect {number} of {turn} was repeated although it was stored")

    def finished(self, lease: Lease, status: str) -> None:
        """A worker was told that the turn has ended."""
        stored = self.store._rows[lease.turn.turn].turn
        if stored.status not in ENDED and status != "waiting":
            raise self.violation(f"{stored.turn} was acknowledged as {status} and is {stored.status}")

    def violation(self, what: str) -> Violation:
        """Return a violation to be raised. Where a task of a process raises it, nobody waits for the task, so `_check` raises it again."""
        self._found = self._found or Violation(f"seed {self.seed}: {what}")
        return self._found

    # What can happen.

    def _happen(self) -> None:
        if self.operations and self.random.random() < 0.5:
            if self._is_grouped and self.random.random() < 0.3:
                self._commit_group()
            else:
                self._commit(self.random.randrange(len(self.operations)))
        else:
            self.random.choices(self._actions, cum_weights=self._weights)[0]()

    def _start_worker(self) -> None:
        if len(self.processes) < 3:
            process = Process(self, f"w{next(self._names)}")
            self.processes.append(process)
            process.working = process.start(process.dispatcher.work([_AGENT], concurrency=self.random.randint(1, 2)))

    def _submit(self) -> None:
        if len(self.accepted) == self.turns:
            return
        turn, session = f"t{next(self._turns)}", f"s{self.random.randint(1, 2)}"
        policy = "interrupt" if self.random.random() < 0.1 else "enqueue"
        new = NewTurn(turn=turn, agent="agent", session=session, header=b"", fingerprint=_FINGERPRINT, policy=cast("Any", policy))
        if policy == "interrupt":
            for row in self._rows():
                if row.turn.session == session and row.turn.status in OPEN:
                    self.cancelled.setdefault(row.turn.turn, self.now)
        try:
            _now(self.store.accept(new))
        except TurnWaiting:
            return
        self.accepted[turn] = session
        if self.random.random() < 0.2:
            self.asking.add(turn)

    def _cancel(self) -> None:
        turns = [row.turn for row in self._rows() if row.turn.status in OPEN]
        if turns:
            turn = self.random.choice(turns)
            self.cancelled.setdefault(turn.turn, self.now)
            _now(self.store.cancel(turn.turn))

    def _answer_person(self) -> None:
        turns = [row.turn for row in self._rows() if row.turn.status == "waiting"]
        if turns:
            turn = self.random.choice(turns).turn
            entry = Entry(turn=turn, sequence=_ANSWER, node="n", capability="C", method="ask", key="")
            _now(self.store.answer(turn, b"yes", encode_entry(entry)))

    def _drain(self) -> None:
        """Tell a worker to stop, as SIGTERM does. It gives its turns back."""
        if self.processes:
            self.random.choice(self.processes).working.cancel()

    def _cut(self) -> None:
        """Cut a connection: the operation may have been carried out, or not, and its caller does not know."""
        if self.operations:
            operation = self.operations.pop(self.random.randrange(len(self.operations)))
            if self.random.random() < 0.5:
                self._carry_out(operation)
            self._answer(operation[0], operation[1], None, StoreUnavailable("The connection was cut."))

    def _kill(self) -> None:
        if self.processes:
            self._drop(self.random.choice(self.processes))

    def _drop(self, process: Process) -> None:
        self.processes.remove(process)
        self.killed.append(process)
        # What it had asked of the store may still be carried out, or not.
        for operation in [one for one in self.operations if one[0] is process]:
            self.operations.remove(operation)
            if self.random.random() < 0.5:
                self._carry_out(operation)

    def _freeze(self) -> None:
        if self.processes:
            process = self.random.choice(self.processes)
            process.is_frozen = not process.is_frozen

    def _pass_time(self) -> None:
        timers = [at for process in self.processes if not process.is_frozen and (at := process.loop.next_timer) is not None]
        soonest = min(timers, default=self.now + 0.5)
        self.now = max(self.now, soonest) if self.random.random() < 0.9 else self.now + self.random.random() * 4

    def _settle(self) -> None:
        """Run every process until all wait."""
        has_run = True
        while has_run:
            has_run = False
            for process in self.processes:
                if not process.is_frozen and process.loop.has_work:
                    process.loop.step()
                    has_run = True
        for process in [one for one in self.processes if one.working.done()]:
            self._drop(process)

    def _commit(self, index: int) -> None:
        operation = self.operations.pop(index)
        process, answer = operation[:2]
        self._answer(process, answer, *self._carry_out(operation))

    def _commit_group(self) -> None:
        """Commit several operations as one transaction, as a store with group commit does."""
        group = [self.operations.pop(0) for _ in range(min(len(self.operations), 3))]
        try:
            answers = cast("Any", self.store).grouped([self._bound(one) for one in group])
        except InterlockError as error:
            raise self.violation(error.message) from error
        for operation, answered in zip(group, answers, strict=True):
            self._answer(operation[0], operation[1], *answered)

    def _bound(self, operation: Any) -> Callable[[], Any]:
        _, _, name, args, kwargs = operation
        return lambda: _now(getattr(self.store, name)(*args, **kwargs))

    def _carry_out(self, operation: Any) -> tuple[Any, BaseException | None]:
        waited = [row.turn for row in self._rows() if self._is_left(row.turn)] if operation[2] == "claim" else []
        try:
            result = self._bound(operation)()
        except Internal as error:
            raise self.violation(error.message) from error
        except InterlockError as error:
            return None, error
        if waited and result and any(self._is_left(self.store._rows[turn.turn].turn) for turn in waited):
            claimed = {claim.turn.turn for claim in cast("list[Claim]", result)}
            if not claimed <= {turn.turn for turn in waited}:
                raise self.violation(f"{claimed} was claimed before {waited[0].turn}, whose lease was over")
        return result, None

    def _is_left(self, turn: StoredTurn) -> bool:
        return turn.status == "running" and (turn.lease_until or 0) <= self.now

    def _answer(self, process: Process, answer: Any, result: Any, error: BaseException | None) -> None:
        def deliver() -> None:
            if not answer.done():
                if error is None:
                    answer.set_result(result)
                else:
                    answer.set_exception(error)

        process.loop.call_soon(deliver)

    # What must never happen.

    def _rows(self) -> list[Any]:
        return list(self.store._rows.values())

    def _check(self) -> None:
        if self._found is not None:
            raise self._found
        if self._checked == self.store._changes._count:
            return
        self._checked = self.store._changes._count
        running: Counter[str] = Counter()
        for row in self._rows():
            turn: StoredTurn = row.turn
            if turn.status == "running":
                running[turn.session] += 1
            if turn.status == "cancelled" and turn.turn not in self.cancelled:
                raise self.violation(f"{turn.turn} was cancelled, and nobody had asked for it")
            if self.ended.get(turn.turn, turn.status) != turn.status:
                raise self.violation(f"{turn.turn} ended as {self.ended[turn.turn]} and is {turn.status} now")
            if turn.status in ENDED:
                self.ended[turn.turn] = turn.status
        if running and max(running.values()) > 1:
            raise self.violation(f"two turns of one session run at once: {running}")

    def _check_end(self) -> None:
        for turn, session in self.accepted.items():
            row = self.store._rows.get(turn)
            if row is None:
                raise self.violation(f"{turn} was accepted and is lost")
            if row.turn.status not in ENDED:
                raise self.violation(f"{turn} of {session} is still {row.turn.status} after {self.now - 1000:.0f} s")
            if row.turn.status == "success":
                stored = [one.sequence for entry in row.journal if (one := decode_entry(entry)).sequence != _ANSWER]
                if stored != list(range(1, self.effects + 1)):
                    raise self.violation(f"the journal of {turn} is {stored}")


def _now(operation: Any) -> Any:
    """Carry out an operation of the memory store, which never waits."""
    try:
        operation.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("the memory store waited")
