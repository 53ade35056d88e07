"""Every page of the docs that has code runs, and prints what it says. CONTRIBUTING.md describes the convention."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.forked import Commands

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(`{3,})(\w+)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"(?:#|<!--) (?P<part>in )?(?P<name>(?:\w+/)*[\w-]+\.(?:py|md|toml))(?: -->)?\n")
EXIT_CODE = re.compile(r"# exits with (\d+)$")
HUNK = re.compile(r"^@@.*\n", re.MULTILINE)
PLAIN = re.compile(r"interlock [^|<>&;$`*~\\]*")
ANYTHING = "..."
PAUSE = "_pause()"
PAUSING = """
import importlib as _importlib, os as _os
def _pause():
    _os.write({told}, b".")
    _os.read({going_on}, 1)
    _importlib.invalidate_caches()
"""
AWAITS = re.compile(r"^(?:await |async (?:for|with) |.*[=(] ?await )", re.MULTILINE)
NOTEBOOK = """
import ast as _ast, asyncio as _asyncio, pathlib as _pathlib
_asyncio.run(eval(compile(_pathlib.Path("page.py").read_text(encoding="utf-8"), "page.py", "exec", flags=_ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)))
"""
"""Runs a page as a notebook does: with `await` outside of functions."""


@dataclass
class Shell:
    """A block of shell commands, and what it says that they print."""

    lines: list[str]
    prints: str | None = None

    def take(self, directory: Path, commands: Commands) -> None:
        printed = ""
        for line in self.lines:
            expected = EXIT_CODE.search(line)
            ran = run(line, directory, commands)
            assert ran.returncode == (int(expected[1]) if expected else 0), f"{line}\n{ran.stdout}{ran.stderr}"
            printed += ran.stdout
        if self.prints is not None:
            assert_printed(printed, self.prints)


@dataclass
class Whole:
    """A file that is put into a folder."""

    name: str
    content: str

    def take(self, directory: Path, commands: Commands) -> None:
        (directory / self.name).write_text(self.content, encoding="utf-8")


@dataclass
class Part:
    """Lines that are in a file."""

    name: str
    lines: str

    def take(self, directory: Path, commands: Commands) -> None:
        assert self.lines.strip("\n") in (directory / self.name).read_text(encoding="utf-8"), f"'{self.name}' does not have\n{self.lines}"


@dataclass
class Change:
    """Lines that are in a file, once each, and what is there afterwards."""

    name: str
    hunks: list[str]

    def take(self, directory: Path, commands: Commands) -> None:
        path = directory / self.name
        text = path.read_text(encoding="utf-8")
        for hunk in self.hunks:
            before, after = ("".join(f"{line[1:]}\n" for line in hunk.splitlines() if line[:1] != gone) for gone in "+-")
            assert text.count(before) == 1, f"'{self.name}' does not have, or not once:\n{before}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


Step = Shell | Whole | Part | Change


@dataclass
class Page:
    """A page, taken apart: files to begin with, a script, and what is done where the script pauses."""

    files: dict[str, str] = field(default_factory=dict[str, str])
    script: str = ""
    prints: str = ""
    steps: list[Step] = field(default_factory=list[Step])

    def do(self, step: Step) -> None:
        self.steps.append(step)
        self.script += f"{PAUSE}\n"

    def name(self, name: str, kind: str, body: str, *, rest: str, is_part: bool) -> None:
        """Take a block that begins with the name of a file."""
        if kind == "diff":
            self.do(Change(name, HUNK.split(rest)))
        elif is_part:
            self.do(Part(name, rest))
        elif "/" in name:
            self.do(Whole(name, body))
        else:
            self.files[name] = self.files.get(name, "") + body


def read(text: str) -> Page:
    page = Page()
    before = ""
    for _, kind, body in FENCE.findall(text):
        name = FILE_NAME.match(body)
        if name is not None:
            page.name(name["name"], kind, body, rest=body[name.end() :], is_part=name["part"] is not None)
        elif kind == "python":
            page.script += f"{body}\n"
        elif kind == "sh":
            page.do(Shell(body.splitlines()))
        elif kind == "text" and before == "python":
            page.prints += body
        elif kind == "text" and before == "sh":
            (*_, shell) = (step for step in page.steps if isinstance(step, Shell))
            shell.prints = body
        elif kind == "text":
            pytest.fail(f"This text follows no code, so nothing can check it:\n{body}")
        before = "file" if name is not None else kind
    return page


def environment() -> dict[str, str]:
    """Put the commands beside this interpreter first, and leave out whatever this machine sets."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return kept | {"PATH": path, "PYTHONUTF8": "1", "COLUMNS": "80", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run(line: str, directory: Path, commands: Commands) -> subprocess.CompletedProcess[str]:
    """Run a line as the shell does; what is nothing but a command of ours is run faster."""
    env = environment() | {"HOME": str(directory)}
    if PLAIN.fullmatch(line):
        (_, *arguments) = shlex.split(line, comments=True)
        ran = commands.run(arguments, given=b"", cwd=directory, env=env, timeout=300)
        return subprocess.CompletedProcess(line, ran.returncode, ran.stdout.decode(), ran.stderr.decode())
    return subprocess.run(["/bin/sh", "-c", line], cwd=directory, env=env, check=False, capture_output=True, text=True, encoding="utf-8")


def assert_printed(printed: str, said: str) -> None:
    if ANYTHING not in said:
        assert printed == said
    else:
        pattern = "(?s:.*)".join(re.escape(part) for part in said.split(ANYTHING))
        assert re.fullmatch(pattern, printed), f"The page says\n{said}\nbut this was printed:\n{printed}"


@dataclass
class Script:
    """A page's script while it runs, in a process of its own."""

    told: int
    going_on: int
    printed: str = ""

    def has_paused(self) -> bool:
        """Wait until it pauses, or has ended."""
        return bool(os.read(self.told, 1))

    def go_on(self) -> None:
        os.write(self.going_on, b".")


@contextmanager
def started(code: str, directory: Path) -> Generator[Script, None, None]:
    """Run a script that pauses, and see to it that it ends well."""
    told, tell = os.pipe()
    wait, going_on = os.pipe()
    (directory / "page.py").write_text(PAUSING.format(told=tell, going_on=wait) + code, encoding="utf-8")
    # Only lines that begin in the first column are outside of a function.
    is_notebook = any(AWAITS.match(line) for line in code.splitlines() if not line.startswith(" "))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out, tempfile.TemporaryFile("w+", encoding="utf-8") as err:
        child = subprocess.Popen(
            [sys.executable, "-W", "error", *(["-c", NOTEBOOK] if is_notebook else ["page.py"])],
            cwd=directory,
            env=environment() | {"HOME": str(directory)},
            stdout=out,
            stderr=err,
            pass_fds=(tell, wait),
        )
        os.close(tell)
        os.close(wait)
        script = Script(told, going_on)
        try:
            yield script
            ended = child.wait()
        finally:
            child.kill()
            child.wait()
            os.close(told)
            os.close(going_on)
        err.seek(0)
        assert ended == 0, err.read()
        out.seek(0)
        script.printed = out.read()


CODE = re.compile(r"^`{3,}(?:python|sh)$", re.MULTILINE)
PAGES = [page for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if CODE.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in PAGES])
def test_a_page_does_what_it_says(path: Path, tmp_path: Path, commands: Commands):
    page = read(path.read_text(encoding="utf-8"))
    for name, content in page.files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    if page.script.replace(f"{PAUSE}\n", ""):
        with started(page.script, tmp_path) as script:
            for step in page.steps:
                if script.has_paused():
                    step.take(tmp_path, commands)
                    script.go_on()
        assert_printed(script.printed, page.prints)
    else:
        for step in page.steps:
            step.take(tmp_path, commands)


def test_the_pages_that_a_newcomer_follows_have_code():
    names = {path.relative_to(ROOT).as_posix() for path in PAGES}
    # These clients need a server on a port: tests/interop and tests/server have a test of each.
    names |= {f"docs/howto/{protocol}-clients.md" for protocol in ("mcp", "agui", "a2a")}
    assert {"README.md", "docs/tutorial.md", *(p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/howto/*.md"))} <= names
