from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.auth import exceptions as auth
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

from interlock.errors import (
    CapabilityError,
    ExtraMissing,
    QueryDenied,
    QueryTimeout,
    ToolError,
    ToolInputInvalid,
    ToolUnavailable,
)
from interlock_agents.analyst.warehouse.bigquery import BigQueryWarehouse
from interlock_agents.analyst.warehouse.warehouse import Warehouse
from tests.agents.warehouse.bigquery_server import Server, serving
from tests.agents.warehouse.hostile_sql import Targets, hostile

Opened = Callable[..., BigQueryWarehouse]
ROW = [1, "shipped", 19.9, "2024-05-01", "2024-05-01T10:00:00+00:00", ["a", "b"]]


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as begun:
        yield begun


@pytest.fixture
def opened(server: Server) -> Iterator[Opened]:
    credentials: Any = AnonymousCredentials
    client = bigquery.Client(project="p", credentials=credentials(), client_options={"api_endpoint": server.url})

    def make(**options: Any) -> BigQueryWarehouse:
        defaults: dict[str, Any] = {"dataset": "shop", "timeout_s": 5.0, "client": client}
        return BigQueryWarehouse("p", **{**defaults, **options})

    yield make
    client.close()


def test_a_query_is_answered(opened: Opened):
    warehouse: Warehouse = opened()
    assert warehouse.query("SELECT * FROM orders") == {
        "columns": ["order_id", "status", "price", "day", "moment", "tags"],
        "rows": [ROW, [2, *ROW[1:]]],
        "row_count": 2,
    }
    warehouse.close()


def test_the_query_is_generated_again_and_its_cost_is_limited(opened: Opened, server: Server):
    opened(max_bytes_billed=12345, timeout_s=7.0, max_rows=10).query("select status /* x */, count(*) as n from Orders group by 1 -- y")
    (sent,) = server.queries
    assert sent["query"] == "SELECT `status`, COUNT(*) AS `n` FROM `p`.`shop`.`orders` AS `Orders` GROUP BY 1"
    assert sent["maximumBytesBilled"] == "12345"
    assert sent["useLegacySql"] is False
    assert int(sent["jobTimeoutMs"]) == 7000
    assert sent["maxResults"] == 11


def test_a_long_result_is_cut_without_fetching_more_pages(opened: Opened, server: Server):
    server.rows, server.page = 1_000_000, 10
    answer: Any = opened(max_rows=25).query("SELECT * FROM orders")
    assert answer["row_count"] == 25
    assert answer["cut"] == "There are more rows; these are the first 25."
    assert answer["rows"][-1][0] == 25
    pages = [path for method, path, _ in server.asked if method == "GET" and "/queries/" in path]
    assert len(pages) <= 4
    answer = opened(max_bytes=1000).query("SELECT * FROM orders")
    assert 5 < answer["row_count"] < 20
    assert "1,000 bytes" in answer["cut"]


def test_an_empty_result_has_columns_and_no_rows(opened: Opened, server: Server):
    server.rows = 0
    assert opened().query("SELECT * FROM orders WHERE FALSE")["rows"] == []


def test_the_tables_are_listed_once(opened: Opened, server: Server):
    warehouse = opened()
    warehouse.query("SELECT * FROM orders")
    warehouse.query("SELECT * FROM shop.customers JOIN `p.shop.orders` USING (order_id)")
    assert [path for _, path, _ in server.asked if path.endswith("/tables")] == ["/bigquery/v2/projects/p/datasets/shop/tables"]
    assert "`p`.`shop`.`Customers`" in server.queries[-1]["query"]


def test_all_datasets_of_a_project_can_be_read(opened: Opened):
    warehouse = opened(dataset=None)
    assert warehouse.query("SELECT * FROM hr.salaries")["row_count"] == 2
    with pytest.raises(QueryDenied, match=r"There are: hr\.salaries, shop\.Customers, shop\.orders\."):
        warehouse.query("SELECT * FROM orders")


def test_a_dataset_without_tables_is_an_error(opened: Opened):
    with pytest.raises(ToolError, match="There is no table in 'empty'"):
        opened(dataset="empty").query("SELECT 1")


def test_the_description_lists_the_tables(opened: Opened, server: Server):
    warehouse = opened()
    columns = "order_id INT64, status STRING, price NUMERIC, day DATE, moment TIMESTAMP, tags ARRAY<STRING>"
    assert warehouse.description.endswith(f"Tables: Customers({columns}); orders({columns}).")
    count = len(server.asked)
    assert warehouse.description
    assert len(server.asked) == count


def test_a_hostile_query_is_not_sent(opened: Opened, server: Server):
    warehouse = opened()
    for family in hostile(Targets("/canary/secret.csv", "/canary", "http://127.0.0.1:1")).values():
        for sql in family:
            with pytest.raises(QueryDenied):
                warehouse.query(sql)
    with pytest.raises(QueryDenied):
        warehouse.query("SELECT * FROM hr.salaries")
    assert server.queries == []


@pytest.mark.parametrize(
    ("failure", "kind", "said"),
    [
        ((400, "invalidQuery", "Unrecognized name: nothing at [1:8]"), ToolInputInvalid, "Unrecognized name: nothing at [1:8]."),
        ((400, "bytesBilledLimitExceeded", "Query exceeded limit for bytes billed: 1."), ToolInputInvalid, "limit for bytes billed"),
        ((400, "", "Without details"), ToolInputInvalid, "The query cannot be run: Without details."),
        ((404, "notFound", "Not found: Table p:shop.orders"), ToolInputInvalid, "Not found"),
        ((403, "accessDenied", "Access Denied: Project p"), ToolError, "Access Denied"),
        ((401, "authError", "Invalid credentials"), ToolError, "credentials"),
        ((400, "stopped", "Job timed out after 5s"), QueryTimeout, "longer than 5 seconds"),
        ((501, "notImplemented", "No"), ToolUnavailable, "cannot answer now"),
    ],
)
def test_an_error_of_the_service_is_converted(
    opened: Opened, server: Server, failure: tuple[int, str, str], kind: type[CapabilityError], said: str
):
    warehouse = opened()
    server.failures = [failure]
    with pytest.raises(kind) as caught:
        warehouse.query("SELECT * FROM orders")
    assert type(caught.value) is kind
    assert said in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_busy_service_is_retried(opened: Opened, server: Server):
    server.failures = [(503, "backendError", "try again")]
    assert opened().query("SELECT * FROM orders")["row_count"] == 2
    assert len(server.queries) == 2


def test_retries_of_a_busy_service_are_limited(opened: Opened, server: Server):
    server.failures = [(503, "backendError", "try again")] * 50
    begun = time.monotonic()
    with pytest.raises(ToolUnavailable, match="try again") as caught:
        opened(timeout_s=1.0).query("SELECT * FROM orders")
    assert caught.value.transient
    assert time.monotonic() - begun < 10


def test_a_service_that_hangs_is_a_timeout(opened: Opened, server: Server):
    warehouse = opened(timeout_s=0.5)
    assert warehouse.query("SELECT 1")
    server.hangs = True
    begun = time.monotonic()
    with pytest.raises(QueryTimeout, match=r"longer than 0\.5 seconds"):
        warehouse.query("SELECT * FROM orders")
    assert time.monotonic() - begun < 10


def test_a_query_that_never_completes_is_cancelled(opened: Opened, server: Server):
    warehouse = opened(timeout_s=1.0)
    assert warehouse.query("SELECT 1")
    server.is_complete = False
    begun = time.monotonic()
    with pytest.raises(QueryTimeout):
        warehouse.query("SELECT * FROM orders")
    assert time.monotonic() - begun < 10
    assert any(path.endswith("/jobs/job1/cancel") for _, path, _ in server.asked)


def test_an_unreachable_service_is_unavailable():
    credentials: Any = AnonymousCredentials
    client = bigquery.Client(project="p", credentials=credentials(), client_options={"api_endpoint": "http://127.0.0.1:1"})
    with pytest.raises(ToolUnavailable, match="cannot be reached now"):
        BigQueryWarehouse("p", dataset="shop", timeout_s=0.5, client=client).query("SELECT 1")
    client.close()


def test_missing_credentials_are_reported_with_the_fix(monkeypatch: pytest.MonkeyPatch):
    def missing(*_: object, **__: object) -> None:
        raise auth.DefaultCredentialsError("none")

    monkeypatch.setattr("google.auth.default", missing)
    with pytest.raises(ToolError, match="gcloud auth application-default login"):
        BigQueryWarehouse("p", dataset="shop").query("SELECT 1")


def test_a_missing_extra_is_reported_with_the_install_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "google.cloud.bigquery", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'interlock\[bigquery\]'"):
        BigQueryWarehouse("p", dataset="shop")
