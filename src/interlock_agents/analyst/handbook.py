"""The words by which the offline rules look something up in the handbook, and those that say nothing about what is meant."""

from __future__ import annotations

import re

__all__ = ["GENERAL", "SYNONYMS", "terms_of"]

_FILLER = frozenset(
    """
    mean means meaning defined definition calculated computed calculate handled measured booked we our the a an of in for is are to
    say about on how what which do does i you it me us they them at by with and or who may can be where when why this that there
    please tell explain work works says policy happen happens part remind see if whats what's
    often value values stand stands from did was were come comes came get got give mean
    """.split()  # noqa: SIM905 - a list of it would take a screen
)
GENERAL = frozenset(
    """
    new old data table tables customer customers order orders product products report reports number numbers figure figures show status
    good bad next last first here now today anything everything something nothing whats what's what more less most all any other else
    """.split()  # noqa: SIM905 - a list of it would take a screen
)
"""Words that say nothing about which page of the handbook is meant where there are no others."""
SYNONYMS = {
    "attrition": "churn", "turnover": "revenue", "sales": "revenue", "returns": "return rate", "refunds": "refund", "clients": "customers",
    "client": "customer", "buyers": "customers", "leaving": "churn", "fx": "exchange rates", "currency": "exchange rates", "vip": "segment",
    "vat": "value added tax", "clv": "customer lifetime value", "vouchers": "coupons", "aov": "average order value",
    "gdpr": "personal data", "privacy": "personal data", "profit": "gross margin",
    "updated": "loaded", "update": "loaded", "updates": "loaded", "reloaded": "loaded",
    "refreshed": "loaded", "refresh": "loaded", "fresh": "loaded",
}  # fmt: skip


def terms_of(text: str) -> str:
    """Return the words of a text that say what is to be looked up."""
    return " ".join(word for word in re.findall(r"[\w'-]+", text) if word.lower() not in _FILLER)
