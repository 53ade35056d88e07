"""Queries in BigQuery's SQL that only read: what is not known to be harmless is refused, and what is run is never the caller's own text.

A query is read into a tree. Every node of the tree has to be on the lists of `grammar`, and every table one of the warehouse's. What is
run is generated from the tree, so nothing that the tree does not have (a comment, an encoding, a second statement) can be in it.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast

from pydantic import Field
from sqlglot import ErrorLevel, exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from interlock.errors import QueryDenied, SettingsInvalid
from interlock_agents.analyst.warehouse import grammar

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "MAX_NODES", "MAX_TIMES", "MAX_TOKENS", "Sql", "Tables", "read_only", "rewritten"]

MAX_LENGTH = 10_000
"""How many characters a query may have."""

MAX_TOKENS = 3_000
"""How many words, numbers and signs a query may have."""

MAX_DEPTH = 24
"""How deep brackets and cases may be nested."""

MAX_NODES = 6_000
"""How many nodes the tree of a query may have."""

MAX_TIMES = 100_000
"""How many values a query may make out of nothing by one function."""

Sql = Annotated[str, Field(max_length=MAX_LENGTH, description="one SELECT statement in BigQuery's SQL")]

_MAX_TREE = 150  # how deep a tree may be: every writer of SQL walks it by recursion
_MAX_STEPS = 20  # of the parser for each token; it tries some beginnings several ways, one inside the other
_MAX_RUN = 24  # signs in a row: "- - - 1", "NOT NOT NOT x"
_MAX_QUOTED = 60  # characters of the query in an error message
_FIRST = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN})
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END})
_PREFIXES = frozenset({TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
_STRANGE = frozenset(  # signs that BigQuery does not have, or only for what is not taken
    {
        TokenType.ARROW,
        TokenType.DARROW,
        TokenType.FARROW,
        TokenType.HASH_ARROW,
        TokenType.DHASH_ARROW,
        TokenType.L_BRACE,
        TokenType.R_BRACE,
    }
)
_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.BYTE_STRING, TokenType.IDENTIFIER})
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})  # categories of characters that cannot be seen, or turn others round
_SPACES = frozenset("\t\n\r")

# A name that may stand for a table has no dot and no slash: where it is not known, a file's would be taken for the file.
_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,299}", re.ASCII)
_LABEL = re.compile(r"\w[\w €$%#&/().,:+-]{0,127}")
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_HEX = re.compile(r"[0-9A-Fa-f]+", re.ASCII)
_WRITTEN = frozenset(  # nodes with free text, which have their own checks
    {"Anonymous", "ByteString", "HexString", "Identifier", "JSONPathKey", "Literal", "RawString", "Var"}
)
_NAMES = {
    "Anonymous": "a function of your own",
    "Columns": "'COLUMNS(...)'",
    "Command": "a statement other than SELECT",
    "Into": "'INTO'",
    "Kwarg": "a named argument ('name => value')",
    "Lambda": "a function of your own ('x -> ...')",
    "Lateral": "'LATERAL'",
    "Parameter": "a parameter ('@name')",
    "Pivot": "'PIVOT' or 'UNPIVOT'",
    "Placeholder": "a parameter ('?')",
    "SessionParameter": "a system variable ('@@name')",
    "TableSample": "'TABLESAMPLE'",
    "Version": "'FOR SYSTEM_TIME'",
}

_READING: Final[ContextVar[bool]] = ContextVar("reading", default=False)
# sqlglot logs warnings with the text of the query. Suppress them: the error message reports the problem.
logging.getLogger("sqlglot").addFilter(lambda _: not _READING.get())


@dataclass(frozen=True)
class Tables:
    """The tables that a query may read, as (dataset, table). A table of the default dataset needs no dataset before it."""

    names: frozenset[tuple[str, str]]
    default: str | None = None
    project: str | None = None
    _folded: dict[tuple[str, str], tuple[str, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_folded", {(dataset.lower(), table.lower()): (dataset, table) for dataset, table in sorted(self.names)})

    def find(self, parts: Sequence[str]) -> tuple[str, str] | None:
        """Return the table that is meant: the one of exactly this name, else one that differs in upper and lower case only."""
        *before, table = parts
        if len(before) > 1 and (len(before) > 2 or before[0] != self.project):  # noqa: PLR2004 - a project and a dataset
            return None
        dataset = before[-1] if before else self.default
        if dataset is None:
            return None
        meant = (dataset, table)
        return meant if meant in self.names else self._folded.get((dataset.lower(), table.lower()))

    def __str__(self) -> str:
        return ", ".join(table if dataset == self.default else f"{dataset}.{table}" for dataset, table in sorted(self.names))


def read_only(sql: str, *, tables: Tables) -> exp.Query:
    """Return the tree of a query that only reads tables of the warehouse; anything else is a QueryDenied that says what it may not.

    Every table in the tree has its full name, so it means the same wherever it is run.
    """
    tokens = _tokens(_plain(sql))
    tree = _parsed(tokens, sql)
    for node in _nodes(tree):
        _check(node)
    for table in list(tree.find_all(exp.Table)):
        _resolve(table, tables)
    return tree


def rewritten(tree: exp.Query, *, tables: Tables) -> str:
    """Generate BigQuery SQL from the tree and validate the result again, so that the text that is sent was validated."""
    try:
        text = tree.sql(dialect="bigquery", comments=False, identify=True, normalize_functions="upper", unsupported_level=ErrorLevel.RAISE)
    except (SqlglotError, RecursionError) as error:
        raise QueryDenied("The query cannot be written in BigQuery's SQL.") from error
    read_only(text, tables=tables)
    return text


def _plain(sql: str) -> str:
    """Refuse a text that is too long, or has invisible characters."""
    if len(sql) > MAX_LENGTH:
        raise QueryDenied(f"The query has {len(sql):,} characters; {MAX_LENGTH:,} are taken.")
    for letter in sql:
        if letter not in _SPACES and unicodedata.category(letter) in _HIDDEN:
            raise QueryDenied(f"The query has the character U+{ord(letter):04X}, which cannot be seen: leave it out.")
    return sql


def _tokens(sql: str) -> list[Token]:
    """Split a query, and refuse what is no single statement or is nested too deep, before a parser goes down into it."""
    try:
        tokens = BigQuery().tokenize(sql)
    except (SqlglotError, ValueError) as error:
        raise QueryDenied("The query cannot be read: a quote or a comment has no end, or an escape is wrong.") from error
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise QueryDenied("The query is empty: write one SELECT statement.")
    if len(tokens) > MAX_TOKENS:
        raise QueryDenied(f"The query has {len(tokens):,} words; {MAX_TOKENS:,} are taken.")
    if tokens[0].token_type not in _FIRST:
        raise QueryDenied(f"A query begins with SELECT or WITH, not with '{_shown(tokens[0].text)}'.")
    _check_tokens(tokens)
    return tokens


def _check_tokens(tokens: Sequence[Token]) -> None:
    depth = run = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        kind = token.token_type
        if kind not in _TEXTS and not token.text.isascii():
            raise QueryDenied(f"'{_shown(token.text)}' has letters that are not ASCII: put a name like that in backticks.")
        if kind is TokenType.PIPE_GT or (kind is TokenType.FROM and before is not None and before.token_type is TokenType.L_PAREN):
            raise QueryDenied("A query begins with SELECT or WITH: pipes ('|>') and 'FROM' at the beginning are not taken.")
        if kind in _STRANGE:
            raise QueryDenied(f"A query may not have '{token.text}'.")
        depth += (kind in _OPENING) - (kind in _CLOSING)
        run = run + 1 if kind in _PREFIXES else 0
        if depth > MAX_DEPTH or run > _MAX_RUN:
            raise QueryDenied(f"The query is nested too deep: {MAX_DEPTH} levels are taken.")
    kinds = Counter(token.token_type for token in tokens)
    if kinds[TokenType.L_PAREN] != kinds[TokenType.R_PAREN] or kinds[TokenType.L_BRACKET] != kinds[TokenType.R_BRACKET]:
        raise QueryDenied("The query cannot be read: a bracket is missing, or there is one too many.")


try:

    class _Parser(BigQuery.Parser):
        """Gives up on a text that takes much longer than its length: the parser tries nested beginnings in several ways."""

        steps = 0

        def _advance(self, times: int = 1) -> None:
            self.steps -= 1
            if self.steps <= 0:
                raise QueryDenied("The query takes too long to read: nest it less.")
            super()._advance(times)

except TypeError as error:  # a compiled class has no subclasses
    raise SettingsInvalid("Queries cannot be read safely by sqlglot's compiled parser. Run: pip uninstall sqlglotc") from error


def _parsed(tokens: list[Token], sql: str) -> exp.Query:
    parser = _Parser(error_level=ErrorLevel.IMMEDIATE, dialect=BigQuery())
    parser.steps = _MAX_STEPS * (len(tokens) + 50)
    reading = _READING.set(True)
    try:
        statements = [statement for statement in parser.parse(tokens, sql) if statement is not None]
    except ParseError as error:
        raise QueryDenied(f"The query cannot be read: {_reason(error)}") from error
    except QueryDenied:
        raise
    except Exception as error:  # sqlglot raises other errors for some malformed queries
        raise QueryDenied("The query cannot be read.") from error
    finally:
        _READING.reset(reading)
    if len(statements) != 1:
        raise QueryDenied("Only one statement is taken: ask for one thing at a time.")
    tree = statements[0]
    if not isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery)):
        raise QueryDenied(f"A query may not have {_name_of(tree)}: write one SELECT statement.")
    return tree


def _nodes(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Walk a tree, without going down into it by recursion."""
    waiting, count = [(tree, 1)], 0
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if depth > _MAX_TREE or count > MAX_NODES:
            raise QueryDenied("The query is too long, or nested too deep: ask for less at a time.")
        yield node
        waiting.extend((child, depth + 1) for child in node.iter_expressions())


def _check(node: exp.Expr) -> None:
    """Refuse a node that is not on the lists, or has a part that is not."""
    kind = type(node).__name__
    allowed = grammar.CLAUSES.get(kind)
    if allowed is None and kind not in grammar.EXPRESSIONS and kind not in grammar.FUNCTIONS:
        raise QueryDenied(f"A query may not have {_name_of(node)}.")
    for part, value in node.args.items():
        if value is None or value is False or value == []:
            continue
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        if allowed is not None and part not in allowed:
            raise QueryDenied(f"A query may not have {_part(part, items[0])} in {_name_of(node)}.")
        for item in items:
            if isinstance(item, str) and kind not in _WRITTEN and item.upper() not in grammar.WORDS.get(f"{kind}.{part}", ()):
                raise QueryDenied(f"A query may not have '{_shown(item)}' in {_name_of(node)}.")
    if kind in _CHECKS:
        _CHECKS[kind](node)
    if (unit := node.args.get("unit")) is not None and not isinstance(unit, exp.WeekStart):
        _check_var(unit)
    if kind in grammar.BOUNDED:
        _check_times(node, [node.args.get(part) for part in grammar.BOUNDED[kind]])


def _check_identifier(node: exp.Expr) -> None:
    parent = node.parent
    is_label = isinstance(parent, (exp.Alias, exp.Column, exp.Dot, exp.Star, exp.PropertyEQ, exp.Join))
    if not (_LABEL if is_label else _TABLE).fullmatch(node.name):
        raise QueryDenied(f"'{_shown(node.name)}' cannot be a name: use letters, digits and '_'.")


def _check_column(node: exp.Expr) -> None:
    if node.name.upper() in grammar.NO_COLUMNS:
        raise QueryDenied(f"A query may not have '{_shown(node.name)}'.")


def _check_literal(node: exp.Expr) -> None:
    if not node.args.get("is_string") and not _NUMBER.fullmatch(node.name):
        raise QueryDenied(f"'{_shown(node.name)}' is no number.")


def _check_text(node: exp.Expr) -> None:
    if not isinstance(node.this, str):
        raise QueryDenied("A text in the query cannot be read.")


def _check_hex(node: exp.Expr) -> None:
    if not _HEX.fullmatch(str(node.this)):
        raise QueryDenied(f"'{_shown(str(node.this))}' is no number.")


def _check_key(node: exp.Expr) -> None:
    if not isinstance(node.this, int) and not (isinstance(node.this, str) and _LABEL.fullmatch(node.this)):
        raise QueryDenied(f"'{_shown(str(node.this))}' cannot be a name: use letters, digits and '_'.")


def _check_var(node: exp.Expr) -> None:
    """Let only words that are known be written as they are; some of them come as a text."""
    if not isinstance(node, (exp.Var, exp.Literal)) or node.name.upper() not in grammar.PARTS:
        raise QueryDenied(f"A query may not have '{_shown(node.name)}' there.")


def _check_data_type(node: exp.Expr) -> None:
    name = getattr(node.this, "value", node.this)
    if not isinstance(name, str) or name not in grammar.DATA_TYPES:
        raise QueryDenied(f"A query may not have the type '{_shown(str(name))}'.")


def _check_anonymous(node: exp.Expr) -> None:
    if not isinstance(node.this, str) or node.this.upper() not in grammar.CALLED:
        raise QueryDenied(f"A query may not have {_name_of(node)}.")


def _check_dot(node: exp.Expr) -> None:
    if not isinstance(node.args.get("expression"), (exp.Identifier, exp.Star)):
        raise QueryDenied(f"A query may not have {_name_of(node)}.")


def _check_select(node: exp.Expr) -> None:
    if not node.expressions:
        raise QueryDenied("The query cannot be read: SELECT has nothing to select.")


_CHECKS = {
    "Anonymous": _check_anonymous,
    "ByteString": _check_text,
    "Column": _check_column,
    "DataType": _check_data_type,
    "Dot": _check_dot,
    "HexString": _check_hex,
    "Identifier": _check_identifier,
    "JSONPathKey": _check_key,
    "JSONPathSubscript": _check_key,
    "Literal": _check_literal,
    "RawString": _check_text,
    "Select": _check_select,
    "Var": _check_var,
}


def _check_times(node: exp.Expr, arguments: Sequence[exp.Expr | None]) -> None:
    """Bound what a function makes by the numbers that it is given; a number that is not written out is not known."""
    numbers = [_whole(argument) for argument in arguments if argument is not None]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        raise QueryDenied(f"{_name_of(node).capitalize()} takes whole numbers that are written out, at most {MAX_TIMES:,} of them.")
    if isinstance(node, exp.GenerateSeries):
        start, end, step = (*known, 1)[:3]
        times = abs(end - start) // abs(step) if step else 0
    else:
        times = known[0] if known else 0
    if times >= MAX_TIMES:
        raise QueryDenied(f"{_name_of(node).capitalize()} is too much: {MAX_TIMES:,} are made at most.")


def _whole(node: exp.Expr) -> int | None:
    sign = 1
    while isinstance(node, (exp.Neg, exp.Paren)):
        sign, node = -sign if isinstance(node, exp.Neg) else sign, node.this
    return sign * int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal() else None


def _resolve(table: exp.Table, tables: Tables) -> None:
    """Give a table its full name; one that is neither the warehouse's nor named by WITH is refused."""
    if not all(isinstance(part, exp.Identifier) for part in table.parts):
        raise QueryDenied(f"A query may not read from {_name_of(table.this)}: read from a table, a subquery or UNNEST.")
    parts = [part.name for part in table.parts]
    if len(parts) == 1 and parts[0].lower() in _named_above(table):
        return
    meant = tables.find(parts)
    if meant is None:
        raise QueryDenied(f"There is no table '{_shown('.'.join(parts))}' that may be read. There are: {tables}.")
    dataset, name = meant
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(parts[-1], quoted=True)))
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", exp.to_identifier(dataset, quoted=True))
    table.set("catalog", exp.to_identifier(tables.project, quoted=True) if tables.project else None)


def _named_above(table: exp.Expr) -> set[str]:
    """Return the names that WITH gives to subqueries, as far as they are known where a table stands: each knows those before it."""
    names: set[str] = set()
    below: exp.Expr = table
    node = table.parent
    while node is not None:
        if isinstance(node, exp.With):
            index = next(index for index, named in enumerate(node.expressions) if named is below)
            names.update(named.alias.lower() for named in node.expressions[:index])
        elif (given := node.args.get("with_")) is not None and given is not below:
            names.update(named.alias.lower() for named in given.expressions)
        below, node = node, node.parent
    return names


def _name_of(node: exp.Expr) -> str:
    """Return the name of a node for an error message."""
    kind = type(node).__name__
    if isinstance(node, exp.Anonymous):
        return f"the function '{_shown(str(node.name or node.this))}'"
    if isinstance(node, exp.Dot):
        return f"the function '{_shown(node.sql(dialect='bigquery', comments=False).partition('(')[0])}'"
    if kind in _NAMES:
        return _NAMES[kind]
    if isinstance(node, exp.Func):
        return f"the function '{node.sql_name()}'"
    return f"'{node.key.upper()}'"


def _part(name: str, value: object) -> str:
    known = _NAMES.get(type(value).__name__)
    return known or f"'{name.strip('_').upper().replace('_', ' ')}'"


def _reason(error: ParseError) -> str:
    """Take from a parser's error what is wrong and where, without the text of the query."""
    first = error.errors[0] if error.errors else {}
    what = str(first.get("description") or "it is no SQL").partition("<")[0].strip().rstrip(".:")
    return f"{_shown(what)} (line {first.get('line', 1)}, column {first.get('col', 1)})."


def _shown(text: str) -> str:
    """Quote text from the query: truncated, with printable characters only."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return plain if len(plain) <= _MAX_QUOTED else f"{plain[:_MAX_QUOTED]}..."
