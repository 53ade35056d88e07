"""A warehouse that answers queries in BigQuery's SQL: the demo shop's, or a DuckDB file of your own. Both are only read."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from pydantic import JsonValue

from interlock.errors import (
    CapabilityError,
    QueryDenied,
    QueryTimeout,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
    ToolError,
    ToolInputInvalid,
    ToolUnavailable,
)
from interlock.processes.child import Child
from interlock_agents.analyst.warehouse.demo import DATASET, FORMAT, TABLES, build_demo
from interlock_agents.analyst.warehouse.queries import Sql, Tables, read_only
from interlock_agents.analyst.warehouse.translation import to_duckdb

__all__ = ["DuckWarehouse", "Schema", "Warehouse", "described"]

Schema = Mapping[str, Mapping[str, str]]
"""The columns of each table, with their types as BigQuery calls them."""

_WHAT = "Warehouse"
_GRACE_S = 0.5  # for a query that is interrupted to end; after that its process is killed
_BESIDES_MIB = 384  # what a process needs for itself, and for what DuckDB does not count
_HELLO = 1024 * 1024  # for the names of tables and columns
_MAX_REASON = 400
_GONE: dict[str, Any] = {"failed": "gone"}
_UNREACHABLE = ("lock", "ermission denied", "open files")  # in what DuckDB says of a file
_MAX_DESCRIBED = 40  # tables; more would drown the question
_PATH = re.compile(r"(?<![\w<])(?:[A-Za-z]:)?(?:[\\/][\w.+~@-]+){2,}[\\/]?")
_BIGQUERY_TYPES = {
    "BIGINT": "INT64",
    "INTEGER": "INT64",
    "VARCHAR": "STRING",
    "DOUBLE": "FLOAT64",
    "BOOLEAN": "BOOL",
    "BLOB": "BYTES",
    "TIMESTAMP": "DATETIME",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP",
}


class Warehouse(Protocol):
    """Answers queries."""

    @property
    def description(self) -> str:
        """The description of the tool for a model, in one line, with the tables and their columns."""
        ...

    def query(self, sql: Sql) -> dict[str, JsonValue]:
        """Return the first rows of a query: `columns`, `rows`, `row_count`, and `cut` if there are more."""
        ...

    def close(self) -> None:
        """Close connections and processes. The next query opens them again."""
        ...


def described(schema: Schema) -> str:
    """Say what the tool does, and which tables there are."""
    tables = [f"{table}({', '.join(f'{name} {kind}' for name, kind in columns.items())})" for table, columns in schema.items()]
    shown = "; ".join(tables[:_MAX_DESCRIBED])
    more = f"; and {len(tables) - _MAX_DESCRIBED} more" if len(tables) > _MAX_DESCRIBED else ""
    return f"Run one SELECT statement in BigQuery's SQL on the warehouse and return its first rows. Tables: {shown}{more}."


class DuckWarehouse:
    """Answers queries from a DuckDB file, each in a process that is kept for the next one. The demo warehouse is made on first use."""

    def __init__(
        self,
        folder: Path,
        *,
        path: Path | None = None,
        dataset: str = DATASET,
        max_rows: int = 1000,
        max_bytes: int = 200_000,
        timeout_s: float = 8.0,
        memory_mib: int = 512,
        at_once: int = 4,
    ) -> None:
        self._path = path or folder / "warehouse.duckdb"
        self._is_demo = path is None
        self._dataset = DATASET if path is None else dataset
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._options: dict[str, Any] = {
            "max_rows": max_rows,
            "max_bytes": max_bytes,
            "timeout_s": timeout_s,
            "memory_mib": memory_mib,
            "process_mib": memory_mib + _BESIDES_MIB,
        }
        self._schema: Schema | None = TABLES if path is None else None
        self._places = threading.BoundedSemaphore(at_once)
        self._lock, self._building = threading.Lock(), threading.Lock()
        self._idle: list[Child] = []

    @property
    def description(self) -> str:
        """Say what the tool does, and which tables there are. To know those of a file of your own, it is opened."""
        return described(self._known())

    def query(self, sql: Sql) -> dict[str, JsonValue]:
        """Run one SELECT statement in BigQuery's SQL on the warehouse and return its first rows."""
        schema = self._known()
        tables = Tables(frozenset((self._dataset, table) for table in schema), default=self._dataset)
        text = to_duckdb(read_only(sql, tables=tables))
        if not self._places.acquire(timeout=self._timeout_s):
            raise ToolUnavailable("The warehouse is busy with other queries: ask again.")
        try:
            answer = self._run(text)
            if answer.get("failed") == "broken" and self._is_demo:  # the file is damaged, and holds nothing of its own
                self.close()
                self._path.unlink(missing_ok=True)
                answer = self._run(text)
        finally:
            self._places.release()
        if "page" not in answer:
            raise self._typed(answer)
        return cast("dict[str, JsonValue]", answer["page"])

    def close(self) -> None:
        """End the processes that wait for a query."""
        with self._lock:
            idle = self._idle[:]
            self._idle.clear()
        for child in idle:
            child.kill()

    def _known(self) -> Schema:
        if self._schema is None:
            self._give_back(self._start())
        return cast("Schema", self._schema)

    def _run(self, text: str) -> dict[str, Any]:
        """Send a query to an idle process; if there is no live one, start one."""
        waiting = self._take_idle()
        answer = _GONE if waiting is None else self._run_in(waiting, text)
        return self._run_in(self._start(), text) if answer == _GONE else answer

    def _run_in(self, child: Child, text: str) -> dict[str, Any]:
        """Put a query to a process; one that does not end in time, or has no room left, is not asked again."""
        answer = child.ask(text, within=self._timeout_s + _GRACE_S)
        if answer.get("failed") in {None, "timeout", "invalid", "denied"}:
            self._give_back(child)
        else:
            child.kill()
        return answer

    def _take_idle(self) -> Child | None:
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.is_ours():
                    return child
                child.kill()
        return None

    def _give_back(self, child: Child) -> None:
        with self._lock:
            self._idle.append(child)

    def _start(self) -> Child:
        """Start a process. The demo's file is made if it is not there, and rebuilt if it has another format or cannot be read."""
        if not self._is_demo and not self._path.is_file():
            raise StoreUnavailable(f"{_WHAT} '{self._path.name}' is not there. Name a DuckDB file.")
        if self._is_demo:
            with self._building:
                if not self._path.exists():
                    build_demo(self._path)
        try:
            return self._started()
        except StoreCorrupt:
            if not self._is_demo:
                raise
        build_demo(self._path)
        return self._started()

    def _started(self) -> Child:
        child = Child(
            "interlock_agents.analyst.warehouse.duckdb_main",
            self._path.resolve(),
            self._options,
            needs="duckdb",
            most=6 * self._max_bytes + _HELLO,
        )
        problem = self._problem(child.hello)
        try:
            if problem is None and self._schema is None:
                self._schema = _schema(child.hello["columns"], self._dataset)
        except StoreUnavailable as error:
            problem = error
        if problem is not None:
            child.kill()
            raise problem
        return child

    def _problem(self, hello: Mapping[str, Any]) -> StoreError | None:
        """Tell a file that cannot be read from one that cannot be reached."""
        whose, reason = f"{_WHAT} '{self._path.name}'", str(hello.get("reason", ""))
        if hello.get("failed") in {"late", "gone"} or any(said in reason for said in _UNREACHABLE):
            return StoreUnavailable(f"{whose} cannot be opened: {_reason(hello) if reason else 'its process does not begin.'}")
        if "failed" in hello:
            return StoreCorrupt(f"{whose} cannot be opened: {_reason(hello)}")
        if self._is_demo and hello["format"] != FORMAT:
            return StoreCorrupt(f"{whose} has another format.")
        return None

    def _typed(self, answer: Mapping[str, Any]) -> CapabilityError:
        failed = answer.get("failed")
        if failed in {"timeout", "late"}:
            return QueryTimeout(f"The query took longer than {self._timeout_s:g} seconds: ask for less.")
        if failed in {"memory", "gone"}:  # the memory limit is the usual reason why the process dies
            return ToolError("The query needs more memory than it may use: ask for less.")
        if failed == "denied":
            return QueryDenied("The query may not be run: it is not one that only reads the warehouse.")
        if failed == "invalid":
            return ToolInputInvalid(f"The query cannot be run: {_reason(answer)}")
        return StoreCorrupt(f"{_WHAT} '{self._path.name}' cannot be read: {_reason(answer)}")


def _schema(columns: Sequence[Sequence[str]], dataset: str) -> Schema:
    schema: dict[str, dict[str, str]] = {}
    for owner, table, column, kind in columns:
        if owner == dataset:
            schema.setdefault(table, {})[column] = "NUMERIC" if kind.startswith("DECIMAL") else _BIGQUERY_TYPES.get(kind, kind)
    if not schema:
        raise StoreUnavailable(f"{_WHAT} has no tables in the dataset '{dataset}'.")
    return schema


def _reason(answer: Mapping[str, Any]) -> str:
    """Take from the database's error what a model can use: one line, without a place on the machine."""
    said = str(answer.get("reason", "")).partition("\n\nLINE ")[0]
    line = _PATH.sub("...", " ".join(said.split()))
    return re.sub(r"(?<![.?!])$", ".", line[:_MAX_REASON]) if line else "the database does not say why."
