"""What every route refuses: by a generator over all routes of the server, so that a new route is tested when it is added."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import httpx
import jwt
import pytest
from pydantic import SecretStr

from interlock.runtime.turns import TurnStore
from interlock.server.boundary import host_of
from interlock.server.problems import MEDIA_TYPE
from interlock.server.request_errors import TooManyRequests
from interlock.server.routing import Access, ServerRoute
from interlock.server.token_limits import TokenLimits
from tests.server.serving import Running, serving
from tests.server.teller import agent as teller
from tests.server.teller import held_back

CODES = {
    401: {"not_authenticated"},
    403: {"not_allowed", "origin_refused"},
    404: {"not_found", "turn_unknown", "session_unknown", "agent_unknown", "role_unknown"},
    405: {"method_refused"},
    413: {"input_too_large"},
    421: {"host_refused"},
    422: {"input_schema"},
    429: {"too_many_requests"},
}
SIGNING = "0123456789abcdef" * 2


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path) as running:
        yield running


def filled(route: ServerRoute, **values: str) -> str:
    """Return the path of a route with values in it; one that names none of them gets a name that does not exist."""
    path = route.path
    for name in route.param_convertors:
        path = path.replace("{" + name + "}", values.get(name, "missing"))
    return path


async def call(client: httpx.AsyncClient, route: ServerRoute, **values: str) -> httpx.Response:
    body = {"agent": "parcels", "input": "x", "text": "x", "key": "x"}
    shape = None if route.operation is None else route.operation.body
    given = {name: value for name, value in body.items() if shape is not None and name in shape.model_fields}
    headers = {} if shape is None else {"content-type": "application/json"}
    return await client.request(route.method, filled(route, **values), content=json.dumps(given) if given else None, headers=headers)


def is_problem(response: httpx.Response, status: int) -> bool:
    """Return whether a response is an error with this status, in Interlock's own form or in OpenAI's."""
    if response.request.url.path.startswith("/v1/"):
        return response.status_code == status and response.json()["error"].keys() == {"message", "type", "param", "code"}
    return (
        response.status_code == status
        and response.headers["content-type"] == MEDIA_TYPE
        and response.json().keys() == {"type", "title", "status", "detail", "code"}
        and response.json()["status"] == status
        and response.json()["code"] in CODES[status]
    )


async def test_every_route_but_the_open_ones_refuses_a_caller_without_a_valid_key(running: Running):
    await running.key("first")
    open_routes = {(route.method, route.path) for route in running.server.routes if route.access is Access.OPEN}
    probes = {("GET", path) for path in ("/healthz", "/readyz", "/ok", "/info", "/openapi.json", "/", "/page/{name}")}
    assert open_routes == {*probes, ("POST", "/session"), ("DELETE", "/session")}
    for client in (running.client(), running.client("ilk_00000000_wrong"), running.client(cookie="interlock_session=e30.00")):
        for route in running.server.routes:
            if route.access is not Access.OPEN:
                response = await call(client, route)
                assert is_problem(response, 401), (route.name, response.status_code)
                assert response.headers["www-authenticate"] == "Bearer"
    for authorization in ("Basic eDp5", "Bearer", "Token x"):
        assert is_problem(await running.client(authorization=authorization).get("/api/me"), 401)


async def test_routes_of_operators_refuse_others(running: Running):
    client = running.client(await running.key("plain", roles=("user",)))
    operator = running.client(await running.key("ops", roles=("operator",)))
    routes = [route for route in running.server.routes if route.access is Access.OPERATOR]
    assert len(routes) >= 4
    for route in routes:
        assert is_problem(await call(client, route), 403), route.name
        assert (await call(operator, route)).status_code in {200, 404}, route.name


async def test_things_of_another_tenant_are_not_found_exactly_like_those_that_do_not_exist(running: Running):
    owner = running.client(await running.key("a", tenant="one", roles=("user", "operator")))
    other = running.client(await running.key("b", tenant="two", roles=("user", "operator")))
    turn = (await owner.post("/api/turns?wait=20", json={"agent": "parcels", "input": "ask", "session": "s"})).json()
    assert turn["status"] == "waiting"
    owned = {"turn": turn["turn"], "session": "s", "agent": "parcels"}
    missing = {"turn": "f" * 32, "session": "s2", "agent": "parcels"}
    routes = [route for route in running.server.routes if {"turn", "session"} & route.param_convertors.keys()]
    assert len(routes) >= 10
    for route in routes:
        seen, unseen = await call(other, route, **owned), await call(other, route, **missing)
        assert is_problem(seen, 404), (route.name, seen.text)
        assert _without(seen, owned) == _without(unseen, missing), route.name
    for path in ("/api/turns", "/api/sessions", "/api/waiting", "/api/turns?session=s&agent=parcels", "/api/turns?status=open"):
        assert turn["turn"] not in (await other.get(path)).text
    before = await other.get("/api/turns", params={"before": turn["turn"]})
    assert is_problem(before, 404)
    assert (await owner.get(f"/api/turns/{turn['turn']}")).json()["status"] == "waiting"


def _without(response: httpx.Response, names: dict[str, str]) -> Any:
    text = response.text
    for name in ("turn", "session"):
        text = text.replace(f"'{names[name]}'", "")
    headers = {name: value for name, value in response.headers.items() if name not in {"date", "content-length"}}
    return response.status_code, headers, text


async def test_sessions_of_one_name_share_no_state_between_tenants(running: Running):
    for tenant in ("one", "two"):
        client = running.client(await running.key("k", tenant=tenant, roles=("user",)))
        for text in ("x", tenant):
            turn = (await client.post("/api/turns?wait=20", json={"agent": "notes", "input": text, "session": "diary"})).json()
        assert turn["output"] == ["x", tenant]
        assert turn["principal"] == f"{tenant}/k"


async def test_idempotency_keys_belong_to_a_tenant(running: Running):
    turns: set[str] = set()
    for tenant in ("one", "two"):
        client = running.client(await running.key("k", tenant=tenant), **{"idempotency-key": "same"})
        turns.add((await client.post("/api/turns?wait=20", json={"agent": "parcels", "input": tenant})).json()["turn"])
    assert len(turns) == 2


async def test_a_role_decides_which_graphs_may_be_entered_and_seen(running: Running):
    admin = running.client(await running.key("admin", roles=("admin", "user")))
    user = running.client(await running.key("user", roles=("user",)))
    neither = running.client(await running.key("neither"))
    body = {"agent": "notes", "input": "x", "session": "s"}
    assert is_problem(await admin.post("/api/turns", json=body), 422)  # it has both roles, and names none
    secret = (await admin.post("/api/turns?wait=20", json=body | {"role": "admin"})).json()
    assert (secret["status"], secret["graph"]) == ("success", "notes.admin")
    assert (await user.post("/api/turns?wait=20", json=body | {"session": "u"})).json()["graph"] == "notes.user"
    refused, unknown = (
        await user.post("/api/turns", json=body | {"role": "admin"}),
        await user.post("/api/turns", json=body | {"role": "no"}),
    )
    assert is_problem(refused, 404)
    assert refused.text.replace("admin", "") == unknown.text.replace("'no'", "''")
    assert is_problem(await neither.post("/api/turns", json=body), 404)
    assert [one["agent"] for one in (await neither.get("/api/agents")).json()["agents"]] == ["parcels", "sam"]
    assert [graph["name"] for graph in (await user.get("/api/agents/notes")).json()["graphs"]] == ["notes.user"]
    for path in (f"/api/turns/{secret['turn']}", f"/api/turns/{secret['turn']}/events", "/api/sessions/notes/s"):
        assert is_problem(await user.get(path), 404), path
    assert secret["turn"] not in (await user.get("/api/turns")).text


async def test_a_revoked_key_is_refused_and_the_server_stays_closed(running: Running):
    key = await running.key("first")
    client = running.client(key)
    assert (await client.get("/api/me")).json()["name"] == "first"
    page = running.client()
    await page.post("/session", json={"key": key})
    assert (await page.get("/api/me")).json()["name"] == "first"
    (stored,) = await running.server.keys.all()
    assert stored.hash not in key
    assert key not in repr(stored)
    await running.server.keys.revoke(stored.id)
    running.server.auth.forget()
    for caller in (client, page, running.client()):
        assert is_problem(await caller.get("/api/me"), 401)


async def test_a_key_has_limits(running: Running):
    body = {"agent": "parcels", "input": "wait 30"}
    once = running.client(await running.key("once", turns_at_once=1))
    first = await once.post("/api/turns", json=body)
    refused = await once.post("/api/turns", json=body)
    assert first.status_code == 202
    assert is_problem(refused, 429)
    assert int(refused.headers["retry-after"]) >= 1
    await once.post(f"/api/turns/{first.json()['turn']}/cancel")
    await once.get(f"/api/turns/{first.json()['turn']}?wait=20")
    assert (await once.post("/api/turns", json=body | {"input": "now"})).status_code == 202
    slow = running.client(await running.key("slow", turns_a_minute=2))
    statuses = [(await slow.post("/api/turns", json=body | {"input": "now"})).status_code for _ in range(3)]
    assert statuses == [202, 202, 429]
    small = running.client(await running.key("small", body_bytes=100))
    assert is_problem(await small.post("/api/turns", json=body | {"input": "x" * 100}), 413)


class Later:
    """A turn store a day later."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def now(self) -> float:
        return await self._store.now() + 24 * 60 * 60


async def test_tokens_of_a_day_are_counted_from_the_stored_turns_and_end_with_429(tmp_path: Path):
    body, stored = {"agent": "teller", "input": "three words here"}, f"sqlite:{tmp_path}/turns.db"
    # Each turn has seven tokens. The second server finds the turns of the first one.
    for expected in ([200, 200, 200, 429], [429]):
        async with serving(tmp_path, agents=(teller,), turn_url=SecretStr(stored)) as running:
            client = running.client(await running.key("ada", tokens_a_day=15))
            answers = [await client.post("/api/turns?wait=20", json=body) for _ in expected]
            assert [answer.status_code for answer in answers] == expected
            assert is_problem(answers[-1], 429)
            assert "tokens a day" in answers[-1].json()["detail"]
            assert 24 * 3600 - 600 < int(answers[-1].headers["retry-after"]) <= 24 * 3600
            other = running.client(await running.key("eve", tenant="one", tokens_a_day=1000))
            assert (await other.post("/api/turns?wait=20", json=body)).status_code == 200
            store, limits = running.app.turns.store, TokenLimits()
            with pytest.raises(TooManyRequests):
                await limits.check(store, "", "ada", 15)
            await limits.check(cast("TurnStore", Later(store)), "", "ada", 15)


async def test_a_turn_that_runs_is_counted_when_it_has_ended(tmp_path: Path):
    async with serving(tmp_path, agents=(teller,)) as running:
        client = running.client(await running.key("ada", tokens_a_day=5))
        body = {"agent": "teller", "input": "three words here"}
        with held_back():
            turn = (await client.post("/api/turns", json=body)).json()["turn"]
            assert (await client.post("/api/turns", json=body)).status_code == 202
        assert (await client.get(f"/api/turns/{turn}?wait=20")).json()["status"] == "success"
        assert (await client.post("/api/turns", json=body)).status_code == 429


async def test_a_body_over_the_limit_is_refused_before_the_rest_of_it_was_sent(tmp_path: Path):
    async with serving(tmp_path, server_body_bytes=1000) as running:
        assert is_problem(await running.client().post("/api/turns", content=b"x" * 2000), 413)
        host, port = running.process.servers[0].sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST /api/turns HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"3e9\r\n" + b"x" * 1001 + b"\r\n")  # the chunk that would end the body does not come
        answer = await asyncio.wait_for(reader.read(), 20)  # and the server closes the connection
        assert answer.startswith(b"HTTP/1.1 413")
        writer.close()


async def test_a_full_queue_is_503_with_a_time_to_come_back(tmp_path: Path):
    async with serving(tmp_path, concurrency=0, server_queue=3) as running:
        client = running.client()
        responses = [await client.post("/api/turns", json={"agent": "parcels", "input": "x"}) for _ in range(4)]
        assert [response.status_code for response in responses] == [202, 202, 202, 503]
        assert responses[-1].json()["code"] == "overloaded"
        assert int(responses[-1].headers["retry-after"]) >= 1


async def test_hosts_and_origins_of_others_are_refused(running: Running):
    address = running.process.address
    client = running.client()
    for host in ("evil.example", "evil.example:80", "", "localhost.evil.example", "[::2]"):
        assert is_problem(await client.get("/api/me", headers={"host": host}), 421), host
    body = {"agent": "parcels", "input": "now"}
    for origin in ("https://evil.example", "null", address.replace("127.0.0.1", "127.0.0.1.evil.example"), "http://127.0.0.1:1"):
        assert is_problem(await client.post("/api/turns", json=body, headers={"origin": origin}), 403), origin
    assert is_problem(await client.post("/api/turns", json=body, headers={"sec-fetch-site": "cross-site"}), 403)
    assert (await client.post("/api/turns", json=body, headers={"origin": address})).status_code == 202
    preflight = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    assert is_problem(await client.options("/api/turns", headers=preflight), 403)
    response = await client.get("/api/me", headers={"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in response.headers


async def test_pages_of_a_configured_origin_may_call(tmp_path: Path):
    async with serving(tmp_path, server_origins=("https://chat.example",)) as running:
        client = running.client(origin="https://chat.example")
        preflight = await client.options("/api/turns", headers={"access-control-request-method": "POST"})
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, "https://chat.example")
        response = await client.post("/api/turns", json={"agent": "parcels", "input": "now"})
        assert response.headers["access-control-allow-origin"] == "https://chat.example"


async def test_the_page_signs_in_by_a_key_and_its_cookie_is_not_usable_by_other_sites(running: Running):
    key = await running.key("eve", roles=("user",))
    client, address = running.client(), running.process.address
    assert is_problem(await client.post("/session", json={"key": "wrong"}), 401)
    assert is_problem(await client.post("/session", json={"key": key}, headers={"origin": "https://evil.example"}), 403)
    signed = await client.post("/session", json={"key": key}, headers={"origin": address})
    cookie = signed.headers["set-cookie"]
    assert key not in cookie
    assert all(part in cookie.lower() for part in ("httponly", "samesite=strict", "path=/"))
    assert (await client.get("/api/me")).json() == {"name": "eve", "tenant": "", "roles": ["user"], "is_local": False}
    body = {"agent": "parcels", "input": "now"}
    assert (await client.post("/api/turns", json=body, headers={"origin": address})).status_code == 202
    assert is_problem(await client.post("/api/turns", json=body, headers={"origin": "https://evil.example"}), 403)
    value = client.cookies["interlock_session"]
    forged = running.client(cookie=f"interlock_session={value[:-1]}{'0' if value[-1] != '0' else '1'}")
    assert is_problem(await forged.get("/api/me"), 401)
    assert (await client.delete("/session")).status_code == 204
    assert is_problem(await client.get("/api/me"), 401)


async def test_tokens_are_accepted_from_their_issuer_only(tmp_path: Path):
    given: dict[str, Any] = {
        "jwt_key": SecretStr(SIGNING),
        "jwt_issuer": "https://id.example",
        "jwt_audience": "interlock",
        "jwt_algorithms": ("HS256",),
    }
    claims = {"sub": "eve", "tenant": "one", "roles": ["user"], "iss": "https://id.example", "aud": "interlock", "exp": time.time() + 600}
    async with serving(tmp_path, **given) as running:
        token = jwt.encode(claims, SIGNING, "HS256")
        me = (await running.client(token).get("/api/me")).json()
        assert me == {"name": "eve", "tenant": "one", "roles": ["user"], "is_local": False}
        changed: list[dict[str, Any]] = [
            {"iss": "x"},
            {"aud": "x"},
            {"exp": time.time() - 600},
            {"sub": ""},
            {"tenant": "a/b"},
            {"roles": 3},
        ]
        for change in changed:
            assert is_problem(await running.client(jwt.encode(claims | change, SIGNING, "HS256")).get("/api/me"), 401), change
        unsigned = jwt.encode(claims, "", "none")
        other = jwt.encode(claims, "x" * 32, "HS256")
        for bad in (unsigned, other, token[:-2], "a.b.c"):
            assert is_problem(await running.client(bad).get("/api/me"), 401)
        assert is_problem(await running.client().get("/api/me"), 401)


async def test_responses_have_headers_for_browsers_and_tell_nothing_of_the_server(running: Running):
    for path in ("/api/me", "/missing", "/api/turns/missing", "/openapi.json"):
        headers = (await running.client().get(path)).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


async def test_addresses_and_methods_that_do_not_exist_are_refused_by_code(running: Running):
    client = running.client()
    for path in ("/page", "/api", "/api/turns/", "/api/agents/none", "/api/turns/none"):
        assert is_problem(await client.get(path), 404), path
    refused = await client.put("/api/turns")
    assert is_problem(refused, 405)
    assert "allow" in refused.headers


@pytest.mark.parametrize(("given", "host"), [("A.b:80", "a.b"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), (" x ", "x"), (":80", "")])
def test_a_host_is_compared_without_its_port(given: str, host: str):
    assert host_of(given) == host
