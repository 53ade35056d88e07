"""The inbox: suspended turns of all sessions, answered in one click, seen everywhere; and who may see and answer them."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import expect

from interlock.discovery import load_agent
from tests.server.serving import serving
from tests.studio.browser import Studio, chromium, message, open_page, studio
from tests.support.parcels import sent


async def test_an_answer_in_the_inbox_resumes_the_turn_everywhere(page: Studio, tmp_path: Path):
    await page.submit("parcels", "ask", session="one")
    await page.open("#/studio/parcels/one")
    await expect(page.page.get_by_role("group", name="Question")).to_be_visible()
    inbox = await page.page.context.new_page()
    await inbox.goto(f"{page.running.process.address}/#/inbox")
    card = inbox.get_by_role("article", name="Question of parcels, session one")
    # What led to the question: the message, and the nodes that ran.
    await expect(card.locator(".given")).to_have_text("ask")
    await expect(card).to_contain_text("start → pause")
    await card.get_by_role("textbox", name="Another answer").fill("blue")
    await card.get_by_role("button", name="Send").click()
    await expect(inbox.get_by_text("Nothing waits for an answer.")).to_be_visible()
    # The tab with the session hears of it by its stream.
    last = page.page.locator(".log .turn").last
    await expect(last.locator(".said")).to_contain_text("answered blue")
    await expect(last).to_contain_text("Answered: blue (by local)")
    await expect(page.page.get_by_role("group", name="Question")).to_have_count(0)
    await expect(page.page.locator(".badge")).to_have_count(0)
    assert sent(tmp_path) == ["ask: first", "ask: last"]


async def test_the_panel_of_a_step_that_asks_shows_its_question(page: Studio):
    await page.submit("parcels", "ask", session="one")
    await page.open("#/studio/parcels/one")
    step = page.page.get_by_role("region", name="Step 2")
    await expect(step.locator(".asks")).to_have_text("Which colour?")
    await expect(step).to_contain_text("Nothing yet.")
    await message(page.page).fill("green")
    await message(page.page).press("Enter")
    await expect(page.page.locator(".log .turn").last).to_contain_text("answered green")
    await expect(page.page.locator(".asks")).to_have_count(0)


async def test_the_inbox_says_with_which_name_an_answer_is_stored(page: Studio):
    await page.open("#/inbox")
    await expect(page.page.locator("#main")).to_contain_text("The server has no API keys, so an answer is stored with the name “local”.")


async def test_options_are_answered_in_one_click(tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent("puntini")]) as page:
        for text in ("Create a task Design", "Create a person Design", "Set the status of Design to done"):
            turn = await page.submit("puntini", text, session="twins")
        assert turn["status"] == "waiting"
        await page.open("#/inbox")
        await expect(page.page.locator(".badge")).to_have_text("1")
        await page.page.get_by_role("button", name="Task Design").click()
        await expect(page.page.get_by_text("Nothing waits for an answer.")).to_be_visible()
        ended = (await page.running.client().get(f"/api/turns/{turn['turn']}?wait=30")).json()
        assert ended["status"] == "success"
        assert ended["answer"] == {"text": "Task Design", "by": "local"}


async def test_with_keys_a_person_signs_in_and_answers_by_name(tmp_path: Path):
    async with chromium() as browser, serving(tmp_path) as running:
        key = await running.key("ada")
        client = running.client(key)
        await client.post("/api/turns", params={"wait": 30}, json={"agent": "parcels", "input": "ask", "session": "one"})
        page = await open_page(browser, running)
        await page.page.goto(running.process.address)
        await page.page.get_by_label("API key").fill("wrong")
        await page.page.get_by_role("button", name="Sign in").click()
        await expect(page.page.get_by_role("alert")).to_contain_text("does not know this key")
        await page.page.get_by_label("API key").fill(key)
        await page.page.get_by_role("button", name="Sign in").click()
        await page.page.get_by_role("link", name="Inbox").click()
        await expect(page.page.locator("#main")).to_contain_text("An answer is stored with your name, “ada”.")
        await page.page.get_by_role("textbox", name="Another answer").fill("red")
        await page.page.get_by_role("button", name="Send").click()
        await page.page.get_by_role("link", name="Studio").click()
        await expect(page.page.locator(".log .turn").last).to_contain_text("Answered: red (by ada)")
        assert key not in await page.page.evaluate("() => document.cookie")
        await page.page.get_by_role("button", name="Sign out").click()
        await expect(page.page.get_by_label("API key")).to_be_visible()
        assert page.wrong == []


async def test_a_session_is_continued_in_the_role_of_its_last_turn(tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent("gateway")]) as page:
        for role in ("admin", "user"):
            await page.submit("gateway", "hello", session=role, role=role)
        for role in ("user", "admin"):
            await page.open(f"#/studio/gateway/{role}")
            await expect(page.page.locator(".log .turn")).to_have_count(1)
            await expect(page.page.get_by_role("combobox", name="Role")).to_have_value(role)


async def test_a_user_sees_nothing_of_the_admin_side(tmp_path: Path):
    async with chromium() as browser, serving(tmp_path, agents=[load_agent("gateway")]) as running:
        admin, user = await running.key("root", roles=("admin",)), await running.key("bob", roles=("user",))
        body = {"agent": "gateway", "input": "Who is on call in week 47?", "session": "same", "role": "admin"}
        response = await running.client(admin).post("/api/turns", params={"wait": 60}, json=body)
        assert response.status_code == 200
        page = await open_page(browser, running)
        await page.page.goto(running.process.address)
        await page.page.get_by_label("API key").fill(user)
        await page.page.get_by_role("button", name="Sign in").click()
        await expect(message(page.page)).to_be_visible()
        await expect(page.page.locator("svg.graph")).to_contain_text("customer")
        for view in ("studio", "inbox", "operations"):
            await page.open(f"#/{view}")
            await expect(page.page.locator("#main > *")).to_be_visible()
            shown = await page.page.content()
            assert not any(word in shown for word in ("supervisor", "gateway.admin", "week 47", "admin_input")), view
        await page.open("#/studio/gateway/same")
        await expect(page.page.locator("#notice")).to_contain_text("There is no session")
        assert page.wrong == []
