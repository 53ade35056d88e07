"""Translates BigQuery's SQL to DuckDB's with sqlglot, and rewrites what sqlglot translates wrongly or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError

from interlock.errors import ToolInputInvalid

__all__ = ["to_duckdb"]

_DAYS = frozenset({"DAY", "WEEK", "ISOWEEK", "MONTH", "QUARTER", "YEAR", "ISOYEAR"})
# A warning about time zones. The warehouse has only UTC.
_HARMLESS = "EXTRACT from TIMESTAMPTZ"
_UNKNOWN = frozenset({"String", "ToCodePoints", "CodePointsToString", "CodePointsToBytes", "ApproxTopSum"})
_QUARTER = "~quarter~"
_TEMPLATES = {
    "ArrayFirst": "LIST_EXTRACT(:this, 1)",
    "ArrayLast": "LIST_EXTRACT(:this, -1)",
    # BigQuery counts from zero, DuckDB from one. Negative indexes are the same in both.
    "ArraySlice": "LIST_SLICE(:this, :start + CAST(:start >= 0 AS INT), :end + CAST(:end >= 0 AS INT))",
    "ByteLength": "OCTET_LENGTH(ENCODE(:this))",
    "SafeAdd": "TRY((:this) + (:other))",
    "SafeFunc": "TRY(:this)",
    "SafeMultiply": "TRY((:this) * (:other))",
    "SafeNegate": "TRY(-(:this))",
    "SafeSubtract": "TRY((:this) - (:other))",
}
"""DuckDB's SQL for functions of BigQuery."""


def to_duckdb(tree: exp.Query) -> str:
    """Write a query in DuckDB's SQL. Raise ToolInputInvalid for functions that DuckDB does not have."""
    tree = tree.copy()
    for node in reversed(list(tree.walk())):  # inner nodes first
        name = type(node).__name__
        if isinstance(node, exp.Func) and name in _UNKNOWN:
            raise ToolInputInvalid(f"The query cannot be run: this warehouse does not know '{node.sql_name()}'. Write it in another way.")
        rewrite = _filled if name in _TEMPLATES else _REWRITES.get(name)
        if rewrite is not None and (other := rewrite(node.copy())) is not None:
            node.replace(other)
    generator = DuckDB().generator(identify=True, comments=False, unsupported_level=ErrorLevel.IGNORE)
    try:
        text = generator.generate(tree, copy=False)
    except (SqlglotError, ValueError, RecursionError) as error:
        raise ToolInputInvalid("The query cannot be run: this warehouse cannot express it. Write it in another way.") from error
    for message in generator.unsupported_messages:
        if not message.startswith(_HARMLESS):
            raise ToolInputInvalid(f"The query cannot be run: {message.strip().rstrip('.')}. Write it in another way.")
    return text


@cache
def _template(name: str) -> exp.Expr:
    return parse_one(_TEMPLATES[name], read="duckdb")


def _filled(node: exp.Expr) -> exp.Expr:
    arguments = {"other" if name == "expression" else name: value for name, value in node.args.items()}
    return exp.replace_placeholders(_template(type(node).__name__).copy(), **arguments)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _as(node: exp.Expr, data_type: str) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(data_type, dialect="duckdb"))


def _unit(node: exp.Expr) -> str:
    """Return the part of a date that a function uses. WEEK(MONDAY) is a WEEK."""
    unit = node.args.get("unit")
    return "WEEK" if isinstance(unit, exp.WeekStart) else unit.name.upper() if unit is not None else "DAY"


def _date(node: exp.Expr) -> exp.Expr | None:
    """Cast the result to a date: DuckDB returns a timestamp."""
    return _as(node, "DATE") if _unit(node) in _DAYS else None


def _timestamp(node: exp.Expr) -> exp.Expr:
    return _as(node, "TIMESTAMPTZ")


def _now(node: exp.Expr) -> exp.Expr:
    zone = node.this if isinstance(node.this, exp.Expr) else exp.Literal.string("UTC")
    return exp.AtTimeZone(this=exp.CurrentTimestamp(), zone=zone)


def _extract(node: exp.Expr) -> exp.Expr | None:
    """Count days and weeks like BigQuery: Sunday is 1, and the days before a year's first Sunday are in week 0."""
    part, value = node.this, node.args["expression"]
    name = part.this.name.upper() if isinstance(part, exp.WeekStart) else part.name.upper()
    if isinstance(part, exp.WeekStart) and name not in {"SUNDAY", "MONDAY"}:
        raise ToolInputInvalid("The query cannot be run: this warehouse has weeks that begin on SUNDAY or on MONDAY.")
    if name in {"WEEK", "SUNDAY", "MONDAY"}:
        return _as(_call("STRFTIME", value, exp.Literal.string("%W" if name == "MONDAY" else "%U")), "BIGINT")
    if name == "ISOWEEK":
        return exp.Extract(this=exp.var("WEEK"), expression=value)
    if name == "DAYOFWEEK":
        return exp.Paren(this=exp.Add(this=exp.Extract(this=exp.var("DAYOFWEEK"), expression=value), expression=exp.Literal.number(1)))
    return _as(value, name) if name in {"DATE", "TIME"} else None


def _timestamp_diff(node: exp.Expr) -> exp.Expr:
    """Count whole units, not boundaries between them."""
    return _call("DATE_SUB", exp.Literal.string(_unit(node)), node.args["expression"], node.this)


def _format(node: exp.Expr) -> exp.Expr:
    form = node.this
    if isinstance(form, exp.Literal):
        form = exp.Literal.string(form.name.replace("%'", "%,").replace("%t", "%s"))
    return _call("PRINTF", form, *node.expressions)


def _time_to_str(node: exp.Expr) -> exp.Expr | None:
    form = node.args.get("format")
    if not isinstance(form, exp.Literal) or "%Q" not in form.name:
        return None
    quarter = _as(exp.Extract(this=exp.var("QUARTER"), expression=node.this.copy()), "TEXT")
    node.set("format", exp.Literal.string(form.name.replace("%Q", _QUARTER)))
    return exp.Replace(this=node, expression=exp.Literal.string(_QUARTER), replacement=quarter)


def _normalize(node: exp.Expr) -> exp.Expr | None:
    form = node.args.get("form")
    is_plain = (not isinstance(form, exp.Expr) or form.name.upper() == "NFC") and not node.args.get("is_casefold")
    return _call("NFC_NORMALIZE", node.this) if is_plain else None


def _unnest(node: exp.Expr) -> exp.Expr | None:
    """Count the elements of an array from zero."""
    offset = node.args.get("offset")
    if not offset:
        return None
    name = offset.name if isinstance(offset, exp.Expr) else "offset"
    counted = exp.Sub(this=exp.column(exp.to_identifier(name)), expression=exp.Literal.number(1))
    star = exp.Star(replace=[exp.alias_(counted, name, quoted=True)])
    return exp.Subquery(this=exp.Select(expressions=[star], from_=exp.From(this=node)))


_REWRITES: Mapping[str, Callable[[exp.Expr], exp.Expr | None]] = {
    "CurrentDatetime": _now,
    "DateAdd": _date,
    "DateFromUnixDate": lambda node: _as(node, "DATE"),
    "DateSub": _date,
    "DateTrunc": _date,
    "Extract": _extract,
    "Format": _format,
    "Normalize": _normalize,
    "StrToTime": _timestamp,
    "TimeToStr": _time_to_str,
    "TimestampDiff": _timestamp_diff,
    "UnixToTime": _timestamp,
    "Unnest": _unnest,
}
