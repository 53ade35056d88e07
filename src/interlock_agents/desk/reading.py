"""Parses the products of a message: name, quantity, price limit, and words that could not be used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypedDict

from interlock_agents.desk.quantities import LEAST_SIZE, masked, take_budget, take_quantity, unmasked
from interlock_agents.desk.vocabulary import pattern_of
from interlock_agents.desk.words import ORDINALS, Text, content
from interlock_agents.shop.words import ATTRIBUTES

__all__ = ["CHEAPEST", "DEAREST", "Line", "Shown", "asides_in", "chosen", "line_of", "lines_of", "name_words"]


class Shown(TypedDict):
    """A product that the customer has been shown."""

    sku: str
    name: str


class Line(TypedDict, total=False):
    """A requested product.

    `only` asks for the first in the `order`. `why` says what could not be understood; where it is `unsure`, the rest is not certain,
    and where it is `unpriced`, it is the price.
    """

    product: str
    prefer: str
    sku: str
    quantity: int | None
    maybe: int
    least: float
    most: float
    order: str
    only: bool
    or_alone: bool
    unpriced: bool
    why: str
    unsure: bool


CHEAPEST = pattern_of("cheapest")
DEAREST = pattern_of("dearest")
_ONLY = re.compile(r"\b(?:cheapest|dearest|priciest|least|most|lowest|highest)\b(?!.*\bones\b)")
_NUMBERED = re.compile(
    rf"\b(?:the |number |no\.? |nr\.? |option |choice )?(?P<word>{'|'.join([*ORDINALS, 'last'])})(?: one| option| product| item)?\b|"
    r"(?:\b(?:number|no\.?|nr\.?|option|choice) ?|#)(?P<digit>\d+)\b"
)
_THIS = re.compile(r"\b(?:it|its|that|this|them|they|those|these|the same|same)(?: (?:one|ones))?\b")
_NOT = pattern_of("not")
_LOOKED_FOR = pattern_of("looked_for")
_ALL_ASIDES = re.compile("|".join(pattern_of(name).pattern for name in ("looked_for", "asides", "purpose")))
_DIGITS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_KEPT = frozenset({"with", "without"})


def asides_in(text: Text) -> list[str]:
    """Remove asides: for whom, until when and why something is wanted."""
    found: list[str] = []

    def taken(one: re.Match[str]) -> str:
        if _LOOKED_FOR.fullmatch(one[0]):
            return one[0]
        found.append(unmasked(one[0]).strip(" ,.;"))
        return " ~ "

    text.rest = " ".join(_ALL_ASIDES.sub(taken, text.rest).split())
    return found


def name_words(text: str) -> str:
    """Return the words of a text that may be part of a product's name."""
    says = set(content(text)) | _KEPT
    found = [word.removesuffix("'s") for word in re.findall(r"[^\W_]+(?:['-][^\W_]+)*", text)]
    while found and found[-1] in _KEPT:
        found = found[:-1]
    return " ".join(word for word in found if word in says)


def line_of(text: str, shown: Sequence[Shown] = ()) -> Line:
    """Parse one product in masked text. Products shown before can be named by their number or by "it"."""
    line, rest = _priced(re.sub(r"\bwith no\b|(?<=[a-z]),? no (?=[a-z]+s\b)", " without ", text))
    number = _NUMBERED.search(rest) if shown else None
    if number is not None and not re.search(r"\bstep\b", rest):
        product = _numbered(number, shown)
        if product is None:
            return {**line, "why": f"There {'is' if len(shown) == 1 else 'are'} only {len(shown)} to choose from."}
        line |= {"sku": product["sku"], "product": product["name"]}
        rest = _NUMBERED.sub(" ", rest)
    counted, left = _counted(line, rest)
    second = take_quantity(left)[0] if counted.get("quantity") else None
    if second is not None and second.is_sure and (second.value is None or second.value < LEAST_SIZE):
        why = f"I cannot tell how many you want: “{counted.get('quantity')}” or “{second.said}”."
        return {**counted, "product": unmasked(name_words(left)), "why": why, "unsure": True}
    negated = _NOT.search(left)
    if negated is not None and content(negated[0].split(" ", 1)[-1]):
        return {**counted, "why": f"I cannot look for what something is not (“{unmasked(negated[0])}”). Say what it should be instead."}
    words = unmasked(name_words(left))
    if "sku" in counted:
        is_known = set(words.split()) <= set(counted.get("product", "").lower().split()) or "why" in counted
        return counted if is_known else {**counted, "why": f"I did not understand “{words}”."}
    if not words and _THIS.search(rest) and shown and "order" not in counted:
        return _this(counted, shown)
    if words.endswith("s") and counted.get("only"):  # "the cheapest desks" are several
        counted["only"] = False
    if words.isdigit() and "maybe" in counted:  # a number alone is no name
        return {**counted, "product": "", "quantity": counted["maybe"]}
    return {**counted, "product": words}


def _priced(text: str) -> tuple[Line, str]:
    """Parse the price limit of a product and whether the cheapest is meant, and return the rest of the text."""
    line: Line = {"quantity": None}
    budget, text = take_budget(text)
    if budget is not None and budget.why:
        line |= {"why": f"“{unmasked(budget.said)}”: {budget.why}", "unpriced": True}
    if budget is not None and budget.least is not None:
        line["least"] = budget.least
    if budget is not None and budget.most is not None:
        line["most"] = budget.most
    rest = Text(text)
    for order, pattern in (("dearest", DEAREST), ("cheapest", CHEAPEST)):
        found = rest.take(pattern) if "order" not in line else None
        if found is not None:
            line |= {"order": order, "only": _ONLY.search(found[0]) is not None}
    return line, rest.rest


def _counted(line: Line, text: str) -> tuple[Line, str]:
    """Parse the quantity, and return the rest of the text."""
    quantity, left = take_quantity(text)
    if quantity is None:
        return line, left
    if quantity.why:
        return {**line, "why": f"“{quantity.said}”: {quantity.why}"}, left
    if quantity.value is not None and not quantity.is_sure:
        return {**line, "maybe": quantity.value}, left
    return {**line, "quantity": quantity.value}, left


def _numbered(found: re.Match[str], shown: Sequence[Shown]) -> Shown | None:
    number = len(shown) if found["word"] == "last" else ORDINALS[found["word"]] if found["word"] else int(found["digit"])
    return shown[number - 1] if 0 < number <= len(shown) else None


def _this(line: Line, shown: Sequence[Shown]) -> Line:
    if len(shown) == 1:
        return {**line, "sku": shown[0]["sku"], "product": shown[0]["name"]}
    names = "; ".join(f"{number}. {one['name']}" for number, one in enumerate(shown, 1))
    return {**line, "why": f"Which one do you mean: {names}?"}


_AND = re.compile(
    r"\s*(?:,(?! ?\d{3}\b)|;|\+|&|\band also\b|\band\b|\bplus\b|\bas well as\b|\bor\b|\bvs\.?|\bversus\b|\bthan (?=the\b|an?\b))\s*"
)
_BEGINS = re.compile(r"^\s*(?:and )?(?:also )?(?:an?|the|some|another|one|two|three|four|five|six|seven|eight|nine|ten|\d+|half|then)\b")


def lines_of(text: str, shown: Sequence[Shown] = ()) -> list[Line]:
    """Parse every product of a message, in masked text."""
    whole, is_priced = take_quantity(text)[0], take_budget(text)[0] is not None
    is_one = (whole is not None and bool(whole.why)) or (is_priced and len(_parts(take_budget(text)[1])) == 0)
    parts = [text] if is_one else _parts(text)
    if len(parts) <= 1:
        return [line_of(text, shown)]
    if is_priced and not all(take_budget(part)[0] for part in parts):
        lines = _shared_budget(text, parts, shown)
    else:
        lines = [line_of(part, shown) for part in parts]
    _joined(lines, parts)
    # "Black and blue notebooks" are both notebooks, "an oak and a walnut desk" both desks; "a desk and an office chair" are two things.
    last = lines[-1].get("product", "").split()
    for at, line in enumerate(lines[:-1]):
        one = line.get("product", "").split()
        is_part = bool(one) and (all(word in ATTRIBUTES for word in one) or (len(one) == 1 and not _BEGINS.match(parts[at + 1])))
        if is_part and len(last) > 1 and "sku" not in line:
            line["prefer"] = " ".join(last)
    return [line for line in lines if _is_named(line)]


def _joined(lines: list[Line], parts: Sequence[str]) -> None:
    """Merge the parts of a message about one product."""
    for at in range(len(lines) - 1, 0, -1):  # "a stapler, the small one"
        if _THE_ONE.match(parts[at]) and lines[at].get("product") and not lines[at].get("quantity"):
            lines[at - 1]["product"] = f"{lines[at].get('product', '')} {lines[at - 1].get('product', '')}".strip()
            lines[at]["product"] = ""
    for line, before in zip(lines[1:], lines, strict=False):  # "the cheapest rug and the most expensive one"
        if not line.get("product") and not line.keys().isdisjoint({"order", "most", "least"}):
            line["product"] = before.get("product", "")
    for line, before in zip(lines[1:], lines, strict=False):  # "bulbs, five of them"
        if line.get("quantity") and not line.get("product") and "sku" not in line and not before.get("quantity"):
            before["quantity"] = line.get("quantity")
            line["quantity"] = None
    _doubted(lines, parts)
    for at in range(1, len(lines)):  # "two black pens and a red one": a red pen
        if re.search(r"\bones?\b", parts[at]) and lines[at].get("product"):
            lines[at]["prefer"] = lines[at - 1].get("product", "")


def _is_named(line: Line) -> bool:
    return bool(line.get("product") or line.get("sku") or line.get("why"))


def _doubted(lines: list[Line], parts: Sequence[str]) -> None:
    """Mark a quantity without a product."""
    if lines[0].get("quantity") and not _is_named(lines[0]) and any(map(_is_named, lines)):  # "3 and 2 green pens"
        lines[0] |= {"why": f"I cannot tell what “{unmasked(parts[0].strip())}” is about.", "unsure": True}
    for line, before, part in zip(lines[1:], lines, parts[1:], strict=False):  # "four chairs, two with armrests and two without"
        is_share = (
            before.get("quantity")
            and not re.search(r"^and\b|\bones?\W*$", part)
            and all(word in ATTRIBUTES for word in line.get("product", "").split())
        )
        if line.get("quantity") and "sku" not in line and (is_share or not line.get("product") or _MORE_OF_IT.match(part)):
            line |= {"why": line.get("why") or f"I cannot tell what “{unmasked(part.strip())}” is about.", "unsure": True}


_THE_ONE = re.compile(r"\s*(?:please |pls )?the (?:\w+ ){1,3}(?:ones?|kind|version|type|size)\W*$")
_MORE_OF_IT = re.compile(rf"\s*(?:and )?(?:the )?(?:\d+|{'|'.join(_DIGITS)}) (?:with|without|in|for|of each|each|as)\b")


def _parts(text: str) -> list[str]:
    """Split a message at the next product. The text after a comma can describe the same one: "a desk, walnut".

    A part that begins with "and" keeps it: it is about something else than the part before it.
    """
    breaks = list(_AND.finditer(text))
    is_list = bool(breaks) and (breaks[-1][0].strip() != "," or _are_names(_AND.split(text)))
    cuts = [one for one in breaks if is_list or one[0].strip() != "," or _BEGINS.match(text[one.end() :])]
    ends = [*(one.start() for one in cuts), len(text)]
    starts = [0, *(one.start() if re.search("and|than", one[0]) else one.end() for one in cuts)]
    parts = [text[start:end].lstrip(" ,;") for start, end in zip(starts, ends, strict=True)]
    return [part for part in parts if content(unmasked(part)) or re.search(r"\d", part)]


def _are_names(parts: Sequence[str]) -> bool:
    """Return whether parts between commas are different products, as in "pens, paper, stapler"."""
    names = [name_words(part).split() for part in parts]
    return all(0 < len(words) <= _SHORT_NAME and not all(word in ATTRIBUTES or not word.isalpha() for word in words) for words in names)


_SHORT_NAME = 2  # words


def _shared_budget(text: str, parts: Sequence[str], shown: Sequence[Shown]) -> list[Line]:
    """Parse products with one price limit for all of them."""
    priced = line_of(text, shown)
    bounds = {name: value for name, value in priced.items() if name in {"least", "most", "order"}}
    _, left = take_budget(text)
    found: list[Any] = [{**line_of(part, shown), **bounds} for part in _parts(left) if content(unmasked(part))]
    return found or [line_of(part, shown) for part in parts]


def chosen(text: str, options: Sequence[Shown]) -> Shown | None:
    """Find the one option that an answer names by its number or by words that only it has."""
    number = re.fullmatch(rf"\W*(?:number |no\.? ?|#|option )?(\d+|{'|'.join(_DIGITS)})\W*", text)
    if number is not None:
        at = _DIGITS.get(number[1]) or int(number[1])
        if at <= len(options) or at < LEAST_SIZE:
            return options[at - 1] if 0 < at <= len(options) else None
    words = set(content(unmasked(masked(text))))
    fits = [one for one in options if words and words <= _all_forms(one)]
    return fits[0] if len(fits) == 1 else None


def _all_forms(one: Shown) -> set[str]:
    words = set(re.findall(r"[^\W_]+(?:-[^\W_]+)*", f"{one['name']} {one['sku']}".casefold()))
    return words | {f"{word}s" for word in words}
