"""What the prover finds wrong: one fault for each broken guarantee, with the place, the path of the value and the fix."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["RULES", "Fault"]

RULES: dict[str, str] = {
    "untrusted_decision": "Text from outside decides which node runs next.",
    "undeclared_decision": "A node decides on something that the document does not list.",
    "stale_decision": "The document lists a decision that the node does not make.",
    "label_exceeded": "A field labelled Trusted or Control is made of text from outside.",
    "unlabelled_field": "A field of the state has no label.",
    "control_taken": "A caller may set a field that is labelled Trusted or Control.",
    "untrusted_argument": "Text from outside becomes an argument that has to be trusted.",
    "undeclared_source": "An argument of an effect comes from something that the document does not list.",
    "stale_source": "The document lists a source of an argument that it does not come from.",
    "secret_written": "A field that is not labelled Secret is made of a secret.",
    "secret_told": "A capability is passed a secret that it must not know.",
    "secret_raised": "An error is made of a secret, or a secret decides that it is raised.",
    "secret_decides": "A secret decides which node runs next.",
    "secret_given": "A secret is the result of a graph, or is kept between turns.",
    "open_guard": "A guard is not a synchronous, annotated function with a closed result.",
    "guard_unknown": "The document and the nodes do not use the same guards.",
    "unused_grant": "A node is granted a capability that it never calls.",
    "unused_read": "A node reads a field that it never uses.",
    "dead_outcome": "No way through a node returns an outcome that it declares.",
    "ambient": "A node reaches outside of the turn without a capability.",
    "body_unread": "The body of a node cannot be read, and its signature alone does not show the guarantee.",
    "claim_broken": "A path of the graph breaks a claim of the document.",
    "claim_vacuous": "A claim of the document is about something that never happens.",
    "claim_unknown": "A claim of the document cannot be read.",
}
"""The codes of faults. They never change: SARIF, JSON and the documentation have the same."""


@dataclass(frozen=True)
class Fault:
    """A guarantee that does not hold."""

    code: str
    graph: str
    message: str
    fix: str
    node: str | None = None
    field: str | None = None
    line: int | None = None
    file: str | None = None
    path: tuple[str, ...] = ()
    """The path of the value, or the nodes of a path that breaks a claim."""

    def __str__(self) -> str:
        place = f"{self.graph}: {f'{self.node}: ' if self.node else ''}"
        line = f" (line {self.line})" if self.line else ""
        path = f" Path: {' -> '.join(self.path)}." if self.path else ""
        return f"{self.code}: {place}{self.message}{line}{path} Fix: {self.fix}"

    def as_json(self) -> dict[str, Any]:
        """Return the fault as JSON data."""
        return {**asdict(self), "path": list(self.path)}
