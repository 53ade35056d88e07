"""The pictures of the docs: what the page shows, as SVG. They are made anew by each run, and say the same words as those in the docs."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from playwright.async_api import expect

from interlock.discovery import load_agent
from tests.studio.browser import PICTURES, Studio, studio

DOCS = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "studio"
SIZE = {"viewport": {"width": 1360, "height": 800}}
# What differs from run to run: how long it took, and when it was.
CHANGING = re.compile(r"<?\b\d+(\.\d+)? (ms|s)\b|\b\d\d:\d\d(:\d\d)?\b|<1 ms")


def words(picture: str) -> list[str]:
    """Return what is read in a picture."""
    body = ET.fromstring(picture)[1]  # noqa: S314 - our own files
    texts = [CHANGING.sub("", text).split() for text in body.itertext()]
    return [word for text in texts for word in text]


async def draw(page: Studio, name: str) -> None:
    """Draw what is on the screen into build/studio."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    made: str = await page.page.evaluate(Path(__file__).with_name("drawing.js").read_text("utf-8"))
    (PICTURES / f"{name}.svg").write_text(made, "utf-8")


def check(name: str) -> None:
    """Compare a picture with the one in the docs."""
    kept = DOCS / f"{name}.svg"
    fix = f"Fix: copy build/studio/{name}.svg to docs/pictures/studio"
    assert kept.exists(), fix
    assert words(kept.read_text("utf-8")) == words((PICTURES / f"{name}.svg").read_text("utf-8")), fix


async def test_the_pictures_of_analyst_are_up_to_date(tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent("analyst")], options=SIZE) as page:
        await page.submit("analyst", "Revenue by country in 2025", session="figures")
        await page.submit("analyst", "And in 2024 by channel?", session="figures")
        await page.open("#/studio/analyst/figures")
        await expect(page.page.locator(".step .took")).to_have_count(7)
        await expect(page.page.locator(".tools-used")).to_have_count(2)
        await page.page.get_by_role("button", name="Chart").last.click()
        await draw(page, "live")
        await page.page.emulate_media(color_scheme="dark")
        await page.page.locator(".step", has_text="tool_executor").click()
        await page.page.locator(".call summary").click()
        await draw(page, "step")
    check("live")
    check("step")


async def test_the_picture_of_the_inbox_is_up_to_date(tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent("puntini")], options={"viewport": {"width": 1360, "height": 520}}) as page:
        for text in ("Create a task Design", "Create a person Design", "Set the status of Design to done"):
            await page.submit("puntini", text, session="twins")
        await page.open("#/inbox")
        await expect(page.page.locator(".card .given")).to_be_visible()
        await draw(page, "inbox")
    check("inbox")


def test_a_picture_of_other_words_is_noticed():
    kept = (DOCS / "inbox.svg").read_text("utf-8")
    assert words(kept) != words(kept.replace("Inbox", "Outbox"))
    assert "style" not in words(kept)
