"""Texts that a graph must refuse, in families: each would change the graph, leave it, or drown it, or hides something that would."""

# ruff: noqa: RUF001 - statements are data here, and letters that look like others are what they are about

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Targets", "harmful", "hostile"]


@dataclass(frozen=True)
class Targets:
    """What a text would reach for: a file with a secret in it, and a folder to write to."""

    file: str = "/canary/secret.csv"
    folder: str = "/canary"


_HARMFUL = """
CREATE (:Person {name: 'Eve'})
MERGE (:Person {name: 'Eve'})
MATCH (n:Person) SET n.age = 0
MATCH (n:Person) SET n.age = 0 RETURN n
MATCH (n) DETACH DELETE n
MATCH (n:Person {name: 'Cy'}) DETACH DELETE n RETURN 1
MATCH ()-[r:Knows]->() DELETE r
MATCH ()-[r:Knows]->() SET r.since = 0
MATCH (a:Person), (b:Project) CREATE (a)-[:WorksOn {role: 'x'}]->(b)
MATCH (a:Person {name: 'Ada'}), (b:Person {name: 'Cy'}) MERGE (a)-[:Knows]->(b)
MERGE (n:Person {name: 'Ada'}) ON MATCH SET n.age = 0
UNWIND ['Eve', 'Mallory'] AS x CREATE (:Person {name: x})
MATCH (n:Person {name: 'Ada'}) WITH n SET n.age = 1
CREATE NODE TABLE Mine(id INT64 PRIMARY KEY)
CREATE REL TABLE Mine(FROM Person TO Person)
CREATE SEQUENCE mine
CREATE MACRO mine(x) AS x + 1
DROP TABLE Knows
ALTER TABLE Person ADD extra STRING
ALTER TABLE Person DROP age
ALTER TABLE Person RENAME TO Mine
COMMENT ON TABLE Person IS 'mine'
LOAD FROM '{file}' (file_format='csv', header=true) RETURN *
LOAD FROM '{file}' (file_format='csv', header=true) WITH * CREATE (:Person {name: word})
COPY (MATCH (n:Person) RETURN n.name) TO '{folder}/out.csv'
COPY (MATCH (n:Person) RETURN n.name) TO '{folder}/out.parquet'
EXPORT DATABASE '{folder}/out'
CALL show_tables() RETURN *
CALL current_setting('threads') RETURN *
CALL threads = 1
CALL show_functions() RETURN *
CHECKPOINT
BEGIN TRANSACTION
EXPLAIN MATCH (n) RETURN n
PROFILE MATCH (n) RETURN n
"""

_OTHERS = """
COPY Person FROM '{file}'
IMPORT DATABASE '{folder}/out'
ATTACH '{folder}/x.db' AS mine (dbtype 'sqlite')
DETACH mine
USE mine
USE mine MATCH (n) RETURN n
INSTALL httpfs
INSTALL json
LOAD EXTENSION httpfs
LOAD httpfs
UNINSTALL json
UPDATE json
LOAD CSV FROM 'file://{file}' AS row RETURN row
LOAD CSV WITH HEADERS FROM 'http://127.0.0.1:1/x' AS row RETURN row
LOAD CSV FROM 'file://{file}' AS row CREATE (:Person {name: row[0]})
MATCH (n) LOAD CSV FROM 'file://{file}' AS row RETURN row
LOAD NODE FROM '{file}' RETURN *
SCAN '{file}' RETURN *
COMMIT
ROLLBACK
BEGIN
BEGIN TRANSACTION READ ONLY
CALL db.labels()
CALL db.labels() YIELD label RETURN label
CALL dbms.listConfig()
CALL dbms.components() YIELD name RETURN name
CALL apoc.load.json('file://{file}') YIELD value RETURN value
CALL apoc.cypher.doIt('CREATE (n)', {}) YIELD value RETURN value
CALL apoc.export.csv.all('{folder}/x.csv', {})
CALL gds.graph.project('g', '*', '*')
CALL { MATCH (n) RETURN n } RETURN n
CALL { CREATE (n:Person) RETURN n } RETURN n
CALL () { CREATE (n:Person) RETURN n } RETURN n
CALL { MATCH (n) DETACH DELETE n } IN TRANSACTIONS OF 10 ROWS
MATCH (n) CALL { WITH n SET n.age = 0 } RETURN n
MATCH (n) CALL (n) { SET n.age = 0 } RETURN n
OPTIONAL CALL db.labels() YIELD label RETURN label
MATCH (n) CALL db.labels() YIELD label RETURN label
MATCH (n) FOREACH (x IN [1] | SET n.age = 0)
MATCH p = (a)-->(b) FOREACH (n IN nodes(p) | DELETE n)
MATCH (n) REMOVE n.age
MATCH (n) REMOVE n:Person RETURN n
MATCH (n) DELETE n
MATCH (n) NODETACH DELETE n
MATCH (n) SET n += {age: 0}
MATCH (n) SET n = {}
MATCH (n) SET n:Admin
INSERT (:Person {name: 'Eve'})
MATCH (n) INSERT (n)-[:KNOWS]->(:Person)
CREATE INDEX mine FOR (n:Person) ON (n.age)
CREATE CONSTRAINT mine FOR (n:Person) REQUIRE n.age IS UNIQUE
CREATE DATABASE mine
CREATE USER mine SET PASSWORD 'secret'
CREATE OR REPLACE DATABASE mine
DROP INDEX mine
DROP DATABASE neo4j
ALTER USER neo4j SET PASSWORD 'x'
ALTER DATABASE neo4j SET ACCESS READ WRITE
GRANT ROLE admin TO mine
DENY READ {*} ON GRAPH * TO mine
REVOKE ROLE admin FROM mine
RENAME USER neo4j TO mine
SHOW USERS
SHOW FUNCTIONS
SHOW TRANSACTIONS
SHOW DATABASES YIELD *
TERMINATE TRANSACTIONS 'x'
START n = node(*) RETURN n
CYPHER 5 MATCH (n) RETURN n
CYPHER runtime=parallel MATCH (n) RETURN n
:use system
:begin
MATCH (n) FINISH
MATCH (n)
MATCH (n) WHERE true
UNWIND [1] AS x
WITH 1 AS x
RETURN
MATCH (n) RETURN n RETURN n
MATCH (n) USING INDEX n:Person(age) WHERE n.age = 1 RETURN n
FILTER true RETURN 1
LET x = 1 RETURN x
FOR x IN [1] RETURN x
SELECT * FROM Person
SELECT 1
UPDATE Person SET age = 0
DELETE FROM Person
ANALYZE
VACUUM
PRAGMA table_info
PROJECT GRAPH mine(Person, Knows)
EXECUTE mine
PREPARE mine AS RETURN 1
IF true THEN RETURN 1
WHEN true THEN RETURN 1
MATCH (n:$($label)) RETURN n
MATCH (n:$label) RETURN n
MATCH (n) WHERE n:$($label) RETURN n
MATCH (n) RETURN n AS delete
MATCH (create) RETURN 1
"""

_FUNCTIONS = """
apoc.load.json('{file}')
apoc.cypher.runFirstColumnSingle('CREATE (n)', {})
apoc.util.sleep(10000)
apoc.text.join(['a'], ',')
apoc.do.when(true, 'CREATE (n)', '')
gds.util.asNode(1)
gds.graph.exists('x')
db.nameFromElementId('x')
dbms.version()
graph.byName('x')
graph.names()
custom.mine()
date.mine()
n.mine()
n.name.mine(1)
load('{file}')
load_csv('{file}')
read_csv('{file}')
read_parquet('{file}')
read_csv_serial('{file}')
read_pandas('x')
read_npy('{file}')
file()
linenumber()
nextval('mine')
currval('mine')
setseed(0.5)
error('x')
show_tables()
table_info('Person')
storage_info('Person')
current_setting('threads')
json_extract('x', 'y')
to_json(n)
query_fts_index('a', 'b', 'c')
query_vector_index('a', 'b', [1], 1)
project_graph('x', ['Person'], ['Knows'])
create_fts_index('Person', 'x', ['name'])
drop_projected_graph('x')
sql_query('x', 'y')
list_reduce([1, 2], (x, y) -> x + y)
sleep(1000)
system('id')
exec('id')
eval('x')
mine()
range(1, 1000000000)
range(1, n.age)
range(1, $many)
range(0, 100000 * 100000)
repeat('x', 1000000000)
lpad('x', 1000000000, 'y')
rpad('x', n.age, 'y')
"""

_SPOTS = (
    "MATCH (n) RETURN {}",
    "MATCH (n) WHERE {} IS NOT NULL RETURN n",
    "MATCH (n) RETURN CASE WHEN true THEN {} END",
    "MATCH (n) RETURN [1, {}][1]",
    "MATCH (n) RETURN {{a: {}}} AS m",
    "MATCH (n) WITH n, {} AS x RETURN x",
    "MATCH (n {{name: {}}}) RETURN n",
    "MATCH (n) UNWIND {} AS x RETURN x",
    "MATCH (n) RETURN n ORDER BY {}",
    "MATCH (n) WHERE EXISTS {{ MATCH (n)-->(m) WHERE m.x = {} }} RETURN n",
    "MATCH (n) RETURN any(x IN [1] WHERE x = {})",
    "MATCH (n) RETURN count(DISTINCT {})",
    "MATCH (n) RETURN 1 UNION MATCH (n) RETURN {}",
)

_CLAUSES = (
    "CREATE (:Person {name: 'Eve'})",
    "MERGE (:Person {name: 'Eve'})",
    "SET n.age = 0",
    "DELETE n",
    "DETACH DELETE n",
    "REMOVE n.age",
    "DROP TABLE Knows",
    "CALL show_tables() RETURN *",
    "LOAD FROM '{file}' RETURN *",
    "LOAD CSV FROM '{file}' AS row RETURN row",
    "COPY (MATCH (m) RETURN m.name) TO '{folder}/out.csv'",
    "FOREACH (x IN [1] | SET n.age = 0)",
)

_AROUND = (
    "MATCH (n) {}",
    "MATCH (n) RETURN n {}",
    "MATCH (n) RETURN n; {}",
    "MATCH (n) RETURN n;\n{}",
    "MATCH (n) RETURN n;;{}",
    "{}; MATCH (n) RETURN n",
    "MATCH (n) WITH n {} RETURN n",
    "MATCH (n) WITH n LIMIT 1 {}",
    "MATCH (n) RETURN n LIMIT 1 {}",
    "MATCH (n) RETURN n UNION {}",
    "MATCH (n) RETURN n UNION ALL {} RETURN n",
    "{} RETURN 1",
    "{} UNION RETURN 1",
    "MATCH (n) WHERE EXISTS {{ {} }} RETURN n",
    "MATCH (n) WHERE EXISTS {{ MATCH (n) {} }} RETURN n",
    "MATCH (n) WHERE EXISTS {{ MATCH (n) {} RETURN n }} RETURN n",
    "MATCH (n) RETURN COUNT {{ {} RETURN n }} AS c",
    "MATCH (n) RETURN COLLECT {{ MATCH (n) {} RETURN n }} AS c",
    "MATCH (n) CALL {{ WITH n {} }} RETURN n",
    "MATCH (n) RETURN [x IN [1] | {}]",
    "MATCH (n) RETURN ({})",
    "MATCH (n) WHERE {} RETURN n",
    "MATCH (n) RETURN CASE WHEN true THEN {} END",
    "MATCH (n {{name: {}}}) RETURN n",
    "UNWIND [1] AS n {}",
    "OPTIONAL MATCH (n) {}",
    "MATCH (n) WHERE true {}",
    "MATCH (n) WHERE n.age = 1. {}",
    "MATCH (n) RETURN 1e {}",
    "MATCH (n) RETURN n. {}",
    "MATCH (n) RETURN $ {}",
    "MATCH (n) RETURN n AS {}",
    "EXPLAIN MATCH (n) {}",
    "PROFILE MATCH (n) {}",
    "CYPHER 5 MATCH (n) {}",
)

_COMMENTED = (
    "MATCH (n) /**/ {}",
    "MATCH (n) /* */ RETURN n // {}",
    "MATCH (n) RETURN n // {}",
    "MATCH (n) RETURN n /* {} */",
    "// MATCH (n) RETURN n\n{}",
    "/* MATCH (n) RETURN n */ {}",
    "MATCH (n) RETURN n --\n{}",
    "-- x\n{}",
    "MATCH (n) RETURN n -- {}",
    "MATCH (n) RETURN 1 /*' */ {} //'",
    "MATCH (n) RETURN 1 //'\n{} //'",
    "MATCH (n) WHERE n.name = 'a' //'\n{}",
    "MATCH (n) RETURN '/*' /* ' */ {}",
    'MATCH (n) RETURN "//" //"\n{}',
    "MATCH (n) RETURN n #{}",
    "MATCH (n) RETURN n # \n{}",
)

_QUOTED = (
    r"MATCH (n) WHERE n.name = '\' {} //",
    r"MATCH (n) WHERE n.name = '\\' {} //' RETURN n",
    r"MATCH (n) WHERE n.name = 'a\\\' {} //",
    r"MATCH (n) WHERE n.name = 'a\\\\' {} RETURN '' + '",
    "MATCH (n) WHERE n.name = 'a''' {} //' RETURN n",
    "MATCH (n) WHERE n.name = 'a'' {} //' RETURN n",
    "MATCH (n) WHERE n.name = '' {} //' RETURN n",
    "MATCH (n) WHERE n.name = '''{}''' RETURN n",
    'MATCH (n) WHERE n.name = """{}""" RETURN n',
    "MATCH (n) WHERE n.name = 'a\" {} //\"' RETURN n' RETURN 1",
    "MATCH (n) WHERE n.name = \"a' {} //'\" {}",
    r"MATCH (n) WHERE n.name = 'a\u0027 {} //' RETURN n",
    r"MATCH (n) WHERE n.name = 'a\U0027 {} //' RETURN n",
    r"MATCH (n) WHERE n.name = 'a\\u0027 {} //' RETURN n",
    r"MATCH (n) WHERE n.name = 'a\x27 {} //' RETURN n",
    r"MATCH (n) WHERE n.name = 'a\047 {} //' RETURN n",
    r"MATCH (n) WHERE n.name = 'a\q' {} //' RETURN n",
    r"MATCH (n) WHERE n.name = 'a\u005c' {} //' RETURN n",
    r"MATCH (n) WHERE n.name = 'a\u005c\u0027 {} //' RETURN n",
    r"MATCH (n) RETURN n \u003b {}",
    r"MATCH (n) RETURN n \u002f\u002f {}",
    "MATCH (n) WHERE n.name = ‘a’ {} RETURN n",
    "MATCH (n) WHERE n.name = 'a\x00' {} RETURN n",
    "MATCH (n) WHERE n.name = E'a\\' {} //' RETURN n",
    "MATCH (n) WHERE n.name = r'a\\' {} //' RETURN n",
    "MATCH (n) WHERE n.name = $$a$$ {} RETURN n",
    "MATCH (n) WHERE n.name = 'a {}",
    'MATCH (n) WHERE n.name = "a {}',
    "MATCH (n) WHERE n.name = 'a'{}'b' RETURN n",
)

_BACKTICKS = (
    "MATCH (n:`Person`) {} //`) RETURN n",
    "MATCH (n:`Person``) {} //`) RETURN n",
    "MATCH (n:`Per``son`) RETURN n",
    "MATCH (n:`Person`` `) {} RETURN n",
    r"MATCH (n:`Person\u0060) {} //`) RETURN n",
    r"MATCH (n:`Person\`) {} //`) RETURN n",
    "MATCH (n:`) {} //`) RETURN n",
    "MATCH (n:`Person`:`) {} (:`) RETURN n",
    "MATCH (n) RETURN n.`name` {} //`",
    "MATCH (n) RETURN n.`name; {}`",
    "MATCH (n) RETURN n.`age = 0 {}`",
    "MATCH (n) RETURN n AS `x` {}",
    "MATCH (n) RETURN `n {}",
    "MATCH (n:`{};`) RETURN n",
    "MATCH (n {{`name: 1}}) {} //`: 1}}) RETURN n",
    "MATCH (n)-[:`Knows]->() {} //`]->() RETURN n",
    "MATCH (n) RETURN $`x` {}",
    "MATCH (n) RETURN n.`` {}",
)

_ODD = (
    "\x00\x01\x07\x08\x0b\x0c\x1b\x1c\x1d\x1e\x1f\x7f\x85\xa0\xad\u1680\u180e\u2000\u2003\u2009\u200b\u200c\u200d\u200e\u2028\u2029"
    "\u202e\u202f\u205f\u2060\u3000\ufeff\ufffe\U000e0020"
)

_LETTERS = {
    "A": "АＡ𝐀Α",
    "C": "СＣⅭ",
    "D": "ＤⅮ𝐃",
    "E": "ЕＥΕé",
    "K": "\u212aКＫ",
    "L": "ＬⅬʟ",
    "M": "МＭⅯ",
    "R": "Ｒℝʀ",
    "S": "ſＳЅ",
    "T": "ТＴ†",
    "I": "ıİІＩ",
}

_BOMBS = (
    "MATCH (a)-[*]->(b) RETURN a",
    "MATCH (a)-[*]-(b) RETURN a",
    "MATCH (a)-[r*]->(b) RETURN a",
    "MATCH (a)-[:Knows*]->(b) RETURN a",
    "MATCH (a)-[:Knows*1..]->(b) RETURN a",
    "MATCH (a)-[:Knows*..]->(b) RETURN a",
    "MATCH (a)-[:Knows*0..]->(b) RETURN a",
    "MATCH (a)-[:Knows*1..1000]->(b) RETURN a",
    "MATCH (a)-[:Knows*11]->(b) RETURN a",
    "MATCH (a)-[:Knows*1..99999999999999999999999]->(b) RETURN a",
    "MATCH (a)-[:Knows*5..2]->(b) RETURN a",
    "MATCH (a)-[:Knows*-1..2]->(b) RETURN a",
    "MATCH (a)-[:Knows*1..$n]->(b) RETURN a",
    "MATCH (a)-[:Knows*1.5..2]->(b) RETURN a",
    "MATCH (a)-[:Knows* SHORTEST 1..31]->(b) RETURN a",
    "MATCH (a)-[:Knows* SHORTEST]->(b) RETURN a",
    "MATCH (a)-[:Knows* ALL SHORTEST 1..]->(b) RETURN a",
    "MATCH (a)-[:Knows* WSHORTEST(since)]->(b) RETURN a",
    "MATCH p = shortestPath((a)-[*]->(b)) RETURN p",
    "MATCH p = shortestPath((a)-[*..31]->(b)) RETURN p",
    "MATCH p = allShortestPaths((a)-[*]-(b)) RETURN p",
    "MATCH (a)-[:Knows]->+(b) RETURN a",
    "MATCH (a)-[:Knows]->{1,1000}(b) RETURN a",
    "MATCH ((a)-[:Knows]->(b))+ RETURN a",
    "MATCH SHORTEST 1 (a)-[:Knows]->+(b) RETURN a",
    "MATCH (a)-[*1..3]->(b)-[*1..3]->(c)-[*1..3]->(d)-[*1..3]->(e)-[*1..3]->(f) RETURN a",
    "MATCH (a) WHERE (a)-[*]->() RETURN a",
    "MATCH (a) WHERE EXISTS { MATCH (a)-[*]->(b) } RETURN a",
    "MATCH (a) RETURN [(a)-[*]->(b) | b]",
    "MATCH " + ", ".join(f"(n{i})" for i in range(49)) + " RETURN 1",
    "MATCH (n) " * 17 + "RETURN 1",
    "WITH 1 AS x " * 61 + "RETURN x",
    "RETURN 1 AS x UNION ALL " * 61 + "RETURN 1 AS x",
    "RETURN " + "(" * 17 + "1" + ")" * 17,
    "RETURN " + "[" * 17 + "1" + "]" * 17,
    "RETURN " + "{a: " * 17 + "1" + "}" * 17,
    "RETURN " + "abs(" * 17 + "1" + ")" * 17,
    "RETURN " + "CASE WHEN true THEN " * 9 + "1" + " END" * 9,
    "RETURN " + "NOT " * 17 + "true",
    "RETURN " + "- " * 17 + "1",
    "RETURN " + "(" * 9_000 + "1" + ")" * 9_000,
    "RETURN " + "[" * 9_990,
    "RETURN " + "1 + " * 1_600 + "1",
    "RETURN '" + "a" * 20_000 + "'",
    "MATCH (n) RETURN n" + " " * 20_000,
    "MATCH (n) WHERE EXISTS { " * 17 + "RETURN 1" + " }" * 17,
    "MATCH (n:" + "(" * 20 + "A" + ")" * 20 + ") RETURN n",
    "MATCH (n:" + "a" * 65 + ") RETURN n",
    "",
    " \n\t",
    ";",
    "(",
    ")",
    "'",
    "`",
    "\\",
    "$",
    "\ud800",
    "RETURN '\ud800'",
    "RETURN 1.",
    "RETURN .5.x",
    "RETURN 1.x",
    "RETURN 1..2",
    "RETURN 0x",
    "RETURN 1_0",
    "RETURN (1",
    "RETURN 1)",
    "RETURN [1)",
    "RETURN {1}",
    "RETURN {a}",
    "RETURN a b",
    "RETURN 1 2",
    "RETURN 'a' 'b'",
    "RETURN 'a'AS x",
    "RETURN `a`AS x",
    "RETURN 1 AS`x`",
    "RETURN 'a' IN['a', 'b'] OR'a' = 'b'",
    "RETURN a.",
    "RETURN a.(b)",
    "RETURN `count`(1)",
    "RETURN `apoc`.`load`.`json`('x')",
    "RETURN apoc . load . json ('x')",
    "RETURN apoc.\nload.\njson\n('x')",
    "RETURN date.`truncate`('x')",
    "RETURN *, *",
    "RETURN count(*, 1)",
    "RETURN sum(*)",
    "MATCH n RETURN n",
    "MATCH (n RETURN n",
    "MATCH (n)) RETURN n",
    "MATCH (n)--->(m) RETURN n",
    "MATCH (n)-(m) RETURN n",
    "MATCH (n)->(m) RETURN n",
    "MATCH (n)–[]→(m) RETURN n",
    "MATCH (n:Person|) RETURN n",
    "MATCH (n:) RETURN n",
    "MATCH (n {}) RETURN n LIMIT n.age",
    "MATCH (n) RETURN n LIMIT -1",
    "MATCH (n) RETURN n SKIP (1)",
    "MATCH (match) RETURN 1",
    "RETURN 1 AS match",
    "UNWIND [1] AS return RETURN 1",
    "RETURN any(in IN [1] WHERE true)",
)


def _lines(text: str, targets: Targets) -> list[str]:
    return [line.replace("{file}", targets.file).replace("{folder}", targets.folder) for line in text.strip().splitlines()]


def harmful(targets: Targets) -> list[str]:
    """Return the statements that ladybug itself runs, each on the graph of `legal_cypher`, though none may be run."""
    return _lines(_HARMFUL, targets)


def hostile(targets: Targets) -> dict[str, list[str]]:
    """Return every text, by family."""
    statements = harmful(targets) + _lines(_OTHERS, targets)
    clauses = _lines("\n".join(_CLAUSES), targets)
    return {
        "statements": [form for text in statements for form in _cases(text)],
        "clauses": [around.format(clause) for around in _AROUND for clause in clauses],
        "comments": [
            *(around.format(*[clause] * 2) for around in _COMMENTED for clause in clauses[:8]),
            *(text.replace(" ", space) for text in statements[:12] for space in ("/**/", "/* */ ", " //\n", " --\n")),
            *(f"{text[:i]}/**/{text[i:]}" for text in ("CREATE (n)", "MATCH (n) RETURN n") for i in range(1, 6)),
        ],
        "quotes": [around.format(*[clause] * 2) for around in _QUOTED for clause in clauses[:8]],
        "backticks": [around.format(clause) for around in _BACKTICKS for clause in clauses[:8]],
        "escapes": list(_escaped(clauses)),
        "spaces": list(_spaced(clauses)),
        "letters": list(_disguised(clauses)),
        "functions": [spot.format(call) for call in _lines(_FUNCTIONS, targets) for spot in _SPOTS],
        "bombs": list(_BOMBS),
    }


def _cases(text: str) -> Iterator[str]:
    yield text
    yield text.lower()
    yield "".join(letter.upper() if place % 2 else letter.lower() for place, letter in enumerate(text))
    yield text.replace(" ", "\n\t")
    yield f"  {text} ;"


def _escaped(clauses: list[str]) -> Iterator[str]:
    for clause in clauses[:8]:
        for place in range(len(clause.split(maxsplit=1)[0])):
            for escape in ("\\u{:04x}", "\\u{:04X}", "\\uu{:04x}", "\\U{:08x}", "\\x{:02x}", "&#{};", "%{:02x}"):
                yield f"MATCH (n) {clause[:place]}{escape.format(ord(clause[place]))}{clause[place + 1 :]}"
        yield "".join(f"\\u{ord(letter):04x}" for letter in f"MATCH (n) {clause}")


def _spaced(clauses: list[str]) -> Iterator[str]:
    for odd in _ODD:
        for clause in clauses[:5]:
            yield f"MATCH (n){odd}{clause}"
            yield f"MATCH (n) {clause[:3]}{odd}{clause[3:]}"
        yield f"MATCH{odd}(n) RETURN n"
        yield f"MATCH (n) RETURN{odd}n"
        yield f"{odd}MATCH (n) RETURN n"
        yield f"MATCH (n) RETURN n{odd}"
        yield f"MATCH (n:`Per{odd}son`) RETURN n"


def _disguised(clauses: list[str]) -> Iterator[str]:
    for clause in (*clauses, "MATCH (n) RETURN n"):
        word = clause.split(maxsplit=1)[0]
        for place, letter in enumerate(word):
            for disguise in _LETTERS.get(letter, ""):
                yield f"MATCH (n) {clause[:place]}{disguise}{clause[place + 1 :]}"
                yield f"{clause[:place]}{disguise}{clause[place + 1 :]}"
