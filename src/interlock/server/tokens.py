"""JSON web tokens: who signed them, for whom, and until when.

The keys are a key of the settings, a file, or those that the provider of identities publishes. Published keys are fetched when a token
names one that is not known, and not more often than every half minute, so keys can be changed while the server runs.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from interlock.errors import SettingsInvalid
from interlock.extras import require
from interlock.runtime.observe import LOGGER
from interlock.server.request_errors import NotAuthenticated, Overloaded
from interlock.settings import Settings

__all__ = ["TokenVerifier", "open_tokens"]

_TIMEOUT_S = 5.0
_PAUSE_S = 30.0
"""How long keys are not fetched again after the last time."""
_FRESH_S = 3600.0
"""How long fetched keys are used: a key that the provider has withdrawn is refused after this time."""
_MAX_BYTES = 1_000_000


class _Keys(Protocol):
    async def find(self, name: str | None) -> Any: ...


class TokenVerifier:
    """Verifies tokens."""

    def __init__(self, settings: Settings, keys: _Keys) -> None:
        self._settings, self._keys = settings, keys

    async def claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token. Raises NotAuthenticated, or Overloaded where its key cannot be fetched."""
        import jwt  # noqa: PLC0415 - an extra

        try:
            key = await self._keys.find(jwt.get_unverified_header(token).get("kid"))
            if key is None:
                raise NotAuthenticated
            return jwt.decode(
                token,
                key,
                algorithms=list(self._settings.jwt_algorithms),
                audience=self._settings.jwt_audience,
                issuer=self._settings.jwt_issuer,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise NotAuthenticated from error


class _GivenKeys:
    """Keys of the settings. The one without a name verifies tokens that name no other one."""

    def __init__(self, keys: Mapping[str | None, Any]) -> None:
        self._keys = keys

    async def find(self, name: str | None) -> Any:
        return self._keys.get(name, self._keys.get(None))


class _PublishedKeys:
    """The keys at a URL, or those of an issuer whose description says where they are."""

    def __init__(self, url: str | None, issuer: str) -> None:
        self._url, self._issuer = url, issuer
        self._keys: dict[str | None, Any] = {}
        self._read_at = self._asked_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, name: str | None) -> Any:
        if name not in self._keys or self._is_old:
            async with self._fetching:
                now = time.monotonic()
                if (name not in self._keys or self._is_old) and now - self._asked_at >= _PAUSE_S:
                    self._asked_at = now
                    await self._fetch()
            if self._is_old:
                raise Overloaded("The keys of tokens cannot be fetched.")
        return self._keys.get(name)

    @property
    def _is_old(self) -> bool:
        return time.monotonic() - self._read_at >= _FRESH_S

    async def _fetch(self) -> None:
        import jwt  # noqa: PLC0415 - an extra

        try:
            found = jwt.PyJWKSet.from_dict(await asyncio.to_thread(self._published))
        except (OSError, HTTPException, ValueError, LookupError, TypeError, jwt.PyJWTError) as error:
            LOGGER.warning("the keys of tokens cannot be fetched", extra={"fields": {"error": type(error).__name__}})
            return
        self._keys = {key.key_id: key.key for key in found.keys}
        self._read_at = time.monotonic()

    def _published(self) -> dict[str, Any]:
        if self._url is None:
            described = _read_json(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
            if described["issuer"] != self._issuer:
                raise ValueError
            return _read_json(described["jwks_uri"])
        return _read_json(self._url)


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: it could lead to where the keys are not safe."""

    def redirect_request(self, *args: Any, **options: Any) -> None:
        del args, options


def _read_json(url: str) -> dict[str, Any]:
    """Return the JSON object at a URL."""
    if not _is_safe(url):
        raise ValueError
    with build_opener(_NoRedirects).open(url, timeout=_TIMEOUT_S) as response:
        found: object = json.loads(response.read(_MAX_BYTES))
    if not isinstance(found, dict):
        raise TypeError
    return cast("dict[str, Any]", found)


def _is_safe(url: str) -> bool:
    """Return whether what is read from a URL is what its server has sent: by HTTPS, or on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return True
    try:
        return parts.scheme == "http" and ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


def open_tokens(settings: Settings) -> TokenVerifier | None:
    """Return what verifies tokens; None where tokens are not configured. Raises SettingsInvalid."""
    if settings.jwt_key is None and settings.jwt_jwks is None and settings.jwt_issuer is None:
        return None
    require("jwt", extra="jwt", what="Support for JSON web tokens")
    if settings.jwt_audience is None or settings.jwt_issuer is None:
        raise SettingsInvalid("Tokens need an issuer and an audience. Fix: set jwt_issuer and jwt_audience.")
    is_file = settings.jwt_jwks is not None and "://" not in settings.jwt_jwks
    if settings.jwt_key is not None or is_file:
        return TokenVerifier(settings, _GivenKeys(_given(settings)))
    if not _is_safe(settings.jwt_jwks or settings.jwt_issuer):
        raise SettingsInvalid("The keys of tokens are fetched by HTTPS only. Fix: set jwt_jwks to a file or an https URL.")
    return TokenVerifier(settings, _PublishedKeys(settings.jwt_jwks, settings.jwt_issuer))


def _given(settings: Settings) -> dict[str | None, Any]:
    import jwt  # noqa: PLC0415 - an extra

    keys: dict[str | None, Any] = {}
    try:
        if settings.jwt_jwks is not None:
            found = jwt.PyJWKSet.from_json(Path(settings.jwt_jwks).read_text("utf-8"))
            keys = {key.key_id: key.key for key in found.keys}
        if settings.jwt_key is not None:
            keys[None] = settings.jwt_key.get_secret_value()
    except (OSError, ValueError, jwt.PyJWTError) as error:
        raise SettingsInvalid(f"The keys of tokens cannot be read: {type(error).__name__}.") from error
    return keys
