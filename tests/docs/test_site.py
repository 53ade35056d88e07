"""The docs are one website that needs no other host, and every link in it leads somewhere."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LOADED = {("script", "src"), ("link", "href"), ("img", "src"), ("iframe", "src")}


class Links(HTMLParser):
    """Collects the anchors of a page, its links, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name in {"id", "name"}:
                self.anchors.add(value)
            if (tag, name) in LOADED:
                self.loaded.add(value)
            if (tag, name) == ("a", "href"):
                self.links.add(value)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the site is built from."""
    root = tmp_path_factory.mktemp("site")
    for name in ("mkdocs.yml", "CONTRIBUTING.md", "CHANGELOG.md", "scripts/build_site.py"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / "docs", root / "docs")
    for page in ROOT.glob("src/interlock_agents/*/*.md"):
        target = root / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, target)
    return root


def build(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/build_site.py"]
    return subprocess.run(command, cwd=root, check=False, capture_output=True, text=True, encoding="utf-8")


@pytest.fixture(scope="module")
def site(root: Path) -> dict[Path, Links]:
    """Every page of the site."""
    built = build(root)
    assert built.returncode == 0, built.stdout + built.stderr
    pages: dict[Path, Links] = {}
    for path in sorted((root / "build/site").rglob("*.html")):
        pages[path] = Links()
        pages[path].feed(path.read_text(encoding="utf-8"))
    return pages


def test_every_page_is_on_the_site(site: dict[Path, Links], root: Path):
    built = {path.relative_to(root / "build/site").with_suffix("").as_posix() for path in site}
    written = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert written | {"contributing", "changelog", "agents/sam-contracts", "agents/sam-document"} <= built


def test_every_link_leads_to_a_page_and_a_heading(site: dict[Path, Links]):
    dead: list[str] = []
    for page, found in site.items():
        if page.name == "404.html":
            continue
        for link in found.links:
            path, anchor = urldefrag(link)
            if "://" in link or link.startswith("mailto:"):
                continue
            target = (page.parent / unquote(path)).resolve() if path else page
            if target.is_dir():
                target /= "index.html"
            if not target.is_file() or (anchor and target in site and unquote(anchor) not in site[target].anchors):
                dead.append(f"{page.name}: {link}")
    assert dead == []


def test_no_page_loads_anything_from_another_host(site: dict[Path, Links]):
    assert [url for found in site.values() for url in found.loaded if re.match(r"(https?:)?//", url)] == []


def test_the_site_can_be_searched(site: dict[Path, Links], root: Path):
    assert site
    index = (root / "build/site/search.json").read_text(encoding="utf-8")
    assert "A person in the loop" in index


def test_a_link_that_leads_nowhere_fails_the_build(root: Path, tmp_path: Path):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns("build"))
    page = copy / "docs/glossary.md"
    page.write_text(f"{page.read_text(encoding='utf-8')}\n[nowhere](errors.md#nowhere)\n", encoding="utf-8")
    built = build(copy)
    assert built.returncode != 0
    assert "glossary.md" in built.stdout + built.stderr


@pytest.mark.parametrize("page", ["agents/desk-contracts.html", "agents/analyst.html"])
def test_the_graphs_of_an_agent_are_a_picture(site: dict[Path, Links], root: Path, page: str):
    path = root / "build/site" / page
    (picture,) = [loaded for loaded in site[path].loaded if loaded.endswith(".svg") and "pictures" in loaded]
    assert (path.parent / picture).is_file()
    assert "flowchart" not in path.read_text(encoding="utf-8")


def test_a_type_in_a_table_has_no_backslash(site: dict[Path, Links], root: Path):
    page = root / "build/site/howto/agent-options.html"
    assert page in site
    assert "<code>str | None</code>" in page.read_text(encoding="utf-8")


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, in which the builder finds functions by their names."""


def ignore(_: yaml.SafeLoader, __: str, ___: yaml.Node) -> None:
    return None


Loader.add_multi_constructor("tag:yaml.org,2002:python/", ignore)


def test_every_page_is_in_the_navigation_once():
    sections: list[dict[str, list[str]]] = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader)["nav"]  # noqa: S506 - a safe loader
    listed = [page for section in sections for pages in section.values() for page in pages]
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in ROOT.glob("docs/**/*.md") if page.parent.name != "decisions"]
    assert sorted(listed) == sorted([*pages, "contributing.md", "changelog.md"])


def test_code_keeps_its_links_and_prose_does_not():
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "scripts/build_site.py")
    assert spec
    assert spec.loader
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = "[a](../../CHANGELOG.md#x)\n\n```md\n[a](../../CHANGELOG.md)\n```\n[b](../errors.md)\n"
    moved = "[a](../changelog.md#x)\n\n```md\n[a](../../CHANGELOG.md)\n```\n[b](../errors.md)\n"
    assert script.relinked(text, "docs/howto/a.md", "howto/a.md") == moved


def test_every_extra_is_on_the_page_about_deployment():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    section = (ROOT / "docs/howto/deployment.md").read_text(encoding="utf-8").partition("## Extras")[2].partition("## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == set(extras)
