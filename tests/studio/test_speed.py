"""How fast the page is: an event is soon on the screen, and a large graph with a long turn stays smooth."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, expect

from interlock import END, Agent, Graph, Outcome, Reply, Untrusted, node
from interlock.discovery import load_agent
from interlock.server.examples import run_demo
from tests.studio.browser import studio

NODES, ROUNDS = 200, 5
# What else runs on the machine only adds time, so the best of a few tries is compared.
MEDIAN_MS = 50
PAINT_MS = 300
# In processor time of the page's main thread: a task that the machine interrupts is not longer for that.
LONGEST_MS = 50
TRIES = 5
MOST_BYTES = 150_000


@dataclass
class State:
    text: Annotated[str, Untrusted]
    count: int = 0


class Passed(Outcome):
    count: int


class Again(Outcome): ...


class Over(Outcome): ...


def make_node(number: int) -> Callable[..., Awaitable[Passed]]:
    async def passing(count: int) -> Passed:
        return Passed(count=count + 1)

    passing.__name__ = passing.__qualname__ = f"node_{number}"
    return passing


async def again(count: int) -> Again | Over:
    # A pause for the worker to store what there is, so that events come in many parts and not at once.
    await asyncio.sleep(0)
    return Over() if count >= NODES * ROUNDS - ROUNDS else Again()


def make_large() -> Agent:
    nodes = [make_node(number) for number in range(NODES - 1)]
    rows = [node(one, goes={Passed: following}) for one, following in zip(nodes, [*nodes[1:], again], strict=True)]
    graph = Graph(
        "large",
        state=State,
        entry=nodes[0],
        takes=("text",),
        gives="count",
        nodes=[*rows, node(again, goes={Again: nodes[0], Over: END})],
        max_steps=NODES * ROUNDS + 1,
    )
    return Agent(
        name="large",
        summary="counts",
        graphs=(graph,),
        entries={None: graph},
        reply=lambda state: Reply(output=str(state["count"])),
        has_sessions=True,
    )


class Ticked(Outcome):
    count: int


async def tick(count: int) -> Ticked | Over:
    if count >= 30:
        return Over()
    await asyncio.sleep(0.03)
    EMITTED.append(time.time() * 1000)
    return Ticked(count=count + 1)


EMITTED: list[float] = []
clock = Graph(
    "clock", state=State, entry=tick, takes=("text",), gives="count", nodes=[node(tick, goes={Ticked: tick, Over: END})], max_steps=40
)
ticking = Agent(
    name="ticking",
    summary="ticks",
    graphs=(clock,),
    entries={None: clock},
    reply=lambda state: Reply(output=str(state["count"])),
    has_sessions=True,
)

WATCH = """
window.__seen = [];
addEventListener("DOMContentLoaded", () => {
  let steps = 0;
  new MutationObserver(() => {
    const now = document.querySelectorAll(".step.success").length;
    for (; steps < now; steps++) window.__seen.push(performance.timeOrigin + performance.now());
  }).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
});
"""


async def best_of(name: str, measure: Callable[[], Awaitable[float]], limit: float) -> float:
    """Measure until a try is within the limit; return the best one."""
    found: list[float] = []
    while len(found) < TRIES and min(found, default=limit + 1) > limit:
        found.append(await measure())
    report(name, best=min(found), worst=max(found), tries=len(found))
    return min(found)


async def test_an_event_is_soon_on_the_screen(tmp_path: Path):
    async with studio(tmp_path, agents=[ticking]) as page:
        await page.page.add_init_script(WATCH)

        async def median() -> float:
            EMITTED.clear()
            await page.page.goto("about:blank")
            await page.open("#/studio/ticking/")
            await page.say("go")
            seen: list[float] = await page.page.evaluate("() => window.__seen")
            late = [shown - emitted for shown, emitted in zip(seen, EMITTED, strict=False)]
            assert len(late) == 30
            return statistics.median(late)

        assert await best_of("event to screen, median, ms", median, MEDIAN_MS) <= MEDIAN_MS


async def test_a_thousand_steps_of_two_hundred_nodes_stay_smooth(tmp_path: Path):
    async with studio(tmp_path, agents=[make_large()]) as page:

        async def longest() -> float:
            await page.page.goto("about:blank")
            await page.open("#/studio/large/")
            await expect(page.page.locator(".node")).to_have_count(NODES)
            async with tasks_of(page.page) as tasks:
                await page.say("go")
                await expect(page.page.locator(".step")).to_have_count(NODES * ROUNDS)
                await expect(page.page.locator(".node", has_text="node_7").first.locator(".times")).to_have_text("\N{MULTIPLICATION SIGN}5")
            assert len(tasks) > ROUNDS
            return max(tasks)

        assert await best_of("longest task with 1,000 steps, ms", longest, LONGEST_MS) <= LONGEST_MS


@asynccontextmanager
async def tasks_of(page: Page) -> AsyncGenerator[list[float]]:
    """Trace a page; at the end the list has the processor time of each task of its main thread, in milliseconds."""
    browser = page.context.browser
    assert browser is not None
    tasks: list[float] = []
    await browser.start_tracing(page=page, categories=["toplevel"])
    try:
        yield tasks
    finally:
        events: list[dict[str, Any]] = json.loads(await browser.stop_tracing())["traceEvents"]
    threads = {(event["pid"], event["tid"]) for event in events if event.get("args", {}).get("name") == "CrRendererMain"}
    own = [event for event in events if event["name"].endswith("RunTask") and (event["pid"], event["tid"]) in threads]
    tasks += [event["tdur"] / 1000 for event in own if "tdur" in event]


async def test_the_page_is_soon_painted(tmp_path: Path):
    async with studio(tmp_path) as page:

        async def painted() -> float:
            await page.page.goto("about:blank")
            await page.open("#/studio/sam")
            await expect(page.page.locator("svg.graph")).to_be_visible()
            return await page.page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")

        assert await best_of("first paint, ms", painted, PAINT_MS) <= PAINT_MS


@pytest.mark.parametrize(("agent", "turns"), [("analyst", 3), ("desk", 3), ("puntini", 8)])
async def test_little_is_transferred_for_a_demo_session(agent: str, turns: int, tmp_path: Path):
    async with studio(tmp_path, agents=[load_agent(agent)]) as page:
        await run_demo(page.running.server)
        transfer = await Transfer.count(page.page)
        await page.open(f"#/studio/{agent}/demo-1")
        await expect(page.page.locator(".log .turn")).to_have_count(turns)
        await expect(page.page.locator(".log .turn .tools-used").last).to_be_visible()
        await expect(page.page.locator(".step .took").last).to_be_visible()
        await page.page.wait_for_load_state("networkidle")
        report(f"transferred for a session of {agent}", all=transfer.bytes(), page=transfer.bytes("/page/"), requests=len(transfer.sizes))
        assert {"/", "/page/app.js", "/page/style.css", f"/api/sessions/{agent}/demo-1/events"} <= transfer.paths()
        assert transfer.bytes() <= MOST_BYTES


@dataclass
class Transfer:
    """Counts all bytes that a page receives, with headers, also those of streams that stay open."""

    urls: dict[str, str] = field(default_factory=dict[str, str])
    sizes: dict[str, float] = field(default_factory=dict[str, float])

    @classmethod
    async def count(cls, page: Page) -> Transfer:
        """Count from now on."""
        found = cls()
        session = await page.context.new_cdp_session(page)
        session.on("Network.responseReceived", found._begin)
        session.on("Network.dataReceived", found._continue)
        session.on("Network.loadingFinished", found._end)
        await session.send("Network.enable")
        return found

    def _begin(self, event: dict[str, Any]) -> None:
        self.urls[event["requestId"]] = event["response"]["url"]
        self.sizes[event["requestId"]] = event["response"]["encodedDataLength"]

    def _continue(self, event: dict[str, Any]) -> None:
        self.sizes[event["requestId"]] += event["encodedDataLength"]

    def _end(self, event: dict[str, Any]) -> None:
        # The sum of what came, as Chromium knows it at the end.
        self.sizes[event["requestId"]] = event["encodedDataLength"]

    def bytes(self, within: str = "/") -> float:
        """Return how much came from paths below `within`."""
        return sum(size for request, size in self.sizes.items() if urlsplit(self.urls[request]).path.startswith(within))

    def paths(self) -> set[str]:
        """Return what was asked for."""
        return {urlsplit(url).path for url in self.urls.values()}


def report(name: str, **figures: Any) -> None:
    print(name, {key: round(value, 1) for key, value in figures.items()})  # noqa: T201 - shown by `pytest -s`
