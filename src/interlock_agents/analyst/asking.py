"""Questions back to the user from the offline rules: what was understood, what was not, and an example that works."""

from __future__ import annotations

import datetime as dt
import re

from interlock_agents.analyst.descriptions import understood
from interlock_agents.analyst.figures import CannotRead, figures
from interlock_agents.analyst.lexicon import Measure
from interlock_agents.analyst.queries import SELECTED
from interlock_agents.analyst.reader import read
from interlock_agents.analyst.reading import Reading

__all__ = ["EXAMPLES", "hint_for", "is_beyond", "what_is_unclear"]

EXAMPLES = "revenue by country in 2025; top 5 products; what is net revenue; 17.5 * 24"
_HINTS: dict[str, str] = {
    "profit|profits|profitable|profitability|loss|losses|earnings before": "Profit is not in the data; the gross margin comes nearest.",
    "stock|inventory|available|warehouses": "What is in stock is not in the data.",
    "forecast|forecasts|predict|prediction|expect|expected|projected|will|tomorrow": "I know what happened, not what will happen.",
    "why|reason|reasons|cause|caused|because|insight|insights|advice|recommend|should": (
        "I can give figures, but neither reasons nor advice."
    ),
    "median|percentile|deviation|variance|correlation|outliers": "I can give sums, counts and averages only.",
    "employee|employees|staff|colleagues|ceo|boss|salary|salaries|budget|marketing|ads|supplier|suppliers|competitors": (
        "The data is about orders, customers and products only."
    ),
    "visit|visits|visitors|clicks|traffic|sessions|views": "Visits are not in the data: it has orders, customers and products.",
    "payment|payments|paid|pay|paypal|card|cards|invoice|invoices|shipping|vat|tax|taxes": (
        "I know no figure for payments, taxes or charges; the handbook may have a page on them."
    ),
    "summer|winter|spring|autumn|fall|christmas|easter|season|holiday|holidays|xmas|recently|lately|soon": (
        "Please name the time by days, months, quarters or years."
    ),
    "new customers|returning customers|repeat customers|active customers|loyal": (
        "I can count customers who signed up, or who ordered, in a time; 'what is a new customer' shows what the handbook says."
    ),
    "age|gender|men|women|young|older|email|emails|phone|addresses|names": (
        "Of customers the data has the segment, the country and the city."
    ),
    "colour|color|red|green|size|brand|material|stars|rating|ratings|reviews": (
        "Of products the data has the name, the category and the price."
    ),
    "dollar|dollars|usd|pounds|gbp|chf": "All amounts are in euros.",
    "wie|viele|umsatz|bestellungen|kunden|welche|der|und|im|wir|hatten|combien|ventes|speak|language": "I read English only.",
}
_DEFAULT = "revenue by country in 2025"
_NAMED: dict[Measure, str] = {"products": "products", "customers": "how many customers", "orders": "orders", "units": "units sold"}


def what_is_unclear(reading: Reading, today: dt.date) -> str:
    """Name the words that were not understood, or say that their combination was not, and suggest a question that works."""
    known = understood(reading)
    if reading.left:
        words = ", ".join(f"'{word}'" for word in reading.left)[:200]
        guess = f" Did you mean {' or '.join(dict.fromkeys(reading.meant))}?" if reading.meant else ""
        hint = hint_for(" ".join(reading.left))
        if not hint and any(word.isdigit() for word in reading.left):
            hint = "What does the number stand for? A limit has a unit: over 500 euros. Single customers or orders I do not look up."
        told = f"I did not understand {words}.{guess}{f' {hint}' if hint else ''}"
        told += f" What I understood is: {', '.join(known)}." if known else ""
    else:
        told = f"I know the words of this question{': ' if known else ''}{', '.join(known)}, but not what they mean together."
    return f"{told} Could you say it in other words? For example: {_example(reading, today)}."


def hint_for(text: str) -> str:
    """Return an explanation for words that refer to something outside the data, or ''."""
    said = " ".join(re.findall(r"[a-z]+", text.lower()))
    return next((hint for words, hint in _HINTS.items() if re.search(rf"\b(?:{words})\b", said)), "")


def is_beyond(text: str) -> bool:
    """Return whether the question asks for a statistic that neither the data nor the handbook has, such as a median or a forecast."""
    return re.search(r"\b(?:median|percentile|forecast|predict|prediction|correlation)\b", text, re.IGNORECASE) is not None


def _example(reading: Reading, today: dt.date) -> str:
    """Build an example question from the understood parts, and use it only if the rules can answer it."""
    if not (reading.measures or reading.groups or reading.filters or reading.periods):
        return _DEFAULT
    measure: Measure = reading.measures[0] if reading.measures else "revenue"
    name = _NAMED.get(measure, SELECTED[measure][2].lower())
    grouped = f" by {reading.groups[0]}" if reading.groups else ""
    values = "".join(
        f" in {one.values[0]}" for one in reading.filters[:1] if not one.is_not and one.group in {"country", "city", "category"}
    )
    labels = [one.label for one in reading.periods[:1]]
    times = "".join(f" {label}" if label.startswith(("since", "before", "after", "until")) else f" in {label}" for label in labels)
    for made in (f"{name}{grouped}{values}{times}", f"{name}{values}{times}", f"{name}{times}", f"{name} in 2025", name):
        try:
            figures(read(made, today))
        except CannotRead:
            continue
        return made
    return _DEFAULT
