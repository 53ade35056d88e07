"""Prove an agent: what its nodes decide on, its labels, secrets and effects, and the claims of its document."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from interlock.agent import Agent
from interlock.capabilities.capability import methods
from interlock.contract import Graph
from interlock.contract.document import Document, read_document_file
from interlock.contract.labels import Control, Trusted, is_secret
from interlock.contract.type_hints import resolve_hints, unwrap_annotated
from interlock.errors import InterlockError
from interlock.verification.body import Counts, Unreadable, source_of
from interlock.verification.claims import Claim, ClaimUnknown, Names, check_claim, parse_claim, parse_given
from interlock.verification.faults import Fault
from interlock.verification.flows import GraphFlow
from interlock.verification.machine import Followed, Machine
from interlock.verification.overview import rule_of_two

__all__ = ["GraphProof", "Line", "prove_agent", "prove_graph"]

Tier = Literal["proved", "agrees", "trusted"]


@dataclass(frozen=True)
class Line:
    """A guarantee: how it is known, whether it holds, and what was looked at."""

    tier: Tier
    statement: str
    holds: bool
    proof: str


@dataclass
class GraphProof:
    """What was proved of a graph, and what is wrong with it."""

    flow: GraphFlow
    document: Document | None
    inside: Mapping[str, Counts] = field(default_factory=dict[str, Counts])
    behind: Mapping[type, Graph] = field(default_factory=dict[type, Graph])
    faults: list[Fault] = field(default_factory=list[Fault])
    claims: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    """The claims that hold: the text, what was given, and the number of states."""
    states: int = 0

    @property
    def graph(self) -> Graph:
        return self.flow.graph

    def run(self) -> None:
        """Find every fault."""
        self.faults += self.flow.faults()
        if self.document is not None:
            self.faults += compare(self.flow, self.document)
            self._claims(self.document)

    def _claims(self, document: Document) -> None:
        names = self.names()
        known = Followed()
        for block in document.claims:
            claims = [claim for line in block.lines if (claim := self._parsed(line, names)) is not None]
            try:
                values = parse_given(block.given)
            except ClaimUnknown as error:
                self._fault("claim_unknown", f"given {block.given}", str(error))
                continue
            vacuous = dict.fromkeys(claims, 0)
            runs = [[one] for one in values] or [[]]
            for given in runs:
                try:
                    paths = {path for claim in claims for path in claim.paths}
                    machine = Machine(self.flow, paths, given=dict(given), inside=self.inside, known=known)
                except Unreadable as error:
                    self._fault("claim_unknown", block.lines[0], error.why)
                    break
                self.states = max(self.states, len(machine.visits))
                shown = ", ".join(f"{path} = {next(iter(fact.consts or ()))}" for path, fact in given)
                for claim in claims:
                    vacuous[claim] += self._check(claim, machine, shown)
            for claim, times in vacuous.items():
                if times == len(runs):
                    self._fault("claim_vacuous", claim.text, "what it is about never happens.")

    def _parsed(self, line: str, names: Names) -> Claim | None:
        try:
            return parse_claim(line, names)
        except ClaimUnknown as error:
            self._fault("claim_unknown", line, str(error))
            return None

    def _check(self, claim: Claim, machine: Machine, given: str) -> bool:
        """Check a claim. Return whether it is about something that never happens here."""
        verdict = check_claim(claim, machine)
        if not verdict.vacuous and not verdict.holds:
            self._fault("claim_broken", claim.text, f"a path breaks it{f' with {given}' if given else ''}.", verdict.path)
        elif verdict.holds:
            self.claims.append((claim.text, given, len(machine.visits)))
        return verdict.vacuous

    def _fault(self, code: str, claim: str, message: str, path: tuple[str, ...] = ()) -> None:
        fix = {
            "claim_unknown": "write one of the forms of a claim, with names of this graph.",
            "claim_vacuous": "remove it, or correct the names.",
        }
        self.faults.append(
            Fault(code, self.graph.name, f"'{claim}': {message}", fix.get(code, "change the graph, or the claim."), path=path)
        )

    def names(self) -> Names:
        """Return the names that claims can use."""
        capabilities = dict.fromkeys((*self.graph.capabilities, *self.graph.forbids))
        queue = list(capabilities)
        for capability in queue:
            inner = self.behind.get(capability)
            new = [one for one in (*inner.capabilities, *inner.forbids) if one not in capabilities] if inner is not None else []
            capabilities |= dict.fromkeys(new)
            queue += new
        return Names(
            {name: [one.name for one in node.transitions] for name, node in self.graph.nodes.items()},
            {capability.__name__: list(methods(capability)) for capability in capabilities},
            self.flow.fields,
            self.flow.guards,
        )

    # What is shown

    def lines(self) -> Iterator[Line]:
        """Return what was proved, what agrees with the document, what is trusted, and every fault."""
        name = self.graph.name
        if self.flow.is_labelled:
            yield from self._proved({fault.code for fault in self.faults})
        else:
            decided = sorted({str(source) for flow in self.flow.nodes.values() for source in flow.decisions})
            shown = f"its nodes decide on {', '.join(decided)}" if decided else "no node decides"
            yield Line("trusted", f"{name}: no field has a label, so nothing is proved of decisions and effects", True, shown)
        for claim, given, states in self.claims:
            yield Line("proved", f"{name}: {claim}", True, f"on all paths: {states} states{f', {given}' if given else ''}")
        yield from self._compared({fault.code for fault in self.faults})
        if self.flow.is_labelled and self.flow.is_entry:
            has = rule_of_two(self.graph, self.behind)
            shown = "; ".join(f"{what}: {', '.join(names)}" for what, names in has.items())
            tier: Tier = "trusted" if len(has) > 2 else "proved"  # noqa: PLR2004 - the rule of two
            yield Line(tier, f"{name}: it has {len(has)} of 3 (rule of two): {', '.join(has)}", True, shown)
        trusted = self.trusted()
        if trusted and self.flow.is_labelled:
            yield Line("trusted", f"{name}: {_counted(trusted)}", True, "--trusted lists them")
        for fault in self.faults:
            yield Line("proved", f"{name}: {fault.code}", False, str(fault))

    def _proved(self, codes: set[str]) -> Iterator[Line]:
        """Return what is proved of decisions, labels, secrets and effects."""
        name = self.graph.name
        wrong = {fault.node for fault in self.faults if fault.code in {"untrusted_decision", "secret_decides", "body_unread"}}
        for node, flow in self.flow.nodes.items():
            if flow.decisions and node not in wrong:
                decided = ", ".join(map(str, flow.decisions))
                yield Line("proved", f"{name}: {node} decides on {decided}, and on no text", True, "read in its body, with every helper")
        others = [flow for flow in self.flow.nodes.values() if not flow.decisions]
        if others and not wrong:
            yield Line("proved", f"{name}: no other node decides which node runs next", True, f"nodes: {len(others)}")
        fields = [one for one in self.flow.fields.values() if Trusted in one.labels or Control in one.labels]
        if fields and not codes & {"label_exceeded", "control_taken", "body_unread"}:
            shown = ", ".join(one.name for one in fields)
            yield Line("proved", f"{name}: fields labelled Trusted and Control are made of trusted values and choices only", True, shown)
        secrets = self.secrets()
        if secrets and not codes & {"secret_written", "secret_told", "secret_raised", "secret_decides", "secret_given", "body_unread"}:
            yield Line(
                "proved", f"{name}: no secret is written, passed, raised or decides, but where it is labelled", True, ", ".join(secrets)
            )

    def _compared(self, codes: set[str]) -> Iterator[Line]:
        """Return what agrees with the document."""
        parts = compared_parts(self.document) if self.document is not None else ""
        if parts and not codes & {"undeclared_decision", "stale_decision", "undeclared_source", "stale_source", "guard_unknown"}:
            proof = f"compared both ways; arguments of effects: {len(self.flow.effects)}"
            yield Line("agrees", f"{self.graph.name}: {parts} are the document's", True, proof)

    def secrets(self) -> list[str]:
        """Return the fields and results that are labelled Secret."""
        found = [name for name, one in self.flow.fields.items() if is_secret(one.declared)]
        for capability in self.graph.capabilities:
            for name, method in methods(capability).items():
                if is_secret(resolve_hints(method).resolved.get("return")):
                    found.append(f"{capability.__name__}.{name}()")
        return found

    def trusted(self) -> dict[str, list[str]]:
        """Return what the proof rests on and does not show: guards, results of capabilities, functions that are not read."""
        results = sorted({
            call.name
            for flow in self.flow.nodes.values()
            for call in flow.reading.calls
            if Trusted in unwrap_annotated(resolve_hints(methods(call.capability)[call.method]).resolved.get("return"))[1]
        })  # fmt: skip
        unread = sorted({name for flow in self.flow.nodes.values() for name in flow.reading.unread})
        found = {"guard": list(self.flow.guards), "result": results, "function": unread}
        return {what: names for what, names in found.items() if names}

    def trusted_lines(self) -> Iterator[Line]:
        """Return each thing that the proof rests on, with the reason why it does."""
        for what, names in self.trusted().items() if self.flow.is_labelled else ():
            for one in names:
                reason = _REASONS[what]
                if what == "guard":
                    says = (inspect.getdoc(self.flow.guards[one]) or "").partition("\n")[0]
                    reason = f"{reason}{f' {says}' if says else ''}"
                yield Line("trusted", f"{self.graph.name}: {what} {one}", True, reason)


_REASONS = {
    "guard": "It says one of finitely many things about a text, and is not read.",
    "result": "Its Protocol labels what it returns Trusted, and every adapter has to keep that.",
    "function": "It is not read. Its result counts as made of all that it is given, and it must depend on nothing else.",
}
"""Why the proofs rely on each kind of trusted thing."""


def _counted(trusted: Mapping[str, list[str]]) -> str:
    words = {"guard": "guard", "result": "trusted result of a capability", "function": "function that is not read"}
    many = {"guard": "guards", "result": "trusted results of capabilities", "function": "functions that are not read"}
    return ", ".join(f"{len(names)} {words[what] if len(names) == 1 else many[what]}" for what, names in trusted.items())


def compared_parts(document: Document) -> str:
    """Return which of the optional parts a document has."""
    parts = {"decisions": document.decisions, "guards": document.guards, "effects": document.effects}
    return " and ".join(name for name, part in parts.items() if part is not None)


def compare(flow: GraphFlow, document: Document) -> Iterator[Fault]:
    """Compare decisions, guards and effects with the document, both ways."""
    name = flow.graph.name
    for node, found in flow.nodes.items() if document.decisions is not None else ():
        ours, theirs = {str(source) for source in found.decisions}, (document.decisions or {}).get(node, frozenset())
        lines = {str(source): line for source, line in found.decisions.items()}
        for one in sorted(ours - theirs):
            yield Fault(
                "undeclared_decision",
                name,
                f"decides on '{one}', which the document does not list.",
                "add it to 'decides on'.",
                node,
                line=lines[one],
            )
        for one in sorted(theirs - ours):
            yield Fault(
                "stale_decision", name, f"does not decide on '{one}', which the document lists.", "remove it from 'decides on'.", node
            )
    if document.guards is not None:
        for one in sorted(document.guards ^ set(flow.guards)):
            where = "the document, but no node uses it" if one in document.guards else "a node, but not in the document"
            yield Fault("guard_unknown", name, f"the guard '{one}' is in {where}.", "correct the table of guards.")
    if document.effects is not None:
        rows = {(row.effect, row.node, row.argument): set(row.sources) for row in flow.effects}
        for key in sorted({*rows, *document.effects}):
            effect, node, argument = key
            ours, theirs = rows.get(key, set[str]()), document.effects.get(key, frozenset[str]())
            for one in sorted(ours - theirs) or (["nothing from outside"] if key not in document.effects else []):
                message = f"argument '{argument}' of '{effect}' comes from '{one}', which the document does not list."
                yield Fault("undeclared_source", name, message, "add it to 'comes from'.", node)
            for one in sorted(theirs - ours) or (["nothing"] if key not in rows else []):
                message = f"argument '{argument}' of '{effect}' does not come from '{one}', which the document lists."
                yield Fault("stale_source", name, message, "remove it from 'comes from'.", node)


def prove_graph(graph: Graph, document: Path | None = None, **options: Any) -> GraphProof:
    """Prove one graph, with a document if there is one."""
    flow = GraphFlow(graph, options.get("behind", {}), options.get("persists", ()), options.get("is_entry", True))
    read: Document | None = None
    if document is not None:
        try:
            read = read_document_file(document, graph=graph.name)
        except InterlockError:
            read = None  # The comparison of the rows with the document says what is wrong with it.
    proof = GraphProof(flow, read, options.get("inside", {}), options.get("behind", {}))
    proof.run()
    return proof


def prove_agent(agent: Agent, document: Path | None = None) -> dict[str, GraphProof]:
    """Prove the graphs of an agent, those behind capabilities first."""
    behind = {capability: subgraph.graph for capability, subgraph in agent.subgraphs.items()}
    proofs: dict[str, GraphProof] = {}
    counts: dict[str, Counts] = {}

    def inside(graph: Graph) -> dict[str, Counts]:
        found: dict[str, Counts] = {}
        for capability in graph.capabilities:
            if capability in behind:
                prove(behind[capability])
                found[capability.__name__] = counts[behind[capability].name]
        return found

    def prove(graph: Graph) -> None:
        if graph.name in proofs:
            return
        inner = inside(graph)
        is_entry = graph in agent.entries.values()
        options = {"behind": behind, "inside": inner, "persists": tuple(agent.persists) if is_entry else (), "is_entry": is_entry}
        proofs[graph.name] = prove_graph(graph, document or agent.document, **options)
        if graph in behind.values():
            counts[graph.name] = Machine(proofs[graph.name].flow, inside=inner).counts()

    for graph in agent.graphs:
        prove(graph)
    return {graph.name: proofs[graph.name] for graph in agent.graphs}


def guard_hash(function: Any) -> str:
    """Return a hash of the source of a guard."""
    return hashlib.sha256(source_of(function)[0].encode()).hexdigest()[:16]
