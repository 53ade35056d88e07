"""What a query may be made of: everything that is not listed here is refused.

The names are those of sqlglot's classes, as texts, so that another release of it may lack one. Each function is one that BigQuery has,
that depends on its arguments only (or on the time, or on chance), and that reaches nothing outside the query.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["BOUNDED", "CALLED", "CLAUSES", "DATA_TYPES", "EXPRESSIONS", "FUNCTIONS", "NO_COLUMNS", "PARTS", "WORDS"]

_QUERY = "with_ order limit offset"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(rows: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    return {name: _words(parts) for name, parts in rows.items()}


CLAUSES: Mapping[str, frozenset[str]] = _table(
    {
        "Select": f"{_QUERY} kind expressions distinct from_ joins where group having qualify windows",
        "Union": f"{_QUERY} this expression distinct",
        "Intersect": f"{_QUERY} this expression distinct",
        "Except": f"{_QUERY} this expression distinct",
        "Subquery": f"{_QUERY} this alias joins",
        "With": "expressions",
        "CTE": "this alias",
        "From": "this",
        "Table": "this db catalog alias joins",
        "TableAlias": "this columns",
        "Unnest": "expressions alias offset explode_array",
        "Join": "this on using side kind",
        "Where": "this",
        "Group": "expressions grouping_sets cube rollup all",
        "GroupingSets": "expressions",
        "Cube": "expressions",
        "Rollup": "expressions",
        "Having": "this",
        "Qualify": "this",
        "Order": "this expressions",
        "Ordered": "this desc nulls_first",
        "Limit": "this expression",
        "Offset": "expression",
        "Distinct": "expressions",
        "Window": "this partition_by order spec alias over",
        "WindowSpec": "kind start start_side end end_side",
        "Star": "except_ replace",
        "Alias": "this alias",
        "Column": "this table db catalog",
        "Identifier": "this quoted",
        "Literal": "this is_string",
        "RawString": "this",
        "ByteString": "this is_bytes",
        "HexString": "this is_integer",
        "Boolean": "this",
        "Var": "this",
        "DataType": "this expressions nested",
        "DataTypeParam": "this",
        "Interval": "this unit",
        "Cast": "this to",
        "TryCast": "this to safe requires_string",
        "Dot": "this expression",
        "Bracket": "this expressions offset safe",
        "Array": "expressions bracket_notation struct_name_inheritance value_constructor",
        "Struct": "expressions",
        "PropertyEQ": "this expression",
        "Exists": "this",
        "In": "this expressions query unnest",
        "Case": "this ifs default",
        "If": "this true false",
        "Extract": "this expression",
        "Anonymous": "this expressions",
        "ColumnDef": "this kind",
    }
)
"""The clauses of a query, and what each may have. `Anonymous` is a function that sqlglot does not know: see CALLED."""

EXPRESSIONS = _words(
    """
    Add Sub Mul Div IntDiv Mod Neg Paren Tuple Null And Or Not Is EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ Between Like Any All
    BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift BitwiseRightShift DPipe AtTimeZone WeekStart
    IgnoreNulls RespectNulls HavingMax SafeFunc JSONPath JSONPathRoot JSONPathKey JSONPathSubscript
    """
)
"""Operators, and what stands inside a function's brackets."""

FUNCTIONS = _words(
    """
    Abs Acos Acosh Asin Asinh Atan Atan2 Atanh Cbrt Ceil Cos Cosh Cot Coth Csc Csch Exp Floor Greatest Least IsInf IsNan Ln Log Pi Pow
    Rand RangeBucket Round SafeAdd SafeDivide SafeMultiply SafeNegate SafeSubtract Sec Sech Sign Sin Sinh Sqrt Tan Tanh Trunc
    BitwiseCount CosineDistance EuclideanDistance

    AnyValue ApproxDistinct ApproxQuantiles ApproxTopK ApproxTopSum ArgMax ArgMin ArrayAgg ArrayConcatAgg Avg BitwiseAndAgg
    BitwiseOrAgg BitwiseXorAgg Corr Count CountIf CovarPop CovarSamp GroupConcat Grouping LogicalAnd LogicalOr Max Min Stddev
    StddevPop StddevSamp Sum Variance VariancePop

    CumeDist DenseRank FirstValue Lag LastValue Lead NthValue Ntile PercentRank PercentileCont PercentileDisc Rank RowNumber

    Ascii ByteLength Chr CodePointsToBytes CodePointsToString Collate Concat Contains EndsWith FarmFingerprint Format FromBase32
    FromBase64 Initcap Left Length Levenshtein Lower LowerHex MD5 MD5Digest Normalize Pad RegexpExtract RegexpExtractAll RegexpInstr
    RegexpLike RegexpReplace Repeat Replace Reverse Right SHA1Digest SHA2Digest SafeConvertBytesToString Soundex Split StartsWith
    StrPosition Substring ToBase32 ToBase64 ToCodePoints Translate Trim Unhex Unicode Upper Uuid

    Float64 Int64 JSONArray JSONBool JSONExtract JSONExtractArray JSONExtractScalar JSONFormat JSONKeysAtDepth JSONType JSONValueArray
    LaxBool LaxFloat64 LaxInt64 LaxString ParseJSON String

    ArrayConcat ArrayFirst ArrayLast ArrayReverse ArraySize ArraySlice ArrayToString GenerateDateArray GenerateSeries

    CurrentDate CurrentDatetime CurrentTime CurrentTimestamp Date DateAdd DateDiff DateFromParts DateFromUnixDate DateSub DateTrunc
    Datetime DatetimeAdd DatetimeDiff DatetimeSub DatetimeTrunc LastDay ParseDatetime ParseTime StrToDate StrToTime Time TimeAdd
    TimeDiff TimeFromParts TimeSub TimeToStr TimeTrunc Timestamp TimestampAdd TimestampDiff TimestampFromParts TimestampSub
    TimestampTrunc TsOrDsToDate TsOrDsToDatetime TsOrDsToTime TsOrDsToTimestamp UnixDate UnixMicros UnixMillis UnixSeconds UnixToTime

    Coalesce Nullif ParseBignumeric ParseNumeric
    """
)
"""Functions that sqlglot knows."""

NO_COLUMNS = frozenset({"CURRENT_CATALOG", "CURRENT_ROLE", "CURRENT_SCHEMA", "CURRENT_USER", "SESSION_USER"})
"""Names that DuckDB takes for a function's, even in quotes, where no column is called so."""

CALLED = frozenset({"DATE_BUCKET", "DATETIME_BUCKET", "IEEE_DIVIDE", "TIMESTAMP_BUCKET"})
"""Functions that it does not know, and so writes as they are. None of them may mean something else in DuckDB."""

BOUNDED: Mapping[str, tuple[str, ...]] = {
    "GenerateSeries": ("start", "end", "step"),
    "Repeat": ("times",),
    "Pad": ("expression",),
}
"""Functions that make much out of little, and the arguments that say how much: these have to be numbers that are written out."""

PARTS = _words(
    """
    MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY DAYOFWEEK DAYOFYEAR WEEK ISOWEEK MONTH QUARTER YEAR ISOYEAR DATE TIME DATETIME
    MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY NFC NFD NFKC NFKD
    """
)
"""Words that are written as they are: parts of a date, days of a week, forms of Unicode."""

DATA_TYPES = _words(
    """
    ARRAY BIGDECIMAL BIGINT BINARY BOOLEAN DATE DATETIME DECIMAL DOUBLE INT INTERVAL JSON SMALLINT STRUCT TEXT TIME TIMESTAMP TIMESTAMPTZ
    TINYINT VARBINARY VARCHAR
    """
)
"""Types that a value may be cast to."""

WORDS: Mapping[str, frozenset[str]] = {
    "Select.kind": frozenset({"STRUCT", "VALUE"}),
    "Join.side": frozenset({"LEFT", "RIGHT", "FULL"}),
    "Join.kind": frozenset({"INNER", "CROSS", "OUTER"}),
    "Window.over": frozenset({"OVER"}),
    "WindowSpec.kind": frozenset({"ROWS", "RANGE"}),
    "WindowSpec.start": frozenset({"UNBOUNDED", "CURRENT ROW"}),
    "WindowSpec.end": frozenset({"UNBOUNDED", "CURRENT ROW"}),
    "WindowSpec.start_side": frozenset({"PRECEDING", "FOLLOWING"}),
    "WindowSpec.end_side": frozenset({"PRECEDING", "FOLLOWING"}),
    "Trim.position": frozenset({"LEADING", "TRAILING", "BOTH"}),
}
"""Parts of a clause that sqlglot keeps as a text and writes as it is, and the texts that they may be."""
