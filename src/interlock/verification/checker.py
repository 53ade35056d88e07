"""An independent check of a certificate against an agent: its rows, its document and the sources of its functions.

It has to stay small enough to be read in one sitting. It trusts nothing of the prover, and imports nothing of the rest of this package.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from interlock.agent import Agent
from interlock.capabilities.capability import methods
from interlock.contract import Graph
from interlock.contract.document import Document, read_document_file
from interlock.contract.guards import is_guard
from interlock.contract.labels import Trusted
from interlock.contract.node import Node
from interlock.contract.type_hints import is_closed, resolve_hints, unwrap_annotated

__all__ = ["ASSUMED", "VERSION", "check_certificate"]

VERSION = 1
ASSUMED = (
    "guards say what their names say",
    "adapters keep the labels of their Protocols",
    "functions that are not read depend on their arguments only",
    "names of modules do not change after import",
    "the engines follow the rows",
    "failures and timing are not covered",
)
_LEVELS = ("trusted", "choice")
_PARTS = {"fingerprint", "labels", "nodes", "effects", "guards", "claims", "trusted"}
_NODE_PARTS = {"body", "functions", "read", "decides", "writes", "goes", "calls", "arguments"}


def check_certificate(found: Mapping[str, Any], agent: Agent) -> list[str]:
    """List what a certificate says that the agent contradicts, or that it does not say. The list is empty if it stands."""
    expected = {"agent": agent.name, "version": VERSION, "assumed": list(ASSUMED)}
    wrong = [f"'{key}' is {found.get(key)!r}" for key, value in expected.items() if found.get(key) != value]
    graphs = {graph.name: graph for graph in agent.graphs}
    if set(found) != {*expected, "graphs"} or set(found.get("graphs", {})) != set(graphs):
        return [*wrong, f"it has the parts {sorted(found)} and the graphs {sorted(found.get('graphs', {}))}"]
    for name, graph in graphs.items():
        document = None if agent.document is None else read_document_file(agent.document, graph=name)
        try:
            wrong += [f"{name}: {problem}" for problem in _graph(found["graphs"][name], graph, document)]
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            wrong.append(f"{name}: a part is missing or malformed ({type(error).__name__})")
    return wrong


def _graph(said: Mapping[str, Any], graph: Graph, document: Document | None) -> Iterator[str]:
    labels = {name: [str(label) for label in field.labels] for name, field in graph.state.fields.items()}
    effects = {(effect, name, argument): frozenset(sources) for effect, name, argument, sources in said["effects"]}
    decides = {name: frozenset(node["decides"]) for name, node in said["nodes"].items()}
    called = {name for node in said["nodes"].values() for calls in node["calls"].values() for name in calls}
    trusted = {f"{capability.__name__}.{name}" for capability in graph.capabilities for name in _trusted(capability)} & called
    problems = {
        "it is the certificate of other rows": said["fingerprint"] != graph.fingerprint[:16],
        "its parts are not those of a graph": set(said) != _PARTS or any(set(node) != _NODE_PARTS for node in said["nodes"].values()),
        "the labels are not those of the state": said["labels"] != labels,
        "the nodes are not those of the rows": set(said["nodes"]) != set(graph.nodes),
        "what it trusts is not what it uses": [set(said["trusted"].get(what, ())) for what in ("guard", "result")]
        != [set(said["guards"]), trusted],
    }
    if document is not None:
        claims = {line for block in document.claims for line in block.lines}
        problems |= {
            "the claims are not the document's": sorted(claims) != said["claims"],
            "the guards are not the document's": document.guards is not None and set(document.guards) != set(said["guards"]),
            "the effects are not the document's": document.effects is not None and document.effects != effects,
            "the decisions are not the document's": any(decides[name] != one for name, one in (document.decisions or {}).items()),
        }
    yield from (problem for problem, wrong in problems.items() if wrong)
    for (effect, name, argument), sources in effects.items():
        given = said["nodes"][name]["arguments"].get(f"{effect}({argument})", [])
        if not all(any(one.startswith(source.rstrip("!")) for one in given) for source in sources):
            yield f"{name}: {effect}({argument}) does not get what the effects say"
    for name, guard in said["guards"].items():
        where, _, digest = guard.rpartition(" ")
        function = _find(where)
        if function.__name__ != name or not is_guard(function) or digest != hashlib.sha256(_source(function).encode()).hexdigest()[:16]:
            yield f"the guard '{name}' is not the one that was read"
    unread = said["trusted"].get("function", ())
    yield from (f"'{where}' is not read, and is no function" for where in unread if not callable(_find(where)))
    for name, node in graph.nodes.items():
        yield from _node(said["nodes"][name], node, set(said["guards"]), labels)


def _trusted(capability: type) -> Iterator[str]:
    """Return the methods of a capability whose results are labelled Trusted."""
    for name, method in methods(capability).items():
        if Trusted in unwrap_annotated(resolve_hints(method).resolved.get("return"))[1]:
            yield name


def _find(where: str) -> Any:
    """Return the function with this module and name, also the one of a property."""
    parts = where.split(".")
    found: Any = None
    for cut in range(1, len(parts)):
        if ".".join(parts[:cut]) in sys.modules:
            found = sys.modules[".".join(parts[:cut])]
            for part in parts[cut:]:
                found = inspect.getattr_static(found, part, None)
    found = getattr(found, "__func__", None) or getattr(found, "fget", None) or getattr(found, "func", None) or found
    return inspect.unwrap(found)


@cache
def _source(function: Any) -> str:
    return textwrap.dedent(inspect.getsource(function.__code__))


def _body(node: Node, functions: list[str]) -> str:
    """Return the hash of the sources of a node and of the functions that were read with it."""
    read = hashlib.sha256()
    for where in functions:
        read.update(f"{where}\n{_source(node.run if where == node.name else _find(where))}".encode())
    return read.hexdigest()[:12]


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
        "its sources are not those that were read": claimed["read"] != (node.name in claimed["functions"])
        or claimed["body"] != _body(node, claimed["functions"]),
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
