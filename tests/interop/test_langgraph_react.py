"""React's `useStream`, as it is, in Chromium, on a page of another origin: it streams, asks, stops, and joins a run after a reload."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.async_api import Page, expect

from interlock.discovery import load_agent
from tests.server.serving import AGENTS, Running, serving
from tests.studio.browser import launched
from tests.support.npm import npm_packages

PACKAGES = ("@langchain/langgraph-sdk@1.12.0", "@langchain/core@1.2.3", "react@19.2.0", "react-dom@19.2.0", "esbuild@0.25.12")


def bundle(folder: Path, place: Path) -> None:
    """Write the program of the page into one file."""
    builder = next(iter((folder / "node_modules" / "@esbuild").glob("*/bin/esbuild")), None)
    if builder is None:
        pytest.skip("npm has no esbuild for this machine")
    source, made = Path(__file__).with_name("langgraph_react.jsx"), place / "page.js"
    options = ("--bundle", "--jsx=automatic", '--define:process.env.NODE_ENV="production"', "--log-level=error", f"--outfile={made}")
    subprocess.run([builder, source, *options], env={**os.environ, "NODE_PATH": str(folder / "node_modules")}, check=True, timeout=120)


class Chat:
    """The page, with an agent."""

    def __init__(self, page: Page, origin: str, running: Running, key: str) -> None:
        self.page = page
        self._origin = origin
        self._running = running
        self._key = key

    async def open(self, agent: str) -> None:
        await self.page.goto(f"{self._origin}/?{urlencode({'server': self._running.process.address, 'key': self._key, 'agent': agent})}")

    async def say(self, text: str, *, is_waited_for: bool = True) -> None:
        await self.page.locator("input").fill(text)
        await self.page.locator("input").press("Enter")
        if is_waited_for:
            await expect(self.page.locator("li.ai").last).to_be_visible()
            await expect(self.page.locator("#state")).to_have_text("idle")

    async def shown(self) -> list[str]:
        return await self.page.locator("li").all_inner_texts()

    async def values(self) -> dict[str, Any]:
        """Return what the server has of the conversation."""
        thread = await self.page.evaluate("() => sessionStorage.getItem('thread')")
        return (await self._running.client(self._key).get(f"/threads/{thread}/state")).json()["values"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Print nothing."""


@contextmanager
def served(folder: Path) -> Generator[str]:
    """Serve files to the browser, from an origin that is not the server's."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as files:
        thread = threading.Thread(target=files.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{files.server_port}"
        finally:
            files.shutdown()
            thread.join()


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncGenerator[Chat]:
    folder, place = await asyncio.to_thread(npm_packages, "langgraph-react-1.12.0", *PACKAGES), tmp_path / "page"
    bundle(folder, place)
    (place / "index.html").write_text("<!doctype html><meta charset=utf-8><div id=root></div><script src=page.js></script>")
    agents = [*AGENTS, load_agent("desk")]
    with served(place) as origin:
        async with launched() as browser, serving(tmp_path / "data", agents=agents, server_origins=[origin]) as running:
            page = await browser.new_page()
            wrong: list[str] = []
            page.on("pageerror", lambda error: wrong.append(str(error)))
            yield Chat(page, origin, running, await running.key("page"))
            assert wrong == []


async def test_a_conversation_is_streamed_and_each_message_is_shown_once(chat: Chat):
    await chat.open("sam")
    await chat.say("hello")
    first = await chat.shown()
    assert first[0] == "hello"
    assert first[1].startswith("You said: “hello”")
    await chat.say("again")
    await expect(chat.page.locator("li")).to_have_count(4)
    await chat.page.reload()
    await expect(chat.page.locator("li")).to_have_count(4)
    assert (await chat.shown())[:2] == first
    await expect(chat.page.locator("#failed")).to_be_empty()
    await expect(chat.page.locator("#nodes")).to_contain_text("format_response_node")


async def test_graphs_inside_the_graph_do_not_disturb_the_conversation(chat: Chat):
    await chat.open("desk")
    await chat.say("I want two mugs")
    shown = await chat.shown()
    assert len(shown) == 2
    assert shown[1] == (await chat.values())["messages"][-1]["content"]


async def test_a_person_is_asked_and_answers(chat: Chat):
    await chat.open("parcels")
    await chat.say("ask", is_waited_for=False)
    await expect(chat.page.locator("#question")).to_have_text("Which colour?")
    await chat.page.reload()
    await expect(chat.page.locator("#question")).to_have_text("Which colour?")
    await chat.say("red")
    assert await chat.shown() == ["ask", "answered red"]
    await expect(chat.page.locator("#question")).to_be_empty()


async def test_a_page_that_is_loaded_again_joins_its_run(chat: Chat):
    await chat.open("parcels")
    await chat.say("wait 3", is_waited_for=False)
    async with asyncio.timeout(30):
        while not await chat.page.evaluate("() => Object.keys(sessionStorage).some((key) => key.startsWith('lg:stream:'))"):  # noqa: ASYNC110 - in the browser
            await asyncio.sleep(0.02)  # until the client knows its run
    await chat.page.reload()
    await expect(chat.page.locator("li.ai")).to_have_text("waited after wait 3")
    assert await chat.shown() == ["wait 3", "waited after wait 3"]
