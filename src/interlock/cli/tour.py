"""interlock tour."""

from __future__ import annotations

import asyncio
import tempfile
from itertools import groupby
from pathlib import Path
from time import perf_counter

import typer
from rich.table import Table
from rich.text import Text

from interlock.adapters.models.local import find_weights
from interlock.cli.answer import print_answer
from interlock.cli.live import Tools, in_words
from interlock.cli.screen import as_path, console, safe
from interlock.cli.target import find_all, open_app
from interlock.engine import ENGINES
from interlock.errors import InterlockError
from interlock.runtime.agent import Agent, Scene
from interlock.runtime.events import Event, Sink
from interlock.runtime.turn import TurnResult
from interlock.settings import Settings
from interlock.verification import verify_agent
from interlock.wiring import Interlock

__all__ = ["tour"]

_MARGIN = 8  # columns for the word before a line
_ROWS = 7  # lines of a table that are shown: its head, the rule, some rows

A_KEY = "sk-" + "not-a-real-key-" * 2


def tour() -> None:
    """Take telling turns on each agent, without a key, and prove what it promises."""
    with tempfile.TemporaryDirectory(prefix="interlock-tour-") as folder:  # a visitor leaves nothing behind
        settings = open_app().settings.model_copy(update={"data_dir": Path(folder)})
        code = asyncio.run(Tour(settings).guide())
    raise typer.Exit(code=code)


class Tour:
    """One screen for each agent, and one for what holds for all of them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._screen = console()
        self._as_expected = True
        self._seen: set[tuple[str, ...]] = set()
        self._tools = Tools()

    async def guide(self) -> int:
        """Show everything; return the exit code."""
        settings, agents = self._settings, find_all(None)
        self._screen.print("Interlock: agents whose graphs keep their contracts.")
        self._screen.print(f"[dim]model {settings.model}, engine {settings.engine}, no key needed[/]\n")
        for number, agent in enumerate(agents, start=1):
            nodes = sum(len(graph.nodes) for graph in agent.graphs)
            if number > 1:
                self._screen.print()
            self._screen.rule(f"[bold]{agent.name}[/] [dim]{number} of {len(agents)}[/]", align="left")
            self._screen.print(f"{agent.summary}  [dim]({nodes} nodes)[/]")
            async with Interlock(settings) as app:
                for position, scene in enumerate(agent.scenes):
                    await self._play(app, agent, scene, in_full=position == 0)
            await self._prove(agent)
        self._screen.print()
        self._screen.rule("[bold]every agent[/] [dim]by the gate[/]", align="left")
        await self._keep_a_secret()
        await self._replay()
        await self._ask_local()
        self._screen.print("\nEverything: [bold].venv/bin/interlock --help[/]; docs/tutorial.md")
        self._screen.print("Next: [bold].venv/bin/interlock chat analyst[/], [bold]chat desk[/], or [bold]chat puntini[/]")
        return 0 if self._as_expected else 1

    async def _play(self, app: Interlock, agent: Agent, scene: Scene, *, in_full: bool) -> None:
        """Show one turn: what goes in, what happens on the way, what comes out."""
        self._heading(scene.title)
        who = "" if scene.role is None else f"{scene.role}: "
        self._line("in", Text(who + safe(_short(scene.text, 70 if scene.text.startswith("data:") else 300))))
        start = perf_counter()
        self._tools = Tools()
        result = await self._take(app, agent, scene, on_event=self._show_step if in_full else self._show_tool)
        if not in_full and result.path not in self._seen:
            self._line("path", Text(as_path(result.path), "dim"))
        self._seen.add(result.path)
        self._outcome(result, f"{len(result.path)} steps, {(perf_counter() - start) * 1000:.0f} ms")
        self._as_expected &= (result.error.code if result.error else None) == scene.error

    async def _take(self, app: Interlock, agent: Agent, scene: Scene, *, on_event: Sink | None) -> TurnResult:
        if not scene.settings:
            return await app.run(agent.name, scene.text, session=scene.session, role=scene.role, on_event=on_event)
        async with Interlock(self._settings.model_copy(update=dict(scene.settings))) as other:
            return await other.run(agent.name, scene.text, session=scene.session, role=scene.role, on_event=on_event)

    def _show_step(self, event: Event) -> None:
        node = event["metadata"].get("langgraph_node")
        if node is not None and event["event"] == "on_chain_end":
            wrote = ", ".join(event["data"]["output"])
            told = f" wrote {_short(wrote, 38)}" if wrote else ""
            step = node.rpartition("/")[2]
            indent = "  " * node.count("/")
            self._line("node", Text.assemble(f"{indent + step:<24}", (told, "dim")))
        elif event["event"] == "on_chat_model_start":
            self._line("call", Text(event["name"], "yellow"))
        else:
            self._show_tool(event)

    def _show_tool(self, event: Event) -> None:
        match event["event"]:
            case "on_tool_start":
                self._tools.begin(event)
            case "on_tool_end" | "on_tool_error":
                told = self._tools.end(event)
                told.truncate(self._screen.width - _MARGIN, overflow="ellipsis")
                self._line("tool", told)
            case "on_custom_event":
                self._line("told", Text(in_words(event)))
            case _:
                pass

    async def _prove(self, agent: Agent) -> None:
        self._heading(f"what {agent.name} promises")
        with self._screen.status("[dim]proving[/]") as status:
            async for verdict in verify_agent(agent):
                self._as_expected &= verdict.holds
                self._line("holds" if verdict.holds else "BROKEN", Text(verdict.invariant), "green" if verdict.holds else "bold red")
                status.update(f"[dim]after '{verdict.invariant}'[/]")

    async def _keep_a_secret(self) -> None:
        """Say something that looks like a key, and look for it in everything that is told of the turn."""
        self._heading("what looks like a key is in no event, log line, span or error")
        events: list[Event] = []
        async with Interlock(self._settings) as app:
            await app.run("sam", f"my key is {A_KEY}", on_event=events.append)
        self._line("in", Text(f"my key is {A_KEY}"))
        self._line("told", Text(f"{events[0]['data']['input']['raw_input']}  ({len(events)} events)"))
        self._as_expected &= not any(A_KEY in str(event) for event in events)

    async def _replay(self) -> None:
        """Record a turn on one engine and replay it on the other."""
        self._heading("a recorded turn can be taken again, without model, clock or ids")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "turn.jsonl")
            async with Interlock(self._settings) as app:
                result = await app.run("sam", "What does an interlocking do?", record=file)
            other = next(engine for engine in ENGINES if engine != self._settings.engine)
            replayed = await Interlock(self._settings.model_copy(update={"engine": other})).replay(file)
        self._line("turn", Text(f"{len(result.path)} steps on {self._settings.engine}, {len(replayed.record.entries)} calls recorded"))
        same = Text("the same", "green") if not replayed.differences else Text("; ".join(replayed.differences), "red")
        self._line("again", same + Text(f"  state, path and events on {other}, no call made", "default"))
        self._as_expected &= not replayed.differences

    async def _ask_local(self) -> None:
        """Ask a small model on this machine, where there is one: whatever it says, the turn ends typed."""
        self._heading("a language model on this machine")
        try:
            find_weights(self._settings.model_path)
            async with Interlock(self._settings.model_copy(update={"model": "local", "model_max_tokens": 48})) as app:
                with self._screen.status("[dim]loading the model[/]"):
                    start = perf_counter()
                    result = await app.run("sam", "What is a railway signal?")
        except InterlockError as error:
            self._line("off", Text(error.message, "dim"))
            return
        self._line("in", Text("What is a railway signal?"))
        tokens = result.metadata.get("output_tokens")
        self._outcome(result, f"{tokens} tokens, {perf_counter() - start:.1f} s with loading")

    def _heading(self, title: str) -> None:
        self._screen.print(f"\n[bold cyan]{title}[/]")

    def _line(self, word: str, said: Text, style: str = "dim") -> None:
        line = Table.grid(padding=0)
        line.add_column(width=_MARGIN, style=style)
        line.add_row(f"  {word}", said)
        self._screen.print(line)

    def _outcome(self, result: TurnResult, figures: str) -> None:
        outcome = ("ok", "green") if result.error is None else (result.error.code, "red")
        said = str(result.output if result.error is None else result.error.message)
        if "\n|" not in f"\n{said}":
            self._line("out", Text.assemble(outcome, f"  {safe(_short(said, 300))}", (f"  ({figures})", "dim")))
            return
        self._line("out", Text.assemble(outcome, (f"  ({figures})", "dim")))
        print_answer(self._screen, _abridged(said), indent=_MARGIN)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _abridged(text: str) -> str:
    """Shorten what has tables: of each the first rows, of the other lines their beginnings."""
    lines: list[str] = []
    for is_table, group in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        part = list(group)
        more = len(part) - _ROWS if is_table else 0
        lines += part[:_ROWS] if more > 1 else part if is_table else [_short(line, 150) for line in part]
        lines += [f"... and {more} more"] if more > 1 else []
    return "\n".join(lines)
