"""Graphs and their contracts: nodes whose signatures are contracts, rows that route outcomes, rules that are checked at build time."""

from interlock.contract.graph import Graph
from interlock.contract.guards import guard
from interlock.contract.labels import Control, Present, Secret, Trusted, Untrusted
from interlock.contract.node import END, node
from interlock.contract.outcome import Outcome

__all__ = ["END", "Control", "Graph", "Outcome", "Present", "Secret", "Trusted", "Untrusted", "guard", "node"]
