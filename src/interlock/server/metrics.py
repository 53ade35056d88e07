"""What operators look at: /healthz, /readyz, and /metrics in the text format of Prometheus. Labels name agents and statuses only."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from interlock.errors import InterlockError
from interlock.runtime.event_lines import is_retold
from interlock.runtime.turns import Claim, TurnEnd, TurnStore, Verdict, Writes
from interlock.server.request_errors import Overloaded
from interlock.server.routing import Access, Json, Operation, ServerRoute, server_of

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["MeteredTurns", "Metrics", "routes"]

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_LAG_S = 0.5
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts what happens in this process."""

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        self.seconds: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * (len(_BUCKETS) + 2))
        """For each agent: how many turns took no longer than each bucket, all turns, and the sum of their seconds."""
        self.tokens: Counter[tuple[str, str]] = Counter()
        """The tokens that models have reported, by agent and direction, of turns that have ended."""
        self.requests: Counter[tuple[str, int]] = Counter()
        self.takeovers = self.lost = self.commits = self.retold = 0
        self.lag_s = 0.0
        """How late the event loop was at the last look."""

    def observe(self, agent: str, status: str, seconds: float) -> None:
        """Count a turn that has ended here."""
        self.ended[agent, status] += 1
        counts = self.seconds[agent]
        for number, bound in enumerate(_BUCKETS):
            counts[number] += seconds <= bound
        counts[-2] += 1
        counts[-1] += seconds

    def count_tokens(self, agent: str, result: bytes) -> None:
        """Count the tokens of a turn that has ended here, with what earlier attempts used."""
        usage: dict[str, int | None] = from_json(result).get("usage") or {}
        for direction in ("input", "output"):
            tokens = usage.get(f"{direction}_tokens")
            if tokens is not None:
                self.tokens[agent, direction] += tokens

    async def watch_loop(self) -> None:
        """Measure how late the event loop is, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _LAG_S
            await asyncio.sleep(_LAG_S)
            self.lag_s = max(0.0, loop.time() - due)


class MeteredTurns:
    """A turn store that counts. Everything that is not counted is passed to the store as it is."""

    def __init__(self, store: TurnStore, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self._running: dict[str, tuple[str, float]] = {}
        """The agent of each turn that runs here, and since when."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, worker: str, *, fingerprints: Collection[str], **options: Any) -> list[Claim]:
        """Claim turns. One that was claimed before, and was not answered since, was left by a worker that died or stopped."""
        claims = await self._store.claim(worker, fingerprints=fingerprints, **options)
        for claim in claims:
            self._metrics.takeovers += claim.turn.attempts > 1 and bool(claim.events) and claim.turn.answer is None
            self._running[claim.turn.turn] = (claim.turn.agent, asyncio.get_running_loop().time())
        return claims

    async def write(self, turn: str, epoch: int, writes: Writes) -> Verdict:
        """Store journal entries and events."""
        self._metrics.retold += sum(map(is_retold, writes.events))
        return self._judged(turn, await self._store.write(turn, epoch, writes))

    async def end(self, turn: str, epoch: int, end: TurnEnd, writes: Writes) -> Verdict:
        """Store how a turn ended."""
        self._metrics.retold += sum(map(is_retold, writes.events))
        verdict = self._judged(turn, await self._store.end(turn, epoch, end, writes))
        agent, since = self._running.pop(turn, (None, 0.0))
        if agent is not None and verdict != "lost":
            self._metrics.observe(agent, end.status, asyncio.get_running_loop().time() - since)
            # A turn that waits reports its tokens again with those of the rest.
            if end.status != "waiting" and end.result is not None:
                self._metrics.count_tokens(agent, end.result)
        return verdict

    async def renew(self, worker: str, turns: Mapping[str, int], *, lease_s: float = 3.0) -> dict[str, Verdict]:
        """Extend leases."""
        verdicts = await self._store.renew(worker, turns, lease_s=lease_s)
        for turn, verdict in verdicts.items():
            if verdict == "lost":
                self._judged(turn, verdict)
        return verdicts

    async def give_back(self, turn: str, epoch: int) -> Verdict:
        """End a lease."""
        self._running.pop(turn, None)
        return await self._store.give_back(turn, epoch)

    def _judged(self, turn: str, verdict: Verdict) -> Verdict:
        self._metrics.commits += verdict != "lost"
        if verdict == "lost" and self._running.pop(turn, None) is not None:
            self._metrics.lost += 1
        return verdict


async def healthz(_: Request) -> Response:
    """Answer that the process runs."""
    return Json({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Answer whether the server takes turns: it is not stopping, and its turn store answers."""
    server = server_of(request)
    if server.service.is_draining or not server.is_open:
        raise Overloaded("The server does not take turns at the moment.")
    await server.service.load()
    return Json({"status": "ready"})


async def metrics(request: Request) -> Response:
    """Write the metrics of this process and of the turn store."""
    server = server_of(request)
    return PlainTextResponse("\n".join([*await _lines(server), ""]), media_type=_TYPE)


async def _lines(server: Server) -> list[str]:
    found = server.metrics
    lines = list(_family("interlock_turns_total", "counter", "turns that ended in this process", _by(found.ended, "agent", "status")))
    lines += ["# HELP interlock_turn_seconds how long turns ran in this process", "# TYPE interlock_turn_seconds histogram"]
    for agent, counts in sorted(found.seconds.items()):
        label = f'agent="{_escaped(agent)}"'
        lines += [f'interlock_turn_seconds_bucket{{{label},le="{bound:g}"}} {counts[n]:g}' for n, bound in enumerate(_BUCKETS)]
        lines += [f'interlock_turn_seconds_bucket{{{label},le="+Inf"}} {counts[-2]:g}']
        lines += [f"interlock_turn_seconds_sum{{{label}}} {counts[-1]:g}", f"interlock_turn_seconds_count{{{label}}} {counts[-2]:g}"]
    lines += _family(
        "interlock_tokens_total", "counter", "tokens of models in turns that ended in this process", _by(found.tokens, "agent", "direction")
    )
    try:
        load, now = await server.service.load(), await server.interlock.turns.store.now()
    except InterlockError:
        load, now = None, 0.0
    if load is not None:
        queue = {(one.agent, one.status): one.turns for one in load}
        ready = [one.oldest for one in load if one.status == "ready"]
        lines += _family("interlock_turns_open", "gauge", "open turns in the turn store", _by(queue, "agent", "status"))
        age = max(0.0, now - min(ready)) if ready else 0.0
        lines += _family("interlock_oldest_ready_seconds", "gauge", "the age of the oldest turn that no worker has claimed", {"": age})
    lines += _family("interlock_store_up", "gauge", "whether the turn store answers", {"": float(load is not None)})
    single: tuple[tuple[str, str, str, Callable[[], float]], ...] = (
        ("takeovers_total", "counter", "turns that this process resumed after another worker had begun them", lambda: found.takeovers),
        ("leases_lost_total", "counter", "turns that another worker has taken over from this process", lambda: found.lost),
        ("commits_total", "counter", "writes of turns to the store", lambda: found.commits),
        ("retold_total", "counter", "times that a resumed turn replaced events of the worker before it", lambda: found.retold),
        ("event_streams", "gauge", "open streams of events", lambda: server.hub.followers),
        ("loop_lag_seconds", "gauge", "how late the event loop was at the last look", lambda: found.lag_s),
    )
    for name, kind, text, value in single:
        lines += _family(f"interlock_{name}", kind, text, {"": value()})
    requests = {(method, str(status)): count for (method, status), count in found.requests.items()}
    lines += _family("interlock_requests_total", "counter", "requests by method and status", _by(requests, "method", "status"))
    return lines


def _by(counts: Mapping[tuple[str, str], float], *names: str) -> dict[str, float]:
    def labels(values: tuple[str, str]) -> str:
        return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)) + "}"

    return {labels(values): count for values, count in sorted(counts.items())}


def _family(name: str, kind: str, text: str, values: Mapping[str, float]) -> Iterator[str]:
    yield from (f"# HELP {name} {text}", f"# TYPE {name} {kind}")
    for labels, value in values.items():
        yield f"{name}{labels} {value:g}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def routes(_: Server) -> list[ServerRoute]:
    """Return the routes for operators."""
    described = Operation(summary="Metrics in the text format of Prometheus", responses={200: str}, media_type="text/plain")
    return [
        ServerRoute("GET", "/healthz", healthz, access=Access.OPEN, operation=Operation(summary="Alive", responses={200: dict[str, str]})),
        ServerRoute("GET", "/readyz", readyz, access=Access.OPEN, operation=Operation(summary="Ready", responses={200: dict[str, str]})),
        ServerRoute("GET", "/metrics", metrics, access=Access.OPERATOR, operation=described),
    ]
