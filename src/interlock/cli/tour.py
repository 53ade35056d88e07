"""interlock tour."""

from __future__ import annotations

import asyncio
from time import perf_counter

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from interlock.cli.screen import console, safe
from interlock.cli.target import find_all
from interlock.runtime.agent import Agent, Scene
from interlock.runtime.events import Event
from interlock.settings import read_settings
from interlock.verification import verify_agent
from interlock.wiring import Interlock

__all__ = ["tour"]


def tour() -> None:
    """Take one telling turn on each agent, without a key, and prove what it promises."""
    raise typer.Exit(code=asyncio.run(_tour()))


async def _tour() -> int:
    screen = console()
    app = Interlock(read_settings())
    screen.print("Interlock: agents whose graphs keep their contracts.")
    screen.print(f"[dim]model {app.settings.model}, engine {app.settings.engine}, no key needed[/]\n")
    as_expected = True
    for agent in find_all(None):
        nodes = sum(len(graph.nodes) for graph in agent.graphs)
        screen.rule(f"[bold]{agent.name}[/]", align="left")
        screen.print(f"{agent.summary}  [dim]({nodes} nodes)[/]")
        for scene in agent.scenes:
            as_expected &= await _play(screen, app, agent, scene)
        as_expected &= await _prove(screen, agent)
    screen.print("\nNext: [bold].venv/bin/interlock show sam[/], [bold]run sam 'your text'[/], [bold]verify[/]; docs/tutorial.md")
    return 0 if as_expected else 1


async def _play(screen: Console, app: Interlock, agent: Agent, scene: Scene) -> bool:
    """Show one turn: what goes in, each node with what came of it, what comes out."""
    screen.print(f"\n[bold cyan]{scene.title}[/]")
    screen.print(Text.assemble(("  in    ", "dim"), safe(_short(scene.text))))

    def show(event: Event) -> None:
        node = event["metadata"].get("langgraph_node")
        if node is not None and event["event"] == "on_chain_end":
            wrote = ", ".join(event["data"]["output"])
            screen.print(Text.assemble(("  node  ", "dim"), f"{node:<24}", (f" wrote {_short(wrote, 38)}", "dim")))
        elif event["event"].endswith("_start") and "chain" not in event["event"]:
            screen.print(Text.assemble(("  call  ", "dim"), (event["name"], "yellow")))

    start = perf_counter()
    result = await app.run(agent.name, scene.text, on_event=show)
    outcome = ("ok", "green") if result.error is None else (result.error.code, "red")
    said = result.output if result.error is None else result.error.message
    reply = Table.grid(padding=0)
    reply.add_row(Text("  out   ", "dim"), Text.assemble(outcome, f"  {safe(str(said))}"))
    screen.print(reply)
    screen.print(Text(f"        {len(result.path)} steps, {(perf_counter() - start) * 1000:.0f} ms", "dim"))
    return (result.error.code if result.error else None) == scene.error


async def _prove(screen: Console, agent: Agent) -> bool:
    kept = True
    screen.print(f"\n[bold cyan]what {agent.name} promises[/]")
    async for verdict in verify_agent(agent):
        kept &= verdict.holds
        screen.print(Text.assemble(("  holds ", "green") if verdict.holds else ("  BROKEN ", "bold red"), verdict.invariant))
    return kept


def _short(text: str, limit: int = 70) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
