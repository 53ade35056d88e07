"""The JSON payloads for the models: at first the goal and the names of the tools, more with every attempt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from interlock_agents.puntini.spec import Done, Failure, GoalSpec

__all__ = ["goal_payload", "planning"]

# The attempts from which on the payload has the last error, and all failures.
_LAST_ERROR, _HISTORY = 2, 3
# How many completed actions and failures a payload lists, and how many characters of each result.
_MOST, _LONGEST = 20, 1000


def goal_payload(goal: str, answer: str, tools: Sequence[str]) -> str:
    """Return the payload for parsing a goal. `person` is a person's answer about it in the last turn."""
    return json.dumps({"goal": goal, "tools": list(tools), **({"person": answer} if answer else {})}, ensure_ascii=False)


def planning(
    goal: str,
    spec: GoalSpec | None,
    tools: Sequence[str],
    *,
    person: str,
    steps: int,
    done: Sequence[Done],
    failures: Sequence[Failure],
    attempt: int,
) -> str:
    """Return the payload for planning an action: from the second attempt with the last error, from the third with all failures."""
    payload: dict[str, Any] = {"goal": goal, "tools": list(tools), "attempt": attempt, "step": steps + 1}
    if person:
        payload["person"] = person
    if spec is not None:
        payload["todo"] = [item.description for item in spec.todo_list]
    if failures and attempt >= _LAST_ERROR:
        payload["last_error"] = _failure(failures[-1])
    if failures and attempt >= _HISTORY:
        payload["history"] = [_failure(one) for one in failures[-_MOST:]]
    payload["done"] = [{"tool": one.call.tool_name, "args": one.call.tool_args, "result": _short(one.result)} for one in done[-_MOST:]]
    return json.dumps(payload, ensure_ascii=False, default=str)


def _failure(failure: Failure) -> dict[str, Any]:
    return {"tool": failure.tool, "error": failure.error_type, "message": failure.message}


def _short(result: Any) -> Any:
    text = json.dumps(result, ensure_ascii=False, default=str)
    return result if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
