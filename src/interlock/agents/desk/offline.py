"""What the desk plans and says where there is no model: rules over words, good for the demo shop and honest about the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from interlock.agents.desk.roles import PlannedGoal, PlannerRequest, PlannerResponse, SpecialistRequest, SpecialistResponse, StateUpdates
from interlock.agents.desk.session import Goal, Slots
from interlock.agents.desk.words import is_a_name, is_about_stock, is_an_order, is_the_end, product_in, quantity_in, sum_in, topic_of
from interlock.capabilities import Message, ModelReply, Tool, ToolCall, ToolResult
from interlock.runtime.rules import Rules

__all__ = ["DeskRules"]

T = TypeVar("T", bound=BaseModel)

ORDER, STOCK, SUM, HELP = "sales.order", "sales.stock", "sales.sum", "support.question"

QUICK = 60
"""The priority of what is answered at once: it may come between two parts of an order."""

_ASK_QUANTITY = "How many would you like?"
_ASK_PRODUCT = "Which product would you like?"


class DeskRules(Rules):
    """Stands in for the planner's and the specialists' models."""

    def decide(self, messages: Sequence[Message], schema: type[T]) -> T:
        """Plan, or answer."""
        payload = messages[-1].text
        made: BaseModel
        if schema is PlannerResponse:
            made = PlannerResponse(goal=_plan(PlannerRequest.model_validate_json(payload)))
        elif schema is SpecialistResponse:
            made = _answer(SpecialistRequest.model_validate_json(payload))
        else:
            return super().decide(messages, schema)
        return cast("T", made)

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str | ModelReply:
        """Choose tools by the kind of the goal; say so where there is none for it."""
        goal = SpecialistRequest.model_validate_json(messages[-1].text).active_goal
        offered = {tool.name for tool in tools}
        calls = [(tool, arguments) for tool, arguments in _wanted(goal) if tool in offered]
        if not calls:
            return "I have no tool that could find this out, and no language model is configured to say more."
        return ModelReply(
            calls=tuple(ToolCall(id=f"call-{n}", name=tool, arguments={**arguments}) for n, (tool, arguments) in enumerate(calls, 1))
        )


def _plan(request: PlannerRequest) -> PlannedGoal:
    """Find out what a message is about: help first, then what is quickly answered, then what is being waited for."""
    said, active = request.user_message, request.session.active_goal
    waiting = active if active is not None and active.status == "blocked" else None
    if waiting is not None and is_the_end(said):
        return _continued(waiting, said)
    topic, summed = topic_of(said), sum_in(said)
    if topic is not None:
        return PlannedGoal(goal_type=HELP, slots_patch={"question": topic})
    if summed is not None:
        return PlannedGoal(goal_type=SUM, priority=QUICK, slots_patch={"expression": summed})
    if is_about_stock(said) and not is_an_order(said):
        known = str(waiting.slots.get("product", "")) if waiting is not None else ""
        return PlannedGoal(goal_type=STOCK, priority=QUICK, slots_patch={"query": product_in(said) or known or said})
    if waiting is not None:
        return _continued(waiting, said)
    if is_an_order(said):
        return _ordered(said)
    if active is not None:
        return PlannedGoal(goal_id=active.id, goal_type=active.type)
    if is_a_name(said):
        return PlannedGoal(goal_type=STOCK, priority=QUICK, slots_patch={"query": said})
    return PlannedGoal(goal_type=HELP, slots_patch={"question": said})


def _ordered(said: str) -> PlannedGoal:
    found = _order_in(said)
    return _asking(PlannedGoal(goal_type=ORDER, slots_patch=found), [name for name in ("product", "quantity") if name not in found])


def _order_in(said: str) -> Slots:
    found: Slots = {"product": product_in(said), "quantity": quantity_in(said)}
    return {name: value for name, value in found.items() if value}


def _continued(goal: Goal, said: str) -> PlannedGoal:
    """Take a message for the answer to what was asked, or for another order in the place of the one that waits."""
    going_on = PlannedGoal(goal_id=goal.id, goal_type=goal.type)
    if is_the_end(said):
        return going_on
    found = _order_in(said)
    if is_an_order(said) and "product" in found:
        return _asking(going_on.model_copy(update={"slots_patch": found}), [] if "quantity" in {**goal.slots, **found} else ["quantity"])
    found = {name: value for name, value in found.items() if name in goal.missing}
    if goal.slots.get("choice") and "product" in found:
        words = [*str(goal.slots.get("product", "")).split(), *str(found["product"]).split()]
        found["product"] = " ".join(dict.fromkeys(words))
    left = [name for name in goal.missing if name not in found]
    asked = goal.next_question if left[:1] == list(goal.missing[:1]) else None
    return _asking(going_on.model_copy(update={"slots_patch": found}), left, asked=asked)


def _asking(goal: PlannedGoal, missing: list[str], *, asked: str | None = None) -> PlannedGoal:
    """Ask for one thing at a time."""
    if not missing:
        return goal.model_copy(update={"missing": []})
    question = asked or (_ASK_PRODUCT if missing[0] == "product" else _ASK_QUANTITY)
    return goal.model_copy(update={"missing": missing, "next_question": question})


def _wanted(goal: Goal) -> list[tuple[str, dict[str, str]]]:
    """Say which tools a goal needs."""
    slots = {name: str(value) for name, value in goal.slots.items()}
    match goal.type:
        case "sales.order":
            return [("inventory.query", {"query": slots.get("product", "")})]
        case "sales.stock":
            return [("inventory.query", {"query": slots.get("query", "")})]
        case "sales.sum":
            return [("math.evaluate", {"expression": slots.get("expression", "")})]
        case "support.question":
            return [("knowledge_base.search", {"query": slots.get("question", "")})]
        case _:
            return []


def _answer(request: SpecialistRequest) -> SpecialistResponse:
    """Ask for what is missing, or say what the tools found and put an end to the matter."""
    goal = request.active_goal
    if not request.tool_results:
        if is_the_end(request.user_message):
            return _ended("All right, I leave it at that.")
        return SpecialistResponse(message=goal.next_question or _ASK_PRODUCT)
    failed = [result for result in request.tool_results if result.error is not None]
    if failed:
        return _ended(f"I could not find that out: {failed[0].error}")
    found = {result.tool: result for result in request.tool_results}
    if goal.type == ORDER:
        return _order(goal, _rows(found["inventory.query"], "products"))
    if goal.type == STOCK:
        return _stock(goal, _rows(found["inventory.query"], "products"))
    if goal.type == SUM:
        return _ended(f"{goal.slots.get('expression')} = {_value(found['math.evaluate'])}")
    return _help(_rows(found["knowledge_base.search"], "articles"))


def _order(goal: Goal, products: list[dict[str, Any]]) -> SpecialistResponse:
    wanted, quantity = goal.slots.get("product"), int(cast("int", goal.slots.get("quantity", 1)))
    if not products:
        return _ask(f"There is no “{wanted}” in the catalogue.", "product", "Which product would you like instead?")
    if len(products) > 1 and not _is_named(str(wanted), products[0]):
        names = [str(product["name"]) for product in products[:3]]
        question = f"Which one would you like: {', '.join(names[:-1])} or {names[-1]}?"
        return _ask(f"Several products fit “{wanted}”.", "product", question, choice=True)
    product = products[0]
    name, stock = product["name"], int(product["stock"])
    if stock < quantity:
        told = f"Of the {name} there {'is' if stock == 1 else 'are'} {stock or 'none'} in stock, not {quantity}."
        if not stock:
            return _ask(told, "product", "Which product would you like instead?")
        return _ask(told, "quantity", "How many would you like instead?")
    total = Decimal(str(product["price"])) * quantity
    currency = product["currency"]
    message = f"Noted: {quantity} x {name} ({product['sku']}) at {product['price']} {currency}, together {total} {currency}."
    noted: Slots = {"sku": product["sku"], "total": str(total)}
    updates = StateUpdates(slots_patch=noted, mark_done=True, memory_update=f"Wanted {quantity} x {name}.")
    return SpecialistResponse(message=f"{message} There are {stock} in stock.", state_updates=updates)


def _stock(goal: Goal, products: list[dict[str, Any]]) -> SpecialistResponse:
    if not products:
        return _ended(f"There is no “{goal.slots.get('query')}” in the catalogue.")
    lines = [f"{one['name']} ({one['sku']}): {one['stock'] or 'none'} in stock, {one['price']} {one['currency']}" for one in products]
    return _ended("\n".join(lines))


def _help(articles: list[dict[str, Any]]) -> SpecialistResponse:
    if not articles:
        return _ended(
            "The help articles have nothing about this. I can look up products, prices and stock, note what you want to order, "
            "work out sums and search the help articles."
        )
    best = articles[0]
    others = "".join(f"\nSee also: {article['title']}." for article in articles[1:2])
    return _ended(f"{best['title']}: {best['passage']}{others}")


def _ask(told: str, missing: str, question: str, *, choice: bool = False) -> SpecialistResponse:
    """Ask for something else; a choice narrows what was asked for, anything else takes its place."""
    updates = StateUpdates(slots_patch={"choice": choice}, set_status="blocked", missing=[missing], next_question=question)
    return SpecialistResponse(message=f"{told} {question}", state_updates=updates)


def _ended(message: str) -> SpecialistResponse:
    return SpecialistResponse(message=message, state_updates=StateUpdates(mark_done=True))


def _rows(result: ToolResult, name: str) -> list[dict[str, Any]]:
    found: Any = result.result
    return cast("list[dict[str, Any]]", found[name])


def _value(result: ToolResult) -> Any:
    found: Any = result.result
    return cast("dict[str, Any]", found)["value"] if isinstance(found, dict) else found


def _is_named(wanted: str, product: dict[str, Any]) -> bool:
    """Tell whether somebody says exactly this product."""
    said = set(re.findall(r"\w+", wanted.lower()))
    name = set(re.findall(r"\w+", str(product["name"]).lower()))
    return name - {"x"} <= said or str(product["sku"]).lower() in wanted.lower()
