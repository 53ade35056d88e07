"""The demo warehouse: two years of a shop's orders in a DuckDB file, the same ones whenever and wherever they are made.

Whatever looks like chance is an MD5 of a row's number, so it is the same on every machine, with any number of threads and with any
release of DuckDB. Stable, until FORMAT changes: every value of every row. So much can be relied upon when a question is made up:

- 5,000 customers in 10 countries, who signed up from 2020 to 2023; the last 200 of them have never ordered anything.
- the products of the demo shop's catalogue, under the numbers 1, 2, 3 ... in its order.
- 40,000 orders from 2024-01-01 to 2025-12-31, numbered from 100001 on in the order of their dates; more of them as time goes by, and
  most of all before Christmas. Orders of the last two weeks are not delivered yet.
- one to five items for each order, over 100,000 in all; the unit price is what was paid, after the discount of the order's coupon.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interlock.errors import StoreError, StoreFull, StoreUnavailable
from interlock_agents.shop.databases import translated
from interlock_agents.shop.products import products

__all__ = ["DATASET", "FORMAT", "TABLES", "build_demo"]

FORMAT = 1
"""Of the file: a file with another format is rebuilt."""

DATASET = "shop"

TABLES: Mapping[str, Mapping[str, str]] = {
    "customers": {
        "customer_id": "INT64",
        "name": "STRING",
        "segment": "STRING",
        "country": "STRING",
        "city": "STRING",
        "signed_up": "DATE",
    },
    "products": {
        "product_id": "INT64",
        "sku": "STRING",
        "name": "STRING",
        "category": "STRING",
        "price": "NUMERIC",
        "cost": "NUMERIC",
    },
    "orders": {
        "order_id": "INT64",
        "customer_id": "INT64",
        "order_date": "DATE",
        "ordered_at": "DATETIME",
        "status": "STRING",
        "channel": "STRING",
        "coupon": "STRING",
        "shipping": "NUMERIC",
        "shipped_on": "DATE",
    },
    "order_items": {
        "order_id": "INT64",
        "line": "INT64",
        "product_id": "INT64",
        "quantity": "INT64",
        "unit_price": "NUMERIC",
    },
}
"""The tables, and their columns with the types that BigQuery would call them by."""

_WHAT = "Warehouse"
_DUCK_TYPES = {"INT64": "BIGINT", "STRING": "VARCHAR", "DATE": "DATE", "DATETIME": "TIMESTAMP", "NUMERIC": "DECIMAL(12, 2)"}

# A value occurs in its list in proportion to its frequency.
_PLACES = (
    *(("Germany", city) for city in ("Berlin", "Berlin", "Hamburg", "Munich", "Cologne", "Leipzig")),
    *(("France", city) for city in ("Paris", "Paris", "Lyon", "Marseille")),
    *(("Italy", city) for city in ("Rome", "Milan", "Turin")),
    *(("Spain", city) for city in ("Madrid", "Barcelona", "Seville")),
    *(("Netherlands", city) for city in ("Amsterdam", "Rotterdam")),
    *(("Poland", city) for city in ("Warsaw", "Krakow")),
    ("Austria", "Vienna"),
    ("Belgium", "Brussels"),
    ("Denmark", "Copenhagen"),
    ("Ireland", "Dublin"),
)
_FIRST = (
    "Ada",
    "Ben",
    "Clara",
    "David",
    "Elena",
    "Felix",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Karla",
    "Leo",
    "Mara",
    "Nils",
    "Olga",
    "Paul",
)
_LAST = (
    "Adler",
    "Bauer",
    "Costa",
    "Dumont",
    "Evers",
    "Fischer",
    "Garcia",
    "Hansen",
    "Jansen",
    "Kowalski",
    "Lopez",
    "Moreau",
    "Novak",
    "Rossi",
)
_SEGMENTS = (*["consumer"] * 6, *["business"] * 3, "public")
_CHANNELS = (*["web"] * 12, *["app"] * 5, *["store"] * 3)
_COUPONS = ("WELCOME10", "WELCOME10", "SPRING15", "VIP20")
_SHIPPING = (0, 490, 490, 490, 990)
_STATUSES = (*["delivered"] * 22, "cancelled", "returned", "shipped")
_ITEMS = (1, 1, 2, 2, 2, 3, 3, 4, 5)
_QUANTITIES = (1, 1, 1, 1, 2, 2, 3, 5)

_CUSTOMERS, _WITH_ORDERS, _ORDERS, _DAYS = 5_000, 4_800, 40_000, 731

# 64 bits of chance for each row, taken apart by division: each part is used once.
_FILL = """
INSERT INTO shop.customers
WITH drawn AS (SELECT i, md5_number_lower('customer:' || i) AS h FROM range(1, $customers + 1) AS r(i))
SELECT i,
       list_extract($first, 1 + (h % len($first))::INT) || ' ' || list_extract($last, 1 + (h // 100 % len($last))::INT),
       list_extract($segments, 1 + (h // 10000 % len($segments))::INT),
       list_extract($countries, 1 + (h // 1000000 % len($countries))::INT),
       list_extract($cities, 1 + (h // 1000000 % len($cities))::INT),
       DATE '2020-01-01' + (h // 100000000 % 1461)::INT
FROM drawn ORDER BY i;

INSERT INTO shop.products
WITH drawn AS (
         SELECT i, md5_number_lower('product:' || i) AS h, list_extract($products, i::INT) AS p
         FROM range(1, len($products) + 1) AS r(i))
SELECT i, p[1], p[2], p[3], p[4]::BIGINT / 100, (p[4]::BIGINT * (40 + h % 35) // 100)::BIGINT / 100 FROM drawn ORDER BY i;

INSERT INTO shop.orders
WITH drawn AS (SELECT i, md5_number_lower('order:' || i) AS h, md5_number_upper('order:' || i) AS g FROM range($orders) AS r(i)),
     dated AS (SELECT *, DATE '2024-01-01' + ($days * i * (4 * $orders - i) // (3 * $orders::BIGINT * $orders))::INT AS day FROM drawn),
     placed AS (
         SELECT i, h, g,
                CASE WHEN h % 12 = 0 THEN make_date(year(day), 11, 15) + (h // 12 % 40)::INT ELSE day END AS day,
                h // 1000 % 10000 AS u
         FROM dated),
     stated AS (
         SELECT *,
                CASE WHEN day > DATE '2025-12-17' THEN CASE WHEN g % 3 = 0 THEN 'shipped' ELSE 'processing' END
                     ELSE list_extract($statuses, 1 + (g % len($statuses))::INT) END AS status
         FROM placed)
SELECT 100000 + row_number() OVER (ORDER BY day, i),
       1 + u * u * $with_orders // 100000000,
       day,
       day::TIMESTAMP + to_seconds((25200 + h // 10000000 % 57600)::BIGINT),
       status,
       list_extract($channels, 1 + (g // 100 % len($channels))::INT),
       CASE WHEN g // 10000 % 5 = 0 THEN list_extract($coupons, 1 + (g // 100000 % len($coupons))::INT) END,
       list_extract($shipping, 1 + (g // 1000000 % len($shipping))::INT) / 100,
       CASE WHEN status NOT IN ('cancelled', 'processing') THEN day + (1 + g // 100000000 % 5)::INT END
FROM stated ORDER BY 1;

INSERT INTO shop.order_items
WITH sized AS (
         SELECT order_id, order_date, coalesce(coupon, '') AS coupon,
                list_extract($items, 1 + (md5_number_lower('items:' || order_id) % len($items))::INT) AS items
         FROM shop.orders),
     lines AS (SELECT *, unnest(range(1, items + 1)) AS line FROM sized),
     drawn AS (SELECT *, md5_number_lower('item:' || order_id || ':' || line) AS h FROM lines),
     chosen AS (
         SELECT *, 1 + (h % 10000) * (h % 10000) * len($products) // 100000000 AS product_id,
                list_extract($quantities, 1 + (h // 10000 % len($quantities))::INT) AS quantity
         FROM drawn)
SELECT order_id, line, c.product_id, quantity,
       ((p.price * 100)::BIGINT
        * CASE WHEN year(order_date) = 2024 THEN 96 ELSE 100 END
        * CASE coupon WHEN 'WELCOME10' THEN 90 WHEN 'SPRING15' THEN 85 WHEN 'VIP20' THEN 80 ELSE 100 END // 10000)::BIGINT / 100
FROM chosen AS c JOIN shop.products AS p ON p.product_id = c.product_id ORDER BY order_id, line;
"""


def build_demo(path: Path) -> None:
    """Build the file in a temporary folder and rename it, so that concurrent builders do not conflict."""
    import duckdb  # noqa: PLC0415 - a fifth of a second that only the first use takes

    try:
        with translated(path, _WHAT):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f"{path.name}.", suffix=".new", dir=path.parent) as folder:
                unfinished = Path(folder) / path.name
                _fill(unfinished)
                unfinished.chmod(0o600)
                unfinished.replace(path)
    except duckdb.Error as error:
        raise _typed(error, path) from error


def _fill(path: Path) -> None:
    import duckdb  # noqa: PLC0415 - loaded by now

    with duckdb.connect(str(path), config={"threads": 2}) as connection:
        connection.execute(f"CREATE SCHEMA {DATASET}")
        for table, columns in TABLES.items():
            written = ", ".join(f"{name} {_DUCK_TYPES[kind]}" for name, kind in columns.items())
            connection.execute(f"CREATE TABLE {DATASET}.{table} ({written})")
        values = _values()
        for statement in _FILL.split(";"):
            if statement.strip():
                connection.execute(statement, {name: value for name, value in values.items() if f"${name}" in statement})
        connection.execute("CREATE TABLE main.interlock_format (version INTEGER)")
        connection.execute("INSERT INTO main.interlock_format VALUES (?)", [FORMAT])


def _values() -> dict[str, Any]:
    return {
        "customers": _CUSTOMERS,
        "with_orders": _WITH_ORDERS,
        "orders": _ORDERS,
        "days": _DAYS,
        "first": list(_FIRST),
        "last": list(_LAST),
        "segments": list(_SEGMENTS),
        "countries": [country for country, _ in _PLACES],
        "cities": [city for _, city in _PLACES],
        "channels": list(_CHANNELS),
        "coupons": list(_COUPONS),
        "shipping": list(_SHIPPING),
        "statuses": list(_STATUSES),
        "items": list(_ITEMS),
        "quantities": list(_QUANTITIES),
        "products": [[product.sku, product.name, product.category, str(product.price_cents)] for product in products()],
    }


def _typed(error: Exception, path: Path) -> StoreError:
    """Convert an error of DuckDB, without the path."""
    if "No space left" in str(error):
        return StoreFull(f"{_WHAT} '{path.name}' cannot be written: the disk is full.")
    return StoreUnavailable(f"{_WHAT} '{path.name}' cannot be made: {type(error).__name__}.")
