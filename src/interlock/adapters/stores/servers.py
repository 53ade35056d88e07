"""Which Redis server is asked: one that has a URL, or the one of our own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol, cast
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
from redis.exceptions import ConnectionError as Lost

from interlock.adapters.stores.connections import Unsent
from interlock.adapters.stores.valkey import EmbeddedValkey
from interlock.errors import SettingsInvalid, StoreCorrupt, StoreError, StoreFull, StoreUnavailable

__all__ = ["EmbeddedServer", "Make", "RemoteServer", "Server"]

Make = Callable[[], AbstractConnection]

_URL = (
    "The URL of the session store cannot be used. It is 'redis://[user:password@]host[:port][/number]', the same with 'rediss://', "
    "or 'unix:///path'; a password is percent-encoded."
)
_QUERY = frozenset({"db", "username", "password", "ssl_cert_reqs", "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile"})
_HOW: dict[str, Any] = {
    "protocol": 2,  # nothing of the third version is used, and so nothing is said before the first command
    "driver_info": None,
    "socket_timeout": None,  # there is one around the whole call; redis-py makes a task for each of its own
    "socket_connect_timeout": None,
}
_REFUSED = (AuthenticationError, AuthenticationWrongNumberOfArgsError, AuthorizationError, NoPermissionError)
_KNOWN = re.compile(r"\b(WRONGTYPE|OOM|MISCONF|READONLY)\b")  # some servers put it after the name of the script
_CODE = re.compile(r"([A-Z]{2,20})( |$)")


class Server(Protocol):
    """A server to connect to."""

    @property
    def name(self) -> str: ...

    async def ready(self) -> Make:
        """Return what makes a connection, which is not connected yet."""
        ...

    def forget(self) -> None:
        """Take note that there was nobody to connect to."""
        ...

    def explain(self, error: Exception) -> StoreError:
        """Tell what an error of the client means."""
        ...

    async def aclose(self) -> None:
        """Let go of the server."""
        ...


class RemoteServer:
    """A server at a URL."""

    def __init__(self, url: str) -> None:
        kind, how = _read(url)
        how |= _HOW
        try:
            kind(**how)
        except (RedisError, ValueError, TypeError):
            raise SettingsInvalid(_URL) from None
        self.name = f"at '{how['path']}'" if "path" in how else f"at '{how.get('host', 'localhost')}:{how.get('port', 6379)}'"
        self._make: Make = lambda: kind(**how)

    async def ready(self) -> Make:
        """Return what makes a connection."""
        return self._make

    def forget(self) -> None:
        """Do nothing: a server that is not ours is where it is."""

    def explain(self, error: Exception) -> StoreError:
        """Tell what an error of the client means."""
        return _explain(error, name=self.name)

    async def aclose(self) -> None:
        """Do nothing: the server is not ours."""


class EmbeddedServer:
    """The server of our own."""

    def __init__(self, valkey: EmbeddedValkey) -> None:
        self.name = f"in '{valkey.folder}'"
        self._valkey = valkey

    async def ready(self) -> Make:
        """Return what makes a connection; start the server first if there is none."""
        address = await self._valkey.address()
        return lambda: UnixDomainSocketConnection(path=address, **_HOW)

    def forget(self) -> None:
        """Look for the server again, or start it, when it is needed next."""
        self._valkey.forget()

    def explain(self, error: Exception) -> StoreError:
        """Tell what an error of the client means. Why the server is gone is in its log."""
        gone = isinstance(error, Unsent | Lost) and not isinstance(error, BusyLoadingError)
        return self._valkey.failure() if gone else _explain(error, name=self.name)

    async def aclose(self) -> None:
        """Stop the server if it is ours."""
        await self._valkey.aclose()


def _code_of(error: Exception) -> str:
    """Return the word by which a server says what kind of error it is."""
    if not isinstance(error, ResponseError):
        return ""
    text = f"{error.status_code or ''} {error}".strip()
    found = _KNOWN.search(text) or _CODE.match(text)
    return "" if found is None else found[1]


def _read(url: str) -> tuple[type[AbstractConnection], dict[str, Any]]:
    """Take a URL to pieces. No error shows any of it, nor what failed to read it: it has a password, or is one."""
    try:
        parts, how = urlsplit(url), cast("dict[str, Any]", parse_url(url))
        query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise SettingsInvalid(_URL) from None
    unix = parts.scheme == "unix"
    # redis-py takes a database that is no number for none, and a password with a '/' for a host, a port and a path.
    usable = bool(parts.path) if unix else re.fullmatch(r"/?|/\d+", parts.path)
    if not usable or parts.fragment or not query.keys() <= _QUERY:
        raise SettingsInvalid(_URL)
    return cast("type[AbstractConnection]", how.pop("connection_class", Connection)), how


def _explain(error: Exception, *, name: str) -> StoreError:
    """Tell what an error means. What the server said is not repeated: it may be anything."""
    unsent = isinstance(error, Unsent)
    while isinstance(error.__cause__, RedisError):  # what happens while connecting is wrapped, on a unix socket twice
        error = error.__cause__
    code = _code_of(error)
    if isinstance(error, _REFUSED):
        return StoreUnavailable(f"The session store {name} refuses the user or the password. Check its URL.")
    if isinstance(error, BusyLoadingError):
        return StoreUnavailable(f"The session store {name} is still reading its data. Try again in a moment.")
    if code == "WRONGTYPE":
        return StoreCorrupt("The key of a session holds something else than text; it is left as it is.")
    if code in {"OOM", "MISCONF"}:
        return StoreFull(f"The session store {name} has no room left ('{code}'). Give it more memory or a larger disk.")
    if code == "READONLY":
        return StoreUnavailable(f"The session store {name} is a replica that cannot be written. Set the URL of the primary.")
    if unsent:
        return StoreUnavailable(f"The session store {name} cannot be reached. Check its URL, and that it is running.")
    if isinstance(error, Lost):
        return StoreUnavailable(f"The session store {name} closed the connection before it answered. Try again.")
    return StoreUnavailable(f"The session store {name} cannot do what is needed ('{code or type(error).__name__}').")
