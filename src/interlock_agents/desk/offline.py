"""The offline model of the desk: rules that cover the demo shop and ask back about everything else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from interlock.capabilities import Message, ModelReply, Tool, ToolCall, ToolResult
from interlock.models.rules import Rules
from interlock.spelling import edit_distance
from interlock_agents.desk.answering import ended, not_noted, order_answer, queries, stock_answer, summary_answer
from interlock_agents.desk.planning import planned
from interlock_agents.desk.plans import ABILITIES, CANCEL, HELP, ORDER, SAY, STOCK, SUM, SUMMARY
from interlock_agents.desk.roles import (
    PERSON,
    SMALL_TALK,
    PlannerRequest,
    PlannerResponse,
    SpecialistRequest,
    SpecialistResponse,
    StateUpdates,
)
from interlock_agents.desk.session import Goal
from interlock_agents.desk.vocabulary import TOPICS
from interlock_agents.desk.words import content

__all__ = ["DeskRules"]

T = TypeVar("T", bound=BaseModel)

_FEW = 2


class DeskRules(Rules):
    """The rules that replace the models of the planner and the specialists."""

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:
        """Plan, or answer."""
        payload = messages[-1].text
        made: BaseModel
        if schema is PlannerResponse:
            made = PlannerResponse(goal=planned(PlannerRequest.model_validate_json(payload)))
        elif schema is SpecialistResponse:
            made = _answer(SpecialistRequest.model_validate_json(payload))
        else:
            return super().decide(messages, schema)
        return cast("T", made)

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str | ModelReply:
        """Choose tools by the kind of the goal, or answer without a tool."""
        request = SpecialistRequest.model_validate_json(messages[-1].text)
        offered = {tool.name for tool in tools}
        calls = [(tool, arguments) for tool, arguments in _wanted(request) if tool in offered]
        if not calls:
            return "No tool is needed."
        return ModelReply(
            calls=tuple(ToolCall(id=f"call-{n}", name=tool, arguments={**arguments}) for n, (tool, arguments) in enumerate(calls, 1))
        )


def _wanted(request: SpecialistRequest) -> list[tuple[str, dict[str, Any]]]:
    """Return the tools that a goal needs."""
    goal = request.active_goal
    match goal.type:
        case "sales.order" | "sales.stock":
            return [("inventory.query", one) for one in queries(goal)]
        case "sales.sum":
            return [("math.evaluate", {"expression": str(goal.slots.get("expression", ""))})]
        case "support.question":
            topics = [str(goal.slots.get("question", "")), *_more_topics(goal)]
            return [("knowledge_base.search", {"query": topic}) for topic in topics]
        case "support.person" if request.person is None or request.person.answer is None:
            return [("knowledge_base.search", {"query": "contacting support"})]
        case _:
            return []


def _answer(request: SpecialistRequest) -> SpecialistResponse:
    """Answer, and list the other requests of the message."""
    response, undone = _answered(request), cast("list[str]", request.active_goal.slots.get("undone") or [])
    if not undone:
        return response
    named = ", ".join(f"“{one}”" for one in undone)
    message = f"{response.message}\nThat was too much for one message. Not done yet: {named}. Please say that again by itself."
    updates = response.state_updates or StateUpdates()
    updates = updates.model_copy(update={"slots_patch": {**updates.slots_patch, "undone": []}})
    return response.model_copy(update={"message": message, "state_updates": updates})


def _answered(request: SpecialistRequest) -> SpecialistResponse:
    """Answer from the tool results or the rules and finish the goal, or ask for missing fields."""
    goal, results = request.active_goal, request.tool_results or []
    if goal.slots.get("left") is True:
        kept = goal.slots.get("instead")
        return ended(
            f"All right, nothing is changed. Noted is still: {kept}." if kept else f"All right, I leave it at that.{not_noted(goal)}"
        )
    failed = [result for result in results if result.error is not None]
    if failed:
        return ended(f"I could not find that out: {failed[0].error}")
    if goal.status == "blocked" and goal.slots.get("ask") and not results:
        remark = str(goal.slots.get("remark") or "")
        return SpecialistResponse(message=f"{remark} {goal.next_question}".strip())
    found = [cast("dict[str, Any]", result.result) for result in results]
    match goal.type:
        case "sales.order" if found:
            return order_answer(goal, found)
        case "sales.stock" if found:
            return stock_answer(goal, found)
        case "sales.sum" if results:
            return ended(f"{goal.slots.get('expression')} = {_value(results[0])}")
        case "support.question" if found:
            first, *more = (cast("list[dict[str, Any]]", one["articles"]) for one in found)
            return _help(goal, first, more)
        case _:
            return _spoken(request, found)


def _spoken(request: SpecialistRequest, found: list[dict[str, Any]]) -> SpecialistResponse:
    """Answer without a tool."""
    goal = request.active_goal
    if goal.type == SAY:
        return ended(str(goal.slots.get("say")))
    if goal.type == SMALL_TALK:
        return ended(_small_talk(cast("list[str]", goal.slots.get("talk") or [])))
    if goal.type == CANCEL:
        return ended(
            f"Cancelled: {goal.slots.get('cancelled')}. An order that you have placed in the shop is cancelled under “My orders” there."
        )
    if goal.type == SUMMARY:
        return summary_answer(goal)
    if goal.type == PERSON:
        return _person(request, found)
    known = goal.type in {ORDER, STOCK, SUM, HELP}
    why = "The tool that I need for this is not there." if known else "Without a language model I cannot go on with this."
    return ended(f"{why} {ABILITIES}")


def _person(request: SpecialistRequest, found: list[dict[str, Any]]) -> SpecialistResponse:
    if request.person is not None and request.person.answer is not None:
        return ended(f"A colleague says: {request.person.answer}")
    articles = cast("list[dict[str, Any]]", found[0]["articles"]) if found else []
    how = f" {articles[0]['title']}: {articles[0]['passage']}" if articles else ""
    if request.person is not None and request.person.given_up:
        return ended(f"No colleague has answered yet, and your request for one is no longer open. Say “I want a person” to ask again.{how}")
    return ended(f"I am a program, and nobody can be put through to you here.{how}")


_TALK = {
    "anger": "I am sorry. I am a program and understand only simple sentences. Say in a few words what it is about, for instance "
    "“my parcel is late” or “I want a refund”; if you want to talk to a person, say “I want a person”.",
    "greeting": "Hello! What can I do for you?",
    "wellbeing": "Thank you, I am a program and always well. What can I do for you?",
    "identity": "I am the desk of this shop: a program that follows rules, not a person. If you want to talk to a person, say so.",
    "thanks": "You are welcome.",
    "goodbye": "Goodbye, and thank you for your visit.",
    "indifferent": "I cannot choose for you. Say which one you want, for instance “the first one” or “the cheapest”.",
    "thinking": "Take your time. I am here when you have a question.",
    "nod": "All right. Is there anything else that I can do for you?",
    "yes": "All right. What can I do for you?",
    "no": "All right.",
}


def _small_talk(kinds: list[str]) -> str:
    """Answer small talk: its most important kind, and thanks."""
    if "abilities" in kinds:
        return f"{'Hello! ' if 'greeting' in kinds else ''}{ABILITIES}"
    for kind in ("anger", "identity", "wellbeing"):
        if kind in kinds:
            return f"{'Hello! ' if 'greeting' in kinds else ''}{_TALK[kind]}"
    said = [_TALK[kind] for kind in ("thanks", "goodbye") if kind in kinds]
    return (
        " ".join(said)
        if said
        else next((_TALK[kind] for kind in ("indifferent", "thinking", "greeting", "nod", "yes", "no") if kind in kinds), _TALK["greeting"])
    )


def _help(goal: Goal, articles: list[dict[str, Any]], more: Sequence[list[dict[str, Any]]]) -> SpecialistResponse:
    """Answer with the first article about a question. `more` has the articles about the other topics of the message."""
    if goal.slots.get("is_guess"):  # an article must match completely unless the question is about the shop
        articles = [article for article in articles if _fits(str(goal.slots.get("question")), article)]
    if not articles:
        question = str(goal.slots.get("question"))
        return ended(f"I found nothing about “{question}” in the help articles.{_did_you_mean(question)} {ABILITIES}")
    best = articles[0]
    text = f"{best['title']} {best['passage']}".casefold()
    besides = goal.slots.get("besides", best.get("lacks"))
    unused = [word for word in cast("list[str]", besides or []) if not _has(text, word)]
    if goal.slots.get("ago") and not _A_PERIOD.search(text):  # an article about a period answers it
        unused.append(str(goal.slots["ago"]))
    first = str(goal.slots.get("question")).split()[0]
    others = "".join(f"\nSee also: {article['title']}." for article in articles[1:2] if _has(str(article["title"]).casefold(), first))
    note = f"\nThe article says nothing about: {', '.join(f'“{word}”' for word in unused)} (not by that word)." if unused else ""
    others += "".join(_about(topic, found, articles) for topic, found in zip(_more_topics(goal), more, strict=False))
    doubt = "I am not sure that this is what you mean.\n" if len(unused) > _FEW or goal.slots.get("is_guess") else ""
    return ended(f"{doubt}{best['title']}: {best['passage']}{others}{note}")


_A_PERIOD = re.compile(r"\d (?:working )?(?:days?|weeks?|months?|years?)")


def _fits(question: str, article: dict[str, Any]) -> bool:
    """Return whether an article has every word of a question, and its title most of them."""
    words, title = question.split(), str(article["title"]).casefold()
    met = sum(_has(title, word) for word in words)
    return not article.get("lacks") and met * 2 > len(words) and met * 2 >= len(content(title))


def _has(text: str, word: str) -> bool:
    """Return whether a text has a word in any form. A number must be equal."""
    if word.isdigit():
        return re.search(rf"(?<![\d.,]){word}(?![\d]|[.,]\d)", text) is not None
    return word[: max(4, len(word) - 2)] in text


def _more_topics(goal: Goal) -> list[str]:
    """Return the other topics of a message."""
    return cast("list[str]", goal.slots.get("topics") or [])


def _about(topic: str, found: list[dict[str, Any]], articles: list[dict[str, Any]]) -> str:
    """Name the article about another topic of a message. Return nothing for a topic that the answer covers."""
    shown = " ".join(f"{article['title']}" for article in articles[:2]).casefold()
    if all(word[:5] in shown for word in topic.split()):
        return ""
    if not found:
        return f"\nIf you mean “{topic}” as well, ask for that by itself."
    return f"\nAbout “{topic}” there is another article, for which you can ask: {found[0]['title']}."


def _did_you_mean(question: str) -> str:
    """Suggest words of the help topics that differ in one letter from words of a question."""
    words = [word for word in question.casefold().split() if len(word) >= _LONG]
    near = [topic for word in words for topic in _TOPIC_WORDS if edit_distance(word, topic) == 1]
    return f" Did you mean {' or '.join(f'“{word}”' for word in dict.fromkeys(near))}?" if near else ""


_LONG = 5  # letters; with one letter changed, a shorter word is often another word
_TOPIC_WORDS = sorted({word for _, search in TOPICS for word in search.split() if len(word) >= _LONG})


def _value(result: ToolResult) -> Any:
    found: Any = result.result
    return cast("dict[str, Any]", found)["value"] if isinstance(found, dict) else found
