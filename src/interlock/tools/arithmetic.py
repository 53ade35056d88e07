"""Exact arithmetic with limits. Expressions are parsed here and never run as code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import Field, JsonValue

from interlock.tools.failure import ToolFailure

__all__ = ["MAX_BITS", "MAX_DEPTH", "MAX_LENGTH", "calculate", "evaluate", "written"]

MAX_LENGTH = 200
"""Longest expression, in characters."""

MAX_DEPTH = 32
"""Deepest nesting of brackets, signs and powers."""

MAX_BITS = 2048
"""Largest numerator or denominator, in bits. Expressions without powers stay far below."""

_DECIMALS = 30  # a number with at most this many decimals is written in full
_DIGITS = 20  # other numbers are rounded to this many significant digits

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z]+)|(?P<sign>\*\*|//|[-+*/%(),]))", re.ASCII
)
_SIGNS = str.maketrans({"×": "*", "÷": "/", "∕": "/", "⁄": "/", "−": "-", "–": "-", "^": "**"})  # noqa: RUF001 - what people type
_FULL_WIDTH = range(0xFF01, 0xFF5F)

Expression = Annotated[str, Field(max_length=MAX_LENGTH, description="numbers with + - * / // % ** ( ), and min, max, round, abs")]


async def evaluate(expression: Expression) -> dict[str, JsonValue]:
    """Calculate an arithmetic expression exactly, such as 3 * 39.90 or round(119.70 * 0.15, 2). % is the remainder."""
    value = calculate(expression)
    text = written(value)
    return {"expression": expression, "value": text, "exact": Fraction(text) == value}


def calculate(expression: str) -> Fraction:
    """Return the value of an expression. Raises ToolFailure if it is invalid or exceeds a limit."""
    if len(expression) > MAX_LENGTH:
        raise ToolFailure(f"The expression has {len(expression):,} characters; the limit is {MAX_LENGTH}.")
    return _Parser(expression).parse()


def written(value: Fraction) -> str:
    """Format a number as a decimal: in full if it has few decimals, otherwise rounded."""
    twos, fives, rest = 0, 0, value.denominator
    while rest % 2 == 0:
        twos, rest = twos + 1, rest // 2
    while rest % 5 == 0:
        fives, rest = fives + 1, rest // 5
    places = max(twos, fives)
    if rest != 1 or places > _DECIMALS:
        context = Context(prec=_DIGITS)
        return str(context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context))
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else f"{sign}{digits}"


class _Parser:
    """Recursive-descent parser that calculates while it parses: sums of products of powers."""

    def __init__(self, expression: str) -> None:
        self._tokens = _tokens(expression)
        self._at = 0
        self._depth = 0

    def parse(self) -> Fraction:
        if not self._tokens:
            raise ToolFailure("The expression is empty.")
        value = self._sum()
        if self._at < len(self._tokens):
            raise self._unexpected()
        return value

    def _sum(self) -> Fraction:
        value = self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            value = _bounded(value + other if sign == "+" else value - other)
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while sign := self._take("*", "/", "//", "%"):
            other = self._signed()
            if sign != "*" and other == 0:
                raise ToolFailure("Division by zero.")
            value = _bounded(_PRODUCTS[sign](value, other))
        return value

    def _signed(self) -> Fraction:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ToolFailure(f"The expression is nested more than {MAX_DEPTH} deep.")
        sign = self._take("+", "-")
        value = self._signed() if sign else self._power()
        self._depth -= 1
        return -value if sign == "-" else value

    def _power(self) -> Fraction:
        base = self._atom()
        return _power(base, self._signed()) if self._take("**") else base

    def _atom(self) -> Fraction:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind == "number":
            self._at += 1
            return _number(text)
        if kind == "name":
            self._at += 1
            return self._call(text)
        if not self._take("("):
            raise self._unexpected()
        value = self._sum()
        self._close()
        return value

    def _call(self, name: str) -> Fraction:
        function = _FUNCTIONS.get(name.lower())
        if function is None or not self._take("("):
            raise ToolFailure(f"'{name}' is unknown. Use numbers, + - * / // % ** ( ), and {', '.join(_FUNCTIONS)}.")
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._close()
        return function(arguments)

    def _close(self) -> None:
        if not self._take(")"):
            raise self._unexpected()

    def _take(self, *signs: str) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at] in {("sign", sign) for sign in signs}:
            self._at += 1
            return self._tokens[self._at - 1][1]
        return ""

    def _unexpected(self) -> ToolFailure:
        if self._at >= len(self._tokens):
            return ToolFailure("The expression ends too early.")
        text = self._tokens[self._at][1]
        hint = " Write numbers without commas." if text == "," else ""
        return ToolFailure(f"The expression has an unexpected '{text}'.{hint}")


def _tokens(expression: str) -> list[tuple[str, str]]:
    """Split an expression into tokens. Digits of other scripts and typographic signs are converted to ASCII."""
    # Not NFKC: it would turn 3² into 32.
    ascii_digits = "".join(_ascii(letter) for letter in expression.translate(_SIGNS)).rstrip()
    tokens: list[tuple[str, str]] = []
    at = 0
    while at < len(ascii_digits):
        match = _TOKEN.match(ascii_digits, at)
        if match is None:
            letter = ascii_digits[at:].lstrip()[0]
            raise ToolFailure(f"The expression has an unexpected '{letter if letter.isprintable() else f'U+{ord(letter):04X}'}'.")
        tokens.append((str(match.lastgroup), match.group(str(match.lastgroup))))
        at = match.end()
    return tokens


def _ascii(letter: str) -> str:
    if ord(letter) in _FULL_WIDTH:
        return chr(ord(letter) - 0xFEE0)
    if letter.isspace():
        return " "
    digit = unicodedata.decimal(letter, None)
    return letter if digit is None else str(digit)


def _number(text: str) -> Fraction:
    mantissa, _, exponent = text.lower().partition("e")
    return _bounded(Fraction(mantissa) * _power(Fraction(10), Fraction(int(exponent))) if exponent else Fraction(mantissa))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    """Raise to a power, after an estimate of the size of the result."""
    if exponent.denominator != 1:
        raise ToolFailure("An exponent must be a whole number.")
    if base == 0 and exponent < 0:
        raise ToolFailure("Division by zero.")
    least = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
    if least * abs(exponent.numerator) > MAX_BITS:
        raise ToolFailure("The numbers become too large.")
    return _bounded(Fraction(base) ** exponent.numerator)


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ToolFailure("The numbers become too large.")
    return value


def _round(arguments: list[Fraction]) -> Fraction:
    """Round half away from zero."""
    places = arguments[1] if len(arguments) > 1 else Fraction(0)
    if len(arguments) > 2 or places.denominator != 1 or abs(places) > _DECIMALS:  # noqa: PLR2004 - a number and its places
        raise ToolFailure(f"'round' takes a number and the number of decimals, at most {_DECIMALS}.")
    scaled = arguments[0] * Fraction(10) ** places.numerator
    whole = (abs(scaled) + Fraction(1, 2)).__floor__()
    return Fraction(whole if scaled >= 0 else -whole) / Fraction(10) ** places.numerator


def _abs(arguments: list[Fraction]) -> Fraction:
    if len(arguments) != 1:
        raise ToolFailure("'abs' takes one number.")
    return abs(arguments[0])


_PRODUCTS: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "*": lambda value, other: value * other,
    "/": lambda value, other: value / other,
    "//": lambda value, other: Fraction(value // other),
    "%": lambda value, other: value % other,
}
_FUNCTIONS: dict[str, Callable[[list[Fraction]], Fraction]] = {"min": min, "max": max, "round": _round, "abs": _abs}
