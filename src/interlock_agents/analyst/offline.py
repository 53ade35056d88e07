"""The offline model of the analyst: rules over words that cover the demo data and ask back about everything else."""

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
from interlock_agents.analyst.asking import EXAMPLES, hint_for, is_beyond, what_is_unclear
from interlock_agents.analyst.charts import chart_wanted, without_chart
from interlock_agents.analyst.figures import CannotRead, Unclear, figures
from interlock_agents.analyst.following import ASKING, continues, followed_up
from interlock_agents.analyst.handbook import GENERAL, SYNONYMS, terms_of
from interlock_agents.analyst.plan import MAX_CALLS, PlannerDecision, Summary, WantedCall
from interlock_agents.analyst.reader import read
from interlock_agents.analyst.reading import Reading
from interlock_agents.analyst.replies import answer, is_query
from interlock_agents.analyst.talk import talk_in, without_greeting

__all__ = ["AnalystRules"]

T = TypeVar("T", bound=BaseModel)

_SPLIT = re.compile(r" ?(?:;|\?(?=\s|$)|(?<!vs)(?<!excl)(?<!incl)(?<!avg)(?<!approx)(?<!resp)[.!](?=\s|$)|,? and then )", re.IGNORECASE)
_JOINED = re.compile(
    r"(?:,? and |, )(?=(?:what|how|which|calculate|search|define|use|run|explain|give me|show me|tell me)\b)",
    re.IGNORECASE,
)
_SUM = re.compile(r"(?:(?:what(?:'s| is)|calculate|compute|how much is|work out)\s+)?([-+(]*\s*\d[\d\s.,+*/()^%-]*)=?", re.IGNORECASE)
_SIGNS = (
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"\b(?:times|multiplied by)\b|(?<=\d)\s*[x\u00d7]\s*(?=\d)", "*"),
    (r"\bdivided by\b|\u00f7", "/"),
)
_PART = re.compile(
    r"(?:(?:and|please|so|now|then|(?:tell|give|show) me|calculate|compute|how much (?:is|are|was)|what(?:'s| is| are| was)?)\s+){0,4}"
    r"(\d+(?:\.\d+)?)\s*(?:%|percent)\s+of\s+(.*)",
    re.IGNORECASE,
)
_HANDBOOK = re.compile(
    r"^(?:please\s+|can you\s+|could you\s+)*(?:what (?:does|do|says?) (?:the |our )?"
    r"(?:handbook|documents?|docs?|documentation|policy|policies|guidelines?) say (?:about|on)"
    r"|(?:search|look)(?: (?:in|through))?(?: the| our)? (?:documents?|docs|handbook|documentation)(?: for| about)?"
    r"|search(?: for)?|look up|define|(?:what(?:'s| is)|give me) the (?:definition|meaning) of|definition of|meaning of)"
    r"\s+(?:the |a |an |our )?(.*)$",
    re.IGNORECASE,
)
_DEFINED = re.compile(r"^(?:what(?:'s| is)\s+)?(?:the |our )?(.*?)(?:'s)? (?:definition|meaning)$", re.IGNORECASE)
_DEFINITION = re.compile(
    r"^(?:please\s+|can you\s+|could you\s+)*"
    r"(?:what(?:'s| is| are| does| do)|explain(?: to me)?|tell me about|how (?:is|are|do|does))\s+(.*)$",
    re.IGNORECASE,
)
_PAST = re.compile(r"(?:what|how|which)(?: \w+)? (?:was|were|did|had)\b", re.IGNORECASE)
_FIRST_WORDS = re.compile(r"^(?:(?:and|now|so|but|ok(?:ay)?|then|also|well)[, ]+)+", re.IGNORECASE)
_POINTED = re.compile(r"^(?:the|our|total|my|your)\s", re.IGNORECASE)
_LEANING = re.compile(r"^by\b|\b(?:same|those|them|these|instead)\b", re.IGNORECASE)
_STATEMENT = re.compile(r"^(?:i|i'm|im|we|we're|you|my|he|she|they|it|this|that|there|our|your|his|her|sorry|no|yes)\b", re.IGNORECASE)
_SEVERAL = re.compile(r",? and (?:the |our )?|, |,? (?:vs\.?|versus|or) ", re.IGNORECASE)
_PAGES = {"status": "order status", "segment": "customer segments", "channel": "sales channels", "category": "product categories"}
_LONGEST_SUMMARY = 2000
# In characters: some rules take quadratic time.
_LONGEST_QUESTION = 2000
_TABLES = ("customers(", "products(", "orders(", "order_items(")


class AnalystRules(Rules):
    """The rules that replace the analyst's model."""

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
        return answer(json.loads(messages[-1].text))


def _plan(payload: dict[str, Any]) -> PlannerDecision:
    if payload.get("failures"):
        return _plan_again(payload)
    question: str = payload["question"]
    if talk_in(question) is not None:
        return _plain("It needs no data.")
    if len(question) > _LONGEST_QUESTION and not is_query(question):
        return _asking(f"Could you say that in at most {_LONGEST_QUESTION:,} characters? Without a language model I cannot read more.")
    planned = _Planned(payload)
    if chart_wanted(question) and not is_query(question) and not without_chart(without_greeting(question)).strip(" .?!,"):
        return planned.repeated(payload.get("last_calls", []))
    for part in _parts(question, planned.today):
        planned.add(part)
    return planned.decision()


def _plain(reason: str) -> PlannerDecision:
    return PlannerDecision(next_step="generate", tool_calls=[], parts=[], notes=[], reason=reason)


def _asking(ask: str) -> PlannerDecision:
    return PlannerDecision(next_step="generate", tool_calls=[], parts=[], notes=[], reason="It is not clear what is asked.", ask=ask)


def _parts(question: str, today: dt.date) -> list[str]:
    """Split a message into its questions. A SQL query is not split."""
    if is_query(question):
        return [question]
    plain = without_chart(" ".join(without_greeting(" ".join(question.split())).split()))
    parts = [chunk for part in _SPLIT.split(plain) for chunk in _joined_parts(part.strip(" .?!,"), today)]
    parts = [without_greeting(part.strip(" .?!,")) for part in parts if part.strip(" .?!,")]
    return _with_fragments([part for part in parts if talk_in(part) is None], today) or parts


def _with_fragments(parts: list[str], today: dt.date) -> list[str]:
    """Join a fragment with the part before it: 'Revenue in 2025? By country!' is one question."""
    joined: list[str] = []
    for part in parts:
        reading = read(part, today)
        if joined and reading.is_fragment and not reading.has_figure and not read(f"{joined[-1]} {part}", today).is_unclear:
            joined[-1] += f" {part}"
        else:
            joined.append(part)
    return joined


def _joined_parts(part: str, today: dt.date) -> list[str]:
    """Split at 'and', unless both sides are one question: "how many orders and how much revenue in 2025" is about one year."""
    chunks = _JOINED.split(part)
    if len(chunks) == 1:
        return chunks
    readings = [read(chunk, today) for chunk in chunks]
    is_one = not read(part, today).is_unclear and any(not (one.narrows and one.is_whole) for one in readings)
    return [part] if is_one else [chunks[0], *(f"and {chunk}" for chunk in chunks[1:])]


class _Planned:
    """Collects the calls, notes and questions back for the parts of a question."""

    def __init__(self, payload: dict[str, Any]) -> None:
        self._offered = {tool["name"]: tool for tool in payload.get("tools", [])}
        self.today = dt.date.fromisoformat(payload["today"]) if payload.get("today") else dt.date.min.replace(year=2026)
        self._before = _before(payload, self.today)
        self._is_lost = self._before is None and _was_unclear(payload, self.today)
        self._calls: list[WantedCall] = []
        self._notes: list[str] = []
        self._asks: list[str] = []
        description = self._offered.get("bq_query", {}).get("description", "")
        self._knows_tables = all(name in description for name in _TABLES) or "Tables:" not in description

    def decision(self) -> PlannerDecision:
        """Plan the understood parts. Mention the others in the notes, or ask back if no part was understood."""
        calls = [call for call in self._calls if call.tool in self._offered]
        if not calls and self._asks:
            return _asking("\n\n".join(dict.fromkeys(self._asks)))
        if not calls:
            return _plain("There is no tool for it.")
        if len(calls) > MAX_CALLS:
            return _asking(f"These are {len(calls)} questions. Which {MAX_CALLS} of them shall I begin with?")
        return PlannerDecision(
            next_step="tool_use",
            tool_calls=calls,
            parts=list(dict.fromkeys(call.part for call in calls)),
            notes=list(dict.fromkeys([*self._notes, *self._asks])),
            reason=f"It takes {', '.join(dict.fromkeys(call.tool for call in calls))}.",
        )

    def repeated(self, calls: Sequence[dict[str, Any]]) -> PlannerDecision:
        """Repeat the query of the last answer to draw it."""
        queries = [str(one["args"]["sql"]) for one in calls if one["tool"] == "bq_query" and "sql" in one["args"]]
        self._calls += [self._call("bq_query", "your query", sql=sql) for sql in dict.fromkeys(queries)][:1]
        self._asks.append("What shall I draw? Ask for a figure by one grouping first, for example revenue by month in 2025.")
        made = self.decision()
        return made.model_copy(update={"notes": []})

    def add(self, part: str) -> None:
        """Add the calls for one part of a question."""
        try:
            self._add(part)
        except Unclear as error:
            self._asks.append(what_is_unclear(error.reading, self.today))
        except CannotRead as error:
            self._asks.append(str(error))

    def _add(self, part: str) -> None:
        named = self._call("bq_query", "your query", sql=part) if is_query(part) else self._named_tool(part)
        sum_of = _worded(part)
        share, summed = _PART.fullmatch(part), _SUM.fullmatch(sum_of)
        if named is not None:
            self._calls.append(named)
        elif summed is not None and re.search(r"\d\s*[-+*/^%]", summed[1]):
            expression = summed[1].replace("^", "**").replace(",", "").strip()
            self._calls.append(self._call("calculate", expression, expression=expression))
        elif share is not None:
            self._add_share(share)
        elif (looked_up := self._looked_up(part)) is not None:
            self._search(looked_up, is_handbook=_handbook(part) is not None)
            defined = read(looked_up, self.today)
            if self._before is None and defined.measures and not defined.is_unclear:
                self._before = defined  # "what is net revenue, and how much was it in 2025"
        else:
            self._add_figures(part)

    def _add_share(self, share: re.Match[str]) -> None:
        if re.fullmatch(r"[\d.,]+", share[2]):
            expression = f"{share[1]} / 100 * {share[2].replace(',', '')}"
            self._calls.append(self._call("calculate", expression, expression=expression))
            return
        made = figures(read(share[2], self.today))
        if len(made) != 1 or " GROUP BY " in made[0].sql or " UNION " in made[0].sql:
            raise CannotRead(f"I can take {share[1]}% of one figure at a time. Of which one?")
        figure = self._call("bq_query", made[0].part, sql=made[0].sql)
        self._notes += made[0].notes
        expression = f"{share[1]} / 100 * {{{{{figure.id}.rows.0.0}}}}"
        self._calls.append(figure)
        self._calls.append(self._call("calculate", f"{share[1]}% of that", expression=expression))

    def _looked_up(self, part: str) -> str | None:
        """Return the search terms if the part asks about the documents and not for a figure."""
        is_continued, part = read(part, self.today).refers, _FIRST_WORDS.sub("", part)
        if (handbook := _handbook(part)) is not None:
            return handbook
        terms = terms_of(part).lower().split()
        if (
            is_beyond(part)
            or (_PAST.match(part) and read(part, self.today).has_figure)
            or _STATEMENT.match(part)
            or (terms and GENERAL.issuperset(terms))
        ):
            return None
        reading = replace(read(part, self.today), refers=is_continued)
        defined = _DEFINITION.match(part)
        if defined is not None and (reading.is_unclear or not reading.narrows):
            is_figure = not reading.is_unclear and reading.has_figure and (_POINTED.match(defined[1]) or reading.listed or reading.counted)
            is_bare = not (reading.periods or reading.groups) and (not reading.filters or defined[0].lower().startswith("how"))
            return defined[1] if not is_figure and (is_bare or not reading.has_figure) and not self._follows(reading) else None
        if (reading.refers and self._before is not None) or reading.ranks_nothing:
            return None
        if (
            reading.is_unclear
            and not (reading.periods or reading.groups or reading.filters)
            and (not reading.has_figure or ASKING.match(part))
        ):
            return part if not reading.counts else None
        return None

    def _follows(self, reading: Reading) -> bool:
        return self._before is not None and reading.refers and not reading.is_unclear

    def _add_figures(self, part: str) -> None:
        reading = read(part, self.today)
        if not self._knows_tables:
            raise CannotRead(
                "Without a language model I know the demo shop's tables only. Of this warehouse you can ask in SQL: begin with SELECT."
            )
        if self._before is not None and continues(self._before, reading, part):
            reading = followed_up(self._before, reading)
        elif not reading.is_unclear and not reading.has_figure and not reading.narrows:
            return  # words that ask for nothing
        elif self._before is None and not reading.is_unclear and reading.has_figure and _LEANING.search(part):
            raise CannotRead(_belongs_to_none(part))
        elif self._is_lost and not reading.is_unclear and not reading.narrows and not ASKING.match(part):
            raise CannotRead(_belongs_to_none(part))  # "units" after a question that was not understood is an answer to it
        found = figures(reading)
        self._before = reading  # "and how many customers?" in the same message belongs to it
        for made in found:
            self._notes += made.notes
            call = self._call("bq_query", made.part, sql=made.sql)
            self._calls.append(call)
            if made.changes:
                first, last = (f"{{{{{call.id}.rows.{row}.1}}}}" for row in (0, 1))
                change = f"ROUND(({last} - {first}) / {first} * 100, 2)".replace("ROUND", "round")
                self._calls.append(self._call("calculate", "Change in percent", expression=change))

    def _search(self, text: str, *, is_handbook: bool) -> None:
        """Search the documents. Unless the question names them, accept only a page with a matching title."""
        chunks = _compared(text) or _SEVERAL.split(text)
        readings = [read(one, self.today) for one in chunks]
        is_several = all(one.measures and not one.is_unclear for one in readings)  # "net revenue and gross revenue" are two pages
        for one in chunks if is_several else [text]:
            terms = terms_of(one) or one
            terms = _page_of(read(terms, self.today)) or terms
            if terms.strip():
                only: dict[str, JsonValue] = {} if is_handbook else {"titled": True}
                self._calls.append(self._call("search", one.strip()[:200], query=terms, **only))

    def _call(self, tool: str, part: str, **args: JsonValue) -> WantedCall:
        return WantedCall(id=f"call-{len(self._calls) + 1}", tool=tool, args=args, part=part)

    def _named_tool(self, part: str) -> WantedCall | None:
        """Call a tool that is named, with the rest of what is said for the one text that it takes."""
        found = re.match(r"(?:please\s+)?(?:use|run|call|ask)\s+([\w.-]+)(?:\s+(?:with|for|on|about))?\s*(.*)", part, re.IGNORECASE)
        if found is None or found[1] not in self._offered:
            return None
        properties = self._offered[found[1]]["parameters"].get("properties")
        names = list(cast("dict[str, Any]", properties)) if isinstance(properties, dict) else []
        return self._call(found[1], part, **({names[0]: found[2]} if names and found[2] else {}))


def _page_of(reading: Reading) -> str:
    """Return the title of the page that defines what was read, where the words themselves would find another one."""
    if reading.is_unclear or reading.groups or reading.periods:
        return ""
    if reading.measures:
        return "gross revenue" if reading.measures == ("revenue",) and not reading.filters else ""
    return _PAGES.get(reading.filters[0].group, "") if len(reading.filters) == 1 else ""


def _compared(text: str) -> list[str]:
    """Return the two things whose difference is asked for: 'gross and net revenue' are gross revenue and net revenue."""
    found = re.match(r"(?:the )?difference between (?:the |our )?(.+?) and (?:the |our )?(.+)", text, re.IGNORECASE)
    if found is None:
        return []
    first, second = found[1], found[2]
    return [f"{first} {second.split()[-1]}" if " " not in first and " " in second else first, second]


def _handbook(part: str) -> str | None:
    """Return what is asked of the handbook, where it is named or a definition is."""
    found = _HANDBOOK.match(_FIRST_WORDS.sub("", part)) or _DEFINED.match(_FIRST_WORDS.sub("", part))
    return found[1] if found is not None else None


def _worded(part: str) -> str:
    """Write the words of a sum as signs."""
    for words, sign in _SIGNS:
        part = re.sub(words, f" {sign} ", part, flags=re.IGNORECASE)
    return part


def _before(payload: dict[str, Any], today: dt.date) -> Reading | None:
    """Return the last question of the conversation about the warehouse, merged with its follow-ups."""
    before: Reading | None = None
    for said in payload.get("conversation", []):
        for part in _parts(said["text"][:_LONGEST_QUESTION], today) if said["role"] == "human" else ():
            if is_query(part) or talk_in(part) is not None or _HANDBOOK.match(part):
                continue
            reading = read(part, today)
            if reading.is_unclear:
                before = None if reading.has_figure or reading.narrows else before
                continue
            if before is not None and continues(before, reading, part):
                before = followed_up(before, reading)
            elif (reading.is_whole or reading.narrows) and not (reading.is_fragment and reading.has_figure):
                before = reading
    return before


def _was_unclear(payload: dict[str, Any], today: dt.date) -> bool:
    """Return whether the last thing that was said asked for a figure that was not understood."""
    said = [one["text"] for one in payload.get("conversation", []) if one["role"] == "human"][-1:]
    readings = [read(part, today) for text in said for part in _parts(text[:_LONGEST_QUESTION], today)]
    return any(one.is_unclear and (one.has_figure or one.narrows) for one in readings)


def _belongs_to_none(part: str) -> str:
    return f"Which question does '{part[:60]}' belong to? I did not understand one before it. Please say it as a whole."


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
            calls.append(
                WantedCall(
                    id=f"call-{len(failures) + len(calls) + 1}",
                    tool="search",
                    args={**one["args"], "query": others},
                    part=one.get("part", ""),
                )
            )
    if not calls:
        return _beside_the_point(payload) or _plain("Nothing else comes to mind.")
    parts = list(dict.fromkeys(call.part for call in calls))
    return PlannerDecision(
        next_step="tool_use", tool_calls=calls[:MAX_CALLS], parts=parts, notes=notes[:MAX_CALLS], reason="Nothing was found: other words."
    )


def _hint(words: str) -> str:
    return f"{hint} " if (hint := hint_for(words)) else ""


def _beside_the_point(payload: dict[str, Any]) -> PlannerDecision | None:
    """Ask back with examples if a search found nothing and the question did not name the handbook."""
    failures: list[dict[str, Any]] = payload["failures"]
    is_empty = all(one["tool"] == "search" and one["reason"] == "It found nothing." for one in failures)
    if payload.get("answered") or not is_empty or _HANDBOOK.match(payload["question"]):
        return None
    words = ", ".join(dict.fromkeys(f"'{one['args'].get('query', '')}'" for one in failures))[:200]
    return _asking(
        f"I could not find a page of the shop's handbook on {words}, and it is no figure that I know. {_hint(words)}"
        f"I answer questions about the demo shop's data, for example: {EXAMPLES}. What would you like to know?"
    )


def _summary(payload: dict[str, Any]) -> Summary:
    """Concatenate the questions and the beginnings of the answers, and drop the oldest text when it is too long."""
    lines = [payload["summary"]] if payload.get("summary") else []
    for one in payload.get("conversation", []):
        text = " ".join(one["text"].split())
        lines.append(f"{'Asked' if one['role'] == 'human' else 'Said'}: {text[:120]}")
    return Summary(summary="\n".join(lines)[-_LONGEST_SUMMARY:])
