"""Small talk: what people say to the analyst beside questions about data, and the answers, from `small_talk.toml`."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from interlock_agents.analyst.vocabulary import FIGURES, GROUPINGS, ORDER_DATES

__all__ = ["ABOUT", "answer_to", "small_talk_in", "without_greeting"]

_DATA: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_TEXTS: dict[str, str] = {
    **_DATA["texts"],
    "figures": FIGURES,
    "groupings": GROUPINGS,
    "span": f"The demo shop's warehouse has orders from {ORDER_DATES[0]:%d %B %Y} to {ORDER_DATES[1] - dt.timedelta(days=1):%d %B %Y}.",
}
ABOUT = _TEXTS["about"]
"""What can be asked."""


def _filled(text: str) -> str:
    return re.sub(r"<(\w+)>", lambda name: _TEXTS[name[1]], text)


def _pattern(kind: dict[str, str]) -> re.Pattern[str]:
    lines = "|".join(kind["lines"].split("\n")[:-1])
    return re.compile(_filled(f"(?:{kind.get('before', '')}(?:{lines}){kind.get('after', '')})<polite>"), re.IGNORECASE)


_COURTESIES = frozenset({"greeting", "thanks", "praise", "sorry"})
_SEPARATOR = re.compile(r",? and |[,;] ?|[.!?]+ ", re.IGNORECASE)
_OPENING, _CLOSING = (re.compile(_filled(_TEXTS[name]), re.IGNORECASE) for name in ("opening", "closing"))
_MAX_CHARACTERS = 200


def small_talk_in(text: str) -> str | None:
    """Return the kind of small talk, or None unless all of the text is small talk."""
    words = " ".join(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    if len(words) > _MAX_CHARACTERS:
        return None
    plain = re.sub(r"[!.?,;:)(\s]+$", "", re.sub(r"[!?.]+(?= )", ",", words)).strip("\"'")
    plain = re.sub(r"^(?:(?:so|ok|okay|and|well|then|but|hm+|ah|oh)\b[ ,]+)+(?=\w)", "", plain, flags=re.IGNORECASE)
    plain = re.sub(r"[\U0001F300-\U0001FAFF\u2600-\u27BF\uFE0F]+", "", plain).strip(" ,!.?") or plain
    if (found := _kind_of(plain)) is not None:
        return found
    kinds = [_kind_of(part.strip(" ,.!?")) for part in _SEPARATOR.split(plain) if part.strip(" ,.!?")]
    known = [kind for kind in kinds if kind is not None]
    return max(known, key=lambda kind: kind not in _COURTESIES) if known and len(known) == len(kinds) else None


@cache
def _patterns() -> dict[str, re.Pattern[str]]:
    return {name: _pattern(kind) for name, kind in _DATA["kinds"].items()}


def _kind_of(text: str) -> str | None:
    return next((kind for kind, pattern in _patterns().items() if pattern.fullmatch(text)), None)


def without_greeting(text: str) -> str:
    """Remove polite words before and after a question."""
    return _CLOSING.sub("", _OPENING.sub("", _OPENING.sub("", text, count=1), count=1)) or text


def answer_to(kind: str, payload: dict[str, Any]) -> str:
    """Answer small talk."""
    if kind == "date":
        return f"Today is {dt.date.fromisoformat(payload['today']):%A, %d %B %Y}. {_TEXTS['span']}"
    if kind == "history":
        questions = [f"- {one['text']}" for one in payload.get("conversation", []) if one["role"] == "human"]
        listed = [payload["summary"], *questions] if payload.get("summary") else questions
        return "So far you asked:\n" + "\n".join(listed) if listed else "This is the first thing you ask me."
    if kind in {"sql", "source"}:
        queries = [str(one["args"]["sql"]) for one in payload.get("last_calls", []) if one["tool"] == "bq_query" and "sql" in one["args"]]
        if not queries:
            return "There is no query to show: the last answer did not come from the warehouse."
        return "The last answer came from:\n\n" + "\n\n".join(f"```sql\n{query}\n```" for query in queries)
    return _filled(_DATA["kinds"][kind]["answer"])
