"""Tables in the analyst's answers: separators and units by the kind of a column, and nothing cut in silence."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import EngineName
from interlock_agents.analyst.tables import csv_of, fitting, kind_of, table
from tests.support.analyst import app

KINDS: dict[tuple[str, Any], str] = {
    ("order_id", 140000): "identifier",
    ("customer_id", 17): "identifier",
    ("year", 2025): "year",
    ("fiscal_year", 2025): "year",
    ("orders", 23219): "quantity",
    ("revenue_eur", 17482299.71): "money",
    ("unit_price", 12.5): "money",
    ("share_percent", 24.55): "share",
    ("return_rate", 0.04): "share",
    ("month", "2025-03"): "time",
    ("order_date", "2025-03-01"): "time",
    ("country", "Italy"): "text",
    ("is_new", True): "text",
}


@pytest.mark.parametrize(("name", "value"), KINDS)
def test_the_kind_of_a_column(name: str, value: Any):
    assert kind_of(name, [None, value]) == KINDS[name, value]


def test_years_and_identifiers_have_no_separators_and_money_has_a_unit():
    said = table(["order_id", "year", "orders", "revenue_eur", "share_percent"], [[140000, 2025, 23219, 17482299.7, 24.5]])
    assert "| 140000 | 2025 | 23,219 | 17,482,299.70 | 24.5% |" in said
    assert "revenue (EUR)" in said
    assert table(["revenue_eur"], [[1234.5]]) == "1,234.50 EUR"
    assert table(["order_id"], [[140000]]) == "140000"


ROWS = st.lists(st.tuples(st.text(max_size=20), st.integers(0, 10**9)).map(list), max_size=60)


@given(ROWS, st.integers(20, 2000))
def test_a_cut_table_has_its_row_count(rows: list[Any], most: int):
    shown = fitting({"columns": ["a", "b"], "rows": rows, "row_count": len(rows)}, most)
    assert isinstance(shown, dict)
    kept: Any = shown["rows"]
    assert kept == rows[: len(kept)]
    if len(kept) < len(rows):
        assert (shown["shown"], shown["row_count"]) == (len(kept), len(rows))
        assert len(kept) == 1 or len(json.dumps(kept, ensure_ascii=False)) <= most
    else:
        assert "shown" not in shown


@given(ROWS)
def test_csv_has_every_value_of_every_row(rows: list[Any]):
    written = csv_of({"columns": ["a", "b"], "rows": rows})
    assert written is not None
    assert list(csv.reader(io.StringIO(written, newline=""))) == [["a", "b"], *([text, str(number)] for text, number in rows)]


async def test_a_long_table_says_how_many_rows_are_shown(engine: EngineName, tmp_path: Path):
    async with app(engine, tmp_path, tool_seconds=60.0) as running:
        result = await running.run("analyst", "SELECT name, category, price FROM products ORDER BY product_id", session="s")
    assert "| Oak writing desk 120 cm | Desks |" in result.output
    rows = [line for line in result.output.splitlines() if line.startswith("| ")]
    assert 50 < len(rows) < 243
    assert f"Shown: {len(rows) - 2} of 243 rows." in result.output


def test_the_command_saves_every_row_of_a_table_and_overwrites_nothing(tmp_path: Path):
    script = Path(sys.executable).with_name("interlock")
    environment = {"INTERLOCK_ENGINE": "direct", "INTERLOCK_DATA_DIR": str(tmp_path)}

    def ran(question: str) -> int:
        command = [script, "run", "analyst", question, "--save", "out.csv"]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=120).returncode

    assert ran("SELECT product_id, name FROM products ORDER BY product_id") == 0
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as saved:
        rows = list(csv.reader(saved))
    assert (len(rows), rows[0], rows[1]) == (244, ["product_id", "name"], ["1", "Oak writing desk 120 cm"])
    assert ran("SELECT 1 AS one") == 1
    assert len((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()) == 244
    (tmp_path / "out.csv").unlink()
    assert ran("What is churn?") == 1
    assert not (tmp_path / "out.csv").exists()
