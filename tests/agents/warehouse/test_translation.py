"""A query in BigQuery's SQL means the same on DuckDB: what BigQuery's documentation says of each function is what comes out."""

# ruff: noqa: E501 - queries are data here

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import ToolInputInvalid
from interlock_agents.analyst.warehouse.warehouse import DuckWarehouse

CASES: tuple[tuple[str, Any], ...] = (
    ("EXTRACT(WEEK FROM DATE '2024-01-07')", 1),
    ("EXTRACT(WEEK FROM DATE '2024-01-01')", 0),
    ("EXTRACT(ISOWEEK FROM DATE '2024-12-30')", 1),
    ("EXTRACT(DAYOFWEEK FROM DATE '2024-01-07')", 1),
    ("EXTRACT(ISOYEAR FROM DATE '2024-12-30')", 2025),
    ("EXTRACT(WEEK(MONDAY) FROM DATE '2024-01-01')", 1),
    ("EXTRACT(DAYOFYEAR FROM DATE '2024-02-01')", 32),
    ("EXTRACT(QUARTER FROM DATE '2024-05-01')", 2),
    ("EXTRACT(DATE FROM DATETIME '2024-05-01 10:00:00')", "2024-05-01"),
    ("EXTRACT(TIME FROM DATETIME '2024-05-01 10:00:00')", "10:00:00"),
    ("DATE_TRUNC(DATE '2024-01-10', WEEK)", "2024-01-07"),
    ("DATE_TRUNC(DATE '2024-01-10', WEEK(MONDAY))", "2024-01-08"),
    ("DATE_TRUNC(DATE '2024-01-10', ISOWEEK)", "2024-01-08"),
    ("DATE_TRUNC(DATE '2024-12-30', ISOYEAR)", "2024-12-30"),
    ("DATE_TRUNC(DATE '2024-05-10', QUARTER)", "2024-04-01"),
    ("DATE_DIFF(DATE '2024-01-10', DATE '2024-01-06', WEEK)", 1),
    ("DATE_DIFF(DATE '2024-01-08', DATE '2024-01-07', WEEK(MONDAY))", 1),
    ("DATE_DIFF(DATE '2024-03-01', DATE '2024-01-31', MONTH)", 2),
    ("DATE_DIFF(DATE '2025-01-01', DATE '2024-12-31', YEAR)", 1),
    ("DATE_DIFF(DATE '2024-01-08', DATE '2024-01-07', ISOWEEK)", 1),
    ("DATETIME_DIFF(DATETIME '2024-01-02 00:00:00', DATETIME '2024-01-01 23:00:00', DAY)", 1),
    ("TIMESTAMP_DIFF(TIMESTAMP '2024-01-02 00:00:00+00', TIMESTAMP '2024-01-01 23:30:00+00', HOUR)", 0),
    ("TIMESTAMP_DIFF(TIMESTAMP '2024-01-02 00:00:00+00', TIMESTAMP '2024-01-01 00:00:00+00', MINUTE)", 1440),
    ("TIME_DIFF(TIME '10:00:00', TIME '09:30:00', MINUTE)", 30),
    ("DIV(-7,2)", -3),
    ("MOD(-7,2)", -1),
    ("7/2", 3.5),
    ("ROUND(2.5)", 3),
    ("ROUND(-2.5)", -3),
    ("ROUND(1234.567,-2)", 1200),
    ("TRUNC(-2.7)", -2),
    ("CAST(2.5 AS INT64)", 3),
    ("CAST(-2.5 AS INT64)", -3),
    ("CAST(3.5 AS INT64)", 4),
    ("SAFE_DIVIDE(1,0)", None),
    ("LOG(8,2)", 3),
    ("LOG(100,10)", 2),
    ("LN(1)", 0),
    ("LOG10(1000)", 3),
    ("POW(2,10)", 1024),
    ("GREATEST(1,NULL)", None),
    ("LEAST(3,1,2)", 1),
    ("SIGN(-3)", -1),
    ("2 ^ 3", 1),
    ("FORMAT('%d items', 5)", "5 items"),
    ("FORMAT('%05.2f', 3.14159)", "03.14"),
    ("FORMAT('%s-%s','a','b')", "a-b"),
    ('FORMAT("%\'d", 1234567)', "1,234,567"),
    ("FORMAT_DATE('%Y-%m', DATE '2024-05-01')", "2024-05"),
    ("FORMAT_DATE('%b %d, %Y', DATE '2024-05-01')", "May 01, 2024"),
    ("FORMAT_DATE('%A', DATE '2024-05-01')", "Wednesday"),
    ("FORMAT_DATE('%Q', DATE '2024-05-01')", "2"),
    ("FORMAT_DATE('%G-W%V', DATE '2024-12-30')", "2025-W01"),
    ("FORMAT_DATE('%F', DATE '2024-05-01')", "2024-05-01"),
    ("FORMAT_DATETIME('%H:%M', DATETIME '2024-05-01 10:20:00')", "10:20"),
    ("FORMAT_TIMESTAMP('%F %T', TIMESTAMP '2024-05-01 10:20:00+00')", "2024-05-01 10:20:00"),
    ("FORMAT_DATE('%u', DATE '2024-05-05')", "7"),
    ("FORMAT_DATE('%j', DATE '2024-02-01')", "032"),
    ("PARSE_DATE('%Y%m%d','20240501')", "2024-05-01"),
    ("PARSE_DATE('%d/%m/%Y','01/05/2024')", "2024-05-01"),
    ("PARSE_TIMESTAMP('%Y-%m-%d %H:%M:%S','2024-05-01 10:00:00')", "2024-05-01T10:00:00+00:00"),
    ("PARSE_DATETIME('%Y-%m-%d','2024-05-01')", "2024-05-01T00:00:00"),
    ("DATE_ADD(DATE '2024-01-31', INTERVAL 1 MONTH)", "2024-02-29"),
    ("DATE_SUB(DATE '2024-03-31', INTERVAL 1 MONTH)", "2024-02-29"),
    ("LAST_DAY(DATE '2024-02-10')", "2024-02-29"),
    ("LAST_DAY(DATE '2024-02-10', YEAR)", "2024-12-31"),
    ("DATE(2024,5,1)", "2024-05-01"),
    ("DATE(DATETIME '2024-05-01 10:00:00')", "2024-05-01"),
    ("DATE '2024-01-01' + INTERVAL 1 DAY", "2024-01-02T00:00:00"),
    ("UNIX_SECONDS(TIMESTAMP '1970-01-02 00:00:00+00')", 86400),
    ("UNIX_DATE(DATE '1970-01-05')", 4),
    ("DATE_FROM_UNIX_DATE(4)", "1970-01-05"),
    ("TIMESTAMP_SECONDS(86400)", "1970-01-02T00:00:00+00:00"),
    ("TIMESTAMP_MILLIS(86400000)", "1970-01-02T00:00:00+00:00"),
    ("DATETIME_TRUNC(DATETIME '2024-05-01 10:20:30', HOUR)", "2024-05-01T10:00:00"),
    ("TIMESTAMP_TRUNC(TIMESTAMP '2024-05-01 10:20:30+00', DAY)", "2024-05-01T00:00:00+00:00"),
    ("TIMESTAMP_ADD(TIMESTAMP '2024-05-01 10:20:30+00', INTERVAL 90 MINUTE)", "2024-05-01T11:50:30+00:00"),
    ("DATETIME_ADD(DATETIME '2024-05-01 10:20:30', INTERVAL 1 DAY)", "2024-05-02T10:20:30"),
    ("DATETIME(2024,5,1,10,0,0)", "2024-05-01T10:00:00"),
    ("DATETIME(TIMESTAMP '2024-05-01 10:00:00+00')", "2024-05-01T10:00:00"),
    ("DATETIME(TIMESTAMP '2024-05-01 10:00:00+00','Europe/Berlin')", "2024-05-01T12:00:00"),
    ("TIMESTAMP('2024-05-01 10:00:00')", "2024-05-01T10:00:00+00:00"),
    ("TIMESTAMP(DATE '2024-05-01')", "2024-05-01T00:00:00+00:00"),
    ("TIME(10,20,30)", "10:20:30"),
    ("SUBSTR('hello',2,3)", "ell"),
    ("SUBSTR('hello',-3)", "llo"),
    ("STRPOS('hello','l')", 3),
    ("INSTR('hello','l')", 3),
    ("LEFT('hello',2)", "he"),
    ("RIGHT('hello',2)", "lo"),
    ("INITCAP('hello world')", "Hello World"),
    ("LPAD('a',3,'x')", "xxa"),
    ("LPAD('a',3)", "  a"),
    ("RPAD('a',3,'x')", "axx"),
    ("REPEAT('ab',2)", "abab"),
    ("REVERSE('abc')", "cba"),
    ("REPLACE('aXa','X','b')", "aba"),
    ("TRIM('  a ')", "a"),
    ("TRIM('xax','x')", "a"),
    ("LTRIM('xax','x')", "ax"),
    ("RTRIM('xax','x')", "xa"),
    ("CONCAT('a','b','c')", "abc"),
    ("CONCAT('a',NULL)", None),
    ("LENGTH('héllo')", 5),
    ("BYTE_LENGTH('hé')", 3),
    ("CHAR_LENGTH('hé')", 2),
    ("UPPER('abc')", "ABC"),
    ("STARTS_WITH('abc','ab')", True),
    ("ENDS_WITH('abc','bc')", True),
    ("CONTAINS_SUBSTR('Hello','ell')", True),
    ("REGEXP_CONTAINS('abc123', r'\\d+')", True),
    ("REGEXP_EXTRACT('abc123', r'\\d+')", "123"),
    ("REGEXP_EXTRACT('abc123', r'([a-z]+)\\d+')", "abc"),
    ("REGEXP_EXTRACT('abc', r'\\d+')", None),
    ("REGEXP_REPLACE('a1b2', r'\\d', '#')", "a#b#"),
    ("REGEXP_EXTRACT_ALL('a1b2', r'\\d')", ["1", "2"]),
    ("SPLIT('a,b,c')[OFFSET(1)]", "b"),
    ("SPLIT('a-b','-')[SAFE_OFFSET(5)]", None),
    ("SPLIT('a-b','-')[ORDINAL(1)]", "a"),
    ("ASCII('A')", 65),
    ("CHR(65)", "A"),
    ("TO_HEX(MD5('a'))", "0cc175b9c0f1b6a831c399e269772661"),
    ("TO_HEX(SHA256('a'))", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
    ("TO_BASE64(b'abc')", "YWJj"),
    ("TRANSLATE('abc','ab','xy')", "xyc"),
    ("EDIT_DISTANCE('kitten','sitting')", 3),
    ("NORMALIZE('a')", "a"),
    ("UNICODE('A')", 65),
    ("SAFE.SUBSTR('abc',1,2)", "ab"),
    ("'a' LIKE 'A'", False),
    ("CAST(TRUE AS STRING)", "true"),
    ("CAST('12' AS INT64)", 12),
    ("SAFE_CAST('x' AS INT64)", None),
    ("CAST(DATE '2024-01-01' AS STRING)", "2024-01-01"),
    ("CAST('2024-01-01' AS DATE)", "2024-01-01"),
    ("CAST(1.256 AS NUMERIC)", 1.256),
    ('JSON_VALUE(\'{"a":{"b":"x"}}\',\'$.a.b\')', "x"),
    ("JSON_QUERY('{\"a\":[1,2]}','$.a')", "[1,2]"),
    ("JSON_EXTRACT_SCALAR('{\"a\":1}','$.a')", "1"),
    ("TO_JSON_STRING(STRUCT(1 AS a, 'x' AS b))", '{"a":1,"b":"x"}'),
    ("JSON_VALUE(PARSE_JSON('{\"a\":1}'),'$.a')", "1"),
    ("JSON_EXTRACT_ARRAY('{\"a\":[1,2]}','$.a')[OFFSET(0)]", "1"),
    ("ARRAY_LENGTH([1,2,3])", 3),
    ("ARRAY_TO_STRING(['a','b'],'-')", "a-b"),
    ("ARRAY_CONCAT([1],[2])", [1, 2]),
    ("ARRAY_REVERSE([1,2])", [2, 1]),
    ("GENERATE_ARRAY(1,5,2)", [1, 3, 5]),
    ("ARRAY_LENGTH(GENERATE_DATE_ARRAY('2024-01-01','2024-01-31'))", 31),
    ("[1,2,3][OFFSET(0)]", 1),
    ("ARRAY(SELECT x*2 FROM UNNEST([1,2]) AS x ORDER BY x)", [2, 4]),
    ("(SELECT SUM(x) FROM UNNEST([1,2,3]) AS x)", 6),
    ("(SELECT MAX(o) FROM UNNEST(['a','b']) AS x WITH OFFSET AS o)", 1),
    ("2 IN UNNEST([1,2])", True),
    ("STRUCT(1 AS a).a", 1),
    ("ARRAY_AGG(1)", [1]),
    ("IF(TRUE,1,2)", 1),
    ("IFNULL(NULL,3)", 3),
    ("COALESCE(NULL,NULL,4)", 4),
    ("NULLIF(1,1)", None),
    ("CASE WHEN 1=1 THEN 'a' ELSE 'b' END", "a"),
    ("NULL IS NULL", True),
    ("1 IS DISTINCT FROM NULL", True),
    ("BIT_COUNT(7)", 3),
    ("1 << 3", 8),
    ("IS_NAN(CAST('nan' AS FLOAT64))", True),
    ("COT(1)>0", True),
    ("SAFE_ADD(1,2)", 3),
    ("SAFE_NEGATE(1)", -1),
    ("COUNTIF(TRUE)", 1),
    ("LOGICAL_OR(FALSE)", False),
    ("STRING_AGG('a', '-')", "a"),
    ("APPROX_COUNT_DISTINCT(1)", 1),
    ("APPROX_QUANTILES(5, 2)[OFFSET(1)]", 5),
    ("ANY_VALUE(1)", 1),
    ("MAX_BY('x', 1)", "x"),
    ("STDDEV(1)", None),
    ("VAR_POP(1)", 0),
    ("CORR(1,1)", None),
    ("INT64(PARSE_JSON('5'))", 5),
    ("CAST('2024-01-01 10:00:00' AS TIMESTAMP)", "2024-01-01T10:00:00+00:00"),
    ("CURRENT_DATE() >= DATE '2024-01-01'", True),
    ("CURRENT_TIMESTAMP() > TIMESTAMP '2024-01-01'", True),
    ("b'abc'", "YWJj"),
    ("0x1F", 31),
    ("FROM_HEX('6162')", "YWI="),
    ("DATE_DIFF(DATETIME '2024-01-02 00:00:00', DATETIME '2024-01-01 23:00:00', DAY)", 1),
    ("PERCENTILE_CONT(5, 0.5) OVER ()", 5),
    ('"a\'b\\\\c\\n"', "a'b\\c\n"),
    ("r'a\\b'", "a\\b"),
    ("EXTRACT(YEAR FROM TIMESTAMP '2024-05-01 10:00:00+00')", 2024),
    ("EXTRACT(HOUR FROM TIMESTAMP '2024-05-01 10:00:00+00' AT TIME ZONE 'Europe/Berlin')", 12),
    ("ARRAY_FIRST([1,2])", 1),
    ("ARRAY_LAST([1,2])", 2),
    ("ARRAY_SLICE([1,2,3],0,1)", [1, 2]),
    ("FORMAT('%t', DATE '2024-01-01')", "2024-01-01"),
    ("FORMAT('%.1f%%', 12.34)", "12.3%"),
    ("TIMESTAMP '2024-05-01 10:00:00+02'", "2024-05-01T08:00:00+00:00"),
    ("DATETIME_DIFF(CURRENT_DATETIME('Asia/Tokyo'), CURRENT_DATETIME(), HOUR)", 9),
    ("ARRAY_SLICE([1, 2, 3, 4], -3, -2)", [2, 3]),
    ("DATE_TRUNC(DATE_ADD(DATE '2024-01-31', INTERVAL 1 MONTH), MONTH)", "2024-02-01"),
    ("SAFE_MULTIPLY(9223372036854775807, 2)", None),
    ("1 / 3 * 3", 1.0),
)

UNKNOWN = ("SOUNDEX('Robert')", "TO_CODE_POINTS('AB')", "STRING(DATE '2024-01-01')", "FARM_FINGERPRINT('a')", "INSTR('hello', 'l', 1, 2)",
           "APPROX_TOP_COUNT(1, 2)", "ARRAY_AGG(1 IGNORE NULLS ORDER BY 1 LIMIT 2)", "EXTRACT(WEEK(TUESDAY) FROM DATE '2024-01-01')")  # fmt: skip


@pytest.fixture(scope="module")
def warehouse(demo: Path) -> Iterator[DuckWarehouse]:
    opened = DuckWarehouse(demo)
    yield opened
    opened.close()


def value(warehouse: DuckWarehouse, expression: str) -> Any:
    answer: Any = warehouse.query(f"SELECT {expression}")
    return answer["rows"][0][0]


@pytest.mark.parametrize(("expression", "expected"), CASES, ids=[case[0] for case in CASES])
def test_an_expression_has_the_value_that_bigquery_gives_it(warehouse: DuckWarehouse, expression: str, expected: Any):
    assert value(warehouse, expression) == (pytest.approx(expected) if isinstance(expected, float) else expected)


@pytest.mark.parametrize("expression", UNKNOWN)
def test_a_function_that_duckdb_lacks_is_an_error(warehouse: DuckWarehouse, expression: str):
    with pytest.raises(ToolInputInvalid, match=r"^The query cannot be run: .*\w"):
        value(warehouse, expression)


def test_offsets_of_an_array_begin_at_zero_in_a_join(warehouse: DuckWarehouse):
    sql = "SELECT word, place FROM products, UNNEST(SPLIT(name, ' ')) AS word WITH OFFSET AS place WHERE product_id = 1 ORDER BY place"
    answer: Any = warehouse.query(sql)
    assert answer["rows"] == [["Oak", 0], ["writing", 1], ["desk", 2], ["120", 3], ["cm", 4]]
    answer = warehouse.query("SELECT x, offset FROM UNNEST(['a', 'b']) AS x WITH OFFSET ORDER BY offset DESC")
    assert answer["rows"] == [["b", 1], ["a", 0]]


def test_nulls_are_sorted_first_like_in_bigquery(warehouse: DuckWarehouse):
    answer: Any = warehouse.query("SELECT x FROM UNNEST([2, NULL, 1]) AS x ORDER BY x")
    assert answer["rows"] == [[None], [1], [2]]
    answer = warehouse.query("SELECT x FROM UNNEST([2, NULL, 1]) AS x ORDER BY x DESC")
    assert answer["rows"] == [[2], [1], [None]]
