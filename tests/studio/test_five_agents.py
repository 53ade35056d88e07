"""What a person does with each agent, from the first example to its guarantees, on the stores that come with Interlock."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import expect

from interlock.discovery import load_agent
from tests.studio.browser import Studio, studio

FIVE = ["sam", "desk", "analyst", "gateway", "puntini"]


@pytest.mark.parametrize("agent", FIVE)
async def test_an_agent_is_tried_looked_into_run_again_and_verified(agent: str, tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent(agent)]) as page:
        steps = await run_the_first_example(page, agent)
        await look_into_a_step(page, agent, steps)
        await replay(page)
        await run_again(page, steps)
        await find_it_in_operations(page, agent)
        await read_guarantees(page, agent)


async def run_the_first_example(page: Studio, agent: str) -> int:
    """Run an example by a click; return how many steps it took."""
    await page.open(f"#/studio/{agent}/")
    await page.page.locator(".example").first.click()
    last = page.page.locator(".log .turn").last
    await expect(last.locator(".pill.success")).to_be_visible()
    await expect(last.locator(".said > *").first).to_be_visible()
    for theme in ("light", "dark"):
        await page.page.emulate_media(color_scheme=theme)
        await page.picture(f"{agent}-{theme}")
    listed = (await page.running.client().get("/api/turns")).json()["turns"]
    steps: int = len(listed[0]["path"])
    await expect(page.page.locator(".step")).to_have_count(steps)
    # The edge to the first node was taken, and one to the end.
    await expect(page.page.locator(".point.start.passed")).to_have_count(1)
    await expect(page.page.locator(".point.end.passed").first).to_be_visible()
    return steps


async def look_into_a_step(page: Studio, agent: str, steps: int) -> None:
    """Choose the last step: its node is chosen, also where it is in a graph that has to be opened, and the address has it."""
    await page.page.locator(".step").last.click()
    panel = page.page.get_by_role("region", name="Node")
    for _ in range(2):
        await expect(panel.get_by_role("heading", name=f"Step {steps} of turn 1")).to_be_visible()
        await expect(page.page.locator(".node.chosen")).to_have_count(1)
        await expect(panel.locator(".writes .label").first).to_be_visible()
        await expect(panel.locator(".change").first).to_be_visible()
        assert page.page.url.endswith(f"/{steps}")
        await page.picture(f"{agent}-step")
        await page.page.reload()


async def replay(page: Studio) -> None:
    await page.page.get_by_role("button", name="Replay").click()
    await expect(page.page.locator(".replay")).to_contain_text("the same result")


async def run_again(page: Studio, steps: int) -> None:
    """Run the turn again from the step in the middle, in a new conversation."""
    await page.page.locator(".step").nth(steps // 2).click()
    await page.page.get_by_role("button", name="Run again from here").click()
    log = page.page.locator(".log")
    await expect(log).to_contain_text(f"Run again from step {steps // 2 + 1} of another conversation")
    await expect(log.locator(".pill.success")).to_be_visible()
    await expect(page.page.locator(".step")).to_have_count(steps)


async def find_it_in_operations(page: Studio, agent: str) -> None:
    await page.open("#/operations")
    rows, filters = page.page.locator("tbody tr"), page.page.get_by_role("search")
    await filters.get_by_label("agent").select_option(agent)
    await expect(rows).to_have_count(2)
    await filters.get_by_label("status").select_option("error")
    await expect(rows).to_have_count(0)


async def read_guarantees(page: Studio, agent: str) -> None:
    await page.open(f"#/verify/{agent}")
    await expect(page.page.get_by_role("heading", name="guarantees hold")).to_be_visible(timeout=120_000)
    await expect(page.page.get_by_role("region", name=f"Agent {agent}")).to_be_visible()
