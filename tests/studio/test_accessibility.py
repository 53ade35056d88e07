"""The page for everyone: no violation that axe finds, in both themes; a keyboard is enough; a phone is wide enough."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from interlock.discovery import load_agent
from tests.server.serving import AGENTS
from tests.studio.axe import violations
from tests.studio.browser import Studio, message, studio

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


async def prepared(page: Studio) -> None:
    await page.submit("sam", "hello", session="seen")
    await page.submit("parcels", "ask", session="asked")
    await page.submit("analyst", "Revenue by country in 2025", session="figures")


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_no_violation_in_any_view(theme: str, tmp_path: Path):
    options = {"color_scheme": theme, "bypass_csp": True, "reduced_motion": "reduce"}
    async with studio(tmp_path, agents=[*AGENTS, load_agent("analyst"), load_agent("desk")], options=options) as page:
        await prepared(page)
        await page.open("#/studio/analyst/figures")
        await expect(page.page.locator(".step")).to_have_count(7)
        await page.page.locator(".step").nth(3).click()
        await page.page.locator(".call summary").first.click()
        await page.page.locator(".change summary").first.click()
        await page.page.get_by_role("button", name="Chart").click()
        assert await violations(page.page) == []
        await page.picture(f"time-travel-{theme}")
        await page.open("#/studio/parcels/asked")
        await expect(page.page.get_by_role("group", name="Question")).to_be_visible()
        assert await violations(page.page) == []
        await page.open("#/studio/desk")
        await page.page.get_by_role("button", name="Graph inside dispatch_specialist").click()
        assert await violations(page.page) == []
        await page.picture(f"subgraph-{theme}")
        for view, ready in (("inbox", ".card"), ("operations", "tbody tr"), ("verify/sam", ".guarantee")):
            await page.open(f"#/{view}")
            await expect(page.page.locator(ready).first).to_be_visible(timeout=90_000)
            assert await violations(page.page) == [], view
            await page.picture(f"{view.partition('/')[0]}-{theme}")


async def test_a_phone_shows_three_tabs_of_which_one_is_open(tmp_path: Path):
    options: dict[str, Any] = {**PHONE, "bypass_csp": True}
    async with studio(tmp_path, options=options) as page:
        await page.submit("sam", "hello", session="seen")
        await page.open("#/studio/sam/seen")
        tabs = page.page.get_by_role("group", name="Parts")
        await expect(message(page.page)).to_be_visible()
        await expect(page.page.locator("svg.graph")).to_be_hidden()
        await page.picture("phone-chat")
        await tabs.get_by_role("button", name="Graph").click()
        await expect(page.page.locator("svg.graph")).to_be_visible()
        await expect(message(page.page)).to_be_hidden()
        assert await violations(page.page) == []
        await page.picture("phone-graph")
        await page.page.get_by_role("button", name="Node model_call_node").click()
        await expect(page.page.get_by_role("heading", name="model_call_node")).to_be_visible()
        await page.picture("phone-node")
        assert await page.page.evaluate("() => document.documentElement.scrollWidth") <= 390


async def test_a_keyboard_is_enough(tmp_path: Path):
    async with studio(tmp_path) as page:
        await page.open("#/studio/sam")
        await message(page.page).focus()
        await page.page.keyboard.type("hello")
        await page.page.keyboard.press("Enter")
        await expect(page.page.locator(".log .turn .pill.success")).to_be_visible()
        node = page.page.get_by_role("button", name="Node router_node")
        await node.focus()
        await page.page.keyboard.press("Enter")
        await expect(page.page.get_by_role("heading", name="router_node")).to_be_visible()
        await expect(node).to_have_attribute("aria-pressed", "true")
        await expect(node).to_be_focused()
        reached: set[str] = set()
        for _ in range(80):
            await page.page.keyboard.press("Tab")
            reached.add(
                await page.page.evaluate(
                    "() => document.activeElement.closest('section, header, div.bar')?.className || document.activeElement.tagName"
                )
            )
        assert {"chat", "graph-pane", "steps-pane", "node-pane", "bar"} <= reached


async def test_the_theme_is_the_systems_until_a_person_chooses(tmp_path: Path):
    async with studio(tmp_path, options={"color_scheme": "dark"}) as page:
        await page.open()
        await expect(page.page.locator("html")).to_have_attribute("data-theme", "dark")
        await page.page.get_by_role("button", name="Light theme").click()
        await expect(page.page.locator("html")).to_have_attribute("data-theme", "light")
        await page.page.reload()
        await expect(page.page.locator("html")).to_have_attribute("data-theme", "light")
