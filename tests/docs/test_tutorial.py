"""Every page of the docs that has code runs, and prints what it says. CONTRIBUTING.md describes the convention."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(`{3,})(\w+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"(?:#|<!--) ([\w-]+\.(?:py|md|toml))(?: -->)?\n")
EXIT_CODE = re.compile(r"# exits with (\d+)$")
ANYTHING = "..."


@dataclass
class Commands:
    """A block of shell commands, and what it says that they print."""

    lines: list[str]
    prints: str | None = None


@dataclass
class Page:
    """A page, taken apart: files to write, a script to run, commands to run after it."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    script: str = ""
    prints: str = ""
    commands: list[Commands] = field(default_factory=list[Commands])


def read(text: str) -> Page:
    page = Page()
    before = ""
    for _, kind, body in FENCE.findall(text):
        name = FILE_NAME.match(body)
        if name is not None:
            page.files[name[1]] = page.files.get(name[1], "") + body
        elif kind == "python":
            page.script += f"{body}\n"
        elif kind == "sh":
            page.commands.append(Commands(body.splitlines()))
        elif kind == "text" and before == "python":
            page.prints += body
        elif kind == "text" and before == "sh":
            page.commands[-1].prints = body
        elif kind == "text":
            pytest.fail(f"This text follows no code, so nothing can check it:\n{body}")
        before = "file" if name is not None else kind
    return page


def environment() -> dict[str, str]:
    """Put the commands beside this interpreter first, and leave out whatever this machine sets."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return kept | {"PATH": path, "PYTHONUTF8": "1", "COLUMNS": "80"}


def run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, env=environment() | {"HOME": str(directory)}, check=False, capture_output=True, text=True, encoding="utf-8"
    )


def assert_printed(printed: str, said: str) -> None:
    if ANYTHING not in said:
        assert printed == said
    else:
        pattern = "(?s:.*)".join(re.escape(part) for part in said.split(ANYTHING))
        assert re.fullmatch(pattern, printed), f"The page says\n{said}\nbut this was printed:\n{printed}"


CODE = re.compile(r"^`{3,}(?:python|sh)$", re.MULTILINE)
PAGES = [page for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if CODE.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in PAGES])
def test_a_page_does_what_it_says(path: Path, tmp_path: Path):
    page = read(path.read_text(encoding="utf-8"))
    for name, content in page.files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "page.py").write_text(page.script, encoding="utf-8")
    ran = run([sys.executable, "-W", "error", "page.py"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert_printed(ran.stdout, page.prints)
    for block in page.commands:
        printed = ""
        for line in block.lines:
            expected = EXIT_CODE.search(line)
            ran = run(["/bin/sh", "-c", line], tmp_path)
            assert ran.returncode == (int(expected[1]) if expected else 0), f"{line}\n{ran.stdout}{ran.stderr}"
            printed += ran.stdout
        if block.prints is not None:
            assert_printed(printed, block.prints)


def test_the_pages_that_a_newcomer_follows_have_code():
    names = {path.relative_to(ROOT).as_posix() for path in PAGES}
    assert {"README.md", "docs/tutorial.md", *(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/howto/*.md"))} <= names
