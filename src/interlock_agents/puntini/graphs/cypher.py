"""The tokens of Cypher, and the words that a query that reads may contain.

A text is split into tokens only where every database splits it the same way. It is refused where two databases disagree on the end of a
token: an escape that one of them decodes first, two strings without a space between them, a comment, a letter that only looks like one
of a keyword. So the guard checks the text that the database runs.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final, Literal

from interlock.errors import QueryDenied

__all__ = [
    "BOUNDED", "CAST_TYPES", "FORBIDDEN", "FUNCTIONS", "MAX_LENGTH", "MAX_NAME", "MAX_TOKENS", "RESERVED", "WRITING", "Dialect", "Kind",
    "Token", "bare_words", "cleaned", "is_name", "shown", "tokens",
]  # fmt: skip

Dialect = Literal["ladybug", "neo4j"]

MAX_LENGTH = 20_000
"""How many characters a query may have."""

MAX_TOKENS = 3_000
"""How many tokens a query may have."""

MAX_NAME = 64
"""How many characters a name may have."""

_MAX_QUOTED = 60  # characters of a query in a message
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})  # categories of invisible and text-reversing characters
_SPACES = frozenset(" \t\r\n")
# Letters and marks that are not drawn.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")

_TOKEN: Final = re.compile(
    r"""
      (?P<space>[ \t\r\n]++)
    | (?P<string>'(?:[^'\\]|\\[\\'"bfnrt])*+'|"(?:[^"\\]|\\[\\'"bfnrt])*+")
    | (?P<quoted>`[^`]*+`)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<real>[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)?+|[0-9]++[eE][+-]?[0-9]++)
    | (?P<integer>[0-9]++)
    | (?P<parameter>\$[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<sign>\.\.|<>|<=|>=|=~|\|\||[-+*/%^=<>()\[\]{},:.|&!])
    """,
    re.VERBOSE | re.ASCII,
)
_JOINED = re.compile(r"""['"`]|[A-Za-z0-9_]|\.(?!\.)|[^\x00-\x7f]""")  # not allowed directly after a number
_AFTER_STRING = re.compile(r"""['"`A-Za-z0-9_]|[^\x00-\x7f]""")
_AFTER_WORD = re.compile(r"""['"`]|[^\x00-\x7f]""")
_BARE = re.compile(
    r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`[^`]*+`|//(?P<line>[^\n]*+)|/\*(?P<block>.*?)\*/|\$?(?P<word>[A-Za-z_][A-Za-z0-9_]*+)""",
    re.DOTALL,
)
_HARMLESS = re.compile(r"[\w \t\r\n.,:!?()+=<>%&-]++")
_WORD = re.compile(r"[A-Za-z_]+")
_COMMENTS = ("//", "/*", "*/")


class Kind(Enum):
    """The kind of a token."""

    WORD = auto()
    QUOTED = auto()
    STRING = auto()
    REAL = auto()
    INTEGER = auto()
    PARAMETER = auto()
    SIGN = auto()
    END = auto()


_KINDS: Final = {kind.name.lower(): kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Token:
    """One word, value or sign. `folded` is a word in capitals, or the sign; it is empty for values and names in backticks."""

    kind: Kind
    text: str
    folded: str
    start: int

    @property
    def end(self) -> int:
        """The place of the character after it."""
        return self.start + len(self.text)


def tokens(text: str, *, writing: bool = False) -> list[Token]:
    """Split a query into tokens and an END, or raise QueryDenied. Words that write are allowed only if it is `writing`."""
    _check_letters(text)
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise _unreadable(text, position)
        group, end = match.lastgroup, match.end()
        if group != "space":
            _check_end(text, group, position, end)
            found.append(_token(_KINDS[group], match.group(), position, FORBIDDEN - WRITING if writing else FORBIDDEN))
            if len(found) > MAX_TOKENS:
                raise QueryDenied(f"The query has more than {MAX_TOKENS:,} tokens: ask for less at a time.")
        position = end
    if not found:
        raise QueryDenied("The query is empty: write one reading query, such as MATCH (n) RETURN n LIMIT 10.")
    found.append(Token(Kind.END, "", "", len(text)))
    return found


def bare_words(text: str) -> Iterator[str]:
    """Yield the words of a query outside of strings, backticks and comments. The text does not have to be valid Cypher."""
    for match in _BARE.finditer(text):
        if match["word"]:
            yield match["word"]


def cleaned(text: str) -> str:
    """Remove comments and the ';' at the end.

    A comment with a word that writes, or with a sign that a database could take for the end of the comment, is not removed. It is then
    refused.
    """

    def without(match: re.Match[str]) -> str:
        comment = match["line"] or match["block"]
        if comment is None or not _HARMLESS.fullmatch(comment) or any(word.upper() in FORBIDDEN for word in _WORD.findall(comment)):
            return match.group()
        return " "

    return re.sub(r"\s*;\s*\Z", "", _BARE.sub(without, text))


def is_name(name: str) -> bool:
    """Return whether a name has only letters, digits and '_', does not start with a digit, and is in Unicode's normal form C."""
    if len(name) > MAX_NAME or not name.replace("_", "a").isidentifier():
        return False
    return name.isascii() or (
        not any(unicodedata.category(letter) == "Pc" for letter in name if letter != "_")
        and unicodedata.is_normalized("NFC", name)
        and _UNSEEN.search(name) is None
    )


def shown(text: str) -> str:
    """Shorten a text for a message, and replace invisible characters."""
    seen = "".join(letter if letter.isprintable() else "?" for letter in text[:_MAX_QUOTED])
    return seen if len(text) <= _MAX_QUOTED else f"{seen}..."


def _check_letters(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise QueryDenied(f"The query has {len(text):,} characters; at most {MAX_LENGTH:,} are allowed.")
    for letter in text:
        if letter not in _SPACES and not (letter.isascii() and letter.isprintable()) and unicodedata.category(letter) in _HIDDEN:
            raise QueryDenied(
                f"The query has the character U+{ord(letter):04X}, which is invisible: leave it out, or pass the text as a parameter."
            )
    if "\\u" in text or "\\U" in text:  # Neo4j decodes it before it looks for the end of a string
        raise QueryDenied(r"A query may not contain '\u': write the character itself, or pass the text as a parameter.")


def _token(kind: Kind, text: str, position: int, forbidden: frozenset[str]) -> Token:
    if kind is Kind.WORD:
        folded = text.upper()
        if folded in forbidden:
            raise QueryDenied(f"A query only reads: it may not contain '{shown(text)}'. If that is a name, put it in backticks.")
        return Token(kind, text, folded, position)
    if kind is Kind.PARAMETER and text[1:].upper() in FORBIDDEN:
        raise QueryDenied(f"A parameter may not be called '{shown(text[1:])}': give it another name.")
    if kind is Kind.QUOTED:
        _check_quoted(text[1:-1])
    return Token(kind, text, text if kind is Kind.SIGN else "", position)


def _check_quoted(name: str) -> None:
    """Refuse a name in backticks unless it is made of letters, digits, '_', '-' and single spaces."""
    if not is_name(name.replace(" ", "_").replace("-", "_")) or name != name.strip() or "  " in name or "--" in name:
        raise QueryDenied(f"'{shown(name)}' cannot be a name: use letters, digits, '_', '-' and spaces, {MAX_NAME} at most.")


def _check_end(text: str, group: str, start: int, end: int) -> None:
    """Refuse a token whose end is not the same for every database."""
    if group in {"string", "quoted"} and _AFTER_STRING.match(text, end):
        raise QueryDenied(
            "A closing quote is followed by another character: write a space there, and a quote inside a text as \\' or \\\"."
        )
    if group in {"integer", "real"} and _JOINED.match(text, end):
        raise QueryDenied(f"'{shown(text[start : end + 1])}' is not a number: write 12, 1.5 or 1.5e3, and a space after it.")
    if group in {"word", "parameter"} and _AFTER_WORD.match(text, end):
        raise QueryDenied(f"'{shown(text[start : end + 1])}' is not a word: put a name with other letters than A to Z in backticks.")
    if group == "sign" and text[start : start + 2] in _COMMENTS:
        raise QueryDenied("A query may not contain this comment: leave it out.")
    if group == "sign" and text.startswith("--", start):
        before, after = text[start - 1 : start], text[start + 2 : start + 3]
        if not (before and before in ")<" and after and after in ">("):
            raise QueryDenied("A query may not contain '--' other than in (a)--(b), (a)-->(b) and (a)<--(b).")


def _unreadable(text: str, position: int) -> QueryDenied:
    letter = text[position]
    if letter in "'\"`":
        return QueryDenied(
            "A quote has no end, or a text has an escape other than \\\\ \\' \\\" \\b \\f \\n \\r \\t: pass it as a parameter."
        )
    if letter == ";":
        return QueryDenied("Only one query is allowed at a time: leave out ';'.")
    if not letter.isascii():
        return QueryDenied(f"'{shown(letter)}' is not allowed outside of strings: put a name with other letters than A to Z in backticks.")
    return QueryDenied(f"A query may not contain '{shown(letter)}' there.")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FORBIDDEN: Final = _words(
    """
    ALTER ATTACH CALL COPY CREATE DELETE DENY DETACH DROP EXECUTE EXPORT FOREACH GRANT IMPORT INSERT INSTALL LOAD MERGE NODETACH REMOVE
    RENAME REVOKE SET UNINSTALL USE YIELD
    """
)
"""Words that write or reach outside of the graph. They are allowed only in strings and in backticks."""

WRITING: Final = _words("CREATE DELETE DETACH MERGE REMOVE SET")
"""Those of them that only write to the graph: a person may approve a query that contains them."""

RESERVED: Final = _words(
    """
    ALL AND ANY AS ASC ASCENDING BY CASE CONTAINS DESC DESCENDING DISTINCT ELSE END ENDS EXISTS FALSE IN IS LIMIT MATCH NONE NOT NULL
    OPTIONAL OR ORDER RETURN SINGLE SKIP STARTS THEN TRUE UNION UNWIND WHEN WHERE WITH XOR
    """
)
"""Words that cannot be a variable."""

BOUNDED: Final[Mapping[str, int]] = {"LPAD": 1, "RANGE": 0, "REPEAT": 1, "RPAD": 1}
"""Functions whose result can be much larger than their arguments, and the first argument that limits it."""

CAST_TYPES: Final = _words(
    """
    BLOB BOOL BOOLEAN DATE DOUBLE FLOAT INT INT128 INT16 INT32 INT64 INT8 INTERVAL STRING TIMESTAMP TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_SEC
    TIMESTAMP_TZ UINT16 UINT32 UINT64 UINT8 UUID
    """
)
"""Types that ladybug can cast a value to."""

_FUNCTIONS = tomllib.loads(Path(__file__).with_name("cypher_functions.toml").read_text(encoding="utf-8"))
FUNCTIONS: Final[Mapping[Dialect, frozenset[str]]] = {
    "neo4j": _words(_FUNCTIONS["both"]) | _words(_FUNCTIONS["neo4j"]),
    "ladybug": _words(_FUNCTIONS["both"]) | _words(_FUNCTIONS["ladybug"]),
}
"""Functions that a query may call, by dialect, in capitals."""
