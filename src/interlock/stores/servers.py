"""Redis servers for the session store: a remote one at a URL, or the embedded one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from redis.asyncio.connection import AbstractConnection, Connection, UnixDomainSocketConnection, parse_url
from redis.exceptions import (
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    AuthorizationError,
    BusyLoadingError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as ConnectionLost

from interlock.errors import SettingsInvalid, StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from interlock.stores.connections import Target, Unsent
from interlock.stores.valkey import EmbeddedValkey

__all__ = ["EmbeddedServer", "RemoteServer", "Server"]

_URL = (
    "The URL of the session store cannot be used. It is 'redis://[user:password@]host[:port][/number]', the same with 'rediss://', "
    "or 'unix:///path'; a password is percent-encoded."
)
_QUERY = frozenset({"db", "username", "password", "ssl_cert_reqs", "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"})
_CONNECTION_OPTIONS: dict[str, Any] = {
    "protocol": 2,  # RESP3 is not used, and would need a HELLO before the first command
    "driver_info": None,
    "socket_timeout": None,  # there is a timeout around the whole call; redis-py creates a task for each of its own
    "socket_connect_timeout": None,
}
_REFUSED = (AuthenticationError, AuthenticationWrongNumberOfArgsError, AuthorizationError, NoPermissionError)
_ERROR_CODES = re.compile(r"\b(WRONGTYPE|OOM|MISCONF|READONLY)\b")  # some servers put the code after the name of the script
_CODE = re.compile(r"([A-Z]{2,20})( |$)")


class Server(ABC):
    """A Redis server to connect to."""

    name: str

    @abstractmethod
    async def target(self) -> Target:
        """Return where to connect. Starts a server that Interlock owns."""

    def mark_unreachable(self) -> None:  # noqa: B027 - the address of a remote server does not change
        """Record that connecting failed."""

    def translate_error(self, error: Exception) -> StoreError:
        """Translate an error of redis-py into a StoreError."""
        return _translate_error(error, name=self.name)

    async def aclose(self) -> None:  # noqa: B027 - Interlock did not start a remote server
        """Release the server."""


class RemoteServer(Server):
    """The server at a URL."""

    def __init__(self, url: str) -> None:
        connection_class, options = _parse_url(url)
        options |= _CONNECTION_OPTIONS
        try:
            connection_class(**options)
        except (RedisError, ValueError, TypeError):
            raise SettingsInvalid(_URL) from None
        address = options["path"] if "path" in options else f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
        self.name = f"at '{address}'"
        self._target = Target(connection_class, options)

    async def target(self) -> Target:
        """Return where to connect."""
        return self._target


class EmbeddedServer(Server):
    """The embedded Valkey server."""

    def __init__(self, valkey: EmbeddedValkey) -> None:
        self.name = f"in '{valkey.folder}'"
        self._valkey = valkey

    async def target(self) -> Target:
        """Return where to connect. Starts the server if it does not run."""
        return Target(UnixDomainSocketConnection, {"path": await self._valkey.address(), **_CONNECTION_OPTIONS})

    def mark_unreachable(self) -> None:
        """Look for the server again, or start it, at the next call."""
        self._valkey.mark_unreachable()

    def translate_error(self, error: Exception) -> StoreError:
        """Translate an error of redis-py into a StoreError. If the server has ended, its log gives the reason."""
        gone = isinstance(error, Unsent | ConnectionLost) and not isinstance(error, BusyLoadingError)
        return self._valkey.failure() if gone else super().translate_error(error)

    async def aclose(self) -> None:
        """Stop the server if this process started it."""
        await self._valkey.aclose()


def _code_of(error: Exception) -> str:
    """Return the error code that a Redis reply starts with, such as OOM."""
    if not isinstance(error, ResponseError):
        return ""
    text = f"{error.status_code or ''} {error}".strip()
    found = _ERROR_CODES.search(text) or _CODE.match(text)
    return "" if found is None else found[1]


def _parse_url(url: str) -> tuple[type[AbstractConnection], dict[str, Any]]:
    """Parse a URL. Errors quote no part of it and have no cause, because any part may be the password."""
    try:
        parts, options = urlsplit(url), cast("dict[str, Any]", parse_url(url))
        query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise SettingsInvalid(_URL) from None
    unix = parts.scheme == "unix"
    # redis-py ignores a database that is not a number, and parses a password with a '/' as a host, a port and a path.
    usable = bool(parts.path) if unix else re.fullmatch(r"/?|/\d+", parts.path)
    if not usable or parts.fragment or not query.keys() <= _QUERY:
        raise SettingsInvalid(_URL)
    return cast("type[AbstractConnection]", options.pop("connection_class", Connection)), options


def _translate_error(error: Exception, *, name: str) -> StoreError:
    """Translate an error of redis-py into a StoreError. The server's text is left out, because it may contain anything."""
    unsent = isinstance(error, Unsent)
    while isinstance(error.__cause__, RedisError):  # errors while connecting are wrapped, on a unix socket twice
        error = error.__cause__
    code = _code_of(error)
    if isinstance(error, _REFUSED):
        return StoreUnavailable(f"The session store {name} rejects the user or the password. Check its URL.")
    if isinstance(error, BusyLoadingError):
        return StoreUnavailable(f"The session store {name} is still loading its data. Try again in a moment.")
    if code == "WRONGTYPE":
        return StoreCorrupt("The key of a session does not hold a string. It is left as it is.")
    if code in {"OOM", "MISCONF"}:
        return StoreFull(f"The session store {name} is full ('{code}'). Give it more memory or a larger disk.")
    if code == "READONLY":
        return StoreUnavailable(f"The session store {name} is a read-only replica. Set the URL of the primary.")
    if unsent:
        return StoreUnavailable(f"The session store {name} cannot be reached. Check its URL, and that it is running.")
    if isinstance(error, ConnectionLost):
        return StoreUnavailable(f"The session store {name} closed the connection before it replied. Try again.")
    return StoreUnavailable(f"The session store {name} failed ('{code or type(error).__name__}'). Check its version and its log.")
