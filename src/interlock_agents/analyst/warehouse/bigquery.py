"""A warehouse in BigQuery, through Google's client: the extra `interlock[bigquery]`."""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from itertools import islice
from typing import Any, cast

from pydantic import JsonValue

from interlock.errors import CapabilityError, ToolError, ToolInputInvalid, ToolUnavailable
from interlock.extras import require
from interlock_agents.analyst.warehouse.demo import Schema
from interlock_agents.analyst.warehouse.duckdb_main import Page
from interlock_agents.analyst.warehouse.validation import Sql, Tables, read_only, rewritten
from interlock_agents.analyst.warehouse.warehouse import described, one_line, timed_out

__all__ = ["MAX_DATASETS", "MAX_TABLES", "BigQueryWarehouse"]

MAX_DATASETS = 50
"""The maximum number of datasets of a project that are listed, if none is named."""

MAX_TABLES = 1000
"""The maximum number of tables of a dataset that may be read."""

# Describing a table takes one call.
_MAX_DESCRIBED = 20
_TYPES = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"}
_BUSY = frozenset({"backendError", "internalError", "rateLimitExceeded", "quotaExceeded", "jobRateLimitExceeded", "resourcesExceeded"})
_SERVER_ERROR, _TOO_MANY_REQUESTS, _GATEWAY_TIMEOUT = 500, 429, 504
_URL = re.compile(r"(?:(?:GET|POST) )?https?://\S+:?\s*")


class BigQueryWarehouse:
    """Answers queries from BigQuery. It may read the tables of one dataset, or of all datasets of a project, which are listed once.

    `max_bytes_billed` limits the cost of a query: a query that would read more fails and costs nothing.
    """

    def __init__(
        self,
        project: str,
        *,
        dataset: str | None = None,
        max_rows: int = 1000,
        max_bytes: int = 200_000,
        max_bytes_billed: int = 10 * 1024**3,
        timeout_s: float = 30.0,
        client: Any = None,
    ) -> None:
        require("google.cloud.bigquery", extra="bigquery", what="BigQuery's client")
        self._project, self._dataset = project, dataset
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._max_bytes_billed, self._timeout_s = max_bytes_billed, timeout_s
        self._client, self._is_own = client, client is None
        self._tables: Tables | None = None
        self._schema: Schema | None = None
        self._lock = threading.Lock()

    @property
    def description(self) -> str:
        """The description of the tool. The columns are read once."""
        tables = self._known()
        with self._lock, self._translated():
            if self._schema is None:
                self._schema = self._columns(tables)
        return described(self._schema)

    def query(self, sql: Sql) -> dict[str, JsonValue]:
        """Run one SELECT statement in BigQuery's SQL on the warehouse and return its first rows."""
        from google.cloud import bigquery  # noqa: PLC0415 - an extra

        tables = self._known()
        text = rewritten(read_only(sql, tables=tables), tables=tables)
        config = bigquery.QueryJobConfig(
            use_legacy_sql=False,
            maximum_bytes_billed=self._max_bytes_billed,
            job_timeout_ms=int(self._timeout_s * 1000),
            labels={"made-by": "interlock"},
        )
        with self._translated():
            rows = self._opened().query_and_wait(
                text,
                job_config=config,
                project=self._project,
                max_results=self._max_rows + 1,
                api_timeout=self._timeout_s,
                wait_timeout=self._timeout_s,
                retry=self._limits()["retry"],
                job_retry=None,
            )
            page = Page([field.name for field in rows.schema], max_rows=self._max_rows, max_bytes=self._max_bytes)
            for row in cast("Iterable[Any]", rows):
                if not page.add(row.values()):
                    break
        return cast("dict[str, JsonValue]", page.shown())

    def close(self) -> None:
        """Close the client, unless the caller passed it."""
        with self._lock:
            client, self._client = (self._client, None) if self._is_own else (None, self._client)
        if client is not None:
            client.close()

    def _opened(self) -> Any:
        from google.cloud import bigquery  # noqa: PLC0415 - an extra, which takes most of a second

        if self._client is None:
            self._client = cast("Any", bigquery.Client(project=self._project))
        return self._client

    def _limits(self) -> dict[str, Any]:
        from google.cloud.bigquery import DEFAULT_RETRY  # noqa: PLC0415 - an extra

        return {"retry": DEFAULT_RETRY.with_timeout(self._timeout_s), "timeout": self._timeout_s}

    def _known(self) -> Tables:
        with self._lock:
            if self._tables is None:
                with self._translated():
                    names = frozenset(self._listed())
                if not names:
                    raise ToolError(f"There is no table in '{self._dataset or self._project}' that may be read.")
                self._tables = Tables(names, default=self._dataset, project=self._project)
            return self._tables

    def _listed(self) -> Iterable[tuple[str, str]]:
        client, limits = self._opened(), self._limits()
        datasets = [self._dataset]
        if self._dataset is None:
            datasets = [one.dataset_id for one in client.list_datasets(self._project, max_results=MAX_DATASETS, **limits)]
        for dataset in datasets:
            for table in client.list_tables(f"{self._project}.{dataset}", max_results=MAX_TABLES, **limits):
                yield str(dataset), table.table_id

    def _columns(self, tables: Tables) -> Schema:
        schema: dict[str, Mapping[str, str]] = {}
        for dataset, name in islice(sorted(tables.names), _MAX_DESCRIBED):
            table = self._opened().get_table(f"{self._project}.{dataset}.{name}", **self._limits())
            schema[name if dataset == self._dataset else f"{dataset}.{name}"] = {field.name: _type(field) for field in table.schema}
        return schema

    @contextmanager
    def _translated(self) -> Generator[None, None, None]:
        """Convert errors of Google's client to errors of Interlock."""
        from google.api_core import exceptions  # noqa: PLC0415 - an extra
        from google.auth import exceptions as auth  # noqa: PLC0415 - an extra
        from requests import exceptions as http  # noqa: PLC0415 - an extra

        try:
            yield
        except (FutureTimeout, TimeoutError, http.Timeout) as error:
            raise timed_out(self._timeout_s) from error
        except exceptions.RetryError as error:
            if isinstance(error.cause, http.Timeout):
                raise timed_out(self._timeout_s) from error
            raise ToolUnavailable(f"BigQuery cannot be reached now: {_reason(error.cause or error)}") from error
        except exceptions.GoogleAPICallError as error:
            raise self._query_error(error) from error
        except auth.DefaultCredentialsError as error:
            fix = "Run: gcloud auth application-default login, or name a key file in GOOGLE_APPLICATION_CREDENTIALS."
            raise ToolError(f"BigQuery cannot be queried without credentials. {fix}") from error
        except (auth.GoogleAuthError, http.RequestException, ConnectionError) as error:
            raise ToolUnavailable(f"BigQuery cannot be reached now: {type(error).__name__}.") from error

    def _query_error(self, error: Any) -> CapabilityError:
        reason, status = _reason(error), int(error.code or 0)
        is_busy = not _BUSY.isdisjoint(str(detail.get("reason", "")) for detail in _details(error))
        if "timed out" in reason.lower() or status == _GATEWAY_TIMEOUT:
            return timed_out(self._timeout_s)
        if status >= _SERVER_ERROR or status == _TOO_MANY_REQUESTS or is_busy:
            return ToolUnavailable(f"BigQuery cannot answer now: {reason}")
        if status in {400, 404}:
            return ToolInputInvalid(f"The query cannot be run: {reason}")
        return ToolError(f"BigQuery does not let the query be run: {reason}")


def _type(field: Any) -> str:
    kind = _TYPES.get(field.field_type, str(field.field_type))
    return f"ARRAY<{kind}>" if field.mode == "REPEATED" else kind


def _details(error: Any) -> list[dict[str, Any]]:
    details = cast("list[Any]", getattr(error, "errors", None) or [])
    return [cast("dict[str, Any]", detail) for detail in details if isinstance(detail, dict)]


def _reason(error: Any) -> str:
    """Return the message of Google's error without the URL."""
    message = next((str(detail["message"]) for detail in _details(error) if detail.get("message")), "")
    return one_line(_URL.sub("", message or str(getattr(error, "message", "") or type(error).__name__)))
