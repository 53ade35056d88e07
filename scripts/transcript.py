"""Write docs/transcript.md: real commands and what they print; or with `--check` exit with 1 if it is out of date.

The commands run in this process, one after the other, in a fresh directory and with nothing of this machine's environment. What
differs from run to run, the ids of turns, is replaced by dots.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from interlock.cli import app
from interlock.errors import InterlockError

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "transcript.md"
IDS = re.compile(r"\b[0-9a-f]{32}\b")
HEAD = """# At the terminal

These commands were run one after the other in an empty directory, without a key, a network or a language model. `scripts/transcript.py`
writes this page: do not edit it, run `make docs`. A test runs the commands again and compares.
"""
BROKEN = """\
from dataclasses import dataclass

from interlock import END, Graph, Outcome, node


@dataclass
class State:
    question: str
    answer: str


class Answered(Outcome):
    answer: str


class Refused(Outcome): ...


async def ask(question: str) -> Answered | Refused:
    return Answered(answer="yes") if question else Refused()


async def shout(anwser: str) -> Answered:
    return Answered(answer=anwser.upper())


helper = Graph("helper", state=State, entry=ask, nodes=[node(ask, goes={Answered: shout}), node(shout, goes={Answered: END})])
"""
FILES = {"broken.py": BROKEN}


@dataclass(frozen=True)
class Scene:
    """Some commands that show one thing. The title's words also name the scene for pages that show it."""

    title: str
    sentence: str
    commands: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.title.lower().replace(" ", "_")


SCENES = (
    Scene("Five agents", "The agents that come with Interlock.", ("interlock agents",)),
    Scene(
        "A turn",
        "Without a model an agent answers by its own rules, and says so. Unusable input ends the turn with an error code and exit code 1.",
        ('interlock run sam "What does an interlocking do?"', 'interlock run sam "data:image/png;base64,AAAA"'),
    ),
    Scene(
        "A conversation",
        "The desk answers a question in between, and then resumes the order.",
        (
            'interlock run desk "I want to buy a steel desk lamp dimmable" --session shop',
            'interlock run desk "How do I return a product?" --session shop',
            'interlock run desk "Two, please" --session shop',
        ),
    ),
    Scene(
        "Data",
        "Two tools run concurrently. Each statement names the call that it comes from.",
        ('interlock run analyst "revenue by country in 2025; what is net revenue?"',),
    ),
    Scene(
        "Files out of reach",
        "A customer's worker cannot leave its folder.",
        ('interlock run gateway "Read /docs/../admin/credentials.env" --as user',),
    ),
    Scene(
        "A property graph",
        "A goal becomes actions, each of them a transaction.",
        (
            'interlock run puntini "Create a project Apollo with tasks Design and Build" --session plan',
            "interlock graphs draw plan",
        ),
    ),
    Scene(
        "Replay",
        "Replay a recorded turn without calling the model.",
        ('interlock run sam "Good morning" --record turn.jsonl', "interlock replay turn.jsonl"),
    ),
    Scene(
        "A broken contract",
        "One outcome leads nowhere, and one name is misspelt. The graph is not built, and the command exits with 2.",
        ("cat broken.py", "interlock run broken:helper hello"),
    ),
    Scene("Guarantees", "What sam guarantees, each with its proof.", ("interlock verify sam",)),
)


@contextmanager
def elsewhere() -> Generator[None]:
    """Change to a new directory, with an environment that has none of this machine's settings."""
    before, variables = Path.cwd(), dict(os.environ)  # noqa: TID251 - commands read it
    with tempfile.TemporaryDirectory(prefix="interlock-transcript-") as folder:
        for name in [name for name in variables if name.startswith("INTERLOCK_")]:
            del os.environ[name]  # noqa: TID251 - commands read it
        os.environ.update(INTERLOCK_ENGINE="direct", COLUMNS="80", HOME=folder)  # noqa: TID251 - the engine that starts fastest
        for name, text in FILES.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.clear()  # noqa: TID251 - commands read it
            os.environ.update(variables)  # noqa: TID251 - commands read it


def printed(command: str) -> str:
    """Run a command and return what it prints."""
    program, *arguments = shlex.split(command)
    if program == "cat":
        return Path(arguments[0]).read_text(encoding="utf-8")
    ran = CliRunner().invoke(app, arguments, prog_name=program, color=False)
    output = ran.output
    if isinstance(ran.exception, InterlockError):  # as `main` shows it
        output += f"{ran.exception.code}: {ran.exception.message}\n"
    elif ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return IDS.sub("...", output)


def written() -> str:
    """Run everything and write the page."""
    parts = [HEAD]
    with elsewhere():
        for scene in SCENES:
            lines = "".join(f"$ {command}\n{printed(command).rstrip()}\n" for command in scene.commands)
            parts.append(f"## {scene.title}\n\n{scene.sentence}\n\n```console\n{lines}```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or check it."""
    fresh, kept = written(), PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    if fresh == kept:
        return 0
    name = PAGE.relative_to(ROOT).as_posix()
    if "--check" in sys.argv[1:]:
        print(f"{name}: out of date; run `make docs`")
        return 1
    PAGE.write_text(fresh, encoding="utf-8", newline="\n")
    print(f"{name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
