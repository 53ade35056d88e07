"""A question with an answer schema is a form, in the conversation and in the inbox, and its answer fits the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, expect

from interlock.engine import ENGINES
from tests.studio.axe import violations
from tests.studio.booking import SCHEMA, agent
from tests.studio.browser import Studio, message, studio

BOOKED = {"guest": "Ada", "nights": 3, "room": "double", "breakfast": True}


async def fill_in(form: Locator) -> None:
    await form.get_by_label("guest").fill("Ada")
    await form.get_by_label("nights").fill("3")
    await form.get_by_label("double").check()
    await form.get_by_label("breakfast").check()


async def ended(page: Studio, turn: dict[str, Any]) -> dict[str, Any]:
    return (await page.running.client().get(f"/api/turns/{turn['turn']}?wait=30")).json()


async def test_a_form_is_checked_before_it_is_sent(tmp_path: Path):
    async with studio(tmp_path, agents=[agent]) as page:
        turn = await page.submit("booking", "a trip", session="one")
        assert turn["waiting"]["schema"] == SCHEMA
        sent: list[str] = []
        page.page.on("request", lambda request: sent.append(request.url) if request.url.endswith("/answer") else None)
        await page.open("#/studio/booking/one")
        form = page.page.get_by_role("group", name="Question")
        await expect(message(page.page)).to_be_disabled()
        await form.get_by_role("button", name="Answer").click()
        await expect(form.locator(".problem")).to_have_text(["Write something.", "Write a number.", "Choose one.", "", ""])
        await expect(form.get_by_label("guest")).to_be_focused()
        await fill_in(form)
        await form.get_by_label("guest").fill("A")
        await form.get_by_label("nights").fill("15")
        await form.get_by_role("button", name="Answer").click()
        await expect(form.locator(".problem:not(:empty)")).to_have_text(["Write at least 2 characters.", "At most 14."])
        await page.picture("form")
        assert await violations(page.page) == []
        assert sent == []
        await fill_in(form)
        await form.get_by_role("button", name="Answer").click()
        last = page.page.locator(".log .turn").last
        await expect(last).to_contain_text("Answered: guest Ada, nights 3, room double, breakfast true (by local)")
        assert json.loads((await ended(page, turn))["output"].removeprefix("booked ")) == BOOKED | {"remark": None}


async def test_the_inbox_has_the_form_too(tmp_path: Path):
    async with studio(tmp_path, agents=[agent]) as page:
        turn = await page.submit("booking", "a trip", session="one")
        await page.open("#/inbox")
        card = page.page.get_by_role("article", name="Question of booking, session one")
        await expect(card.get_by_role("textbox", name="Another answer")).to_have_count(0)
        await fill_in(card)
        await card.get_by_role("button", name="Answer").click()
        await expect(page.page.get_by_text("Nothing waits for an answer.")).to_be_visible()
        assert (await ended(page, turn))["answer"]["by"] == "local"


@pytest.mark.parametrize(("text", "button", "said"), [("colour", "blue", '"blue"'), ("sure", "Yes", "true")])
async def test_a_choice_is_answered_in_one_click(tmp_path: Path, text: str, button: str, said: str):
    async with studio(tmp_path, agents=[agent]) as page:
        turn = await page.submit("booking", text, session="one")
        await page.open("#/studio/booking/one")
        await page.page.get_by_role("group", name="Question").get_by_role("button", name=button).click()
        await expect(page.page.locator(".log .turn .pill.success")).to_be_visible()
        assert (await ended(page, turn))["output"] == f"booked {said}"


@pytest.mark.parametrize("engine", ENGINES)
async def test_the_server_refuses_an_answer_that_does_not_fit(tmp_path: Path, engine: str):
    async with studio(tmp_path, agents=[agent], engine=engine) as page:
        turn = await page.submit("booking", "a trip", session="one")
        client, place = page.running.client(), f"/api/turns/{turn['turn']}/answer"
        for wrong in (
            "yes",
            "{}",
            json.dumps(BOOKED | {"nights": 99}),
            json.dumps(BOOKED | {"nights": "3"}),
            json.dumps(BOOKED | {"more": 1}),
        ):
            refused = await client.post(place, json={"text": wrong})
            assert (refused.status_code, refused.json()["code"]) == (422, "input_schema"), wrong
        assert (await client.get(f"/api/turns/{turn['turn']}")).json()["status"] == "waiting"
        answered = (await client.post(place, params={"wait": 30}, json={"text": json.dumps(BOOKED)})).json()
        assert answered["status"] == "success"
