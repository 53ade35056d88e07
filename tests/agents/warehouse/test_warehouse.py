# ruff: noqa: S608 - queries are what is tested
from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from interlock.errors import (
    QueryDenied,
    QueryTimeout,
    StoreCorrupt,
    StoreFull,
    StoreUnavailable,
    ToolError,
    ToolInputInvalid,
    ToolUnavailable,
)
from interlock.tools.functions import FunctionTool
from interlock_agents.analyst.warehouse import demo as warehouse_demo
from interlock_agents.analyst.warehouse.demo import DATASET, TABLES, build_demo
from interlock_agents.analyst.warehouse.duckdb_main import Page, connect, json_value
from interlock_agents.analyst.warehouse.warehouse import DuckWarehouse, Warehouse, described
from interlock_agents.shop.products import products
from tests.agents.warehouse.legal_sql import LEGAL

BOMB = (
    "SELECT COUNT(*) FROM order_items AS a, order_items AS b, order_items AS c WHERE MOD(a.order_id * b.order_id + c.order_id, 1000003) = 7"
)
STUBBORN = """
WITH a AS (SELECT STRING_AGG(name, '') AS x FROM customers), b AS (SELECT STRING_AGG(city, '') AS x FROM customers)
SELECT EDIT_DISTANCE(CONCAT(a.x, a.x, a.x, a.x), CONCAT(b.x, b.x, b.x, b.x)) FROM a, b"""


@pytest.fixture(scope="module")
def warehouse(demo: Path) -> Iterator[DuckWarehouse]:
    opened = DuckWarehouse(demo)
    yield opened
    opened.close()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file of somebody's own."""
    path = tmp_path / "own shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE sales (day DATE, amount DECIMAL(10, 2), moment TIMESTAMPTZ, tags VARCHAR[], note BLOB, ok BOOLEAN)"
        )
        connection.execute("INSERT INTO sales VALUES ('2024-05-01', 19.90, '2024-05-01 10:00:00+02', ['a', 'b'], 'x'::BLOB, true)")
        connection.execute("CREATE SCHEMA private")
        connection.execute("CREATE TABLE private.salaries (name VARCHAR)")
    return path


@pytest.fixture
def copied(demo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(demo, tmp_path / "copied"))


def rows(warehouse: Warehouse, sql: str) -> list[list[Any]]:
    answer: Any = warehouse.query(sql)
    assert answer["row_count"] == len(answer["rows"])
    assert json.loads(json.dumps(answer, allow_nan=False)) == answer
    return answer["rows"]


def processes(folder: Path) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{folder}/warehouse.duckdb".encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


# Answers


@pytest.mark.parametrize("sql", LEGAL)
def test_a_legal_query_runs(warehouse: DuckWarehouse, sql: str):
    assert all(isinstance(row, list) for row in rows(warehouse, sql))


def test_a_result_has_columns_rows_and_a_row_count(warehouse: DuckWarehouse):
    sql = "SELECT status, COUNT(*) AS n FROM shop.orders GROUP BY status ORDER BY n DESC LIMIT 2"
    assert warehouse.query(sql) == {"columns": ["status", "n"], "rows": [["delivered", 33963], ["shipped", 2018]], "row_count": 2}


def test_an_empty_result_has_columns_and_no_rows(warehouse: DuckWarehouse):
    assert warehouse.query("SELECT name FROM customers WHERE country = 'Atlantis'") == {"columns": ["name"], "rows": [], "row_count": 0}


def test_values_are_exact_json():
    exact = {
        Decimal("19.90"): 19.9,
        Decimal(5): 5,
        Decimal("12345678901234567890.12"): "12345678901234567890.12",
        Decimal("NaN"): None,
        2**63 - 1: 2**63 - 1,
        2**63: str(2**63),
        float("inf"): None,
        0.1: 0.1,
        dt.date(2024, 5, 1): "2024-05-01",
        dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC): "2024-05-01T10:00:00+00:00",
        dt.time(10, 20): "10:20:00",
        dt.timedelta(days=3, seconds=2): "P3DT2S",
        b"abc": "YWJj",
        (1, Decimal("0.5")): [1, 0.5],
        True: True,
        None: None,
    }
    assert [json_value(value) for value in exact] == list(exact.values())
    assert json_value({1: {"a": [float("nan")]}}) == {"1": {"a": [None]}}


def test_a_users_file_is_read(own: Path, tmp_path: Path):
    before = hashlib.sha256(own.read_bytes()).hexdigest()
    opened = DuckWarehouse(tmp_path / "unused", path=own, dataset="main")
    assert rows(opened, "SELECT * FROM sales") == [["2024-05-01", 19.9, "2024-05-01T08:00:00+00:00", ["a", "b"], "eA==", True]]
    assert "sales(day DATE, amount NUMERIC, moment TIMESTAMP, tags VARCHAR[], note BYTES, ok BOOL)" in opened.description
    with pytest.raises(QueryDenied, match=r"There are: sales\."):
        opened.query("SELECT * FROM private.salaries")
    opened.close()
    assert hashlib.sha256(own.read_bytes()).hexdigest() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["own shop.duckdb"]


def test_a_missing_damaged_or_empty_file_is_reported_without_its_path(tmp_path: Path, own: Path):
    missing = DuckWarehouse(tmp_path, path=tmp_path / "missing.duckdb")
    with pytest.raises(StoreUnavailable, match=r"^Warehouse 'missing.duckdb' is not there"):
        missing.query("SELECT 1")
    torn = tmp_path / "torn.duckdb"
    torn.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreCorrupt, match=r"^Warehouse 'torn.duckdb' cannot be opened") as caught:
        DuckWarehouse(tmp_path, path=torn).query("SELECT 1")
    assert str(tmp_path) not in str(caught.value)
    assert torn.exists()
    with pytest.raises(StoreUnavailable, match="no tables in the dataset 'nothing'"):
        DuckWarehouse(tmp_path, path=own, dataset="nothing").query("SELECT 1")


def test_the_description_lists_the_tables(warehouse: DuckWarehouse):
    description = warehouse.description
    assert "\n" not in description
    for table, columns in TABLES.items():
        assert f"{table}({', '.join(f'{name} {kind}' for name, kind in columns.items())})" in description
    assert described({f"t{index}": {"a": "INT64"} for index in range(100)}).endswith("; and 60 more.")


async def test_the_warehouse_works_as_a_tool(warehouse: DuckWarehouse):
    tool = FunctionTool("bq_query", warehouse.query)
    assert tool.tool.parameters["required"] == ["sql"]
    answer: Any = await tool.run({"sql": "SELECT COUNT(*) FROM orders"})
    assert answer["rows"] == [[40_000]]


# Bounds


def test_a_long_result_is_cut_and_marked(demo: Path):
    opened = DuckWarehouse(demo, max_rows=3, max_bytes=500)
    answer = opened.query("SELECT order_id FROM orders ORDER BY order_id")
    assert answer["rows"] == [[100001], [100002], [100003]]
    assert answer["cut"] == "There are more rows; these are the first 3."
    assert "cut" not in opened.query("SELECT order_id FROM orders LIMIT 3")
    answer = opened.query("SELECT REPEAT('é', 100) AS a FROM orders")
    assert answer["row_count"] == 2
    assert "500 bytes" in str(answer["cut"])
    answer = opened.query("SELECT STRING_AGG(name) FROM customers")
    assert (answer["rows"], answer["row_count"]) == ([], 0)
    assert "cut" in answer
    opened.close()


def test_a_page_has_exact_limits():
    page = Page(["a"], max_rows=2, max_bytes=1000)
    assert [page.add([1]), page.add([2])] == [True, True]
    assert page.shown() == {"columns": ["a"], "rows": [[1], [2]], "row_count": 2}
    assert not page.add([3])
    assert page.shown()["rows"] == [[1], [2]]


def test_a_result_of_billions_of_rows_is_not_materialised(demo: Path):
    opened = DuckWarehouse(demo, timeout_s=20)
    begun = time.monotonic()
    answer: Any = opened.query("SELECT a.order_id, b.order_id FROM order_items AS a, order_items AS b")
    assert answer["row_count"] == 1000
    assert time.monotonic() - begun < 10
    opened.close()


@pytest.mark.parametrize("sql", [BOMB, STUBBORN], ids=["a bomb", "one that cannot be interrupted"])
def test_a_slow_query_is_a_timeout(demo: Path, sql: str):
    opened = DuckWarehouse(demo, timeout_s=1.0)
    rows(opened, "SELECT 1")
    begun = time.monotonic()
    with pytest.raises(QueryTimeout, match="longer than 1 seconds") as caught:
        opened.query(sql)
    assert time.monotonic() - begun < 10
    assert caught.value.code == "query_timeout"
    assert rows(opened, "SELECT COUNT(*) FROM orders") == [[40_000]]
    opened.close()


TENFOLD = ", ".join(["s"] * 10)
HUNGRY = (
    "SELECT a.name FROM customers AS a, customers AS b ORDER BY b.name, a.name",
    "SELECT LENGTH(STRING_AGG(a.name)) FROM customers AS a, customers AS b",
    "SELECT SUM(LENGTH(REPEAT(REPEAT(name, 99999), 400))) FROM customers",
    (
        f"WITH a AS (SELECT REPEAT('x', 99999) AS s), b AS (SELECT CONCAT({TENFOLD}) AS s FROM a),"
        f" c AS (SELECT CONCAT({TENFOLD}) AS s FROM b),"
        f" d AS (SELECT CONCAT({TENFOLD}) AS s FROM c) SELECT LENGTH(CONCAT({TENFOLD})) FROM d"
    ),
)


def test_a_query_that_exceeds_its_memory_fails_alone(demo: Path):
    script = f"""
import json, resource
from pathlib import Path
from interlock_agents.analyst.warehouse.warehouse import DuckWarehouse
from interlock.errors import ToolError
opened = DuckWarehouse(Path({str(demo)!r}), timeout_s=20, memory_mib=256)
opened.query("SELECT 1")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = []
for sql in {HUNGRY!r}:
    try:
        said.append(str(opened.query(sql))[:100])
    except ToolError as error:
        said.append(error.code + ": " + str(error))
assert opened.query("SELECT COUNT(*) FROM orders")["rows"] == [[40000]]
opened.close()
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(json.dumps([said, own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    said, own, child = json.loads(run.stdout)
    assert said == ["tool_failed: The query needs more memory than it may use: ask for less."] * len(HUNGRY)
    assert own < 50 * 1024  # KiB
    assert child < (256 + 384 + 100) * 1024


def test_queries_run_concurrently(demo: Path):
    opened = DuckWarehouse(demo, timeout_s=60, at_once=3)
    with ThreadPoolExecutor(8) as threads:
        counted = list(threads.map(rows, [opened] * 20, [f"SELECT COUNT(*) FROM {table}" for table in TABLES] * 5))
    assert counted == [[[5_000]], [[243]], [[40_000]], [[102_200]]] * 5
    opened.close()


def test_too_many_concurrent_queries_are_unavailable(copied: Path):
    opened = DuckWarehouse(copied, timeout_s=1.5, at_once=1)
    with ThreadPoolExecutor(2) as threads:
        held = threads.submit(opened.query, STUBBORN)  # which is there for two seconds and the time to begin
        while not processes(copied):
            time.sleep(0.01)
        waited = threads.submit(opened.query, "SELECT 1")
        assert isinstance(held.exception(), QueryTimeout)
        assert isinstance(waited.exception(), ToolUnavailable)
    assert rows(opened, "SELECT 1") == [[1]]
    opened.close()


# Processes


def test_a_process_is_reused_and_ends_with_the_warehouse(copied: Path):
    opened = DuckWarehouse(copied)
    assert processes(copied) == []
    rows(opened, "SELECT 1")
    first = processes(copied)
    rows(opened, "SELECT 2")
    assert processes(copied) == first
    assert len(first) == 1
    opened.close()
    assert processes(copied) == []
    assert rows(opened, "SELECT 3") == [[3]]
    del opened
    assert processes(copied) == []


def test_a_process_that_was_killed_is_replaced(copied: Path):
    opened = DuckWarehouse(copied)
    rows(opened, "SELECT 1")
    (process,) = processes(copied)
    os.kill(process, signal.SIGKILL)
    assert rows(opened, "SELECT 2") == [[2]]
    opened.close()


def test_no_process_outlives_its_parent_during_a_query(copied: Path):
    script = f"""
import sys, threading
from pathlib import Path
from interlock_agents.analyst.warehouse.warehouse import DuckWarehouse
opened = DuckWarehouse(Path({str(copied)!r}), timeout_s=60)
opened.query("SELECT 1")
threading.Thread(target=opened.query, args=({STUBBORN!r},), daemon=True).start()
print("begun", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"begun\n"
        assert len(processes(copied)) == 1
        parent.kill()
    until = time.monotonic() + 5
    while processes(copied) and time.monotonic() < until:
        time.sleep(0.01)
    assert processes(copied) == []


def test_a_process_has_no_environment_and_cannot_write_files(copied: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_KEY", "swordfish")
    opened = DuckWarehouse(copied)
    rows(opened, "SELECT 1")
    (process,) = processes(copied)
    assert b"swordfish" not in Path(f"/proc/{process}/environ").read_bytes()
    limits = Path(f"/proc/{process}/limits").read_text()
    assert [line.split()[3:5] for line in limits.splitlines() if line.startswith("Max file size")] == [["0", "0"]]
    assert Path(f"/proc/{process}/cwd").readlink() == Path("/")
    opened.close()


# The connection


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM read_json('{file}')",
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM read_csv('http://127.0.0.1:1/a.csv')",
        "SELECT getenv('PATH')",
        "SELECT * FROM mine",
        "COPY shop.orders TO '{folder}/out.csv'",
        "COPY (SELECT 1) TO '{folder}/out.parquet'",
        "EXPORT DATABASE '{folder}/out'",
        "ATTACH '{folder}/other.duckdb'",
        "ATTACH '{folder}/other.sqlite' (TYPE sqlite)",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{file}'",
        "SET enable_external_access = true",
        "SET disabled_filesystems = ''",
        "SET memory_limit = '100GB'",
        "SET lock_configuration = false",
        "SET python_enable_replacements = true",
        "RESET memory_limit",
        "CREATE TABLE shop.mine (x INT)",
        "DROP TABLE shop.orders",
        "DELETE FROM shop.orders",
        "UPDATE shop.orders SET status = 'x'",
        "PRAGMA enable_profiling = 'json'",
        "PRAGMA profiling_output = '{folder}/profile.json'",
        "CREATE PERSISTENT SECRET (TYPE http, BEARER_TOKEN 'a')",
    ],
)
def test_the_connection_reaches_nothing_outside_and_cannot_be_reconfigured(demo: Path, tmp_path: Path, sql: str):
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,swordfish\n")
    mine = [1]  # what DuckDB would find by its name
    assert mine
    with connect(str(demo / "warehouse.duckdb"), memory_mib=256) as connection:
        with pytest.raises(duckdb.Error) as caught:
            connection.execute(sql.format(file=file, folder=tmp_path)).fetchall()
        assert connection.execute("SELECT COUNT(*) FROM shop.orders").fetchall() == [(40_000,)]
    assert "swordfish" not in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["secret.csv"]


def test_each_restriction_of_the_connection_works_alone(demo: Path):
    locks = {
        "access_mode": "read_only",
        "allow_community_extensions": "false",
        "allow_persistent_secrets": "false",
        "allow_unsigned_extensions": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "enable_external_access": "false",
        "lock_configuration": "true",
        "max_temp_directory_size": "0 bytes",
        "memory_limit": "256.0 MiB",
        "python_enable_replacements": "false",
        "python_scan_all_frames": "false",
        "temp_directory": "",
        "threads": "2",
    }
    with connect(str(demo / "warehouse.duckdb"), memory_mib=256) as connection:
        found = dict(connection.execute("SELECT name, value FROM duckdb_settings()").fetchall())
        with pytest.raises(duckdb.PermissionException, match="LocalFileSystem has been disabled"):
            connection.execute("SELECT * FROM read_text('/etc/passwd')")
    assert {name: found[name] for name in locks} == locks


def test_an_error_message_has_no_path(warehouse: DuckWarehouse, demo: Path):
    for sql in ("SELECT CAST('/home/me/secret/file.csv' AS INT64)", "SELECT nothing FROM orders", "SELECT SUM(name) FROM customers"):
        with pytest.raises(ToolInputInvalid) as caught:
            warehouse.query(sql)
        assert "\n" not in str(caught.value)
        assert "/home" not in str(caught.value)
        assert str(demo) not in str(caught.value)
    with pytest.raises(ToolInputInvalid, match=r'Referenced column "stat" not found.*"status"'):
        warehouse.query("SELECT stat FROM orders")


# The demo


@pytest.fixture(scope="module")
def shop(demo: Path) -> dict[str, list[dict[str, Any]]]:
    """All rows of the demo, to count them by hand."""
    with duckdb.connect(str(demo / "warehouse.duckdb"), read_only=True) as connection:
        found: dict[str, list[dict[str, Any]]] = {}
        for table, columns in TABLES.items():
            found[table] = [
                dict(zip(columns, row, strict=True)) for row in connection.execute(f"SELECT * FROM {DATASET}.{table}").fetchall()
            ]
        return found


def test_the_demo_has_the_documented_rows(shop: dict[str, list[dict[str, Any]]]):
    assert {table: len(found) for table, found in shop.items()} == {
        "customers": 5_000,
        "products": 243,
        "orders": 40_000,
        "order_items": 102_200,
    }
    customers, orders, items = shop["customers"], shop["orders"], shop["order_items"]
    assert [product["sku"] for product in shop["products"]] == [product.sku for product in products()]
    assert len({customer["country"] for customer in customers}) == 10
    assert {customer["signed_up"].year for customer in customers} == {2020, 2021, 2022, 2023}
    ordering = {order["customer_id"] for order in orders}
    assert ordering <= {customer["customer_id"] for customer in customers}
    assert max(ordering) == 4_800
    assert [order["order_id"] for order in orders] == [*range(100_001, 140_001)]
    dates = [order["order_date"] for order in orders]
    assert dates == sorted(dates)
    assert (dates[0], dates[-1]) == (dt.date(2024, 1, 1), dt.date(2025, 12, 31))
    assert all(order["ordered_at"].date() == order["order_date"] for order in orders)
    late = [order["status"] for order in orders if order["order_date"] > dt.date(2025, 12, 17)]
    assert set(late) == {"shipped", "processing"}
    assert all((order["shipped_on"] is None) == (order["status"] in {"cancelled", "processing"}) for order in orders)
    lines = Counter(item["order_id"] for item in items)
    assert lines.keys() == {order["order_id"] for order in orders}
    assert set(lines.values()) == {1, 2, 3, 4, 5}
    prices = {product["product_id"]: product["price"] for product in shop["products"]}
    assert all(0 < item["unit_price"] <= prices[item["product_id"]] for item in items)
    assert all(0 < product["cost"] < product["price"] for product in shop["products"])


def test_the_figures_of_the_demo_do_not_change(warehouse: DuckWarehouse, shop: dict[str, list[dict[str, Any]]]):
    revenue = sum(item["quantity"] * item["unit_price"] for item in shop["order_items"])
    assert revenue == Decimal("29804684.66")
    assert rows(warehouse, "SELECT SUM(quantity * unit_price) FROM order_items") == [[29804684.66]]

    statuses = Counter(order["status"] for order in shop["orders"])
    assert statuses == {"delivered": 33963, "shipped": 2018, "cancelled": 1565, "returned": 1533, "processing": 921}
    assert {*map(tuple, rows(warehouse, "SELECT status, COUNT(*) FROM orders GROUP BY status"))} == {*statuses.items()}

    country = {customer["customer_id"]: customer["country"] for customer in shop["customers"]}
    year = {order["order_id"]: (country[order["customer_id"]], order["order_date"].year) for order in shop["orders"]}
    by_country: Counter[str] = Counter()
    for item in shop["order_items"]:
        where, when = year[item["order_id"]]
        if when == 2025:
            by_country[where] += item["quantity"] * item["unit_price"]
    sql = """
        SELECT c.country, SUM(i.quantity * i.unit_price) AS revenue
        FROM customers AS c JOIN orders AS o USING (customer_id) JOIN order_items AS i USING (order_id)
        WHERE EXTRACT(YEAR FROM o.order_date) = 2025 GROUP BY c.country ORDER BY revenue DESC"""
    assert rows(warehouse, sql) == [[name, float(total)] for name, total in by_country.most_common()]

    months = Counter(order["order_date"].strftime("%Y-%m") for order in shop["orders"])
    assert (months["2024-01"], months["2025-12"]) == (1177, 3440)
    assert rows(warehouse, "SELECT FORMAT_DATE('%Y-%m', order_date) AS m, COUNT(*) FROM orders GROUP BY m ORDER BY m") == [
        [month, count] for month, count in sorted(months.items())
    ]
    assert rows(warehouse, "SELECT COUNT(*) FROM customers WHERE customer_id NOT IN (SELECT customer_id FROM orders)") == [[243]]


def test_random_values_of_the_demo_are_hashes(shop: dict[str, list[dict[str, Any]]]):
    places = re.findall(r"'(\w+):(\w+)'", Path(warehouse_demo.__file__).with_suffix(".sql").read_text(encoding="utf-8"))
    for customer in shop["customers"][::97]:
        drawn = int.from_bytes(hashlib.md5(f"customer:{customer['customer_id']}".encode()).digest()[8:], "little")  # noqa: S324 - no secret
        assert (customer["country"], customer["city"]) == places[drawn // 1_000_000 % len(places)]


@pytest.mark.parametrize("threads", [1, 4])
def test_the_demo_is_the_same_with_any_number_of_threads(demo: Path, tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(duckdb, "connect", _with_threads(threads))
    build_demo(tmp_path / "warehouse.duckdb")
    monkeypatch.undo()
    assert _content(tmp_path) == _content(demo)


def _with_threads(threads: int) -> Any:
    original: Any = duckdb.connect

    def opened(path: str, *, config: dict[str, Any]) -> Any:
        return original(path, config={**config, "threads": threads})

    return opened


def _content(folder: Path) -> list[Any]:
    with duckdb.connect(str(folder / "warehouse.duckdb"), read_only=True) as connection:
        whole = "SELECT COUNT(*), md5(string_agg(CAST(t AS VARCHAR), ';' ORDER BY rowid)) FROM {}.{} AS t"
        return [connection.execute(whole.format(DATASET, table)).fetchall() for table in TABLES]


def test_the_demo_is_built_once(tmp_path: Path):
    opened = DuckWarehouse(tmp_path / "new" / "folder")
    with pytest.raises(QueryDenied):
        opened.query("DROP TABLE orders")
    assert not (tmp_path / "new").exists()
    assert rows(opened, "SELECT COUNT(*) FROM orders") == [[40_000]]
    (made,) = (tmp_path / "new" / "folder").iterdir()
    before = made.stat()
    again = DuckWarehouse(tmp_path / "new" / "folder")
    assert rows(again, "SELECT COUNT(*) FROM orders") == [[40_000]]
    assert (made.stat().st_ino, made.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    opened.close()
    again.close()


def test_concurrent_builders_of_the_demo_do_not_conflict(tmp_path: Path):
    opened = [DuckWarehouse(tmp_path) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(rows, opened, ["SELECT COUNT(*) FROM order_items"] * 3)) == [[[102_200]]] * 3
    for one in opened:
        one.close()
    assert [file.name for file in tmp_path.iterdir()] == ["warehouse.duckdb"]


@pytest.mark.parametrize("damage", ["torn", "empty", "text", "flipped", "other format", "somebody's"])
def test_a_damaged_or_outdated_demo_is_rebuilt(copied: Path, damage: str):
    path = copied / "warehouse.duckdb"
    whole = path.read_bytes()
    if damage == "torn":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "flipped":
        middle = len(whole) // 2
        path.write_bytes(whole[:middle] + bytes(255 - byte for byte in whole[middle : middle + 200_000]) + whole[middle + 200_000 :])
    elif damage in {"empty", "text"}:
        path.write_bytes(b"" if damage == "empty" else b"hello" * 10_000)
    elif damage == "other format":
        with duckdb.connect(str(path)) as connection:
            connection.execute("UPDATE main.interlock_format SET version = 0")
            connection.execute("DELETE FROM shop.orders")
    else:
        path.unlink()
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE orders (x INT)")
    opened = DuckWarehouse(copied)
    answer = rows(opened, "SELECT SUM(quantity * unit_price) FROM order_items")
    assert rows(opened, "SELECT COUNT(DISTINCT ordered_at) FROM orders")[0][0] > 39_000
    assert answer == [[29804684.66]]
    opened.close()


def test_a_failed_build_is_reported_without_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreUnavailable, match=r"^Warehouse 'warehouse.duckdb' cannot be reached") as caught:
        DuckWarehouse(tmp_path / "file").query("SELECT 1")
    assert str(tmp_path) not in str(caught.value)

    def full(path: Path) -> None:
        path.write_bytes(b"half")
        raise duckdb.IOException(f'Could not write file "{path}": No space left on device')

    monkeypatch.setattr(warehouse_demo, "_fill", full)
    with pytest.raises(StoreFull, match="the disk is full") as caught:
        DuckWarehouse(tmp_path / "new").query("SELECT 1")
    assert str(tmp_path) not in str(caught.value)
    assert list((tmp_path / "new").iterdir()) == []


def test_errors_of_the_warehouse_are_tool_or_store_errors():
    assert all(issubclass(kind, ToolError) for kind in (QueryDenied, QueryTimeout, ToolInputInvalid, ToolUnavailable))
