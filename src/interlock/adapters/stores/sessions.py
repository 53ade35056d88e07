"""Sessions on a server that speaks Redis's protocol: one JSON document under one key for each.

A document is replaced only where the stored bytes are those that it was made from. Their digest is compared by a script, in
the one step that also writes, so that the script need not understand the document. To decode it there was tried first: it
holds up every other client of the server for 0.2 ms with 10 kB and for 40 ms with 2 MB, where the digest takes 0.03 and
5 ms; and what it takes for JSON and for a whole number is not what Python does.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic_core import from_json
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import NoScriptError

from interlock.adapters.stores.connections import Connections, Unsent
from interlock.adapters.stores.servers import EmbeddedServer, RemoteServer, Server
from interlock.adapters.stores.valkey import EmbeddedValkey
from interlock.errors import InputSchema, SettingsInvalid, StateConflict, StateUnstorable, StoreCorrupt, StoreError, StoreUnavailable

__all__ = ["MAX_BYTES", "RedisSessions", "open_sessions"]

MAX_BYTES = 2 * 1024 * 1024
"""How many bytes the document of a session may have."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SEEN = 4096
_TRIES = 3
_UNSENT = (Unsent,)
_HARMLESS = (Unsent, Lost)  # to a command that only reads
_REPLACE = """\
local size = redis.call('STRLEN', KEYS[1])
if size ~= tonumber(ARGV[1]) then return 0 end
if size == 0 then
    if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
elseif redis.sha1hex(redis.call('GET', KEYS[1])) ~= ARGV[2] then
    return 0
end
redis.call('SET', KEYS[1], ARGV[3], 'EX', ARGV[4])
return 1
"""


class _Seen(NamedTuple):
    """What is known of stored bytes."""

    version: int
    size: int
    digest: str


_NOTHING = _Seen(0, 0, "")


class _Here(NamedTuple):
    """What belongs to one event loop."""

    connections: Connections
    seen: dict[str, _Seen]

    def note(self, session_id: str, version: int, raw: bytes) -> _Seen:
        """Remember what the stored bytes look like."""
        self.seen.pop(session_id, None)
        if len(self.seen) >= _SEEN:
            del self.seen[next(iter(self.seen))]  # the one that was used least lately
        self.seen[session_id] = noted = _Seen(version, len(raw), hashlib.sha1(raw, usedforsecurity=False).hexdigest())
        return noted


_REPLACE_DIGEST = hashlib.sha1(_REPLACE.encode(), usedforsecurity=False).hexdigest()


def open_sessions(url: str | None, *, folder: Path, ttl_seconds: int, max_bytes: int = MAX_BYTES, timeout_s: float) -> RedisSessions:
    """Open the sessions on the server at a URL, or without one on the embedded server, whose data is in the folder."""
    server = EmbeddedServer(EmbeddedValkey(folder)) if url is None else RemoteServer(url)
    return RedisSessions(server, ttl_seconds=ttl_seconds, max_bytes=max_bytes, timeout_s=timeout_s)


class RedisSessions:
    """Keeps the documents of sessions. May be used on any event loop, on several one after the other, and after it is closed."""

    def __init__(self, server: Server, *, ttl_seconds: int, max_bytes: int = MAX_BYTES, timeout_s: float) -> None:
        if ttl_seconds < 1:
            raise SettingsInvalid(f"Sessions cannot be kept for {ttl_seconds} s. Keep them for at least 1 s.")
        self._server = server
        self._ttl_seconds = ttl_seconds
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._loops: dict[asyncio.AbstractEventLoop, _Here] = {}

    async def load(self, session_id: str) -> str | None:
        """Return the session's document, or None where there is none."""
        found = await self._read(await self._here(), _checked(session_id))
        return None if found is None else found[0]

    async def save(self, session_id: str, document: str, *, expected: int) -> None:
        """Replace the document if its version is still `expected`; 0 is a session that has none yet.

        After StoreUnavailable it may have been saved or not: load it to know. It is not sent again when the reply is lost,
        because where it has been saved it would find itself stored, and call that a conflict.
        """
        body, version = self._body(_checked(session_id), document, expected=expected)
        here = await self._here()
        base = _NOTHING if expected == 0 else here.seen.get(session_id)
        if base is None or base.version != expected:
            base = await self._base(here, session_id, expected)
        for _ in range(_TRIES):
            if await self._replace(here, session_id, base, body):
                here.note(session_id, version, body)
                return
            base = await self._base(here, session_id, expected)  # says whose mistake it is, except where the same version has other bytes
        raise StateConflict(f"Session '{session_id}' is being saved by somebody else again and again.")

    async def ping(self) -> None:
        """Ask the server whether it is there. The embedded one is started."""
        await self._call(await self._here(), "PING")

    async def aclose(self) -> None:
        """Close the connections of this event loop, and stop the embedded server. What other loops have ends with them."""
        here = self._loops.pop(asyncio.get_running_loop(), None)
        try:
            if here is not None:
                await here.connections.aclose()
        finally:
            await self._server.aclose()

    async def _read(self, here: _Here, session_id: str) -> tuple[str, _Seen] | None:
        """Read the document, and not more of it than it may have."""
        raw = await self._call(here, "GETRANGE", _key(session_id), 0, self._max_bytes)
        if not raw:  # what is not there is as long as what is empty
            if not await self._call(here, "EXISTS", _key(session_id)):
                return None
            raw = await self._call(here, "GETRANGE", _key(session_id), 0, self._max_bytes)
        if not isinstance(raw, bytes):
            raise StoreUnavailable(f"The session store {self._server.name} answers with something else than what is stored.")
        if len(raw) > self._max_bytes:
            raise StoreCorrupt(f"{_stored(session_id)} is larger than {self._max_bytes:,} bytes; it is left as it is.")
        try:
            version, document = _version(raw), raw.decode()
        except ValueError as error:
            raise StoreCorrupt(f"{_stored(session_id)} is not JSON; it is left as it is.") from error
        if version is None:
            raise StoreCorrupt(f"{_stored(session_id)} is not an object with a 'version' of 1 or more; it is left as it is.")
        return document, here.note(session_id, version, raw)

    async def _base(self, here: _Here, session_id: str, expected: int) -> _Seen:
        """Read what a document of the expected version looks like, or tell who has changed it."""
        found = await self._read(here, session_id)
        seen = _NOTHING if found is None else found[1]
        if seen.version != expected:
            raise StateConflict(
                f"Session '{session_id}' was changed by somebody else: its version is {seen.version} and not {expected}. Load it again."
            )
        return seen

    async def _replace(self, here: _Here, session_id: str, base: _Seen, body: bytes) -> bool:
        arguments = (1, _key(session_id), base.size, base.digest, body, self._ttl_seconds)
        try:
            return bool(await self._call(here, "EVALSHA", _REPLACE_DIGEST, *arguments, again=_UNSENT))
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
        # The server does not know the script, so nothing was done. This way it learns it, until it is started again.
        return bool(await self._call(here, "EVAL", _REPLACE, *arguments, again=_UNSENT))

    def _body(self, session_id: str, document: str, *, expected: int) -> tuple[bytes, int]:
        """Return what is stored of a document, and its version; refuse what could not be loaded again."""
        try:
            body = document.encode()
            if len(body) > self._max_bytes:
                raise StateUnstorable(f"The document of session '{session_id}' has {len(body):,} bytes; {self._max_bytes:,} are kept.")
            version = _version(body)
        except ValueError as error:
            raise StateUnstorable(f"The document of session '{session_id}' is not JSON.") from error
        if version is None or version <= expected:
            raise StateUnstorable(f"The document of session '{session_id}' has no 'version' that is a whole number above {expected}.")
        return body, version

    async def _call(self, here: _Here, *command: str | bytes | int, again: tuple[type[Exception], ...] = _HARMLESS) -> Any:
        """Send a command, and once more after an error that leaves it harmless to do so."""
        try:
            try:
                # To be ready may mean to start the server, which takes its own time.
                return await here.connections.call(await self._server.ready(), command)
            except again:
                self._server.forget()
                return await here.connections.call(await self._server.ready(), command)
        except StoreError:
            raise
        except TimeoutError as error:
            raise StoreUnavailable(f"The session store {self._server.name} did not answer within {self._timeout_s:g} s.") from error
        except Exception as error:  # also what redis-py makes of an answer that nobody should give
            raise self._server.explain(error) from error

    async def _here(self) -> _Here:
        """Return what belongs to the running event loop."""
        loop = asyncio.get_running_loop()
        here = self._loops.get(loop)
        if here is None:
            for ended in [other for other in list(self._loops) if other.is_closed()]:
                self._loops.pop(ended, None)
            here = self._loops[loop] = _Here(Connections(timeout_s=self._timeout_s), {})
            await here.connections.start()
        return here


def _checked(session_id: str) -> str:
    if _ID.fullmatch(session_id) is None:
        raise InputSchema("A session id has 1 to 64 letters, digits, '-' and '_', and nothing else.")
    return session_id


def _key(session_id: str) -> str:
    return f"conv:{session_id}:agent:session"


def _version(raw: bytes) -> int | None:
    """Return the version of a document; None for what is no object that has one. Raises ValueError for what is no JSON."""
    document: object = from_json(raw, allow_inf_nan=False, cache_strings="keys")
    version = cast("dict[str, object]", document).get("version") if isinstance(document, dict) else None
    return version if isinstance(version, int) and not isinstance(version, bool) and version >= 1 else None


def _stored(session_id: str) -> str:
    return f"What is stored for session '{session_id}'"
