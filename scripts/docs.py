"""Write the generated parts of the docs and the pictures, or with `--check` name the files that are out of date and exit with 1.

A generated part is between `<!-- generated: KIND NAME -->` and `<!-- end generated -->`. NAME is left out if the kind needs none.
Generated parts depend on the code and on recorded measurements and transcripts, not on the terminal, the locale or the environment.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from reference import options, reference
from typer.testing import CliRunner

from interlock import Settings
from interlock.cli import app
from interlock.contract.render import markdown, mermaid
from interlock.contract.type_hints import format_type
from interlock.discovery import load_agent
from interlock.drawing import draw
from interlock.errors import InterlockError
from interlock.server.request_errors import RequestError
from interlock_agents import INTRODUCED

ROOT = Path(__file__).resolve().parents[1]
PART = re.compile(r"^(<!-- generated: (\w+)(?: ([\w.]+))? -->\n).*?^(<!-- end generated -->)$", re.DOTALL | re.MULTILINE)
OPENING = re.compile(r"^<!-- generated: ", re.MULTILINE)
SCENE = re.compile(r"^## ([^\n]+)\n.*?^(```console\n.*?^```)$", re.DOTALL | re.MULTILINE)
WIDTH = 80
PICTURES = ROOT / "docs" / "pictures"
FIGURES = ROOT / "benchmarks" / "compare" / "figures.json"
TRANSCRIPT = ROOT / "docs" / "transcript.md"


def pages() -> list[Path]:
    """List the pages that may have generated parts."""
    return [*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("src/interlock_agents/*/README.md"))]


def fenced(kind: str, text: str) -> str:
    """Put text into a fence."""
    return f"```{kind}\n{text.rstrip()}\n```\n"


def table(header: list[str], rows: list[list[str]]) -> str:
    """Write a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def agents(folder: str) -> str:
    """List the agents, for a page that has docs/ in this folder, or is in docs/ itself."""
    home = f"{folder}/" if folder else ""
    rows = [[f"[`{name}`]({home}agents/{name}.md)", load_agent(name).summary, size_of(name, home)] for name in INTRODUCED]
    return table(["agent", "what it does", "its graphs"], rows)


def size_of(agent: str, home: str) -> str:
    """Write the size of an agent, with a link to its picture."""
    graphs = load_agent(agent).graphs
    nodes = sum(len(graph.nodes) for graph in graphs)
    return f"[{counted(len(graphs), 'graph')}, {counted(nodes, 'node')}]({home}pictures/{agent}.svg)"


def counted(number: int, word: str) -> str:
    """Write a number with its word."""
    return f"{number} {word}{'' if number == 1 else 's'}"


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
    """Yield the errors that Interlock itself declares, each with its parent."""
    yield found, parent
    for child in found.__subclasses__():
        if child.__module__ in {InterlockError.__module__, RequestError.__module__}:
            yield from tree(child, found.__name__)


def settings(_: str) -> str:
    """Write a table of the settings."""
    kinds = [Settings, *(kind for kind in (load_agent(name).settings for name in INTRODUCED) if kind is not None)]
    rows = [row(name, field) for kind in kinds for name, field in kind.model_fields.items()]
    return table(["setting", "in the environment", "type", "default", "what it says"], rows)


def row(name: str, field: FieldInfo) -> list[str]:
    """Write the line of a setting."""
    variable = f"{Settings.model_config.get('env_prefix', '')}{name}".upper()
    default = field.get_default(call_default_factory=True, validated_data={})
    kind = format_type(field.annotation).replace("|", "\\|")
    shown = "its own list" if isinstance(default, tuple) else f"`{default}`"  # patterns are too long for a table
    return [f"`{name}`", f"`{variable}`", f"`{kind}`", shown, field.description or ""]


def comparison(_: str) -> str:
    """Write the table of the measurements, and how they were made."""
    found = figures()
    header = ["", "time of a turn", "its CPU time", f"rate of {found['at_once']:,} at once", "time to import"]
    rows = [
        [
            f"{one['name']} {one['version']}" if "Interlock" not in one["name"] else one["name"],
            f"{times(one['turn_ratio'])} ({one['turn_us']:,.0f} µs)",
            f"{times(one['turn_cpu_ratio'])} ({one['turn_cpu_us']:,.0f} µs)",
            f"{times(one['at_once_ratio'])} ({one['at_once_per_s']:,} a second)",
            f"{times(one['import_ratio'])} ({one['import_ms']:,.0f} ms)",
        ]
        for one in found["measured"]
    ]
    notes = [
        "Ratios to LangGraph by hand in the same round, with the measured value:",
        f"medians of {found['rounds']} rounds for a turn and of {found['few_rounds']} for the rest.",
        "In a round each library runs once, in a process of its own.",
        f"The model answers at once, or after 50 ms where {found['at_once']:,} turns run at once.",
        "Interlock's checks, budgets and redaction are on.",
        f"Measured on {found['date']} with Python {found['python']} on {counted(found['cpus'], 'CPU')}.",
        *(f"{name} could not be measured." for name in found["skipped"]),
    ]
    return f"{table(header, rows)}\n{textwrap.fill(' '.join(notes), 120)}\n"


def times(ratio: float) -> str:
    """Write a ratio, with as many digits as mean something."""
    return f"{ratio:.2f} x" if ratio < 10 else f"{ratio:.0f} x"  # noqa: PLR2004 - a digit less from there


MISTAKES = {
    "wrong_type": "a node writes a number where the state says text",
    "leads_nowhere": "an outcome leads nowhere",
    "no_such_field": "a node reads a field that does not exist",
    "undeclared_write": "a node writes a field of another node",
    "borrowed_model": "a node calls the model of another node",
    "never_reached": "a node cannot be reached",
    "endless": "the graph loops and never ends",
}


def mistakes(_: str) -> str:
    """Write the table of which library notices which mistake, and when."""
    found: dict[str, dict[str, dict[str, str]]] = figures()["mistakes"]
    rows = [[words, *(caught(library[name]) for library in found.values())] for name, words in MISTAKES.items()]
    return table(["the mistake", *found], rows)


def caught(one: dict[str, str]) -> str:
    """Describe when a mistake is caught: by the type checker, at build, at run, or not at all."""
    said = {"build": "at build", "run": "at run", "dropped": "no, but has no effect", "no": "no"}[one["caught"]]
    if one["type_checker"] == "no":
        return said
    return "type checker" if said == "no" else f"type checker, {said}"


def figures() -> dict[str, Any]:
    """Read what was measured."""
    return json.loads(FIGURES.read_text(encoding="utf-8"))


def transcript(scene: str) -> str:
    """Copy a scene of the transcript, which scripts/transcript.py writes."""
    scenes = {title.lower().replace(" ", "_"): block for title, block in SCENE.findall(TRANSCRIPT.read_text(encoding="utf-8"))}
    if scene not in scenes:
        raise SystemExit(f"{TRANSCRIPT.name} has no scene '{scene}': it has {', '.join(scenes)}.")
    return f"{scenes[scene]}\n"


def pictures() -> dict[Path, str]:
    """Draw every agent."""
    found = {name: load_agent(name) for name in INTRODUCED}
    return {PICTURES / f"{name}.svg": draw(agent.graphs, behind=agent.subgraphs) for name, agent in found.items()}


KINDS: dict[str, Callable[[str], str]] = {
    "agents": agents,
    "commands": commands,
    "comparison": comparison,
    "contracts": contracts,
    "diagram": diagram,
    "errors": errors,
    "mistakes": mistakes,
    "options": options,
    "reference": reference,
    "settings": settings,
    "transcript": transcript,
}


def renewed(page: Path, text: str) -> str:
    """Return a page with its generated parts written again."""
    known = [part for part in PART.finditer(text) if part[2] in KINDS]
    if len(known) != len(OPENING.findall(text)):
        raise SystemExit(f"{page.relative_to(ROOT)}: a generated part has no end, or its kind is not one of {', '.join(KINDS)}.")
    return PART.sub(lambda part: f"{part[1]}\n{KINDS[part[2]](part[3] or '')}\n{part[4]}", text)


def main() -> int:
    """Write the parts and the pictures, or check them."""
    check = "--check" in sys.argv[1:]
    stale = 0
    kept = {page: page.read_text(encoding="utf-8") for page in pages()}
    wanted = {page: renewed(page, text) for page, text in kept.items()} | pictures()
    for path, fresh in wanted.items():
        if fresh == (kept[path] if path in kept else path.read_text(encoding="utf-8") if path.is_file() else None):
            continue
        stale += 1
        print(f"{path.relative_to(ROOT).as_posix()}: {'out of date; run `make docs`' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fresh, encoding="utf-8", newline="\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
