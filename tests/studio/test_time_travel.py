"""Any step of any past turn: its state before and after, its calls, its address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.async_api import Locator, expect

from interlock import Reply
from interlock.discovery import load_agent
from interlock.runtime.redaction import REDACTED
from tests.server.teller import agent as teller
from tests.studio.browser import Studio, message, studio
from tests.support.parcels import agent as parcels
from tests.support.parcels import sent


def panel(page: Studio) -> Locator:
    return page.page.get_by_role("region", name="Node")


async def test_a_step_of_a_past_turn_shows_what_it_changed_and_called(page: Studio):
    await page.submit("sam", "hello", session="past")
    await page.submit("sam", "again", session="past")
    await page.open("#/studio/sam/past")
    await page.page.get_by_role("button", name="Turn 1: success").click()
    await page.page.locator(".step", has_text="model_call_node").click()
    await expect(panel(page).get_by_role("heading", name="Step 6 of turn 1")).to_be_visible()
    call = panel(page).locator(".call")
    await expect(call).to_have_count(1)
    await call.locator("summary").click()
    await expect(call).to_contain_text('"prompt": "hello"')
    await panel(page).get_by_text("State after", exact=True).click()
    await expect(panel(page).locator("details.fold[open]")).to_contain_text("input_type")


async def test_a_turn_that_was_not_watched_has_the_times_and_tokens_of_its_steps(tmp_path: Path):
    async with studio(tmp_path, agents=[teller]) as page:
        turn = await page.submit("teller", "say this")
        listed = (await page.running.client().get(f"/api/turns/{turn['turn']}/steps")).json()["steps"]
        assert [step["tokens"] for step in listed] == [None, {"input_tokens": 3, "output_tokens": 4}]
        assert listed[1]["calls"][0]["ms"] is not None
        await page.open(f"#/studio/teller/{turn['session']}")
        await expect(page.page.locator(".step .took")).to_have_count(2)
        await expect(page.page.locator(".step .tokens")).to_have_count(1)
        await expect(page.page.locator(".step").nth(1).locator(".tokens")).to_have_text("3 \N{RIGHTWARDS ARROW} 4 tokens")
        await page.page.locator(".step").nth(1).click()
        await expect(panel(page).locator(".call summary")).to_contain_text("ms")


async def test_what_a_step_changed_is_shown_as_before_and_after(page: Studio):
    await page.submit("sam", "hello", session="past")
    await page.open("#/studio/sam/past")
    await page.page.locator(".step", has_text="decision_logic_node").nth(1).click()
    change = panel(page).locator(".change", has_text="command")
    await expect(change.locator("del")).to_have_text("preprocess")
    await expect(change.locator("ins")).to_have_text("call_model")
    # The graph shows the turn as it was at that step.
    await expect(page.page.locator(".node.ran")).to_have_count(4)


async def test_the_address_of_a_step_shows_the_same_step_in_another_tab(page: Studio):
    turn = await page.submit("sam", "hello", session="past")
    await page.open("#/studio/sam/past")
    await page.page.locator(".step").nth(2).click()
    await expect(page.page).to_have_url(f"{page.running.process.address}/#/studio/sam/past/{turn['turn']}/3")
    other = await page.page.context.new_page()
    await other.goto(page.page.url)
    await expect(other.get_by_role("heading", name="Step 3 of turn 1")).to_be_visible()
    await expect(other.locator('.step[aria-current="step"]')).to_contain_text("decision_logic_node")


async def test_back_to_live_follows_the_newest_turn_again(page: Studio):
    await page.submit("parcels", "first", session="live")
    await page.open("#/studio/parcels/live")
    await page.page.get_by_role("button", name="Turn 1: success").click()
    await expect(page.page.get_by_role("button", name="Back to live")).to_be_visible()
    await page.submit("parcels", "second", session="live")
    await expect(page.page.locator(".log .turn")).to_have_count(2)
    await expect(page.page.get_by_role("button", name="Turn 1: success")).to_have_attribute("aria-pressed", "true")
    await page.page.get_by_role("button", name="Back to live").click()
    await expect(page.page.get_by_role("button", name="Turn 2: success")).to_have_attribute("aria-pressed", "true")


async def test_a_turn_is_replayed_with_todays_code_and_without_calls(page: Studio):
    await page.submit("sam", "hello", session="past")
    await page.open("#/studio/sam/past")
    await page.page.get_by_role("button", name="Replay").click()
    await expect(page.page.locator(".replay")).to_contain_text("the same result")


def replied_today(state: Mapping[str, Any]) -> Reply:
    return Reply(output=f"today: {state['answer']}")


async def test_what_differs_is_listed_when_the_code_has_changed(page: Studio):
    await page.submit("parcels", "tea", session="past")
    changed = replace(parcels, reply=replied_today)
    page.running.server.agents = {**page.running.server.agents, "parcels": changed}
    await page.open("#/studio/parcels/past")
    await page.page.get_by_role("button", name="Replay").click()
    await expect(page.page.locator(".replay .differs")).to_contain_text("Replayed with today's code")
    await expect(page.page.locator(".replay li").first).to_contain_text('output: was "delivered tea", is "today: delivered tea"')


async def test_a_turn_is_run_again_from_a_step_in_a_new_conversation(page: Studio, tmp_path: Path):
    turn = await page.submit("parcels", "tea", session="past")
    await page.open("#/studio/parcels/past")
    await page.page.locator(".step", has_text="deliver").click()
    await panel(page).get_by_role("button", name="Run again from here").click()
    log = page.page.locator(".log")
    await expect(log).to_contain_text("Run again from step 3 of another conversation")
    await expect(log.locator(".pill.success")).to_be_visible()
    await expect(page.page.locator(".step")).to_have_count(3)
    assert sent(tmp_path) == ["tea: first", "tea: last", "tea: last"]
    await expect(page.page.get_by_role("combobox", name="Session").locator("option")).to_have_count(2)
    # The link leads to the step where it began.
    await log.get_by_role("button", name="step 3 of another conversation").click()
    await expect(page.page).to_have_url(f"{page.running.process.address}/#/studio/parcels/past/{turn['turn']}/3")
    await expect(panel(page).get_by_role("heading", name="Step 3 of turn 1")).to_be_visible()


async def test_a_tool_in_the_conversation_leads_to_the_step_that_called_it(tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent("analyst")]) as page:
        for text in ("Revenue by country in 2025", "hello"):
            await page.submit("analyst", text, session="figures")
        await page.open("#/studio/analyst/figures")
        await page.page.get_by_role("list", name="Tools").get_by_role("button").first.click()
        await expect(page.page.get_by_role("button", name="Turn 1: success")).to_have_attribute("aria-pressed", "true")
        await expect(panel(page).get_by_role("heading", name="tool_executor")).to_be_visible()


async def test_a_past_turn_is_loaded_when_it_comes_near_the_screen(page: Studio):
    turns = [(await page.submit("sam", f"message {number}\n" + "more\n" * 12, session="long"))["turn"] for number in range(12)]
    asked: set[str] = set()
    page.page.on("request", lambda request: asked.update(turn for turn in turns if f"/turns/{turn}" in request.url))
    await page.open("#/studio/sam/long")
    log = page.page.locator(".log .turn")
    await expect(log.last.locator(".given")).to_contain_text("message 11")
    await page.page.wait_for_load_state("networkidle")
    assert turns[-1] in asked
    assert turns[0] not in asked
    await log.first.scroll_into_view_if_needed()
    await expect(log.first.locator(".given")).to_contain_text("message 0")
    assert turns[0] in asked


async def test_secrets_are_redacted_in_calls_and_states(tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent("gateway")]) as page:
        await page.open("#/studio/gateway")
        await page.page.get_by_role("combobox", name="Role").select_option("admin")
        await page.say("Read /admin/credentials.env")
        for details in await page.page.locator(".node-pane details").all():
            await details.locator("summary").first.click()
        shown = await page.page.content()
        assert REDACTED in shown
        assert "sk-" not in shown


async def test_steps_are_walked_by_the_arrow_keys(page: Studio):
    await page.submit("sam", "hello", session="past")
    await page.open("#/studio/sam/past")
    await page.page.locator(".step").first.click()
    for _ in range(2):
        await page.page.keyboard.press("ArrowDown")
    await expect(page.page.get_by_role("heading", name="Step 3 of turn 1")).to_be_visible()
    await page.page.keyboard.press("ArrowUp")
    await expect(page.page.get_by_role("heading", name="Step 2 of turn 1")).to_be_visible()


async def test_an_address_that_names_nothing_is_explained(page: Studio):
    await page.open("#/studio/parcels/nobody/turn-x/4")
    await expect(page.page.locator("#notice")).to_contain_text("There is no")
    await page.open("#/%E0%A4%A/nothing")
    await expect(message(page.page)).to_be_visible()
