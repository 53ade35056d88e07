"""Only what reads gets to a graph: nothing that is hostile passes, and what people really ask does."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import ladybug
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.errors import QueryDenied
from interlock_agents.puntini.graphs import cypher, guard
from interlock_agents.puntini.graphs.cypher import FORBIDDEN, FUNCTIONS, Dialect, is_name
from interlock_agents.puntini.graphs.guard import check_name, check_reading
from tests.agents.graphs.hostile_cypher import Targets, harmful, hostile
from tests.agents.graphs.legal_cypher import BOTH, LADYBUG, NEO4J, PARAMETERS, SCHEMA

SECRET = "swordfish"  # noqa: S105 - what must not be found
FAMILIES = hostile(Targets())
HOSTILE = [text for family in FAMILIES.values() for text in family]
LEGAL = [*BOTH, *LADYBUG, *NEO4J]
DIALECTS: tuple[Dialect, ...] = ("ladybug", "neo4j")
MEMORY = 64 * 1024 * 1024


def refused(text: str, dialect: Dialect = "neo4j") -> str:
    with pytest.raises(QueryDenied) as caught:
        check_reading(text, dialect=dialect)
    return str(caught.value)


def passes(text: str, dialect: Dialect) -> bool:
    """Say whether the guard takes a text; anything but QueryDenied goes on up."""
    begun = time.process_time()
    try:
        check_reading(text, dialect=dialect)
    except QueryDenied as error:
        assert str(error).endswith((".", ")"))  # noqa: PT017 - both endings are fine
        return False
    finally:
        assert time.process_time() - begun < 10, text[:100]
    return True


@dataclass
class Graph:
    """A real graph, and a folder beside it that is nobody's business."""

    connection: Any
    folder: Path

    @property
    def targets(self) -> Targets:
        return Targets(str(self.folder / "secret.csv"), str(self.folder))

    def run(self, text: str) -> list[list[Any]]:
        named = {name: value for name, value in PARAMETERS.items() if re.search(rf"\${name}\b", text)}
        found: list[list[Any]] = []
        answers = self.connection.execute(text, named or None)
        for answer in cast("list[Any]", answers) if isinstance(answers, list) else [answers]:
            while answer.has_next():
                found.append(answer.get_next())
        return found

    def digest(self) -> str:
        """Return a hash of the tables, the nodes, the edges and the files."""
        tables = sorted(str(row[1:]) for row in self.run("CALL show_tables() RETURN *"))
        columns = [self.run(f"CALL table_info('{name}') RETURN *") for name in ("Person", "Project", "Knows") if f"'{name}'" in str(tables)]
        nodes = sorted(map(str, self.run("MATCH (n) RETURN n")))
        edges = sorted(map(str, self.run("MATCH (a)-[r]->(b) RETURN a, r, b")))
        files = [(str(file), file.read_bytes()) for file in sorted(self.folder.rglob("*")) if file.is_file()]
        return hashlib.sha256(repr((tables, columns, nodes, edges, files)).encode()).hexdigest()


def made(folder: Path) -> Iterator[Graph]:
    folder.mkdir(exist_ok=True)
    (folder / "secret.csv").write_text(f"name,word\nme,{SECRET}\n")
    database = ladybug.Database(":memory:", buffer_pool_size=MEMORY)
    connection = ladybug.Connection(database, num_threads=1)
    connection.set_query_timeout(2_000)
    for statement in SCHEMA:
        connection.execute(statement)
    yield Graph(connection, folder)
    connection.close()
    database.close()


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    yield from made(tmp_path_factory.mktemp("graph"))


def test_the_corpora_are_large():
    assert len(set(HOSTILE)) >= 3_000
    assert len(set(BOTH)) >= 100


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_hostile_query_is_refused(family: str, dialect: Dialect):
    assert [text for text in FAMILIES[family] if passes(text, dialect)] == []


def test_hostile_queries_leave_the_graph_and_files_unchanged(graph: Graph):
    before = graph.digest()
    for family in hostile(graph.targets).values():
        for text in family:
            if passes(text, "ladybug"):
                graph.run(text)
    assert graph.digest() == before


def test_ladybug_runs_hostile_queries_without_the_guard(tmp_path: Path):
    changed = 0
    for place, _ in enumerate(harmful(Targets())):
        for graph in made(tmp_path / str(place)):
            text = harmful(graph.targets)[place]
            before = graph.digest()
            rows = graph.run(text)
            changed += graph.digest() != before or SECRET in str(rows)
    assert changed >= 24


def test_legal_queries_are_accepted_and_run_on_ladybug_without_changes(graph: Graph):
    assert [text for text in BOTH + LADYBUG if not passes(text, "ladybug")] == []
    before = graph.digest()
    for text in BOTH + LADYBUG:
        graph.run(text)
    assert graph.digest() == before


def test_legal_queries_are_accepted_for_neo4j():
    assert [text for text in BOTH + NEO4J if not passes(text, "neo4j")] == []


@pytest.mark.parametrize(
    "tail", ["; MATCH (n) DETACH DELETE n", " ;", " SET n.age = 0", "\nDETACH DELETE n", " // x", " /* x */", " -- x", "\\u003b"]
)
def test_a_second_statement_or_writing_clause_is_refused_after_any_query(tail: str):
    for dialect in DIALECTS:
        assert [text for text in BOTH if passes(text + tail, dialect)] == []


@pytest.mark.parametrize("word", sorted(FORBIDDEN))
def test_a_writing_word_is_a_name_only_in_backticks(word: str):
    for form in (word, word.lower(), word.title()):
        for text in (
            f"MATCH (n:{form}) RETURN n",
            f"MATCH (n) RETURN n.{form}",
            f"RETURN ${form}",
            f"RETURN 1 AS {form}",
            f"RETURN {{{form}: 1}}",
        ):
            assert form in refused(text)
        check_reading(f"MATCH (n:`{form}`) RETURN n.`{form}` AS `{form}`, '{form}', n.{form}s")


def test_allowed_functions_exist_in_ladybug(graph: Graph):
    known = {row[0].upper() for row in graph.run("CALL show_functions() RETURN *") if row[0]}
    assert FUNCTIONS["ladybug"] - known == set()


def test_functions_that_write_or_reach_outside_are_not_allowed(graph: Graph):
    kinds = {row[0].upper(): row[1] for row in graph.run("CALL show_functions() RETURN *") if row[0]}
    tables = {name for name, kind in kinds.items() if "TABLE" in kind or "COPY" in kind}
    for dialect in DIALECTS:
        assert FUNCTIONS[dialect].isdisjoint(tables | {"NEXTVAL", "CURRVAL", "SETSEED", "ERROR", "FILE", "LINENUMBER", "LIST_REDUCE"})
        assert not [name for name in FUNCTIONS[dialect] if name.startswith(("APOC", "DB", "GDS", "LOAD", "READ", "GRAPH"))]


SHAPES: list[tuple[Callable[[int], str], int]] = [
    (lambda n: "RETURN " + "(" * (n - 1) + "1" + ")" * (n - 1), guard.MAX_DEPTH),
    (lambda n: "RETURN " + "[" * (n - 1) + "1" + "]" * (n - 1), guard.MAX_DEPTH),
    (lambda n: "RETURN " + "abs(" * (n - 1) + "1" + ")" * (n - 1), guard.MAX_DEPTH),
    (lambda n: "RETURN " + "CASE WHEN true THEN " * n + "1" + " END" * n, guard.MAX_CASES),
    (lambda n: "RETURN " + "NOT " * n + "true", guard.MAX_DEPTH),
    (lambda n: "MATCH (n) " * n + "RETURN 1", 16),
    (lambda n: "MATCH " + "(n)-->" * (n - 1) + "(n) RETURN 1", 48),
    (lambda n: "WITH 1 AS x " * (n - 1) + "RETURN x", 60),
    (lambda n: f"MATCH (a)-[:Knows*1..{n}]->(b) RETURN a", guard.MAX_HOPS),
    (lambda n: f"MATCH (a)-[:Knows*{n}]->(b) RETURN a", guard.MAX_HOPS),
    (lambda n: "MATCH (a)" + "-[*1..2]->(b)" * n + " RETURN a", 4),
    (lambda n: f"RETURN range(0, {n})", guard.MAX_TIMES),
    (lambda n: f"RETURN range(-{n}, 0)", guard.MAX_TIMES),
    (lambda n: f"RETURN '{'a' * (n - 9)}'", cypher.MAX_LENGTH),
    (lambda n: "RETURN " + "1,".rjust(3) * ((n - 2) // 2) + "1" * (n % 2 == 0), cypher.MAX_TOKENS),
    (lambda n: f"MATCH (n:{'a' * n}) RETURN n", cypher.MAX_NAME),
    (lambda n: f"MATCH (n:`{'ä' * n}`) RETURN n", cypher.MAX_NAME),
]


@pytest.mark.parametrize(("shape", "most"), SHAPES)
def test_queries_are_accepted_up_to_each_limit(shape: Callable[[int], str], most: int):
    for dialect in DIALECTS:
        assert passes(shape(most), dialect)
        assert not passes(shape(most + 1), dialect)


def test_queries_at_the_limits_run_fast_on_ladybug(graph: Graph):
    for text in (
        "RETURN " + "(" * 15 + "1" + ")" * 15,
        "RETURN " + "[" * 15 + "1" + "]" * 15,
        "RETURN " + "CASE WHEN true THEN " * 8 + "(((((((1)))))))" + " END" * 8,
        "RETURN " + "{a: " * 15 + "1" + "}" * 15,
        "RETURN " + "abs(" * 15 + "1" + ")" * 15,
        "RETURN " + "1 + " * 1_400 + "1",
        "".join(f"UNWIND [1] AS x{place} " for place in range(59)) + "RETURN 1",
        "WITH 1 AS x " * 59 + "RETURN x",
    ):
        check_reading(text, dialect="ladybug")
        begun = time.process_time()
        graph.run(text)
        assert time.process_time() - begun < 10, text[:60]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("MATCH (n) DELETE n", "only reads"),
        ("EXPLAIN RETURN 1", "begins with MATCH"),
        ("RETURN 1; RETURN 2", "leave out ';'"),
        ("RETURN 1 // x", "comment"),
        ("RETURN 'a\\u0027'", "as a parameter"),
        ("MATCH (n) RETURN apoc.util.sleep(1)", "may not call 'apoc.util.sleep'"),
        ("MATCH (n) RETURN [n][0].mine(1)", "cannot be parsed at '('"),
        ("MATCH (a)-[*]->(b) RETURN a", "'*1..5'"),
        ("MATCH (n:Größe) RETURN n", "in backticks"),
        ("MATCH (n) WHERE n.age != 1 RETURN n", "'<>'"),
        ("MATCH (n)", "MATCH, UNWIND, WITH or RETURN is expected"),
        ("RETURN range(1, $n)", "written out"),
        ("RETURN 1\x00", "U+0000"),
    ],
)
def test_a_refusal_says_what_to_do(text: str, said: str):
    assert said in refused(text)


LONG = [
    "(",
    "[",
    "{",
    "'",
    '"',
    "`",
    "\\",
    "''",
    "\\'",
    "-",
    "(a)-",
    "(a)-->",
    "a.",
    "a.b(",
    "[x IN ",
    "CASE ",
    "NOT ",
    "1+",
    "!",
    "é",
    "EXISTS {",
    "$a",
    "RETURN ",
]


@pytest.mark.parametrize(("before", "dialect"), [("", "neo4j"), ("RETURN ", "ladybug"), ("MATCH (a:", "neo4j"), ("RETURN '", "ladybug")])
def test_the_guard_takes_linear_time(before: str, dialect: Dialect):
    for piece in LONG:
        passes((before + piece * 20_000)[: cypher.MAX_LENGTH], dialect)
        passes(before + piece * 1_400, dialect)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.sampled_from(DIALECTS))
def test_any_text_is_accepted_or_refused(text: str, dialect: Dialect):
    passes(text, dialect)


WORDS = sorted({word for text in (*LEGAL, *HOSTILE) if len(text) < 500 for word in re.findall(r"\w+|\s+|\W", text)})


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=40).map("".join), st.sampled_from(DIALECTS))
def test_any_sequence_of_words_is_accepted_or_refused(text: str, dialect: Dialect):
    passes(text, dialect)


SHORT = [text for text in HOSTILE if 0 < len(text) < 300]


@st.composite
def mutants(draw: st.DrawFn) -> str:
    """Make a text out of a legal query and a hostile one: a part of one put into the other, and letters changed, dropped or doubled."""
    host, guest = draw(st.sampled_from(list(BOTH + LADYBUG))), draw(st.sampled_from(SHORT))
    if draw(st.booleans()):
        host, guest = guest, host
    begin, end = sorted(draw(st.tuples(st.integers(0, len(guest)), st.integers(0, len(guest)))))
    place = draw(st.integers(0, len(host)))
    text = host[:place] + guest[begin:end] + host[draw(st.integers(place, min(len(host), place + 8))) :]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(text)))
        text = (
            text[:place]
            + draw(st.sampled_from(["", "'", '"', "`", "\\", " ", "\n", ";", "/", "-", "(", ")", "}", "\\u0027"]))
            + text[place + 1 :]
        )
    return text


@settings(max_examples=400, deadline=None)
@given(mutants())
def test_accepted_mutants_of_hostile_queries_change_nothing(graph: Graph, text: str):
    assert not (passes(text, "neo4j") and written(text))
    if not passes(text, "ladybug"):
        return
    assert not written(text)
    before = graph.digest()
    try:
        rows = graph.run(text)
    except RuntimeError:
        rows = []  # the guard says what may be asked, the database whether it makes sense
    assert SECRET not in str(rows)
    assert graph.digest() == before


def written(text: str) -> set[str]:
    """Return the words that write and stand outside of quotes, found letter by letter: another way than the guard's."""
    bare, quote, place = "", "", 0
    while place < len(text):
        letter = text[place]
        if quote:
            place += letter == "\\" and quote != "`"
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote, bare = letter, f"{bare} "
        else:
            bare += letter
        place += 1
    return set(re.findall(r"\w+", bare.upper())) & FORBIDDEN


NAMES = ["Person", "person", "WORKS_ON", "a", "A1", "a_", "größe", "Größe", "имя", "名前", "नाम", "set", "delete", "Match", "a" * 64]
BAD_NAMES = [
    "",
    " ",
    "_",
    "_id",
    "__x",
    "1a",
    "a b",
    "a-b",
    "a.b",
    "a`b",
    "a``b",
    "`a`",
    "a'b",
    'a"b',
    "a;b",
    "a:b",
    "a)b",
    "a{b",
    "a\\b",
    "a\\u0060",
    "a/b",
    "a//b",
    "a\nb",
    "a\n",
    "a\x00",
    "a\u200b",
    "a\ufe0f",
    "a\u3164",
    "\u3164",
    "a\u202eb",
    "a\xa0b",
    "e\u0301",
    "a\u203fb",
    "a\uff3fb",
    "a\ud800",
    "😀",
    "a" * 65,
    "Person`) DETACH DELETE n //",
    "age = 0 SET n.x",
    "name: 1}) DETACH DELETE n //",
]


def test_an_accepted_name_works_in_backticks_on_ladybug(tmp_path: Path):
    for graph in made(tmp_path / "place"):
        for place, name in enumerate(NAMES):
            assert check_name(name, "label") == name
            label = f"{name[:60]}{place}"
            graph.run(f"CREATE NODE TABLE `{label}`(`{name}` STRING PRIMARY KEY)")
            graph.run(f"CREATE (:`{label}` {{`{name}`: 'x'}})")
            text = f"MATCH (n:`{label}`) RETURN n.`{name}`"
            check_reading(text, dialect="ladybug")
            assert graph.run(text) == [["x"]]


@pytest.mark.parametrize("what", ["label", "relationship", "property"])
def test_an_invalid_name_is_refused(what: str):
    for name in BAD_NAMES:
        with pytest.raises(QueryDenied, match=what) as caught:
            check_name(name, what)
        assert str(caught.value).isprintable()


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_an_accepted_name_cannot_end_its_backticks(name: str):
    try:
        taken = check_name(name, "label")
    except QueryDenied:
        return
    assert taken == name
    assert is_name(name)
    assert re.fullmatch(r"[^\W\d_](?:[^\x00-\x7f]|\w)*", name)
    check_reading(f"MATCH (n:`{name}` {{`{name}`: 1}}) RETURN n.`{name}`")
