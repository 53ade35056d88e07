"""Tokens whose keys the provider of identities publishes, on a real port."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from interlock import Settings
from interlock.errors import SettingsInvalid
from interlock.server import tokens
from interlock.server.tokens import open_tokens
from tests.server.serving import serving

KEYS = {name: rsa.generate_private_key(public_exponent=65537, key_size=2048) for name in ("one", "two")}


@dataclass
class Provider:
    """A provider of identities on a port of this machine."""

    published: tuple[str, ...] = ("one",)
    answers: dict[str, tuple[int, dict[str, str], Any]] = field(default_factory=dict[str, tuple[int, dict[str, str], Any]])
    """What it answers instead, by path."""
    asked: list[str] = field(default_factory=list[str])
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
        self.asked.append(path)
        status, headers, body = self.answers.get(path, (200, {}, self._usual(path)))
        text = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(text)}", "Connection: close", *(f"{n}: {v}" for n, v in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + text)
        await writer.drain()
        writer.close()

    def _usual(self, path: str) -> Any:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        public: list[tuple[str, Any]] = [(name, RSAAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True)) for name in self.published]
        return {"keys": [{**key, "kid": name, "alg": "RS256", "use": "sig"} for name, key in public]}

    def token(self, key: str, **claims: Any) -> str:
        given = {"sub": "eve", "iss": self.url, "aud": "interlock", "exp": time.time() + 600}
        return jwt.encode(given | claims, KEYS[key], "RS256", headers={"kid": key})


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Provider]:
    monkeypatch.setattr(tokens, "_PAUSE_S", 0.0)
    made = Provider()
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield made


async def statuses(folder: Path, provider: Provider, *given: str, **settings: Any) -> list[int]:
    async with serving(folder, jwt_issuer=provider.url, jwt_audience="interlock", **settings) as running:
        return [(await running.client(token).get("/api/me")).status_code for token in given]


async def test_the_keys_of_an_issuer_are_found_by_its_description(tmp_path: Path, provider: Provider):
    other_issuer = provider.token("one", iss="https://other.example")
    forged = jwt.encode({"sub": "eve", "iss": provider.url, "aud": "interlock", "exp": 9e9}, KEYS["two"], "RS256", headers={"kid": "one"})
    given = (provider.token("one"), provider.token("one"), other_issuer, forged, "a.b.c")
    assert await statuses(tmp_path, provider, *given) == [200, 200, 401, 401, 401]
    assert provider.asked == ["/.well-known/openid-configuration", "/keys"]


async def test_keys_are_fetched_from_a_url_and_again_when_the_provider_changes_them(tmp_path: Path, provider: Provider):
    settings: dict[str, Any] = {"jwt_issuer": provider.url, "jwt_audience": "interlock", "jwt_jwks": f"{provider.url}/keys"}
    async with serving(tmp_path, **settings) as running:
        assert (await running.client(provider.token("one")).get("/api/me")).status_code == 200
        assert (await running.client(provider.token("two")).get("/api/me")).status_code == 401
        provider.published = ("two",)
        assert (await running.client(provider.token("two")).get("/api/me")).status_code == 200
        # The old key is not published any more.
        assert (await running.client(provider.token("one")).get("/api/me")).status_code == 401
    assert set(provider.asked) == {"/keys"}


async def test_tokens_with_unknown_keys_do_not_make_the_server_ask_all_the_time(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tokens, "_PAUSE_S", 30.0)
    given = [provider.token("one"), *[provider.token("two")] * 20, provider.token("one")]
    assert await statuses(tmp_path, provider, *given, jwt_jwks=f"{provider.url}/keys") == [200, *[401] * 20, 200]
    assert provider.asked == ["/keys"]


_DESCRIPTION = "/.well-known/openid-configuration"
UNUSABLE: list[tuple[str, Any]] = [
    ("/keys", (500, {}, {})),
    ("/keys", (302, {"Location": "/other"}, {})),
    ("/keys", (200, {}, ["no object"])),
    ("/keys", (200, {}, {"keys": []})),
    (_DESCRIPTION, (200, {}, {"issuer": "https://other.example", "jwks_uri": "http://127.0.0.1/keys"})),
    (_DESCRIPTION, (200, {}, {"issuer": "", "jwks_uri": "http://keys.example/keys"})),
]


@pytest.mark.parametrize(("path", "answer"), UNUSABLE, ids=str)
async def test_a_provider_that_cannot_be_used_is_an_error_that_may_pass(tmp_path: Path, provider: Provider, path: str, answer: Any):
    provider.answers[path] = answer
    async with serving(tmp_path, jwt_issuer=provider.url, jwt_audience="interlock") as running:
        refused = await running.client(provider.token("one")).get("/api/me")
        assert (refused.status_code, refused.json()["code"]) == (503, "overloaded")
        assert int(refused.headers["retry-after"]) > 0
        del provider.answers[path]
        assert (await running.client(provider.token("one")).get("/api/me")).status_code == 200
    assert "/other" not in provider.asked


async def test_keys_that_were_fetched_long_ago_are_fetched_again_or_not_used(
    tmp_path: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tokens, "_FRESH_S", 0.3)
    async with serving(tmp_path, jwt_issuer=provider.url, jwt_audience="interlock") as running:
        client = running.client(provider.token("one"))
        assert (await client.get("/api/me")).status_code == 200
        provider.answers["/keys"] = (500, {}, {})
        await asyncio.sleep(0.4)
        assert (await client.get("/api/me")).status_code == 503


@pytest.mark.parametrize(
    "given",
    [
        {"jwt_issuer": "https://id.example"},
        {"jwt_jwks": "http://id.example/keys", "jwt_issuer": "https://id.example", "jwt_audience": "a"},
        {"jwt_issuer": "http://id.example", "jwt_audience": "a"},
        {"jwt_jwks": "missing.json", "jwt_issuer": "https://id.example", "jwt_audience": "a"},
    ],
    ids=str,
)
def test_settings_by_which_no_token_could_be_trusted_are_refused(given: dict[str, Any]):
    with pytest.raises(SettingsInvalid):
        open_tokens(Settings.isolated(**given))
