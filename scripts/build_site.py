"""Build the docs as a website into build/site: `make site`.

Pages that are kept outside docs/ become pages of the site, and links to them lead there. Warnings of the builder, such as a link
that leads nowhere, are errors.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AGENTS = ("sam", "desk", "analyst", "gateway", "puntini")
SOURCE = ROOT / "build" / "site-source"
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")
MERMAID = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\|.*$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
FENCE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
ADDED = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{f"src/interlock_agents/{name}/README.md": f"agents/{name}-contracts.md" for name in AGENTS},
    **{f"src/interlock_agents/{name}/document.md": f"agents/{name}-document.md" for name in AGENTS},
}
"""Files of the repository, with their place on the site."""
ON_SITE = {**ADDED, "README.md": "index.md"}


def assemble() -> None:
    """Copy the pages and pictures to one folder, with their links."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", SOURCE)
    pages = {path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    for source, place in {**pages, **ADDED}.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        (SOURCE / place).write_text(unescaped(relinked(pictured(text, place), source, place)), encoding="utf-8")


def unescaped(text: str) -> str:
    """Remove the backslash before a pipe in code in a table: GitHub needs it, and the site's Markdown would show it."""
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)


def pictured(text: str, place: str) -> str:
    """Replace the Mermaid diagrams of an agent's graphs by its picture: a browser could draw them only with a script of another host."""
    agents = [name for name in AGENTS if place in {f"agents/{name}.md", f"agents/{name}-contracts.md"}]
    first, *others = MERMAID.split(text)
    if not agents or not others:
        return text
    # The path is the one in the repository, which `relinked` replaces.
    depth = "../../../docs" if "contracts" in place else ".."
    return f"{first}![The graphs of {agents[0]}]({depth}/pictures/{agents[0]}.svg)\n{''.join(others)}"


def relinked(text: str, source: str, place: str) -> str:
    """Replace the links of a page by links to where their targets are on the site. Code is left as it is."""

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        return posixpath.relpath(ON_SITE.get(target, target.removeprefix("docs/")), posixpath.dirname(place) or ".")

    parts: list[str] = []
    end = 0
    for fence in FENCE.finditer(text):
        parts += [LINK.sub(moved, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(moved, text[end:])])


def main() -> int:
    """Assemble the pages and build the site."""
    assemble()
    command = [Path(sys.executable).with_name("zensical"), "build", "--strict", "--clean"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 - a command of this environment


if __name__ == "__main__":
    sys.exit(main())
