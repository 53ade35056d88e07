"""Operations: which turns there are, which run, what failed, and what the agents guarantee."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest_asyncio
from playwright.async_api import expect

from interlock.discovery import load_agent
from tests.server.serving import serving
from tests.studio.axe import violations
from tests.studio.browser import Studio, chromium, open_page, studio


@pytest_asyncio.fixture(loop_scope="session")
async def page(tmp_path: Path) -> AsyncGenerator[Studio]:
    async with studio(tmp_path, max_model_calls=0) as found:
        yield found


async def test_turns_are_filtered_by_agent_status_and_session(page: Studio):
    await page.submit("parcels", "one", session="a")
    await page.submit("parcels", "ask", session="b")
    await page.submit("sam", "hello", session="a")
    await page.open("#/operations")
    rows, filters = page.page.locator("tbody tr"), page.page.get_by_role("search")
    await expect(rows).to_have_count(3)
    await filters.get_by_label("agent").select_option("parcels")
    await expect(rows).to_have_count(2)
    await filters.get_by_label("status").select_option("waiting")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("b")
    await filters.get_by_label("status").select_option("")
    await filters.get_by_label("agent").select_option("")
    await filters.get_by_label("session").fill("a")
    await expect(rows).to_have_count(2)
    await rows.filter(has_text="sam").get_by_role("link").click()
    await expect(page.page.locator(".log .turn")).to_contain_text("hello")


async def test_what_failed_is_counted_by_code(page: Studio):
    for _ in range(2):
        await page.submit("sam", "hello", session="failing")
    await page.open("#/operations")
    await expect(page.page.get_by_role("img", name="Errors by code")).to_have_attribute("aria-label", "Errors by code: budget_exceeded 2")
    await expect(page.page.get_by_role("img", name="Turns: ").first).to_be_visible()
    await expect(page.page.locator("tbody tr").first).to_contain_text("budget_exceeded")
    await page.submit("parcels", "tea", session="fine")
    await page.page.reload()
    await expect(page.page.locator("tbody tr")).to_have_count(3)
    await page.page.get_by_role("search").get_by_label("error").select_option("budget_exceeded")
    await expect(page.page.locator("tbody tr")).to_have_count(2)


async def test_the_time_axis_ends_at_the_last_turn_and_has_even_ticks(page: Studio):
    await page.submit("parcels", "one", session="a")
    await page.submit("parcels", "two", session="a")
    # An hour later.
    await page.page.clock.install(time=datetime.now(UTC) + timedelta(hours=1))
    await page.open("#/operations")
    chart = page.page.get_by_role("img", name="Turns: ").first
    await expect(chart.locator("rect")).to_have_count(4)
    at: list[float] = await chart.evaluate(
        "(svg) => [...svg.querySelectorAll('text')].slice(1).map((one) => Number(one.getAttribute('x')))"
    )
    assert len(at) > 1
    assert len({round(after - before, 3) for before, after in pairwise(at)}) == 1
    await expect(page.page.get_by_role("columnheader", name="attempts")).to_be_visible()
    await expect(page.page.locator("tbody tr").first.locator("td").nth(6)).to_have_text("1")


async def test_sessions_are_listed_and_filtered(page: Studio):
    await page.submit("parcels", "one", session="a")
    await page.submit("parcels", "ask", session="b")
    await page.submit("sam", "hello", session="c")
    await page.open("#/operations")
    await page.page.get_by_role("button", name="Sessions").click()
    rows, filters = page.page.locator("tbody tr"), page.page.get_by_role("search")
    await expect(rows).to_have_count(3)
    await filters.get_by_label("status").select_option("open")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("ask")
    await filters.get_by_label("status").select_option("")
    await filters.get_by_label("agent").select_option("sam")
    await expect(rows).to_have_count(1)
    await rows.get_by_role("link", name="Session c").click()
    await expect(page.page.locator(".log .turn")).to_contain_text("hello")


async def test_a_running_turn_is_cancelled_and_its_worker_is_named(page: Studio):
    turn = (await page.running.client().post("/api/turns", json={"agent": "parcels", "input": "wait 60", "session": "long"})).json()
    await page.open("#/operations")
    worker = page.page.get_by_role("region", name="Workers")
    await expect(worker).to_contain_text("(this server), 1 running")
    await expect(worker.get_by_role("listitem")).to_contain_text("parcels, turn 1 of long lease ends in")
    (listed,) = (await page.running.client().get("/api/workers")).json()["workers"]
    assert [lease["turn"] for lease in listed["leases"]] == [turn["turn"]]
    assert 0 < listed["leases"][0]["seconds"] <= 3
    await page.page.get_by_role("button", name="Cancel turn 1 of session long").click()
    ended = (await page.running.client().get(f"/api/turns/{turn['turn']}?wait=30")).json()
    assert ended["status"] == "cancelled"
    await expect(page.page.locator("tbody .pill.cancelled")).to_be_visible()


async def test_the_guarantees_of_an_agent_are_shown_with_their_proofs(page: Studio):
    await page.open("#/verify/sam")
    await expect(page.page.get_by_role("heading", name="guarantees hold")).to_be_visible(timeout=90_000)
    await expect(page.page.locator(".guarantee", has_text="8 nodes, 12 outcomes")).to_be_visible()
    listed = (await page.running.client().get("/api/agents/sam/guarantees", timeout=90)).json()
    assert listed["holds"] is True
    await expect(page.page.locator(".guarantee li")).to_have_count(len(listed["guarantees"]))


async def test_a_caller_who_is_no_operator_gets_no_guarantees(tmp_path: Path):
    async with chromium() as browser, serving(tmp_path) as running:
        key = await running.key("bob")
        assert (await running.client(key).get("/api/agents/sam/guarantees")).status_code == 403
        page = await open_page(browser, running)
        await page.page.goto(running.process.address)
        await page.page.get_by_label("API key").fill(key)
        await page.page.get_by_role("button", name="Sign in").click()
        await page.page.get_by_role("link", name="Verify").click()
        await expect(page.page.get_by_text("The agent could not be verified.")).to_be_visible()
        await page.page.get_by_role("link", name="Operations").click()
        await expect(page.page.get_by_text("No turn fits the filters.")).to_be_visible()
        assert page.wrong == []


async def test_a_broken_claim_is_shown_with_its_path_on_the_graph(tmp_path: Path):
    sam = load_agent("sam")
    assert sam.document is not None
    claim = "result_handling_node before model_call_node"
    document = tmp_path / "document.md"
    document.write_text(sam.document.read_text("utf-8").replace("```claims\n", f"```claims\n{claim}\n", 1), "utf-8")
    async with studio(tmp_path / "data", agents=[replace(sam, document=document)]) as page:
        await page.open("#/verify/sam")
        await expect(page.page.get_by_role("heading", name="guarantees are broken")).to_be_visible(timeout=90_000)
        listed = (await page.running.client().get("/api/agents/sam/guarantees", timeout=90)).json()["guarantees"]
        (broken,) = [one for one in listed if not one["holds"]]
        nodes = [step["node"] for step in broken["path"]]
        assert (broken["code"], broken["graph"], nodes[0], nodes[-1]) == ("claim_broken", "sam", "router_node", "model_call_node")
        shown = page.page.get_by_role("region", name="Broken")
        await expect(shown).to_contain_text(claim)
        await expect(shown.locator(".path code")).to_have_text(nodes)
        await expect(shown.locator(".node.broken")).to_have_count(len(set(nodes)))
        await expect(shown.locator(".node.broken.last")).to_contain_text("model_call_node")
        # As many edges as there are steps between nodes, and the one from the start.
        await expect(shown.locator(".edge.broken")).to_have_count(len(set(pairwise(nodes))) + 1)
        assert await violations(page.page) == []
        await page.picture("counter-example")
