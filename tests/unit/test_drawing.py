from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from interlock import END, Graph, Outcome, node
from interlock.contract.render import markdown, mermaid
from interlock.discovery import AGENTS, load_agent
from interlock.drawing import draw

SVG = "{http://www.w3.org/2000/svg}"


def drawn(agent: str) -> str:
    found = load_agent(agent)
    return draw(found.graphs, behind=found.subgraphs)


def read(picture: str) -> ET.Element:
    return ET.fromstring(picture)  # noqa: S314 - our own


def texts(picture: str, kind: str) -> list[str]:
    return [text.text or "" for text in read(picture).iter(f"{SVG}text") if text.get("class") == kind]


def number(part: ET.Element, name: str) -> float:
    return float(part.get(name, ""))


def test_a_notebook_shows_the_picture_the_diagram_and_the_table_of_a_graph(monkeypatch: pytest.MonkeyPatch):
    graph = load_agent("sam").graphs[0]

    def shown(kind: str) -> str | None:
        return getattr(graph, f"_repr_{kind}_")()

    def is_missing(_: str) -> bool:
        return False

    assert shown("svg") == draw([graph])
    assert shown("markdown") == f"```mermaid\n{mermaid(graph)}```\n\n{markdown(graph)}"
    monkeypatch.setattr("interlock.extras.is_installed", is_missing)
    assert shown("svg") is None


@pytest.mark.parametrize("agent", AGENTS)
def test_every_node_outcome_and_grant_of_an_agent_is_in_its_picture(agent: str):
    found, picture = load_agent(agent), drawn(agent)
    nodes = [node for graph in found.graphs for node in graph.nodes.values()]
    assert texts(picture, "title") == [graph.name for graph in found.graphs]
    assert texts(picture, "name") == [node.name for node in nodes]
    assert texts(picture, "uses") == [", ".join(grant.name for grant in node.grants) for node in nodes if node.grants]
    assert sorted(texts(picture, "goes")) == sorted(outcome for graph in found.graphs for _, outcome, _ in graph.edges)


@pytest.mark.parametrize("agent", AGENTS)
def test_nothing_covers_anything_else_or_leaves_the_picture(agent: str):
    root = read(drawn(agent))
    width, height = number(root, "width"), number(root, "height")
    assert root.get("viewBox") == f"0 0 {width:g} {height:g}"
    boxes: list[tuple[float, float, float, float]] = []
    for group in root.iter(f"{SVG}g"):
        right, down = map(float, re.findall(r"[\d.]+", group.get("transform", "")))
        for box, name in zip(group.findall(f"{SVG}rect"), [t for t in group if t.get("class") in {"name", "word"}], strict=True):
            left, top = right + number(box, "x"), down + number(box, "y")
            boxes.append((left, top, left + number(box, "width"), top + number(box, "height")))
            if name.get("class") == "name":
                assert len(name.text or "") * 7.9 < number(box, "width"), "a name fits its box"
    for left, top, right, bottom in boxes:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    for one, other in combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_a_picture_runs_nothing_and_fetches_nothing():
    picture = "".join(map(drawn, AGENTS)).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"script|href|url\(|@import|@font-face|https?:|<image|<foreignObject|\bon\w+=|<!--|<\?xml|<!DOCTYPE", picture)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read_on_every_background(dark: bool):  # noqa: FBT001 - a case
    found = re.search(r"<style>(.*?)@media[^{]*\{(.*)\}\n</style>", drawn("desk"), re.DOTALL)
    assert found
    rules: dict[str, dict[str, str]] = {}
    for names, body in re.findall(r"([.\w, ]+) \{(.*?)\}", found[1] + (found[2] if dark else "")):
        for name in names.strip().split(", "):
            rules.setdefault(name, {}).update(re.findall(r"([\w-]+): (#\w{6})", body))
    for ground in (".card", ".model", ".tool", ".graph", ".other", ".none"):
        for text in ("text", ".uses"):
            assert contrast(rules[text]["fill"], rules[ground]["fill"]) > 4.5, (text, ground)
    assert contrast(rules[".goes"]["fill"], rules[".goes"]["stroke"]) > 4.5
    assert contrast(rules[".edge"]["stroke"], rules[".card"]["fill"]) > 2.5


def contrast(one: str, other: str) -> float:
    """Compare two colours the way the accessibility guidelines do."""
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def kinds(picture: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for group in read(picture).iter(f"{SVG}g"):
        boxes = [rect.get("class", "").removeprefix("node ") for rect in group.findall(f"{SVG}rect")]
        found |= dict(zip([t.text or "" for t in group if t.get("class") == "name"], boxes, strict=False))
    return found


def test_a_node_is_coloured_for_what_it_does():
    assert kinds(drawn("sam"))["model_call_node"] == "model"
    assert kinds(drawn("sam"))["state_init_node"] == "other"
    assert kinds(drawn("sam"))["router_node"] == "none"
    assert kinds(drawn("analyst"))["tool_executor"] == "tool"
    assert kinds(drawn("desk"))["plan_goal"] == "graph"


@dataclass
class Tower:
    """Nothing."""


class Rung(Outcome): ...


class Silent(Outcome): ...


class Ünder(Outcome): ...  # noqa: PLC2401 - Python has such names


async def ring() -> Rung | Silent:
    return Rung()


async def go_round() -> Ünder | Rung:
    return Rung()


def test_outcomes_that_lead_to_the_same_place_share_an_arrow_and_a_graph_may_go_round():
    rows = [node(ring, goes={Rung: go_round, Silent: go_round}), node(go_round, goes={Ünder: go_round, Rung: END})]
    picture = draw([Graph("bells", state=Tower, entry=ring, nodes=rows)])
    assert texts(picture, "goes") == ["Rung", "Silent", "Ünder", "Rung"]
    assert picture.count('<path class="edge"') == 4, "from the start, both outcomes together, round, and to the end"
