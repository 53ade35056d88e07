"""Write the generated parts of the docs, or with `--check` name the files whose parts are out of step and exit with 1.

A generated part stands between `<!-- generated: KIND NAME -->` and `<!-- end generated -->`. NAME is left out where the
kind needs none. What stands there depends on the code alone: not on the terminal, the locale or the environment.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic.fields import FieldInfo
from typer.testing import CliRunner

from interlock import Settings
from interlock.cli import app
from interlock.contract.draw import markdown, mermaid
from interlock.contract.shapes import render
from interlock.errors import InterlockError
from interlock.wiring import AGENTS, load_agent

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(r"^(<!-- generated: (\w+)(?: ([\w.]+))? -->\n).*?^(<!-- end generated -->)$", re.DOTALL | re.MULTILINE)
OPENING = re.compile(r"^<!-- generated: ", re.MULTILINE)
WIDTH = 80


def pages() -> list[Path]:
    """List the pages that may have generated parts."""
    return [*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("src/interlock/agents/*/README.md"))]


def fenced(kind: str, text: str) -> str:
    """Put text into a fence."""
    return f"```{kind}\n{text.rstrip()}\n```\n"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Write a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def agents(_: str) -> str:
    """List the agents."""
    rows = [[f"[`{name}`](agents/{name}.md)", load_agent(name).summary] for name in AGENTS]
    return table(["agent", "what it does"], rows)


def diagram(name: str) -> str:
    """Draw every graph of an agent."""
    return "\n".join(fenced("mermaid", mermaid(graph)) for graph in load_agent(name).graphs)


def contracts(name: str) -> str:
    """Write the contract table of every graph of an agent, and draw it."""
    graphs = load_agent(name).graphs
    heading = "### `{}`\n\n" if len(graphs) > 1 else ""
    return "\n".join(f"{heading.format(graph.name)}{markdown(graph)}\n{fenced('mermaid', mermaid(graph))}" for graph in graphs)


def commands(_: str) -> str:
    """Write the help of the command line and of each of its commands."""
    names = [command.name for command in app.registered_commands if command.name is not None]
    return "\n".join(f"## {' '.join(['interlock', *verb])}\n\n{help_of(*verb)}" for verb in [[], *([name] for name in names)])


def help_of(*verb: str) -> str:
    """Ask a command for its help."""
    ran = CliRunner().invoke(app, [*verb, "--help"], prog_name="interlock", color=False, terminal_width=WIDTH)
    if ran.exit_code != 0:
        raise SystemExit(f"'interlock {' '.join(verb)} --help' failed:\n{ran.output}")
    return fenced("text", ran.output)


def errors(_: str) -> str:
    """Write a table of every error, a class after the one it belongs to."""
    rows = [
        [f"`{found.__name__}`", f"`{parent}`", f"`{found.code}`", "yes" if found.transient else "no", (found.__doc__ or "").strip()]
        for found, parent in tree(InterlockError, "Exception")
    ]
    return table(["error", "is a", "code", "transient", "what happened"], rows)


def tree(found: type[InterlockError], parent: str) -> Iterator[tuple[type[InterlockError], str]]:
    """Walk the errors that Interlock itself declares."""
    yield found, parent
    for child in found.__subclasses__():
        if child.__module__ == InterlockError.__module__:
            yield from tree(child, found.__name__)


def settings(_: str) -> str:
    """Write a table of the settings."""
    rows = [row(name, field) for name, field in Settings.model_fields.items()]
    return table(["setting", "in the environment", "type", "default", "what it says"], rows)


def row(name: str, field: FieldInfo) -> list[str]:
    """Write the line of a setting."""
    variable = f"{Settings.model_config.get('env_prefix', '')}{name}".upper()
    default = field.get_default(call_default_factory=True, validated_data={})
    kind = render(field.annotation).replace("|", "\\|")
    shown = "its own list" if isinstance(default, tuple) else f"`{default}`"  # patterns are too long for a table
    return [f"`{name}`", f"`{variable}`", f"`{kind}`", shown, field.description or ""]


KINDS: dict[str, Callable[[str], str]] = {
    "agents": agents,
    "commands": commands,
    "contracts": contracts,
    "diagram": diagram,
    "errors": errors,
    "settings": settings,
}


def renewed(page: Path, text: str) -> str:
    """Write the generated parts of a page anew."""
    known = [part for part in PART.finditer(text) if part[2] in KINDS]
    if len(known) != len(OPENING.findall(text)):
        raise SystemExit(f"{page.relative_to(ROOT)}: a generated part has no end, or is of no kind among {', '.join(KINDS)}.")
    return PART.sub(lambda part: f"{part[1]}\n{KINDS[part[2]](part[3] or '')}\n{part[4]}", text)


def main() -> int:
    """Write the parts, or check them."""
    check = "--check" in sys.argv[1:]
    stale = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        fresh = renewed(page, text)
        if fresh == text:
            continue
        stale += 1
        print(f"{page.relative_to(ROOT).as_posix()}: {'out of step; run `make docs`' if check else 'written'}")
        if not check:
            page.write_text(fresh, encoding="utf-8", newline="\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
