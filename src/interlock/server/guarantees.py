"""What each agent guarantees, and how that is known: the verdicts of `interlock verify`, for operators."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from interlock.agent import Agent
from interlock.server.routing import Access, Json, Operation, ServerRoute, principal_of, server_of
from interlock.server.shapes import Guarantee, GuaranteeList, PathStep
from interlock.verification.faults import RULES, Fault
from interlock.verification.proofs import prove_agent
from interlock.verification.verdicts import Verdict, verify_agent

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["describe", "routes"]


_STEP = re.compile(r"(?P<node>\S+)(?: \((?P<outcome>.+)\))?")
"""A node of a path that breaks a claim, with the outcome that it returns where it has several."""


async def _verify(agent: Agent) -> list[Guarantee]:
    proofs = prove_agent(agent)
    faults = {str(fault): fault for proof in proofs.values() for fault in proof.faults}
    return [describe(agent, verdict, faults.get(verdict.proof)) async for verdict in verify_agent(agent, proofs)]


def describe(agent: Agent, verdict: Verdict, fault: Fault | None) -> Guarantee:
    """Return a guarantee as a person reads it: the graph apart, and what is wrong as a sentence with the path that shows it."""
    if fault is not None:
        path = [] if fault.code != "claim_broken" else _path(agent, fault)
        return Guarantee(
            guarantee=RULES[fault.code],
            holds=verdict.holds,
            how=verdict.how,
            proof=_sentence(fault),
            graph=fault.graph,
            code=fault.code,
            node=fault.node,
            path=path,
        )
    named, _, rest = verdict.invariant.partition(": ")
    graph = named if rest and any(one.name == named for one in agent.graphs) else None
    said = rest if graph else verdict.invariant
    return Guarantee(guarantee=said, holds=verdict.holds, how=verdict.how, proof=verdict.proof, graph=graph)


def _sentence(fault: Fault) -> str:
    place = f"{fault.node}: " if fault.node else ""
    return f"{place}{fault.message}{f' Line {fault.line}.' if fault.line else ''} To fix it, {fault.fix}"


def _path(agent: Agent, fault: Fault) -> list[PathStep]:
    """Return a path through the graph. An outcome that is the only one of its node is added; the end has no node."""
    nodes = next(graph for graph in agent.graphs if graph.name == fault.graph).nodes
    steps: list[PathStep] = []
    for number, text in enumerate(fault.path):
        found = _STEP.fullmatch(text)
        node = None if found is None or found["node"] not in nodes else nodes[found["node"]]
        outcome = None if found is None else found["outcome"]
        if node is not None and outcome is None and len(node.transitions) == 1 and number < len(fault.path) - 1:
            outcome = node.transitions[0].name
        steps.append(PathStep(node=None if node is None else node.name, outcome=outcome))
    return steps


def _verify_apart(agent: Agent) -> list[Guarantee]:
    return asyncio.run(_verify(agent))


class Guarantees:
    """Verifies each agent once: neither its code nor its document changes while the process runs."""

    def __init__(self) -> None:
        self._found: dict[str, asyncio.Task[list[Guarantee]]] = {}

    async def of(self, agent: Agent) -> list[Guarantee]:
        """Return the guarantees of an agent. Callers that ask at the same time share one check."""
        found = self._found.get(agent.name)
        if found is None or (found.done() and (found.cancelled() or found.exception() is not None)):
            # In a thread with an event loop of its own: checks compute for seconds, and turns go on meanwhile.
            found = self._found[agent.name] = asyncio.create_task(asyncio.to_thread(_verify_apart, agent))
        return await asyncio.shield(found)


def routes(_: Server) -> list[ServerRoute]:
    """Return the route of the guarantees."""
    guarantees = Guarantees()

    async def list_guarantees(request: Request) -> Response:
        agent = server_of(request).service.agent(principal_of(request), request.path_params["agent"])
        found = await guarantees.of(agent)
        return Json(GuaranteeList(agent=agent.name, holds=all(one.holds for one in found), guarantees=found))

    described = Operation(summary="The guarantees of an agent with their proofs", responses={200: GuaranteeList})
    return [ServerRoute("GET", "/api/agents/{agent}/guarantees", list_guarantees, access=Access.OPERATOR, operation=described)]
