"""Property graphs in ladybug files, one for each graph. One process at a time has a file open."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

from pydantic import JsonValue

from interlock.errors import StoreFull, StoreUnavailable
from interlock.tools.threads import Threads
from interlock_agents.puntini.errors import NotInGraph
from interlock_agents.puntini.graph_store import Change, Changed, Edge, Node, NodeRef, Rows, StoredGraph
from interlock_agents.puntini.graphs.dialects import prepare
from interlock_agents.puntini.graphs.effects import check_limit
from interlock_agents.puntini.graphs.guard import check_name
from interlock_agents.puntini.graphs.ladybug_file import TITLE, LadybugFile

__all__ = ["LadybugGraphs", "open_ladybug"]

T = TypeVar("T")
_MAX_OPEN = 8  # files, each in a process of its own
_STEM = re.compile(r"[0-9a-f]{40}")
_FULL = {errno.ENOSPC, errno.EDQUOT}


def open_ladybug(folder: Path, *, timeout_s: float, max_rows: int, max_bytes: int) -> LadybugGraphs:
    """Store graphs in a folder, which is created when the first graph is read or written."""
    return LadybugGraphs(folder, timeout_s=timeout_s, max_rows=max_rows, max_bytes=max_bytes)


class _Worker:
    """A file and the thread that makes its calls, in the order in which they arrive from any event loop."""

    def __init__(self, file: LadybugFile) -> None:
        self.file = file
        self.calls = 0
        self._threads = Threads(1)

    async def run(self, work: Callable[[LadybugFile], T]) -> T:
        """Make a call. If the caller is cancelled while the call runs, the process that has the file open is killed."""
        is_running = False

        def call() -> T:
            nonlocal is_running
            is_running = True
            try:
                return work(self.file)
            finally:
                is_running = False

        self.calls += 1
        try:
            return await self._threads.run(call)
        except asyncio.CancelledError:
            if is_running:
                self.file.kill()
            raise
        finally:
            self.calls -= 1


class LadybugGraphs:
    """Stores each graph in a file of its own, and makes one call at a time on each.

    Raises SessionBusy for a file that another process has open for longer than `timeout_s`, and StoreCorrupt for a damaged file.
    In a query, a label, relationship or property that the graph never had is NotInGraph, and a property whose values have different
    types is a text.
    """

    def __init__(self, folder: Path, *, timeout_s: float, max_rows: int, max_bytes: int, max_open: int = _MAX_OPEN) -> None:
        self._folder, self._max_open = folder, max_open
        self._timeout_s, self._max_rows, self._max_bytes = timeout_s, max_rows, max_bytes
        self._workers: WeakValueDictionary[str, _Worker] = WeakValueDictionary()
        self._open: OrderedDict[str, _Worker] = OrderedDict()
        self._lock = threading.Lock()

    async def nodes(
        self,
        graph: str,
        *,
        label: str | None = None,
        key: str | None = None,
        properties: dict[str, JsonValue] | None = None,
        limit: int = 100,
    ) -> tuple[Node, ...]:
        """Find nodes, ordered by label and key."""
        if label is not None:
            check_name(label, "label")
        for name in properties or {}:
            check_name(name, "property")
        most = check_limit(limit)
        return await self._run(graph, lambda file: file.nodes(label=label, key=key, properties=properties or {}, limit=most))

    async def edges(
        self, graph: str, *, start: NodeRef | None = None, end: NodeRef | None = None, relationship: str | None = None, limit: int = 100
    ) -> tuple[Edge, ...]:
        """Find edges, ordered by start, relationship and end."""
        for ref in (start, end):
            if ref is not None:
                check_name(ref.label, "label")
        if relationship is not None:
            check_name(relationship, "relationship")
        most = check_limit(limit)
        return await self._run(graph, lambda file: file.edges(start=start, end=end, relationship=relationship, limit=most))

    async def query(self, graph: str, text: str, parameters: dict[str, JsonValue], *, limit: int = 100) -> Rows:
        """Run a read-only Cypher query."""
        prepared, most = prepare(text, dialect="ladybug"), min(check_limit(limit), self._max_rows)
        found = await self._run(graph, lambda file: file.query(prepared.text, parameters, limit=most))
        columns = prepared.columns
        return replace(found, columns=columns) if columns and len(columns) == len(found.columns) else found

    async def apply(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Apply these changes in order, all or none."""
        return await self._run(graph, lambda file: file.apply(changes))

    async def preview(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Return what these changes would change. Nothing is written."""
        return await self._run(graph, lambda file: file.preview(changes))

    async def graphs(self) -> tuple[StoredGraph, ...]:
        """List the graphs by name."""
        return await Threads(1).run(lambda: tuple(sorted(self._stored(), key=lambda one: one.name)))

    def _stored(self) -> Iterator[StoredGraph]:
        for path in self._folder.glob("*.lbug"):
            title, stat = path.with_suffix(TITLE), path.stat()
            name = title.read_text(encoding="utf-8", errors="surrogatepass") if title.exists() else path.stem
            changed = datetime.fromtimestamp(stat.st_mtime, tz=UTC).isoformat(timespec="seconds")
            yield StoredGraph(name=name, size=stat.st_size, changed=changed)

    async def delete(self, graph: str) -> None:
        """Delete a graph. Raises NotInGraph if it does not exist."""
        if not any(one.name == graph for one in await self.graphs()):
            raise NotInGraph(f"There is no graph '{graph:.100}'.")
        await self._run(graph, lambda file: file.remove())

    async def aclose(self) -> None:
        """Close all files. A file is opened again when it is needed."""
        await self._close(list(self._open.items()))

    async def _run(self, graph: str, work: Callable[[LadybugFile], T]) -> T:
        """Make a call on a file, and close files that were not used for longest if too many are open."""
        with self._lock:
            worker = self._workers.get(graph)
            if worker is None:
                worker = self._workers[graph] = _Worker(self._file(graph))
        try:
            return await worker.run(work)
        except OSError as error:
            message = f"Graphs cannot be stored in '{self._folder.name}': {error.strerror}."
            raise (StoreFull if error.errno in _FULL else StoreUnavailable)(message) from error
        finally:
            with self._lock:
                self._open[graph] = worker
                self._open.move_to_end(graph)
                oldest = [(name, one) for name, one in list(self._open.items())[: -self._max_open] if not one.calls]
            await self._close(oldest)

    async def _close(self, workers: list[tuple[str, _Worker]]) -> None:
        await asyncio.gather(*(worker.run(lambda file: file.close()) for _, worker in workers))
        with self._lock:
            for graph, worker in workers:
                if not worker.file.is_open:
                    self._open.pop(graph, None)

    def _file(self, graph: str) -> LadybugFile:
        digest = hashlib.sha256(graph.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        # An early version had no titles, and listed graphs by the names of their files.
        is_stem = _STEM.fullmatch(graph) is not None and (self._folder / f"{graph}.lbug").exists()
        path = self._folder / f"{graph if is_stem else digest}.lbug"
        return LadybugFile(path, name=graph, timeout_s=self._timeout_s, max_bytes=self._max_bytes)
