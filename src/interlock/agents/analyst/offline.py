"""What the analyst plans and says where there is no model: rules over words, good for the demo data and honest about the rest."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel, JsonValue

from interlock.adapters.models.rules import Rules
from interlock.agents.analyst.charts import ChartKind, chart_of, chart_wanted, text_of, without_chart
from interlock.agents.analyst.figures import CannotRead, figures
from interlock.agents.analyst.following import ASKING, continues, followed_up
from interlock.agents.analyst.handbook import GENERAL, SYNONYMS, terms_of
from interlock.agents.analyst.plan import MAX_CALLS, PlannerDecision, Summary, WantedCall
from interlock.agents.analyst.reader import read
from interlock.agents.analyst.reading import Reading
from interlock.agents.analyst.tables import table
from interlock.agents.analyst.talk import ABOUT, answered, talk_in, without_greeting
from interlock.capabilities import Message, Tool

__all__ = ["AnalystRules"]

T = TypeVar("T", bound=BaseModel)

_SPLIT = re.compile(r" ?(?:;|\?(?=\s|$)|(?<!vs)[.!](?=\s|$)|,? and then )", re.IGNORECASE)
_JOINED = re.compile(
    r"(?:,? and |, )(?=(?:what|how|which|calculate|search|define|use|run|explain)\b)",
    re.IGNORECASE,
)
_SUM = re.compile(r"(?:(?:what(?:'s| is)|calculate|compute|how much is|work out)\s+)?([-+(]*\s*\d[\d\s.,+*/()^%-]*)=?", re.IGNORECASE)
_SIGNS = (
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"\b(?:times|multiplied by)\b|(?<=\d)\s*[x\u00d7]\s*(?=\d)", "*"),
    (r"\bdivided by\b|\u00f7", "/"),
)
_PART = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s*(?:%|percent)\s+of\s+(.*)", re.IGNORECASE)
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
_FIRST_WORDS = re.compile(r"^(?:(?:and|now|so|but|ok(?:ay)?|then|also|well)[, ]+)+", re.IGNORECASE)
_POINTED = re.compile(r"^(?:the|our|total|my|your)\s", re.IGNORECASE)
_QUERY = re.compile(r"\s*(?:select\b|with\s+\w+\s+as\s*\()", re.IGNORECASE)
_LEANING = re.compile(r"^by\b|\b(?:same|those|them|these|instead)\b", re.IGNORECASE)
_STATEMENT = re.compile(r"^(?:i|i'm|im|we|we're|you|my|he|she|they|it|this|that|there|our|your|his|her|sorry|no|yes)\b", re.IGNORECASE)
_SEVERAL = re.compile(r",? and (?:the |our )?|, |,? (?:vs\.?|versus|or) ", re.IGNORECASE)
_LONGEST_SUMMARY = 2000
_LONGEST_QUESTION = 2000  # characters that the rules read; some take time that grows with the square of that
_TABLES = ("customers(", "products(", "orders(", "order_items(")


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
    if payload.get("failures"):
        return _plan_again(payload)
    question: str = payload["question"]
    if talk_in(question) is not None:
        return _plain("It needs no data.")
    if len(question) > _LONGEST_QUESTION and not _QUERY.match(question):
        return _asking(f"Could you say that in at most {_LONGEST_QUESTION:,} characters? Without a language model I cannot read more.")
    planned = _Planned(payload)
    if chart_wanted(question) and not _QUERY.match(question) and not without_chart(without_greeting(question)).strip(" .?!,"):
        return planned.repeated(payload.get("last_calls", []))
    for part in _parts(question, planned.today):
        planned.add(part)
    return planned.decision()


def _plain(reason: str) -> PlannerDecision:
    return PlannerDecision(next_step="generate", tool_calls=[], parts=[], notes=[], reason=reason)


def _asking(ask: str) -> PlannerDecision:
    return PlannerDecision(next_step="generate", tool_calls=[], parts=[], notes=[], reason="It is not clear what is asked.", ask=ask)


def _parts(question: str, today: dt.date) -> list[str]:
    """Take a question apart into those that it is made of; a query is one."""
    if _QUERY.match(question):
        return [question]
    plain = without_chart(" ".join(without_greeting(" ".join(question.split())).split()))
    parts = [piece for part in _SPLIT.split(plain) for piece in _pieces(part.strip(" .?!,"), today)]
    parts = [without_greeting(part.strip(" .?!,")) for part in parts if part.strip(" .?!,")]
    return _with_fragments([part for part in parts if talk_in(part) is None], today) or parts


def _with_fragments(parts: list[str], today: dt.date) -> list[str]:
    """Put what only adds to the part before it together with that: 'Revenue in 2025? By country!' is one question."""
    joined: list[str] = []
    for part in parts:
        reading = read(part, today)
        if joined and reading.is_fragment and not reading.has_figure and not read(f"{joined[-1]} {part}", today).is_unclear:
            joined[-1] += f" {part}"
        else:
            joined.append(part)
    return joined


def _pieces(part: str, today: dt.date) -> list[str]:
    """Take apart what 'and' joins, unless it is one question: "how many orders and how much revenue in 2025" is about one year."""
    pieces = _JOINED.split(part)
    if len(pieces) == 1:
        return pieces
    readings = [read(piece, today) for piece in pieces]
    is_one = (
        not read(part, today).is_unclear
        and any(not one.narrows for one in readings)
        and all(one.has_figure and not one.is_unclear for one in readings)
    )
    return [part] if is_one else pieces


class _Planned:
    """The calls for the parts of a question, what has to be said before their results, and what has to be asked."""

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
        """Plan all that was understood; what was not is asked where nothing was, and said first where something was."""
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
        """Ask the warehouse once more for what the last answer came from, so that it can be drawn."""
        queries = [str(one["args"]["sql"]) for one in calls if one["tool"] == "bq_query" and "sql" in one["args"]]
        self._calls += [self._call("bq_query", "your query", sql=sql) for sql in dict.fromkeys(queries)][:1]
        self._asks.append("What shall I draw? Ask for a figure by one grouping first, for example revenue by month in 2025.")
        made = self.decision()
        return made.model_copy(update={"notes": []})

    def add(self, part: str) -> None:
        """Add the calls for one part of a question."""
        try:
            self._add(part)
        except CannotRead as error:
            self._asks.append(str(error))

    def _add(self, part: str) -> None:
        named = self._call("bq_query", "your query", sql=part) if _QUERY.match(part) else self._named_tool(part)
        sum_of = _worded(part)
        share, summed = _PART.search(part), _SUM.fullmatch(sum_of)
        if named is not None:
            self._calls.append(named)
        elif summed is not None and re.search(r"\d\s*[-+*/^%]", summed[1]):
            expression = summed[1].replace("^", "**").replace(",", "").strip()
            self._calls.append(self._call("calculate", expression, expression=expression))
        elif share is not None:
            self._add_share(share)
        elif (looked_up := self._looked_up(part)) is not None:
            self._search(looked_up, is_handbook=_handbook(part) is not None)
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
        """Return what is to be looked up in the documents, where it is that and no figure."""
        is_continued, part = read(part, self.today).refers, _FIRST_WORDS.sub("", part)
        if (handbook := _handbook(part)) is not None:
            return handbook
        terms = terms_of(part).lower().split()
        if _STATEMENT.match(part) or (terms and GENERAL.issuperset(terms)):
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
            return part if not part.lower().startswith(("how many", "how much")) else None
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
        """Search the documents; where nobody spoke of them, only for a page that is about this."""
        pieces = _compared(text) or _SEVERAL.split(text)
        readings = [read(one, self.today) for one in pieces]
        is_several = all(one.measures and not one.is_unclear for one in readings)  # "net revenue and gross revenue" are two pages
        for one in pieces if is_several else [text]:
            terms = terms_of(one) or one
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
    """Find what the conversation last asked of the warehouse, what followed up on it included."""
    before: Reading | None = None
    for said in payload.get("conversation", []):
        for part in _parts(said["text"][:_LONGEST_QUESTION], today) if said["role"] == "human" else ():
            if _QUERY.match(part) or talk_in(part) is not None or _HANDBOOK.match(part):
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
    """Tell whether the last thing that was said asked for a figure that was not understood."""
    said = [one["text"] for one in payload.get("conversation", []) if one["role"] == "human"][-1:]
    readings = [read(part, today) for text in said for part in _parts(text[:_LONGEST_QUESTION], today)]
    return any(one.is_unclear and (one.has_figure or one.narrows) for one in readings)


def _belongs_to_none(part: str) -> str:
    return f"Which question does '{part[:60]}' belong to? I did not understand one before it. Please say it as a whole."


def _plan_again(payload: dict[str, Any]) -> PlannerDecision:
    """Look for the same in words that mean the same, and say so. Fewer words would find what nobody asked about."""
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


def _beside_the_point(payload: dict[str, Any]) -> PlannerDecision | None:
    """Say what can be asked, where the handbook has nothing and nobody spoke of it: that is no question about the shop."""
    failures: list[dict[str, Any]] = payload["failures"]
    is_empty = all(one["tool"] == "search" and one["reason"] == "It found nothing." for one in failures)
    if payload.get("answered") or not is_empty or _HANDBOOK.match(payload["question"]):
        return None
    words = ", ".join(dict.fromkeys(f"'{one['args'].get('query', '')}'" for one in failures))[:200]
    return _asking(f"I could not find a page of the shop's handbook on {words}, and it is no figure that I know. {ABOUT}")


def _answer(payload: dict[str, Any]) -> str:
    question: str = payload["question"]
    outputs: list[dict[str, Any]] = payload.get("outputs", [])
    notes = "".join(f"{note}\n\n" for note in payload.get("notes", []))
    wanted = None if _QUERY.match(question) else chart_wanted(question)
    if outputs and wanted is not None:
        return notes + "\n\n".join(f"{_drawn(one, wanted)}\n[{one['id']}]" for one in outputs)
    if outputs:
        return notes + "\n\n".join(
            f"{told}{'' if told.endswith(chr(10)) else ' '}[{one['id']}]" for one in outputs for told in [_told(one)]
        )
    if payload.get("failures"):
        return f"{notes}I could not find this out."
    kind = talk_in(question)
    return answered(kind, payload) if kind is not None else ABOUT


def _drawn(output: dict[str, Any], wanted: ChartKind | Literal["any"]) -> str:
    """Draw what a tool found, or say it where it cannot be drawn."""
    chart = chart_of(output["result"], wanted) if output["tool"] == "bq_query" else None
    part = str(output.get("part") or "")
    if chart is None:
        return f"This cannot be drawn: a chart takes a figure by one grouping, such as revenue by month.\n\n{_told(output)}"
    title = f"{part}:\n\n" if part and part != "your query" else ""
    return f"{title}{text_of(chart)}{_cut_short(output['result'])}"


def _told(output: dict[str, Any]) -> str:
    """Say what a tool found."""
    result: Any = output["result"]
    part = str(output.get("part") or "")
    match output["tool"], result:
        case "bq_query", {"columns": [*columns], "rows": [*rows]} if rows and all(isinstance(row, list) for row in rows):
            return _rows([str(column) for column in columns], rows, result, part)
        case "search", {"documents": [{"title": title, "passage": passage, **more}, *_]}:
            lacking = ", ".join(f"'{word}'" for word in cast("list[str]", more.get("lacks", [])))
            return (
                f"The nearest page of the handbook, which does not have {lacking}: {title}: {passage}" if lacking else f"{title}: {passage}"
            )
        case "calculate", {"expression": expression, "value": value}:
            return f"{expression} = {value}" if not part or part == expression else f"{part}: {expression} = {value}"
        case _:
            return f"{output['tool']}: {result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)}"


def _rows(columns: list[str], rows: list[list[Any]], result: dict[str, Any], part: str) -> str:
    told = table(columns, rows)
    if len(rows) == len(columns) == len(rows[0]) == 1:
        return f"{part if part and part != 'your query' else columns[0].replace('_', ' ').capitalize()}: {told}"
    heading = f"{part}:\n\n" if part and part != "your query" else ""
    return f"{heading}{told}{_cut_short(result)}\n"


def _cut_short(result: dict[str, Any]) -> str:
    """Say how much of a result is not shown, on lines of its own."""
    shown, count = result.get("shown"), result.get("row_count")
    told = f"\nShown: {shown:,} of {count:,} rows. Ask for the top few or for less, or save all of them as FILE.csv." if shown else ""
    return f"{told}\n{result['cut']}" if result.get("cut") else told


def _summary(payload: dict[str, Any]) -> Summary:
    """Keep what was asked and how the answers begin; the oldest goes first."""
    lines = [payload["summary"]] if payload.get("summary") else []
    for one in payload.get("conversation", []):
        text = " ".join(one["text"].split())
        lines.append(f"{'Asked' if one['role'] == 'human' else 'Said'}: {text[:120]}")
    return Summary(summary="\n".join(lines)[-_LONGEST_SUMMARY:])
