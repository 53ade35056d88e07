"""The analyst's seven nodes, in the order of the rows."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from pydantic_core import to_json

from interlock.capabilities import Clock, Model, Progress, Speech, Toolbox, ToolGateway, ToolRequest, Usage
from interlock.capabilities import Message as Asked
from interlock.contract import guard
from interlock.errors import BudgetExceeded, CapabilityError, InputEmpty, InputSchema, ModelOutputInvalid
from interlock_agents.analyst.calls import filled, normalised, refusals
from interlock_agents.analyst.capabilities import Policy, Profiles
from interlock_agents.analyst.plan import PlannedCall, PlannerDecision, Summary
from interlock_agents.analyst.state import (
    Admitted,
    Ai,
    Complex,
    Executed,
    Failure,
    Generated,
    Good,
    Human,
    Lacking,
    Message,
    Scratchpad,
    Selected,
    Simple,
    Summarised,
    ToolOutput,
    Trim,
    Untrimmed,
    UserContext,
    came_after,
    marked,
)
from interlock_agents.analyst.tables import fitting
from interlock_agents.guards import is_blank
from interlock_agents.prompts import Prompts, decide

__all__ = ["generator", "ingress", "is_answered", "is_useful", "planner", "summarizer", "tool_executor", "tool_router", "verifier"]

WHO = "analyst"
"""The name under which tools are offered to this agent."""

_USER = re.compile(r"[\x21-\x7e]{1,1024}")
_CITED = re.compile(r"\[([A-Za-z0-9_-]+)\]")
# Characters of one message, and of one tool output, in a prompt.
_MAX_MESSAGE, _MAX_RESULT = 2_000, 6_000
# An estimate for models that do not report their usage.
_BYTES_PER_TOKEN = 4

_prompt = Prompts(Path(__file__).parent / "prompts").asked


async def ingress(
    messages: tuple[Message, ...],
    user_id: str,
    owner: str | None,
    seen: str,
    start_time: float | None,
    *,
    profiles: Profiles,
    policy: Policy,
    toolbox: Toolbox,
    clock: Clock,
) -> Admitted:
    """Validate the new messages and the owner of the session, and let the policy judge the question."""
    if not _USER.fullmatch(user_id):
        raise InputSchema("A user id has 1 to 1,024 printable ASCII characters without spaces.")
    if owner not in {None, user_id}:
        raise InputSchema("The session belongs to another user.")
    new = came_after(messages, seen)
    if new is None:
        raise InputSchema("The conversation was changed after the last turn.")
    texts = [one.content for one in new if isinstance(one, Human)]
    if len(texts) != len(new):
        raise InputSchema("New messages must have the type 'human'.")
    ids = [one.id for one in messages if not isinstance(one, Trim) and one.id is not None]
    if len(ids) != len(set(ids)):
        raise InputSchema("Another message of the conversation has this id: leave the id out, or use a unique one.")
    question = "\n".join(texts).strip()
    if not question:
        raise InputEmpty("The message is empty.")
    profile = await profiles.load(user_id)
    offered = await toolbox.offered(WHO)
    verdict = await policy.judge(profile, question, tuple(tool.name for tool in offered))
    context = UserContext(
        permissions=verdict.tools,
        preferences=profile.preferences,
        tools=tuple(tool for tool in offered if tool.name in verdict.tools),
        max_retries=verdict.max_retries,
        window=verdict.window,
        refusal=verdict.reason,
    )
    now = await clock.now()
    return Admitted(
        safety_check=verdict.allowed,
        user_context=context,
        question=question,
        today=now.date().isoformat(),
        owner=user_id,
        start_time=now.timestamp() if start_time is None else start_time,
    )


async def planner(
    question: str,
    messages: tuple[Message, ...],
    summary: str,
    user_context: UserContext,
    safety_check: bool,  # noqa: FBT001 - a field of the state
    retry_count: int,
    scratchpad: Scratchpad,
    today: str,
    parts: tuple[str, ...],
    notes: tuple[str, ...],
    tool_outputs: tuple[ToolOutput, ...],
    sources: tuple[PlannedCall, ...],
    *,
    model: Model,
) -> Simple | Complex:
    """Decide which tools to call, if any. A refused question and an exhausted retry limit need no model call."""
    if not safety_check:
        return Simple(plan=f"Refuse: {user_context.refusal}.")
    if retry_count > user_context.max_retries:
        return Simple(plan="Say what could not be found: the plans are used up.")
    prompt = _prompt(
        _payload(
            tools=[{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in user_context.tools],
            summary=summary,
            conversation=_recent(messages[:-1], user_context.window),
            today=today,
            question=question,
            last_calls=_listed(sources),
            answered=[{"id": one.id, "part": one.part} for one in tool_outputs if is_useful(one)],
            failures=_failures(scratchpad),
            hint=scratchpad.hint,
        ),
        "planner",
    )
    decision = await decide(model, prompt, PlannerDecision)
    plan, tokens = decision.value, _tokens(decision.usage, prompt, decision.value.model_dump_json())
    if not is_blank(plan.ask) or plan.next_step == "generate":
        return Simple(plan=plan.reason, ask=plan.ask.strip(), tokens_used=tokens)
    if not plan.tool_calls:
        raise ModelOutputInvalid("The plan says 'tool_use' but has no tool calls.")
    taken = [*(failure.call.id for failure in scratchpad.failures), *(one.id for one in tool_outputs)]
    calls = normalised(plan.tool_calls, taken=taken)
    return Complex(
        plan=plan.reason,
        parts=tuple(dict.fromkeys([*parts, *_parts(plan, calls)])),
        notes=tuple(dict.fromkeys([*notes, *filter(None, map(str.strip, plan.notes))])),
        tool_calls=calls,
        tokens_used=tokens,
    )


async def tool_router(
    tool_calls: tuple[PlannedCall, ...], tool_outputs: tuple[ToolOutput, ...], user_context: UserContext, scratchpad: Scratchpad
) -> Selected:
    """Keep the valid calls and turn the others into error outputs. Useful outputs of earlier plans stay."""
    kept = tuple(one for one in tool_outputs if is_useful(one))
    tried = [*(failure.call for failure in scratchpad.failures), *map(_call, kept)]
    refused = refusals(tool_calls, user_context.tools, tried, [one.id for one in kept])
    return Selected(
        tool_calls=tuple(call for call in tool_calls if call.id not in refused),
        tool_outputs=(*kept, *(_failed(call, refused[call.id]) for call in tool_calls if call.id in refused)),
    )


async def tool_executor(tool_calls: tuple[PlannedCall, ...], tool_outputs: tuple[ToolOutput, ...], *, tools: ToolGateway) -> Executed:
    """Run the calls concurrently, each as soon as its dependencies have results. A failed call does not affect independent ones."""
    made: dict[str, asyncio.Task[ToolOutput]] = {}
    known = {one.id: one for one in tool_outputs}

    async def make(call: PlannedCall) -> ToolOutput:
        needed = {name: known[name] if name in known else await made[name] for name in call.after}
        lost = next((one.id for one in needed.values() if one.error is not None), None)
        if lost is not None:
            return _output(call, error=f"It needs the result of '{lost}', which failed.", code="tool_failed")
        try:
            found = await tools.run(WHO, ToolRequest(tool=call.tool, args=filled(call.args, needed)))
        except CapabilityError as error:
            return _failed(call, error)
        return _output(call, result=found.result, error=found.error, code=found.code)

    for call in _in_order(tool_calls, known):
        made[call.id] = asyncio.ensure_future(make(call))
    try:
        await asyncio.gather(*made.values())
    finally:
        # No task may outlive the node when one of them exceeds its time limit.
        for task in made.values():
            task.cancel()
        await asyncio.gather(*made.values(), return_exceptions=True)
    return Executed(tool_outputs=(*tool_outputs, *(made[call.id].result() for call in tool_calls)))


async def verifier(
    tool_outputs: tuple[ToolOutput, ...],
    parts: tuple[str, ...],
    scratchpad: Scratchpad,
    retry_count: int,
    user_context: UserContext,
    *,
    progress: Progress,
) -> Good | Lacking:
    """Check that every part of the question has a useful result. For the others, write a hint and let the planner try again."""
    lacking = _lacking(parts, tool_outputs)
    lost = [one for one in tool_outputs if not is_useful(one)]
    earlier = [failure for failure in scratchpad.failures if failure.call.part in lacking]
    failures = (*earlier, *(Failure(call=_call(one), reason=one.error or "It found nothing.") for one in lost))
    if is_answered(parts, tool_outputs):
        return Good(scratchpad=Scratchpad(failures=failures))
    is_error = all(one.error is not None for one in lost if one.part in lacking)
    hint = "Correct the arguments, or use another tool." if is_error else "Use other words, fewer conditions or another tool."
    which = f"{'Calls failed' if is_error else 'Nothing was found'} for: {'; '.join(filter(None, lacking)) or 'the question'}. {hint}"
    if retry_count < user_context.max_retries:
        event: dict[str, JsonValue] = {"status": "planning_retry", "retry": retry_count + 1, "reason": "error" if is_error else "empty"}
        await progress.emit("planning_retry", event)
    return Lacking(scratchpad=Scratchpad(failures=failures, hint=which), retry_count=retry_count + 1)


@guard
def is_answered(parts: tuple[str, ...], outputs: tuple[ToolOutput, ...]) -> bool:
    """Return whether every part of the question has a useful result."""
    return not _lacking(parts, outputs)


def _lacking(parts: tuple[str, ...], outputs: tuple[ToolOutput, ...]) -> list[str]:
    """Return the parts of the question that have no useful result."""
    answered = {one.part for one in outputs if is_useful(one)}
    return [part for part in dict.fromkeys([*parts, *(one.part for one in outputs)]) if part not in answered]


async def generator(
    question: str,
    messages: tuple[Message, ...],
    summary: str,
    user_context: UserContext,
    safety_check: bool,  # noqa: FBT001 - a field of the state
    ask: str,
    tool_outputs: tuple[ToolOutput, ...],
    scratchpad: Scratchpad,
    today: str,
    notes: tuple[str, ...],
    sources: tuple[PlannedCall, ...],
    *,
    model: Model,
    speech: Speech,
) -> Generated:
    """Stream the answer from the tool outputs. A refusal and a question back are streamed too, without a model call."""
    if not safety_check:
        return _generated(await _streamed(speech, f"I cannot help with this: {user_context.refusal}."), sources=sources)
    if ask:
        return _generated(await _streamed(speech, ask), sources=sources)
    useful = [one for one in tool_outputs if is_useful(one)]
    prompt = _prompt(
        _payload(
            question=question,
            today=today,
            notes=notes,
            summary=summary,
            conversation=_recent(messages[:-1], user_context.window),
            outputs=[{"id": one.id, "part": one.part, "tool": one.tool, "args": one.args, "result": _cut(one.result)} for one in useful],
            last_calls=[] if useful else _listed(sources),
            failures=_failures(scratchpad),
            preferences=user_context.preferences,
        ),
        "generator",
    )
    text, usage = "", None
    async for chunk in model.stream(prompt):
        text += chunk.text
        usage = chunk.usage or usage
    if not text.strip():
        raise ModelOutputInvalid("The model's answer is empty.")
    cited = {match[1] for match in _CITED.finditer(text)}
    known = [one.id for one in useful]
    used = tuple(name for name in known if name in cited) or tuple(known)
    if lacking := _not_found(scratchpad):
        await _streamed(speech, lacking)
    return _generated(
        text + lacking,
        used=used,
        sources=tuple(_call(one) for one in useful if one.id in used) or sources,
        tokens=_tokens(usage, prompt, text),
    )


async def summarizer(messages: tuple[Message, ...], summary: str, user_context: UserContext, *, model: Model) -> Summarised | Untrimmed:
    """Move the oldest messages into the summary when there are more than `window`. Keep them if the model call fails."""
    if len(messages) <= user_context.window:
        return Untrimmed(seen=marked(messages))
    keep = max(1, user_context.window // 2)
    prompt = _prompt(_payload(summary=summary, conversation=_recent(messages[:-keep], len(messages))), "summarizer")
    try:
        made = await model.decide(prompt, schema=Summary)
    except (CapabilityError, BudgetExceeded):
        return Untrimmed(seen=marked(messages))
    tokens = _tokens(made.usage, prompt, made.value.summary)
    return Summarised(summary=made.value.summary, messages=(Trim(keep=keep),), seen=marked(messages[-keep:]), tokens_used=tokens)


async def _streamed(speech: Speech, text: str) -> str:
    async for _ in speech.say(text):
        pass
    return text


def _generated(text: str, *, sources: tuple[PlannedCall, ...], used: tuple[str, ...] = (), tokens: int = 0) -> Generated:
    return Generated(messages=(Ai(content=text),), used=used, sources=sources, tokens_used=tokens)


def _payload(**data: Any) -> str:
    """Serialise the payload of a prompt as JSON, without empty values."""
    return to_json({name: value for name, value in data.items() if value}).decode()


def _recent(messages: Sequence[Message], window: int) -> list[dict[str, str]]:
    texts = [one for one in messages if not isinstance(one, Trim)][-window:]
    return [{"role": one.type, "text": one.content[:_MAX_MESSAGE]} for one in texts]


def _cut(result: JsonValue) -> JsonValue:
    """Limit the size of a result in a prompt. A table keeps whole rows and its row count."""
    if (rows := fitting(result, _MAX_RESULT)) is not None:
        return rows
    text = json.dumps(result, ensure_ascii=False)
    return result if len(text) <= _MAX_RESULT else f"{text[:_MAX_RESULT]} [cut: {len(text):,} characters]"


def _failures(scratchpad: Scratchpad) -> list[dict[str, Any]]:
    return [
        {"part": one.call.part, "tool": one.call.tool, "args": one.call.args, "reason": one.reason[:_MAX_MESSAGE]}
        for one in scratchpad.failures
    ]


def _not_found(scratchpad: Scratchpad) -> str:
    """List the failed calls, so that the answer mentions them whether or not the model does."""
    if not scratchpad.failures:
        return ""
    lines = dict.fromkeys(f"{one.call.tool}({_args(one.call.args)}): {one.reason[:300]}" for one in scratchpad.failures)
    return "\n\nNot found:\n" + "\n".join(f"- {line}" for line in lines)


def _args(args: dict[str, JsonValue]) -> str:
    return ", ".join(value if isinstance(value, str) else json.dumps(value) for value in args.values())[:200]


def _tokens(usage: Usage | None, prompt: Sequence[Asked], answer: str) -> int:
    """Return the tokens of a model call as reported, or an estimate."""
    if usage is not None:
        return usage.tokens
    return sum(len(one.text.encode()) for one in prompt) // _BYTES_PER_TOKEN + len(answer.encode()) // _BYTES_PER_TOKEN


def _in_order(calls: Sequence[PlannedCall], known: Iterable[str]) -> list[PlannedCall]:
    """Sort the calls so that each follows the calls it depends on."""
    ordered: dict[str, PlannedCall] = {}
    while len(ordered) < len(calls):
        ordered |= {call.id: call for call in calls if ordered.keys() >= set(call.after) - set(known)}
    return list(ordered.values())


def _parts(plan: PlannerDecision, calls: Sequence[PlannedCall]) -> list[str]:
    """Return the parts of the question that the calls serve, and the declared parts without a call."""
    served = list(dict.fromkeys(call.part for call in calls))
    declared = [part.strip() for part in plan.parts if part.strip()]
    return [*served, *(part for part in declared if part not in served)] if set(served) <= set(declared) else served


def _listed(calls: Sequence[PlannedCall]) -> list[dict[str, Any]]:
    return [{"tool": call.tool, "args": call.args} for call in calls]


def _call(output: ToolOutput) -> PlannedCall:
    return PlannedCall(id=output.id, tool=output.tool, args=output.args, part=output.part)


def _output(call: PlannedCall, *, result: JsonValue = None, error: str | None = None, code: str | None = None) -> ToolOutput:
    return ToolOutput(id=call.id, tool=call.tool, args=call.args, result=result, error=error, code=code, part=call.part)


def _failed(call: PlannedCall, error: CapabilityError) -> ToolOutput:
    return _output(call, error=error.message, code=error.code)


def is_useful(output: ToolOutput) -> bool:
    """Return whether the call succeeded and found something."""
    return output.error is None and not _is_empty(output.result)


def _is_empty(result: JsonValue) -> bool:
    """Return whether a tool found nothing: no rows, or only null and blank values. A zero is a result."""
    if isinstance(result, dict):
        rows = result.get("rows")
        if isinstance(rows, list):
            return _is_blank(rows)
        return result.get("count") == 0 or all(map(_is_blank, result.values()))
    return _is_blank(result)


def _is_blank(value: JsonValue) -> bool:
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, list):
        return all(_is_blank(part) for part in value)
    return value is None or value == {}
