"""What a person wants to see first of a graph: who can steer its nodes, and which dangerous things come together in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from interlock.capabilities.capability import marks_of, methods
from interlock.contract import Graph
from interlock.contract.labels import Trusted, is_secret
from interlock.contract.type_hints import resolve_hints, unwrap_annotated
from interlock.verification.flows import GraphFlow

__all__ = ["flowchart", "rule_of_two"]


def flowchart(flow: GraphFlow) -> str:
    """Draw a graph as a Mermaid flowchart: nodes that decide are thick, and whatever can steer them has a dotted arrow to them."""
    lines = ["flowchart TD", f"    START([START]) --> {flow.graph.entry}"]
    for source, outcome, target in flow.graph.edges:
        lines.append(f"    {source} -->|{outcome}| {target or 'END([END])'}")
    deciding = [name for name, found in flow.nodes.items() if found.decisions]
    arrows: dict[tuple[str, str], dict[str, None]] = {}
    for name in deciding:
        for decision in flow.nodes[name].decisions:
            for origin in _origins(flow, str(decision)):
                arrows.setdefault((origin, name), {})[str(decision)] = None
    for (origin, name), said in arrows.items():
        shape = origin if origin in flow.nodes else f'{re.sub(r"[^A-Za-z0-9]", "_", origin)}[/"{origin}"/]'
        lines.append(f'    {shape} -.->|"{", ".join(said)}"| {name}')
    if deciding:
        lines += ["    classDef decides stroke-width:4px", f"    class {','.join(deciding)} decides"]
    return "\n".join(lines)


def _origins(flow: GraphFlow, decision: str) -> Iterator[str]:
    """Return who says what a node decides on: other nodes, the caller, the session, or a capability."""
    given = re.search(r"^\w+\((?!\))(.*)\)$", decision)
    for one in given[1].split(", ") if given is not None else [decision]:
        root = re.split(r"[.\[?!(]", one)[0]
        if root not in flow.fields:
            yield one.partition("(")[0]
            continue
        yield from (name for name, node in flow.graph.nodes.items() if root in node.writes)
        if root in flow.graph.state.takes:
            yield "caller"
        if root in flow.persists:
            yield "session"


def rule_of_two(graph: Graph, behind: Mapping[type, Graph]) -> dict[str, list[str]]:
    """Return which of three things an entry has, with what shows it: text from outside, secrets, and effects.

    With all three, a text could make it give a secret away; what then keeps them apart are labels, guards and policies.
    """
    found: dict[str, set[str]] = {"text from outside": set(), "secrets": set(), "effects": set()}
    graphs = [graph]
    for one in graphs:
        found["text from outside"] |= {name for name in one.state.takes if Trusted not in one.state.fields[name].labels}
        found["secrets"] |= {name for name, field in one.state.fields.items() if is_secret(field.declared)}
        for capability in one.capabilities:
            if capability in behind:
                graphs += [inner] if (inner := behind[capability]) not in graphs else []
                continue
            for name, method in methods(capability).items():
                returned, marks = resolve_hints(method).resolved.get("return"), marks_of(method)
                said = f"{capability.__name__}.{name}"
                if is_secret(returned):
                    found["secrets"].add(said)
                elif Trusted not in unwrap_annotated(returned)[1] and unwrap_annotated(returned)[0] is not type(None):
                    found["text from outside"].add(said)
                if marks.effect != "asks" and not marks.instant:
                    found["effects"].add(said)
    return {what: sorted(names) for what, names in found.items() if names}
