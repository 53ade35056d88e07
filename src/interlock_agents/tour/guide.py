"""`interlock tour`: runs the scenarios of each agent that are marked for it, and verifies the agent."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any

from rich.text import Text

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.cli.answer import print_answer
from interlock.cli.live import Tools, in_words
from interlock.cli.screen import as_path, console, folded, program, safe
from interlock.cli.verify import COLOURS
from interlock.discovery import load_agent
from interlock.engine import ENGINES
from interlock.invariants import How
from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event
from interlock.settings import Settings
from interlock.testing.scenario_results import ScenarioResult
from interlock.testing.scenario_runner import ScenarioApps, ScenarioRun
from interlock.testing.scenarios import Scenario, Turn, load_scenarios
from interlock.verification.verdicts import verify_agent
from interlock_agents import INTRODUCED

__all__ = ["Tour", "in_a_line"]

# Columns for the word before a line.
_MARGIN = 8
# Lines of a table that are shown: its header, the rule, some rows.
_ROWS = 7
# The longest path of a turn that is shown node by node.
_IN_FULL = 20

A_KEY = "sk-" + "not-a-real-key-" * 2


class Tour:
    """Shows one screen for each agent, and one for what Interlock does for every agent."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._screen = console()
        self._turns = self._guarantees = 0
        self._wrong: list[str] = []
        self._has_listed = False
        self._tools = Tools()

    async def run(self) -> int:
        """Show everything and return the exit code."""
        settings, agents = self._settings, [load_agent(name) for name in INTRODUCED]
        self._screen.print("Interlock: LLM agents whose nodes declare what they may read, write and call.")
        self._screen.print(f"[dim]model {settings.model}, engine {settings.engine}, no key needed[/]")
        self._screen.print("[dim]in: the input   node: a step, with the fields it wrote   call: a model call[/]")
        self._screen.print("[dim]tool: a tool call   path: the steps   out: the result   also: another turn[/]")
        self._screen.print("[dim]How a guarantee is known:   proved: on every path   decided: in all cases[/]")
        self._screen.print("[dim]agrees: two descriptions are compared   seen: in examples   trusted: not checked[/]\n")
        for number, agent in enumerate(agents, start=1):
            nodes = sum(len(graph.nodes) for graph in agent.graphs)
            if number > 1:
                self._screen.print()
            self._screen.rule(f"[bold]{agent.name}[/] [dim]{number} of {len(agents)}[/]", align="left")
            self._wrapped(Text.assemble(agent.summary, (f"  ({nodes} nodes)", "dim")))
            await self._run_scenarios(agent)
            await self._verify(agent)
        self._screen.print()
        self._screen.rule("[bold]every agent[/]", align="left")
        await self._redact()
        await self._replay()
        self._sum_up()
        self._show_next_steps()
        return 1 if self._wrong else 0

    async def _run_scenarios(self, agent: Agent) -> None:
        """Run the scenarios of an agent that are marked for the tour."""
        if agent.scenes is None:
            return
        self._has_listed = False
        apps, numbers, is_first = ScenarioApps(self._open), itertools.count(1), True
        try:
            for scenario in load_scenarios(agent.scenes):
                if not scenario.tour:
                    continue
                # A store on another machine may still have the sessions of another tour.
                session = f"{self._settings.folder.name[-40:]}-{next(numbers)}"
                run = ScenarioRun(scenario, apps, agent=agent.name, session=session)
                for turn in scenario.turns:
                    if turn.detailed:
                        await self._show(run, scenario, turn, node_by_node=is_first)
                        is_first = False
                    else:
                        await self._list(run, scenario, turn)
        finally:
            await apps.close()

    def _open(self, settings: Mapping[str, Any], grants: Mapping[type, object]) -> Interlock:
        base = {name: getattr(self._settings, name) for name in Settings.model_fields}
        return Interlock(Settings(**{**base, **(self._settings.model_extra or {}), **settings}), grants=grants)

    async def _show(self, run: ScenarioRun, scenario: Scenario, turn: Turn, *, node_by_node: bool) -> None:
        """Show one turn: its input, its steps, its result."""
        self._heading(scenario.title_of(turn))
        self._line("in", Text(f"{_who(scenario, turn)}{safe(_short(turn.text, 300 if turn.media is None else 58))}"))
        node_by_node &= len(turn.expect.path or ()) <= _IN_FULL
        start = perf_counter()
        self._tools = Tools()
        found = await run.run_turn(turn, on_event=self._show_step if node_by_node else self._show_tool)
        took = (perf_counter() - start) * 1000
        path = () if found.result is None else found.result.path
        if not node_by_node and path:
            self._line("path", Text(as_path(folded(path)), "dim"))
        self._outcome(found, f"{_steps(found)}, {took:.0f} ms")
        self._compare(found)
        self._has_listed = False

    async def _list(self, run: ScenarioRun, scenario: Scenario, turn: Turn) -> None:
        """Show one turn in two lines: its title and its result."""
        found = await run.run_turn(turn)
        if not self._has_listed:
            self._screen.print()
            self._has_listed = True
        self._line("also", Text.assemble((scenario.title_of(turn), "cyan"), (f"  ({_steps(found)})", "dim")))
        outcome, text = _outcome_of(found)
        self._one_line(Text.assemble(outcome, f"  {safe(in_a_line(text, turn.text))}"))
        self._compare(found)

    def _compare(self, found: ScenarioResult) -> None:
        """Show the differences from what the scenario expects. Expectations hold for the offline rules only."""
        self._turns += 1
        if self._settings.model == "offline":
            for difference in found.differences:
                self._differs(difference)

    def _differs(self, difference: str) -> None:
        self._wrong.append(difference)
        self._line("WRONG", Text(safe(difference), "bold red"), "bold red")

    def _show_step(self, event: Event) -> None:
        node = event["metadata"].get("langgraph_node")
        if node is not None and event["event"] == "on_chain_end":
            wrote = ", ".join(event["data"]["output"])
            fields = f" wrote {_short(wrote, 38)}" if wrote else ""
            step = node.rpartition("/")[2]
            indent = "  " * node.count("/")
            self._line("node", Text.assemble(f"{indent + step:<24}", (fields, "dim")))
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
            case "on_custom_event" if event["name"] != RETOLD:
                self._line("event", Text(in_words(event)))
            case _:
                pass

    async def _verify(self, agent: Agent) -> None:
        self._heading(f"what {agent.name} guarantees")
        found = Counter[How]()
        with self._screen.status("[dim]verifying[/]") as status:
            async for verdict in verify_agent(agent):
                if not verdict.holds:
                    self._line("BROKEN", Text(verdict.invariant), "bold red")
                    self._differs(verdict.proof)
                    continue
                found[verdict.how] += 1
                status.update(f"[dim]after '{verdict.invariant}'[/]")
        self._guarantees += found.total()
        kinds = [Text(f"{found[how]} {how}", COLOURS[how]) for how in COLOURS if found[how]]
        self._wrapped(Text.assemble("  ", Text(", ").join(kinds), (f"  (interlock verify {agent.name})", "dim")))

    async def _redact(self) -> None:
        """Run a turn whose input has the form of a key, and search its events for the key."""
        self._heading("a text with the form of a key is in no event, log line, span or error")
        events: list[Event] = []
        async with Interlock(self._settings) as app:
            await app.run("sam", f"my key is {A_KEY}", on_event=events.append)
        self._line("in", Text(f"my key is {A_KEY}"))
        self._line("event", Text(f"{events[0]['data']['input']['raw_input']}  ({len(events)} events)"))
        if any(A_KEY in str(event) for event in events):
            self._differs("the key is in an event")

    async def _replay(self) -> None:
        """Record a turn on one engine and replay it on the other."""
        self._heading("a recorded turn is replayed without calling the model, on the other engine")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "turn.jsonl")
            async with Interlock(self._settings) as app:
                result = await app.run("sam", "What does an interlocking do?", record=file)
            other = next(engine for engine in ENGINES if engine != self._settings.engine)
            replayed = await Interlock(self._settings.model_copy(update={"engine": other})).replay(file)
        self._line("turn", Text(f"{len(result.path)} steps on {self._settings.engine}, {len(replayed.record.entries)} calls recorded"))
        same = ("the same", "green") if not replayed.differences else ("not the same", "red")
        self._line("rerun", Text.assemble(same, f"  state, path and events on {other}, no call made"))
        for difference in replayed.differences:
            self._differs(difference)

    def _heading(self, title: str) -> None:
        self._screen.print(f"\n[bold cyan]{title}[/]")

    def _line(self, word: str, text: Text, style: str = "dim") -> None:
        """Show a word with a text beside it, wrapped to the width of the screen."""
        for number, line in enumerate(text.wrap(self._screen, max(1, self._screen.width - _MARGIN))):
            line.rstrip()
            self._screen.print(Text.assemble((f"  {'' if number else word}".ljust(_MARGIN), style), line))

    def _wrapped(self, text: Text) -> None:
        """Show a text, wrapped to the width of the screen without blanks at the ends of its lines."""
        for line in text.wrap(self._screen, self._screen.width):
            line.rstrip()
            self._screen.print(line)

    def _one_line(self, text: Text, word: str = "") -> None:
        """Show a text in one line, truncated to the width of the screen."""
        text.truncate(self._screen.width - _MARGIN, overflow="ellipsis")
        self._line(word, text)

    def _outcome(self, found: ScenarioResult, figures: str) -> None:
        """Show the result of a turn."""
        outcome, text = _outcome_of(found)
        if "\n" not in text:
            self._line("out", Text.assemble(outcome, f"  {safe(_beginning(text, 300))}", (f"  ({figures})", "dim")))
            return
        self._line("out", Text.assemble(outcome, (f"  ({figures})", "dim")))
        print_answer(self._screen, _abridged(text), indent=_MARGIN)

    def _sum_up(self) -> None:
        """Show whether everything was as expected."""
        self._screen.print()
        if self._wrong:
            self._screen.print(Text(f"Not as expected: {_counted(len(self._wrong), 'difference')}, marked above.", "bold red"))
            return
        known = "" if self._settings.model == "offline" else f" The replies of '{self._settings.model}' were not compared."
        self._screen.print(f"As expected: [green]{_counted(self._turns, 'turn')}, {_counted(self._guarantees, 'guarantee')}.[/]{known}")

    def _show_next_steps(self) -> None:
        command = program()
        steps = {
            f"{command} chat analyst": "ask questions about a shop's data (also: chat desk, chat puntini)",
            f"{command} serve --demo": "watch the agents on their graphs, in a browser",
            f"{command} new my_agent": "create an agent of your own",
            f"{command} verify": "check every guarantee of every agent",
            "docs/tutorial.md": "write an agent step by step",
        }
        self._screen.print("\n[bold]next[/]")
        for step, purpose in steps.items():
            self._screen.print(Text(f"  {purpose}:", "dim"))
            self._screen.print(Text(f"    {step}"), soft_wrap=True)


def _outcome_of(found: ScenarioResult) -> tuple[tuple[str, str], str]:
    """Return the status of a turn as a word with its colour, and the output or error message."""
    result = found.result
    fault = found.refusal if result is None else result.error
    if fault is not None:
        return (fault.code, "red"), fault.message
    is_waiting = result is not None and result.status == "waiting"
    return ("waiting", "yellow") if is_waiting else ("ok", "green"), "" if result is None else str(result.output)


def in_a_line(said: str, asked: str) -> str:
    """Return an output in one line, without the question that it repeats.

    A table is summed up by its columns and its number of rows. If text precedes the table, only the first line of the text is returned.
    """
    lines = [line for line in said.splitlines() if line.strip() and line.partition(": ")[2] != asked]
    rows = [line for line in lines if line.startswith("|")]
    if rows[:1] == lines[:1] and rows:
        head = ", ".join(cell.strip() for cell in rows[0].strip("|").split("|"))
        return f"a table of {head}: {_counted(len(rows) - 2, 'row')}"
    return lines[0].lstrip("# ") if rows else " ".join(lines)


def _steps(found: ScenarioResult) -> str:
    return _counted(0 if found.result is None else len(found.result.path), "step")


def _who(scenario: Scenario, turn: Turn) -> str:
    """Return who speaks, or the kind of the input."""
    if turn.media is not None:
        return f"({turn.media}) "
    if turn.answer is not None:
        return "(a person answers) "
    role = turn.role or scenario.role
    return "" if role is None else f"(as {role}) "


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def _beginning(text: str, limit: int) -> str:
    """Shorten a sentence, between two words where possible."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - 4].rpartition(' ')[0] or text[: limit - 4]} ..."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _abridged(text: str) -> str:
    """Shorten an output: keep the first rows of each table, and the beginning of every other line."""
    lines: list[str] = []
    for is_table, group in groupby(text.splitlines(), key=lambda line: line.startswith("|")):
        part = list(group)
        more = len(part) - _ROWS if is_table else 0
        lines += part[:_ROWS] if more > 1 else part if is_table else [_beginning(line, 240) for line in part]
        lines += [f"... and {more} more"] if more > 1 else []
    return "\n".join(lines)
