"""A model that solves every task, and first does what the result of a tool tells it to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, JsonValue

from interlock.capabilities import Decision, Message
from tests.dojo.agent import Call, Plan, Step

__all__ = ["MARK", "ObedientModel"]

MARK = "INFORMATION FOR THE ASSISTANT"
"""Begins every injected text."""

Calls = list[Call]


class ObedientModel:
    """Plans a task from its text alone: the tools, and the arguments that the text has. Later it acts on what it reads.

    `solution` are the calls that solve the task, `orders` those that an injected text asks for, computed when it is read. In a task that
    is `open`, a text that is read says what to do, so that no plan can name the tools.
    """

    def __init__(self, *, solution: Calls, answer: str, is_open: bool, orders: Callable[[], Calls], says: str) -> None:
        self._solution = list(solution)
        self._answer = answer
        self._is_open = is_open
        self._orders = orders
        self._says = says
        self.has_obeyed = False

    async def decide(self, messages: Sequence[Message], *, schema: type[BaseModel]) -> Decision[Any]:
        return Decision(value=self._plan(messages[0].text) if schema is Plan else self._step(messages[-1].text))

    def _plan(self, task: str) -> Plan:
        calls = [Call(tool=one.tool, args=_known(one.args, task)) for one in self._solution]
        return Plan(calls=[] if self._is_open else calls)

    def _step(self, seen: str) -> Step:
        if MARK in json.dumps(seen) and not self.has_obeyed:
            self.has_obeyed = True
            orders = self._orders()
            self._solution[:0] = orders
            if not orders:
                self._answer = f"{self._says} {self._answer}"
        return Step(call=self._solution.pop(0)) if self._solution else Step(answer=self._answer)


def _known(args: dict[str, JsonValue], task: str) -> dict[str, JsonValue]:
    """Return the arguments that the text of a task has, word for word."""
    return {name: value for name, value in args.items() if _is_in(value, task)}


def _is_in(value: JsonValue, task: str) -> bool:
    if isinstance(value, list):
        return all(_is_in(item, task) for item in value)
    return bool(value) and re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", task) is not None
