"""Parses quantities and price limits. A number is parsed completely or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["LEAST_SIZE", "NUMBER", "ONE_NUMBER", "Budget", "Quantity", "masked", "take_budget", "take_quantity", "unmasked"]

_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_VALUES = {word: number for number, word in enumerate(_UNITS)} | {word: 10 * number for number, word in enumerate(_TENS, 2)}
_SCALES = {"hundred": 100, "thousand": 1000}
_WORD = rf"(?:{'|'.join([*_VALUES, *_SCALES])})"
_SPELLED = rf"(?:a (?=hundred|thousand))?{_WORD}(?:(?:[ -]| and ){_WORD})*"
NUMBER = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d+|{_SPELLED})"
_MOST = 1_000_000
LEAST_SIZE = 20
"""From here on a number among the words of a name may be a size, as in "5 oak desks 120"."""
_BEGINNING = -1

_SIZES = r"cm|mm|m|inch|inches|watts?|w|kg|tiers?|drawers?|sheets?|people|persons?|years?|days?|weeks?|months?|hours?|minutes?"
_OF_A_PRODUCT = re.compile(
    rf"\b\d\d+ ?x ?\d\d+(?: ?(?:cm|mm|m)\b)?|\b\d+(?:[.,]\d+)?[ -]?(?:(?:{_SIZES})\b|%)|\bpacks? of \d+\b|"
    r"\b(?!x\d)[a-z]+-?\d+\w*\b|\b\d+[a-z]\b"
)
_AND = re.compile(rf"\b(hundred|thousand) and (?={_WORD}\b)")
_COUNTED = r"tiers?|drawers?|sheets?|people|persons?|years?|months?|weeks?|days?|hours?|minutes?"
_SPELLED_SIZE = re.compile(rf"\b({'|'.join(_UNITS[1:])})(?= (?:{_COUNTED})\b)|(?<=\bpack of )(ten)\b|(?<=\bpacks of )(ten)\b")
# Georgian letters: they are letters and not digits, and the demo shop does not use them.
_HIDDEN = "".join(chr(0x10D0 + digit) for digit in range(10))
_MASK = str.maketrans("0123456789", _HIDDEN)
_UNMASK = str.maketrans(_HIDDEN, "0123456789")


@dataclass(frozen=True)
class Quantity:
    """A quantity. If `value` is None, `why` says what is wrong.

    A number at the end of a name may be part of the name. It is then unsure, and also stays in the text.
    """

    said: str
    value: int | None = None
    why: str = ""
    is_sure: bool = True


@dataclass(frozen=True)
class Budget:
    """A price limit. If `why` is not empty, the price could not be parsed."""

    said: str
    least: float | None = None
    most: float | None = None
    why: str = ""


_SPELLED_PRICE = re.compile(
    rf"(?:(?<=under )|(?<=below )|(?<=over )|(?<=above ))(?:{_SPELLED})\b|\b(?:{_SPELLED})(?= ?(?:€|eur\b|euros?\b))"
)


def masked(text: str) -> str:
    """Hide numbers that are part of a product, such as 120 cm, A4 or 4 tiers.

    Sizes and prices in words become digits.
    """
    text = _SPELLED_PRICE.sub(lambda found: str(_value(found[0]) or found[0]), text)
    spelled = _SPELLED_SIZE.sub(lambda found: str(_VALUES[found[0]]), _AND.sub(r"\1 ", text))
    return _OF_A_PRODUCT.sub(lambda found: found[0].translate(_MASK), spelled)


def unmasked(text: str) -> str:
    """Show the hidden numbers again."""
    return text.translate(_UNMASK)


def _value(said: str) -> int | None:
    """Parse a number in digits or words, or return None."""
    if said[0].isdigit():
        return int(said.replace(",", ""))
    total, current, last = 0, 0, _BEGINNING
    for word in re.split(r"[ -]", said):
        if word in {"and", "a"}:
            continue
        if word in _SCALES:
            current, last = max(current, 1) * _SCALES[word], _BEGINNING
            if word == "thousand":
                total, current = total + current, 0
            continue
        value = _VALUES[word]
        # After "twenty" one of "one" to "nine" makes a number; "two three" and "thirty twelve" are two of them.
        if last != _BEGINNING and (last < _VALUES["twenty"] or value >= _VALUES["ten"]):
            return None
        current, last = current + value, value
    return total + current


_WHOLE = "Only whole pieces can be ordered."
ONE_NUMBER = "That is not one number."
_LEAST = "It has to be at least 1."
_ROUGH = (
    r"(?:about|around|approx(?:imately)?|roughly|at least|at most|up to|more than|less than|fewer than|over|max(?:imum)?|min(?:imum)?|"
    r"maybe|nearly|almost)"
)
_VAGUE = (
    r"\b(?:a few|several|many of|lots of|loads of|a lot of|a bunch of|a handful of|plenty of|dozens(?: of)?|hundreds(?: of)?|"
    r"thousands(?: of)?|as many as (?:you have|possible)|all (?:of them|you have|of it)|enough (?=[a-z]+s\b))\b"
)
_WRONG = tuple(
    (re.compile(pattern), why)
    for pattern, why in (
        (rf"\b(?:between|from) {NUMBER} (?:and|to|-) {NUMBER}\b", ONE_NUMBER),
        (rf"(?<![\w.,-])(?:(?:{NUMBER}) (?:to|or) (?:{NUMBER})|\d+ ?[-/] ?\d+)\b(?! ?(?:{_SIZES})\b)", ONE_NUMBER),
        (rf"\b{NUMBER} and (?:a half|a quarter|a third|one half)\b|\b(?!\d{{1,3}}(?:,\d{{3}})+\b)\d+[.,]\d+\b|½", _WHOLE),
        (r"\b(?:a )?dozen and a half\b|\bhalf an?\b(?! dozen)|\b(?:a )?(?:half|third|quarter) of an?\b|\ba (?:third|quarter)\b", _WHOLE),
        (rf"(?<![\w-])(?:-|minus |negative ){NUMBER}\b", _LEAST),
        (rf"\b{_ROUGH} (?:{NUMBER}|a dozen|half a dozen|a couple)\b|\b(?:{NUMBER})(?: or so|ish|-ish)\b|\b\d+\+(?= |$)", ONE_NUMBER),
        (_VAGUE, ONE_NUMBER),
        (rf"\b(?:only|just) {NUMBER}\?(?= )", "I cannot tell whether that is how many you want."),
        (
            rf"\b(?:{NUMBER} )?(?:of|in) (?:each|every) (?:colou?r|size|kind|type|sort)s?\b|\ball (?:of )?(?:the )?{NUMBER}\b",
            "I cannot tell which ones you mean. Please say each product by its name.",
        ),
        (rf"(?<!down )(?<!go )(?<!much )\bfor {NUMBER}(?=\W*$)", "I cannot tell whether that is how many you want."),
        (r"\bhalf(?: of)? (?:them|these|those|of it)\b|\bthe (?:other half|rest of (?:them|it))\b", ONE_NUMBER),
    )
)
_RIGHT = tuple(
    (re.compile(pattern), factor)
    for pattern, factor in (
        (r"\bhalf (?:a )?dozen(?: of)?\b", 6),
        (r"\b(?:an? |one )?(?:couple|pair)(?: of)?\b|\btwice\b", 2),
        (rf"\b(?:(?P<n>{NUMBER})|a) dozen(?: of)?\b", 12),
        (rf"\b(?P<n>{NUMBER}) pairs(?: of)?\b", 2),
    )
)
_MARKED = re.compile(
    rf"\b(?:x|qty|quantity|quantity of|times) ?:? ?(?P<a>{NUMBER})\b(?![.,]\d)|"
    rf"(?<![\w.,-])(?P<b>{NUMBER}) ?(?:x\b|×|pcs\b|pieces\b|piece\b|units\b|items\b|of (?:the|them|these|those|it)\b|of\b)"  # noqa: RUF001 - what people type
)
_PLAIN = re.compile(
    rf"(?<![\w.,-])(?:(?P<n>\d{{1,3}}(?:,\d{{3}})+|\d+)|(?P<w>(?:a (?=hundred|thousand))?{_WORD}(?:(?:[ -]| and ){_WORD})*))"
    r"(?![\w-]|[.,]\d)"
)


def take_quantity(text: str) -> tuple[Quantity | None, str]:
    """Parse the quantity in masked text, and return the rest of the text."""
    for pattern, why in _WRONG:
        found = pattern.search(text)
        if found:
            return Quantity(unmasked(found[0].strip()), why=why), _without(text, found)
    for pattern, factor in _RIGHT:
        found = pattern.search(text)
        if found:
            said = found.groupdict().get("n")
            times = 1 if said is None else _value(said)
            return _checked(found[0], None if times is None else times * factor), _without(text, found)
    found = _MARKED.search(text)
    if found:
        return _checked(found[0], _value(found["a"] or found["b"])), _without(text, found)
    return _plain(text)


def _plain(text: str) -> tuple[Quantity | None, str]:
    """Find a number that is not part of another phrase."""
    for found in _PLAIN.finditer(text):
        before = text[: found.start()]
        leads = _LEADS.search(before) is not None or re.search(r"[?.!;:]\W*$", before) is not None
        if found["w"] == "one" and re.search(r"\w\W*$", before) and not leads and not re.search(r",\W*$", before):
            continue  # "the black one": no number
        quantity = _checked(found[0], _value(found[0]))
        is_inside = re.search(r"[a-z]{3,}\W*$", before) is not None and re.match(r"\W*[a-z]", text[found.end() :]) is not None
        if is_inside and not leads and found["n"] is not None and (quantity.value or 0) >= LEAST_SIZE:
            continue  # "oak 120 writing": a size
        is_last = re.search(r"[a-z]{3,}\W*$", before) is not None and re.search(r"[a-z]", text[found.end() :]) is None
        if is_last and not leads and found["n"] is not None and quantity.value is not None:
            return Quantity(quantity.said, quantity.value, is_sure=False), text
        return quantity, _without(text, found)
    return None, text


_LEADS = re.compile(
    r"\b(?:can|could|want|need|buy|order|take|like|have|get|just|only|me|for|purchase|make it|make that|to|it|is|them|please|say|and)\W*$"
)


def _checked(said: str, value: int | None) -> Quantity:
    if value is None:
        return Quantity(said.strip(), why=ONE_NUMBER)
    if value < 1:
        return Quantity(said.strip(), why=_LEAST)
    if value > _MOST:
        return Quantity(said.strip(), why=f"That is more than {_MOST:,}.")
    return Quantity(said.strip(), value)


def _without(text: str, found: re.Match[str]) -> str:
    return f"{text[: found.start()]} {text[found.end() :]}"


_AMOUNT = r"(?:€ ?|eur ?)?(?P<{0}>\d+(?:[.,]\d{{1,2}})?) ?(?P<{0}u>€|eur\b|euros?\b)?"
_FOREIGN = re.compile(
    r"(?:[$£¥] ?\d[\d.,]*|\d[\d.,]* ?(?:[$£¥]|(?:dollars?|usd|pounds?|gbp|quid|bucks|chf|francs?|yen)\b))(?: (?:or less|max))?"
)
_UNDER = (
    r"(?<!\w)(?:(?:for |costs? |that costs? )?(?:under|below|less than|cheaper than|up to|at most|no more than|not more than|"
    r"max(?:imum)?|within|<) ?(?:of )?)"
)
_BUDGETS = tuple(
    (re.compile(pattern), low, high)
    for pattern, low, high in (
        (rf"\b(?:between|from) {_AMOUNT.format('a')} (?:and|to|-) {_AMOUNT.format('b')}", "a", "b"),
        (rf"{_UNDER}{_AMOUNT.format('b')}", "", "b"),
        (rf"{_AMOUNT.format('b')} (?:or less|max(?:imum)?|at most|tops)\b", "", "b"),
        (rf"\b(?:budget (?:of|is)|i have|spend) {_AMOUNT.format('b')}", "", "b"),
        (rf"(?<!\w)(?:over|above|more than|at least|from|>) {_AMOUNT.format('a')}", "a", ""),
    )
)
_MONEY = re.compile(
    r"(?:about |around |for )?(?:€ ?|eur ?)\d+(?:[.,]\d{1,2})?|(?:about |around |for )?\d+(?:[.,]\d{1,2})? ?(?:€|eur\b|euros?\b)|"
    r"\b(?:for|at|costs?) \d+[.,]\d\d\b"
)


def take_budget(text: str) -> tuple[Budget | None, str]:
    """Parse the price limit in masked text, and return the rest of the text."""
    found = _FOREIGN.search(text)
    if found:
        return Budget(found[0], why="I only know the prices of the catalogue and cannot convert other currencies."), _without(text, found)
    for pattern, low, high in _BUDGETS:
        found = pattern.search(text)
        has_unit = found is not None and any(found[f"{name}u"] or re.search("€|eur", found[0]) for name in (low, high) if name)
        # "Under 50" is a price, "over 50" and "up to 5" may be a number of pieces.
        if found and (has_unit or re.match(r"\W*(?:for |costs? )?(?:under|below|cheaper than|less than|budget|spend)", found[0])):
            return Budget(found[0].strip(), _amount(found, low), _amount(found, high)), _without(text, found)
    found = _MONEY.search(text)
    if found:
        return Budget(found[0].strip(), why="I did not understand what to do with that price. You can say “under 50 euros”."), _without(
            text, found
        )
    return None, text


def _amount(found: re.Match[str], name: str) -> float | None:
    return float(found[name].replace(",", ".")) if name else None
