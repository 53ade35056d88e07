"""Interlock: a runtime for LLM agents. Each node declares what it may read, write and call, and Interlock enforces it.

contract/       declarations: a node's signature is its contract; a Graph is checked when it is built
capabilities/   Protocols of what a node can be granted
engine/         run a graph node by node: LangGraph, or a loop
runtime/        one turn: runs its nodes, passes their calls through the gate, keeps the journal, emits events
stores/ models/ tools/ processes/ media/ system.py human.py   adapters, which implement capabilities
providers/      create adapters from settings
agent.py        the declaration of an agent
compiler.py     turns an agent and its adapters into compiled graphs
runner.py       runs a request as a turn, with its session and its record
dispatch/       decides which process runs an accepted turn
app.py          Interlock, the object that callers use
verification/   proves what a graph guarantees, and compares it with its document
server/         the HTTP server; cli/ the command line
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
