"""Follows the stored events of turns and sessions, for every protocol.

All followers of one process share one watcher of the turn store, which asks in one query how far their turns are. A follower reads
from the lines that its turn's feed holds, at its own speed: it never holds up the turn or another follower, and has no buffer of
its own. What it sends is a pure function of the stored lines, so a stream that is resumed equals the one that was cut.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from pydantic_core import to_json
from starlette.responses import Response

from interlock.errors import InterlockError
from interlock.runtime.event_lines import EventDecoder
from interlock.runtime.events import Event
from interlock.runtime.observe import LOGGER
from interlock.runtime.turns import ENDED, Page, StoredTurn, TurnFilter, TurnStatus, TurnStore
from interlock.server.problems import public_event
from interlock.server.request_errors import RequestError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["HEARTBEAT_S", "EventHub", "EventPlace", "EventStream", "frame"]

HEARTBEAT_S = 15.0
"""How long a stream may be silent."""
_SEND_S = 30.0
"""How long a client may take to read what was sent. Slower ones are dropped; they can resume."""
_GATHER_S = 0.001
"""How long the watcher waits between two looks at the store, so that many small commits are read together."""
_LOOK_S = 1.0
"""How often a session that is followed is looked at for a new turn of another process."""


@dataclass(frozen=True, order=True)
class EventPlace:
    """The id of an event: the position of its turn in the session, and its number in the turn. It grows within a session."""

    position: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.position}.{self.number}"

    @classmethod
    def parse(cls, text: str) -> EventPlace:
        """Read an id as a client sends it. Raises RequestError."""
        position, dot, number = text.partition(".")
        digits = (position, number) if dot else (position, "0")
        if not all(part.isascii() and part.isdigit() and len(part) <= 15 for part in digits):  # noqa: PLR2004 - fits into 53 bits
            raise RequestError("The id of the last event has the form '3.14'.")
        return cls(int(digits[0]), int(digits[1]))


_START = EventPlace()


@dataclass(eq=False)
class _Feed:
    """What this process knows of one turn that is followed."""

    turn: str
    lines: list[bytes] = field(default_factory=list[bytes])
    status: TurnStatus | None = None
    """None where the turn is not stored any more."""
    is_complete: bool = False
    """Whether the turn has ended and all its lines are here."""
    readers: int = 0
    line_readers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def rests(self) -> bool:
        """Whether no more events come: the turn has ended, waits for a person, or was deleted."""
        return self.status is None or self.status in ENDED or self.status == "waiting"

    def report(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class EventHub:
    """The followers of one process. `open` and `close` belong to the server's lifespan."""

    def __init__(self, store: TurnStore) -> None:
        self._store = store
        self._feeds: dict[str, _Feed] = {}
        self._watching: asyncio.Task[None] | None = None
        self._refreshing = asyncio.Lock()
        self._sessions: WeakValueDictionary[tuple[str, str, str], asyncio.Event] = WeakValueDictionary()
        self.is_closing = asyncio.Event()
        """Set when the server stops: every follower ends, and its client resumes elsewhere."""

    @property
    def followers(self) -> int:
        """How many streams are open."""
        return sum(feed.readers for feed in self._feeds.values())

    async def follow(self, turn: str, *, after: int = 0, idle_s: float = HEARTBEAT_S) -> AsyncGenerator[list[Event], None]:
        """Yield the events of a turn after number `after`, in lists, until it has ended or waits for a person.

        An empty list means that nothing happened for `idle_s` seconds. The generator also ends when the server stops.
        """
        decoder = EventDecoder(turn)
        async with self._feed(turn, wants_lines=True) as feed:
            await self._refresh({turn: feed})
            while True:
                # Before the lines: what comes while they are sent has to be looked at again.
                changed, rests, count = feed.changed, feed.rests, len(feed.lines)
                events = [public_event(decoder.decode(line)) for line in feed.lines[decoder.count : count]]
                wanted = [event for event in events if event["metadata"]["sequence"] > after]
                if wanted:
                    yield wanted
                if rests or self.is_closing.is_set():
                    return
                if not await _is_set(changed, idle_s):
                    yield []

    async def until_rest(self, turn: str, *, timeout_s: float) -> bool:
        """Wait until a turn has ended or waits for a person; return whether it does."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        async with self._feed(turn, wants_lines=False) as feed:
            await self._refresh({turn: feed})
            while not feed.rests:
                left = deadline - loop.time()
                if left <= 0 or self.is_closing.is_set():
                    return False
                await _is_set(feed.changed, left)
        return True

    async def follow_session(
        self,
        tenant: str,
        agent: str,
        session: str,
        *,
        since: EventPlace = _START,
        is_visible: Callable[[StoredTurn], bool] = lambda _: True,
        idle_s: float = HEARTBEAT_S,
    ) -> AsyncGenerator[tuple[StoredTurn | None, list[Event]], None]:
        """Yield the events of a session's turns after `since`, turn by turn, each list with its turn; it does not end by itself.

        After the events of a turn comes an empty list with the turn as it ended or waits. `(None, [])` means that nothing happened.
        """
        place, told_waiting = since, False
        news = self._sessions.setdefault((tenant, agent, session), asyncio.Event())
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while not self.is_closing.is_set():
            news.clear()
            turn = await self._turn_at(TurnFilter(tenant=tenant, agent=agent, session=session), place.position, is_visible)
            if turn is not None and not (told_waiting and turn.status == "waiting"):
                after = place.number if turn.position == place.position else 0
                async for events in self.follow(turn.turn, after=after, idle_s=idle_s):
                    heard, after = loop.time(), after + len(events)
                    yield (turn if events else None), events
                if self.is_closing.is_set():
                    return
                ended = await self._store.get(turn.turn)
                told_waiting = ended is not None and ended.status == "waiting"
                is_over = ended is None or ended.status in ENDED
                place = EventPlace(turn.position + 1) if is_over else EventPlace(turn.position, after)
                if ended is not None and (is_over or told_waiting):
                    yield ended, []
                continue
            if not await _is_set(news, _LOOK_S) and loop.time() - heard >= idle_s:
                heard = loop.time()
                yield None, []

    def note_session(self, tenant: str, agent: str, session: str) -> None:
        """Report a turn that was accepted or answered here, so that followers of its session need not look."""
        news = self._sessions.get((tenant, agent, session))
        if news is not None:
            news.set()

    async def aclose(self) -> None:
        """End all followers."""
        self.is_closing.set()
        for feed in self._feeds.values():
            feed.report()
        for news in self._sessions.values():
            news.set()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _turn_at(self, chosen: TurnFilter, position: int, is_visible: Callable[[StoredTurn], bool]) -> StoredTurn | None:
        """Return the turn at a position of a session, or the first one after it that the caller may see."""
        found: StoredTurn | None = None
        page = Page(limit=50)
        while turns := await self._store.find(chosen, page):
            later = [turn for turn in turns if turn.position >= max(position, 1)]
            found = next((turn for turn in reversed(later) if is_visible(turn)), found)
            if len(later) < len(turns) or len(turns) < page.limit:
                break
            page = Page(limit=50, before=turns[-1].turn)
        return found

    @contextlib.asynccontextmanager
    async def _feed(self, turn: str, *, wants_lines: bool) -> AsyncGenerator[_Feed]:
        feed = self._feeds.setdefault(turn, _Feed(turn))
        feed.readers += 1
        feed.line_readers += wants_lines
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())
        try:
            yield feed
        finally:
            feed.readers -= 1
            feed.line_readers -= wants_lines
            if not feed.readers:
                self._feeds.pop(turn, None)

    async def _watch(self) -> None:
        """Look at the followed turns whenever the store has changed."""
        since: int | None = None
        while self._feeds:
            try:
                since = await self._store.changed(timeout_s=_LOOK_S, since=since)
                await self._refresh(dict(self._feeds))
            except InterlockError as error:
                # The followers stay; the store may come back.
                LOGGER.warning("events cannot be followed", extra={"fields": {"code": error.code}})
                await asyncio.sleep(_LOOK_S)
            await asyncio.sleep(_GATHER_S)

    async def _refresh(self, feeds: Mapping[str, _Feed]) -> None:
        """Read what is new of turns. The lines of a turn are read after its status, so none is missing from a turn that has ended."""
        async with self._refreshing:
            progress = await self._store.progress(feeds)
            for name, feed in feeds.items():
                found = progress.get(name)
                status = None if found is None else found.status
                is_over = status in ENDED
                has_lines = found is not None and (found.events > len(feed.lines) or (is_over and not feed.is_complete))
                if feed.line_readers and has_lines:
                    while lines := await self._store.events(feed.turn, after=len(feed.lines)):
                        feed.lines += lines
                    feed.is_complete = is_over
                elif status == feed.status:
                    continue
                feed.status = status
                feed.report()


async def _is_set(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event; return whether it was set in time."""
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        return False
    return True


def frame(data: Any, *, event: str | None = None, id_: object = None) -> bytes:
    """Return one server-sent event. `data` is JSON data, or bytes without line breaks."""
    parts = [b"" if id_ is None else f"id: {id_}\n".encode(), b"" if event is None else f"event: {event}\n".encode()]
    return b"".join([*parts, b"data: ", data if isinstance(data, bytes) else to_json(data, inf_nan_mode="null"), b"\n\n"])


class EventStream(Response):
    """Sends frames as they come; an empty list is a heartbeat. A client that leaves, or reads too slowly, ends the stream only.

    `leave` is called where the stream ended before its last frame.
    """

    def __init__(
        self,
        frames: AsyncGenerator[Iterable[bytes], None],
        headers: Mapping[str, str] | None = None,
        *,
        leave: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(
            media_type="text/event-stream", headers={"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})}
        )
        del self.headers["content-length"]
        self._frames = frames
        self._leave = leave
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Send the frames."""
        leaving = asyncio.create_task(_until_left(receive))
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (leaving, sending):
                task.cancel()
            await asyncio.gather(leaving, sending, return_exceptions=True)
            await self._frames.aclose()
            # Not in the generator: one that was never started, because its client had left before, runs no `finally`.
            if self._leave is not None and not self._is_over:
                await self._leave()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        # A first comment, so that a client sees at once that the stream is open.
        await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
        try:
            async for frames in self._frames:
                body = b"".join(frames) or b": heartbeat\n\n"
                await asyncio.wait_for(send({"type": "http.response.body", "body": body, "more_body": True}), _SEND_S)
            self._is_over = True
        except TimeoutError:
            return
        except InterlockError as error:
            body = frame({"code": error.code}, event="error")
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
