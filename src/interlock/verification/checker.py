"""An independent check of a certificate against the rows of an agent. It trusts nothing of the prover but the certificate's words.

It has to stay small enough to be read in one sitting: it knows JSON and rows, and imports nothing of the rest of this package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.capabilities.capability import methods
from interlock.contract import Graph
from interlock.contract.node import Node
from interlock.contract.type_hints import is_closed

__all__ = ["check_certificate"]

_LEVELS = ("trusted", "choice")


def check_certificate(found: Mapping[str, Any], graphs: Sequence[Graph]) -> list[str]:
    """List what a certificate says that the rows contradict, or that it does not say. The list is empty if it stands."""
    wrong = (
        [f"the graphs are {sorted(found.get('graphs', {}))}"] if set(found.get("graphs", {})) != {graph.name for graph in graphs} else []
    )
    for graph in graphs:
        said = found.get("graphs", {}).get(graph.name)
        if said is not None:
            try:
                wrong += [f"{graph.name}: {problem}" for problem in _graph(said, graph)]
            except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
                wrong.append(f"{graph.name}: a part is missing or malformed ({type(error).__name__})")
    return wrong


def _graph(said: Mapping[str, Any], graph: Graph) -> Iterator[str]:
    labels = {name: [str(label) for label in field.labels] for name, field in graph.state.fields.items()}
    if said["fingerprint"] != graph.fingerprint[:16]:
        yield "it is the certificate of other rows"
    if said["labels"] != labels:
        yield "the labels are not those of the state"
    if list(said["nodes"]) != list(graph.nodes) and set(said["nodes"]) != set(graph.nodes):
        yield "the nodes are not those of the rows"
    for name, node in graph.nodes.items():
        yield from _node(said["nodes"][name], node, set(said["guards"]), labels)
    for effect, name, argument, sources in said["effects"]:
        given = said["nodes"][name]["arguments"].get(f"{effect}({argument})", [])
        roots = {re.split(r"(?<=\))!?|[.\[?]", one)[0] if not _is_call(one) else one for one in given}
        missing = [one for one in sources if not any(str(root).startswith(one.rstrip("!")) for root in {*given, *roots})]
        if missing:
            yield f"{name}: {effect}({argument}) does not get '{missing[0]}'"


def _node(claimed: Mapping[str, Any], node: Node, guards: set[str], labels: Mapping[str, list[str]]) -> Iterator[str]:
    name, goes = node.name, {transition.name: transition.target or "END" for transition in node.transitions}
    granted = {f"{grant.name}.{method}" for grant in node.grants for method in methods(grant.capability)}
    known = {read.field.name for read in node.reads}
    open_fields = {read.field.name for read in node.reads if not read.presence and not is_closed(read.field.hint)}
    calls = [(outcome, call, counts) for outcome, found in claimed["calls"].items() for call, counts in found.items()]
    decides, several = claimed["decides"], len(set(goes.values())) > 1
    passed = {call.partition("(")[0] for call in claimed["arguments"]}
    problems = {
        "its outcomes do not go where the rows say": claimed["goes"] != goes,
        "it does not write what the rows say": set(claimed["writes"]) != set(node.writes),
        "it has calls of an outcome that it does not have": bool(set(claimed["calls"]) - set(goes)),
        "it has calls that it cannot have": any(call not in granted or not 0 <= least <= most for _, call, (least, most) in calls),
        "it tells a capability that it is not granted": bool(passed - granted),
        "it calls a capability without telling it anything it needs": bool(
            {call for _, call, (_, most) in calls if most} - passed - _silent(node)
        ),
        "it decides, and has one target": bool(decides) and not several,
        "it has several targets, and decides on nothing": several and not decides,
        "it decides on text": any(level not in _LEVELS for level in decides.values()),
        "it is not read": not claimed["read"] and several,
    }
    yield from (f"{name}: {problem}" for problem, found in problems.items() if found)
    for source in [*decides, *(one for part in ("writes", "arguments") for found in claimed[part].values() for one in found)]:
        root = re.split(r"[.\[?(]", source)[0]
        if not (
            source.startswith("constant ") or root in known or source.partition("()")[0] in granted or ("(" in source and root in guards)
        ):
            yield f"{name}: '{source}' is nothing that it can know"
        if decides.get(source) == "choice" and source in open_fields:
            yield f"{name}: '{source}' is called a choice and has no closed type"
        if decides.get(source) == "trusted" and "Trusted" not in labels.get(root, ["Trusted"]):
            yield f"{name}: '{source}' is called trusted and is not labelled so"


def _silent(node: Node) -> set[str]:
    """Return the methods that take no arguments."""
    every = {f"{grant.name}.{name}": method for grant in node.grants for name, method in methods(grant.capability).items()}
    return {name for name, method in every.items() if method.__code__.co_argcount + method.__code__.co_kwonlyargcount == 1}


def _is_call(source: str) -> bool:
    return "()" in source
