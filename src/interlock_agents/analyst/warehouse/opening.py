"""Opens the warehouse that a setting names."""

from __future__ import annotations

from pathlib import Path

from interlock.errors import SettingsInvalid
from interlock_agents.analyst.warehouse.warehouse import DuckWarehouse, Warehouse

__all__ = ["open_warehouse"]

# A query gets this share of the tool's time limit, so that the tool can still report the timeout.
_SHARE = 0.8


def open_warehouse(name: str, *, folder: Path, timeout_s: float, max_bytes_billed: int) -> Warehouse:
    """Open `demo`, `duckdb:PATH` or `bigquery:PROJECT.DATASET`."""
    kind, _, rest = name.partition(":")
    within = timeout_s * _SHARE
    if name == "demo":
        return DuckWarehouse(folder, timeout_s=within)
    if kind == "duckdb" and rest:
        return DuckWarehouse(folder, path=Path(rest).expanduser(), dataset="main", timeout_s=within)
    project, _, dataset = rest.partition(".")
    if kind == "bigquery" and project and dataset:
        from interlock_agents.analyst.warehouse.bigquery import BigQueryWarehouse  # noqa: PLC0415 - an extra

        return BigQueryWarehouse(project, dataset=dataset, max_bytes_billed=max_bytes_billed, timeout_s=within)
    raise SettingsInvalid(f"Warehouse '{name}' is unknown. Use 'demo', 'duckdb:PATH' or 'bigquery:PROJECT.DATASET'.")
