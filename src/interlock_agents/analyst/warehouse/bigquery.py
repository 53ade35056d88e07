"""A warehouse in BigQuery, by Google's own client: the extra `interlock[bigquery]`."""

from __future__ import annotations

import re
import threading
from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from itertools import islice
from typing import Any, cast

from pydantic import JsonValue

from interlock.errors import CapabilityError, QueryTimeout, ToolError, ToolInputInvalid, ToolUnavailable
from interlock.extras import require
from interlock_agents.analyst.warehouse.duckdb_main import Page
from interlock_agents.analyst.warehouse.queries import Sql, Tables, read_only, rewritten
from interlock_agents.analyst.warehouse.warehouse import Schema, described

__all__ = ["MAX_DATASETS", "MAX_TABLES", "BigQueryWarehouse"]

MAX_DATASETS = 50
"""How many datasets of a project are looked into, where none is named."""

MAX_TABLES = 1000
"""How many tables of a dataset may be read."""

_DESCRIBED = 20  # tables whose columns are looked up: each takes a call
_MAX_REASON = 400
_TYPES = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"}
_BUSY = frozenset({"backendError", "internalError", "rateLimitExceeded", "quotaExceeded", "jobRateLimitExceeded", "resourcesExceeded"})
_TRANSIENT = 500
_URL = re.compile(r"(?:(?:GET|POST) )?https?://\S+:?\s*")


class BigQueryWarehouse:
    """Answers queries by BigQuery. It may read the tables of one dataset, or those of all datasets of a project.

    The tables are listed once. What a query may cost is bounded by `max_bytes_billed`: one that would read more fails and costs nothing.
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
        self._given, self._made = client, None
        self._tables: Tables | None = None
        self._schema: Schema | None = None
        self._lock = threading.Lock()

    @property
    def description(self) -> str:
        """Say what the tool does, and which tables there are; they are looked up once."""
        tables = self._known()
        with self._lock, self._translated():
            if self._schema is None:
                self._schema = self._looked_up(tables)
        return described(self._schema)

    def query(self, sql: Sql) -> dict[str, JsonValue]:
        """Run one SELECT statement in BigQuery's SQL on the warehouse and return its first rows."""
        tables = self._known()
        text = rewritten(read_only(sql, tables=tables), tables=tables)
        with self._translated():
            rows = self._client().query_and_wait(
                text,
                job_config=self._config(),
                project=self._project,
                max_results=self._max_rows + 1,
                api_timeout=self._timeout_s,
                wait_timeout=self._timeout_s,
                retry=self._retry(),
                job_retry=None,
            )
            page = Page([field.name for field in rows.schema], max_rows=self._max_rows, max_bytes=self._max_bytes)
            for row in cast("Iterable[Any]", rows):
                if not page.add(row.values()):
                    break
        return cast("dict[str, JsonValue]", page.shown())

    def close(self) -> None:
        """Close the client, if it is ours."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        from google.cloud import bigquery  # noqa: PLC0415 - an extra, and most of a second

        if self._made is None:
            self._made = cast("Any", bigquery.Client(project=self._project))
        return self._made

    def _config(self) -> Any:
        from google.cloud import bigquery  # noqa: PLC0415 - an extra

        return bigquery.QueryJobConfig(
            use_legacy_sql=False,
            maximum_bytes_billed=self._max_bytes_billed,
            job_timeout_ms=int(self._timeout_s * 1000),
            labels={"made-by": "interlock"},
        )

    def _retry(self) -> Any:
        from google.cloud.bigquery import DEFAULT_RETRY  # noqa: PLC0415 - an extra

        return DEFAULT_RETRY.with_timeout(self._timeout_s)

    def _known(self) -> Tables:
        with self._lock:
            if self._tables is None:
                with self._translated():
                    datasets = [self._dataset] if self._dataset is not None else self._datasets()
                    names = frozenset((dataset, table) for dataset in datasets for table in self._listed(dataset))
                if not names:
                    raise ToolError(f"There is no table in '{self._dataset or self._project}' that may be read.")
                self._tables = Tables(names, default=self._dataset, project=self._project)
            return self._tables

    def _datasets(self) -> list[str]:
        listed = self._client().list_datasets(self._project, max_results=MAX_DATASETS, retry=self._retry(), timeout=self._timeout_s)
        return [dataset.dataset_id for dataset in listed]

    def _listed(self, dataset: str) -> list[str]:
        whole = f"{self._project}.{dataset}"
        listed = self._client().list_tables(whole, max_results=MAX_TABLES, retry=self._retry(), timeout=self._timeout_s)
        return [table.table_id for table in listed]

    def _looked_up(self, tables: Tables) -> Schema:
        schema: dict[str, Mapping[str, str]] = {}
        for dataset, name in islice(sorted(tables.names), _DESCRIBED):
            table = self._client().get_table(f"{self._project}.{dataset}.{name}", retry=self._retry(), timeout=self._timeout_s)
            shown = name if dataset == self._dataset else f"{dataset}.{name}"
            schema[shown] = {field.name: _type(field) for field in table.schema}
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
            raise self._late() from error
        except exceptions.RetryError as error:
            if isinstance(error.cause, http.Timeout):
                raise self._late() from error
            raise ToolUnavailable(f"BigQuery cannot be reached now: {_reason(error.cause or error)}") from error
        except exceptions.GoogleAPICallError as error:
            raise self._typed(error) from error
        except auth.DefaultCredentialsError as error:
            fix = "Run: gcloud auth application-default login, or name a key file in GOOGLE_APPLICATION_CREDENTIALS."
            raise ToolError(f"BigQuery cannot be queried without credentials. {fix}") from error
        except (auth.GoogleAuthError, http.RequestException, ConnectionError) as error:
            raise ToolUnavailable(f"BigQuery cannot be reached now: {type(error).__name__}.") from error

    def _late(self) -> QueryTimeout:
        return QueryTimeout(f"The query took longer than {self._timeout_s:g} seconds: ask for less.")

    def _typed(self, error: Any) -> CapabilityError:
        said = _reason(error)
        reasons = {str(detail.get("reason", "")) for detail in _details(error)}
        status = int(error.code or 0)
        if "timed out" in said.lower() or status == 504:  # noqa: PLR2004 - the gateway's timeout
            return self._late()
        if status >= _TRANSIENT or status == 429 or reasons & _BUSY:  # noqa: PLR2004 - too many requests
            return ToolUnavailable(f"BigQuery cannot answer now: {said}")
        if status in {400, 404}:
            return ToolInputInvalid(f"The query cannot be run: {said}")
        return ToolError(f"BigQuery does not let the query be run: {said}")


def _type(field: Any) -> str:
    kind = _TYPES.get(field.field_type, str(field.field_type))
    return f"ARRAY<{kind}>" if field.mode == "REPEATED" else kind


def _details(error: Any) -> list[dict[str, Any]]:
    details = cast("list[Any]", getattr(error, "errors", None) or [])
    return [cast("dict[str, Any]", detail) for detail in details if isinstance(detail, dict)]


def _reason(error: Any) -> str:
    """Take from Google's error what a model can use: one line, without the address that was called."""
    said = next((str(detail["message"]) for detail in _details(error) if detail.get("message")), "")
    line = " ".join(_URL.sub("", said or str(getattr(error, "message", "") or type(error).__name__)).split())
    return f"{line[:_MAX_REASON].rstrip('.')}."
