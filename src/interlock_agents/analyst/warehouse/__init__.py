"""The SQL warehouse of the analyst: DuckDB or BigQuery, read only, queried in BigQuery's dialect."""
