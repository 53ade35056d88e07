"""Exact arithmetic with limits. Python's parser reads an expression, which is never run as code."""

from __future__ import annotations

import ast
import operator
import re
import unicodedata
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Annotated

from pydantic import Field, JsonValue

from interlock.capabilities.capability import asks
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


@asks
async def evaluate(expression: Expression) -> dict[str, JsonValue]:
    """Calculate an arithmetic expression exactly, such as 3 * 39.90 or round(119.70 * 0.15, 2). % is the remainder."""
    value = calculate(expression)
    text = written(value)
    return {"expression": expression, "value": text, "exact": Fraction(text) == value}


def calculate(expression: str) -> Fraction:
    """Return the value of an expression. Raises ToolFailure if it is invalid or exceeds a limit."""
    if len(expression) > MAX_LENGTH:
        raise ToolFailure(f"The expression has {len(expression):,} characters; the limit is {MAX_LENGTH}.")
    tokens = _tokens(expression)
    if not tokens:
        raise ToolFailure("The expression is empty.")
    return _Evaluator(tokens).evaluate()


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


class _Evaluator:
    """Calculates the syntax tree of an expression in which numbers are replaced by names, so that they stay exact."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._numbers = {f"n{at}": _number(text) for at, (kind, text) in enumerate(tokens) if kind == "number"}
        self._source = " ".join(f"n{at}" if kind == "number" else text.lower() for at, (kind, text) in enumerate(tokens))

    def evaluate(self) -> Fraction:
        try:
            tree = ast.parse(self._source, mode="eval").body
        except SyntaxError as error:
            raise ToolFailure(f"The expression is not valid: {error.msg.rstrip('.')}.") from None
        return self._value(tree, MAX_DEPTH)

    def _value(self, node: ast.expr, depth: int) -> Fraction:
        if not depth:
            raise ToolFailure(f"The expression is nested more than {MAX_DEPTH} deep.")
        match node:
            case ast.Name(id=name) if name in self._numbers:
                return self._numbers[name]
            case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
                value = self._value(operand, depth - 1)
                return -value if isinstance(sign, ast.USub) else value
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
                # A long sum nests on its left side only, which is not counted.
                value, other = self._value(left, depth), self._value(right, depth - 1)
                if other == 0 and isinstance(sign, ast.Div | ast.FloorDiv | ast.Mod):
                    raise ToolFailure("Division by zero.")
                return _bounded(_OPERATORS[type(sign)](value, other))
            case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments, keywords=[]) if name in _FUNCTIONS:
                return _FUNCTIONS[name]([self._value(argument, depth - 1) for argument in arguments])
            case ast.Tuple():
                raise ToolFailure("The expression has an unexpected ','. Write numbers without commas.")
            case _:
                raise ToolFailure(f"Use only numbers, + - * / // % ** ( ), and {', '.join(_FUNCTIONS)} with their arguments.")


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


_OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: lambda value, other: Fraction(value // other),
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Callable[[list[Fraction]], Fraction]] = {"min": min, "max": max, "round": _round, "abs": _abs}
