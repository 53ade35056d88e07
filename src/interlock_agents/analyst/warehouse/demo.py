"""Builds the demo warehouse, a DuckDB file, from `demo.sql`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from interlock.errors import StoreError, StoreFull, StoreUnavailable
from interlock_agents.shop.databases import translated
from interlock_agents.shop.products import products

__all__ = ["DATASET", "FORMAT", "TABLES", "Schema", "bigquery_type", "build_demo"]

Schema = Mapping[str, Mapping[str, str]]
"""The columns of each table, with their types in BigQuery."""

FORMAT = 1
"""The format version of the file. Increase it with every change of `demo.sql`; a file with another version is rebuilt."""

DATASET = "shop"

_SQL = re.sub(r"(?m)^--.*\n", "", Path(__file__).with_suffix(".sql").read_text(encoding="utf-8"))
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


def bigquery_type(duckdb_type: str) -> str:
    """Return the name of a type in BigQuery."""
    return "NUMERIC" if duckdb_type.startswith("DECIMAL") else _BIGQUERY_TYPES.get(duckdb_type, duckdb_type)


TABLES: Schema = {
    table: {name: bigquery_type(kind) for name, kind in re.findall(r"(\w+) ([A-Z]+)", columns)}
    for table, columns in re.findall(rf"CREATE TABLE {DATASET}\.(\w+) \(([^;]*)\);", _SQL)
}
"""The tables of the demo warehouse."""


def build_demo(path: Path) -> None:
    """Build the file in a temporary folder and rename it, so that concurrent builders do not conflict."""
    import duckdb  # noqa: PLC0415 - takes a fifth of a second, only on first use

    try:
        with translated(path, "Warehouse"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=f"{path.name}.", suffix=".new", dir=path.parent) as folder:
                unfinished = Path(folder) / path.name
                _fill(unfinished)
                unfinished.chmod(0o600)
                unfinished.replace(path)
    except duckdb.Error as error:
        raise _store_error(error, path) from error


def _fill(path: Path) -> None:
    import duckdb  # noqa: PLC0415 - already loaded

    rows = [[product.sku, product.name, product.category, str(product.price_cents)] for product in products()]
    with duckdb.connect(str(path), config={"threads": 2}) as connection:
        for statement in filter(str.strip, _SQL.split(";")):
            connection.execute(statement, {"products": rows} if "$products" in statement else None)
        connection.execute("INSERT INTO main.interlock_format VALUES (?)", [FORMAT])


def _store_error(error: Exception, path: Path) -> StoreError:
    """Convert an error of DuckDB. The message does not contain the path."""
    if "No space left" in str(error):
        return StoreFull(f"Warehouse '{path.name}' cannot be written: the disk is full.")
    return StoreUnavailable(f"Warehouse '{path.name}' cannot be created: {type(error).__name__}.")
