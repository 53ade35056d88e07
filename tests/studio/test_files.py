"""The files of the page: small, served with a strict policy, and part of the wheel."""

from __future__ import annotations

import re
import zipfile
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest_asyncio

from interlock.server import pages
from tests.server.serving import Running, serving
from tests.support.environments import build_wheel

FOLDER = Path(pages.__file__).parent / "page"
MOST_BYTES = 150_000


@pytest_asyncio.fixture(loop_scope="session")
async def running(tmp_path: Path) -> AsyncGenerator[Running]:
    async with serving(tmp_path) as running:
        yield running


def test_all_files_together_are_small():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= MOST_BYTES


def test_no_module_uses_a_way_to_make_elements_or_code_of_text():
    sinks = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setHTML|srcdoc|createContextualFragment"
    )
    found = [file.name for file in FOLDER.glob("*.js") if sinks.search(file.read_text("utf-8"))]
    assert found == []


def test_no_file_names_another_host():
    hosts = [host for file in FOLDER.iterdir() for host in re.findall(r"https?://[^\s\"'<>]+", file.read_text("utf-8"))]
    # The namespace of SVG is a name, not an address.
    assert set(hosts) == {"http://www.w3.org/2000/svg"}


def test_modules_are_short():
    long = {file.name: lines for file in FOLDER.glob("*.js") if (lines := file.read_text("utf-8").count("\n")) > 260}
    assert long == {}


async def test_every_file_is_served_with_its_type_and_the_policy(running: Running):
    client = running.client()
    for file in FOLDER.iterdir():
        response = await client.get(f"/page/{file.name}")
        assert response.status_code == 200
        assert response.content == file.read_bytes()
        assert response.headers["content-security-policy"] == pages.POLICY
        assert response.headers["x-content-type-options"] == "nosniff"
        kept = await client.get(f"/page/{file.name}", headers={"if-none-match": response.headers["etag"]})
        assert (kept.status_code, kept.content) == (304, b"")
        assert kept.headers["vary"] == response.headers["vary"] == "Accept-Encoding"
    index = await client.get("/")
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    assert index.content == (FOLDER / "index.html").read_bytes()


async def test_each_encoding_of_a_file_has_its_own_etag(running: Running):
    client = running.client()
    plain = await client.get("/page/style.css", headers={"accept-encoding": "identity"})
    compressed = await client.get("/page/style.css", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert compressed.headers["content-encoding"] == "gzip"
    assert compressed.content == plain.content
    assert int(compressed.headers["content-length"]) * 3 < int(plain.headers["content-length"])
    assert compressed.headers["etag"] != plain.headers["etag"]
    # A cache that has one encoding must not be told that it has the other.
    asked = {"if-none-match": compressed.headers["etag"], "accept-encoding": "identity"}
    assert (await client.get("/page/style.css", headers=asked)).status_code == 200
    known = {"if-none-match": f'"other", W/{compressed.headers["etag"]}', "accept-encoding": "gzip"}
    kept = await client.get("/page/style.css", headers=known)
    assert (kept.status_code, kept.headers["etag"]) == (304, compressed.headers["etag"])
    assert "content-encoding" not in kept.headers


async def test_json_is_compressed_and_an_event_stream_is_not(running: Running):
    client = running.client()
    agent = await client.get("/api/agents/sam")
    assert (agent.headers["content-encoding"], agent.headers["vary"]) == ("gzip", "Accept-Encoding")
    whole = await client.get("/api/agents/sam", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in whole.headers
    assert whole.json() == agent.json()
    turn = (await client.post("/api/turns", params={"wait": 30}, json={"agent": "sam", "input": "hello"})).json()
    async with client.stream("GET", f"/api/turns/{turn['turn']}/events", headers={"accept": "text/event-stream"}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert "content-encoding" not in stream.headers
        assert (await anext(stream.aiter_lines())).startswith(": open")


async def test_nothing_but_the_files_is_served(running: Running):
    client = running.client()
    for name in ("../pages.py", "%2e%2e/pages.py", "..%2fpages.py", "missing.js", "", "page"):
        response = await client.get(f"/page/{name}")
        assert response.status_code == 404, name
        assert response.headers["content-type"] == "application/problem+json"


async def test_the_page_needs_no_key_and_shows_nothing_without_one(running: Running):
    await running.key("ada")
    client = running.client()
    assert (await client.get("/")).status_code == 200
    assert (await client.get("/api/me")).status_code == 401


def test_the_wheel_has_the_page(tmp_path: Path):
    with zipfile.ZipFile(build_wheel(tmp_path)) as wheel:
        names = {Path(name).name for name in wheel.namelist() if name.startswith("interlock/server/page/")}
    assert names == {file.name for file in FOLDER.iterdir()}
