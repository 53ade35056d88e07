"""Starts processes of `tally`, ends and freezes them, and checks what they leave in the turn store and outside."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterable, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from interlock import Interlock
from interlock.dispatch.results import result_of
from interlock.runtime.event_lines import decode_events
from interlock.runtime.events import Event
from interlock.runtime.turns import ENDED, OPEN, Page, StoredTurn, TurnFilter
from interlock.runtime.worker import decode_entry
from interlock_agents.puntini.graphs.bolt import open_bolt
from tests.faults.tally import EFFECTS, TALLY, Log

__all__ = [
    "Fleet",
    "Place",
    "all_turns",
    "check_streams",
    "check_turns",
    "ended",
    "lateness",
    "running_fleet",
    "sqlite_settings",
    "takeovers",
    "until",
]

ROOT = Path(__file__).parents[2]
ALL = Page(limit=1_000_000)


@dataclass(frozen=True)
class Place:
    """Where the processes of a test meet."""

    folder: Path
    settings: dict[str, str]


def sqlite_settings(folder: Path) -> dict[str, str]:
    """Return the settings of stores in files."""
    return {"turn_url": f"sqlite:{folder}/turns.db", "checkpoint_url": f"sqlite:{folder}/checkpoints.db"}


@dataclass
class Fleet:
    """Processes on one turn store."""

    place: Place
    forker: subprocess.Popen[str]
    running: list[int] = field(default_factory=list[int])
    killed: dict[int, float] = field(default_factory=dict[int, float])
    """When a process was killed, by its id."""

    def start(self, *, calls: Sequence[Sequence[str]] | None = None, slowest_s: float = 0.1) -> int:
        """Start a worker, or a caller that runs turns."""
        order: dict[str, Any] = {
            "folder": str(self.place.folder),
            "settings": self.place.settings,
            "slowest_s": slowest_s,
        }
        if calls is not None:
            order["calls"] = calls
        assert self.forker.stdin is not None
        assert self.forker.stdout is not None
        self.forker.stdin.write(json.dumps(order) + "\n")
        self.forker.stdin.flush()
        pid = int(self.forker.stdout.readline())
        self.running.append(pid)
        return pid

    def kill(self, pid: int) -> None:
        """Kill a process as `kill -9` does."""
        self.running.remove(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.killed[pid] = time.time()

    async def freeze(self, pid: int, seconds: float) -> None:
        """Stop a process for some time. Nothing in it runs meanwhile, but its memory, its connections and its locks stay."""
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    def ready(self) -> list[int]:
        """Return the workers that can run turns."""
        return [pid for pid in self.running if (self.place.folder / f"ready-{pid}").exists()]

    def have_ended(self, pids: Iterable[int]) -> bool:
        """Return whether processes have ended by themselves."""
        return not any(map(self.is_alive, pids))

    def is_alive(self, pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    def stderr(self) -> str:
        """Return what the processes complained of."""
        return "\n".join(filter(None, (path.read_text()[-2000:] for path in self.place.folder.glob("stderr-*"))))


@contextmanager
def running_fleet(place: Place) -> Generator[Fleet]:
    """Start the process that forks the others; end all of them afterwards."""
    forker = subprocess.Popen(
        [sys.executable, "-m", "tests.faults.tally"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Fleet(place, forker)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(forker.pid, signal.SIGKILL)
        forker.communicate()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that other processes do."""
    while not condition():  # noqa: ASYNC110 - no event of this process tells of it
        await asyncio.sleep(0.05)


@asynccontextmanager
async def lateness() -> AsyncGenerator[Callable[[], float]]:
    """Measure how late this process is woken: by so much a busy machine is late with everything else, too."""
    latest = 0.0

    async def look() -> None:
        nonlocal latest
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.05)
            latest = max(latest, time.monotonic() - began - 0.05)

    looking = asyncio.create_task(look())
    try:
        yield lambda: latest
    finally:
        looking.cancel()


async def all_turns(app: Interlock) -> list[StoredTurn]:
    """Return all turns in the store, oldest first."""
    return (await app.turns.store.find(TurnFilter(with_hidden=True), ALL))[::-1]


async def ended(app: Interlock, *, timeout_s: float) -> bool:
    """Wait until every accepted turn has ended."""
    until = time.monotonic() + timeout_s
    while await app.turns.store.find(TurnFilter(statuses=OPEN, with_hidden=True), Page(limit=1)):
        if time.monotonic() > until:
            return False
        await app.turns.store.changed(timeout_s=0.2)
    return True


def expected_output(text: str) -> str:
    """Return the answer to a turn of `tally`."""
    numbers = " ".join(str(number) for number in range(EFFECTS))
    return f"saw {text}: {numbers}, paid" if text.startswith("pay") else f"saw {text}: {numbers}"


async def check_turns(app: Interlock, log: Log, texts: dict[str, str], place: Place, *, allowed: Collection[str] = ()) -> list[str]:
    """Return what is wrong with turns that have ended; `texts` are the inputs of those that were accepted.

    A turn may end with an error of the codes in `allowed`; none of its effects may have happened twice.
    """
    wrong: list[str] = []
    lines = log.read()
    turns = {turn.turn: turn for turn in await all_turns(app)}
    wrong += [f"{name}: lost" for name in texts if name not in turns]
    wrong += [f"{name}: nobody accepted it" for name in turns if name not in texts]
    heard: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, turn in turns.items():
        if turn.status not in ENDED:
            wrong.append(f"{name}: still {turn.status}, attempt {turn.attempts}, owner {turn.owner}")
            continue
        wrong += await _check_events(app, turn)
        mine = [line for line in lines if line.get("turn") == (texts.get(name) if turn.agent == "tally" else None)]
        if turn.agent == "tally":
            wrong += await _check_effects(app, turn, mine, texts[name], log.folder)
        if turn.status == "success":
            heard[turn.agent, turn.session].append(texts[name])
        elif turn.code not in allowed and not _may_be_unknown(turn, texts[name]):
            wrong.append(f"{name}: {turn.status} {turn.code}")
    for (agent, session), said in heard.items():
        wrong += await _check_session(app, place, agent, session, said)
    return wrong


def _may_be_unknown(turn: StoredTurn, text: str) -> bool:
    """Return whether it may be unknown if the turn has paid: its worker died, or was taken over, between the call and its result."""
    return turn.code == "effect_unknown" and turn.attempts > 1 and text.startswith("pay")


async def _check_events(app: Interlock, turn: StoredTurn) -> list[str]:
    """The stored events are those of one turn from its start to its end, and the last one has the stored result."""
    lines = await app.turns.store.events(turn.turn, limit=1_000_000)
    # The last number is one less than the count, so every number from 0 on is there.
    if not lines or len(await app.turns.store.events(turn.turn, after=len(lines) - 1)) != 1:
        return [f"{turn.turn}: {len(lines)} events, with gaps between their numbers"]
    events = list(decode_events(turn.turn, lines))
    if not events or events[0]["event"] != "on_chain_start" or events[-1]["event"] != "on_chain_end":
        return [f"{turn.turn}: {len(events)} events that do not lead from its start to its end"]
    told, stored = events[-1]["data"]["output"], result_of(turn)
    if (told["status"], told["output"]) != (stored.status, stored.output):
        return [f"{turn.turn}: its events say {told['status']} {told['output']}, its result {stored.status} {stored.output}"]
    return []


async def check_streams(app: Interlock, followers: dict[str, asyncio.Task[list[Event]]]) -> list[str]:
    """What callers got while turns ran is what is stored; a stream that begins later goes on with the next number."""
    wrong: list[str] = []
    for turn, following in followers.items():
        streamed = await following
        stored = list(decode_events(turn, await app.turns.store.events(turn, limit=1_000_000)))
        half = len(stored) // 2
        rest = [event async for event in app.turns.events(turn, after=half)]
        if (streamed, rest) != (stored, stored[half:]):
            wrong.append(f"{turn}: {len(streamed)} events were streamed, {len(stored)} are stored")
    return wrong


async def _check_effects(app: Interlock, turn: StoredTurn, lines: list[dict[str, Any]], text: str, folder: Path) -> list[str]:
    wrong: list[str] = []
    entries = [decode_entry(entry) for entry in await app.turns.store.journal(turn.turn)]
    calls = [entry for entry in entries if entry.method == "add"]
    if turn.status == "success" and result_of(turn).output != expected_output(text):
        wrong.append(f"{turn.turn}: said {result_of(turn).output}")
    is_whole = turn.status == "success" or turn.code == "effect_unknown"
    if is_whole and len(calls) != EFFECTS:
        wrong.append(f"{turn.turn}: {len(calls)} effects in its journal")
    for number in range(EFFECTS):
        tries = [line for line in lines if (line["kind"], line.get("number")) == ("add", number)]
        applied = {line["key"] for line in tries if (folder / "applied" / line["key"]).exists()}
        if len(applied) > 1 or (is_whole and not applied):
            wrong.append(f"{turn.turn}: effect {number} was applied under the keys {sorted(applied)}")
        if len({line["epoch"] for line in tries}) != len(tries):
            wrong.append(f"{turn.turn}: effect {number} was tried twice in one attempt")
        # A call that the journal has is answered from it. The next call is made after its entry was stored.
        later = [line["epoch"] for line in lines if line["kind"] == "add" and line["number"] > number]
        if tries and later and max(line["epoch"] for line in tries) > min(later):
            wrong.append(f"{turn.turn}: effect {number} was repeated after it had been stored")
    paid = sum(line["kind"] == "pay" for line in lines)
    if paid > 1 or (turn.status == "success" and paid != text.startswith("pay")):
        wrong.append(f"{turn.turn}: paid {paid} times")
    return wrong


async def _check_session(app: Interlock, place: Place, agent: str, session: str, said: list[str]) -> list[str]:
    """The session has what its successful turns left, in the order in which they were accepted."""
    if agent == "sam":
        return []
    if agent == "tally":
        kept = (await app.session_state(TALLY, session=session) or {}).get("heard", [])
    elif agent == "analyst":
        messages = (await app.session_state(agent, session=session) or {}).get("messages", ())
        kept = [one.content for one in messages if one.type == "human"]
    elif agent == "desk":
        kept = [one["text"] for one in _desk_document(place, session)["conversation"] if one["who"] == "customer"]
    else:
        kept, said = await _projects(place, session), sorted(said)
    # The analyst and the desk sum up what was said long ago.
    is_kept = kept == said if agent in {"tally", "puntini"} else bool(kept) and kept == said[-len(kept) :]
    return [] if is_kept else [f"{agent} {session}: it has heard {kept}, its turns said {said}"]


def _desk_document(place: Place, session: str) -> dict[str, Any]:
    """Return the session document of the desk, as it is on the server."""
    client: Any = redis.Redis.from_url(place.settings["session_url"])
    with client:
        return json.loads(client.get(f"conv:{session}:agent:session"))


async def _projects(place: Place, session: str) -> list[str]:
    """Return the goals of puntini that must have been given to make the graph what it is."""
    chosen = place.settings
    url, user, password, database = (chosen[f"graph_{name}"] for name in ("url", "user", "password", "database"))
    graphs = open_bolt(url, user=user, password=password, database=database, timeout_s=30, max_rows=100_000, max_bytes=100_000_000)
    try:
        found = await graphs.query(session, "MATCH (p:Project)-[:HAS_TASK]->(t:Task) RETURN p.key, t.key", {}, limit=100_000)
    finally:
        await graphs.aclose()
    return sorted(f"Create a project {project} with task {task}" for project, task in found.rows)


def takeovers(fleet: Fleet, log: Log) -> list[float]:
    """Return how long it took, after each death of a worker, until the store gave a turn that it had left to another one."""
    took: list[float] = []
    claims = {(line["turn"], line["epoch"]): line["pid"] for line in log.read() if line["kind"] == "claim"}
    for line in log.read():
        died = fleet.killed.get(claims.get((line["turn"], line["epoch"] - 1), 0)) if line["kind"] == "claim" else None
        if died is not None and line["claimed"] > died:
            took.append(line["claimed"] - died)
    return took
