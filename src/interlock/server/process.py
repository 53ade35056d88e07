"""Runs the application on uvicorn, and ends its streams and turns before its connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Generator
from typing import cast

import uvicorn
from starlette.applications import Starlette

from interlock.errors import AddressTaken
from interlock.server.app import Server

__all__ = ["ServerProcess"]

_GRACE_S = 5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ServerProcess(uvicorn.Server):
    """A server with one process. On SIGTERM it gives its turns back, ends its streams, and then closes its connections."""

    def __init__(self, app: Starlette, *, host: str, port: int) -> None:
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="on",
            ws="none",
            timeout_graceful_shutdown=_GRACE_S,
            h11_max_incomplete_event_size=32 * 1024,
        )
        super().__init__(config)
        self._application = cast("Server", app.state.server)
        self.on_ready: Callable[[], object] | None = None
        self.is_changed = False
        """Whether it was stopped because a file has changed."""

    @property
    def address(self) -> str:
        """The URL at which the server is reached."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def stop(self, *, is_changed: bool = False) -> None:
        """Stop as on SIGTERM."""
        self.is_changed = is_changed
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop on SIGINT and SIGTERM. Unlike uvicorn, do not raise the signal again: the application has to be closed after this."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        # At the second signal, connections are not waited for.
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the agents and listen. Raises AddressTaken, or what the agents could not be opened for."""
        # What uvicorn logs here is raised.
        log = logging.getLogger("uvicorn.error")
        log.disabled = True
        try:
            await super().startup(sockets)
        except SystemExit as error:
            if self._application.failure is not None:
                raise self._application.failure from None
            where = f"Port {self.config.port} of '{self.config.host}'"
            raise AddressTaken(f"{where} is in use, or not an address of this machine. Fix: use another one, by '--port'.") from error
        finally:
            log.disabled = False
        if self.started and self.on_ready is not None:
            self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Give turns back and end the streams, for which uvicorn would wait."""
        await self._application.drain()
        await super().shutdown(sockets)
