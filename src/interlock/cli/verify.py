"""interlock verify."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from interlock.agent import Agent
from interlock.cli.screen import console, is_terminal, print_json, print_line
from interlock.cli.target import find_all, starting_with
from interlock.contract import Graph
from interlock.contract.document import read_document
from interlock.discovery import AGENTS
from interlock.errors import DocumentInvalid
from interlock.invariants import How

if TYPE_CHECKING:
    from interlock.verification.proofs import GraphProof
    from interlock.verification.verdicts import Verdict

__all__ = ["COLOURS", "verify"]

COLOURS: Mapping[How, str] = {"proved": "green", "agrees": "green", "decided": "green", "seen": "yellow", "trusted": "cyan"}


def verify(
    agent: Annotated[
        str | None,
        typer.Argument(help="An agent, or MODULE:NAME; all installed agents by default.", autocompletion=starting_with(*AGENTS)),
    ] = None,
    document: Annotated[Path | None, typer.Option(help="The architecture document to compare the graph with.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Write what was proved to a file, or to a folder for several agents.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="A folder with certificates: print what has changed, and exit with 1 if it has.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option(help="Write the faults to a file for code scanning.")] = None,
    trusted: Annotated[bool, typer.Option("--trusted", help="List each thing that the proofs rely on, with the reason.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check an agent against its contracts and document.

    Prints each guarantee with how it is known.

    'proved': it holds on every path. 'agrees': two descriptions were compared. 'decided': every case was checked. 'seen': some turns were
    run, which is no proof. 'trusted': nothing shows it, and the rest relies on it.
    """
    from interlock.verification.sarif import sarif as as_sarif  # noqa: PLC0415 - only this command needs the prover

    agents = find_all(agent)
    proofs = {one.name: _prove(one, document) for one in agents}
    found = asyncio.run(_verify(agents, proofs, document, quiet=as_json, lists=trusted))
    faults = {name: [fault for proof in graphs.values() for fault in proof.faults] for name, graphs in proofs.items()}
    ok = all(verdict.holds for verdicts in found.values() for verdict in verdicts)
    changed = _compare(proofs, against) if against is not None else []
    if as_json:
        listed = {name: [asdict(verdict) for verdict in verdicts] for name, verdicts in found.items()}
        broken = {name: [fault.as_json() for fault in one] for name, one in faults.items()}
        print_json({"ok": ok and not changed, "agents": listed, "faults": broken, "changes": changed}, indent=2)
    else:
        for line in changed:
            print_line(line)
    if certificate is not None:
        _write(proofs, certificate)
    if sarif is not None:
        log = as_sarif([fault for one in faults.values() for fault in one], root=Path.cwd())
        sarif.write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")
    raise typer.Exit(code=0 if ok and not changed else 1)


def _prove(agent: Agent, document: Path | None) -> dict[str, GraphProof]:
    from interlock.verification.proofs import prove_agent, prove_graph  # noqa: PLC0415 - only this command needs the prover

    if document is None:
        return prove_agent(agent)
    graph = agent.graphs[0]
    return {graph.name: prove_graph(graph, document if other_graph(document, graph) is None else None)}


def _write(proofs: Mapping[str, Mapping[str, GraphProof]], path: Path) -> None:
    from interlock.verification.certificate import certificate as certificate_of  # noqa: PLC0415 - only this command needs the prover
    from interlock.verification.certificate import write_certificate  # noqa: PLC0415 - only this command needs the prover

    if len(proofs) == 1 and not path.is_dir():
        ((name, graphs),) = proofs.items()
        write_certificate(path, certificate_of(name, graphs))
        return
    path.mkdir(parents=True, exist_ok=True)
    for name, graphs in proofs.items():
        write_certificate(path / f"{name}.json", certificate_of(name, graphs))


def _compare(proofs: Mapping[str, Mapping[str, GraphProof]], folder: Path) -> list[str]:
    """List what the agents prove now and did not before, and the other way round."""
    from interlock.verification.certificate import certificate as certificate_of  # noqa: PLC0415 - only this command needs the prover
    from interlock.verification.certificate import changes, read_certificate  # noqa: PLC0415 - only this command needs the prover

    found: list[str] = []
    for name, graphs in proofs.items():
        file = folder / f"{name}.json"
        if not file.is_file():
            found.append(f"+ {name}: '{folder.name}' has no certificate of it")
            continue
        found += [f"{line[0]} {name}: {line[2:]}" for line in changes(read_certificate(file), certificate_of(name, graphs))]
    return found


async def _verify(
    agents: list[Agent], proofs: Mapping[str, Mapping[str, GraphProof]], document: Path | None, *, quiet: bool, lists: bool
) -> dict[str, list[Verdict]]:
    from interlock.verification.verdicts import Verdict, verify_agent  # noqa: PLC0415 - only this command needs the prover

    found: dict[str, list[Verdict]] = {}
    for agent in agents:
        verdicts = found.setdefault(agent.name, [])
        if not quiet:
            show_heading(agent.name)
        graph, proved = agent.graphs[0], proofs[agent.name]
        checks = verify_agent(agent, proved) if document is None else _verify_document(graph, document, proved[graph.name])
        async for verdict in checks:
            verdicts.append(verdict)
            if not quiet:
                show_verdict(verdict)
        for line in [line for proof in proved.values() for line in proof.trusted_lines()] if lists else ():
            verdicts.append(Verdict(line.statement, line.holds, line.tier, line.proof))
            if not quiet:
                show_verdict(verdicts[-1])
    return found


async def _verify_document(graph: Graph, path: Path, proof: GraphProof) -> AsyncGenerator[Verdict, None]:
    """Verify a graph with a document. For a document of other graphs, one sentence replaces the differences."""
    from interlock.verification.verdicts import Verdict, verify_graph  # noqa: PLC0415 - only this command needs the prover

    reason = other_graph(path, graph)
    async for verdict in verify_graph(graph, path if reason is None else None, proof):
        yield verdict
    if reason is not None:
        yield Verdict(f"{graph.name}: the rows are the document's", False, "agrees", reason)


def other_graph(path: Path, graph: Graph) -> str | None:
    """Return in a sentence that a document describes other graphs than this one, or None. One that cannot be read has no answer."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    try:
        document = read_document(text, graph=graph.name)
    except DocumentInvalid:
        named = dict.fromkeys(re.findall(r"^#+ .*`([^`\n]+)`", text, re.MULTILINE))
        if not named or graph.name in named:
            return None
        parts = ", ".join(f"'{name}'" for name in named)
        return f"'{path.name}' has no part for graph '{graph.name}'; it has parts for {parts}"
    if document.nodes and document.nodes.isdisjoint(graph.nodes):
        return f"'{path.name}' describes another graph: none of its {len(document.nodes)} nodes is a node of '{graph.name}'"
    return None


def show_heading(name: str) -> None:
    """Print the name of an agent."""
    if is_terminal():
        console().print(f"[bold]{name}[/]")
    else:
        print_line(name)


def show_verdict(verdict: Verdict) -> None:
    """Print a guarantee with how it is known."""
    if is_terminal():
        mark = f"[{COLOURS[verdict.how]}]{verdict.how:7}[/]" if verdict.holds else "[bold red]BROKEN [/]"
        line = Table.grid(padding=(0, 2))
        line.add_row(f"  {mark}", f"{escape(verdict.invariant)}\n[dim]{escape(verdict.proof)}[/]")
        console().print(line)
    else:
        print_line(f"{verdict.how if verdict.holds else 'BROKEN'}\t{verdict.invariant}\t{verdict.proof}")
