"""What the desk's rules make of a customer's words: a topic, a product, a number, a sum."""

from __future__ import annotations

import re

__all__ = ["is_a_name", "is_about_stock", "is_an_order", "is_the_end", "product_in", "quantity_in", "sum_in", "topic_of"]

_TOPICS = tuple(
    (re.compile(rf"\b(?:{words})\b", re.IGNORECASE), query)
    for words, query in (
        (r"refund\w*|money back|reimburs\w*", "refund"),
        (r"wrong (?:product|item|thing|one|colou?r|size)", "wrong product"),
        (r"missing (?:parts?|screws?|pieces?)|(?:parts?|screws?) (?:are|is) missing", "missing parts"),
        (r"return(?:s|ed|ing)?|send (?:it|them|this) back", "return a product"),
        (r"exchang\w*", "exchange"),
        (r"warrant\w*|guarantee\w*|repair\w*", "warranty"),
        (r"broken?|damag\w*|defect\w*|faulty|cracked", "damaged"),
        (r"flicker\w*|lamp (?:is|does)n'?t work", "lamp flickers"),
        (r"pass ?word|log ?(?:in|on)|sign ?in", "password"),
        (r"invoices?|receipts?", "invoice"),
        (r"vat|tax", "vat"),
        (r"gift cards?|vouchers?", "gift card"),
        (r"(?:delivery|shipping) (?:costs?|fees?)|how much (?:is|does) (?:delivery|shipping)\w*", "delivery costs"),
        (r"(?:is|are|be|too|very) late|late (?:parcel|delivery|order)|not arrived|hasn'?t arrived|lost", "late parcel"),
        (r"track\w*|where(?:'s| is| are) my|parcels?", "tracking"),
        (r"deliver\w*|shipping|ship|shipped", "delivery times"),
        (r"assembl\w*|put (?:it|them) together", "assembly"),
        (r"cancel my|cancel an? order", "cancel order"),
        (r"change my|change an? order|wrong address", "change order"),
        (r"pay|paying|payments?|credit card|instalments?", "payment"),
        (r"privacy|my data|gdpr", "privacy"),
        (r"contact|speak to|talk to|a person|a human", "contact"),
        (r"account", "account"),
    )
)
"""What a message may be about, and what to search the articles for; the first that fits."""

_HELP = re.compile(
    r"\b(?:how (?:do|can|should) i|help|problem|complain\w*|not working|doesn'?t work|does not work|my order|what (?:do|should) i)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(r"\b(?:buy|order|purchase|take|want|need|get me|i'?d like|would like|put down|reserve)\b", re.IGNORECASE)
_STOCK = re.compile(
    r"\b(?:stock|available|availability|have|sell|prices?|costs?|how much|how many|cheap\w*|is there|are there|any)\b", re.IGNORECASE
)
_END = re.compile(
    r"\W*(?:no|nope|cancel|stop|no,? thanks?(?: you)?)\W*|"
    r".*\b(?:never ?mind|forget (?:it|that)|drop it|leave it|cancel (?:it|that|the order))\b.*",
    re.IGNORECASE | re.DOTALL,
)
_SUM = re.compile(
    r"(?:(?:what(?:'s| is)|how much is|calculate|compute|work out)\s+)?(?P<sum>[-+(\d][-+*/x×÷%^().\d\s]*[)\d])[\s=?.!]*",  # noqa: RUF001 - what people type
    re.IGNORECASE,
)
_LONGEST_SUM = 200
_UNIT = r"cm|mm|m|w|watts?|tiers?|drawers?|sheets?|persons?|people"
_NUMBER = re.compile(rf"(?<![\w.-])(?<!x )(\d{{1,6}})(?![\w.]|\s*(?:{_UNIT})\b|\s*x\s*\d)", re.IGNORECASE)
_NUMBERS = dict(
    zip(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
        range(1, 13),
        strict=True,
    )
)
_DOZEN, _COUPLE = re.compile(r"\ba dozen\b", re.IGNORECASE), re.compile(r"\ba couple\b", re.IGNORECASE)
_MORE = re.compile(
    r"\b(?:hundreds?|thousands?|dozens?|half|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|\w+teen)\b", re.IGNORECASE
)
_FILLERS = re.compile(
    r"\b(?:i'?d|i|we|you|your|me|my|please|hello|hi|hey|thanks?|thank|like|would|want|need|to|buy|order|purchase|take|get|put|down|reserve|"
    r"some|the|an?|of|do|does|is|are|there|have|has|got|any|in|stock|available|availability|sell|how|many|much|what|what'?s|prices?|costs?|"
    r"cheap\w*|ok|okay|yes|sure|great|fine|good|for|and|pieces?|pcs|could|can|it|its|it's|them|they|that|this|these|those|actually|instead|rather|x|something|anything|stuff|"
    r"products?|items?|things?|dozen|couple|" + "|".join(_NUMBERS) + r")\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(
    r"\b(?:i|you|we|my|your|is|are|was|am|do|does|can|could|will|hello|hi|hey|thanks?|thank|good|please|what|who|where|why|when|how|yes|ok|okay)\b",
    re.IGNORECASE,
)
_LONGEST_NAME = 8


def topic_of(said: str) -> str | None:
    """Tell what help is asked for, as words to search for; None where it is not about help."""
    for words, query in _TOPICS:
        if words.search(said):
            return query
    return said if _HELP.search(said) else None


def is_an_order(said: str) -> bool:
    """Tell whether somebody wants to have something."""
    return _ORDER.search(said) is not None


def is_about_stock(said: str) -> bool:
    """Tell whether somebody asks whether there is something, or for its price."""
    return _STOCK.search(said) is not None


def is_the_end(said: str) -> bool:
    """Tell whether somebody has changed their mind."""
    return _END.fullmatch(said) is not None


def is_a_name(said: str) -> bool:
    """Tell whether a message is no sentence, and so probably the name of something."""
    return 1 < len(said.split()) <= _LONGEST_NAME and _SENTENCE.search(said) is None


def product_in(said: str) -> str:
    """Return what is left of a message without what people say around the name of a product."""
    return " ".join(re.findall(r"[\w-]+", _FILLERS.sub(" ", _NUMBER.sub(" ", said))))


def quantity_in(said: str) -> int | None:
    """Find how many are wanted; None where it cannot be told for certain."""
    found = _NUMBER.search(said)
    if found is not None:
        return int(found[1]) or None
    if _DOZEN.search(said):
        return 12
    if _COUPLE.search(said):
        return 2
    if _MORE.search(said):
        return None
    return next((number for word, number in _NUMBERS.items() if re.search(rf"\b{word}\b", said, re.IGNORECASE)), None)


def sum_in(said: str) -> str | None:
    """Find something to be worked out, if the message is nothing else."""
    if len(said) > _LONGEST_SUM:
        return None
    found = _SUM.fullmatch(said.strip())
    if found is None or not re.search(r"\d[\s)]*[-+*/x×÷%^]", found["sum"]):  # noqa: RUF001 - what people type
        return None
    return found["sum"].replace("x", "*").strip()
