"""The JSON payloads for the models: at first the goal and the names of the tools, more with every attempt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from interlock_agents.puntini.spec import Failure, GoalSpec, ToolSignature

__all__ = ["action_payload", "goal_payload", "planning"]

# The attempts from which on the payload has the last error, and all failures.
_LAST_ERROR, _HISTORY = 2, 3
# How many completed actions and failures a payload lists at most.
_MOST = 20


def goal_payload(goal: str, carried: str, tools: Sequence[str]) -> str:
    """Return the payload for understanding a goal. `person` is what a person said about it in the last turn."""
    return json.dumps({"goal": goal, "tools": list(tools), **({"person": carried} if carried else {})}, ensure_ascii=False)


def action_payload(call: ToolSignature, result: Any) -> str:
    """Return the JSON for one completed action."""
    return json.dumps({"tool": call.tool_name, "args": call.tool_args, "result": _short(result)}, ensure_ascii=False, default=str)


def planning(
    goal: str,
    spec: GoalSpec | None,
    tools: Sequence[str],
    *,
    person: str,
    steps: int,
    done: Sequence[str],
    failures: Sequence[Failure],
    attempt: int,
) -> str:
    """Return the payload for planning an action: from the second attempt with the last error, from the third with all failures.

    `done` has the JSON of each completed action.
    """
    told: dict[str, Any] = {"goal": goal, "tools": list(tools), "attempt": attempt, "step": steps + 1}
    if person:
        told["person"] = person
    if spec is not None:
        told["todo"] = [item.description for item in spec.todo_list]
    if failures and attempt >= _LAST_ERROR:
        told["last_error"] = _failure(failures[-1])
    if failures and attempt >= _HISTORY:
        told["history"] = [_failure(one) for one in failures[-_MOST:]]
    text = json.dumps(told, ensure_ascii=False)
    return f'{text[:-1]}, "done": [{", ".join(done[-_MOST:])}]}}'


def _failure(failure: Failure) -> dict[str, Any]:
    return {"tool": failure.tool, "error": failure.error_type, "message": failure.message}


def _short(result: Any) -> Any:
    text = json.dumps(result, ensure_ascii=False, default=str)
    return result if len(text) <= 1000 else f"{text[:1000]}..."  # noqa: PLR2004 - characters
