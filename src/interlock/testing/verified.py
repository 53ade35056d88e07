"""Assert in a test that an agent, or a graph with its document, verifies: what `interlock verify` proves without running a turn."""

from __future__ import annotations

from pathlib import Path

from interlock.agent import Agent
from interlock.contract import Graph
from interlock.verification.proofs import prove_agent, prove_graph

__all__ = ["assert_verified"]


def assert_verified(target: Agent | Graph, document: Path | None = None) -> None:
    """Raise AssertionError with every fault of an agent or a graph: decisions, labels, secrets, effects and claims."""
    proofs = [prove_graph(target, document)] if isinstance(target, Graph) else [*prove_agent(target, document).values()]
    faults = [fault for proof in proofs for fault in proof.faults]
    if faults:
        raise AssertionError("\n".join(map(str, faults)))
