"""Interlock: a runtime for LLM agents whose graphs keep their contracts.

contract/       a node's signature is its contract; a Graph is rows that keep them, checked when it is built
capabilities/   what a node can be granted
engine/         who walks the rows: LangGraph, or a loop
runtime/        one turn: the engine walks, the gate lets calls through, events tell of it
stores/ models/ tools/ system.py   adapters: what implements capabilities
app.py          Interlock: what a caller sees
compiler.py     an agent and its providers become compiled graphs
runner.py       a request becomes a turn: session, journal, recording
providers/      how each adapter is made from settings
cli/            the command line
testing/        for your tests: a scripted model, a fixed clock
"""

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.capabilities.capability import Capability
from interlock.contract import END, Control, Graph, Outcome, Present, Secret, Trusted, Untrusted, node
from interlock.errors import InterlockError
from interlock.models.rules import Rules
from interlock.reply import Fault, Reply
from interlock.runtime.targets import Composed, Subgraph
from interlock.runtime.turn import TurnResult
from interlock.settings import Settings

__all__ = [
    "END",
    "Agent",
    "Capability",
    "Composed",
    "Control",
    "Fault",
    "Graph",
    "Interlock",
    "InterlockError",
    "Outcome",
    "Present",
    "Reply",
    "Rules",
    "Secret",
    "Settings",
    "Subgraph",
    "Trusted",
    "TurnResult",
    "Untrusted",
    "node",
]
