"""API keys beside the turns: a SQLite file next to the turn store's, or a table in the same PostgreSQL database.

A key is stored as its SHA-256 hash. Keys have 256 random bits, so a slow hash would add nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
import sqlite3
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from interlock.errors import InputSchema, KeyUnknown, SettingsInvalid, StoreUnavailable
from interlock.extras import require
from interlock.stores.sqlite import check_writable, create

if TYPE_CHECKING:
    from interlock.stores.postgres_connections import Connection

__all__ = ["ApiKey", "KeyStore", "create_key", "hash_of", "open_keys"]


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """Who calls by a key, and how much. Limits that are None do not apply."""

    id: str
    """Names the key in lists and logs; it is part of the key and not secret."""
    hash: str
    name: str
    tenant: str = ""
    roles: tuple[str, ...] = ()
    turns_at_once: int | None = None
    turns_a_minute: int | None = None
    tokens_a_day: int | None = None
    body_bytes: int | None = None
    created: float = 0.0
    is_revoked: bool = False


class KeyStore(Protocol):
    """Keeps API keys. Raises StoreError where it cannot be used."""

    async def add(self, key: ApiKey) -> None:
        """Store a key."""
        ...

    async def all(self) -> list[ApiKey]:
        """Return all keys, the revoked ones too, oldest first."""
        ...

    async def revoke(self, id_: str) -> None:
        """Make a key invalid. Raises KeyUnknown."""
        ...

    async def aclose(self) -> None:
        """Close what is open."""
        ...


def hash_of(key: str) -> str:
    """Return the hash by which a key is found."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def create_key(name: str, **given: Any) -> tuple[str, ApiKey]:
    """Return a new key as its caller has to keep it, and as it is stored."""
    for what, value in {"name": name, "tenant": given.get("tenant", ""), **{f"role '{r}'": r for r in given.get("roles", ())}}.items():
        if not value.isascii() or not all(c.isalnum() or c in "._-@" for c in value) or len(value) > 60 or (not value and what != "tenant"):  # noqa: PLR2004
            raise InputSchema(f"The {what} of a key has letters, digits and '._-@', at most 60.")
    id_ = secrets.token_hex(4)
    text = f"ilk_{id_}_{secrets.token_urlsafe(32)}"
    return text, ApiKey(id=id_, hash=hash_of(text), name=name, created=time.time(), **given)


def open_keys(turn_url: str | None, folder: Path) -> KeyStore:
    """Return the key store that belongs to a turn store. It is opened at its first use."""
    if turn_url is None:
        return SqliteKeys(folder / "keys.db")
    if turn_url == "memory:":
        return MemoryKeys()
    if turn_url.startswith("sqlite:"):
        return SqliteKeys((folder / turn_url.removeprefix("sqlite:")).with_name("keys.db"))
    if turn_url.startswith(("postgresql://", "postgres://")):
        require("psycopg", extra="postgres", what="PostgreSQL's client")
        return PostgresKeys(turn_url)
    raise SettingsInvalid("The URL of the turn store cannot be used for keys.")


class MemoryKeys:
    """Keys in memory."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}

    async def add(self, key: ApiKey) -> None:
        """Store a key."""
        self._keys[key.id] = key

    async def all(self) -> list[ApiKey]:
        """Return all keys."""
        return list(self._keys.values())

    async def revoke(self, id_: str) -> None:
        """Make a key invalid."""
        if id_ not in self._keys:
            raise _unknown(id_)
        self._keys[id_] = replace(self._keys[id_], is_revoked=True)

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""


class SqliteKeys:
    """Keys in a file. They are few and seldom read, so each call opens it."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    async def add(self, key: ApiKey) -> None:
        """Store a key."""
        await self._run("INSERT INTO keys (id, key) VALUES (?, ?)", (key.id, _dump(key)))

    async def all(self) -> list[ApiKey]:
        """Return all keys. A file that does not exist is not created."""
        if not self._path.exists():
            return []
        return [_parse(key) for _, key in await self._run("SELECT id, key FROM keys ORDER BY rowid", ())]

    async def revoke(self, id_: str) -> None:
        """Make a key invalid."""
        changed = "UPDATE keys SET key = json_set(key, '$.is_revoked', json('true')) WHERE id = ? RETURNING id, key"
        if not self._path.exists() or not await self._run(changed, (id_,)):
            raise _unknown(id_)

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    async def _run(self, statement: str, values: tuple[Any, ...]) -> list[tuple[str, str]]:
        return await asyncio.to_thread(self._run_now, statement, values)

    def _run_now(self, statement: str, values: tuple[Any, ...]) -> list[tuple[str, str]]:
        try:
            create(self._path)
            check_writable(self._path)
            with contextlib.closing(sqlite3.connect(self._path, timeout=10.0)) as db, db:
                db.execute("CREATE TABLE IF NOT EXISTS keys (id TEXT PRIMARY KEY, key TEXT NOT NULL) STRICT")
                return db.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(f"The keys in '{self._path}' cannot be used ({type(error).__name__}).") from error


class PostgresKeys:
    """Keys in a table of the database that has the turns."""

    def __init__(self, url: str) -> None:
        from interlock.stores.postgres_connections import PostgresConnections  # noqa: PLC0415 - an extra

        self._connections = PostgresConnections(url, what="The key store", set_up=_set_up, timeout_s=10.0)

    async def add(self, key: ApiKey) -> None:
        """Store a key."""
        await self._connections.query("INSERT INTO interlock.keys (id, key) VALUES (%s, %s::jsonb) RETURNING id", (key.id, _dump(key)))

    async def all(self) -> list[ApiKey]:
        """Return all keys."""
        return [_parse(key) for (key,) in await self._connections.query("SELECT key::text FROM interlock.keys ORDER BY number")]

    async def revoke(self, id_: str) -> None:
        """Make a key invalid."""
        changed = "UPDATE interlock.keys SET key = key || '{\"is_revoked\": true}' WHERE id = %s RETURNING id"
        if not await self._connections.query(changed, (id_,)):
            raise _unknown(id_)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connections.aclose()


async def _set_up(connection: Connection) -> None:
    """Create the table if it does not exist, by one process at a time: IF NOT EXISTS alone fails where two do it at once."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(401737935)")
        await connection.execute("CREATE SCHEMA IF NOT EXISTS interlock")
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS interlock.keys "
            "(number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, key jsonb NOT NULL)"
        )


def _dump(key: ApiKey) -> str:
    return json.dumps(asdict(key))


def _parse(stored: str) -> ApiKey:
    data = cast("dict[str, Any]", json.loads(stored))
    data["roles"] = tuple(data["roles"])
    return ApiKey(**data)


def _unknown(id_: str) -> KeyUnknown:
    return KeyUnknown(f"There is no key '{id_}'.")
