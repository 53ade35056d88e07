"""Answers of the offline rules about products and orders. They contain only what the catalogue has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, cast

from interlock_agents.desk.plans import ABILITIES, KNOWN, ORDER
from interlock_agents.desk.reading import Line, Shown
from interlock_agents.desk.roles import SpecialistResponse, StateUpdates
from interlock_agents.desk.session import Goal, Slots
from interlock_agents.shop.words import forms, words

__all__ = ["ended", "lines_in", "not_noted", "notes", "order_answer", "queries", "stock_answer", "summary_answer"]

Found = dict[str, Any]

_INSTEAD = "Which product would you like instead?"
# The maximum number of products in a list, and of similar products.
_AS_MANY, _AS_NEAR = 5, 3
_ASK_WHAT = "Ask “What do you sell?” to see what there is."
_NOT_SENT = "It is noted in this conversation and not sent anywhere yet."


def ended(message: str, **slots: Any) -> SpecialistResponse:
    """Return a message that ends the goal."""
    return SpecialistResponse(message=message, state_updates=StateUpdates(slots_patch=slots, mark_done=True))


def lines_in(goal: Goal) -> list[Line]:
    """Return the products that a goal is about."""
    return cast("list[Line]", goal.slots.get("lines") or [])


def queries(goal: Goal) -> list[dict[str, Any]]:
    """Return the search arguments for each product of a goal. A product with alternatives is also searched alone."""
    made: list[dict[str, Any]] = []
    for line in lines_in(goal):
        one: dict[str, Any] = {"query": line.get("sku") or line.get("product", "")}
        bounds = {"min_price": line.get("least"), "max_price": line.get("most"), "order": line.get("order")}
        one |= {name: value for name, value in bounds.items() if value is not None}
        if line.get("prefer"):
            made.append({**one, "prefer": line.get("prefer", "")})
        made.append(one)
    return made


def _paired(goal: Goal, results: Sequence[Found]) -> list[tuple[Line, Found]]:
    """Pair each product of a goal with its search result."""
    left = iter(results)
    pairs: list[tuple[Line, Found]] = []
    for line in lines_in(goal):
        found = next(left)
        alone = next(left) if line.get("prefer") else found
        # "Black and blue notebooks": black notebooks. "A desk and an office chair": no office chair is a desk.
        is_part = len(lines_in(goal)) > 1 or bool(line.get("or_alone"))
        if line.get("prefer") and is_part and not found["count"]:
            pairs.append((cast("Line", {name: value for name, value in line.items() if name != "prefer"}), alone))
        else:
            pairs.append(_with_number(line, found))
    return pairs


def _with_number(line: Line, found: Found) -> tuple[Line, Found]:
    """Use a number after a name as the quantity if no product has it in its name."""
    nearest, maybe = cast("Found", found.get("nearest") or {}), line.get("maybe")
    if found["count"] or maybe is None or nearest.get("without") != [str(maybe)]:
        return line, found
    name = " ".join(word for word in _wanted(line).split() if word != str(maybe))
    return {**line, "product": name, "quantity": maybe}, nearest


def _row(product: Found) -> str:
    return f"{product['name']} ({product['sku']}): {product['stock'] or 'none'} in stock, {product['price']} {product['currency']}"


def _shown(products: Sequence[Found]) -> list[Shown]:
    return [{"sku": str(one["sku"]), "name": str(one["name"])} for one in products[:_AS_MANY]]


def _read_as(found: Sequence[Found]) -> dict[str, str]:
    return {word: other for one in found for word, other in cast("dict[str, str]", one.get("read_as") or {}).items()}


def notes(goal: Goal, found: Sequence[Found] = ()) -> str:
    """List the words that were replaced, and the words that were not used."""
    said = [f"I read “{word}” as “{other}”." for word, other in _read_as(found).items()]
    asides = cast("list[str]", goal.slots.get("asides") or [])
    if asides:
        said.append(f"I did not take into account: {', '.join(f'“{one}”' for one in asides)}.")
    return "".join(f"\n{one}" for one in said)


def _wanted(line: Line) -> str:
    return line.get("product") or line.get("sku") or ""


def _label(line: Line) -> str:
    if line.get("prefer"):
        return f"“{_wanted(line)}” like “{line.get('prefer')}”"
    return f"“{_wanted(line)}”" if _wanted(line) else "what you ask for"


def _budget(line: Line, currency: str) -> str:
    least, most, unit = line.get("least"), line.get("most"), f" {currency}" if currency else ""
    if least is not None and most is not None:
        return f" between {least:g} and {most:g}{unit}"
    if most is not None:
        return f" for {most:g}{unit} or less"
    return f" for {least:g}{unit} or more" if least is not None else ""


def _missing(line: Line, found: Found) -> tuple[str, list[Found]]:
    """Say that there is no such product, and list similar ones."""
    wanted, nearest = _wanted(line), cast("Found", found.get("nearest") or {})
    if line.get("prefer"):
        return f"There is no “{wanted}” one like “{line.get('prefer')}”{_budget(line, '')} in the catalogue.", []
    near = cast("list[Found]", nearest.get("products") or [])
    if not near:
        unknown = cast("list[str]", found.get("unknown") or [])
        why = f": nothing there is called {_quoted(unknown)}" if 0 < len(unknown) < len(wanted.split()) else ""
        return f"There is no “{wanted}” in the catalogue{why}. {_ASK_WHAT}", []
    if "kind" in nearest:
        without = _quoted(nearest["without"])
        opening = f"There is no “{wanted}” in the catalogue among the {nearest['kind'].lower()}."
        return f"{opening} {f'Without {without} there is something' if without else 'There is something'} of another kind:", near
    if not nearest["without"]:
        none = f"There is no “{wanted}”{_budget(line, near[0]['currency'])} in the catalogue."
        return f"{none} Without that limit there are {nearest['count']}:", near
    opening = f"There is no “{wanted}” in the catalogue. Without {_quoted(nearest['without'])} I find"
    return f"{opening} {nearest['count']} for “{_kept(line, found)}”:" if nearest["count"] > 1 else f"{opening}:", near


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f"“{word}”" for word in words)


def _kept(line: Line, found: Found) -> str:
    """Return the requested words that the products found have."""
    near = cast("Found", found.get("nearest") or {})
    without, read_as = set(cast("list[str]", near.get("without") or [])), cast("dict[str, str]", found.get("read_as") or {})
    asked = [word for word in _wanted(line).split() if read_as.get(word, word) not in without]
    products = cast("list[Found]", found["products"] or near.get("products") or [])
    like = [word for word in line.get("prefer", "").casefold().split() if products and all(_has_word(one, word) for one in products)]
    kept = " ".join([*(word for word in like if word not in asked), *asked])
    return re.sub(r" (?:with|without|for)$", "", re.sub(r"(?<!\d) cm\b", "", kept))


def _has_word(product: Found, word: str) -> bool:
    said = words(f"{product['name']} {product['category']}")
    return any(not forms(word).isdisjoint(forms(one)) for one in said)


# questions


def stock_answer(goal: Goal, results: Sequence[Found]) -> SpecialistResponse:
    """List products with their price and stock."""
    if results and "categories" in results[0]:
        kinds = ", ".join(f"{name} ({count})" for name, count in results[0]["categories"].items())
        return ended(f"The catalogue has {results[0]['count']} products: {kinds}. Which of these would you like to see?")
    pairs = _paired(goal, results)
    opening = [_found(goal, line, found, alone=len(pairs) == 1) for line, found in pairs]
    shown = [one for line, found in pairs for one in _exact(line, found)] or cast(
        "list[Found]", pairs[0][1].get("nearest", {}).get("products", [])[:_AS_NEAR]
    )
    message = "\n\n".join(opening) + _compared(goal, pairs) + _added_up(pairs) + notes(goal, results)
    if not shown:
        return ended(message)
    asked, is_cut = " ".join(_kept(line, found) for line, found in pairs), any(found["count"] > _AS_MANY for _, found in pairs)
    for word, other in _read_as(results).items():
        asked = re.sub(rf"\b{re.escape(word)}\b", other, asked)
    return ended(message, shown=_shown(shown), asked=asked, cut=is_cut)


def _exact(line: Line, found: Found) -> list[Found]:
    """Return the one product that is named, the cheapest if only that is requested, or all products."""
    products = cast("list[Found]", found["products"])
    if line.get("only") and products:
        first = [one for one in products if one["price"] == products[0]["price"]]
        return first if any(one["stock"] for one in first) else first + [one for one in products if one["stock"]][:1]
    named = [one for one in products if _is_named(_wanted(line), one)]
    return named[:1] if len(named) == 1 else products


def _found(goal: Goal, line: Line, found: Found, *, alone: bool) -> str:
    if not found["count"]:
        opening, near = _missing(line, found)
        if goal.slots.get("is_guess") and not near and not line.get("prefer"):
            opening = f"There is no “{_wanted(line)}” in the catalogue, and I did not understand that as anything else. {ABILITIES}"
        if goal.slots.get("is_about"):
            opening = (
                opening.replace("in the catalogue. Without", f"in the catalogue. {KNOWN} Without", 1)
                if near
                else opening.replace(_ASK_WHAT, KNOWN)
            )
        count = line.get("quantity") or 1
        left = [f"I left out “{count}”: say which product it is about."] if near and count > 1 else []
        return "\n".join([opening, *map(_row, near[:_AS_NEAR]), *left])
    products = _exact(line, found)
    rows = "\n".join(map(_row, products))
    if line.get("only") and found["count"] > 1:
        first = {"cheapest": "cheapest", "dearest": "most expensive"}[line.get("order", "")]
        limit = _budget(line, products[0]["currency"])
        return f"The {first} of the {found['count']} products that fit {_label(line)}{limit}{_besides(products)}:\n{rows}"
    quantity = line.get("quantity") or 1
    if len(products) == 1 and quantity > 1:
        total = Decimal(str(products[0]["price"])) * quantity
        more = f" That many are not in stock: {_there_are(products[0]['stock'])}." if products[0]["stock"] < quantity else ""
        rows += f"\n{quantity} of them cost {total} {products[0]['currency']}.{more}"
    elif quantity > 1:
        rows += f"\nI left out “{quantity}”: say which product it is about."
    if len(products) == 1 and (alone or found["count"] == 1):
        return rows
    order = {"cheapest": ", the cheapest first", "dearest": ", the most expensive first"}.get(line.get("order", ""), "")
    limit = _budget(line, products[0]["currency"])
    first = f"the first {len(products)}" if len(products) < found["count"] else "all of them"
    return f"{found['count']} products fit {_label(line)}{limit}, {found['in_stock']} pieces in stock together; {first}{order}:\n{rows}"


def _besides(products: Sequence[Found]) -> str:
    """Explain why several products are shown although one was requested."""
    if len({one["price"] for one in products}) > 1:
        return ", and the next one that is in stock"
    return ", which cost the same" if len(products) > 1 else ""


def _there_are(stock: int) -> str:
    return "there is 1" if stock == 1 else f"there are {stock or 'none'}"


def _compared(goal: Goal, pairs: Sequence[tuple[Line, Found]]) -> str:
    """Compare the prices of two products."""
    ones = [_exact(line, found) for line, found in pairs]
    if not goal.slots.get("compares") or len(ones) < 2 or any(len(one) != 1 for one in ones):  # noqa: PLR2004 - two are compared
        return "\n\nSay the full names of two products, and I compare their prices." if goal.slots.get("compares") else ""
    low, *_, high = sorted((one[0] for one in ones), key=lambda one: Decimal(str(one["price"])))
    gap = Decimal(str(high["price"])) - Decimal(str(low["price"]))
    if not gap:
        return f"\n\nThey cost the same. {KNOWN}"
    return f"\n\nThe {low['name']} costs {gap} {low['currency']} less. {KNOWN}"


def _added_up(pairs: Sequence[tuple[Line, Found]]) -> str:
    """Add up the prices of several products if every quantity is known."""
    ones = [(line.get("quantity"), _exact(line, found)) for line, found in pairs]
    if len(ones) == 1 or any(number is None or len(products) != 1 for number, products in ones):
        return ""
    totals = [{**products[0], "total": Decimal(str(products[0]["price"])) * (number or 1)} for number, products in ones]
    return f"\n\nAll together: {_sum(totals)}."


# orders


def order_answer(goal: Goal, results: Sequence[Found]) -> SpecialistResponse:
    """Record an order if it is complete, or ask for the first missing part."""
    pairs, ready = _paired(goal, results), list[tuple[Line, Found]]()
    said = notes(goal, results)
    remark = str(goal.slots.get("remark") or "")
    for at, (line, found) in enumerate(pairs):
        clear = _resolved(goal, at, line, found)
        if isinstance(clear, SpecialistResponse):
            so_far = "".join(f"{one.get('quantity')} x {product['name']} is clear. " for one, product in ready)
            return _remarked(clear, f"{so_far}{remark}".strip(), _still_to_come(pairs[at + 1 :]) + said)
        product, number = clear
        ready.append(({**line, "quantity": number}, product))
    return _remarked(_note(goal, ready, said), remark, "")


def _still_to_come(pairs: Sequence[tuple[Line, Found]]) -> str:
    """List the products of an order that follow the current one."""
    names = [f"{line.get('quantity')} x {_wanted(line)}" if line.get("quantity") else _wanted(line) for line, _ in pairs]
    return f"\nAfter this comes: {', '.join(names)}." if names else ""


def not_noted(goal: Goal) -> str:
    """List the products of a dropped order."""
    names = [f"{line.get('quantity')} x {_wanted(line)}" if line.get("quantity") else _wanted(line) for line in lines_in(goal)]
    return f" Not noted: {', '.join(filter(None, names))}." if any(names) and goal.type == ORDER else ""


def _remarked(response: SpecialistResponse, remark: str, said: str) -> SpecialistResponse:
    message = f"{remark} {response.message}" if remark else response.message
    return response.model_copy(update={"message": f"{message}{said}" if said else message})


def _resolved(goal: Goal, at: int, line: Line, found: Found) -> tuple[Found, int] | SpecialistResponse:
    """Find the product and the quantity of an order line, or the question to ask."""
    products, number = _exact(line, found), line.get("quantity")
    if not found["count"]:
        opening, near = _missing(line, found)
        line = _nearer(line, found)
        opening = opening.removesuffix(f" {_ASK_WHAT}")
        return _ask_product(goal, at, line, opening, near, is_cut=len(near) >= _AS_MANY)
    if len(products) > 1:
        fit = f"{found['count']} products fit {_label(line)}{_budget(line, products[0]['currency'])}"
        opening = f"{fit}." if found["count"] <= len(products) else f"{fit}; here are {len(products)} of them."
        return _ask_product(goal, at, line, opening, products, is_cut=found["count"] > len(products))
    product = products[0]
    line = {**line, "sku": product["sku"], "product": product["name"]}
    if not product["stock"]:
        return _ask_product(goal, at, line, f"Of the {product['name']} there are none in stock.", [])
    if number is None:
        opening = f"{product['name']} ({product['sku']}): {product['price']} {product['currency']}, {product['stock']} in stock."
        return _ask(goal, at, line, opening, "quantity", f"How many {product['name']} would you like?", shown=[product])
    if product["stock"] < number:
        opening = f"Of the {product['name']} there {'is' if product['stock'] == 1 else 'are'} {product['stock']} in stock, not {number}."
        asked: Line = {**line, "quantity": None}
        return _ask(goal, at, asked, opening, "quantity", "How many would you like instead?", shown=[product])
    return product, number


def _nearer(line: Line, found: Found) -> Line:
    """Remove words that match no product, so that the answer refers to the products shown."""
    without = cast("list[str]", cast("Found", found.get("nearest") or {}).get("without") or [])
    return {**line, "product": " ".join(word for word in line.get("product", "").split() if word not in without)}


def _ask_product(goal: Goal, at: int, line: Line, opening: str, options: Sequence[Found], *, is_cut: bool = False) -> SpecialistResponse:
    """Ask which product is meant. If the list `is_cut`, a word does not identify a product, because hidden products may have it too."""
    options = options[:_AS_MANY]
    if not options:
        return _ask(goal, at, {**line, "sku": ""}, opening, "product", _INSTEAD)
    rows = "\n".join(f"{number}. {_row(one)}" for number, one in enumerate(options, 1))
    question = (
        f"Is it the {options[0]['name']} that you would like?" if len(options) == 1 else f"Which one would you like: {_listed(options)}?"
    )
    asked = question if len(options) == 1 else "Which one would you like? Say its number, or more of its name."
    response = _ask(goal, at, line, "", "product", question, options=_shown(options), shown=options, is_cut=is_cut)
    return response.model_copy(update={"message": f"{opening}\n{rows}\n{asked}"})


def _listed(options: Sequence[Found]) -> str:
    return "; ".join(f"{number}. {one['name']}" for number, one in enumerate(options, 1))


def _ask(
    goal: Goal,
    at: int,
    line: Line,
    opening: str,
    what: str,
    question: str,
    *,
    options: Sequence[Shown] = (),
    shown: Sequence[Found] = (),
    is_cut: bool = False,
) -> SpecialistResponse:
    lines: list[Any] = [*lines_in(goal)]
    lines[at] = {name: value for name, value in line.items() if name not in {"prefer", "maybe", "order"} and value not in {None, ""}} | {
        "quantity": line.get("quantity")
    }
    ask: Any = {"line": at, "what": what, "options": [*options]}
    slots: Slots = {"lines": lines, "ask": ask, "remark": "", "asides": [], "cut": is_cut}
    if shown:
        slots["shown"] = cast("Any", _shown(shown))
    updates = StateUpdates(slots_patch=slots, set_status="blocked", missing=[what], next_question=question)
    return SpecialistResponse(message=f"{opening} {question}", state_updates=updates)


def _note(goal: Goal, ready: Sequence[tuple[Line, Found]], said: str) -> SpecialistResponse:
    rows: list[str] = []
    noted: list[dict[str, Any]] = []
    for line, product in ready:
        number = int(line.get("quantity") or 1)
        total, currency = Decimal(str(product["price"])) * number, product["currency"]
        rows.append(f"{number} x {product['name']} ({product['sku']}) at {product['price']} {currency}, together {total} {currency}")
        one = {"sku": product["sku"], "name": product["name"], "quantity": number, "total": str(total), "currency": currency}
        noted.append(one)
    begins = "Changed" if goal.slots.get("instead") else "Noted"
    after = f" It was: {goal.slots['instead']}." if goal.slots.get("instead") else ""
    if len(rows) == 1:
        message = f"{begins}: {rows[0]}. There are {ready[0][1]['stock']} in stock.{after}{said}"
    else:
        message = "\n".join([f"{begins}:", *rows, f"All together: {_sum(noted)}."]) + f"{after}{said}"
    slots: Slots = {"noted": cast("Any", noted), "ask": None, "remark": "", "gone": goal.slots.get("gone_if_done") or []}
    slots["shown"] = cast("Any", _shown([product for _, product in ready]))
    memory = "; ".join(f"{one['quantity']} x {one['name']}" for one in noted)
    updates = StateUpdates(slots_patch=slots, mark_done=True, memory_update=f"Wanted {memory}.")
    return SpecialistResponse(message=message, state_updates=updates)


def _sum(noted: Sequence[dict[str, Any]]) -> str:
    """Add up prices by currency."""
    totals: dict[str, Decimal] = {}
    for one in noted:
        totals[one["currency"]] = totals.get(one["currency"], Decimal(0)) + Decimal(one["total"])
    return " and ".join(f"{total} {currency}" for currency, total in totals.items())


def summary_answer(goal: Goal) -> SpecialistResponse:
    """List the recorded orders."""
    noted = cast("list[dict[str, Any]]", goal.slots.get("lines") or [])
    if not noted:
        return ended("Nothing has been noted in this conversation. Orders that you have placed in the shop are under “My orders” there.")
    rows = "\n".join(f"{one['quantity']} x {one['name']}: {one['total']} {one['currency']}" for one in noted)
    return ended(f"Noted so far:\n{rows}\nAll together: {_sum(noted)}. {_NOT_SENT}")


def _is_named(wanted: str, product: Found) -> bool:
    """Return whether exactly this product is named."""
    said = set(re.findall(r"\w+", wanted.lower()))
    name = set(re.findall(r"\w+", str(product["name"]).lower()))
    return name - {"x", "with"} <= said or str(product["sku"]).lower() in wanted.lower()
