"""Certificates: what was proved of an agent, as one JSON file that is committed and compared when the agent changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from interlock.errors import InputSchema
from interlock.verification.body import Unreadable, source_of
from interlock.verification.checker import ASSUMED, VERSION
from interlock.verification.proofs import GraphProof, guard_hash

__all__ = ["certificate", "changes", "read_certificate", "write_certificate"]


def certificate(name: str, proofs: Mapping[str, GraphProof]) -> dict[str, Any]:
    """Return the certificate of an agent. It has no times and no paths of a machine."""
    return {
        "agent": name,
        "version": VERSION,
        "assumed": list(ASSUMED),
        "graphs": {graph: _graph(proof) for graph, proof in proofs.items()},
    }


def _graph(proof: GraphProof) -> dict[str, Any]:
    flow, graph = proof.flow, proof.graph
    return {
        "fingerprint": graph.fingerprint[:16],
        "labels": {name: [str(label) for label in field.labels] for name, field in sorted(graph.state.fields.items())},
        "nodes": {name: _node(proof, name) for name in graph.nodes},
        "effects": [[row.effect, row.node, row.argument, list(row.sources)] for row in sorted(flow.effects)],
        "guards": {
            name: f"{function.__module__}.{function.__qualname__} {guard_hash(function)}" for name, function in sorted(flow.guards.items())
        },
        "claims": sorted({text for text, _, _ in proof.claims}),
        "trusted": proof.trusted(),
    }


def _node(proof: GraphProof, name: str) -> dict[str, Any]:
    flow = proof.flow.nodes[name]
    calls: dict[str, dict[str, list[int]]] = {}
    constants: dict[str, set[str]] = {field: set() for field in flow.written}
    for end in flow.reading.ends:
        for field, value in end.fields.items():
            constants[field].update(_constants(value))
        known = calls.setdefault(end.outcome, {})
        for call, (least, most) in end.calls.items():
            before = known.get(call, [least, most])
            known[call] = [min(before[0], least), max(before[1], most)]
    return {
        "body": _digest(flow.reading.read if flow.is_read else {}),
        "functions": sorted(flow.reading.read) if flow.is_read else [],
        "read": flow.is_read,
        "decides": {str(source): source.level.name.lower() for source in flow.decisions},
        "writes": {field: sorted({*map(str, sources), *constants[field]}) for field, sources in sorted(flow.written.items())},
        "goes": {transition.name: transition.target or "END" for transition in flow.node.transitions},
        "calls": {outcome: dict(sorted(found.items())) for outcome, found in sorted(calls.items())},
        "arguments": _arguments(proof, name),
    }


def _digest(read: Mapping[str, Any]) -> str:
    """Return a hash of the source of a node and of every function that was read with it: whatever changes there shows in a review."""
    found = hashlib.sha256()
    for name, function in sorted(read.items()):
        with contextlib.suppress(Unreadable):
            found.update(f"{name}\n{source_of(function)[0]}".encode())
    return found.hexdigest()[:12]


def _arguments(proof: GraphProof, name: str) -> dict[str, list[str]]:
    """Return what each argument of each call is made of."""
    found: dict[str, set[str]] = {}
    for call in proof.flow.nodes[name].reading.calls:
        for argument, value in call.arguments.items():
            found.setdefault(f"{call.name}({argument})", set()).update(map(str, value.sources), _constants(value))
    return {argument: sorted(sources) for argument, sources in sorted(found.items())}


def _constants(value: Any) -> Iterator[str]:
    """Return the constants that a value can be, so that a changed constant is seen as well."""
    for inner in value.reach():
        for const in inner.consts or () if not inner.origins else ():
            if isinstance(const.value, str | int | float | bool | None):
                yield f"constant {const.value!r}"


def write_certificate(path: Path, found: Mapping[str, Any]) -> None:
    """Write a certificate, sorted, so that a review sees what has changed."""
    path.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def read_certificate(path: Path) -> dict[str, Any]:
    """Read a certificate. Raises InputSchema for any other file."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputSchema(f"The certificate '{path.name}' cannot be read: {type(error).__name__}.") from error
    if not isinstance(found, dict) or "graphs" not in found:
        raise InputSchema(f"'{path.name}' is not a certificate.")
    return found  # pyright: ignore[reportUnknownVariableType]


def changes(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """List what differs between two certificates, one line each: `+` is new, `-` is gone, `~` is changed."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            inner = f"{place} {key}".strip()
            if key not in before:
                yield f"+ {inner}{_short(after[key])}"
            elif key not in after:
                yield f"- {inner}{_short(before[key])}"
            else:
                yield from changes(before[key], after[key], inner)
    elif isinstance(before, list) and isinstance(after, list):
        old, new = [json.dumps(one) for one in before], [json.dumps(one) for one in after]  # pyright: ignore[reportUnknownVariableType]
        yield from (f"- {place}: {one}" for one in old if one not in new)
        yield from (f"+ {place}: {one}" for one in new if one not in old)
    elif before != after:
        yield f"~ {place}: {json.dumps(before)} is now {json.dumps(after)}"


def _short(value: Any) -> str:
    return f": {json.dumps(value)}" if not isinstance(value, dict) else ""
