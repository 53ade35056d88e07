"""LangGraph's Server API, for the clients that people already have: threads are sessions, runs are turns.

assistants.py   the graphs that a caller may enter
threads.py      the routes of threads; states.py those of their states and history
runs.py         the routes of runs: stream, wait, background, join, cancel
submission.py   a body becomes a turn, or the answer to a suspended one
sessions.py     threads with a principal, their turns and conversation
stream.py       a turn's events as frames of the stream modes, and as checkpoints
thread_streams.py  one stream for all runs of a thread, and commands; protocol_events.py its events
messages.py     the conversation as messages, and messages as input
bodies.py       the bodies of requests, and what is refused by name
"""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from interlock.server.langgraph import assistants
from interlock.server.langgraph.runs import RunRoutes
from interlock.server.langgraph.sessions import Sessions
from interlock.server.langgraph.states import StateRoutes
from interlock.server.langgraph.thread_streams import ThreadStreamRoutes
from interlock.server.langgraph.threads import ThreadRoutes
from interlock.server.request_errors import NotFound
from interlock.server.routing import Access, Json, ServerRoute

if TYPE_CHECKING:
    from interlock.server.app import Server

__all__ = ["routes"]


async def ok(_: Request) -> Response:
    """Return that the server answers."""
    return Json({"ok": True})


async def info(_: Request) -> Response:
    """Return the version of the server and what it offers."""
    flags = {"assistants": True, "crons": False, "langsmith": False, "langsmith_tracing_replicas": False}
    # What can be served follows from the agents, not from the version of LangGraph, which need not be installed.
    langgraph = version("langgraph") if find_spec("langgraph") else "0"
    return Json({"version": version("interlock"), "langgraph_py_version": langgraph, "flags": flags, "metadata": {}})


async def no_crons(_: Request) -> Response:
    """Refuse crons."""
    raise NotFound("There are no crons: a scheduler of your own creates runs, with 'after_seconds' for a single one.")


async def no_store(_: Request) -> Response:
    """Refuse the store."""
    raise NotFound("There is no store for clients: what an agent remembers is written by its own nodes, by their contracts.")


def routes(server: Server) -> list[ServerRoute]:
    """Return the routes of LangGraph's Server API."""
    sessions = Sessions(server)
    threads, states, runs = ThreadRoutes(sessions), StateRoutes(sessions), RunRoutes(sessions)
    streams = ThreadStreamRoutes(sessions)
    thread, run = "/threads/{thread}", "/threads/{thread}/runs/{run}"
    return [
        ServerRoute("GET", "/ok", ok, access=Access.OPEN),
        ServerRoute("GET", "/info", info, access=Access.OPEN),
        ServerRoute("POST", "/assistants/search", assistants.search),
        ServerRoute("POST", "/assistants/count", assistants.count),
        ServerRoute("GET", "/assistants/{assistant}", assistants.get),
        ServerRoute("GET", "/assistants/{assistant}/graph", assistants.graph),
        ServerRoute("GET", "/assistants/{assistant}/schemas", assistants.schemas),
        ServerRoute("GET", "/assistants/{assistant}/subgraphs", assistants.subgraphs),
        ServerRoute("POST", "/threads", threads.create),
        ServerRoute("POST", "/threads/search", threads.search),
        ServerRoute("POST", "/threads/count", threads.count),
        ServerRoute("GET", thread, threads.get),
        ServerRoute("PATCH", thread, threads.change),
        ServerRoute("DELETE", thread, threads.delete),
        ServerRoute("POST", f"{thread}/copy", threads.copy),
        ServerRoute("GET", f"{thread}/state", states.get),
        ServerRoute("POST", f"{thread}/state", states.update),
        ServerRoute("POST", f"{thread}/state/checkpoint", states.post_checkpoint),
        ServerRoute("GET", f"{thread}/state/{{checkpoint}}", states.get_at),
        ServerRoute("GET", f"{thread}/history", states.history),
        ServerRoute("POST", f"{thread}/history", states.history),
        ServerRoute("POST", f"{thread}/stream/events", streams.events),
        ServerRoute("POST", f"{thread}/commands", streams.command),
        ServerRoute("POST", f"{thread}/runs", runs.create),
        ServerRoute("GET", f"{thread}/runs", runs.list),
        ServerRoute("POST", f"{thread}/runs/stream", runs.stream),
        ServerRoute("POST", f"{thread}/runs/wait", runs.wait),
        ServerRoute("GET", run, runs.get),
        ServerRoute("DELETE", run, runs.delete),
        ServerRoute("GET", f"{run}/join", runs.join),
        ServerRoute("GET", f"{run}/stream", runs.join_stream),
        ServerRoute("POST", f"{run}/cancel", runs.cancel),
        ServerRoute("POST", "/runs", runs.create),
        ServerRoute("POST", "/runs/stream", runs.stream),
        ServerRoute("POST", "/runs/wait", runs.wait),
        ServerRoute("POST", "/runs/cancel", runs.cancel_many),
        *(ServerRoute(method, path, no_crons) for path in ("/runs/crons", "/runs/crons/search") for method in ("GET", "POST")),
        ServerRoute("POST", f"{thread}/runs/crons", no_crons),
        *(ServerRoute(method, "/store/items", no_store) for method in ("GET", "PUT", "DELETE")),
        ServerRoute("POST", "/store/items/search", no_store),
        ServerRoute("POST", "/store/namespaces", no_store),
    ]
