# ruff: noqa: S608 - queries are what is tested

from __future__ import annotations

import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import duckdb
import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from interlock.errors import QueryDenied, ToolError
from interlock_agents.analyst.warehouse import allowlist
from interlock_agents.analyst.warehouse.translation import to_duckdb
from interlock_agents.analyst.warehouse.validation import MAX_DEPTH, MAX_LENGTH, MAX_TIMES, Tables, read_only, rewritten
from tests.agents.warehouse.legal_sql import LEGAL

DUCKDB = duckdb.connect()
SHOP = Tables(frozenset(("shop", table) for table in ("customers", "products", "orders", "order_items")), default="shop")
HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
SEEN = st.text(st.characters(exclude_categories=HIDDEN), max_size=40)


def read(sql: str) -> exp.Query:
    return read_only(sql, tables=SHOP)


def denied(sql: str) -> str:
    with pytest.raises(QueryDenied) as caught:
        read(sql)
    assert caught.value.code == "query_denied"
    return str(caught.value)


# What is taken


@pytest.mark.parametrize("sql", LEGAL)
def test_a_legal_query_is_accepted_and_generates_the_same_query(sql: str):
    tree = read(sql)
    text = rewritten(tree, tables=SHOP)
    assert read(text) == read(rewritten(read(text), tables=SHOP))
    assert "--" not in re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "", text)
    assert "/*" not in to_duckdb(tree).replace("/* COPY", "")


def test_the_corpus_has_at_least_100_legal_queries():
    assert len(set(LEGAL)) >= 100


def test_the_sql_that_runs_is_generated_from_the_tree():
    sql = "select /* one */ count( * ) -- two\n from orders # three\n where status='a\\'b' ;"
    assert to_duckdb(read(sql)) == """SELECT COUNT(*) FROM "shop"."orders" AS "orders" WHERE "status" = 'a''b'"""
    assert rewritten(read(sql), tables=SHOP) == "SELECT COUNT(*) FROM `shop`.`orders` AS `orders` WHERE `status` = 'a\\'b'"


@given(SEEN)
@example("'; DROP TABLE orders; --")
@example("\\'; DROP TABLE orders; --")
@example('"""')
@example("\\")
@example("$$")
@example("/* */")
def test_a_string_literal_stays_one_in_both_dialects(text: str):
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    tree = read(f"SELECT '{escaped}'")
    again = read(rewritten(tree, tables=SHOP))
    for literal in (tree.find(exp.Literal), again.find(exp.Literal)):
        assert literal is not None
        assert literal.this == text
    assert DUCKDB.execute(to_duckdb(tree)).fetchall() == [(text,)]


@given(st.from_regex(r"\w[\w €$%#&/().,:+-]{0,20}", fullmatch=True))
def test_a_quoted_name_stays_one_in_both_dialects(name: str):
    try:
        tree = read(f"SELECT 1 AS `{name}`")
    except QueryDenied:
        return
    described = DUCKDB.execute(to_duckdb(tree)).description
    assert described is not None
    assert described[0][0] == name
    alias = read(rewritten(tree, tables=SHOP)).find(exp.Alias)
    assert alias is not None
    assert alias.alias == name


# Tables


@pytest.mark.parametrize("name", ["orders", "shop.orders", "`shop.orders`", "`shop`.orders", "Orders", "SHOP.ORDERS"])
def test_a_table_gets_its_full_name(name: str):
    assert '"shop"."orders"' in to_duckdb(read(f"SELECT * FROM {name}"))


def test_only_the_own_project_can_be_named():
    tables = Tables(frozenset({("shop", "orders")}), default="shop", project="my-project")
    for name in ("orders", "shop.orders", "`my-project.shop.orders`", "my-project.shop.orders"):
        text = rewritten(read_only(f"SELECT * FROM {name}", tables=tables), tables=tables)
        assert text.replace("`", "") == "SELECT * FROM my-project.shop.orders AS orders"
    for name in ("other.shop.orders", "`other.my-project.shop.orders`"):
        with pytest.raises(QueryDenied):
            read_only(f"SELECT * FROM {name}", tables=tables)


def test_without_a_default_a_table_needs_its_dataset():
    tables = Tables(frozenset({("a", "orders"), ("b", "Orders"), ("b", "orders")}))
    with pytest.raises(QueryDenied, match=r"There are: a\.orders, b\.Orders, b\.orders"):
        read_only("SELECT * FROM orders", tables=tables)
    assert '"b"."Orders"' in to_duckdb(read_only("SELECT * FROM b.Orders", tables=tables))
    assert '"b"."orders"' in to_duckdb(read_only("SELECT * FROM b.orders", tables=tables))


def test_a_name_defined_by_with_is_known_only_in_its_scope():
    read("WITH x AS (SELECT 1 AS a) SELECT * FROM x JOIN (SELECT * FROM x) AS y ON TRUE")
    read("WITH x AS (SELECT 1 AS a), y AS (SELECT * FROM x) SELECT * FROM y, x")
    read("WITH x AS (SELECT 1 AS a) SELECT * FROM X UNION ALL SELECT * FROM x")
    assert '"shop"."orders"' in to_duckdb(read("WITH orders AS (SELECT * FROM orders) SELECT * FROM orders"))
    for sql in (
        "WITH x AS (SELECT * FROM x) SELECT 1",
        "WITH x AS (SELECT * FROM y), y AS (SELECT 1) SELECT 1",
        "SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x), x",
        "WITH x AS (SELECT 1) SELECT * FROM shop.x",
        "WITH x AS (WITH y AS (SELECT 1) SELECT * FROM y) SELECT * FROM y",
    ):
        assert "There is no table" in denied(sql)


def test_an_unknown_table_is_reported_with_the_known_tables():
    assert denied("SELECT * FROM sales") == (
        "There is no table 'sales' that may be read. There are: customers, order_items, orders, products."
    )


# What is not


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("", "The query is empty: write one SELECT statement."),
        ("-- nothing", "The query is empty: write one SELECT statement."),
        ("DROP TABLE orders", "A query begins with SELECT or WITH, not with 'DROP'."),
        ("SELECT 1; SELECT 2", "Only one statement is allowed: ask for one thing at a time."),
        ("SELECT read_csv('x')", "A query may not have the function 'READ_CSV'."),
        ("SELECT getenv('x')", "A query may not have the function 'getenv'."),
        ("SELECT ML.PREDICT(MODEL a, TABLE orders)", "A query may not have the function 'ML.PREDICT'."),
        ("SELECT * FROM ABS(1)", "A query may not read from the function 'ABS': read from a table, a subquery or UNNEST."),
        ("SELECT @x", "A query may not have a parameter ('@name')."),
        ("SELECT * FROM orders TABLESAMPLE SYSTEM (1 PERCENT)", "A query may not have 'TABLESAMPLE' in 'TABLE'."),
        ("SELECT * FROM orders FOR SYSTEM_TIME AS OF '2024-01-01'", "A query may not have 'FOR SYSTEM_TIME' in 'TABLE'."),
        ("WITH RECURSIVE x AS (SELECT 1) SELECT * FROM x", "A query may not have 'RECURSIVE' in 'WITH'."),
        ("SELECT 'a", "The query cannot be parsed: a quote or a comment has no end, or an escape is wrong."),
        ("SELECT (1", "The query cannot be parsed: a bracket is missing, or there is one too many."),
        ("SELECT 1 +", "The query cannot be parsed: Required keyword: 'expression' missing for (line 1, column 10)."),
        ("SELECT GENERATE_ARRAY(1, order_id) FROM orders", "needs literal whole numbers"),
        ("SELECT 1 \u200b", "The query has the invisible character U+200B: leave it out."),
        ("SELECT größe FROM orders", "'größe' has letters that are not ASCII: put a name like that in backticks."),
        ("SELECT * FROM `/etc/passwd`", "'/etc/passwd' cannot be a name: use letters, digits and '_'."),
    ],
)
def test_the_message_names_what_is_not_allowed(sql: str, said: str):
    assert said in denied(sql)


def test_text_of_the_query_is_quoted_in_limited_length():
    message = denied(f"SELECT * FROM `{'x' * 5000}`")
    assert len(message) < 300
    assert "\x1b" not in denied("SELECT (1 2 3")


def test_a_denial_is_an_error_of_a_tool():
    assert issubclass(QueryDenied, ToolError)


# Sizes


def test_a_query_at_a_limit_is_accepted_and_one_above_is_denied():
    assert read("SELECT 1" + " " * (MAX_LENGTH - 8))
    assert "characters" in denied("SELECT 1" + " " * (MAX_LENGTH - 7))
    assert read("SELECT " + "(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH)
    assert "nested" in denied("SELECT " + "(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1))
    assert read(f"SELECT GENERATE_ARRAY(1, {MAX_TIMES})")
    assert "too much" in denied(f"SELECT GENERATE_ARRAY(0, {MAX_TIMES})")
    assert read(f"SELECT GENERATE_ARRAY(-{MAX_TIMES}, {MAX_TIMES}, 3)")
    assert read(f"SELECT REPEAT('x', {MAX_TIMES - 1})")
    assert "too much" in denied(f"SELECT REPEAT('x', {MAX_TIMES})")


@pytest.mark.parametrize("word", ["STRUCT", "DATE", "ARRAY", "IF", "RECORD", "OBJECT", "UNION", "STRING", "ABS", "SELECT"])
@pytest.mark.parametrize("shape", ["{}(", "{}[", "{}<", "({} ", "[{} ", "{}(SELECT "])
@pytest.mark.parametrize("depth", [MAX_DEPTH // 2, MAX_DEPTH - 1])
def test_no_nesting_takes_long_to_parse(word: str, shape: str, depth: int):
    opening = shape.format(word)
    closing = {"(": ")", "[": "]", "<": ">"}[next(sign for sign in "([<" if sign in opening)]
    for sql in (f"SELECT {opening * depth}1{closing * depth} FROM nowhere", f"SELECT {opening * depth}"):
        begun = time.process_time()
        denied(sql)
        assert time.process_time() - begun < 10


# Never anything else

WORDS = """
SELECT FROM WHERE ( ) [ ] , . ; * + - / 'a' "b" `c` 1 2.5 orders x AS WITH UNION ALL DISTINCT JOIN ON USING GROUP BY ORDER LIMIT CASE WHEN
THEN ELSE END CAST INTERVAL DAY DATE UNNEST STRUCT ARRAY OVER PARTITION ROWS BETWEEN AND OR NOT NULL IN EXISTS EXTRACT COUNT @x ? :: -> =>
|> := { } < > = != << || ~ # -- /* */ \\ r'x' b'y' 0x1F $1 @@y DROP INSERT SET CALL read_csv ML.PREDICT `a.b`
"""


@given(st.lists(st.sampled_from(WORDS.split()), max_size=25).map(" ".join))
@settings(max_examples=300)
def test_any_order_of_words_is_accepted_or_denied(sql: str):
    try:
        tree = read(f"SELECT {sql}")
    except QueryDenied:
        return
    for table in tree.find_all(exp.Table):
        assert table.db == "shop" or table.name in {named.alias for named in tree.find_all(exp.CTE)}
    with suppress(QueryDenied):  # `~ ~ 'a'` is written without the space, and is something else then
        rewritten(tree, tables=SHOP)


@given(st.text(max_size=200))
@settings(max_examples=200)
def test_any_text_is_accepted_or_denied(sql: str):
    for text in (sql, f"SELECT {sql}", f"SELECT '{sql}'", f"SELECT `{sql}` FROM orders", f"SELECT * FROM `{sql}`"):
        try:
            read(text)
        except QueryDenied as error:
            assert str(error).isprintable()  # noqa: PT017 - it may also be taken


def test_the_parser_does_not_log_queries(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG), ThreadPoolExecutor(4) as threads:
        list(threads.map(denied, ["SELECT ARRAY(SHOW TABLES)"] * 50))
        assert not caplog.records
        sqlglot.parse("SHOW TABLES", read="bigquery")
    assert len(caplog.records) == 1


# The lists


def test_every_name_on_the_lists_is_a_class_of_sqlglot():
    named = {*allowlist.CLAUSES, *allowlist.EXPRESSIONS, *allowlist.FUNCTIONS, *allowlist.BOUNDED}
    assert not {name for name in named if not hasattr(exp, name)}
    for name, parts in allowlist.CLAUSES.items():
        assert parts <= {*getattr(exp, name).arg_types}, name


def test_functions_that_are_copied_unchanged_do_not_exist_in_duckdb():
    known = {name.lower() for (name,) in DUCKDB.execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    assert not {name.lower() for name in allowlist.CALLED} & known


def test_a_column_that_duckdb_calls_as_a_function_returns_at_most_the_time():
    told: set[str] = set()
    for (name,) in DUCKDB.execute("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name ~ '^[a-z_]+$'").fetchall():
        try:
            DUCKDB.execute(to_duckdb(read(f"SELECT `{name}`")))
        except (QueryDenied, duckdb.Error):
            continue
        told.add(name)
    # "user" may well be a column; where it is none, it is always "duckdb".
    assert told <= {"user", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}


def test_no_allowed_function_reaches_outside_the_query():
    outside = re.compile(
        r"read|scan|file|glob|env|setting|pragma|secret|user|session|database|schema|catalog|query|predict|generate(?!series|datearray)|http|net|ml|ai[A-Z]"
    )
    assert not [name for name in allowlist.FUNCTIONS if outside.search(name.lower())]
