"""The graph as it is drawn: outcomes that can be read, also on a phone, and what of a high graph is in view."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from interlock.discovery import load_agent
from tests.studio.browser import Studio, studio

PHONE = {"viewport": {"width": 390, "height": 844}}
SMALLEST_PX = 10
MOST_NODES = 100

# Rectangles of the labels with their texts, those of the nodes, and points of the lines of each edge but its own.
DRAWN = """
() => {
  const box = (element) => { const { left, top, right, bottom } = element.getBoundingClientRect(); return [left, top, right, bottom]; };
  const isClosed = (node) => !node.nextElementSibling?.matches(".toggle[aria-expanded=true]");
  const edges = [...document.querySelectorAll("svg.graph .edge")];
  const points = (edge) => {
    const path = edge.querySelector("path"), matrix = path.getScreenCTM();
    const at = (n) => path.getPointAtLength(n * 2).matrixTransform(matrix);
    return Array.from({ length: Math.ceil(path.getTotalLength() / 2) }, (_, n) => [at(n).x, at(n).y]);
  };
  return {
    labels: edges.map((edge) => edge.querySelector(".outcome")).map((text) => text && { text: text.textContent, box: box(text) }),
    titles: edges.map((edge) => edge.querySelector("title").textContent),
    nodes: [...document.querySelectorAll("svg.graph .node")].filter(isClosed).map((node) => box(node.querySelector("rect"))),
    lines: edges.map(points),
  };
}
"""


@pytest.mark.parametrize("agent", ["sam", "desk", "analyst", "gateway", "puntini"])
async def test_each_edge_has_an_outcome_that_nothing_covers(agent: str, tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent(agent)]) as page:
        await page.open(f"#/studio/{agent}/")
        await expect(page.page.locator("svg.graph .node").first).to_be_visible()
        await open_all(page)
        drawn: dict[str, Any] = await page.page.evaluate(DRAWN)
        labels = [label for label in drawn["labels"] if label is not None]
        # Only the edge from the start has no outcome.
        assert [title for title, label in zip(drawn["titles"], drawn["labels"], strict=True) if label is None] == [
            title for title in drawn["titles"] if title.endswith(": the start")
        ]
        assert [(a["text"], b["text"]) for a, b in combinations(labels, 2) if overlap(a["box"], b["box"])] == []
        assert [label["text"] for label in labels for node in drawn["nodes"] if overlap(label["box"], node)] == []
        crossed = [
            (label["text"], drawn["titles"][number])
            for own, label in enumerate(drawn["labels"])
            for number, line in enumerate(drawn["lines"])
            if label is not None and number != own and any(within(point, label["box"]) for point in line)
        ]
        assert crossed == []


async def open_all(page: Studio) -> None:
    """Open the graphs inside nodes, and inside those."""
    closed = page.page.locator('.toggle[aria-expanded="false"]')
    for _ in range(MOST_NODES):
        count = await closed.count()
        if not count:
            return
        await closed.first.click()
        await page.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def overlap(a: list[float], b: list[float], slack: float = 2.5) -> bool:
    """Return whether two rectangles overlap; the rectangle of a text is higher than its letters."""
    return a[0] + slack < b[2] and b[0] + slack < a[2] and a[1] + slack < b[3] and b[1] + slack < a[3]


def within(point: list[float], box: list[float], slack: float = 3) -> bool:
    return box[0] + slack < point[0] < box[2] - slack and box[1] + slack < point[1] < box[3] - slack


async def test_names_can_be_read_on_a_phone(tmp_path: Path):
    async with studio(tmp_path, options=PHONE) as page:
        await page.open("#/studio/sam/")
        await page.page.get_by_role("button", name="Graph", exact=True).click()
        await expect(page.page.locator("svg.graph")).to_be_visible()
        size: float = await page.page.locator(".node .name").first.evaluate(
            "(name) => parseFloat(getComputedStyle(name).fontSize) * name.getScreenCTM().a"
        )
        assert size >= SMALLEST_PX
        pane: dict[str, float] = await page.page.locator(".graph-pane").evaluate(
            "(one) => ({ shown: one.clientWidth, all: one.scrollWidth })"
        )
        assert pane["all"] > pane["shown"]
        assert await page.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


async def test_the_turn_that_is_shown_is_in_view_among_many_on_a_phone(tmp_path: Path):
    async with studio(tmp_path, options=PHONE) as page:
        for number in range(12):
            await page.submit("parcels", f"message {number}", session="many")
        await page.open("#/studio/parcels/many")
        await page.page.get_by_role("button", name="Graph", exact=True).click()
        await expect(page.page.get_by_role("button", name="Turn 12: success")).to_be_in_viewport(ratio=0.9)


@pytest.mark.parametrize("agent", ["desk", "sam"])
async def test_a_session_in_which_nothing_runs_is_opened_at_the_top_of_its_graph(agent: str, tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent(agent)], options={"viewport": {"width": 1440, "height": 480}}) as page:
        await page.submit(agent, "hello", session="past")
        await page.open(f"#/studio/{agent}/past")
        await expect(page.page.locator(".node.chosen")).to_have_count(1)
        await expect(page.page.locator(".point.start")).to_be_in_viewport()
        # A step that a person chooses is shown.
        await page.page.locator(".step").last.click()
        await expect(page.page.locator(".node.chosen")).to_be_in_viewport()
        await expect(page.page.locator(".point.start")).not_to_be_in_viewport()


async def test_the_node_that_runs_is_kept_in_view(tmp_path: Path):
    async with studio(tmp_path, options={"viewport": {"width": 1440, "height": 260}}) as page:
        await page.open("#/studio/parcels")
        await page.say("wait 60", status=None)
        await expect(page.page.locator(".node.running")).to_contain_text("pause")
        await expect(page.page.locator(".node.running")).to_be_in_viewport(ratio=0.9)
        await page.page.get_by_role("button", name="Stop").click()


async def test_words_in_the_contract_are_not_broken(tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent("desk")]) as page:
        await page.open("#/studio/desk/")
        await page.page.get_by_role("button", name="Node dispatch_specialist").click()
        await expect(page.page.locator(".uses .chip").first).to_be_visible()
        lines: list[int] = await page.page.evaluate(
            """() => [...document.querySelectorAll(".uses .chip")].map((chip) => {
              const range = document.createRange();
              range.selectNodeContents(chip.firstChild);
              return range.getClientRects().length;
            })"""
        )
        assert set(lines) == {1}
