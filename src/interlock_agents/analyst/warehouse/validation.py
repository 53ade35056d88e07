"""Validates that a query in BigQuery's SQL only reads tables of the warehouse.

A query is parsed into a tree. Every node of the tree must be on the lists of `allowlist`, and every table must be in the warehouse. The
text that runs is generated from the tree, so it contains nothing that the tree does not have, such as a comment or a second statement.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, cast

from pydantic import Field
from sqlglot import ErrorLevel, exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from interlock.errors import QueryDenied, SettingsInvalid
from interlock_agents.analyst.warehouse import allowlist

__all__ = ["MAX_DEPTH", "MAX_LENGTH", "MAX_NODES", "MAX_TIMES", "MAX_TOKENS", "Sql", "Tables", "read_only", "rewritten"]

MAX_LENGTH = 10_000
"""The maximum number of characters of a query."""

MAX_TOKENS = 3_000
MAX_DEPTH = 24
"""The maximum depth of nested brackets and cases."""

MAX_NODES = 6_000
"""The maximum number of nodes of the tree."""

MAX_TIMES = 100_000
"""The maximum number of values that one function call may generate."""

Sql = Annotated[str, Field(max_length=MAX_LENGTH, description="one SELECT statement in BigQuery's SQL")]

# The depth of a tree is limited because sqlglot generates SQL by recursion.
_MAX_TREE_DEPTH = 150
# The parser may take so many steps for each token: it tries some alternatives one inside the other.
_MAX_STEPS = 20
# Prefix operators in a row: "- - - 1", "NOT NOT NOT x".
_MAX_PREFIXES = 24
# Characters of the query in an error message.
_MAX_QUOTED = 60


def _tokens_named(names: str) -> frozenset[TokenType]:
    return frozenset(TokenType[name] for name in names.split())


_FIRST = _tokens_named("SELECT WITH L_PAREN")
_OPENING, _CLOSING = _tokens_named("L_PAREN L_BRACKET CASE"), _tokens_named("R_PAREN R_BRACKET END")
_PREFIXES = _tokens_named("NOT DASH PLUS TILDE")
# Operators that BigQuery does not have, or only in unsupported places.
_UNSUPPORTED = _tokens_named("ARROW DARROW FARROW HASH_ARROW DHASH_ARROW L_BRACE R_BRACE")
_QUOTED = _tokens_named("STRING RAW_STRING BYTE_STRING IDENTIFIER")
# Unicode categories of invisible characters, and of characters that change the direction of text.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})

# A table name has no dot and no slash: DuckDB would read an unknown name with them as the path of a file.
_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,299}", re.ASCII)
_LABEL = re.compile(r"\w[\w €$%#&/().,:+-]{0,127}")
_NUMBER = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_HEX = re.compile(r"[0-9A-Fa-f]+", re.ASCII)

# Nodes with a text that is not a fixed word. `_IS_VALID` has their checks.
_FREE_TEXT = frozenset({"Anonymous", "ByteString", "HexString", "Identifier", "JSONPathKey", "Literal", "RawString", "Var"})

_PARSING: Final[ContextVar[bool]] = ContextVar("parsing", default=False)
# sqlglot logs warnings with the text of the query. Suppress them: the error message reports the problem.
logging.getLogger("sqlglot").addFilter(lambda _: not _PARSING.get())


@dataclass(frozen=True)
class Tables:
    """The tables that a query may read, as (dataset, table). A table of the default dataset can be named without its dataset."""

    names: frozenset[tuple[str, str]]
    default: str | None = None
    project: str | None = None
    _folded: dict[tuple[str, str], tuple[str, str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_folded", {(dataset.lower(), table.lower()): (dataset, table) for dataset, table in sorted(self.names)})

    def find(self, parts: Sequence[str]) -> tuple[str, str] | None:
        """Return the table with exactly this name, or else one whose name differs only in case."""
        *before, table = parts
        if len(before) > 1 and (len(before) > 2 or before[0] != self.project):  # noqa: PLR2004 - a project and a dataset
            return None
        dataset = before[-1] if before else self.default
        if dataset is None:
            return None
        return (dataset, table) if (dataset, table) in self.names else self._folded.get((dataset.lower(), table.lower()))

    def __str__(self) -> str:
        return ", ".join(table if dataset == self.default else f"{dataset}.{table}" for dataset, table in sorted(self.names))


def read_only(sql: str, *, tables: Tables) -> exp.Query:
    """Return the tree of a query that only reads tables of the warehouse. Raise QueryDenied for any other text.

    Every table in the tree has its full name.
    """
    tree = _parse(_tokens(sql), sql)
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


def _tokens(sql: str) -> list[Token]:
    """Split a query into tokens. Refuse what would be expensive to parse or is not a single statement."""
    if len(sql) > MAX_LENGTH:
        raise QueryDenied(f"The query has {len(sql):,} characters; {MAX_LENGTH:,} are allowed.")
    hidden = next((letter for letter in sql if letter not in "\t\n\r" and unicodedata.category(letter) in _INVISIBLE), None)
    if hidden is not None:
        raise QueryDenied(f"The query has the invisible character U+{ord(hidden):04X}: leave it out.")
    try:
        tokens = BigQuery().tokenize(sql)
    except (SqlglotError, ValueError) as error:
        raise QueryDenied("The query cannot be parsed: a quote or a comment has no end, or an escape is wrong.") from error
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise QueryDenied("The query is empty: write one SELECT statement.")
    if len(tokens) > MAX_TOKENS:
        raise QueryDenied(f"The query has {len(tokens):,} words; {MAX_TOKENS:,} are allowed.")
    if tokens[0].token_type not in _FIRST:
        raise QueryDenied(f"A query begins with SELECT or WITH, not with '{_shown(tokens[0].text)}'.")
    _check_tokens(tokens)
    return tokens


def _check_tokens(tokens: Sequence[Token]) -> None:
    depth = prefixes = 0
    for before, token in zip([None, *tokens], tokens, strict=False):
        kind = token.token_type
        if kind not in _QUOTED and not token.text.isascii():
            raise QueryDenied(f"'{_shown(token.text)}' has letters that are not ASCII: put a name like that in backticks.")
        if kind is TokenType.PIPE_GT or (kind is TokenType.FROM and before is not None and before.token_type is TokenType.L_PAREN):
            raise QueryDenied("A query begins with SELECT or WITH: pipes ('|>') and 'FROM' at the beginning are not supported.")
        if kind in _UNSUPPORTED:
            raise QueryDenied(f"A query may not have '{token.text}'.")
        depth += (kind in _OPENING) - (kind in _CLOSING)
        prefixes = prefixes + 1 if kind in _PREFIXES else 0
        if depth > MAX_DEPTH or prefixes > _MAX_PREFIXES:
            raise QueryDenied(f"The query is nested too deep: {MAX_DEPTH} levels are allowed.")
    kinds = Counter(token.token_type for token in tokens)
    if kinds[TokenType.L_PAREN] != kinds[TokenType.R_PAREN] or kinds[TokenType.L_BRACKET] != kinds[TokenType.R_BRACKET]:
        raise QueryDenied("The query cannot be parsed: a bracket is missing, or there is one too many.")


try:

    class _Parser(BigQuery.Parser):
        """A parser with a limited number of steps, because it takes exponential time for some nested queries."""

        steps = 0

        def _advance(self, times: int = 1) -> None:
            self.steps -= 1
            if self.steps <= 0:
                raise QueryDenied("The query takes too long to parse: nest it less.")
            super()._advance(times)

except TypeError as error:  # a compiled class has no subclasses
    raise SettingsInvalid("Queries cannot be parsed safely by sqlglot's compiled parser. Run: pip uninstall sqlglotc") from error


def _parse(tokens: list[Token], sql: str) -> exp.Query:
    parser = _Parser(error_level=ErrorLevel.IMMEDIATE, dialect=BigQuery())
    parser.steps = _MAX_STEPS * (len(tokens) + 50)
    parsing = _PARSING.set(True)
    try:
        statements = [statement for statement in parser.parse(tokens, sql) if statement is not None]
    except ParseError as error:
        raise QueryDenied(f"The query cannot be parsed: {_reason(error)}") from error
    except QueryDenied:
        raise
    except Exception as error:  # sqlglot raises other errors for some malformed queries
        raise QueryDenied("The query cannot be parsed.") from error
    finally:
        _PARSING.reset(parsing)
    if len(statements) != 1:
        raise QueryDenied("Only one statement is allowed: ask for one thing at a time.")
    tree = statements[0]
    if not isinstance(tree, (exp.Select, exp.SetOperation, exp.Subquery)):
        raise QueryDenied(f"A query may not have {_name_of(tree)}: write one SELECT statement.")
    return tree


def _nodes(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Walk a tree without recursion."""
    waiting, count = [(tree, 1)], 0
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if depth > _MAX_TREE_DEPTH or count > MAX_NODES:
            raise QueryDenied("The query is too long, or nested too deep: ask for less at a time.")
        yield node
        waiting.extend((child, depth + 1) for child in node.iter_expressions())


def _check(node: exp.Expr) -> None:
    """Refuse a node that is not on the lists, or has a part that is not."""
    kind = type(node).__name__
    allowed = allowlist.CLAUSES.get(kind)
    if allowed is None and kind not in allowlist.EXPRESSIONS and kind not in allowlist.FUNCTIONS:
        raise QueryDenied(f"A query may not have {_name_of(node)}.")
    for part, value in node.args.items():
        if value is None or value is False or value == []:
            continue
        items = cast("list[Any]", value) if isinstance(value, list) else [value]
        if allowed is not None and part not in allowed:
            raise QueryDenied(f"A query may not have {_part(part, items[0])} in {_name_of(node)}.")
        for item in items:
            if isinstance(item, str) and kind not in _FREE_TEXT and item.upper() not in allowlist.WORDS.get(f"{kind}.{part}", ()):
                raise QueryDenied(f"A query may not have '{_shown(item)}' in {_name_of(node)}.")
    if kind in _IS_VALID and not _IS_VALID[kind](node):
        text = node.name or str(node.this)
        raise QueryDenied(f"A query may not have {_name_of(node) if isinstance(node, (exp.Func, exp.Dot)) else repr(_shown(text))}.")
    unit = node.args.get("unit")
    if unit is not None and not isinstance(unit, exp.WeekStart) and not _is_word(unit):
        raise QueryDenied(f"A query may not have '{_shown(unit.name)}'.")
    if kind in allowlist.BOUNDED:
        _check_times(node, [node.args.get(part) for part in allowlist.BOUNDED[kind]])


def _is_name(node: exp.Expr) -> bool:
    is_label = isinstance(node.parent, (exp.Alias, exp.Column, exp.Dot, exp.Star, exp.PropertyEQ, exp.Join))
    if not (_LABEL if is_label else _TABLE).fullmatch(node.name):
        raise QueryDenied(f"'{_shown(node.name)}' cannot be a name: use letters, digits and '_'.")
    return True


def _is_key(node: exp.Expr) -> bool:
    return isinstance(node.this, int) or (isinstance(node.this, str) and _LABEL.fullmatch(node.this) is not None)


def _is_word(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Var, exp.Literal)) and node.name.upper() in allowlist.PARTS


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node.this, str)


def _has_columns(node: exp.Expr) -> bool:
    if not node.expressions:
        raise QueryDenied("The query cannot be parsed: SELECT has nothing to select.")
    return True


_IS_VALID: Mapping[str, Callable[[exp.Expr], bool]] = {
    "Anonymous": lambda node: isinstance(node.this, str) and node.this.upper() in allowlist.CALLED,
    "ByteString": _is_text,
    "Column": lambda node: node.name.upper() not in allowlist.NO_COLUMNS,
    "DataType": lambda node: getattr(node.this, "value", node.this) in allowlist.DATA_TYPES,
    "Dot": lambda node: isinstance(node.args.get("expression"), (exp.Identifier, exp.Star)),
    "HexString": lambda node: _HEX.fullmatch(str(node.this)) is not None,
    "Identifier": _is_name,
    "JSONPathKey": _is_key,
    "JSONPathSubscript": _is_key,
    "Literal": lambda node: bool(node.args.get("is_string")) or _NUMBER.fullmatch(node.name) is not None,
    "RawString": _is_text,
    "Select": _has_columns,
    "Var": _is_word,
}


def _check_times(node: exp.Expr, arguments: Sequence[exp.Expr | None]) -> None:
    """Limit the number of values that a function generates. Its arguments must be literal numbers."""
    numbers = [_whole_number(argument) for argument in arguments if argument is not None]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        raise QueryDenied(f"{_name_of(node).capitalize()} needs literal whole numbers, at most {MAX_TIMES:,} values.")
    times = known[0] if known else 0
    if isinstance(node, exp.GenerateSeries):
        start, end, step = (*known, 1)[:3]
        times = abs(end - start) // abs(step) if step else 0
    if times >= MAX_TIMES:
        raise QueryDenied(f"{_name_of(node).capitalize()} generates too much: {MAX_TIMES:,} values are allowed.")


def _whole_number(node: exp.Expr) -> int | None:
    sign = 1
    while isinstance(node, (exp.Neg, exp.Paren)):
        sign, node = -sign if isinstance(node, exp.Neg) else sign, node.this
    return sign * int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal() else None


def _resolve(table: exp.Table, tables: Tables) -> None:
    """Give a table its full name. Refuse one that is neither in the warehouse nor defined by WITH."""
    if not all(isinstance(part, exp.Identifier) for part in table.parts):
        raise QueryDenied(f"A query may not read from {_name_of(table.this)}: read from a table, a subquery or UNNEST.")
    parts = [part.name for part in table.parts]
    if len(parts) == 1 and parts[0].lower() in _with_names(table):
        return
    found = tables.find(parts)
    if found is None:
        raise QueryDenied(f"There is no table '{_shown('.'.join(parts))}' that may be read. There are: {tables}.")
    dataset, name = found
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(parts[-1], quoted=True)))
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", exp.to_identifier(dataset, quoted=True))
    table.set("catalog", exp.to_identifier(tables.project, quoted=True) if tables.project else None)


def _with_names(table: exp.Expr) -> set[str]:
    """Return the names that are defined by WITH at the place of a table. Each definition can use those before it."""
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
    if kind in allowlist.NAMES:
        return allowlist.NAMES[kind]
    return f"the function '{node.sql_name()}'" if isinstance(node, exp.Func) else f"'{node.key.upper()}'"


def _part(name: str, value: object) -> str:
    return allowlist.NAMES.get(type(value).__name__) or f"'{name.strip('_').upper().replace('_', ' ')}'"


def _reason(error: ParseError) -> str:
    """Return the description and the position of a parser's error, without the text of the query."""
    first = error.errors[0] if error.errors else {}
    what = str(first.get("description") or "it is not SQL").partition("<")[0].strip().rstrip(".:")
    return f"{_shown(what)} (line {first.get('line', 1)}, column {first.get('col', 1)})."


def _shown(text: str) -> str:
    """Quote text from the query: truncated, with printable characters only."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return plain if len(plain) <= _MAX_QUOTED else f"{plain[:_MAX_QUOTED]}..."
