"""Property graphs in files of ladybug, one for each graph, written by one process at a time."""

from __future__ import annotations

import asyncio
import errno
import functools
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import JsonValue

from interlock.errors import StoreError, StoreFull, StoreUnavailable
from interlock.tools.threads import Threads
from interlock_agents.puntini.errors import NotInGraph
from interlock_agents.puntini.graph_store import Change, Changed, Edge, Node, NodeRef, Rows, StoredGraph
from interlock_agents.puntini.graphs.dialects import prepared
from interlock_agents.puntini.graphs.guard import check_name
from interlock_agents.puntini.graphs.ladybug_file import TITLE, LadybugFile
from interlock_agents.puntini.graphs.steps import at_least_one

__all__ = ["LadybugGraphs", "open_ladybug"]

T = TypeVar("T")
_OPEN = 8  # files that are open at once, each in a process of its own
_THREADS = 32
_MUCH = 100  # changes of a step that is thought through in a thread, not to hold up the event loop
_STEM = re.compile(r"[0-9a-f]{40}")
_FULL = {errno.ENOSPC, errno.EDQUOT}


def open_ladybug(folder: Path, *, timeout_s: float, max_rows: int, max_bytes: int) -> LadybugGraphs:
    """Keep graphs in a folder, which is made when the first graph is written or read."""
    return LadybugGraphs(folder, timeout_s=timeout_s, max_rows=max_rows, max_bytes=max_bytes)


class LadybugGraphs:
    """Keeps each graph in a file of its own.

    A graph takes one call at a time. A file that another process has open for longer than `timeout_s` is SessionBusy, a damaged one
    StoreCorrupt.
    In a query, a label, relationship or property that nothing in the graph ever had is NotInGraph, and a property whose values are of
    different types is a text.
    """

    def __init__(self, folder: Path, *, timeout_s: float, max_rows: int, max_bytes: int, at_once: int = _OPEN) -> None:
        self._folder, self._at_once = folder, at_once
        self._timeout_s, self._max_rows, self._max_bytes = timeout_s, max_rows, max_bytes
        self._files: OrderedDict[str, LadybugFile] = OrderedDict()
        self._lock = threading.Lock()
        self._threads = Threads(_THREADS)

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
        most = at_least_one(limit)
        return await self._with(graph, lambda file: file.nodes(label=label, key=key, properties=properties or {}, limit=most))

    async def edges(
        self, graph: str, *, start: NodeRef | None = None, end: NodeRef | None = None, relationship: str | None = None, limit: int = 100
    ) -> tuple[Edge, ...]:
        """Find edges, ordered by start, relationship and end."""
        for ref in (start, end):
            if ref is not None:
                check_name(ref.label, "label")
        if relationship is not None:
            check_name(relationship, "relationship")
        most = at_least_one(limit)
        return await self._with(graph, lambda file: file.edges(start=start, end=end, relationship=relationship, limit=most))

    async def query(self, graph: str, text: str, parameters: dict[str, JsonValue], *, limit: int = 100) -> Rows:
        """Ask in Cypher what only reads."""
        asked = prepared(text, dialect="ladybug")
        most = self._limited(limit)
        found = await self._with(graph, lambda file: file.query(asked.text, parameters, limit=most))
        return replace(found, columns=asked.columns) if asked.columns and len(asked.columns) == len(found.columns) else found

    async def apply(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Make these changes in their order, all or none."""
        return await self._with(graph, lambda file: file.apply(changes), size=len(changes))

    async def preview(self, graph: str, changes: tuple[Change, ...]) -> Changed:
        """Tell what these changes would come to. Nothing is written."""
        return await self._with(graph, lambda file: file.preview(changes), size=len(changes))

    async def graphs(self) -> tuple[StoredGraph, ...]:
        """List the graphs by their names."""
        return await self._threads.run(lambda: tuple(sorted(self._kept(), key=lambda one: one.name)))

    async def delete(self, graph: str) -> None:
        """Delete a graph with all that it has. Raises NotInGraph where there is none of that name."""
        if not any(one.name == graph for one in await self.graphs()):
            raise NotInGraph(f"There is no graph '{graph:.100}'.")
        file = self._file(graph)
        await file.baton.take()
        await file.baton.lend(self._threads, functools.partial(self._remove, graph, file))

    def _kept(self) -> Iterator[StoredGraph]:
        for path in self._folder.glob("*.lbug"):
            title, stat = path.with_suffix(TITLE), path.stat()
            name = title.read_text(encoding="utf-8", errors="surrogatepass") if title.exists() else path.stem
            yield StoredGraph(
                name=name, size=stat.st_size, changed=datetime.fromtimestamp(stat.st_mtime, tz=UTC).isoformat(timespec="seconds")
            )

    def _remove(self, graph: str, file: LadybugFile) -> None:
        try:
            file.remove()
        except OSError as error:
            raise self._unusable(error) from error
        self._leave(graph, file)

    async def aclose(self) -> None:
        """Close the files. One that is asked for later is opened again."""
        with self._lock:
            files = dict(self._files)
        await self._close(files)

    async def _with(self, graph: str, work: Callable[[LadybugFile], Awaitable[T]], *, size: int = 1) -> T:
        """Use a file, here where it is open, and in a thread where it has to be opened first or there is much to think through."""
        while True:
            file = self._file(graph)
            if len(self._files) > self._at_once:
                await self._close(self._spare())
            await file.baton.take()
            if file.is_retired:
                file.baton.give()
                continue
            if not file.is_open or size > _MUCH:
                found = await file.baton.lend(self._threads, functools.partial(self._beside, file, work))
            else:
                try:
                    found = await self._done(file, work)
                finally:
                    file.baton.give()
            if len(self._files) > self._at_once:
                await self._close(self._spare())
            return found

    def _beside(self, file: LadybugFile, work: Callable[[LadybugFile], Awaitable[T]]) -> T:
        try:
            file.open()
        except OSError as error:
            raise self._unusable(error) from error
        return asyncio.run(self._done(file, work))

    async def _done(self, file: LadybugFile, work: Callable[[LadybugFile], Awaitable[T]]) -> T:
        try:
            return await work(file)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> StoreError:
        says = f"Graphs cannot be kept in '{self._folder.name}': {error.strerror}."
        return StoreFull(says) if error.errno in _FULL else StoreUnavailable(says)

    def _file(self, graph: str) -> LadybugFile:
        with self._lock:
            file = self._files.pop(graph, None)
            if file is None:
                name = hashlib.sha256(graph.encode("utf-8", "surrogatepass")).hexdigest()[:40]
                path = self._folder / f"{name}.lbug"
                untitled = self._folder / f"{graph}.lbug"
                if _STEM.fullmatch(graph) and untitled.exists():  # a graph of before graphs had titles, by the name of its file
                    path = untitled
                file = LadybugFile(path, name=graph, timeout_s=self._timeout_s, max_bytes=self._max_bytes)
            self._files[graph] = file
            return file

    def _spare(self) -> dict[str, LadybugFile]:
        """Return the files that have to be closed for others: those that nobody uses, and that were not used for longest."""
        with self._lock:
            return {name: self._files[name] for name in list(self._files)[: -self._at_once] if not self._files[name].baton.is_taken}

    async def _close(self, files: Mapping[str, LadybugFile]) -> None:
        await asyncio.gather(*(self._close_one(graph, file) for graph, file in files.items()))

    async def _close_one(self, graph: str, file: LadybugFile) -> None:
        await file.baton.take()
        await file.baton.lend(self._threads, functools.partial(self._leave, graph, file))

    def _leave(self, graph: str, file: LadybugFile) -> None:
        """Close a file, and only then let go of it: nobody could open it before."""
        file.close()
        with self._lock:
            file.is_retired = True
            if self._files.get(graph) is file:
                del self._files[graph]

    def _limited(self, limit: int) -> int:
        return min(at_least_one(limit), self._max_rows)
