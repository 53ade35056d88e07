"""What `interlock tour` shows: the scenes of each agent that are for it, and its guarantees."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.text import Text

from interlock.adapters.models.local import find_weights
from interlock.agent import Agent
from interlock.app import Interlock
from interlock.cli.answer import print_answer
from interlock.cli.live import Tools, in_words
from interlock.cli.screen import as_path, console, folded, safe
from interlock.cli.target import find_introduced
from interlock.cli.verify import COLOURS
from interlock.engine import ENGINES
from interlock.errors import InterlockError
from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult
from interlock.settings import Settings
from interlock.testing.play import Play, Stage
from interlock.testing.played import Played
from interlock.testing.scenes import Scene, Turn, load_scenes
from interlock.verification.invariants import How
from interlock.verification.verdicts import verify_agent

__all__ = ["Tour", "in_a_line"]

_MARGIN = 8  # columns for the word before a line
_HOW_MARGIN = 11  # columns for how a guarantee is known
_ROWS = 7  # lines of a table that are shown: its head, the rule, some rows
_IN_FULL = 20  # nodes of a turn that is shown node by node, at the most

_QUESTION = "What is a railway signal?"
A_KEY = "sk-" + "not-a-real-key-" * 2


class Tour:
    """One screen for each agent, and one for what holds for all of them."""

    def __init__(self, settings: Settings, *, everything: bool = False) -> None:
        self._settings = settings
        self._everything = everything
        self._screen = console()
        self._turns = self._guarantees = 0
        self._wrong: list[str] = []
        self._seen: dict[tuple[str, ...], str] = {}
        self._has_listed = False
        self._tools = Tools()

    async def guide(self) -> int:
        """Show everything; return the exit code."""
        settings, agents = self._settings, find_introduced()
        self._screen.print("Interlock: agents whose graphs keep their contracts.")
        self._screen.print(f"[dim]model {settings.model}, engine {settings.engine}, no key needed[/]")
        self._screen.print("[dim]in: what is said   node: a step, and what it wrote   call: a model is asked[/]")
        self._screen.print("[dim]tool: a tool is used   path: the steps   out: how it ended   also: another turn[/]")
        self._screen.print("[dim]agrees, decided, seen: a guarantee, and how it is known (compared, all cases, examples only)[/]\n")
        local = asyncio.create_task(self._ask_local())  # it loads in a process of its own, while there is something else to see
        for number, agent in enumerate(agents, start=1):
            nodes = sum(len(graph.nodes) for graph in agent.graphs)
            if number > 1:
                self._screen.print()
            self._screen.rule(f"[bold]{agent.name}[/] [dim]{number} of {len(agents)}[/]", align="left")
            self._screen.print(f"{agent.summary}  [dim]({nodes} nodes)[/]")
            await self._play_all(agent)
            await self._verify(agent)
        self._screen.print()
        self._screen.rule("[bold]every agent[/] [dim]by the gate[/]", align="left")
        await self._keep_a_secret()
        await self._replay()
        await self._show_local(local)
        self._sum_up()
        if not self._everything:
            self._screen.print("Every turn as it goes: [bold].venv/bin/interlock tour --all[/]")
        self._screen.print("Everything: [bold].venv/bin/interlock --help[/]; docs/tutorial.md")
        self._screen.print("Next: [bold].venv/bin/interlock chat analyst[/], [bold]chat desk[/], or [bold]chat puntini[/]")
        return 1 if self._wrong else 0

    async def _play_all(self, agent: Agent) -> None:
        """Play the scenes of an agent that are for the tour."""
        if agent.scenes is None:
            return
        self._seen = {}
        self._has_listed = False
        stage, numbers, is_first = Stage(self._open), itertools.count(1), True
        try:
            for scene in load_scenes(agent.scenes):
                if not scene.tour:
                    continue
                session = f"{self._settings.folder.name[-40:]}-{next(numbers)}"  # stores elsewhere may remember another tour
                play = Play(scene, stage, agent=agent.name, session=session)
                for turn in scene.turns:
                    if turn.telling or self._everything:
                        await self._show(play, scene, turn, node_by_node=is_first)
                        is_first = False
                    else:
                        await self._list(play, scene, turn)
        finally:
            await stage.close()

    def _open(self, settings: Mapping[str, Any], grants: Mapping[type, object]) -> Interlock:
        base = {name: getattr(self._settings, name) for name in Settings.model_fields}
        return Interlock(Settings(**{**base, **(self._settings.model_extra or {}), **settings}), grants=grants)

    async def _show(self, play: Play, scene: Scene, turn: Turn, *, node_by_node: bool) -> None:
        """Show one turn: what goes in, what happens on the way, what comes out."""
        self._heading(scene.title_of(turn))
        self._line("in", Text(f"{_who(scene, turn)}{safe(_short(turn.text, 300 if turn.media is None else 58))}"))
        node_by_node &= len(turn.expect.path or ()) <= _IN_FULL
        start = perf_counter()
        self._tools = Tools()
        played = await play.take(turn, on_event=self._show_step if node_by_node else self._show_tool)
        took = (perf_counter() - start) * 1000
        path = () if played.result is None else played.result.path
        if not node_by_node and path:
            seen = self._seen.get(path)
            shown = as_path(folded(path)) if seen is None else f"as in “{seen}”"
            self._line("path", Text(shown, "dim"))
        self._seen.setdefault(path, scene.title_of(turn))
        self._outcome(played, f"{_steps(played)}, {took:.0f} ms")
        self._compare(played)
        self._has_listed = False

    async def _list(self, play: Play, scene: Scene, turn: Turn) -> None:
        """Show one turn in two lines: what it is about, how it ended."""
        played = await play.take(turn)
        if not self._has_listed:
            self._screen.print()
            self._has_listed = True
        self._line("also", Text.assemble((scene.title_of(turn), "cyan"), (f"  ({_steps(played)})", "dim")))
        self._one_line(_ending(played, turn))
        self._compare(played)

    def _compare(self, played: Played) -> None:
        """Tell what is not as expected. What another model than the rules says is not known beforehand."""
        self._turns += 1
        if self._settings.model == "offline":
            for difference in played.differences:
                self._differs(difference)

    def _differs(self, difference: str) -> None:
        self._wrong.append(difference)
        self._line("WRONG", Text(safe(difference), "bold red"), "bold red")

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
                self._one_line(self._tools.end(event), "tool")
            case "on_custom_event":
                self._line("told", Text(in_words(event)))
            case _:
                pass

    async def _verify(self, agent: Agent) -> None:
        self._heading(f"what {agent.name} guarantees")
        graphs = [f"{graph.name}: " for graph in agent.graphs]
        alike: dict[tuple[How, str], int] = {}
        with self._screen.status("[dim]verifying[/]") as status:
            async for verdict in verify_agent(agent):
                self._guarantees += 1
                if not verdict.holds:
                    self._line("BROKEN", Text(verdict.invariant), "bold red")
                    self._differs(verdict.proof)
                    continue
                graph = next((graph for graph in graphs if verdict.invariant.startswith(graph)), "")
                told = verdict.invariant if self._everything else verdict.invariant.removeprefix(graph)
                alike[verdict.how, told] = alike.get((verdict.how, told), 0) + 1
                status.update(f"[dim]after '{verdict.invariant}'[/]")
        for (how, told), count in alike.items():
            self._line(how, Text.assemble(told, (f"  ({count} graphs)" if count > 1 else "", "dim")), COLOURS[how], margin=_HOW_MARGIN)

    async def _keep_a_secret(self) -> None:
        """Say something that looks like a key, and look for it in everything that is told of the turn."""
        self._heading("what looks like a key is in no event, log line, span or error")
        events: list[Event] = []
        async with Interlock(self._settings) as app:
            await app.run("sam", f"my key is {A_KEY}", on_event=events.append)
        self._line("in", Text(f"my key is {A_KEY}"))
        self._line("told", Text(f"{events[0]['data']['input']['raw_input']}  ({len(events)} events)"))
        if any(A_KEY in str(event) for event in events):
            self._differs("the key is in an event")

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
        same = ("the same", "green") if not replayed.differences else ("not the same", "red")
        self._line("again", Text.assemble(same, f"  state, path and events on {other}, no call made"))
        for difference in replayed.differences:
            self._differs(difference)

    async def _ask_local(self) -> TurnResult | InterlockError:
        """Ask a small model on this machine, where there is one: whatever it says, the turn ends typed."""
        try:
            find_weights(self._settings.model_path)
            async with Interlock(self._settings.model_copy(update={"model": "local", "model_max_tokens": 48})) as app:
                return await app.run("sam", _QUESTION)
        except InterlockError as error:
            return error

    async def _show_local(self, asked: asyncio.Task[TurnResult | InterlockError]) -> None:
        self._heading("a language model on this machine")
        with self._screen.status("[dim]loading the model[/]"):
            result = await asked
        if isinstance(result, InterlockError):
            self._line("off", Text(result.message, "dim"))
            return
        self._line("in", Text(_QUESTION))
        self._end(result, f"{result.metadata.get('output_tokens')} tokens")

    def _heading(self, title: str) -> None:
        self._screen.print(f"\n[bold cyan]{title}[/]")

    def _line(self, word: str, said: Text, style: str = "dim", *, margin: int = _MARGIN) -> None:
        """Show a word, and beside it what is said, however many lines that takes."""
        for number, line in enumerate(said.wrap(self._screen, max(1, self._screen.width - margin))):
            line.rstrip()
            self._screen.print(Text.assemble((f"  {'' if number else word}".ljust(margin), style), line))

    def _one_line(self, said: Text, word: str = "") -> None:
        """Show as much as one line takes."""
        said.truncate(self._screen.width - _MARGIN, overflow="ellipsis")
        self._line(word, said)

    def _outcome(self, played: Played, figures: str) -> None:
        result, refusal = played.result, played.refusal
        if result is not None:
            self._end(result, figures)
        elif refusal is not None:
            self._line("out", Text.assemble((refusal.code, "red"), f"  {safe(_beginning(refusal.message, 300))}"))

    def _end(self, result: TurnResult, figures: str) -> None:
        """Show how a turn ended, with what it says."""
        outcome, said = _outcome_of(result)
        if "\n" not in said:
            self._line("out", Text.assemble(outcome, f"  {safe(_beginning(said, 300))}", (f"  ({figures})", "dim")))
            return
        self._line("out", Text.assemble(outcome, (f"  ({figures})", "dim")))
        print_answer(self._screen, _abridged(said), indent=_MARGIN)

    def _sum_up(self) -> None:
        """Say whether everything was as expected."""
        self._screen.print()
        if self._wrong:
            self._screen.print(Text(f"Not as expected: {_counted(len(self._wrong), 'difference')}, marked above.", "bold red"))
            return
        known = "" if self._settings.model == "offline" else f" What '{self._settings.model}' says was not compared with anything."
        self._screen.print(f"As expected: [green]{_counted(self._turns, 'turn')}, {_counted(self._guarantees, 'guarantee')}.[/]{known}")


def _outcome_of(result: TurnResult) -> tuple[tuple[str, str], str]:
    """Say how a turn ended, in a word with its colour, and what it said."""
    if result.error is not None:
        return (result.error.code, "red"), result.error.message
    return ("waits", "yellow") if result.status == "waiting" else ("ok", "green"), str(result.output)


def _ending(played: Played, turn: Turn) -> Text:
    """Say how a turn ended, in a line."""
    if played.result is None:
        refusal = played.refusal
        return Text() if refusal is None else Text.assemble((refusal.code, "red"), f"  {safe(refusal.message)}")
    outcome, said = _outcome_of(played.result)
    return Text.assemble(outcome, f"  {safe(in_a_line(said, turn.text))}")


def in_a_line(said: str, asked: str) -> str:
    """Say in a line what was said: without the question, and of a table only what is in it."""
    lines = [line for line in said.splitlines() if line.strip() and line.partition(": ")[2] != asked]
    rows = [line for line in lines if line.startswith("|")]
    if rows[:1] == lines[:1] and rows:
        head = ", ".join(cell.strip() for cell in rows[0].strip("|").split("|"))
        return f"a table of {head}: {_counted(len(rows) - 2, 'row')}"
    return " ".join(lines)


def _steps(played: Played) -> str:
    return _counted(0 if played.result is None else len(played.result.path), "step")


def _who(scene: Scene, turn: Turn) -> str:
    """Say who says it, or what it is."""
    if turn.media is not None:
        return f"({turn.media}) "
    role = "a person" if turn.answer is not None else turn.role or scene.role
    return "" if role is None else f"{role}: "


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _beginning(text: str, limit: int) -> str:
    """Shorten a sentence, between two words where there are some."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - 4].rpartition(' ')[0] or text[: limit - 4]} ..."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _abridged(text: str) -> str:
    """Shorten what has tables: of each the first rows, of the other lines their beginnings."""
    lines: list[str] = []
    for is_table, group in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        part = list(group)
        more = len(part) - _ROWS if is_table else 0
        lines += part[:_ROWS] if more > 1 else part if is_table else [_beginning(line, 240) for line in part]
        lines += [f"... and {more} more"] if more > 1 else []
    return "\n".join(lines)
