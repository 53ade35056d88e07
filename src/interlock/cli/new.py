"""interlock new."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.screen import print_line, safe
from interlock.discovery import AGENTS
from interlock.errors import FolderUnusable, NameUnusable

__all__ = ["new"]

TEMPLATE = Path(__file__).with_name("scaffold")
"""An agent that is linted, type-checked and tested as it stands there."""

FILES = {
    "README.md": "what it is, and how to make it yours",
    "__init__.py": "the agent: graph, reply, rules and document together",
    "graph.py": "the rows: which node follows on which outcome",
    "state.py": "the fields with their labels, and what can have happened",
    "nodes.py": "one function for each row, in the same order",
    "draft.py": "what the model is asked for",
    "prompt.md": "what the model is told, and the facts",
    "offline.py": "the rules that stand in for a model",
    "document.md": "the architecture document that the rows are held to",
    "test_scaffold.py": "its tests",
}
"""What a new agent is made of, in the order in which it is read."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def new(
    name: Annotated[str, typer.Argument(help="The agent's name: a Python name in lower case.")],
    folder: Annotated[Path, typer.Option("--in", help="The folder to make it in.")] = Path(),
) -> None:
    """Make an agent of your own: a folder with one that works."""
    check_name(name, folder)
    make(name, folder)
    files = {(folder / name / _named(file, name)).as_posix(): what for file, what in FILES.items()}
    width = max(map(len, files))
    print_line(f"'{name}' is made:\n")
    for file, what in files.items():
        print_line(f"  {safe(file):{width}}  {what}")
    print_line("\nTry it:\n")
    for command in commands(name, folder):
        print_line(f"  {safe(command)}")


def commands(name: str, folder: Path) -> list[str]:
    """List what to type next."""
    return [
        *([] if folder == Path() else [f"cd {shlex.quote(folder.as_posix())}"]),
        f'interlock run {name}:agent "How long does delivery take?"',
        f"interlock chat {name}:agent",
        f"interlock show {name}:agent",
        f"interlock verify {name}:agent",
        f"python -m pytest {name}",
    ]


def check_name(name: str, folder: Path) -> None:
    """Refuse a name that Python could not import, or would import something else by."""
    if not _NAME.fullmatch(name):
        raise NameUnusable(f"{name[:80]!r} is not a name for an agent: use up to 40 lower-case letters, digits and '_', a letter first.")
    if keyword.iskeyword(name):
        raise NameUnusable(f"'{name}' is a word of Python's own. Fix: use another name.")
    if name in AGENTS:
        raise NameUnusable(f"'{name}' is an agent that comes with Interlock. Fix: use another name.")
    if name in sys.stdlib_module_names or _is_importable(name, folder):
        raise NameUnusable(f"'{name}' is a module that is installed, and would be mistaken for it. Fix: use another name.")


def _is_importable(name: str, folder: Path) -> bool:
    """Tell whether there is such a module, other than in the place where the agent is to be made."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return False
    places = spec.submodule_search_locations or [spec.origin or ""]
    return any(Path(place).resolve().parent != folder.resolve() for place in places)


def make(name: str, folder: Path) -> None:
    """Make the folder of an agent, whole or not at all. Nothing that is there already is changed."""
    made = folder / name
    try:
        _check_place(made)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as temporary:
            whole = Path(temporary) / name
            whole.mkdir()
            for file in FILES:
                text = TEMPLATE.joinpath(file).read_text(encoding="utf-8")
                whole.joinpath(_named(file, name)).write_text(_named(text, name), encoding="utf-8")
            whole.rename(made)  # refuses what is no empty folder, whoever put it there meanwhile
    except OSError as error:
        raise FolderUnusable(f"'{made}' cannot be made: {error.strerror}.") from error


def _check_place(made: Path) -> None:
    """Refuse a place that is no place, or is taken."""
    if not made.parent.is_dir():
        raise FolderUnusable(f"There is no folder '{made.parent}'. Fix: make it, or name another one by '--in'.")
    if made.with_suffix(".py").exists():
        raise FolderUnusable(f"'{made}.py' is there, and would be hidden by a folder '{made.name}'. Fix: use another name.")
    if made.exists() and (not made.is_dir() or any(made.iterdir())):
        raise FolderUnusable(f"'{made}' is there already. Fix: use another name, or another folder by '--in'.")


def _named(text: str, name: str) -> str:
    return text.replace(TEMPLATE.name, name)
