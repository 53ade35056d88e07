"""Assistants: the graphs of agents that a caller may enter, each under its name and an id that follows from the name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from interlock.agent import Agent
from interlock.contract import Graph
from interlock.errors import AgentUnknown
from interlock.server.auth import Principal
from interlock.server.langgraph.bodies import SearchBody, read_shape
from interlock.server.routing import Json, principal_of, server_of
from interlock.stores.threads import contains

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["Assistant", "assistants_of", "count", "find_assistant", "get", "graph", "schemas", "search", "subgraphs"]

_NAMESPACE = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
"""LangGraph's own, so that a graph has the same id here as there."""
_CREATED = "1970-01-01T00:00:00.000Z"


@dataclass(frozen=True, kw_only=True)
class Assistant:
    """A graph that may be entered. Of an agent with several roles there is one for each: `gateway.admin`."""

    name: str
    agent: Agent
    role: str | None
    graph: Graph

    @property
    def id(self) -> str:
        """The id by which clients may also name it."""
        return str(uuid5(_NAMESPACE, self.name))

    @property
    def shape(self) -> dict[str, Any]:
        """The assistant in LangGraph's shape."""
        return {
            "assistant_id": self.id,
            "graph_id": self.name,
            "name": self.name,
            "description": self.agent.summary,
            "config": {},
            "context": {},
            "metadata": {"created_by": "system"},
            "version": 1,
            "created_at": _CREATED,
            "updated_at": _CREATED,
        }


def assistants_of(server: Server, principal: Principal) -> list[Assistant]:
    """Return the assistants that a caller may use."""
    return [
        Assistant(name=agent.name if role is None else f"{agent.name}.{role}", agent=agent, role=role, graph=graph)
        for agent in server.agents.values()
        for role, graph in agent.entries.items()
        if principal.has(role)
    ]


def find_assistant(server: Server, principal: Principal, name: str) -> Assistant:
    """Return an assistant by its name or its id. Raises AgentUnknown, also for one of a role that the caller does not have."""
    for one in assistants_of(server, principal):
        if name in {one.name, one.id}:
            return one
    raise AgentUnknown(f"There is no assistant '{name[:80]}'.")


def _found(request: Request) -> Assistant:
    return find_assistant(server_of(request), principal_of(request), request.path_params["assistant"])


def _selected(request: Request, body: SearchBody) -> list[dict[str, Any]]:
    shapes = [one.shape for one in assistants_of(server_of(request), principal_of(request))]
    return [
        shape
        for shape in shapes
        if (body.graph_id is None or shape["graph_id"] == body.graph_id)
        and (body.name is None or body.name.lower() in shape["name"].lower())
        and contains(shape["metadata"], body.metadata or {})
    ]


async def search(request: Request) -> Response:
    """Return assistants, sorted by name."""
    body = await read_shape(request, SearchBody)
    found = sorted(_selected(request, body), key=lambda shape: shape["name"], reverse=body.sort_order == "desc")
    page = found[body.offset : body.offset + body.limit]
    return Json([{name: one[name] for name in body.select if name in one} if body.select else one for one in page])


async def count(request: Request) -> Response:
    """Return how many assistants there are."""
    return Json(len(_selected(request, await read_shape(request, SearchBody))))


async def get(request: Request) -> Response:
    """Return an assistant."""
    return Json(_found(request).shape)


async def graph(request: Request) -> Response:
    """Return the nodes and edges of an assistant's graph, for drawing."""
    drawn = _found(request).graph
    nodes: list[dict[str, Any]] = [{"id": "__start__", "type": "schema", "data": "__start__"}]
    nodes += [{"id": name, "type": "runnable", "data": {"id": ["interlock", name], "name": name}} for name in drawn.nodes]
    nodes.append({"id": "__end__", "type": "schema", "data": "__end__"})
    edges: list[dict[str, Any]] = [{"source": "__start__", "target": drawn.entry}]
    edges += [
        {"source": source, "target": target or "__end__", "data": outcome, "conditional": True} for source, outcome, target in drawn.edges
    ]
    return Json({"nodes": nodes, "edges": edges})


async def schemas(request: Request) -> Response:
    """Return the JSON schemas of an assistant's input and state."""
    found = _found(request)
    message = {"type": "object", "properties": {"role": {"const": "user"}, "content": {"type": "string"}}, "required": ["role", "content"]}
    messages = {"type": "array", "items": message}
    taken = {name: _schema(found.graph, name) for name in found.graph.state.takes}
    state = {name: _schema(found.graph, name) for name in found.graph.state.fields}
    return Json(
        {
            "graph_id": found.name,
            "input_schema": _object(f"{found.name} input", {"messages": messages, **taken}),
            "output_schema": _object(f"{found.name} output", {**state, "messages": messages}),
            "state_schema": _object(f"{found.name} state", {**state, "messages": messages}),
            "config_schema": _object(f"{found.name} config", {}),
            "context_schema": _object(f"{found.name} context", {}),
        }
    )


def _schema(graph: Graph, name: str) -> dict[str, Any]:
    """Return the JSON schema of a field, without definitions elsewhere; `{}` for a type that JSON schema does not have."""
    try:
        made = TypeAdapter(graph.state.fields[name].annotated).json_schema()
    except Exception:  # noqa: BLE001 - pydantic raises several kinds for types without a schema
        return {}
    return made if "$defs" not in json.dumps(made) else {"title": name}


def _object(title: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"title": title, "type": "object", "properties": dict(properties)}


async def subgraphs(request: Request) -> Response:
    """Return the graphs inside an assistant's graph: those of its agent that it uses, by name."""
    found = _found(request)
    inner = [one for one in found.agent.graphs if one not in found.agent.entries.values()]
    return Json({one.name: {"state": _object(one.name, {name: _schema(one, name) for name in one.state.fields})} for one in inner})
