"""Who calls: by an API key, a JSON web token or a session cookie. Without keys and tokens, everyone on this machine is `local`."""

from __future__ import annotations

import base64
import hmac
import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.requests import HTTPConnection

from interlock.server.request_errors import NotAuthenticated
from interlock.server.tokens import open_tokens
from interlock.settings import Settings
from interlock.stores.keys import ApiKey, KeyStore, hash_of

__all__ = ["COOKIE", "LOCAL", "OPERATOR", "Authenticator", "Principal"]

COOKIE = "interlock_session"
OPERATOR = "operator"
"""The role that may read records, metrics and workers."""

_FRESH_S = 2.0
"""How long the list of keys may be old: a revoked key is refused after this time."""
_COOKIE_S = 12 * 60 * 60
_NAME = re.compile(r"[\x21-\x7e]{1,255}")
"""What a `sub` may be: OpenID Connect allows up to 255 ASCII characters."""
_TENANT = re.compile(r"[A-Za-z0-9._@-]{0,60}")


@dataclass(frozen=True, kw_only=True)
class Principal:
    """Who calls. A tenant sees only its own sessions and turns; a role decides which graphs may be entered."""

    name: str
    tenant: str = ""
    roles: frozenset[str] = frozenset()
    key: ApiKey | None = None
    """The API key, which may have limits."""
    until: int | None = None
    """When the token expires, in seconds since 1970."""
    is_local: bool = False
    """Whether the server has no keys, so that every caller on this machine may do everything."""

    @property
    def identity(self) -> str | None:
        """The principal of turns that the caller submits: None for a local caller, whose input may name one."""
        if self.is_local:
            return None
        # A name cannot be read as that of a tenant's caller.
        name = self.name.replace("%", "%25").replace("/", "%2F")
        return f"{self.tenant}/{name}" if self.tenant else name

    def has(self, role: str | None) -> bool:
        """Return whether the caller has a role. Every caller may enter a graph that needs none."""
        return self.is_local or role is None or role in self.roles


LOCAL = Principal(name="local", is_local=True)


@dataclass
class _Keys:
    """The keys as they were last read."""

    by_hash: Mapping[str, ApiKey] = field(default_factory=dict[str, ApiKey])
    by_id: Mapping[str, ApiKey] = field(default_factory=dict[str, ApiKey])
    read_at: float = float("-inf")


class Authenticator:
    """Finds the principal of a request."""

    def __init__(self, settings: Settings, keys: KeyStore) -> None:
        self._store = keys
        self._keys = _Keys()
        secret = settings.server_secret
        self._secret = os.urandom(32) if secret is None else secret.get_secret_value().encode()
        self._tokens = open_tokens(settings)
        self._tenant_claim, self._roles_claim = settings.jwt_tenant, settings.jwt_roles

    async def is_open(self) -> bool:
        """Return whether neither keys nor tokens are configured. Keys that were revoked are still configured."""
        return self._tokens is None and not (await self._read()).by_id

    async def authenticate(self, connection: HTTPConnection) -> tuple[Principal, bool]:
        """Return the principal, and whether it was found by a cookie. Raises NotAuthenticated."""
        if await self.is_open():
            # Clients that cannot be used without a key send one, whatever it is.
            return LOCAL, True
        given = _credential(connection)
        if given is not None:
            return await self.by_credential(given), False
        cookie = connection.cookies.get(COOKIE)
        if cookie is None:
            raise NotAuthenticated
        return await self._by_cookie(cookie), True

    async def by_credential(self, given: str) -> Principal:
        """Return the principal of an API key or a token."""
        keys, hashed = await self._read(), hash_of(given)
        found = keys.by_hash.get(hashed)
        if found is not None and hmac.compare_digest(found.hash, hashed):
            return _of_key(found)
        if self._tokens is not None and given.count(".") == 2:  # noqa: PLR2004 - the parts of a token
            return self._of_claims(await self._tokens.claims(given))
        raise NotAuthenticated

    def cookie(self, principal: Principal) -> tuple[str, int]:
        """Return the value of a session cookie for a principal, and how many seconds it is valid."""
        now = int(time.time())
        until = now + _COOKIE_S if principal.until is None else min(principal.until, now + _COOKIE_S)
        data: dict[str, Any] = {"until": until}
        if principal.key is not None:
            data["key"] = principal.key.id
        else:
            data |= {"name": principal.name, "tenant": principal.tenant, "roles": sorted(principal.roles)}
        body = base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")
        return f"{body}.{self._signature(body)}", until - now

    async def _by_cookie(self, cookie: str) -> Principal:
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(self._signature(body).encode(), signature.encode("utf-8", "replace")):
            raise NotAuthenticated
        data = cast("dict[str, Any]", json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))
        if data["until"] < time.time():
            raise NotAuthenticated
        if "key" not in data:
            return Principal(name=data["name"], tenant=data["tenant"], roles=frozenset(data["roles"]))
        key = (await self._read()).by_id.get(data["key"])
        if key is None:
            raise NotAuthenticated
        return _of_key(key)

    def _signature(self, body: str) -> str:
        return hmac.new(self._secret, body.encode("utf-8", "replace"), "sha256").hexdigest()

    def _of_claims(self, claims: Mapping[str, Any]) -> Principal:
        name, tenant = claims.get("sub"), claims.get(self._tenant_claim, "")
        roles = claims.get(self._roles_claim, ())
        roles = roles.split() if isinstance(roles, str) else roles
        is_named = isinstance(name, str) and isinstance(tenant, str) and _NAME.fullmatch(name) and _TENANT.fullmatch(tenant)
        if not is_named or not isinstance(roles, list | tuple) or not all(isinstance(role, str) for role in cast("list[Any]", roles)):
            raise NotAuthenticated
        return Principal(name=cast("str", name), tenant=tenant, roles=frozenset(cast("list[str]", roles)), until=int(claims["exp"]))

    def forget(self) -> None:
        """Read the keys again at the next request."""
        self._keys = _Keys()

    async def _read(self) -> _Keys:
        if time.monotonic() - self._keys.read_at >= _FRESH_S:
            found = await self._store.all()
            self._keys = _Keys(
                {key.hash: key for key in found if not key.is_revoked}, {key.id: key for key in found}, read_at=time.monotonic()
            )
        return self._keys


def _of_key(key: ApiKey) -> Principal:
    if key.is_revoked:
        raise NotAuthenticated
    return Principal(name=key.name, tenant=key.tenant, roles=frozenset(key.roles), key=key)


def _credential(connection: HTTPConnection) -> str | None:
    """Return the key or the token of a request. An `Authorization` of another kind is refused, not ignored."""
    authorization, key = connection.headers.get("authorization"), connection.headers.get("x-api-key")
    if authorization is None:
        return key
    kind, _, given = authorization.partition(" ")
    if kind.lower() != "bearer" or not given.strip():
        raise NotAuthenticated
    return given.strip()
