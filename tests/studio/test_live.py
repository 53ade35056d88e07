"""What a person sees while a turn runs: the conversation, the graph, the steps and the contract of each node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from playwright.async_api import Route, expect

from tests.server.teller import agent as teller
from tests.server.teller import held_back
from tests.studio.browser import Studio, message, studio


async def test_a_turn_is_sent_run_and_answered_on_the_page(page: Studio):
    await page.open("#/studio/sam")
    await page.say("What does an interlocking do?")
    turn = page.page.locator(".log .turn").last
    await expect(turn.locator(".given")).to_contain_text("What does an interlocking do?")
    await expect(turn.locator(".said")).to_contain_text("No language model is configured")
    await expect(page.page.locator(".step")).to_have_count(9)
    await expect(page.page.locator(".node.ran")).to_have_count(7)
    await expect(page.page.locator(".node", has_text="decision_logic_node").locator(".times")).to_have_text("\N{MULTIPLICATION SIGN}3")


async def test_the_node_that_runs_is_lit_and_stop_cancels_its_turn(page: Studio):
    await page.open("#/studio/parcels")
    await page.say("wait 60", status=None)
    await expect(page.page.locator(".node.running")).to_contain_text("pause")
    await expect(page.page.locator(".edge.taken")).to_have_count(2)
    await expect(page.page.locator(".step.running")).to_contain_text("pause")
    await page.page.get_by_role("button", name="Stop").click()
    await expect(page.page.locator(".log .turn").last.locator(".pill.cancelled")).to_be_visible()
    await expect(page.page.locator(".node.running")).to_have_count(0)
    await expect(page.page.get_by_role("button", name="Stop")).to_be_hidden()


async def test_an_answer_is_read_while_the_model_says_it(tmp_path: Path):
    async with studio(tmp_path, agents=[teller]) as page:
        await page.open("#/studio/teller")
        said = page.page.locator(".log .turn").last.locator(".said")
        with held_back() as go_on:
            await page.say("one two three four", status=None)
            await expect(said).to_have_text("one two")
            await expect(page.page.locator(".node.running")).to_contain_text("tell")
            go_on.set()
        await expect(said).to_have_text("one two three four")


async def test_the_question_of_a_suspended_turn_is_answered_in_the_conversation(page: Studio):
    await page.open("#/studio/parcels")
    await page.say("ask", status="waiting")
    await expect(page.page.get_by_role("group", name="Question")).to_contain_text("Which colour?")
    await expect(page.page.locator(".node.waits")).to_contain_text("pause")
    await message(page.page).fill("green")
    await page.page.get_by_role("button", name="Answer", exact=True).click()
    last = page.page.locator(".log .turn").last
    await expect(last.locator(".said")).to_contain_text("answered green")
    await expect(last).to_contain_text("Answered: green (by local)")
    await expect(page.page.locator(".log .turn")).to_have_count(1)


async def test_a_turn_of_another_client_appears_without_a_reload(page: Studio):
    await page.submit("parcels", "first", session="shared")
    await page.open("#/studio/parcels/shared")
    await expect(page.page.locator(".log .turn")).to_have_count(1)
    await page.submit("parcels", "second", session="shared")
    await expect(page.page.locator(".log .turn")).to_have_count(2)
    await expect(page.page.locator(".log .turn").last).to_contain_text("delivered second")


async def test_steps_have_their_times_after_a_reload_too(page: Studio):
    await page.open("#/studio/parcels/")
    await page.say("ask", status="waiting")
    await expect(page.page.locator(".step .ms").first).to_contain_text("ms")
    await page.page.reload()
    await expect(page.page.locator(".step")).to_have_count(2)
    await expect(page.page.locator(".step .ms").filter(has_text="ms")).to_have_count(2)


async def test_a_suspended_turn_has_its_edges_after_a_reload_too(page: Studio):
    # Its events come twice then: by the request for the turn, and by the stream.
    await page.submit("parcels", "ask", session="asked")
    await page.open("#/studio/parcels/asked")
    await expect(page.page.locator(".node.waits")).to_contain_text("pause")
    for _ in range(5):
        await page.page.reload()
        await expect(page.page.locator(".edge.taken")).to_have_count(2)


async def test_a_session_is_listed_by_what_was_said_first(page: Studio):
    for text in ("first", "second"):
        await page.submit("parcels", text, session="a-session")
    await page.open("#/studio/parcels/a-session")
    await expect(page.page.get_by_role("combobox", name="Session").locator("option")).to_contain_text(["first"])
    response = await page.running.client().get("/api/sessions/parcels/a-session")
    assert response.json()["said"] == "first"


async def test_a_long_message_is_folded(page: Studio):
    await page.open("#/studio/sam")
    await page.say("word " * 600, status=None)
    given = page.page.locator(".log .given")
    assert len(await given.inner_text()) < 1_300
    await given.get_by_role("button", name="more characters").click()
    await expect(given).to_contain_text(("word " * 600).strip())


async def test_the_panel_shows_the_contract_of_a_node_that_was_never_run(page: Studio):
    await page.open("#/studio/sam")
    await page.page.get_by_role("button", name="Node error_router_node").click()
    panel = page.page.get_by_role("region", name="Node")
    await expect(panel.get_by_role("heading", name="error_router_node")).to_be_visible()
    await expect(panel.locator(".reads")).to_contain_text("model_response")
    await expect(panel.locator(".writes")).to_contain_text("error_type")
    await expect(panel.locator(".writes .label.control")).to_have_count(1)
    await expect(panel.locator(".forbidden")).to_contain_text("ModelBackend")
    await expect(panel.locator(".goes")).to_contain_text("Classified → format_response_node")


async def test_a_refused_message_is_explained_and_stays_in_the_composer(tmp_path: Path):
    async with studio(tmp_path, server_body_bytes=5_000) as page:
        await page.open("#/studio/sam")
        await message(page.page).fill("x" * 6_000)
        await message(page.page).press("Enter")
        await expect(page.page.locator("#notice")).to_contain_text("over 5,000 bytes")
        await expect(page.page.locator(".log .turn")).to_have_count(0)
        assert len(await message(page.page).input_value()) == 6_000


async def test_a_message_that_is_sent_before_the_agent_is_loaded_is_sent_when_it_is(tmp_path: Path):
    async def late(route: Route) -> None:
        await asyncio.sleep(1)
        await route.continue_()

    async with studio(tmp_path) as page:
        await page.page.route("**/api/agents/*", late)
        await page.open("#/studio/parcels")
        await page.say("box")
