"""A catalogue of products in SQLite: the demo shop's, or a table of your own."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue

from interlock.adapters.tools.databases import build, reading
from interlock.adapters.tools.products import Product, products
from interlock.adapters.tools.words import ASKING, beginning, content, forms, words
from interlock.errors import StoreCorrupt

__all__ = ["MAX_ROWS", "TABLE", "Catalogue"]

MAX_ROWS = 5
"""How many products one answer has. `count` says how many there are."""

TABLE = "products"
"""The table, or view, of a file of your own. Its columns:

| column | type | what |
|---|---|---|
| sku | TEXT | the number of the article |
| name | TEXT | what it is called |
| category | TEXT | where in the shop it stands |
| price_cents | INTEGER | the price in hundredths of the currency |
| currency | TEXT | EUR, USD, ... |
| stock | INTEGER | how many there are |
"""

_COLUMNS = tuple(field.name for field in dataclasses.fields(Product))
_WHAT = "Catalogue"

# SQLite sorts out by itself the rows that cannot match; it knows upper and lower case in ASCII only.
_SELECT = f"""
SELECT {", ".join(_COLUMNS)}
FROM (SELECT *, ifnull(sku, '') || ' ' || ifnull(name, '') || ' ' || ifnull(category, '') AS words_ FROM {TABLE})
WHERE 1"""  # noqa: S608 - names of ours
_BEGINS = " AND (instr(lower(words_), ?) OR length(words_) < length(CAST(words_ AS BLOB)))"
_MATCHES = " AND matches(sku, name, category)"

_Row = tuple[Any, ...]
Query = Annotated[str, Field(max_length=500, description="words of the name, the category or the SKU of a product; all of them must match")]


class Catalogue:
    """Looks products up. The demo catalogue is made on first use; a file of your own is only read."""

    def __init__(self, folder: Path, *, path: Path | None = None) -> None:
        self._path = path or folder / "catalogue.sqlite"
        self._is_demo = path is None

    def query(self, query: Query) -> dict[str, JsonValue]:
        """Look products up: price, currency and stock of those whose name, category or SKU has every word of the query."""
        asked = content(query)
        count, found = self._best(asked)
        if not count and not ASKING.isdisjoint(asked):  # "stock" may be part of a name; where it is not, it is part of the question
            count, found = self._best([word for word in asked if word not in ASKING])
        return {"query": query, "count": count, "products": [_shown(row, self._path.name) for row in found]}

    def _best(self, asked: Sequence[str]) -> tuple[int, list[_Row]]:
        """Count the products that match, and return the best of them."""
        if not asked:
            return 0, []
        if self._is_demo and not self._path.exists():
            build(self._path, what=_WHAT, fill=_fill)
        wanted = [forms(word) for word in asked]

        def matches(*texts: object) -> bool:
            known = _known(texts)
            return all(not known.isdisjoint(word) for word in wanted)

        with reading(self._path, what=_WHAT) as connection:
            connection.create_function("matches", 3, matches, deterministic=True)
            rows = connection.execute(_SELECT + _BEGINS * len(wanted) + _MATCHES, [beginning(word) for word in asked])
            counted = itertools.count()
            best = heapq.nsmallest(MAX_ROWS, (row for row, _ in zip(rows, counted, strict=False)), key=lambda row: _rank(row, wanted))
            return next(counted), best


def _known(texts: Sequence[object]) -> set[str]:
    """Return every form of every word of these texts."""
    return {form for text in texts for word in words(str(text or "")) for form in forms(word)}


def _rank(row: _Row, wanted: Sequence[frozenset[str]]) -> tuple[int, int, str, str]:
    """Order by how often the question is met, in the name and in the category, then by how little else is in the name."""
    sku, name, category = (str(text or "") for text in row[:3])
    hits = sum(not known.isdisjoint(word) for known in (_known([name]), _known([category])) for word in wanted)
    return -hits, len(words(name)), name, sku


def _shown(row: _Row, file: str) -> JsonValue:
    sku, name, category, cents, currency, stock = row
    if not isinstance(sku, str) or not isinstance(name, str) or not isinstance(cents, int) or not isinstance(stock, int):
        needed = "'sku' and 'name' have to be text, 'price_cents' and 'stock' whole numbers"
        raise StoreCorrupt(f"{_WHAT} '{file}' has a product '{sku}' that cannot be used: {needed}.")
    price = f"{'-' if cents < 0 else ''}{abs(cents) // 100}.{abs(cents) % 100:02}"
    return {"sku": sku, "name": name, "category": str(category or ""), "price": price, "currency": str(currency or ""), "stock": stock}


def _fill(connection: sqlite3.Connection) -> None:
    connection.execute(
        f"CREATE TABLE {TABLE} (sku TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, category TEXT NOT NULL,"
        " price_cents INTEGER NOT NULL, currency TEXT NOT NULL, stock INTEGER NOT NULL)"
    )
    insert = f"INSERT INTO {TABLE} VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 - a name of ours
    connection.executemany(insert, (dataclasses.astuple(product) for product in products()))
