"""The studio in a real Chromium, with the server in the same event loop. Whatever the page should not do is collected."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Playwright, Request, async_playwright, expect

from interlock import Agent
from tests.server.serving import AGENTS, Running, serving

__all__ = ["CHROMIUM", "LIMIT_MS", "PICTURES", "Studio", "chromium", "launched", "message", "open_page", "shared", "studio"]

CHROMIUM = shutil.which("chromium") or shutil.which("/usr/bin/chromium")
LIMIT_MS = 30_000
PICTURES = Path(__file__).resolve().parents[2] / "build" / "studio"
_ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-dev-shm-usage"]

expect.set_options(timeout=LIMIT_MS)


@dataclass
class Studio:
    """A page of a server, and what the page did that it must not do."""

    running: Running
    page: Page
    wrong: list[str] = field(default_factory=list[str])

    async def open(self, place: str = "") -> None:
        """Show an address of the page."""
        await self.page.goto(f"{self.running.process.address}/{place}")
        await expect(self.page.get_by_role("navigation", name="Views")).to_be_visible()

    async def say(self, text: str, *, status: str | None = "success") -> None:
        """Send a message by the composer, and wait for how its turn ends."""
        before = await self.page.locator(".log .turn").count()
        await message(self.page).fill(text)
        await message(self.page).press("Enter")
        await expect(self.page.locator(".log .turn")).to_have_count(before + 1)
        if status is not None:
            await expect(self.page.locator(".log .turn").last.locator(f".pill.{status}")).to_be_visible()

    async def submit(self, agent: str, text: str, **given: Any) -> dict[str, Any]:
        """Run a turn as another client does."""
        body = {"agent": agent, "input": text, **given}
        response = await self.running.client().post("/api/turns", params={"wait": 60}, json=body)
        assert response.status_code == 200, response.text
        return response.json()

    async def picture(self, name: str) -> None:
        """Keep what the page looks like, for people to look at."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=PICTURES / f"{name}.png")


def message(page: Page) -> Any:
    return page.get_by_role("textbox", name="Message")


@asynccontextmanager
async def launched() -> AsyncGenerator[Browser]:
    """Start a Chromium for one test; skip the test where it is not installed."""
    _require_chromium()
    async with async_playwright() as playing:
        browser = await playing.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


def _require_chromium() -> None:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: 'apt-get install chromium' on Debian")


class Shared:
    """Chromium, started by the first test that needs it and kept for the others: to start it takes longer than most tests."""

    playing: Playwright | None = None
    browser: Browser | None = None

    async def start(self) -> Browser:
        if self.browser is None:
            self.playing = await async_playwright().start()
            self.browser = await self.playing.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        return self.browser

    async def close(self) -> None:
        if self.browser is not None and self.playing is not None:
            await self.browser.close()
            await self.playing.stop()


shared = Shared()


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    """Return Chromium, and close its tabs at the end; skip the test where it is not installed."""
    _require_chromium()
    browser = await shared.start()
    try:
        yield browser
    finally:
        for context in browser.contexts:
            await context.close()


async def open_page(browser: Browser, running: Running, **options: Any) -> Studio:
    """Open a tab with cookies and settings of its own."""
    chosen: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}, **options}
    context = await browser.new_context(**chosen)
    page = await context.new_page()
    found, address = Studio(running, page), running.process.address

    def look(request: Request) -> None:
        if not request.url.startswith((address, "blob:")):
            found.wrong.append(f"a request to {request.url[:100]}")

    page.on("request", look)
    page.on("pageerror", lambda error: found.wrong.append(f"an error: {error}"))
    page.on("console", lambda line: found.wrong.append(f"{line.type}: {line.text}") if _is_wrong(line.type, line.text) else None)
    page.on("dialog", lambda dialog: found.wrong.append(f"a dialog: {dialog.message}"))
    return found


def _is_wrong(kind: str, text: str) -> bool:
    # A refused request is shown to the person; Chromium also writes it to its console.
    return kind in {"error", "warning"} and not text.startswith("Failed to load resource")


@asynccontextmanager
async def studio(
    folder: Path, *, agents: Iterable[Agent] = AGENTS, options: dict[str, Any] | None = None, **settings: Any
) -> AsyncGenerator[Studio]:
    """Serve agents and open the page in Chromium. At the end the page has done nothing that it must not do."""
    async with chromium() as browser, serving(folder, agents=agents, **settings) as running:
        found = await open_page(browser, running, **(options or {}))
        yield found
        assert found.wrong == []
