"""The SQL warehouse of the analyst: DuckDB or BigQuery, read only, asked in BigQuery's dialect."""
