"""The application: `create_app` puts agents behind HTTP, with a worker in the same process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interlock.agent import Agent
from interlock.app import Interlock
from interlock.discovery import AGENTS, load_agent
from interlock.errors import InterlockError
from interlock.runtime.observe import LOGGER
from interlock.runtime.turns import TurnStore
from interlock.server import a2a, agui, forks, guarantees, langgraph, metrics, openai_api, openapi, pages, responses_api, rest, sessions
from interlock.server.auth import Authenticator
from interlock.server.boundary import LOOPBACK, Boundary, host_of, same_origin
from interlock.server.events import EventHub
from interlock.server.problems import Problem
from interlock.server.request_errors import MethodRefused, NotFound, OriginRefused, RequestError
from interlock.server.routing import ServerRoute
from interlock.server.service import TurnService
from interlock.stores.keys import KeyStore, open_keys

__all__ = ["PROTOCOLS", "Server", "create_app"]


def _with_extra(module: str, needs: str) -> Callable[[Server], Sequence[ServerRoute]]:
    """Return the routes of a protocol that needs an extra. Without it the server does not have them."""

    def routes(server: Server) -> Sequence[ServerRoute]:
        return () if find_spec(needs) is None else import_module(module).routes(server)

    return routes


PROTOCOLS: tuple[Callable[[Server], Sequence[ServerRoute]], ...] = (
    metrics.routes,
    sessions.routes,
    rest.routes,
    forks.routes,
    guarantees.routes,
    openai_api.routes,
    responses_api.routes,
    agui.routes,
    a2a.routes,
    _with_extra("interlock.server.mcp_api", "mcp"),
    openapi.routes,
    langgraph.routes,
    pages.routes,
)
"""The modules of the server, each by its function that returns its routes. A new protocol is one line here."""


class Server:
    """What the routes of all protocols share. A handler gets it by `server_of(request)`."""

    def __init__(
        self, interlock: Interlock, agents: Mapping[str, Agent], *, concurrency: int, hosts: Iterable[str], keys: KeyStore
    ) -> None:
        if concurrency:
            interlock.check_worker(agents.values())
        self.interlock = interlock
        self.settings = interlock.settings
        self.agents = agents
        self.hosts = LOOPBACK | {host_of(host) for host in (*hosts, *self.settings.server_hosts)}
        self.concurrency = concurrency
        """How many turns are run in this process; 0 where other processes run them."""
        self.keys = keys
        self.auth = Authenticator(self.settings, keys)
        self.metrics = metrics.Metrics()
        dispatcher = interlock.turns
        dispatcher.store = dispatcher.worker.store = cast("TurnStore", metrics.MeteredTurns(dispatcher.store, self.metrics))
        self.hub = EventHub(dispatcher.store)
        self.service = TurnService(interlock, self.hub, agents)
        self.is_open = False
        """Whether the agents are open and turns can be run."""
        self.failure: Exception | None = None
        """Why the agents could not be opened."""
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        """Called when the server stops, for what a protocol has opened."""
        self.routes: list[ServerRoute] = [route for protocol in PROTOCOLS for route in protocol(self)]
        self._working: asyncio.Task[None] | None = None
        self._measuring: asyncio.Task[None] | None = None

    def check_origin(self, connection: HTTPConnection) -> None:
        """Refuse a request of a page of another site. Programs send no Origin; browsers do, where it matters."""
        origin, host = connection.headers.get("origin"), connection.headers.get("host", "")
        if origin is None:
            if connection.headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
                raise OriginRefused
        elif origin not in self.settings.server_origins and not same_origin(origin, host, connection.url.scheme):
            raise OriginRefused

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncGenerator[None]:
        """Open the agents, run a worker, and give its turns back at the end."""
        self._measuring = asyncio.create_task(self.metrics.watch_loop())
        try:
            await self._open()
            yield
        finally:
            await self.drain()
            self._measuring.cancel()
            await asyncio.gather(self._measuring, return_exceptions=True)
            for close in self.on_close:
                await close()
            await self.keys.aclose()

    async def _open(self) -> None:
        try:
            await self.interlock.open(self.agents.values())
            if self.concurrency:
                ready = asyncio.Event()
                self._working = asyncio.create_task(
                    self.interlock.work(self.agents.values(), concurrency=self.concurrency, on_ready=ready.set), name="worker"
                )
                waiting = asyncio.create_task(ready.wait())
                await asyncio.wait({self._working, waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if self._working.done():
                    await self._working
        except Exception as error:
            self.failure = error
            raise
        self.is_open = True

    async def drain(self) -> None:
        """Accept no more turns, end all streams, and give the turns that run here back for another process."""
        self.service.is_draining = True
        await self.hub.aclose()
        if self._working is not None and not self._working.done():
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)


class _PageCompression(GZipMiddleware):
    """Compresses the page and what it reads, and no stream. The headers of other responses are sent before the rest is there."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_read = scope.get("method") == "GET" and (path == "/" or path.startswith(("/page/", "/api/")))
        await (super().__call__(scope, receive, send) if is_read else self.app(scope, receive, send))


def create_app(
    interlock: Interlock,
    *,
    agents: Iterable[Agent] | None = None,
    concurrency: int = 4,
    hosts: Iterable[str] = (),
    keys: KeyStore | None = None,
) -> Starlette:
    """Return an ASGI application that serves agents; without `agents`, all that are installed and can be loaded.

    A worker in the process runs `concurrency` turns at a time; with 0 it runs none. `hosts` are the names by which clients address
    the server, beside those of the loopback interface. The application does not close `interlock`.
    """
    served = {agent.name: agent for agent in (_installed() if agents is None else agents)}
    url = interlock.settings.turn_url
    store = keys or open_keys(None if url is None else url.get_secret_value(), interlock.settings.folder)
    server = Server(interlock, served, concurrency=concurrency, hosts=hosts, keys=store)
    app = Starlette(
        routes=server.routes,
        lifespan=server.lifespan,
        exception_handlers={InterlockError: _on_error, HTTPException: _on_http_error},
    )
    app.state.server = server
    app.router.redirect_slashes = False
    app.add_middleware(_PageCompression, minimum_size=1_000, compresslevel=5)
    app.add_middleware(Boundary, server=server)
    return app


def _installed() -> list[Agent]:
    """Return the installed agents. One that cannot be loaded, because its extra is missing, is left out and logged."""
    found: list[Agent] = []
    for name in AGENTS:
        try:
            found.append(load_agent(name))
        except InterlockError as error:
            LOGGER.warning("an agent is not served", extra={"fields": {"agent": name, "code": error.code, "error": error.message}})
    return found


async def _on_error(_: Request, error: Exception) -> Response:
    return Problem(cast("InterlockError", error))


async def _on_http_error(_: Request, error: Exception) -> Response:
    """Translate an error of Starlette: a path or a method that does not exist."""
    failed = cast("HTTPException", error)
    kinds: dict[int, type[RequestError]] = {404: NotFound, 405: MethodRefused}
    return Problem(kinds.get(failed.status_code, RequestError)(), headers=dict(failed.headers or {}))
