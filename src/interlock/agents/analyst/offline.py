"""What the analyst plans and says where there is no model: rules over words, good for the demo data and honest about the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel, JsonValue

from interlock.agents.analyst.plan import MAX_CALLS, PlannerDecision, Summary, WantedCall
from interlock.agents.analyst.reading import Reading, followed_up, read, sql_of, unread
from interlock.capabilities import Message, Tool
from interlock.runtime.rules import Rules

__all__ = ["AnalystRules"]

T = TypeVar("T", bound=BaseModel)

_COUNTRIES = {
    name.lower(): name
    for name in ("Austria", "Belgium", "Denmark", "France", "Germany", "Ireland", "Italy", "Netherlands", "Poland", "Spain")
}
_CATEGORIES = {
    name.lower(): name
    for name in ("Chairs", "Decoration", "Desks", "Lighting", "Office equipment", "Paper", "Stationery", "Storage", "Tables")
}
_STATUSES = {name: name for name in ("cancelled", "delivered", "returned", "shipped")}

_GREETING = re.compile(
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening)|thanks?(?: you)?|thank you|bye|ok(?:ay)?|great|cool)\b[\s\w,]{0,20}[!.]*",
    re.IGNORECASE,
)
_ABILITY = re.compile(r"\b(?:what can you do|who are you|help)\b[^;]{0,20}$", re.IGNORECASE)
_HISTORY = re.compile(r"\b(?:did i (?:just )?ask|was my (?:first|last|previous) question|have we talked about|so far)\b", re.IGNORECASE)
_SPLIT = re.compile(r" ?(?:;|\?(?= |$)|,? and then |, and (?=(?:what|how|which|calculate|search|define|use|run)\b))", re.IGNORECASE)
_SUM = re.compile(r"(?:(?:what(?:'s| is)|calculate|compute|how much is|work out)\s+)?([-+(]*\s*\d[\d\s.,+*/()^%-]*)", re.IGNORECASE)
_PART = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s*(?:%|percent)\s+of\s+(.*)", re.IGNORECASE)
_SEARCH = re.compile(
    r"^(?:please\s+)?(?:what (?:does|do|says?) (?:the |our )?(?:handbook|documents?|docs?|policy|policies) say (?:about|on)"
    r"|search(?: the documents?| the handbook)?(?: for)?|what (?:is|are|does)|define|explain"
    r"|how (?:is|are|do|does)|tell me about|look up|find)"
    r"\s+(?:the |a |an |our )?(.*)$",
    re.IGNORECASE,
)
_QUERY = re.compile(r"\s*(?:select\b|with\s+\w+\s+as\s*\()", re.IGNORECASE)
_COUNTED = re.compile(r"\b(?:how (?:many|much)|number of|count|total|average)\b", re.IGNORECASE)
_FOLLOW_UP = re.compile(r"^(?:and|what about|how about|the same|now)\b", re.IGNORECASE)
_FILLER = frozenset(
    [
        "mean",
        "means",
        "meaning",
        "defined",
        "definition",
        "calculated",
        "computed",
        "handled",
        "we",
        "our",
        "the",
        "a",
        "an",
        "of",
        "in",
        "for",
        "is",
        "are",
        "to",
        "say",
        "about",
        "on",
    ]
)
_SYNONYMS = {
    "attrition": "churn", "turnover": "revenue", "sales": "revenue", "returns": "return rate", "refunds": "refund", "clients": "customers",
    "client": "customer", "buyers": "customers", "leaving": "churn", "fx": "exchange rates", "currency": "exchange rates", "vip": "segment",
}  # fmt: skip
_ABOUT = (
    "I answer questions about the demo shop's data by rules, without a language model: figures from the warehouse "
    '("revenue by country in 2025", "top 5 products"), the analytics handbook ("what is net revenue?") and sums ("17.5 * 24"). '
    "Several questions at once are separated by semicolons."
)
_LONGEST_SUMMARY = 2000
_LONGEST_QUESTION = 2000  # characters that the rules read; some take time that grows with the square of that


class AnalystRules(Rules):
    """Stands in for the analyst's model."""

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:
        """Plan, or summarise."""
        payload = json.loads(messages[-1].text)
        made: BaseModel
        if schema is PlannerDecision:
            made = _plan(payload)
        elif schema is Summary:
            made = _summary(payload)
        else:
            return super().decide(messages, schema)
        return cast("T", made)

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Answer from what the tools found."""
        del tools
        return _answer(json.loads(messages[-1].text))


def _plan(payload: dict[str, Any]) -> PlannerDecision:
    failures: list[dict[str, Any]] = payload.get("failures", [])
    if failures:
        calls = _other_words(failures)
        reason = "Nothing was found: other words." if calls else "Nothing else comes to mind."
        return PlannerDecision(next_step="tool_use" if calls else "generate", tool_calls=calls, reason=reason)
    question: str = payload["question"]
    if _is_talk(question):
        return PlannerDecision(next_step="generate", tool_calls=[], reason="It needs no data.")
    offered = {tool["name"]: tool for tool in payload.get("tools", [])}
    before = _before(payload)
    calls: list[WantedCall] = []
    if len(question) > _LONGEST_QUESTION and not _QUERY.match(question):
        return _asking(f"Could you say that in at most {_LONGEST_QUESTION:,} characters? Without a language model I cannot read more.")
    for part in _parts(question):
        ask = _add(part, before, offered, calls)
        if ask:
            return _asking(ask)
    calls = [call for call in calls if call.tool in offered]
    if len(calls) > MAX_CALLS:
        return _asking(f"These are {len(calls)} questions. Which {MAX_CALLS} of them shall I begin with?")
    if not calls:
        return PlannerDecision(next_step="generate", tool_calls=[], reason="There is no tool for it.")
    return PlannerDecision(
        next_step="tool_use", tool_calls=calls, reason=f"It takes {', '.join(dict.fromkeys(call.tool for call in calls))}."
    )


def _asking(ask: str) -> PlannerDecision:
    return PlannerDecision(next_step="generate", tool_calls=[], reason="It is not clear what is asked.", ask=ask)


def _is_talk(question: str) -> bool:
    said = " ".join(question[:_LONGEST_QUESTION].split())
    return bool(_GREETING.fullmatch(said) or _ABILITY.search(said) or _HISTORY.search(said))


def _parts(question: str) -> list[str]:
    """Take a question apart into those that it is made of; a query is one."""
    if _QUERY.match(question):
        return [question]
    return [part.strip(" .?!,") for part in _SPLIT.split(" ".join(question.split())) if part.strip(" .?!,")]


def _add(part: str, before: Reading | None, offered: dict[str, Any], calls: list[WantedCall]) -> str:
    """Add the calls for one part of a question; return what to ask where it is not clear."""
    named = _call(calls, "bq_query", sql=part) if _QUERY.match(part) else _named_tool(part, offered)
    share, summed, looked_up = _PART.search(part), _SUM.fullmatch(part), _SEARCH.match(part)
    reading, left = _read(part), _unread(part)
    if _FOLLOW_UP.match(part) and before is not None and not left and (reading.narrows or reading.measure is None):
        reading = followed_up(before, reading)
    if named is not None:
        calls.append(named)
    elif share is not None and _read(share[2]).measure is not None and not _unread(share[2]):
        figure = _call(calls, "bq_query", sql=sql_of(_read(share[2])))
        calls += [figure, _call([*calls, figure], "calculate", expression=f"{share[1]} / 100 * {{{{{figure.id}.rows.0.0}}}}")]
    elif summed is not None and re.search(r"\d\s*[-+*/^%]", summed[1]):
        calls.append(_call(calls, "calculate", expression=summed[1].replace("^", "**").replace(",", "").strip()))
    elif not left and reading.measure is not None and (reading.narrows or _COUNTED.search(part)):
        calls.append(_call(calls, "bq_query", sql=sql_of(reading)))
    elif looked_up is not None:
        calls.append(_call(calls, "search", query=_terms(looked_up[1]) or looked_up[1]))
    elif reading.measure is not None and (reading.narrows or _COUNTED.search(part)):
        return (
            "I read one figure at a time, for one year, quarter, month, country, category or status. "
            f"What do you mean by '{' '.join(left)[:200]}'?"
        )
    elif reading.narrows and reading.measure is None:
        return "Which figure would you like: revenue, orders, customers, units sold or the average order value?"
    elif _terms(part):
        calls.append(_call(calls, "search", query=_terms(part)))
    return ""


def _call(calls: Sequence[WantedCall], tool: str, **args: JsonValue) -> WantedCall:
    return WantedCall(id=f"call-{len(calls) + 1}", tool=tool, args=args)


def _named_tool(part: str, offered: dict[str, Any]) -> WantedCall | None:
    """Call a tool that is named, with the rest of what is said for the one text that it takes."""
    found = re.match(r"(?:please\s+)?(?:use|run|call|ask)\s+([\w.-]+)(?:\s+(?:with|for|on|about))?\s*(.*)", part, re.IGNORECASE)
    if found is None or found[1] not in offered:
        return None
    properties = offered[found[1]]["parameters"].get("properties")
    names = list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []
    return WantedCall(tool=found[1], args={names[0]: found[2]} if names and found[2] else {})


def _read(text: str) -> Reading:
    return read(text, countries=_COUNTRIES, categories=_CATEGORIES, statuses=_STATUSES)


def _unread(text: str) -> tuple[str, ...]:
    return unread(text, countries=_COUNTRIES, categories=_CATEGORIES, statuses=_STATUSES)


def _before(payload: dict[str, Any]) -> Reading | None:
    """Find what the conversation last asked of the warehouse, what followed up on it included."""
    before: Reading | None = None
    for said in payload.get("conversation", []):
        for part in _parts(said["text"]) if said["role"] == "human" else ():
            reading = _read(part)
            if _unread(part):
                continue
            if _FOLLOW_UP.match(part) and before is not None and (reading.narrows or reading.measure is None):
                before = followed_up(before, reading)
            elif reading.measure is not None:
                before = reading
    return before


def _terms(text: str) -> str:
    return " ".join(word for word in re.findall(r"[\w'-]+", text) if word.lower() not in _FILLER)


def _other_words(failures: list[dict[str, Any]]) -> list[WantedCall]:
    """Look for the same in other words: those that mean the same, then fewer."""
    tried = [str(one["args"].get("query", "")) for one in failures if one["tool"] == "search"]
    if not tried:
        return []
    words = tried[-1].split()
    others = " ".join(_SYNONYMS.get(word.lower(), word) for word in words)
    for query in (others, " ".join(words[1:]), " ".join(words[:-1])):
        if query and query not in tried:
            return [WantedCall(id=f"call-{len(failures) + 1}", tool="search", args={"query": query})]
    return []


def _answer(payload: dict[str, Any]) -> str:
    question: str = payload["question"]
    outputs: list[dict[str, Any]] = payload.get("outputs", [])
    if outputs:
        return "\n\n".join(f"{told}{'' if told.endswith(chr(10)) else ' '}[{one['id']}]" for one in outputs for told in [_told(one)])
    if payload.get("failures"):
        return "I could not find this out."
    said = [one["text"] for one in payload.get("conversation", []) if one["role"] == "human"]
    if _HISTORY.search(question):
        earlier = [payload["summary"]] if payload.get("summary") else []
        listed = [*earlier, *(f"- {text}" for text in said)]
        return "So far you asked:\n" + "\n".join(listed) if listed else "This is the first thing you ask me."
    if re.match(r"(?:thanks?|thank you|great|cool|ok)", question, re.IGNORECASE):
        return "You are welcome."
    greeting = "Hello! " if _GREETING.fullmatch(question.strip()) else ""
    return f"{greeting}{_ABOUT}"


def _told(output: dict[str, Any]) -> str:
    """Say what a tool found."""
    result: Any = output["result"]
    match output["tool"], result:
        case "bq_query", {"columns": [*columns], "rows": [*rows]} if all(isinstance(row, list) for row in rows):
            return _rows([str(column) for column in columns], rows, result.get("cut"))
        case "search", {"documents": [{"title": title, "passage": passage}, *_]}:
            return f"{title}: {passage}"
        case "calculate", {"expression": expression, "value": value}:
            return f"{expression} = {value}"
        case _:
            return f"{output['tool']}: {result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)}"


def _rows(columns: list[str], rows: list[list[Any]], cut: str | None) -> str:
    if len(rows) == len(columns) == len(rows[0]) == 1:
        return f"{columns[0].replace('_', ' ').capitalize()}: {_figure(rows[0][0])}"
    lines = [columns, ["---"] * len(columns), *([_figure(cell) for cell in row] for row in rows)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n{cut}\n" if cut else f"{table}\n"


def _figure(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value).replace("|", "\\|")
    return f"{value:,}"


def _summary(payload: dict[str, Any]) -> Summary:
    """Keep what was asked and how the answers begin; the oldest goes first."""
    lines = [payload["summary"]] if payload.get("summary") else []
    for one in payload.get("conversation", []):
        text = " ".join(one["text"].split())
        lines.append(f"{'Asked' if one['role'] == 'human' else 'Said'}: {text[:120]}")
    return Summary(summary="\n".join(lines)[-_LONGEST_SUMMARY:])
