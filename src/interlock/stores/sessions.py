"""Session store on a Redis server: one JSON document under one key for each session.

A save replaces a document only if the stored bytes have not changed since they were read (optimistic locking). A Lua script
compares their digest and writes in one step, so it does not need to parse the document. Parsing it in the script was tried
first: it blocks every other client of the server for 0.2 ms with 10 kB and for 40 ms with 2 MB, where the digest takes 0.03
and 5 ms, and Lua disagrees with Python about what is JSON and what is an integer.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic_core import from_json
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import NoScriptError

from interlock.errors import InputSchema, SettingsInvalid, StateConflict, StateUnstorable, StoreCorrupt, StoreError, StoreUnavailable
from interlock.stores.connections import Connections, Unsent
from interlock.stores.event_loops import PerEventLoop
from interlock.stores.servers import EmbeddedServer, RemoteServer, Server
from interlock.stores.valkey import EmbeddedValkey

__all__ = ["MAX_BYTES", "RedisSessions", "open_sessions"]

MAX_BYTES = 2 * 1024 * 1024
"""Largest size of a session document."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_CACHED = 4096
_MAX_ATTEMPTS = 3
_RETRY_WRITES = (Unsent,)
_RETRY_READS = (Unsent, ConnectionLost)  # a command that only reads may be sent twice
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


class _StoredVersion(NamedTuple):
    """The version, size and digest of a stored document."""

    version: int
    size: int
    digest: str


_ABSENT = _StoredVersion(0, 0, "")


class _LoopState(NamedTuple):
    """The connections of one event loop, and the documents that it has seen last."""

    connections: Connections
    versions: dict[str, _StoredVersion]

    def cache(self, session_id: str, version: int, raw: bytes) -> _StoredVersion:
        """Cache the digest of stored bytes, so that the next save needs no read."""
        self.versions.pop(session_id, None)
        if len(self.versions) >= _MAX_CACHED:
            del self.versions[next(iter(self.versions))]  # the least recently used one
        self.versions[session_id] = cached = _StoredVersion(version, len(raw), hashlib.sha1(raw, usedforsecurity=False).hexdigest())
        return cached


_REPLACE_DIGEST = hashlib.sha1(_REPLACE.encode(), usedforsecurity=False).hexdigest()


def open_sessions(url: str | None, *, folder: Path, ttl_seconds: int, max_bytes: int = MAX_BYTES, timeout_s: float) -> RedisSessions:
    """Open the session store at a URL or, without a URL, on the embedded server with its data in `folder`."""
    server = EmbeddedServer(EmbeddedValkey(folder)) if url is None else RemoteServer(url)
    return RedisSessions(server, ttl_seconds=ttl_seconds, max_bytes=max_bytes, timeout_s=timeout_s)


class RedisSessions:
    """Stores session documents. Can be used from several event loops, and again after `aclose`."""

    def __init__(self, server: Server, *, ttl_seconds: int, max_bytes: int = MAX_BYTES, timeout_s: float) -> None:
        if ttl_seconds < 1:
            raise SettingsInvalid(f"The time to live of sessions is {ttl_seconds} s. Set at least 1 s.")
        self._server = server
        self._ttl_seconds = ttl_seconds
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._loops = PerEventLoop(lambda: _LoopState(Connections(timeout_s=timeout_s), {}))

    async def load(self, session_id: str) -> str | None:
        """Return the session's document, or None if the session does not exist."""
        found = await self._read(await self._loop_state(), _check_id(session_id))
        return None if found is None else found[0]

    async def save(self, session_id: str, document: str, *, expected: int) -> None:
        """Replace the document if its version is still `expected`; 0 means that the session must not exist yet.

        Saving the document that is stored already changes nothing: a turn that is resumed makes its save again. No two turns save the
        same document, because it has the time of its turn. After StoreUnavailable the document may or may not have been saved: load it
        to find out. A save whose reply is lost is not sent again: another turn may have followed it.
        """
        body, version = self._body(_check_id(session_id), document, expected=expected)
        state = await self._loop_state()
        base = _ABSENT if expected == 0 else state.versions.get(session_id)
        if base is None or base.version != expected:
            base = await self._read_base(state, session_id, expected, document)
        for _ in range(_MAX_ATTEMPTS):
            if base is None:
                return
            if await self._replace(state, session_id, base, body):
                state.cache(session_id, version, body)
                return
            base = await self._read_base(state, session_id, expected, document)
        raise StateConflict(f"Other turns saved session '{session_id}' during all {_MAX_ATTEMPTS} attempts. Load it again.")

    async def ping(self) -> None:
        """Check that the server replies. Starts the embedded one."""
        await self._call(await self._loop_state(), "PING")

    async def aclose(self) -> None:
        """Close the connections of this event loop and stop the embedded server. Other loops close theirs when they end."""
        state = self._loops.pop()
        try:
            if state is not None:
                await state.connections.aclose()
        finally:
            await self._server.aclose()

    async def _read(self, state: _LoopState, session_id: str) -> tuple[str, _StoredVersion] | None:
        """Read the document, but not more than `max_bytes` of it."""
        raw = await self._call(state, "GETRANGE", _key(session_id), 0, self._max_bytes)
        if not raw:  # a missing key and an empty value look the same
            if not await self._call(state, "EXISTS", _key(session_id)):
                return None
            raw = await self._call(state, "GETRANGE", _key(session_id), 0, self._max_bytes)
        if not isinstance(raw, bytes):
            raise StoreUnavailable(f"The session store {self._server.name} does not reply with bytes. Check that it is a Redis server.")
        if len(raw) > self._max_bytes:
            raise StoreCorrupt(f"{_stored(session_id)} is larger than {self._max_bytes:,} bytes. It is left as it is.")
        try:
            version, document = _version(raw), raw.decode()
        except ValueError as error:
            raise StoreCorrupt(f"{_stored(session_id)} is not JSON. It is left as it is.") from error
        if version is None:
            raise StoreCorrupt(f"{_stored(session_id)} is not an object with a 'version' of 1 or more. It is left as it is.")
        return document, state.cache(session_id, version, raw)

    async def _read_base(self, state: _LoopState, session_id: str, expected: int, document: str) -> _StoredVersion | None:
        """Read the digest of the stored document; return None if it is the one to be saved.

        Raises StateConflict if it has another version than the expected one.
        """
        found = await self._read(state, session_id)
        seen = _ABSENT if found is None else found[1]
        if seen.version == expected:
            return seen
        if found is not None and found[0] == document:
            return None
        raise StateConflict(f"Another turn changed session '{session_id}': its version is {seen.version}, not {expected}. Load it again.")

    async def _replace(self, state: _LoopState, session_id: str, base: _StoredVersion, body: bytes) -> bool:
        arguments = (1, _key(session_id), base.size, base.digest, body, self._ttl_seconds)
        try:
            return bool(await self._call(state, "EVALSHA", _REPLACE_DIGEST, *arguments, retry_on=_RETRY_WRITES))
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
        # NOSCRIPT: nothing was written. EVAL also caches the script until the server restarts.
        return bool(await self._call(state, "EVAL", _REPLACE, *arguments, retry_on=_RETRY_WRITES))

    def _body(self, session_id: str, document: str, *, expected: int) -> tuple[bytes, int]:
        """Encode a document for storage and return it with its version. Raises StateUnstorable if it could not be loaded again."""
        try:
            body = document.encode()
            if len(body) > self._max_bytes:
                raise StateUnstorable(f"The document of session '{session_id}' has {len(body):,} bytes; the limit is {self._max_bytes:,}.")
            version = _version(body)
        except ValueError as error:
            raise StateUnstorable(f"The document of session '{session_id}' is not JSON.") from error
        if version is None or version <= expected:
            raise StateUnstorable(f"The document of session '{session_id}' needs a 'version' that is an integer above {expected}.")
        return body, version

    async def _call(self, state: _LoopState, *command: str | bytes | int, retry_on: tuple[type[Exception], ...] = _RETRY_READS) -> Any:
        """Send a command, and send it once more after an error in `retry_on`."""
        try:
            try:
                # This may start the server, which has a time limit of its own.
                return await state.connections.call(await self._server.target(), command)
            except retry_on:
                self._server.mark_unreachable()
                return await state.connections.call(await self._server.target(), command)
        except StoreError:
            raise
        except TimeoutError as error:
            raise StoreUnavailable(f"The session store {self._server.name} did not answer within {self._timeout_s:g} s.") from error
        except Exception as error:  # also the errors that redis-py raises for a malformed reply
            raise self._server.translate_error(error) from error

    async def _loop_state(self) -> _LoopState:
        state = self._loops.get()
        await state.connections.start()
        return state


def _check_id(session_id: str) -> str:
    if _ID.fullmatch(session_id) is None:
        raise InputSchema("A session id has 1 to 64 letters, digits, '-' and '_', and nothing else.")
    return session_id


def _key(session_id: str) -> str:
    return f"conv:{session_id}:agent:session"


def _version(raw: bytes) -> int | None:
    """Return the version of a document, or None if it is not an object with a valid version. Raises ValueError if it is not JSON."""
    document: object = from_json(raw, allow_inf_nan=False, cache_strings="keys")
    version = cast("dict[str, object]", document).get("version") if isinstance(document, dict) else None
    return version if isinstance(version, int) and not isinstance(version, bool) and version >= 1 else None


def _stored(session_id: str) -> str:
    return f"The stored document of session '{session_id}'"
