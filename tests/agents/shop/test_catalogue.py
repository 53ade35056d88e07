from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from interlock.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from interlock_agents.shop import databases
from interlock_agents.shop.catalogue import MAX_ROWS, Catalogue
from interlock_agents.shop.products import Product, products
from interlock_agents.shop.words import ORDINARY, STOP, beginning, forms, words

SHOP = {product.sku: product for product in products()}


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    return Catalogue(tmp_path_factory.mktemp("shop"))


def found(catalogue: Catalogue, query: str) -> list[str]:
    answer: Any = catalogue.query(query)
    return [product["name"] for product in answer["products"]]


def in_stock(catalogue: Catalogue, query: str) -> int:
    answer: Any = catalogue.query(query)
    return answer["products"][0]["stock"]


def own(folder: Path, rows: Iterable[tuple[Any, ...]], *, columns: str = "sku, name, category, price_cents, currency, stock") -> Catalogue:
    path = folder / "own shop #1.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE products ({columns})")
        connection.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?)", rows)
    return Catalogue(folder / "unused", path=path)


# The demo shop


def test_the_demo_catalogue_is_large_and_deterministic():
    assert len(SHOP) >= 200
    assert len({product.name for product in SHOP.values()}) == len(SHOP)
    assert [*products()] == [*SHOP.values()]
    assert len({product.category for product in SHOP.values()}) >= 6
    assert 5 <= sum(product.stock == 0 for product in SHOP.values()) <= len(SHOP) // 5
    assert all(product.price_cents > 0 and product.stock >= 0 and product.currency == "EUR" for product in SHOP.values())


def test_a_result_has_the_price_and_stock_of_the_table(catalogue: Catalogue):
    product = next(product for product in SHOP.values() if product.name == "Brass desk lamp dimmable")
    assert product == Product(sku="LMP-1003", name=product.name, category="Lighting", price_cents=4090, currency="EUR", stock=0)
    assert catalogue.query("lmp-1003") == {
        "query": "lmp-1003",
        "count": 1,
        "in_stock": 0,
        "products": [
            {"sku": "LMP-1003", "name": product.name, "category": "Lighting", "price": "40.90", "currency": "EUR", "stock": 0},
        ],
    }


def test_the_best_matches_come_first_and_all_are_counted(catalogue: Catalogue):
    answer: Any = catalogue.query("desk")
    assert len(answer["products"]) == MAX_ROWS
    assert answer["count"] == sum(product.category == "Desks" for product in SHOP.values())  # a desk lamp is not among the desks
    assert found(catalogue, "desks")[0] == "Birch corner desk 120 cm"
    cheap: Any = catalogue.query("", max_price=2)
    assert cheap["count"] == sum(product.price_cents <= 200 for product in SHOP.values())
    assert found(catalogue, "oak lighting") == []
    assert found(catalogue, "lighting warm")[0].startswith("Warm white LED bulb")


@pytest.mark.parametrize(
    "query",
    [
        "oak standing desk 160 cm",
        "OAK Standing DESKS 160",
        "how many oak standing desks of 160 cm do you have in stock?",
        "What's the price of the 160 oak standing desk?",
    ],
)
def test_a_product_is_found_by_any_wording(catalogue: Catalogue, query: str):
    assert found(catalogue, query) == ["Oak standing desk 160 cm"]


@pytest.mark.parametrize(
    ("query", "name"), [("boxes", "box"), ("shelves", "shelf"), ("bookshelves", "bookshelf"), ("punches", "punch"), ("trays", "tray")]
)
def test_plurals_match_their_singular(catalogue: Catalogue, query: str, name: str):
    assert found(catalogue, query)
    assert all(name in words(product) for product in found(catalogue, query))
    assert found(catalogue, query) == found(catalogue, name)


@pytest.mark.parametrize(
    "query",
    [
        "hoverboard",
        "oak hoverboard",
        "the",
        "do you have the",
        "?!",
        "desk hoverboard",
        "price",
        "in stock",
        "de",
        "lam",
        "esk",
        "oa",
        "DSK",
        "1001 oak lamp",
        "s",
    ],
)
def test_unknown_products_are_not_found(catalogue: Catalogue, query: str):
    if query == "DSK":
        assert found(catalogue, query)  # part of a number of an article
        return
    answer: Any = catalogue.query(query)
    assert (answer["count"], answer["products"]) == (0, [])
    nearest = answer.get("nearest", {"without": [], "products": []})
    assert (nearest["without"] == []) == (nearest["products"] == [])


def test_an_empty_query_lists_the_categories(catalogue: Catalogue):
    answer: Any = catalogue.query("  ")
    assert (answer["count"], answer["products"]) == (len(SHOP), [])
    assert answer["categories"] == Counter(product.category for product in SHOP.values())


@pytest.mark.parametrize(
    ("query", "without", "name"),
    [
        ("purple desk lamp", ["purple"], "desk lamp"),
        ("waterproof oak writing desk 120 cm", ["waterproof"], "Oak writing desk 120 cm"),
        ("red office chair", ["red"], "office chair"),
        ("white chair", ["white"], "chair"),
    ],
)
def test_near_matches_name_the_missing_words(catalogue: Catalogue, query: str, without: list[str], name: str):
    answer: Any = catalogue.query(query)
    assert (answer["count"], answer["nearest"]["without"]) == (0, without)
    assert all(name in product["name"] for product in answer["nearest"]["products"])


@pytest.mark.parametrize(
    ("query", "unknown"),
    [
        ("grey sofa", ["sofa"]),
        ("desk fan", ["fan"]),
        ("sofa grey", ["sofa"]),
        ("lamp shade black", ["shade"]),
        ("table tennis bat", ["tennis", "bat"]),
    ],
)
def test_products_of_another_kind_are_not_near_matches(catalogue: Catalogue, query: str, unknown: list[str]):
    answer: Any = catalogue.query(query)
    assert answer["unknown"] == unknown
    assert "nearest" not in answer


@pytest.mark.parametrize(
    ("query", "without"),
    [
        ("comfy gaming chair", ["comfy", "gaming"]),
        ("chair with wheels", ["wheels"]),
        ("desk with drawers", ["drawers"]),
        ("office chairs black leather", ["black", "leather"]),
    ],
)
def test_near_matches_are_of_the_requested_kind(catalogue: Catalogue, query: str, without: list[str]):
    nearest: Any = catalogue.query(query)["nearest"]
    kind = "Desks" if "desk" in query else "Chairs"
    expected = [one for one in SHOP.values() if one.category == kind and ("office" not in query or "office" in one.name)]
    assert (nearest["without"], nearest["count"]) == (without, len(expected))


@pytest.mark.parametrize(("query", "name"), [("olive storage boxes", "storage box"), ("pens", "pen")])
def test_names_take_precedence_over_article_numbers(catalogue: Catalogue, query: str, name: str):
    answer: Any = catalogue.query(query)
    expected = [one for one in SHOP.values() if f" {name} " in f" {one.name} " and ("olive" not in query or "Olive" in one.name)]
    assert answer["count"] == len(expected)
    assert all(name in product["name"] for product in answer["products"])


def test_the_cheapest_product_of_a_kind_has_its_noun(catalogue: Catalogue):
    answer: Any = catalogue.query("chair", order="cheapest")
    assert answer["products"][0]["name"] == "Grey office chair with armrests"  # the bar stools stand among the chairs, and cost less


@pytest.mark.parametrize(
    ("query", "read_as"),
    [
        ("pin boards", {"pin boards": "pinboard"}),
        ("white board", {"white board": "whiteboard"}),
        ("desklamp", {"desklamp": "desk lamp"}),
        ("standign desk", {"standign": "standing"}),
        ("gray carpet", {"gray": "grey", "carpet": "rug"}),
        ("walnutt bookcase", {"walnutt": "walnut", "bookcase": "bookshelf"}),
    ],
)
def test_a_corrected_word_is_listed(catalogue: Catalogue, query: str, read_as: dict[str, str]):
    answer: Any = catalogue.query(query)
    assert answer["read_as"] == read_as
    assert answer["products"]


@pytest.mark.parametrize("word", [*sorted(ORDINARY), "tools", "hair", "cable", "open", "agree", "landing"])
def test_an_ordinary_word_is_not_corrected(catalogue: Catalogue, word: str):
    assert "read_as" not in catalogue.query(word)


def test_a_product_without_something_does_not_match_with_it(catalogue: Catalogue):
    assert all("without" not in name for name in found(catalogue, "grey office chair with armrests"))
    assert found(catalogue, "grey office chair without armrests") == ["Grey office chair without armrests"]


@pytest.mark.parametrize("order", ["cheapest", "dearest"])
def test_products_are_found_by_price(catalogue: Catalogue, order: Any):
    answer: Any = catalogue.query("lamp", min_price=40, max_price=60, order=order)
    expected = [one.price_cents for one in SHOP.values() if "lamp" in one.name and 4000 <= one.price_cents <= 6000]
    assert answer["count"] == len(expected)
    prices = [float(product["price"]) for product in answer["products"]]
    assert prices == sorted((cents / 100 for cents in expected), reverse=order == "dearest")[:MAX_ROWS]
    none: Any = catalogue.query("lamp", max_price=1)
    assert (none["count"], none["nearest"]["without"]) == (0, [])
    assert float(none["nearest"]["products"][0]["price"]) == min(one.price_cents for one in SHOP.values() if "lamp" in one.name) / 100


@pytest.mark.parametrize(
    ("query", "prefer", "names"),
    [
        ("black", "Steel desk lamp dimmable", ["Black desk lamp dimmable"]),
        ("walnut 160", "Oak writing desk 120 cm", ["Walnut writing desk 160 cm"]),
        ("black", "Oak writing desk 120 cm", []),
        ("olive", "Grey office chair with armrests", ["Olive office chair with armrests"]),
        ("olive", "Grey office chair without armrests", ["Olive office chair without armrests"]),
        ("oak", "desk lamps", []),
    ],
)
def test_preferred_words_find_a_variant_of_a_product(catalogue: Catalogue, query: str, prefer: str, names: list[str]):
    answer: Any = catalogue.query(query, prefer=prefer)
    assert [product["name"] for product in answer["products"]] == names


@pytest.mark.parametrize(
    "query",
    [
        "%",
        "_",
        "*",
        "oak%",
        "%oak%",
        'oak" OR "1',
        "oak' OR '1'='1",
        "'; DROP TABLE products; --",
        "NEAR(oak desk)",
        "name:oak",
        "oak\x00desk",
    ],
)
def test_syntax_in_a_query_has_no_effect(catalogue: Catalogue, query: str):
    answer: Any = catalogue.query(query)
    plain: Any = catalogue.query(" ".join(words(query)))
    assert answer["products"] == plain["products"]
    assert catalogue.query("oak writing desk 120")["count"] == 1


PIECES = ("oak", "desk", "Lamps", "the", "in", "SHELF", "%_", "\"*'", "--", "120", "DSK-1001", "stock", "price", "cm", "AND", "OR", "NOT")


def sought(query: str) -> list[str]:
    return [word for word in words(query) if word not in STOP]


@given(
    st.one_of(
        st.text(max_size=100),
        st.lists(st.sampled_from(PIECES)).map(" ".join),
    )
)
@example("s")
@example("A-100")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_queries_never_fail_or_match_wrongly(catalogue: Catalogue, query: str):
    answer: Any = catalogue.query(query)
    asking = {"price", "stock"}
    for product in answer["products"]:
        known = words(f"{product['sku']} {product['name']} {product['category']}")
        assert SHOP[product["sku"]].stock == product["stock"]
        assert any(word not in asking for word in sought(query))
        assert all(word in asking or any(forms(word) & forms(other) for other in known) for word in sought(query))


@given(st.from_regex(r"[a-z]{1,12}", fullmatch=True), st.sampled_from(["", "s", "es", "ies", "ves", "y", "f", "fe"]))
def test_the_filter_of_sqlite_removes_no_match(stem: str, ending: str):
    word = stem + ending
    for other in (stem, *(stem + more for more in ("s", "es", "y", "f", "fe", "ies", "ves"))):
        if forms(word) & forms(other):
            assert beginning(word) in other


# A table of one's own


def test_a_file_of_the_user_is_never_written(tmp_path: Path):
    catalogue = own(
        tmp_path,
        [
            ("Ü-1", "Café-Stühle", None, 500, "CHF", 3),
            ("T-1", "Stock pot", "Kitchen", 1999, "CHF", 1),
            ("T-2", "Flower pot", "Garden", 5, "CHF", 2),
        ],
    )
    before = (tmp_path / "own shop #1.sqlite").read_bytes()
    assert found(catalogue, "cafe stühle") == ["Café-Stühle"]
    assert catalogue.query("STUHLE")["products"] == [
        {"sku": "Ü-1", "name": "Café-Stühle", "category": "", "price": "5.00", "currency": "CHF", "stock": 3}
    ]
    assert found(catalogue, "stock pots") == ["Stock pot"]  # part of its name, not of the question
    assert found(catalogue, "flower pots in stock") == ["Flower pot"]
    assert [*tmp_path.iterdir()] == [tmp_path / "own shop #1.sqlite"]
    assert (tmp_path / "own shop #1.sqlite").read_bytes() == before


def test_an_article_number_is_matched_as_a_whole(tmp_path: Path):
    catalogue = own(tmp_path, [("A-100", "Chair", "Chairs", 1, "EUR", 1), ("B-100", "Chair", "Chairs", 1, "EUR", 1)])
    answer: Any = catalogue.query("do you have a-100?")
    assert [product["sku"] for product in answer["products"]] == ["A-100"]


def test_a_view_can_replace_the_table(tmp_path: Path):
    path = tmp_path / "erp.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE items (id, title, eur REAL, amount INTEGER)")
        connection.execute("INSERT INTO items VALUES (7, 'Left-handed mug', 12.5, 4)")
        connection.execute(
            "CREATE VIEW products AS SELECT 'I-' || id AS sku, title AS name, '' AS category,"
            " CAST(eur * 100 AS INTEGER) AS price_cents, 'EUR' AS currency, amount AS stock FROM items"
        )
    answer: Any = Catalogue(tmp_path, path=path).query("mug")
    assert (answer["products"][0]["sku"], answer["products"][0]["price"], answer["products"][0]["stock"]) == ("I-7", "12.50", 4)


def test_the_current_stock_is_returned(tmp_path: Path):
    catalogue = own(tmp_path, [("A-1", "Chair", "Chairs", 1, "EUR", 1)])
    assert in_stock(catalogue, "chair") == 1
    with closing(sqlite3.connect(tmp_path / "own shop #1.sqlite")) as connection, connection:
        connection.execute("UPDATE products SET stock = 0")
    assert in_stock(catalogue, "chair") == 0


@pytest.mark.parametrize(
    "row",
    [
        ("A-1", "Chair", "", "1.50", "EUR", 1),
        ("A-1", "Chair", "", 150, "EUR", None),
        ("A-1", "Chair", "", 1.5, "EUR", 1),
        (1, "Chair", "", 1, "EUR", 1),
    ],
)
def test_a_product_with_an_invalid_price_or_stock_is_corrupt(tmp_path: Path, row: tuple[Any, ...]):
    with pytest.raises(StoreCorrupt, match="whole numbers"):
        own(tmp_path, [row]).query("chair")


def test_a_file_that_is_not_a_catalogue_is_a_typed_error_and_not_changed(tmp_path: Path):
    noise = tmp_path / "noise.sqlite"
    noise.write_bytes(b"not a database, but long enough to look like one" * 100)
    empty = tmp_path / "empty.sqlite"
    with closing(sqlite3.connect(empty)) as connection:
        connection.execute("CREATE TABLE other (x)")
    for path, error, says in (
        (noise, StoreCorrupt, "not a database"),
        (empty, StoreCorrupt, "no such table: products"),
        (tmp_path / "none.sqlite", StoreUnavailable, "cannot be opened"),
        (tmp_path, StoreUnavailable, "cannot be opened"),
    ):
        with pytest.raises(StoreError, match=says) as caught:
            Catalogue(tmp_path, path=path).query("chair")
        assert type(caught.value) is error
        assert str(tmp_path) not in str(caught.value)
    assert not (tmp_path / "none.sqlite").exists()
    assert noise.read_bytes().startswith(b"not a database")


def test_a_table_of_another_schema_is_a_typed_error(tmp_path: Path):
    with pytest.raises(StoreCorrupt, match="no such column"):
        own(tmp_path, [], columns="sku, name, category, cents, currency, stock").query("chair")
    (tmp_path / "own shop #1.sqlite").unlink()
    catalogue = own(tmp_path, [("A-1", "Chair", "Chairs", 1, "EUR", 1)])
    with closing(sqlite3.connect(tmp_path / "own shop #1.sqlite")) as connection, connection:
        connection.execute("UPDATE products SET name = CAST(x'ff6368616972' AS TEXT)")
    with pytest.raises(StoreCorrupt):
        catalogue.query("chair")


def test_a_query_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(databases, "MAX_SECONDS", 0.0)
    catalogue = own(tmp_path, ((f"A-{n}", "Chair", "Chairs", 1, "EUR", 1) for n in range(2000)))
    with pytest.raises(StoreUnavailable, match="takes longer than"):
        catalogue.query("table")


# Made on first use


def test_the_catalogue_is_created_once_at_first_use(tmp_path: Path):
    folder = tmp_path / "deep" / "data"
    catalogue = Catalogue(folder)
    assert not folder.exists()
    catalogue.query("oak")
    assert [file.name for file in folder.iterdir()] == ["catalogue.sqlite"]
    with closing(sqlite3.connect(folder / "catalogue.sqlite")) as connection, connection:
        connection.execute("UPDATE products SET stock = 4321 WHERE sku = 'DSK-1001'")
    assert in_stock(Catalogue(folder), "DSK-1001") == 4321


MAKES = """
import sys
from pathlib import Path
from interlock_agents.shop.catalogue import Catalogue
sys.stdin.readline()
for n in range(20):
    assert Catalogue(Path(sys.argv[1]) / str(n)).query("DSK-1001")["count"] == 1, n
"""


def test_two_processes_can_create_the_catalogue_concurrently(tmp_path: Path):
    started = [
        subprocess.Popen([sys.executable, "-c", MAKES, str(tmp_path)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, "")
    assert {file.name for folder in tmp_path.iterdir() for file in folder.iterdir()} == {"catalogue.sqlite"}


def test_an_incomplete_file_is_never_visible(tmp_path: Path):
    half, go_on = threading.Event(), threading.Event()

    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE products (sku)")
        half.set()
        assert go_on.wait(10)

    path = tmp_path / "catalogue.sqlite"
    making = threading.Thread(target=lambda: databases.build(path, what="Catalogue", fill=fill))
    making.start()
    try:
        assert half.wait(10)
        assert not path.exists()
    finally:
        go_on.set()
        making.join()
    assert [*tmp_path.iterdir()] == [path]


def test_a_failed_creation_leaves_no_file(tmp_path: Path):
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE products (sku)")
        raise sqlite3.OperationalError("no")

    with pytest.raises(StoreCorrupt):
        databases.build(tmp_path / "catalogue.sqlite", what="Catalogue", fill=fill)
    assert [*tmp_path.iterdir()] == []


def test_a_folder_that_cannot_be_written_is_unavailable(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        Catalogue(tmp_path / "file").query("oak")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_reported(tmp_path: Path):
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 1")
        connection.execute("CREATE TABLE a (x)")
        connection.execute("CREATE TABLE b (x)")

    with pytest.raises(StoreFull, match="disk is full"):
        databases.build(tmp_path / "catalogue.sqlite", what="Catalogue", fill=fill)
    with pytest.raises(StoreFull), databases.translated(tmp_path, "Catalogue"), Path("/dev/full").open("w") as full:
        os.write(full.fileno(), b"x")


async def test_threads_and_event_loops_share_one_catalogue(tmp_path: Path):
    catalogue = Catalogue(tmp_path)
    answers = await asyncio.gather(*(asyncio.to_thread(catalogue.query, "DSK-1001") for _ in range(16)))
    assert all(answer["count"] == 1 for answer in answers)
    assert await asyncio.to_thread(asyncio.run, asyncio.to_thread(catalogue.query, "DSK-1001")) == answers[0]
