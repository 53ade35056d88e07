"""Queries that people and models really ask of a graph: all of them only read."""

from __future__ import annotations

__all__ = ["BOTH", "LADYBUG", "NEO4J", "PARAMETERS", "SCHEMA"]

SCHEMA = (
    "CREATE NODE TABLE Person(name STRING PRIMARY KEY, age INT64, tags STRING[], born DATE, `set` INT64)",
    "CREATE NODE TABLE Project(name STRING PRIMARY KEY, budget DOUBLE)",
    "CREATE NODE TABLE `Größe`(`länge` STRING PRIMARY KEY)",
    "CREATE REL TABLE Knows(FROM Person TO Person, since INT64)",
    "CREATE REL TABLE WorksOn(FROM Person TO Project, role STRING)",
    "CREATE (:Person {name: 'Ada', age: 36, tags: ['maths', 'engines'], born: date('1815-12-10'), `set`: 1})",
    "CREATE (:Person {name: 'Bob', age: 20, tags: ['tea'], born: date('1990-01-01'), `set`: 2})",
    "CREATE (:Person {name: 'Cy', age: 51, tags: [], born: date('1970-05-05')})",
    "CREATE (:Project {name: 'Apollo', budget: 12.5}), (:Project {name: 'Gemini', budget: 3.0}), (:`Größe` {`länge`: 'lang'})",
    "MATCH (a:Person {name: 'Ada'}), (b:Person {name: 'Bob'}) CREATE (a)-[:Knows {since: 1840}]->(b)",
    "MATCH (a:Person {name: 'Bob'}), (b:Person {name: 'Cy'}) CREATE (a)-[:Knows {since: 2001}]->(b)",
    "MATCH (a:Person {name: 'Ada'}), (b:Project {name: 'Apollo'}) CREATE (a)-[:WorksOn {role: 'design'}]->(b)",
    "MATCH (a:Person {name: 'Bob'}), (b:Project {name: 'Apollo'}) CREATE (a)-[:WorksOn {role: 'build'}]->(b)",
)
"""A small graph in ladybug for them."""

PARAMETERS = {"name": "Ada", "age": 30, "names": ["Ada", "Bob"], "limit": 2, "skip": 0}
"""Values of the parameters that they have."""


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line for line in text.strip().splitlines() if line)


BOTH = (
    *_lines(
        r"""
MATCH (n) RETURN n
MATCH (n) RETURN n LIMIT 10
match (n) return n limit 10
MATCH (n:Person) RETURN n.name
MATCH (n:Person) RETURN n.name AS name, n.age AS age ORDER BY age DESC
MATCH (n:Person) RETURN n.name ORDER BY n.age, n.name ASC SKIP 1 LIMIT 1
MATCH (n:Person) RETURN n.name ORDER BY n.age DESCENDING SKIP $skip LIMIT $limit
MATCH (n:Person {name: 'Ada'}) RETURN n.age
MATCH (n:Person {name: $name}) RETURN n.age
MATCH (n:Person {name: "Ada", age: 36}) RETURN n
MATCH (n:Person|Project) RETURN n.name
MATCH (n:Person) WHERE n.age > 30 RETURN count(*)
MATCH (n:Person) WHERE n.age >= 30 AND n.age <= 60 RETURN n.name
MATCH (n:Person) WHERE n.age <> 36 OR NOT n.name = 'Bob' RETURN n.name
MATCH (n:Person) WHERE n.name = 'Ada' XOR n.age < 40 RETURN n.name
MATCH (n:Person) WHERE n.name STARTS WITH 'A' RETURN n
MATCH (n:Person) WHERE n.name ENDS WITH 'b' RETURN n
MATCH (n:Person) WHERE n.name CONTAINS 'd' RETURN n
MATCH (n:Person) WHERE n.name =~ 'A.*' RETURN n.name
MATCH (n:Person) WHERE n.name IN ['Ada', 'Cy'] RETURN n.name
MATCH (n:Person) WHERE n.name IN $names RETURN n.name
MATCH (n:Person) WHERE NOT n.name IN $names RETURN n.name
MATCH (n:Person) WHERE n.age IS NULL RETURN n.name
MATCH (n:Person) WHERE n.age IS NOT NULL AND n.`set` IS NULL RETURN n.name
MATCH (n:Person) WHERE (n.age + 1) * 2 > 40 RETURN n.name
MATCH (n:Person) WHERE n.age - 1 > -5 RETURN -n.age
MATCH (n:Person) RETURN n.age + 1, n.age - 1, n.age * 2, n.age / 2, n.age % 2, n.age ^ 2
MATCH (n:Person) RETURN n.`name` AS `the name`
MATCH (`a person`:Person) RETURN `a person`.name
MATCH (n:`Größe`) RETURN n.`länge`
MATCH (n:Person) RETURN n.`set`
MATCH (n:`Person`) RETURN n.name
MATCH (n:Person) RETURN *
MATCH (n:Person) WITH *, n.age AS a RETURN a
MATCH (n:Person) WITH n RETURN n.name
MATCH (n:Person) WITH n.age AS age WHERE age > 20 RETURN age
MATCH (n:Person) WITH n ORDER BY n.age LIMIT 1 RETURN n.name
MATCH (n:Person) WITH DISTINCT n.age AS age RETURN count(age)
MATCH (n:Person) WITH count(n) AS c RETURN c
MATCH (n:Person) RETURN DISTINCT n.age
MATCH (n:Person) RETURN count(n), count(DISTINCT n.age), sum(n.age), avg(n.age), min(n.age), max(n.age), collect(n.name)
MATCH (n:Person) RETURN COUNT(*) AS count
MATCH (a)-[r]->(b) RETURN a, r, b
MATCH (a)-[r:Knows]->(b) RETURN a.name, r.since, b.name
MATCH (a:Person)<-[r:Knows]-(b:Person) RETURN a.name, b.name
MATCH (a:Person)-[r:Knows]-(b:Person) RETURN a.name, b.name
MATCH (a)-->(b) RETURN a.name, b.name
MATCH (a)<--(b) RETURN a.name, b.name
MATCH (a)--(b) RETURN count(*)
MATCH (a)-[]->(b) RETURN count(*)
MATCH ()-[r]->() RETURN count(r)
MATCH (a)-[:Knows|WorksOn]->(b) RETURN b.name
MATCH (a)-[:Knows|:WorksOn]->(b) RETURN b.name
MATCH (a:Person)-[:Knows]->(b:Person)-[:WorksOn]->(p:Project) RETURN a.name, p.name
MATCH (a:Person)-[:WorksOn]->(p:Project)<-[:WorksOn]-(b:Person) WHERE a.name < b.name RETURN a.name, b.name, p.name
MATCH (a:Person)-[r:Knows {since: 1840}]->(b) RETURN b.name
MATCH (a:Person), (b:Project) RETURN a.name, b.name
MATCH (a:Person {name: 'Ada'}) MATCH (a)-[:WorksOn]->(p) RETURN p.name
MATCH (a:Person) OPTIONAL MATCH (a)-[:WorksOn]->(p:Project) RETURN a.name, p.name
OPTIONAL MATCH (n:Person {name: 'Nobody'}) RETURN n
MATCH (p:Project {name: 'Apollo'})<-[:WorksOn]-(a) RETURN count(a) AS workers
MATCH (a:Person)-[:Knows*1..3]->(b:Person) RETURN a.name, b.name
MATCH (a:Person)-[:Knows*2]->(b:Person) RETURN b.name
MATCH (a:Person)-[:Knows*..2]->(b:Person) RETURN b.name
MATCH (a:Person)-[r:Knows*0..2]-(b:Person) RETURN count(*)
MATCH p = (a:Person)-[:Knows*1..2]->(b:Person) RETURN nodes(p), relationships(p), length(p)
MATCH p = (a)-[:WorksOn]->(b) RETURN p
MATCH (n:Person) WHERE EXISTS { MATCH (n)-[:WorksOn]->(:Project) } RETURN n.name
MATCH (n:Person) WHERE NOT EXISTS { MATCH (n)-[:WorksOn]->(p:Project) WHERE p.budget > 100 } RETURN n.name
MATCH (n:Person) RETURN n.name, COUNT { MATCH (n)-[:Knows]->(m) } AS friends
MATCH (n:Person) WHERE COUNT { MATCH (n)-[:Knows]->(m) WHERE m.age > 1 } > 0 RETURN n.name
MATCH (n:Person) WHERE (n)-[:WorksOn]->() RETURN n.name
MATCH (n:Person) WHERE NOT (n)-[:WorksOn]->(:Project) RETURN n.name
MATCH (n:Person) RETURN CASE WHEN n.age > 30 THEN 'old' ELSE 'young' END AS kind
MATCH (n:Person) RETURN CASE n.name WHEN 'Ada' THEN 1 WHEN 'Bob' THEN 2 ELSE 3 END
MATCH (n:Person) RETURN CASE WHEN n.age > 50 THEN 'a' WHEN n.age > 30 THEN CASE WHEN n.name = 'Ada' THEN 'b' END END
UNWIND [1, 2, 3] AS x RETURN x
UNWIND $names AS name MATCH (n:Person {name: name}) RETURN n.age
UNWIND [1, 2, 3] AS x WITH x WHERE x > 1 RETURN sum(x)
UNWIND range(1, 10) AS x RETURN x
MATCH (n:Person) UNWIND n.tags AS tag RETURN tag, count(*) ORDER BY count(*) DESC
RETURN 1
RETURN 1 AS one, 'two' AS two, 3.5 AS three, true AS four, null AS five
RETURN 1.5e3, 2e2, -1
RETURN [1, 2, 3] AS list, [] AS none_of_them
RETURN {a: 1, b: 'x', c: [1, 2]} AS map
RETURN {a: {b: 1}}.a.b
RETURN [1, 2, 3][1]
RETURN size([1, 2, 3]), size('abc')
RETURN any(x IN [1, 2] WHERE x > 1), all(x IN [1, 2] WHERE x > 0), none(x IN [1, 2] WHERE x > 5), single(x IN [1, 2] WHERE x = 1)
RETURN toUpper('a'), toLower('A'), trim(' a '), ltrim(' a'), rtrim('a '), substring('hello', 1, 2), replace('a', 'a', 'b'), reverse('ab')
RETURN left('abc', 1), right('abc', 1), upper('a'), lower('B')
RETURN abs(-1), ceil(1.2), floor(1.8), round(1.5, 0), sqrt(4), sign(-2), pi(), sin(1), cos(1), log10(100)
RETURN coalesce(null, 1)
RETURN date('2020-01-01') AS day
RETURN $name AS name
RETURN 'it\'s', "say \"hi\"", 'back\\slash', 'a\nb\tc'
RETURN 'Größe 漢字 é', "DELETE; // not a comment /* nor this */ -- nor this"
RETURN 'MATCH (n) DETACH DELETE n' AS text
MATCH (n:Person) WHERE n.name = '\' DETACH DELETE n //' RETURN n
MATCH (n:Person) WHERE n.name = 'a\\\' SET n.age = 0 //' RETURN n
MATCH (n:Person) WHERE n.name = "\" SET n.age = 0 //" OR n.name = '"' RETURN n
MATCH (n:Person) WHERE n.name = 'a\\' OR n.name = ' SET n.age = 0 //' RETURN n
RETURN '`' AS tick, "'" AS single_quote, '"' AS double_quote, '' AS nothing
MATCH (n:Person) RETURN n.name AS name UNION MATCH (p:Project) RETURN p.name AS name
MATCH (n:Person) RETURN n.name AS name UNION ALL MATCH (p:Project) RETURN p.name AS name
MATCH (n) RETURN labels(n), count(*)
MATCH (n:Person) RETURN keys(n) LIMIT 1
MATCH (n:Person) RETURN properties(n)
MATCH (n:Person) RETURN id(n)
MATCH (n:Person) RETURN n.age AS age ORDER BY age LIMIT 1
MATCH (a:Person)-[:Knows]->(b) WITH a, count(b) AS friends WHERE friends > 0 RETURN a.name, friends ORDER BY friends DESC LIMIT 5
MATCH (n:Person) WITH collect(n.name) AS names RETURN size(names)
MATCH (n:Person) WITH max(n.age) AS oldest MATCH (m:Person) WHERE m.age = oldest RETURN m.name
MATCH (copied:Person) RETURN copied.name AS created
MATCH (n:Person) WHERE n.born < date('1900-01-01') RETURN n.name
""",
    ),
    "MATCH (n:Person)\n\tWHERE n.age > 1\r\n  RETURN n.name\n",
)
"""Queries that both databases take."""

LADYBUG = _lines(
    r"""
MATCH (a)-[r]->(b) RETURN label(a), label(r), start_node(r), end_node(r), offset(id(a))
MATCH (a:Person)-[r:Knows* SHORTEST 1..30]->(b:Person) RETURN length(r)
MATCH (a:Person)-[r:Knows* ALL SHORTEST 1..5]->(b:Person) RETURN b.name
MATCH (a:Person)-[r:Knows* TRAIL 1..5]->(b:Person) RETURN b.name
MATCH (a:Person)-[r:Knows* ACYCLIC 1..5]->(b:Person) RETURN b.name
MATCH (a:Person)-[r:Knows*1..3 (e, n | WHERE e.since > 1900)]->(b:Person) RETURN b.name
MATCH p = (a:Person)-[:Knows*1..2]->(b:Person) RETURN properties(nodes(p), 'name'), rels(p), is_trail(p), is_acyclic(p)
RETURN list_filter([1, 2, 3], x -> x > 1), list_transform([1, 2], x -> x + 1)
RETURN list_sort([3, 1]), list_contains([1], 1), list_sum([1, 2]), list_distinct([1, 1]), list_concat([1], [2])
RETURN cast(1 AS STRING), cast('1' AS INT64), cast([1] AS STRING[]), cast(1, 'DOUBLE')
RETURN [1, 2, 3][1:2], [1, 2, 3][1..2]
RETURN concat('a', 'b'), lpad('a', 3, ' '), repeat('a', 3), split_part('a b', ' ', 1), regexp_matches('abc', 'b'), starts_with('ab', 'a')
RETURN date_part('year', date('2020-01-01')), date_trunc('month', date('2020-02-03')), interval('1 day'), to_days(3)
RETURN pow(2, 3), ln(1), bitwise_and(1, 3)
RETURN to_int64('3'), to_string(3), typeof(1), md5('a'), ifnull(null, 1)
MATCH (n:Person) RETURN list_to_string(',', n.tags)
"""
)
"""Queries that only ladybug takes."""

NEO4J = _lines(
    r"""
MATCH (n) WHERE n:Person RETURN n
MATCH (n) WHERE n:Person AND NOT n:Robot RETURN n.name
MATCH (n:Person&!Robot) RETURN n
MATCH (n:(Person|Robot)&Living) RETURN n
MATCH (n:Person WHERE n.age > 30) RETURN n.name
MATCH (a)-[r:KNOWS WHERE r.since > 1900]->(b) RETURN b
MATCH (n $filter) RETURN n
MATCH (n:Person) RETURN n {.name, .age}
MATCH (n:Person) RETURN n {.*, friends: size([(n)-[:KNOWS]->(m) | m])}
MATCH (n:Person) RETURN [(n)-[:KNOWS]->(m) WHERE m.age > 3 | m.name] AS friends
MATCH (n:Person) RETURN [p = (n)-[:KNOWS]->(m) | length(p)]
MATCH (n:Person) RETURN [x IN n.tags WHERE x STARTS WITH 'a' | toUpper(x)]
RETURN [x IN range(0, 10) | x * x] AS squares
RETURN [x IN [1, 2, 3] WHERE x > 1]
MATCH p = shortestPath((a:Person {name: 'Ada'})-[*..15]-(b:Person {name: 'Cy'})) RETURN p
MATCH p = allShortestPaths((a:Person)-[:KNOWS*1..10]-(b:Person)) WHERE a.name < b.name RETURN p
MATCH (a), (b) RETURN length(shortestPath((a)-[*..5]->(b)))
MATCH (a)-[r]->(b) RETURN type(r), startNode(r), endNode(r), elementId(a)
MATCH (n) WHERE exists(n.age) RETURN n
MATCH (n) WHERE exists((n)-[:KNOWS]->()) RETURN n
MATCH (n) WHERE EXISTS { (n)-[:KNOWS]->(:Person) } RETURN n
MATCH (n) WHERE EXISTS { MATCH (n)-[:KNOWS]->(m) RETURN m UNION MATCH (n)-[:LIKES]->(m) RETURN m } RETURN n
MATCH (n) RETURN COUNT { (n)--() } AS degree
MATCH (n) RETURN COLLECT { MATCH (n)-[:KNOWS]->(m) RETURN m.name ORDER BY m.name LIMIT 3 } AS names
RETURN reduce(total = 0, x IN [1, 2, 3] | total + x) AS total
MATCH p = (a)-[:ROAD*1..5]->(b) RETURN reduce(cost = 0, r IN relationships(p) | cost + r.length) AS cost
RETURN date.truncate('month', date()) AS month, duration.between(date('2020-01-01'), date()) AS since, datetime().year AS year
RETURN duration({days: 3}), datetime({epochSeconds: 3}), point({x: 1, y: 2}), point.distance(point({x: 1, y: 2}), point({x: 2, y: 2}))
RETURN toInteger('1'), toFloat('1.5'), toString(1), toBoolean('true'), split('a,b', ','), head([1]), last([1]), tail([1, 2])
RETURN 'a' || 'b'
RETURN [1, 2, 3][0..2], [1, 2, 3][..2], [1, 2, 3][1..]
UNWIND range(0, size($list) - 1) AS i RETURN $list[i]
RETURN percentileCont(1.5, 0.5), stDev(1), randomUUID()
MATCH (n) RETURN n['name'], properties(n)['name']
"""
)
"""Queries that only Neo4j takes."""
