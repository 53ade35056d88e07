"""A warehouse that answers queries in BigQuery's SQL from a DuckDB file: the demo shop's, or one of your own. It is only read."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Protocol, cast

from pydantic import JsonValue

from interlock.errors import (
    CapabilityError,
    QueryDenied,
    QueryTimeout,
    SettingsInvalid,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
    ToolError,
    ToolInputInvalid,
    ToolUnavailable,
)
from interlock.processes.child import Child
from interlock_agents.analyst.warehouse.demo import DATASET, FORMAT, TABLES, Schema, bigquery_type, build_demo
from interlock_agents.analyst.warehouse.translation import to_duckdb
from interlock_agents.analyst.warehouse.validation import Sql, Tables, read_only

__all__ = ["DuckWarehouse", "Warehouse", "described", "one_line", "open_warehouse", "timed_out"]

# An interrupted query may take so many seconds to end before its process is killed.
_GRACE_S = 0.5
# Memory of the process beside what DuckDB counts.
_PROCESS_MIB = 384
# The size limit for the names of tables and columns.
_MAX_HELLO_BYTES = 1024 * 1024
_MAX_REASON = 400
_MAX_DESCRIBED = 40
# In DuckDB's error messages about a file that exists but cannot be opened now.
_UNREACHABLE = ("lock", "ermission denied", "open files")
_PATH = re.compile(r"(?<![\w<])(?:[A-Za-z]:)?(?:[\\/][\w.+~@-]+){2,}[\\/]?")
# A query gets this share of the tool's time limit, so that the tool can still report the timeout.
_TIME_SHARE = 0.8
_GONE: dict[str, Any] = {"failed": "gone"}


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
    """Return the description of the query tool, with the tables and their columns."""
    tables = [f"{table}({', '.join(f'{name} {kind}' for name, kind in columns.items())})" for table, columns in schema.items()]
    more = f"; and {len(tables) - _MAX_DESCRIBED} more" if len(tables) > _MAX_DESCRIBED else ""
    return (
        "Run one SELECT statement in BigQuery's SQL on the warehouse and return its first rows. "
        f"Tables: {'; '.join(tables[:_MAX_DESCRIBED])}{more}."
    )


def timed_out(seconds: float) -> QueryTimeout:
    """Return the error for a query that exceeds its time limit."""
    return QueryTimeout(f"The query took longer than {seconds:g} seconds: ask for less.")


def one_line(message: str) -> str:
    """Shorten a database's error message to one line that ends with a full stop."""
    return re.sub(r"(?<![.?!])$", ".", " ".join(message.split())[:_MAX_REASON])


class DuckWarehouse:
    """Answers queries from a DuckDB file in child processes, which are reused. The demo warehouse is built on first use."""

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
        self._name = f"Warehouse '{self._path.name}'"
        self._is_demo = path is None
        self._dataset = DATASET if path is None else dataset
        self._timeout_s, self._max_bytes = timeout_s, max_bytes
        self._options: dict[str, Any] = {
            "max_rows": max_rows,
            "max_bytes": max_bytes,
            "timeout_s": timeout_s,
            "memory_mib": memory_mib,
            "process_mib": memory_mib + _PROCESS_MIB,
        }
        self._schema: Schema | None = TABLES if path is None else None
        self._slots = threading.BoundedSemaphore(at_once)
        self._building = threading.Lock()
        self._idle: SimpleQueue[Child] = SimpleQueue()

    @property
    def description(self) -> str:
        """The description of the tool. Reading the tables of your own file opens it."""
        return described(self._known())

    def query(self, sql: Sql) -> dict[str, JsonValue]:
        """Run one SELECT statement in BigQuery's SQL on the warehouse and return its first rows."""
        tables = Tables(frozenset((self._dataset, table) for table in self._known()), default=self._dataset)
        text = to_duckdb(read_only(sql, tables=tables))
        if not self._slots.acquire(timeout=self._timeout_s):
            raise ToolUnavailable("The warehouse is busy with other queries: ask again.")
        try:
            answer = self._run(text)
            if answer.get("failed") == "broken" and self._is_demo:  # rebuild a damaged demo file
                self.close()
                self._path.unlink(missing_ok=True)
                answer = self._run(text)
        finally:
            self._slots.release()
        if "page" not in answer:
            raise self._query_error(answer)
        return cast("dict[str, JsonValue]", answer["page"])

    def close(self) -> None:
        """End the idle processes."""
        while (child := self._take_idle()) is not None:
            child.kill()

    def _known(self) -> Schema:
        if self._schema is None:
            self._idle.put(self._start())
        return cast("Schema", self._schema)

    def _run(self, text: str) -> dict[str, Any]:
        """Send a query to an idle process, or to a new one."""
        idle = self._take_idle()
        answer = _GONE if idle is None else self._run_in(idle, text)
        return self._run_in(self._start(), text) if answer == _GONE else answer

    def _run_in(self, child: Child, text: str) -> dict[str, Any]:
        """Send a query to a process. Kill the process if it did not answer in time or is out of memory."""
        answer = child.ask(text, within=self._timeout_s + _GRACE_S)
        if answer.get("failed") in {None, "timeout", "invalid", "denied"}:
            self._idle.put(child)
        else:
            child.kill()
        return answer

    def _take_idle(self) -> Child | None:
        with suppress(Empty):
            while not (child := self._idle.get_nowait()).is_ours():
                child.kill()
            return child
        return None

    def _start(self) -> Child:
        """Start a process. Build the demo file if it is missing, and rebuild it if it has another format or is damaged."""
        if not self._is_demo and not self._path.is_file():
            raise StoreUnavailable(f"{self._name} is not there. Name a DuckDB file.")
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
            most=6 * self._max_bytes + _MAX_HELLO_BYTES,
        )
        error = self._open_error(child.hello)
        if error is None and self._schema is None:
            self._schema = _schema(child.hello["columns"], self._dataset) or None
            error = StoreUnavailable(f"Warehouse has no tables in the dataset '{self._dataset}'.") if self._schema is None else None
        if error is not None:
            child.kill()
            raise error
        return child

    def _open_error(self, hello: Mapping[str, Any]) -> StoreError | None:
        """Distinguish a damaged file from one that cannot be opened now."""
        reason = str(hello.get("reason", ""))
        if hello.get("failed") in {"late", "gone"} or any(text in reason for text in _UNREACHABLE):
            return StoreUnavailable(f"{self._name} cannot be opened: {_reason(hello) if reason else 'its process does not start.'}")
        if "failed" in hello:
            return StoreCorrupt(f"{self._name} cannot be opened: {_reason(hello)}")
        if self._is_demo and hello["format"] != FORMAT:
            return StoreCorrupt(f"{self._name} has another format.")
        return None

    def _query_error(self, answer: Mapping[str, Any]) -> CapabilityError:
        match answer.get("failed"):
            case "timeout" | "late":
                return timed_out(self._timeout_s)
            case "memory" | "gone":  # the memory limit is the usual reason why a process dies
                return ToolError("The query needs more memory than it may use: ask for less.")
            case "denied":
                return QueryDenied("The query may not be run: it is not one that only reads the warehouse.")
            case "invalid":
                return ToolInputInvalid(f"The query cannot be run: {_reason(answer)}")
            case _:
                return StoreCorrupt(f"{self._name} cannot be read: {_reason(answer)}")


def _schema(columns: Sequence[Sequence[str]], dataset: str) -> Schema:
    schema: dict[str, dict[str, str]] = {}
    for owner, table, column, kind in columns:
        if owner == dataset:
            schema.setdefault(table, {})[column] = bigquery_type(kind)
    return schema


def _reason(answer: Mapping[str, Any]) -> str:
    """Return DuckDB's error message without paths."""
    message = str(answer.get("reason", "")).partition("\n\nLINE ")[0]
    return one_line(_PATH.sub("...", " ".join(message.split()))) if message.strip() else "the database gives no reason."


def open_warehouse(name: str, *, folder: Path, timeout_s: float, max_bytes_billed: int) -> Warehouse:
    """Open `demo`, `duckdb:PATH` or `bigquery:PROJECT.DATASET`."""
    kind, _, rest = name.partition(":")
    within = timeout_s * _TIME_SHARE
    if name == "demo":
        return DuckWarehouse(folder, timeout_s=within)
    if kind == "duckdb" and rest:
        return DuckWarehouse(folder, path=Path(rest).expanduser(), dataset="main", timeout_s=within)
    project, _, dataset = rest.partition(".")
    if kind == "bigquery" and project and dataset:
        from interlock_agents.analyst.warehouse.bigquery import BigQueryWarehouse  # noqa: PLC0415 - an extra

        return BigQueryWarehouse(project, dataset=dataset, max_bytes_billed=max_bytes_billed, timeout_s=within)
    raise SettingsInvalid(f"Warehouse '{name}' is unknown. Use 'demo', 'duckdb:PATH' or 'bigquery:PROJECT.DATASET'.")
