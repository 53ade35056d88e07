"""What the models are told, as JSON: the goal and the names of the tools at first, more with every attempt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from interlock.agents.puntini.spec import Failure, GoalSpec, ToolSignature

__all__ = ["planning", "told_goal", "told_step"]

_LAST_ERROR, _HISTORY = 2, 3  # the attempts from which on they are told
_MOST = 20  # of what was done, or went wrong


def told_goal(goal: str, carried: str, tools: Sequence[str]) -> str:
    """Write what a goal is understood from; `person` is what a person said about it in the last turn."""
    return json.dumps({"goal": goal, "tools": list(tools), **({"person": carried} if carried else {})}, ensure_ascii=False)


def told_step(call: ToolSignature, result: Any) -> str:
    """Write what is told of a step that was done."""
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
    """Write what a step is planned from: with the second attempt the last error, with the third all that went wrong.

    `done` is what is told of the steps that were done, each a text of JSON already.
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
