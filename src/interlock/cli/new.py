"""interlock new."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from interlock.cli.blueprint import read_blueprint, similar_capabilities
from interlock.cli.generated import GENERATED, generate
from interlock.cli.screen import print_line, safe
from interlock.discovery import AGENTS
from interlock.errors import FolderUnusable, NameUnusable

__all__ = ["new"]

TEMPLATE = Path(__file__).with_name("scaffold")
"""An agent that answers questions. It is linted, type-checked and tested as it is."""

FILES = {
    "README.md": "what it is, and how to change it",
    "__init__.py": "the agent: graph, reply, rules and document together",
    "graph.py": "the rows: which node follows on which outcome",
    "state.py": "the fields with their labels, and the outcomes",
    "nodes.py": "one function for each row, in the same order",
    "draft.py": "the schema of the model's reply",
    "prompt.md": "the prompt, with the facts",
    "offline.py": "the rules that answer in place of a model",
    "document.md": "the architecture document that the rows are compared with",
    "test_scaffold.py": "its tests",
}
"""The files of a new agent, in the order in which they are read."""

MINIMAL = Path(__file__).with_name("minimal")
MINIMAL_FILES = {"__init__.py": "the state, one node, the graph and the agent", "test_minimal.py": "its tests"}

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def new(
    name: Annotated[str, typer.Argument(help="The agent's name: a Python name in lower case.")],
    folder: Annotated[Path, typer.Option("--in", help="The folder to create it in.")] = Path(),
    document: Annotated[
        Path | None, typer.Option("--from", help="An architecture document: a Mermaid flowchart and a table of duties.")
    ] = None,
    graph: Annotated[
        str | None, typer.Option(help="With '--from': the graph, for a document that describes several; its heading has the name.")
    ] = None,
    minimal: Annotated[bool, typer.Option("--minimal", help="Create the smallest agent that runs.")] = False,
) -> None:
    """Create an agent of your own in a new folder.

    By default it answers questions. `--from` generates it from an architecture document, `--minimal` creates the smallest one.
    """
    if document is not None and minimal:
        raise typer.BadParameter("'--from' and '--minimal' exclude each other.")
    if graph is not None and document is None:
        raise typer.BadParameter("'--graph' requires '--from'.")
    check_name(name, folder)
    own: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    if document is not None:
        blueprint = read_blueprint(document, graph=graph or name)
        files, purposes, own, added = generate(name, blueprint), GENERATED, blueprint.own, blueprint.added
        first = f"interlock show {name}:agent"
    elif minimal:
        files, purposes = from_template(name, MINIMAL, MINIMAL_FILES), MINIMAL_FILES
        first = f"interlock run {name}:agent Ada"
    else:
        files, purposes = from_template(name), FILES
        first = f'interlock run {name}:agent "How long does delivery take?"'
    make(name, folder, files)
    # The last file of each table is the test, which has the agent's name.
    *_, tests = purposes.values()
    places = {(folder / name / file).as_posix(): purposes.get(file, tests) for file in files}
    width = max(map(len, places))
    print_line(f"'{name}' is created:\n")
    for place, purpose in places.items():
        print_line(f"  {safe(place):{width}}  {purpose}")
    if own:
        print_line(f"\nNew capabilities: {', '.join(map(_introduced, own))}")
    if added:
        place = (folder / name / "document.md").as_posix()
        print_line(f"\nAdded under 'must not' in '{safe(place)}', because it follows from the rest:\n")
    for line in added:
        print_line(f"  {safe(line)}")
    print_line("\nNext:\n")
    for command in commands(name, folder, first):
        print_line(f"  {safe(command)}")


def _introduced(capability: str) -> str:
    """Name a new capability, with those of the library that it may be a misspelling of."""
    similar = " or ".join(f"`{one}`" for one in similar_capabilities(capability))
    return f"`{capability}` (did you mean {similar}?)" if similar else f"`{capability}`"


def commands(name: str, folder: Path, first: str) -> list[str]:
    """List the commands to try next."""
    return list(
        dict.fromkeys(
            [
                *([] if folder == Path() else [f"cd {shlex.quote(folder.as_posix())}"]),
                first,
                f"interlock chat {name}:agent",
                f"interlock show {name}:agent",
                f"interlock verify {name}:agent",
                f"python -m pytest {name}",
            ]
        )
    )


def from_template(name: str, template: Path = TEMPLATE, files: Iterable[str] = FILES) -> dict[str, str]:
    """Return the files of a template with the agent's name in place of the template's."""
    read = {file: template.joinpath(file).read_text(encoding="utf-8") for file in files}
    return {file.replace(template.name, name): text.replace(template.name, name) for file, text in read.items()}


def check_name(name: str, folder: Path) -> None:
    """Refuse a name that Python cannot import, or that is the name of another module."""
    if not _NAME.fullmatch(name):
        raise NameUnusable(f"{name[:80]!r} is not a name for an agent: use up to 40 lower-case letters, digits and '_', a letter first.")
    if keyword.iskeyword(name):
        raise NameUnusable(f"'{name}' is a keyword of Python. Fix: use another name.")
    if name in AGENTS:
        raise NameUnusable(f"'{name}' is an installed agent. Fix: use another name.")
    if name in sys.stdlib_module_names or _is_importable(name, folder):
        raise NameUnusable(f"'{name}' is an installed module. Fix: use another name.")


def _is_importable(name: str, folder: Path) -> bool:
    """Return whether a module of this name exists outside of the folder."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return False
    places = spec.submodule_search_locations or [spec.origin or ""]
    return any(Path(place).resolve().parent != folder.resolve() for place in places)


def make(name: str, folder: Path, files: Mapping[str, str]) -> None:
    """Create the folder of an agent with all files, or not at all. Existing files are never changed."""
    made = folder / name
    try:
        _check_place(made)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder) as temporary:
            whole = Path(temporary) / name
            whole.mkdir()
            for file, text in files.items():
                whole.joinpath(file).write_text(text, encoding="utf-8")
            # A rename fails if the target exists and is not an empty folder, also if another process has just created it.
            whole.rename(made)
    except OSError as error:
        raise FolderUnusable(f"'{made}' cannot be created: {error.strerror}.") from error


def _check_place(made: Path) -> None:
    """Refuse a folder that does not exist, or a name that is in use there."""
    if not made.parent.is_dir():
        raise FolderUnusable(f"There is no folder '{made.parent}'. Fix: create it, or name another one by '--in'.")
    if made.with_suffix(".py").exists():
        raise FolderUnusable(f"'{made}.py' exists, and a folder '{made.name}' would hide it. Fix: use another name.")
    if made.exists() and (not made.is_dir() or any(made.iterdir())):
        raise FolderUnusable(f"'{made}' exists. Fix: use another name, or another folder by '--in'.")
