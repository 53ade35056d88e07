"""Interlock: a runtime for LLM agents whose graphs keep their contracts.

contract/       a node's signature is its contract; a Graph is rows that keep them, checked when it is built
capabilities/   what a node can be granted
engine/         who walks the rows: LangGraph, or a loop
runtime/        one turn: the engine walks, the gate lets calls through, events tell of it
adapters/       who grants a capability
agents/         the agents
wiring.py       settings -> adapters -> grants -> agents that run
cli/            the command line
testing/        for your tests: a scripted model, a fixed clock
"""

from interlock.adapters.models.rules import Rules
from interlock.agent import Agent
from interlock.capabilities.capability import Capability
from interlock.contract import END, Control, Graph, Outcome, Present, Secret, Trusted, Untrusted, node
from interlock.errors import InterlockError
from interlock.reply import Fault, Reply
from interlock.runtime.targets import Composed, Subgraph
from interlock.runtime.turn import TurnResult
from interlock.settings import Settings
from interlock.wiring import Interlock

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
