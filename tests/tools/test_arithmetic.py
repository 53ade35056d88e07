from __future__ import annotations

import operator
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.tools.arithmetic import MAX_BITS, MAX_DEPTH, MAX_LENGTH, calculate, evaluate, written
from interlock.tools.failure import ToolFailure


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("0.1 + 0.2", "0.3"),
        ("3 * 39.90", "119.7"),
        ("119.70 * 0.15", "17.955"),
        ("round(119.70 * 0.15, 2)", "17.96"),
        ("round(0.125, 2)", "0.13"),
        ("round(-0.125, 2)", "-0.13"),
        ("round(1234.5, -2)", "1200"),
        ("round(2.5)", "3"),
        ("7 // 2", "3"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("7.5 % 2", "1.5"),
        ("-2 ** 2", "-4"),
        ("(-2) ** 2", "4"),
        ("2 ** 3 ** 2", "512"),
        ("2 ** -2", "0.25"),
        ("2 - 3 - 4", "-5"),
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("--3", "3"),
        ("+.5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("1.5e-2", "0.015"),
        ("0 ** 0", "1"),
        ("min(3, 1, 2) + max(1, 2) - abs(-3)", "0"),
        ("MAX(1, 2)", "2"),
        ("1 / 7 * 7", "1"),
        ("10 ** 30 + 1", "1000000000000000000000000000001"),
        ("1 / 3", "0.33333333333333333333"),
        ("-1 / 3", "-0.33333333333333333333"),
        ("2 ** -40", "9.0949470177292823792E-13"),
    ],
)
def test_an_expression_is_calculated_exactly(expression: str, value: str):
    assert written(calculate(expression)) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [("3 × 4", "12"), ("12 ÷ 4", "3"), ("5 − 2", "3"), ("2^10", "1024"), ("２＋３", "5"), ("٣ * ٤", "12"), ("1\u00a0+\u20092", "3")],  # noqa: RUF001 - what people type
)
def test_typographic_signs_and_digits_are_accepted(expression: str, value: str):
    assert written(calculate(expression)) == value


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("1 / 0", "Division by zero"),
        ("1 // 0", "Division by zero"),
        ("1 % 0", "Division by zero"),
        ("0 ** -1", "Division by zero"),
        ("9 ** 9 ** 9", "too large"),
        ("9 ** 9 ** 9 ** 9", "too large"),
        ("1e999999999", "too large"),
        ("1e-99999999999999999999", "too large"),
        ("2 ** 0.5", "whole number"),
        ("1,299.00 * 2", "without commas"),
        ("3²", "'²'"),
        ("15% of 80", "not valid"),
        ("€39.90", "'€'"),
        ("", "empty"),
        (" \t", "empty"),
        ("2 +", "not valid"),
        ("(2", "never closed"),
        ("2 3", "not valid"),
        ("1.2.3", "not valid"),
        ("2)", "unmatched"),
        ("()", "unexpected ','"),
        ("min()", "with their arguments"),
        ("abs(1, 2)", "'abs' takes one"),
        ("round(1, 2, 3)", "'round' takes"),
        ("round(1, 0.5)", "'round' takes"),
        ("round(1, 10 ** 9)", "'round' takes"),
        ("pow(2, 3)", "Use only"),
        ("min", "Use only"),
        ("__import__('os').system('true')", "unexpected '_'"),
        ("(lambda: 1)()", "unexpected ':'"),
        ("1 if 1 else 2", "Use only"),
        ("[1]", "unexpected"),
        ("1\x00", "unexpected 'U.0000'"),
        ("1\ud800", "unexpected 'U.D800'"),
    ],
)
def test_an_invalid_expression_is_rejected_with_a_reason(expression: str, sentence: str):
    with pytest.raises(ToolFailure, match=sentence) as caught:
        calculate(expression)
    assert str(caught.value).endswith(".")


def test_an_expression_over_the_length_limit_is_rejected():
    with pytest.raises(ToolFailure, match="the limit is 200"):
        calculate("1" * (MAX_LENGTH + 1))


@pytest.mark.parametrize(("opening", "closing"), [("-", ""), ("2**", ""), ("abs(", ")")])
def test_deep_nesting_is_rejected(opening: str, closing: str):
    times = (MAX_LENGTH - 1) // max(len(opening) + len(closing), 1)
    assert times > MAX_DEPTH
    with pytest.raises(ToolFailure, match="deep"):
        calculate(opening * times + "1" + closing * times)


def test_numbers_over_the_size_limit_are_rejected():
    assert calculate(f"2 ** {MAX_BITS - 1}").numerator.bit_length() == MAX_BITS
    for expression in (
        f"2 ** {MAX_BITS}",
        f"3 ** {MAX_BITS}",
        f"(1/3) ** {MAX_BITS}",
        "(2 ** 2000) * (2 ** 2000)",
        "(2 ** 2000) / (3 ** -1000)",
    ):
        with pytest.raises(ToolFailure, match="too large"):
            calculate(expression)


async def test_a_result_has_the_expression_the_value_and_whether_it_is_exact():
    assert await evaluate("3 * 39.90") == {"expression": "3 * 39.90", "value": "119.7", "exact": True}
    assert await evaluate("1 / 3") == {"expression": "1 / 3", "value": "0.33333333333333333333", "exact": False}


@dataclass(frozen=True)
class Sum:
    """An expression, and its value by Fraction; None where it divides by zero."""

    text: str
    value: Fraction | None


OPERATORS: dict[str, Callable[[Fraction, Fraction], Fraction | int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def combined(left: Sum, sign: str, right: Sum) -> Sum:
    text = f"({left.text} {sign} {right.text})"
    if left.value is None or right.value is None or (sign in ("/", "//", "%") and right.value == 0):
        return Sum(text, None)
    return Sum(text, Fraction(OPERATORS[sign](left.value, right.value)))


def negated(inner: Sum) -> Sum:
    return Sum(f"-{inner.text}", None if inner.value is None else -inner.value)


def raised(inner: Sum, power: int) -> Sum:
    is_defined = inner.value is not None and not (inner.value == 0 and power < 0)
    value = inner.value**power if is_defined and inner.value is not None else None
    return Sum(f"({inner.text}) ** {power}", value)


numbers = st.decimals(min_value=0, max_value=1000, places=2).map(lambda number: Sum(str(number), Fraction(number)))
sums = st.recursive(
    numbers,
    lambda inner: st.one_of(
        st.builds(combined, inner, st.sampled_from(sorted(OPERATORS)), inner),
        inner.map(negated),
        st.builds(raised, inner.map(lambda made: Sum(f"({made.text})", made.value)), st.integers(-3, 3)),
    ),
    max_leaves=6,
)


@given(sums.filter(lambda made: len(made.text) <= MAX_LENGTH))
def test_every_expression_has_the_same_value_as_with_fractions(made: Sum):
    if made.value is None:
        with pytest.raises(ToolFailure, match="zero"):
            calculate(made.text)
        return
    assert calculate(made.text) == made.value
    shown = Fraction(Decimal(written(made.value)))
    assert shown == made.value or abs(shown - made.value) <= abs(made.value) / 10**19


@given(st.one_of(st.text(max_size=300), st.text("0123456789.+-*/%()^e,x×÷ minaxroudbs", max_size=300)))  # noqa: RUF001 - what people type
def test_any_text_is_calculated_or_rejected_in_bounded_time(text: str):
    began = time.perf_counter()
    with suppress(ToolFailure):
        written(calculate(text))
    assert time.perf_counter() - began < 10
