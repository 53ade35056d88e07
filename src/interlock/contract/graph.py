"""A graph: its rows, which are checked when it is created."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from interlock.capabilities.capability import methods
from interlock.contract.dataflow import unwritten_reads
from interlock.contract.node import Row, Target
from interlock.contract.rules import Declaration
from interlock.contract.type_hints import describe, resolve_hints, stable_repr
from interlock.errors import ExtraMissing

__all__ = ["DEFAULT_MAX_STEPS", "Graph"]

DEFAULT_MAX_STEPS = 100
"""The maximum number of steps of a turn if a graph does not set one."""


class Graph:
    """Rows that keep their contracts. Creating a graph that breaks a rule raises ContractError.

    `takes` names the fields that a caller may set (all, if it is not given) and `takes_from_parent` those that only a graph that
    this one is granted to may set. `gives` is the field that is the result, `max_steps` the number of nodes that a turn may run,
    and `forbids` the capabilities that no node of this graph may be granted.
    """

    def __init__(
        self,
        name: str,
        *,
        state: type,
        entry: Target,
        nodes: Sequence[Row],
        takes: Sequence[str] | None = None,
        takes_from_parent: Sequence[str] = (),
        gives: str | None = None,
        max_steps: int = DEFAULT_MAX_STEPS,
        forbids: Sequence[type] = (),
    ) -> None:
        declaration = Declaration(
            name=name,
            state=state,
            entry=entry,
            rows=tuple(nodes),
            max_steps=max_steps,
            takes=None if takes is None else tuple(takes),
            takes_from_parent=tuple(takes_from_parent),
            gives=gives,
            forbids=tuple(forbids),
        )
        self.state, self.nodes, self.entry = declaration.build()
        self.name = name
        self.gives = gives
        self.max_steps = max_steps
        self.forbids = tuple(forbids)

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {len(self.nodes)} nodes)"

    def _repr_svg_(self) -> str | None:
        """Draw the graph for a notebook. Without the extra `svg` the notebook falls back to Markdown."""
        from interlock.drawing import draw  # noqa: PLC0415 - only a notebook needs the picture

        try:
            return draw([self])
        except ExtraMissing:
            return None

    def _repr_markdown_(self) -> str:
        """Show the diagram and the contract table in a notebook."""
        from interlock.contract.render import markdown, mermaid  # noqa: PLC0415 - it renders graphs, so it imports this module

        return f"```mermaid\n{mermaid(self)}```\n\n{markdown(self)}"

    @property
    def capabilities(self) -> tuple[type, ...]:
        """Every capability that a node is granted, in row order."""
        return tuple(dict.fromkeys(grant.capability for node in self.nodes.values() for grant in node.grants))

    @property
    def edges(self) -> tuple[tuple[str, str, str | None], ...]:
        """Every edge as (node, outcome, target), in row order. A target of None is END."""
        return tuple((node.name, transition.name, transition.target) for node in self.nodes.values() for transition in node.transitions)

    def may_not(self, name: str) -> tuple[str, ...]:
        """List what a node must not do.

        These are the capabilities that other nodes are granted or that the graph forbids, and `branch` where all of its
        outcomes have the same target.
        """
        node = self.nodes[name]
        granted = {grant.capability for grant in node.grants}
        universe = dict.fromkeys((*self.capabilities, *self.forbids))
        withheld = tuple(capability.__name__ for capability in universe if capability not in granted)
        return (*withheld, "branch") if len(node.targets) == 1 else withheld

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """The fields that a caller has to pass: some path reads them before a node has written them."""
        return tuple(dict.fromkeys(read.field for read in unwritten_reads(self.nodes, self.entry)))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the contracts: equal in every process, different if any contract changes."""
        canonical = json.dumps(self._description(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _description(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "entry": self.entry,
            # The keys keep their first names, so that a stored state does not become incompatible by a new name of a parameter.
            "steps": self.max_steps,
            "takes": self.state.takes,
            **({"takes_inside": self.state.takes_from_parent} if self.state.takes_from_parent else {}),
            "gives": self.gives,
            "forbids": [capability.__name__ for capability in self.forbids],
            "state": {
                name: [describe(field.declared), stable_repr(field.default()) if field.default else None]
                for name, field in self.state.fields.items()
            },
            "nodes": [
                {
                    "name": node.name,
                    "reads": [[str(read), describe(read.hint)] for read in node.reads],
                    "uses": [[grant.parameter, grant.name, _methods(grant.capability)] for grant in node.grants],
                    "goes": [
                        [transition.name, transition.target, {name: describe(hint) for name, hint in transition.fields.items()}]
                        for transition in node.transitions
                    ],
                }
                for node in self.nodes.values()
            ],
        }


def _methods(capability: type) -> dict[str, Any]:
    return {name: {part: describe(hint) for part, hint in resolve_hints(run).resolved.items()} for name, run in methods(capability).items()}
