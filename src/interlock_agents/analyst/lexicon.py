"""The words that the offline rules know for the demo warehouse: figures, groupings, values, and words that change nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Literal

__all__ = ["DATA", "FIGURES", "GROUPINGS", "PHRASES", "SIGNUPS", "Group", "Measure", "Phrases"]

Measure = Literal[
    "revenue",
    "net",
    "average",
    "orders",
    "units",
    "customers",
    "buyers",
    "signups",
    "idle",
    "products",
    "basket",
    "returns",
    "cancellations",
    "margin",
    "price",
    "average price",
    "variety",
    "first order",
    "last order",
]
Group = Literal[
    "country",
    "city",
    "category",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "segment",
    "status",
    "channel",
    "coupon",
    "product",
    "customer",
    "order",
    "weekday",
]
Phrases = Mapping[tuple[str, ...], tuple[str, str]]
"""What a phrase stands for: its kind and its value."""

DATA = (dt.date(2024, 1, 1), dt.date(2026, 1, 1))
"""The days that the demo warehouse has orders of, the end not included."""

SIGNUPS = (dt.date(2020, 1, 1), dt.date(2024, 1, 1))
"""The days on which its customers signed up."""

FIGURES = (
    "revenue, net revenue, orders, units sold, customers, products, the average order value, the return rate, the cancellation rate "
    "and the gross margin"
)
GROUPINGS = "country, city, category, product, segment, status, channel, coupon, day, week, month, quarter or year"

_MEASURES: dict[Measure, str] = {
    "revenue": "revenue|rev|revenues|gross revenue|gross revenues|sales|gross sales|turnover|earnings|takings|income|sales revenue|revenue numbers|"
    "revenue figures|sales figures|sales numbers|order value|total order value|value of orders|sales volume|how much did we sell|"
    "how much did we earn|how much did we make|how much have we sold|how much have we earned|how much have we made|how much was sold|"
    "how much money did we make|how much money did we earn|how much money have we made|money did we make|money did we earn|"
    "spend|spends|spent|customer spending|how much did we take|did we turn over|how much did we turn over|we sold for|how much was earned|how much money came in|how much money we made|how much we made|how much we sold|how much money we earned|how much we earned|do we earn|do we make|did we earn|money|turnovers|sales total|total sales|"
    "sales amount|shop make|shop earn|do we turn over",
    "net": "net revenue|net revenues|net sales|net turnover",
    "average": "average order value|average order size|average order|average basket value|average basket|average basket size|aov|mean order value|"
    "average value of an order|average value per order|average revenue per order|revenue per order|sales per order|mean basket|"
    "average order amount|average spend per order|spend per order|spent per order|avg order value|avg order|avg basket|average purchase value|average cart value|"
    "average ticket|average value of our orders|average value of orders",
    "orders": "how many sales|order count|orders count|number of sales|count of orders|purchases|number of purchases|orders|how many times did customers order",
    "units": "units|things|goods|unit|units sold|items|items sold|pieces|pieces sold|quantity sold|quantity|number of items|products sold|articles sold",
    "customers": "accounts|customer accounts|customer base",
    "buyers": "buyers|ordering customers|paying customers|customers with orders|customers with an order|customers with at least one order|shoppers|"
    "customers who have orders",
    "signups": "signups|sign ups|sign-ups|signup|new accounts|registrations|new registrations|new signups",
    "idle": "customers who never ordered|customers that never ordered|customers without orders|customers without an order|customers with no orders|"
    "customers never ordered|customers have never ordered|customers who have never ordered|customers who never bought|customers never bought|"
    "customers have no orders|customers who did not order anything|customers have not ordered anything|customers without any orders|"
    "customers who never bought anything|customers never ordered anything|customers have never ordered anything|customers have never bought anything",
    "products": "articles|skus",
    "basket": "items per order|units per order|products per order|average basket items|average number of items per order|average items per order|"
    "average units per order|pieces per order",
    "returns": "return rate|returns rate|rate of returns|share of returned orders|percentage of returned orders|share of returns|"
    "proportion of returned orders|percent of orders returned|percentage of orders returned|share of orders returned",
    "cancellations": "cancellation rate|cancelation rate|cancel rate|share of cancelled orders|percentage of cancelled orders|share of orders was cancelled|"
    "share of orders were cancelled|percentage of orders was cancelled|percentage of orders were cancelled|percent of orders were cancelled|"
    "share of orders is cancelled|proportion of cancelled orders|rate of cancellations|share of cancellations|percent of orders was cancelled",
    "margin": "gross margin|margin|gross margins|margins",
    "price": "price|prices|list price|list prices",
    "average price": "average price|average prices|average list price|mean price|avg price|price on average",
    "variety": "different products|distinct products|unique products|different articles|different items|distinct items|different skus",
    "first order": "first order|earliest order|oldest order|very first order|first ever order|first sale|first purchase",
    "last order": "last order|latest order|most recent order|newest order|very last order|last sale|latest sale|last purchase",
}
_GROUPS: dict[Group, str] = {
    "country": "country|countries|nation|nations",
    "city": "city|cities|town|towns",
    "category": "category|categories|product category|product categories|product group|product groups|product line|product lines",
    "year": "year|years",
    "quarter": "quarter|quarters",
    "month": "month|months",
    "week": "week|weeks|calendar week",
    "day": "day|days|date",
    "segment": "segment|segments|customer segment|customer segments|customer group|customer groups|customer type|customer types",
    "status": "status|statuses|order status|state of the order",
    "channel": "channel|channels|sales channel|sales channels",
    "coupon": "coupon|coupons|voucher|vouchers|coupon code|coupon codes|discount code",
    "product": "product|products|article|item name",
    "customer": "customer|customers|customers who|customers that|customer who|client|customer that|clients|users|user|people|persons|anyone|anybody|people who",
    "order": "order",
    "weekday": "weekday|weekdays|day of the week|days of the week|day of week|week day|week days",
}
_ADVERBS: dict[Group, str] = {
    "month": "monthly|month by month|month on month|over time|over the months|trend|month over month",
    "year": "yearly|annual|annually|year by year|over the years|year over year|year on year|yoy",
    "quarter": "quarterly|quarter by quarter",
    "week": "weekly|week by week",
    "day": "daily|day by day",
}
_COUNTRIES = {
    "Austria": "austria|austrian|austrians",
    "Belgium": "belgium|belgian|belgians",
    "Denmark": "denmark|danish",
    "France": "france|french|frankreich",
    "Germany": "germany|german|germans|deutschland",
    "Ireland": "ireland|irish",
    "Italy": "italy|italian|italians|italia|italie",
    "Netherlands": "netherlands|the netherlands|dutch|holland",
    "Poland": "poland|polish",
    "Spain": "spain|spanish|espana|spanien",
}
_CITIES = (
    "Amsterdam|Barcelona|Berlin|Brussels|Cologne|Copenhagen|Dublin|Hamburg|Krakow|Leipzig|Lyon|Madrid|Marseille|Milan|Munich|Paris|Rome|"
    "Rotterdam|Seville|Turin|Vienna|Warsaw"
)
_CATEGORIES = {
    "Chairs": "chairs|chair",
    "Decoration": "decoration|decorations",
    "Desks": "desks|desk",
    "Lighting": "lighting|lights",
    "Office equipment": "office equipment",
    "Paper": "paper",
    "Stationery": "stationery",
    "Storage": "storage",
    "Tables": "tables",
}
_STATUSES = {
    "cancelled": "cancelled|canceled|called off",
    "delivered": "delivered",
    "processing": "processing|in processing|being processed|in process",
    "returned": "returned|sent back",
    "shipped": "shipped",
}
_CHANNELS = {
    "web": "web|website|web shop|online shop|webshop|browser",
    "app": "app|mobile app|apps",
    "store": "store|stores|in store|in-store|showroom",
}
_SEGMENTS = {
    "consumer": "consumer|consumers|private|private customers|private people|b2c",
    "business": "business|businesses|b2b|corporate|companies|business clients|firms",
    "public": "public|public sector|public institutions",
}
_COUPONS = {
    "*": "with a coupon|use a coupon|used coupons|use coupons|use a voucher|used a voucher|with vouchers|with a discount code|with coupon|with coupons|with any coupon|using a coupon|used a coupon|with a voucher|using coupons",
    "": "without a coupon|without coupon|without coupons|without any coupon|no coupon|without a voucher",
    "WELCOME10": "welcome10",
    "SPRING15": "spring15",
    "VIP20": "vip20",
}
_WEEKDAYS = {
    day: f"{day.lower()}|{day.lower()}s" for day in ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
} | {"Saturday/Sunday": "weekend|weekends|the weekend|at the weekend"}
_RETURNS = "returns|order returns|returned items"
_CANCELLED = "cancellations|cancelations"

# What the other words of a question do to its figure.
_WORKING: dict[str, str] = {
    "by": "by|per|for each|in each|of each|each|every|for every|in every|broken down by|broken out by|split by|grouped by|group by|across|sorted by|"
    "ranked by|breakdown by|by each|per each|across all|split up by|separated by|divided by|listed by|break down by|broken down per|for all|"
    "with breakdown by|organized by|measured by|in terms of|according to",
    "and": "a table of|a table with|table of|and|&|,|or|plus|as well as|/|along with",
    "versus": "vs|versus|vs.|compared to|compared with|compare|comparing|comparison|against|in comparison to|in comparison with|more|fewer|less|than|better|worse|"
    "higher|lower|relative to|comparison of|side by side|compares|opposed to|as opposed to|bigger|larger|smaller|or rather|difference between|differ from",
    "not": "not|non|with no|exclude|minus the|not counting|not including|excluding|except|except for|without|other than|outside|outside of|excl|apart from|but not|minus|not in|leaving out|ignoring",
    "since": "since|starting in|starting from|beginning in|from the start of",
    "from": "from|between",
    "to": "to|until|till|through|thru|up to|-|up until",
    "before": "before|prior to|earlier than",
    "after": "after|later than",
    "change": "go up|went up|gone up|going up|goes up|go down|went down|gone down|going down|goes down|growth|change|increase|decrease|difference|grow|grew|grown|changed|increased|decreased|growth rate|drop|dropped|fall|fell|rise|rose|decline|declined|growing|rising|falling|shrinking|differing|develop|developed|development|evolve|evolved",
    "share": "portion|share|shares|percentage|percentages|proportion|percent|%|in percent|as a percentage|as percentage|in per cent|per cent|fraction",
    "which": "which|what|who",
    "list": "list|name|list all|all the|show all|all",
    "count": "how many|number of|count|count of",
    "amount": "how much|how much money",
    "distinct": "different|distinct|unique",
    "mean": "average|avg|mean|on average|averaged|an average of",
    "when": "when|at what date|on what date|what date|which date",
    "sold": "sale|ship to|deliver to|buys|sold|sell|sells|selling|bought|buy|purchased|purchase|shift",
    "ordered": "ordered|order from us|shop with us|placed|place|placed an order|made an order|made a purchase|have ordered|who ordered|have bought|bought something|bought anything|"
    "ordered something|ordered anything|placed orders",
    "joined": "signed up|sign up|registered|joined|opened an account|created an account|register|join",
    "those": "those|them|these|they|of those|of them|of these|that one|it|its|there|this one|that|ones",
}
_TOPS = {
    "desc": "top|best|biggest|largest|highest|most|greatest|leading|strongest|maximum|max|main|number one|most often|most frequently|busiest|biggest ever|best ever|highest ever",
    "asc": "bottom|worst|smallest|lowest|least|fewest|weakest|minimum|min|poorest|least often|slowest|quietest",
}
_TOPS_OF_UNITS = {
    "desc": "top sellers|top seller|best selling|best-selling|bestselling|top selling|top-selling|best sellers|bestsellers|bestseller|best seller|most popular|most sold|"
    "sells best|sold best|sell best|sells most|sold most|sell most|sold the most|sells the most|sell the most|sold the best|most bought|"
    "bought most|most often bought|most purchased",
    "asc": "worst selling|worst-selling|least popular|least sold|sells worst|sold worst|sell worst|sold the least|sells the least|sell the least|slowest selling",
}
_TOPS_OF_PRICE = {"desc": "most expensive|priciest|dearest|highest priced", "asc": "cheapest|least expensive|lowest priced"}

# Words that change nothing about which figure is meant, by the place that they may have in a question (see shapes.py).
_NEUTRAL: dict[str, str] = {
    "": "any|highest first|largest first|biggest first|descending|ever|quick one|already|at all|altogether then|currently|at the moment|at present|as a table|in a table|as table|table form|as a list|so i can see|sorted|"
    "for my boss|for the boss|for my manager|for a report|for my report|for a presentation|actual|do you think|i guess|in there|to know|all in all|"
    "of all time|all time|all-time|by the way|btw|one more|one more question|another question|one question|from us|to us|with us|for the whole|"
    "please to|the exact|exact|rough|worth|still|"
    "please|pls|plz|kindly|a|an|the|our|your|total|totals|overall|actually|exactly|really|just tell me|tell|tell me|tell us|i want|i want to know|"
    "i want to see|we want to know|i need|i need to know|i would like|i would like to know|i would like to see|i d like|i like to know|i like to see|i wonder|lets try|let us try|"
    "i am wondering|wondering|let me know|do you know|may i know|can i know|can you|could you|would you|can you please|could you please|"
    "i am looking for|looking for|i am interested in|quick question|question|hey|hi|hello|ok|okay|so|well|thanks|thank you|so far|for me|for us|"
    "to me|roughly|approximately|any idea|do you happen to know|help me find|help me find out|find out|i have to know|we need to know|we need|right now|"
    "in total|in all|altogether|oh|hm|can we|could we|perhaps|maybe|whole|entire|in the shop|the company|of the company|"
    "hmm|quickly|my boss wants to know|the boss wants to know|boss wants to know|they want to know|wants to know|in our shop|the shop|the data|in the data|was wondering|i was wondering|if you could|if you can|analyst|of ours|up to now|to date|until now",
    "SHOW": "make me|show|show me|show us|give|give me|give us|gimme|get me|display|see|let me see|can i see|could i see|fetch|pull|provide|send me|"
    "can i get|can i have|could i get|could i have|may i see|can you show me|could you show me|print|report|need|want|let us see|lets see",
    "BE": "is|are|was|were|be|been|s|re|whats",
    "HAVE": "have|has|had|got",
    "DO": "do|does|did",
    "WE": "we|you",
    "GET": "get|gets|become|record|receive|received|take|see|process|handle",
    "MAKE": "make|makes|made|bring|brings|brought|generate|generates|generated|bring in|brings in|brought in|achieve|achieved|reach|reached|give|gives|gave|"
    "contribute|contributed|earn|earns|earned|earning|yield|yielded|produced",
    "COME": "come|arrive|arrived|comes|came|coming|came in|come in|came through|come through|comes through|came via|came by|come by|came by way of",
    "COST": "cost|costs|costing|priced|priced at",
    "IN": "live in|lives in|living in|based in|located in|for the months|in the months|in the month of|for the month of|split between|split across|split among|divided among|distributed between|in|still in|of|for|with|on|at|during|within|via|over|about|into|in the year|for the year|of the year|in year|among|amongst|as of|regarding|as for",
    "HOW": "how",
    "USE": "use|used|uses|using",
    "FOLLOW": "what about|how about|what of|same for|the same for|same in|same|the same|same thing for|same thing|but|also|now|instead|make it|make that|again|"
    "and what about|and how about|same question for|same for the|then|rather|i meant|i mean|no i meant|no i mean|sorry i meant|no rather|i actually meant|no sorry",
    "THING": "something|anything",
    "MONEY": "euro|euros|eur|in euro|in euros|in eur",
    "ONLY": "only|just",
    "SUM": "in one number|together|combined|taken together|in sum|all together|jointly",
}

# Phrases of known words that mean something that the warehouse does not say: they are never taken apart.
_STRANGE = (
    "customer data|order data|customer service|"
    "time of day|time of the day|our store|our stores|shop again|data team|sales team|sales people|sales person|web site visits|app store|new york|"
    "order number|order numbers|price list|per cent of customers who|best before|out of|most of|all but|none of|each other|last time|first time|new customers|returning customers|repeat customers|active customers|"
    "average customer|average product|last orders|first orders|order of|in order to"
)


_WITH_MOST = (
    r"(?:\b(?:what|which|who) (?:is|are|was|were) )?(?:\bthe |^)(country|countries|city|cities|customers?|products?|category|categories|"
    r"months?|days?|weeks?|years?|quarters?|channels?|segments?|coupons?) with (?:the )?(?=(?:most|least|fewest|highest|lowest|biggest|"
    r"largest|smallest)\b)"
)
REWRITTEN: tuple[tuple[str, str], ...] = (
    (_WITH_MOST, r"which \1 has "),
    (r"\bup or down\b", "up"),
    (r"\bexists?\b", "are there"),
    (r"\bnon-(?=[a-z])", "not "),
    (r"\bwhich (?:one|ones|of them|of these|of those) (?:has|have|had|is|was|are|did|do|does)(?: the)?\b", ""),
    (r"\bnet of\b", "excluding"),
    (r"^(?:(?:no|sorry|oops|wait)[,.]? )+(?=(?:i|make|rather|only|just|for|in|by|the)\b)", ""),
    (r"\bhow (much|many) (?:more|less|fewer)\b", r"how \1 differing"),
    (
        r"\b(?:break|split|group|divide|slice|separate|show)(?: (?:it|that|this|them|those|these))?(?: (?:down|up|out))? (?:by|per|into|for each)\b",
        "by",
    ),
    (
        r"(^|[,;:?] |\band |\bknow |\bme )who (?=(?:has |have )?(?:bought|ordered|spent|spends|buys|purchased|placed)\b)",
        r"\1which customer ",
    ),
    (r"^what (?=(?:has |have |was |were )?(?:sold|sells|sell)\b)", "which product "),
    (r"\bthe most money\b|\bmost money\b", "most"),
    (r"\b(top|best|worst|biggest|largest|lowest|highest)(?: (?:one|ones))\b", r"\1"),
)
"""Idioms, and the plainer words that say the same. All are in small letters, with one space between words."""


def _phrases() -> dict[tuple[str, ...], tuple[str, str]]:
    found: dict[tuple[str, ...], tuple[str, str]] = {}

    def put(kind: str, values: Mapping[Any, str]) -> None:
        for value, written in values.items():
            for phrase in written.split("|"):
                found[tuple(phrase.split())] = (kind, value)

    put("neutral", _NEUTRAL)
    put("", {"": _STRANGE})
    put("word", _WORKING)
    put("group", _GROUPS)
    put("every", _ADVERBS)
    put("measure", _MEASURES)
    put("country", _COUNTRIES)
    put("city", {city: city.lower() for city in _CITIES.split("|")})
    put("category", _CATEGORIES)
    put("status", _STATUSES)
    put("channel", _CHANNELS)
    put("segment", _SEGMENTS)
    put("coupon", _COUPONS)
    put("weekday", _WEEKDAYS)
    put("stated", {"returned": _RETURNS, "cancelled": _CANCELLED})
    put("top", _TOPS)
    put("top of units", _TOPS_OF_UNITS)
    put("top of price", _TOPS_OF_PRICE)
    return found


PHRASES: Phrases = _phrases()
