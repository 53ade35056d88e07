"""The docs hang together: links lead somewhere, names exist, generated parts are those of the code."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.discovery import AGENTS
from interlock.server.app import Server, create_app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("src/interlock_agents/*/*.md"))]
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
MODULE = re.compile(r"`([\w/]+\.py)`")
PICTURES = sorted(ROOT.glob("docs/pictures/*.svg"))
PART = re.compile(r"^<!-- generated: .*?^<!-- end generated -->$", re.MULTILINE | re.DOTALL)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Make the anchors of a page's headings, the way GitHub does."""
    headings: list[str] = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_link_leads_somewhere(page: Path):
    links: list[str] = LINK.findall(prose(page))
    for link in links:
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"'{link}' leads nowhere"
        assert target.is_relative_to(ROOT), f"'{link}' leads out of the repository"
        assert not anchor or anchor in anchors(target), f"'{link}' leads to no heading"


# A decision record says what was so when it was made, and is not changed afterwards.
@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "decisions"], ids=name)
def test_a_module_that_a_page_names_exists(page: Path):
    homes = (ROOT, ROOT / "src", ROOT / "src/interlock", page.parent)
    if page.parent == ROOT or page.parts[-2] == "docs":
        homes = (*homes, *(ROOT / "src/interlock_agents" / agent for agent in AGENTS))
    for module in MODULE.findall(prose(page)):
        assert any((home / module).is_file() for home in homes), f"there is no '{module}'"


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links: list[str] = LINK.findall(page.read_text(encoding="utf-8"))
        linked = {(page.parent / link.partition("#")[0]).resolve() for link in links if "://" not in link}
        waiting += [target for target in linked - reached if target.suffix == ".md"]
    assert {name(page) for page in PAGES} - {name(page) for page in reached} == set()


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_has_a_page_and_a_readme_with_its_contracts(agent: str):
    assert (ROOT / f"docs/agents/{agent}.md").is_file()
    assert f"<!-- generated: contracts {agent} -->" in (ROOT / f"src/interlock_agents/{agent}/README.md").read_text(encoding="utf-8")


def test_every_agent_has_a_picture():
    assert [picture.stem for picture in PICTURES] == sorted(AGENTS)


@pytest.mark.parametrize("module", ["interlock", "interlock.capabilities", "interlock.testing"])
def test_every_public_name_is_in_the_reference_with_a_sentence(module: str):
    text = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    section = text.partition(f"<!-- generated: reference {module} -->")[2].partition("<!-- end generated -->")[0]
    described = dict(re.findall(r"^### `(\w+)`\n\n(.*?)(?=^### |\Z)", section, re.MULTILINE | re.DOTALL))
    assert set(described) == set(importlib.import_module(module).__all__)
    assert [name for name, words in described.items() if not FENCE.sub("", words).strip()] == []


def test_every_request_that_changes_something_is_on_the_page_about_the_server():
    server: Server = create_app(Interlock()).state.server
    routes = {f"{route.method} {re.sub('{(.*?)}', lambda name: name[1].upper(), route.path)}" for route in server.routes}
    page = (ROOT / "docs/howto/serve.md").read_text(encoding="utf-8")
    changing = [route for route in sorted(routes) if " /api/" in route and not route.startswith("GET ")]
    assert len(changing) > 3
    assert [route for route in changing if f"`{route}`" not in page] == []


def test_a_decision_has_its_own_number_in_the_index():
    listed = re.findall(r"^- \[(\d+)\. .*?\]\(decisions/(\d+)-", (ROOT / "docs/index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len([*ROOT.glob("docs/decisions/*.md")])
    assert [(shown, file) for shown, file in listed if int(shown) != int(file)] == []


RULED = ("contract/rules.py", "grant_checks.py", "agent.py", "compiler.py")


def test_every_rule_of_a_graph_is_listed():
    source = "".join((ROOT / "src/interlock" / module).read_text(encoding="utf-8") for module in RULED)
    rules = set(re.findall(r'(?:self\.say|Problem)\(\s*"(\w+)"', source))
    section = (ROOT / "docs/errors.md").read_text(encoding="utf-8").partition("## The rules of a graph")[2]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == rules


def test_the_readme_shows_what_the_tour_prints(tmp_path: Path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = [body.removeprefix("$ make run\n") for _, _, body in FENCE.findall(readme) if body.startswith("$ make run\n")]
    ran = subprocess.run(
        [Path(sys.executable).with_name("interlock"), "tour"],
        cwd=tmp_path,
        env=clean() | {"COLUMNS": "80", "PYTHONUTF8": "1"},
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    written = ".*?".join(re.escape(part) for part in shown.removesuffix("...\n").split("..."))
    assert re.match(written, ran.stdout, re.DOTALL)


# Generated parts


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}


def generate(root: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/docs.py", *options]
    return subprocess.run(command, cwd=root, env=clean() | environment, check=False, capture_output=True, text=True, encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    for source in [*PAGES, *PICTURES, ROOT / "scripts/docs.py", ROOT / "scripts/reference.py", ROOT / "benchmarks/compare/figures.json"]:
        target = root / name(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
    return root


def test_generated_parts_are_in_step():
    ran = generate(ROOT, "--check")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_generated_parts_do_not_depend_on_where_they_are_made(tmp_path: Path):
    surroundings = {"COLUMNS": "33", "TERMINAL_WIDTH": "33", "LC_ALL": "C", "PYTHONUTF8": "0", "FORCE_COLOR": "1", "TERM": "dumb"}
    settings = {"INTERLOCK_MODEL": "unheard-of", "INTERLOCK_ENGINE": "steam", "INTERLOCK_DATA_DIR": str(tmp_path)}
    ran = generate(ROOT, "--check", **surroundings, **settings)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_generated_part_that_was_changed_is_named_and_can_be_written_again(copy: Path):
    generated = [page for page in PAGES if PART.search(page.read_text(encoding="utf-8"))]
    expected = {"README.md", "docs/cli.md", "docs/errors.md", "docs/howto/settings.md", "docs/reference.md"}
    assert expected < {name(page) for page in generated}
    for page in generated:
        spoilt = PART.sub(lambda part: part[0].replace("<!-- end", "spoilt\n<!-- end"), page.read_text(encoding="utf-8"))
        (copy / name(page)).write_text(spoilt, encoding="utf-8")
    (copy / name(PICTURES[0])).write_text("spoilt", encoding="utf-8")
    (copy / name(PICTURES[1])).unlink()

    checked = generate(copy, "--check")
    assert checked.returncode == 1
    assert {line.partition(":")[0] for line in checked.stdout.splitlines()} == {name(path) for path in [*generated, *PICTURES[:2]]}
    assert "spoilt" in (copy / "docs/cli.md").read_text(encoding="utf-8"), "--check must not write"

    assert generate(copy).returncode == 0
    assert [path for path in [*PAGES, *PICTURES] if (copy / name(path)).read_bytes() != path.read_bytes()] == []


def test_a_generated_part_without_an_end_is_refused(copy: Path):
    page = copy / "docs/index.md"
    whole = page.read_text(encoding="utf-8")
    page.write_text(whole.replace("<!-- end generated -->", ""), encoding="utf-8")
    ran = generate(copy, "--check")
    page.write_text(whole, encoding="utf-8")
    assert ran.returncode == 1
    assert "docs/index.md" in ran.stderr
