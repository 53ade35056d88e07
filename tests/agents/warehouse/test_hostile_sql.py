"""Nothing that is hostile gets through, and nothing that would get through the guard gets anywhere."""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.errors import QueryDenied, ToolError, ToolInputInvalid
from interlock_agents.analyst.warehouse import warehouse as module
from interlock_agents.analyst.warehouse.validation import Tables, read_only
from interlock_agents.analyst.warehouse.warehouse import DuckWarehouse
from tests.agents.warehouse.hostile_sql import Targets, blind, calls, hostile, sources

SECRET = "swordfish"  # noqa: S105 - what must not be found
NAMES = Targets("/canary/secret.csv", "/canary", "http://127.0.0.1:1")
FAMILIES = tuple(hostile(NAMES))
SHOP = Tables(frozenset(("shop", table) for table in ("customers", "products", "orders", "order_items")), default="shop")


@dataclass
class Place:
    """A warehouse, a file beside it that is nobody's business, and a server that nobody calls."""

    warehouse: DuckWarehouse
    folder: Path
    server: socket.socket
    targets: Targets
    before: dict[str, str]

    def seen(self) -> dict[str, str]:
        return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(self.folder.rglob("*")) if file.is_file()}

    def assert_untouched(self) -> None:
        assert self.seen() == self.before
        with pytest.raises(BlockingIOError):
            self.server.accept()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, demo: Path) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("place")
    canary = folder / "canary"
    canary.mkdir()
    (canary / "secret.csv").write_text(f"name,word\nme,{SECRET}\n")
    shutil.copytree(demo, folder / "shop")
    warehouse = DuckWarehouse(folder / "shop", timeout_s=1.0)
    warehouse.query("SELECT 1 FROM orders LIMIT 1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        targets = Targets(str(canary / "secret.csv"), str(canary), f"http://127.0.0.1:{server.getsockname()[1]}")
        made = Place(warehouse, folder, server, targets, {})
        made.before = made.seen()
        yield made
    warehouse.close()


def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever is asked through to the database, word for word."""

    def taken(sql: str, *, tables: Tables) -> str:
        return sql

    monkeypatch.setattr(module, "read_only", taken)
    monkeypatch.setattr(module, "to_duckdb", str)


def test_the_corpus_has_at_least_1000_statements():
    assert sum(len(family) for family in hostile(NAMES).values()) >= 1000


@pytest.mark.parametrize("family", FAMILIES)
def test_a_hostile_statement_is_denied_without_effect(place: Place, family: str):
    for sql in hostile(place.targets)[family]:
        begun = time.process_time()
        with pytest.raises(QueryDenied) as caught:
            place.warehouse.query(sql)
        assert SECRET not in str(caught.value)
        assert time.process_time() - begun < 10, sql[:100]
    place.assert_untouched()


def test_a_query_with_unknown_names_is_invalid(place: Place):
    for sql in blind(place.targets):
        with pytest.raises(ToolInputInvalid) as caught:
            place.warehouse.query(sql)
        assert SECRET not in str(caught.value)
        assert str(place.folder) not in str(caught.value)
    place.assert_untouched()


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "sizes"])
def test_without_validation_the_database_reaches_nothing_outside(place: Place, family: str, monkeypatch: pytest.MonkeyPatch):
    unguarded(monkeypatch)
    refused = 0
    for sql in hostile(place.targets)[family]:
        try:
            answer: Any = place.warehouse.query(sql.encode(errors="replace").decode())
        except ToolError as error:
            refused += 1
            assert SECRET not in str(error)  # noqa: PT017 - some of them only look at the catalogue
        else:
            assert SECRET not in json.dumps(answer)
    assert refused
    place.assert_untouched()
    assert place.warehouse.query("SELECT 1")["rows"] == [[1]]


def test_the_process_refuses_statements_other_than_select(place: Place, monkeypatch: pytest.MonkeyPatch):
    unguarded(monkeypatch)
    for sql in ("SELECT 1; SELECT 2", "CREATE TEMP TABLE x (i INT)", "PRAGMA database_list", "SET threads = 1", "CHECKPOINT", ""):
        with pytest.raises(QueryDenied, match="not one that only reads"):
            place.warehouse.query(sql)
    for sql in ("SELECT * FROM read_text('{file}')", "SELECT * FROM glob('{folder}/*')", "SELECT * FROM read_csv('{url}/a.csv')"):
        with pytest.raises(ToolError):
            place.warehouse.query(sql.format(file=place.targets.file, folder=place.targets.folder, url=place.targets.url))
    place.assert_untouched()


# Anywhere in a query, in any writing

PIECES = (
    *calls(NAMES),
    *(f"(SELECT 1 FROM {source})" for source in sources(NAMES)),  # noqa: S608 - that is the point
    "@x",
    "?",
    "@@version",
    "x -> x",
    "(DELETE FROM orders WHERE TRUE)",
)
AROUND = (
    "({})",
    "ABS({})",
    "COALESCE(NULL, {})",
    "CONCAT('a', {}, 'b')",
    "CASE WHEN {} THEN 1 END",
    "CASE WHEN TRUE THEN {} ELSE 2 END",
    "IF(TRUE, 1, {})",
    "CAST({} AS STRING)",
    "[1, {}]",
    "[1, 2][OFFSET({})]",
    "STRUCT({} AS a)",
    "1 + {}",
    "NOT {}",
    "{} IS NULL",
    "1 BETWEEN 0 AND {}",
    "1 IN (1, {})",
    "'a' LIKE {}",
    "(SELECT {})",
    "(SELECT 1 FROM orders WHERE {})",
    "EXISTS (SELECT 1 FROM orders WHERE TRUE AND {} = 1)",
    "ARRAY(SELECT {})",
    "SUM({}) OVER (PARTITION BY 1)",
    "SUM(1) OVER (PARTITION BY {})",
    "SUM(1) OVER (ORDER BY {})",
    "DATE_ADD(DATE '2024-01-01', INTERVAL {} DAY)",
    "EXTRACT(YEAR FROM {})",
    "STRING_AGG('a', ',' ORDER BY {})",
    "COUNT(DISTINCT {})",
    "SAFE.SUBSTR('a', {})",
    "JSON_VALUE({}, '$.a')",
)
WHERE = (
    "SELECT {}",
    "SELECT {} AS x FROM orders",
    "SELECT DISTINCT {} FROM orders",
    "SELECT * FROM orders WHERE {}",
    "SELECT * FROM orders ORDER BY {}",
    "SELECT 1 FROM orders GROUP BY {}",
    "SELECT 1 FROM orders GROUP BY 1 HAVING {}",
    "SELECT 1 FROM orders QUALIFY {}",
    "SELECT * FROM orders AS a JOIN orders AS b ON {}",
    "SELECT * FROM orders AS a LEFT JOIN (SELECT {} AS x) AS b ON TRUE",
    "SELECT * FROM (SELECT {} AS x) AS t",
    "SELECT * FROM UNNEST([{}])",
    "SELECT * FROM orders, UNNEST([{}]) AS x",
    "WITH x AS (SELECT {} AS y) SELECT * FROM x",
    "WITH x AS (SELECT 1 AS y) SELECT * FROM x WHERE {}",
    "SELECT 1 UNION ALL SELECT {}",
    "SELECT 1 EXCEPT DISTINCT (SELECT {})",
    "SELECT * REPLACE ({} AS status) FROM orders",
    "SELECT SUM(1) OVER w FROM orders WINDOW w AS (ORDER BY {})",
    "SELECT * FROM orders LIMIT {}",
    "(SELECT {})",
)
SPACES = (" ", "\n", "\t", "  ", " /**/ ", " /* ; */ ", " -- x\n", " # ' y\n", "\r\n", " /* ' */ ")


@st.composite
def buried(draw: st.DrawFn) -> str:
    """A hostile piece somewhere deep in a query, in any case and with anything between its words."""
    piece = draw(st.sampled_from(PIECES))
    for around in draw(st.lists(st.sampled_from(AROUND), max_size=4)):
        piece = around.replace("{}", piece)
    text = draw(st.sampled_from(WHERE)).replace("{}", piece)
    chance = draw(st.randoms(use_true_random=False))
    if draw(st.booleans()):
        text = "".join(chance.choice((letter, letter.swapcase())) for letter in text)
    return "".join(chance.choice(SPACES) if letter == " " else letter for letter in text)


@given(buried())
@settings(max_examples=400)
def test_hostile_sql_is_denied_anywhere_in_a_query(sql: str):
    with pytest.raises(QueryDenied):
        read_only(sql, tables=SHOP)
