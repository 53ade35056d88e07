"""The offline model of the analyst: rules that cover the demo data and ask back about everything else."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from pydantic import BaseModel, JsonValue

from interlock.capabilities import Message, Tool
from interlock.models.rules import Rules
from interlock_agents.analyst.answers import answer, is_query
from interlock_agents.analyst.charts import chart_wanted, without_chart
from interlock_agents.analyst.clarifications import EXAMPLES, clarification, hint_for
from interlock_agents.analyst.figures import CannotAnswer, Unclear, figures
from interlock_agents.analyst.follow_ups import INTERROGATIVE, continues, merged
from interlock_agents.analyst.parser import parse
from interlock_agents.analyst.plan import MAX_CALLS, PlannerDecision, Summary, WantedCall
from interlock_agents.analyst.question import Question
from interlock_agents.analyst.small_talk import small_talk_in, without_greeting
from interlock_agents.analyst.vocabulary import FILLER, GENERAL, PATTERNS, SYNONYMS

__all__ = ["AnalystRules"]

T = TypeVar("T", bound=BaseModel)


_OPERATORS = (
    (re.compile(r"\bplus\b", re.IGNORECASE), " + "),
    (re.compile(r"\bminus\b", re.IGNORECASE), " - "),
    (re.compile(r"\b(?:times|multiplied by)\b|(?<=\d)\s*[x\u00d7]\s*(?=\d)", re.IGNORECASE), " * "),
    (re.compile(r"\bdivided by\b|\u00f7", re.IGNORECASE), " / "),
)
_PAGES = {"status": "order status", "segment": "customer segments", "channel": "sales channels", "category": "product categories"}
_MAX_SUMMARY = 2000
# In characters: some rules take quadratic time.
_MAX_QUESTION = 2000
_TABLES = ("customers(", "products(", "orders(", "order_items(")


class AnalystRules(Rules):
    """The rules that replace the analyst's model."""

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:
        """Plan, or summarise."""
        payload = json.loads(messages[-1].text)
        if schema is PlannerDecision:
            return cast("T", _plan_again(payload) if payload.get("failures") else _plan(payload))
        return cast("T", _summary(payload)) if schema is Summary else super().decide(messages, schema)

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str:
        """Answer from the tool outputs."""
        del tools
        return answer(json.loads(messages[-1].text))


def _plan(payload: dict[str, Any]) -> PlannerDecision:
    text: str = payload["question"]
    if small_talk_in(text) is not None:
        return _no_tools("It needs no data.")
    if len(text) > _MAX_QUESTION and not is_query(text):
        return _ask(f"Could you say that in at most {_MAX_QUESTION:,} characters? Without a language model I cannot read more.")
    planner = _Planner(payload)
    if chart_wanted(text) and not is_query(text) and not without_chart(without_greeting(text)).strip(" .?!,"):
        return planner.repeat(payload.get("last_calls", []))
    for part in _parts(text, planner.today):
        planner.add(part)
    return planner.decision()


def _no_tools(reason: str, ask: str = "") -> PlannerDecision:
    return PlannerDecision(next_step="generate", tool_calls=[], parts=[], notes=[], reason=reason, ask=ask)


def _ask(question: str) -> PlannerDecision:
    return _no_tools("It is not clear what is asked.", question)


def _parts(message: str, today: dt.date) -> list[str]:
    """Split a message into its questions. A SQL query is not split."""
    if is_query(message):
        return [message]
    plain = without_chart(" ".join(without_greeting(" ".join(message.split())).split()))
    chunks = [chunk for part in PATTERNS["separator"].split(plain) for chunk in _split_at_and(part.strip(" .?!,"), today)]
    parts = [without_greeting(part.strip(" .?!,")) for part in chunks if part.strip(" .?!,")]
    joined: list[str] = []
    for part in parts:
        if small_talk_in(part) is not None:
            continue
        question = parse(part, today)
        # A fragment belongs to the part before it: 'Revenue in 2025? By country!' is one question.
        if joined and question.is_fragment and not question.has_figure and not parse(f"{joined[-1]} {part}", today).is_unclear:
            joined[-1] += f" {part}"
        else:
            joined.append(part)
    return joined or parts


def _split_at_and(part: str, today: dt.date) -> list[str]:
    """Split at 'and', unless both sides are one question: "how many orders and how much revenue in 2025" is about one year."""
    chunks = PATTERNS["joined"].split(part)
    questions = [parse(chunk, today) for chunk in chunks]
    is_one = not parse(part, today).is_unclear and any(not (one.narrows and one.is_whole) for one in questions)
    return [part] if is_one or len(chunks) == 1 else [chunks[0], *(f"and {chunk}" for chunk in chunks[1:])]


class _Planner:
    """Collects the calls, notes and questions back for the parts of a message."""

    def __init__(self, payload: dict[str, Any]) -> None:
        self._offered = {tool["name"]: tool for tool in payload.get("tools", [])}
        self.today = dt.date.fromisoformat(payload["today"]) if payload.get("today") else dt.date(2026, 1, 1)
        self._previous, self._was_unclear = _history(payload, self.today)
        self._calls: list[WantedCall] = []
        self._notes: list[str] = []
        self._asks: list[str] = []
        description = self._offered.get("bq_query", {}).get("description", "")
        self._knows_tables = all(name in description for name in _TABLES) or "Tables:" not in description

    def decision(self) -> PlannerDecision:
        """Plan the understood parts. Mention the others in the notes, or ask back if no part was understood."""
        calls = [call for call in self._calls if call.tool in self._offered]
        if not calls:
            return _ask("\n\n".join(dict.fromkeys(self._asks))) if self._asks else _no_tools("There is no tool for it.")
        if len(calls) > MAX_CALLS:
            return _ask(f"These are {len(calls)} questions. Which {MAX_CALLS} of them shall I begin with?")
        return PlannerDecision(
            next_step="tool_use",
            tool_calls=calls,
            parts=list(dict.fromkeys(call.part for call in calls)),
            notes=list(dict.fromkeys([*self._notes, *self._asks])),
            reason=f"It takes {', '.join(dict.fromkeys(call.tool for call in calls))}.",
        )

    def repeat(self, calls: Sequence[dict[str, Any]]) -> PlannerDecision:
        """Repeat the query of the last answer to draw it."""
        queries = [str(one["args"]["sql"]) for one in calls if one["tool"] == "bq_query" and "sql" in one["args"]]
        for sql in queries[:1]:
            self._call("bq_query", "your query", sql=sql)
        self._asks.append("What shall I draw? Ask for a figure by one grouping first, for example revenue by month in 2025.")
        return self.decision().model_copy(update={"notes": []})

    def add(self, part: str) -> None:
        """Add the calls for one part of a message."""
        try:
            if is_query(part):
                self._call("bq_query", "your query", sql=part)
            elif not (self._add_named_tool(part) or self._add_sum(part) or self._add_search(part)):
                self._add_figures(part)
        except Unclear as error:
            self._asks.append(clarification(error.question, self.today))
        except CannotAnswer as error:
            self._asks.append(str(error))

    def _call(self, tool: str, part: str, **args: JsonValue) -> WantedCall:
        self._calls.append(WantedCall(id=f"call-{len(self._calls) + 1}", tool=tool, args=args, part=part))
        return self._calls[-1]

    def _add_named_tool(self, part: str) -> bool:
        """Call a tool that is named, with the rest of the text as its first argument."""
        found = PATTERNS["named_tool"].match(part)
        if found is None or found[1] not in self._offered:
            return False
        properties = self._offered[found[1]]["parameters"].get("properties")
        names = list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []
        self._call(found[1], part, **({names[0]: found[2]} if names and found[2] else {}))
        return True

    def _add_sum(self, part: str) -> bool:
        """Calculate '17.5 * 24', '15% of 200' and '15% of the revenue in 2025'."""
        text = part
        for words, operator in _OPERATORS:
            text = words.sub(operator, text)
        found, share = PATTERNS["sum"].fullmatch(text), PATTERNS["percentage"].fullmatch(part)
        if found is not None and re.search(r"\d\s*[-+*/^%]", found[1]):
            expression = found[1].replace("^", "**").replace(",", "").strip()
        elif share is not None and re.fullmatch(r"[\d.,]+", share[2]):
            expression = f"{share[1]} / 100 * {share[2].replace(',', '')}"
        elif share is not None:
            made = figures(parse(share[2], self.today))
            if len(made) != 1 or " GROUP BY " in made[0].sql or " UNION " in made[0].sql:
                raise CannotAnswer(f"I can take {share[1]}% of one figure at a time. Of which one?")
            self._notes += made[0].notes
            figure = self._call("bq_query", made[0].title, sql=made[0].sql)
            self._call("calculate", f"{share[1]}% of that", expression=f"{share[1]} / 100 * {{{{{figure.id}.rows.0.0}}}}")
            return True
        else:
            return False
        self._call("calculate", expression, expression=expression)
        return True

    def _add_search(self, part: str) -> bool:
        """Search the handbook if the part asks for an explanation. Unless it names the handbook, only a matching title is a result."""
        handbook = _handbook(part)
        text = handbook if handbook is not None else self._definition(part)
        if text is None:
            return False
        difference = PATTERNS["difference"].match(text)
        chunks = PATTERNS["several"].split(text)
        if difference is not None:  # 'gross and net revenue' are gross revenue and net revenue
            first, second = difference.groups()
            chunks = [f"{first} {second.split()[-1]}" if " " not in first and " " in second else first, second]
        questions = [parse(one, self.today) for one in chunks]
        is_several = all(one.measures and not one.is_unclear for one in questions)  # "net revenue and gross revenue" are two pages
        for one in chunks if is_several else [text]:
            terms = _terms(one) or one
            terms = _page(parse(terms, self.today)) or terms
            if terms.strip():
                self._call("search", one.strip()[:200], query=terms, **({"titled": True} if handbook is None else {}))
        question = parse(text, self.today)
        if self._previous is None and question.measures and not question.is_unclear:
            self._previous = question  # "what is net revenue, and how much was it in 2025"
        return True

    def _definition(self, part: str) -> str | None:
        """Return the search terms if the part asks for an explanation and not for a figure."""
        refers, part = parse(part, self.today).refers, PATTERNS["first_words"].sub("", part)
        question, terms = replace(parse(part, self.today), refers=refers), _terms(part).lower().split()
        if (
            PATTERNS["no_definition"].match(part)
            or (PATTERNS["past"].match(part) and question.has_figure)
            or (terms and GENERAL.issuperset(terms))
        ):
            return None
        defined, is_clear = PATTERNS["definition"].match(part), not question.is_unclear
        if defined is not None and not (is_clear and question.narrows):
            is_figure = is_clear and question.has_figure and (PATTERNS["definite"].match(defined[1]) or question.listed or question.counted)
            is_bare = not (question.periods or question.groups) and (not question.filters or defined[0].lower().startswith("how"))
            follows = self._previous is not None and refers and is_clear
            return defined[1] if not is_figure and (is_bare or not question.has_figure) and not follows else None
        has_number = any(word.isdigit() for word in question.unknown)
        if is_clear or has_number or question.counts or question.ranks_nothing or (refers and self._previous is not None):
            return None
        is_bare = not (question.periods or question.groups or question.filters)
        return part if is_bare and (not question.has_figure or INTERROGATIVE.match(part)) else None

    def _add_figures(self, part: str) -> None:
        question, previous = parse(part, self.today), self._previous
        if not self._knows_tables:
            raise CannotAnswer(
                "Without a language model I know the demo shop's tables only. Of this warehouse you can ask in SQL: begin with SELECT."
            )
        if previous is not None and continues(previous, question, part):
            question = merged(previous, question)
        elif not question.is_unclear:
            if not question.has_figure and not question.narrows:
                return  # words that ask for nothing
            # "units" after a question that was not understood is an answer to it.
            is_answer = self._was_unclear and not question.narrows and not INTERROGATIVE.match(part)
            if is_answer or (previous is None and question.has_figure and PATTERNS["dependent"].search(part)):
                raise CannotAnswer(
                    f"Which question does '{part[:60]}' belong to? I did not understand one before it. Please say it as a whole."
                )
        found = figures(question)
        self._previous = question  # "and how many customers?" in the same message continues it
        for made in found:
            self._notes += made.notes
            call = self._call("bq_query", made.title, sql=made.sql)
            if made.changes:
                first, last = (f"{{{{{call.id}.rows.{row}.1}}}}" for row in (0, 1))
                self._call("calculate", "Change in percent", expression=f"round(({last} - {first}) / {first} * 100, 2)")


def _terms(text: str) -> str:
    """Return the words to search the handbook for."""
    return " ".join(word for word in re.findall(r"[\w'-]+", text) if word.lower() not in FILLER)


def _page(question: Question) -> str:
    """Return the title of the page that defines a figure or a value, if a search for the words would find another page."""
    if question.is_unclear or question.groups or question.periods:
        return ""
    if question.measures:
        return "gross revenue" if question.measures == ("revenue",) and not question.filters else ""
    return _PAGES.get(question.filters[0].group, "") if len(question.filters) == 1 else ""


def _handbook(part: str) -> str | None:
    """Return what to look up if the part names the handbook or asks for a definition."""
    text = PATTERNS["first_words"].sub("", part)
    found = PATTERNS["handbook"].match(text) or PATTERNS["defined"].match(text)
    return found[1] if found is not None else None


def _history(payload: dict[str, Any], today: dt.date) -> tuple[Question | None, bool]:
    """Return the last question about the warehouse merged with its follow-ups, and whether the last message was unclear."""
    previous: Question | None = None
    was_unclear = False
    for message in payload.get("conversation", []):
        if message["role"] != "human":
            continue
        was_unclear = False
        for part in _parts(message["text"][:_MAX_QUESTION], today):
            question = parse(part, today)
            was_unclear |= question.is_unclear and (question.has_figure or question.narrows)
            if is_query(part) or small_talk_in(part) is not None or PATTERNS["handbook"].match(part):
                continue
            if question.is_unclear:
                previous = None if question.has_figure or question.narrows else previous
            elif previous is not None and continues(previous, question, part):
                previous = merged(previous, question)
            elif (question.is_whole or question.narrows) and not (question.is_fragment and question.has_figure):
                previous = question
    return previous, was_unclear and previous is None


def _plan_again(payload: dict[str, Any]) -> PlannerDecision:
    """Search again with synonyms, and add a note. Fewer words would find unrelated pages."""
    failures: list[dict[str, Any]] = payload["failures"]
    tried = {str(one["args"].get("query", "")).lower() for one in failures if one["tool"] == "search"}
    calls: list[WantedCall] = []
    notes: list[str] = []
    for one in failures:
        query = str(one["args"].get("query", "")) if one["tool"] == "search" else ""
        others = " ".join(SYNONYMS.get(word.lower(), word) for word in query.split())
        if others and others.lower() not in tried:
            tried.add(others.lower())
            notes.append(f"The handbook has nothing on '{query}'. What comes nearest is '{others}', so I looked for that.")
            name, args = f"call-{len(failures) + len(calls) + 1}", {**one["args"], "query": others}
            calls.append(WantedCall(id=name, tool="search", args=args, part=one.get("part", "")))
    if calls:
        parts = list(dict.fromkeys(call.part for call in calls))
        reason = "Nothing was found: other words."
        return PlannerDecision(next_step="tool_use", tool_calls=calls[:MAX_CALLS], parts=parts, notes=notes[:MAX_CALLS], reason=reason)
    is_empty = all(one["tool"] == "search" and one["reason"] == "It found nothing." for one in failures)
    if payload.get("answered") or not is_empty or PATTERNS["handbook"].match(payload["question"]):
        return _no_tools("Nothing else comes to mind.")
    words = ", ".join(dict.fromkeys(f"'{one['args'].get('query', '')}'" for one in failures))[:200]
    hint = f"{hint_for(words)} " if hint_for(words) else ""
    return _ask(
        f"I could not find a page of the shop's handbook on {words}, and it is no figure that I know. {hint}"
        f"I answer questions about the demo shop's data, for example: {EXAMPLES}. What would you like to know?"
    )


def _summary(payload: dict[str, Any]) -> Summary:
    """Concatenate the questions and the beginnings of the answers, and drop the oldest text when it is too long."""
    lines = [payload["summary"]] if payload.get("summary") else []
    names = {"human": "Asked"}
    lines += [f"{names.get(one['role'], 'Said')}: {' '.join(one['text'].split())[:120]}" for one in payload.get("conversation", [])]
    return Summary(summary="\n".join(lines)[-_MAX_SUMMARY:])
