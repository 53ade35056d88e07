"""Hostile text of a model, a tool or a person stays text: no element, no request and no script comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
from playwright.async_api import expect

from interlock import END, Agent, Graph, Outcome, Reply, Untrusted, node
from tests.studio.browser import Studio, studio
from tests.studio.injections import INJECTIONS

FORBIDDEN = (
    "script, img, image, iframe, object, embed, link, style, video, audio, base, meta, template, math, form, input, a, x, use,"
    " foreignObject"
)
AT_ONCE = 10


@dataclass
class State:
    text: Annotated[str, Untrusted]
    echo: Annotated[str, Untrusted] = ""


class Echoed(Outcome):
    echo: Annotated[str, Untrusted]


async def repeat(text: str) -> Echoed:
    """Say what was said."""
    return Echoed(echo=text)


graph = Graph("echo", state=State, entry=repeat, nodes=[node(repeat, goes={Echoed: END})], takes=("text",), gives="echo")
echo = Agent(
    name="echo",
    summary="says <script>window.__taken = 1</script> what it is told",
    graphs=(graph,),
    entries={None: graph},
    reply=lambda state: Reply(output=state["echo"]),
    has_sessions=True,
)


async def taken(page: Studio) -> object:
    return await page.page.evaluate("() => window.__taken ?? null")


def test_the_corpus_has_two_hundred_different_texts():
    assert len(set(INJECTIONS)) == 200


@pytest.mark.parametrize("first", range(0, 200, 100))
async def test_no_element_request_or_script_comes_of_hostile_text(first: int, tmp_path: Path):
    async with studio(tmp_path, agents=[echo]) as page:
        for start in range(first, first + 100, AT_ONCE):
            text = "\n\n".join(INJECTIONS[start : start + AT_ONCE]).replace("\0", "")
            await page.submit("echo", text, session="hostile")
        await page.open("#/studio/echo/hostile")
        await expect(page.page.locator(".log .turn")).to_have_count(10)
        # A past turn is loaded when it comes near the screen.
        for turn in reversed(await page.page.locator(".log .turn").all()):
            await turn.scroll_into_view_if_needed()
            await expect(turn.locator(".given")).to_contain_text("hostile.example")
        # The panel shows the same texts as values of the state.
        await page.page.locator(".step").first.click()
        for details in await page.page.locator(".node-pane details").all():
            await details.locator("summary").first.click()
        for button in await page.page.get_by_role("button", name="Chart").all():
            await button.click()
        await expect(page.page.locator(f".log :is({FORBIDDEN}), .node-pane :is({FORBIDDEN}), .graph-pane :is({FORBIDDEN})")).to_have_count(
            0
        )
        names = "() => [...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())"
        risky = [name for name in await page.page.evaluate(names) if name.startswith(("on", "src", "action", "formaction"))]
        # The page's own module.
        assert risky == ["src"]
        assert await taken(page) is None
        # `wrong` has requests to other hosts, dialogs and violations of the policy, and is empty at the end.


async def test_hostile_names_of_sessions_and_addresses_stay_text(tmp_path: Path):
    async with studio(tmp_path, agents=[echo]) as page:
        await page.open("#/studio/%3Cimg%20src%3Dx%20onerror%3D%22window.__taken%3D1%22%3E/%3Cscript%3E")
        await expect(page.page.locator("#notice")).to_contain_text("There is no agent '<img")
        assert await taken(page) is None


async def test_the_policy_refuses_what_no_module_does(tmp_path: Path):
    async with studio(tmp_path, agents=[echo]) as page:
        await page.open()
        await page.page.evaluate(
            """() => {
                const note = (name, run) => { try { run(); window[name] = "done"; } catch (error) { window[name] = error.name; } };
                note("__html", () => { document.createElement("div").innerHTML = "<b>x</b>"; });
                note("__parse", () => new DOMParser().parseFromString("<b>x</b>", "text/html"));
                const image = document.createElement("img");
                image.src = "http://hostile.example/x.png";
            }"""
        )
        assert await page.page.evaluate("() => [window.__html, window.__parse]") == ["TypeError", "TypeError"]
        await expect(page.page.locator("body")).to_be_visible()
        assert any("hostile.example" in one and "Content Security Policy" in one for one in page.wrong), page.wrong
        page.wrong.clear()
