"""Stored turns and declared agents as the shapes of the REST API, without secrets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json

from interlock.agent import Agent
from interlock.contract import Graph
from interlock.contract.render import as_data
from interlock.discovery import entry_of
from interlock.dispatch.results import result_of
from interlock.runtime.events import hide
from interlock.runtime.recording import read_header
from interlock.runtime.turns import StoredTurn
from interlock.server import shapes
from interlock.server.auth import Principal
from interlock.server.examples import examples_of
from interlock.server.layout import lay_out
from interlock.server.problems import turn_error
from interlock.server.service import rests

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["agent_shape", "session_summary", "time_text", "turn_shape", "worker_shape"]

_MOST_SAID = 120
_NO_TEXT = {"type", "role", "id", "file", "name"}
_NESTED = {"error": shapes.TurnFault, "waiting": shapes.Question, "answer": shapes.Answer}


def time_text(seconds: float | None) -> str | None:
    """Return a time of the store as text in UTC, with milliseconds."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def turn_shape(server: Server, turn: StoredTurn, *, is_full: bool = False) -> shapes.TurnShape:
    """Return a turn. Its result is stored without secrets; secrets that became known since then are removed here."""
    result: dict[str, Any] = result_of(turn).to_json() if rests(turn) else {}
    agent = server.agents[turn.agent]
    graph, forked = entry_of(agent, turn.role), None
    shown: dict[str, Any] = {name: result[name] for name in ("output", "path", "usage", "metadata") if name in result}
    shown |= {"error": result.get("error"), "answer": None if turn.answer is None else from_json(turn.answer)}
    waiting = result["metadata"].get("waiting") if turn.status == "waiting" else None
    if is_full:
        header = read_header(turn.header)
        shown |= {"state": result.get("state"), "input": hide(header.given, graph.state.secret)}
        forked = None if header.fork is None else shapes.ForkedFrom(turn=header.fork.turn, step=header.fork.step)
    redacted = cast("dict[str, Any]", server.interlock.redactor.data({**shown, "waiting": waiting}))
    if redacted["error"] is not None:
        redacted["error"]["message"] = turn_error(redacted["error"]["code"], redacted["error"]["message"]).message
    for name, shape in _NESTED.items():
        redacted[name] = None if redacted[name] is None else shape.model_validate(redacted[name])
    return shapes.TurnShape.model_construct(
        **{
            name: getattr(turn, name) for name in ("turn", "agent", "role", "session", "position", "status", "principal", "key", "attempts")
        },
        **{name: time_text(getattr(turn, name)) for name in ("created", "started", "ended")},
        graph=graph.name,
        forked_from=forked,
        **redacted,
    )


def session_summary(server: Server, turn: StoredTurn, first: StoredTurn) -> dict[str, Any]:
    """Return what is known of a session by its last turn, and by the first one that was looked at."""
    changed = time_text(turn.ended or turn.started or turn.created)
    graph = entry_of(server.agents[first.agent], first.role)
    said = _first_text(hide(read_header(first.header).given, graph.state.secret))
    data = {"agent": turn.agent, "session": turn.session, "turns": turn.position, "said": server.interlock.redactor.text(said)[:_MOST_SAID]}
    return data | {"status": turn.status, "last_turn": turn.turn, "changed": changed}


def _first_text(value: Any) -> str:
    """Return the first text of an input that is not an id or a file."""
    if isinstance(value, str):
        return "" if value.startswith("data:") else value
    if isinstance(value, list):
        parts = [_first_text(one) for one in reversed(cast("list[Any]", value))]
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        parts = [_first_text(one) for name, one in fields if name not in _NO_TEXT and not name.endswith("_id")]
    else:
        return ""
    return next((part for part in parts if part), "")


def worker_shape(name: str, turns: list[StoredTurn], *, now: float, is_this: bool) -> shapes.WorkerShape:
    """Return a worker with the leases of the turns that it runs."""
    leases = [
        shapes.LeaseShape(
            **{field: getattr(turn, field) for field in ("turn", "agent", "session", "position", "attempts")},
            seconds=round(max(0.0, (turn.lease_until or now) - now), 1),
        )
        for turn in turns
    ]
    return shapes.WorkerShape(worker=name, turns=[turn.turn for turn in turns], leases=leases, is_this=is_this)


def agent_shape(principal: Principal, agent: Agent, *, with_graphs: bool) -> shapes.Agent:
    """Return an agent with the graphs that the caller may enter, and those that they use."""
    roles = [role for role in agent.entries if role is not None and principal.has(role)]
    hidden = {graph.name for role, graph in agent.entries.items() if not principal.has(role)}
    graphs = [_graph_shape(agent, graph) for graph in agent.graphs if graph.name not in hidden] if with_graphs else []
    return shapes.Agent(
        agent=agent.name,
        summary=agent.summary,
        roles=roles,
        has_sessions=agent.has_sessions,
        pauses=agent.pauses,
        speaks=list(agent.speakers),
        graphs=graphs,
        examples=examples_of(agent, principal) if with_graphs else [],
    )


def _graph_shape(agent: Agent, graph: Graph) -> shapes.GraphShape:
    data = as_data(graph)
    behind = {capability.__name__: subgraph.graph.name for capability, subgraph in agent.subgraphs.items()}
    summaries = {node.name: node.summary for node in graph.nodes.values()}
    nodes = [
        {**node, "summary": summaries[node["name"]], "graphs": {use: behind[use] for use in node["uses"] if use in behind}}
        for node in data["nodes"]
    ]
    more = {"takes": list(graph.state.takes), "gives": graph.gives, "max_steps": graph.max_steps, "layout": lay_out(graph)}
    return shapes.GraphShape.model_validate({**data, "nodes": nodes, **more})
