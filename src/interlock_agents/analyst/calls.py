"""Tool calls: assigns ids, validates the calls, and fills results into the arguments of dependent calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from jsonschema import Draft202012Validator, ValidationError
from pydantic import JsonValue
from referencing import Registry

from interlock.capabilities import Tool
from interlock.errors import ToolDenied, ToolError, ToolInputInvalid
from interlock_agents.analyst.plan import PlannedCall, WantedCall
from interlock_agents.analyst.state import ToolOutput

__all__ = ["filled", "normalised", "refusals"]

_NO_REFERENCES: Any = cast("Any", Registry)()
_MAX_DIGITS, _MAX_QUOTED = 9, 200
# The total length of the values that replace references in the arguments of one call.
_MAX_FILLED = 1024 * 1024
_REFERENCE = re.compile(r"\{\{\s*([A-Za-z0-9_-]+)((?:\.[A-Za-z0-9_-]+)*)\s*\}\}")


def normalised(wanted: Sequence[WantedCall], taken: Iterable[str] = ()) -> tuple[PlannedCall, ...]:
    """Give every call a unique id, and collect the ids of the calls whose results it references."""
    used = set(taken)
    names = [(one.id or "").strip() for one in wanted]
    calls: list[PlannedCall] = []
    for position, one in enumerate(wanted):
        name, number = names[position], len(used) + 1
        while not name or name in used or (name != names[position] and name in names):  # keep the ids that the plan gives
            name, number = f"call-{number}", number + 1
        used.add(name)
        needed = dict.fromkeys(match[1] for text in _texts(one.args) for match in _REFERENCE.finditer(text))
        calls.append(PlannedCall(id=name, tool=one.tool, args=one.args, after=tuple(needed), part=one.part.strip()))
    return tuple(calls)


def refusals(
    calls: Sequence[PlannedCall], tools: Sequence[Tool], tried: Iterable[PlannedCall], kept: Iterable[str] = ()
) -> dict[str, ToolError]:
    """Return the calls that cannot be made, by id, each with its error. `kept` are the ids of earlier results that a call may reference."""
    offered = {tool.name: tool for tool in tools}
    known = {_same(call) for call in tried}
    refused: dict[str, ToolError] = {}
    for call in calls:
        reason = _reason(call, offered, known)
        if reason is not None:
            refused[call.id] = reason
        known.add(_same(call))
    _refuse_lost(calls, refused, set(kept))
    return refused


def filled(args: dict[str, JsonValue], outputs: Mapping[str, ToolOutput]) -> dict[str, JsonValue]:
    """Replace references in the arguments with the results that they refer to."""
    found: dict[str, JsonValue] = {}
    left = _MAX_FILLED

    def put(reference: re.Match[str]) -> JsonValue:
        nonlocal left
        if reference[0] not in found:
            found[reference[0]] = _found(reference, outputs)
        left -= len(_written(found[reference[0]]))
        if left < 0:
            raise ToolInputInvalid(f"The arguments become too large: the result for '{reference[0][:_MAX_QUOTED]}' is too long.")
        return found[reference[0]]

    return {name: _filled(value, put) for name, value in args.items()}


def _reason(call: PlannedCall, offered: Mapping[str, Tool], known: set[str]) -> ToolError | None:
    if call.tool not in offered:
        return ToolDenied(f"There is no tool '{call.tool[:64]}' for this user. There are: {', '.join(offered) or 'none'}.")
    if _same(call) in known:
        return ToolError(f"'{call.tool}' was called with these arguments before: change them.")
    if call.after:
        return None  # the arguments are not complete yet; the tool validates them
    try:
        # Use an empty registry: otherwise the validator would fetch the URL of a "$ref" in a server's schema.
        Draft202012Validator(cast("Any", offered[call.tool].parameters), registry=_NO_REFERENCES).validate(call.args)
    except ValidationError as error:
        where = ".".join(map(str, error.absolute_path))
        return ToolInputInvalid(f"'{call.tool}' does not take these arguments: {where + ': ' if where else ''}{error.message[:300]}.")
    except Exception:  # noqa: BLE001 - an invalid schema can raise any error, and the tool checks the arguments itself
        return None
    return None


def _refuse_lost(calls: Sequence[PlannedCall], refused: dict[str, ToolError], can_end: set[str]) -> None:
    """Refuse calls that depend on a refused call, or on their own result through a cycle."""
    waiting: list[PlannedCall] = [call for call in calls if call.id not in refused]
    for _ in calls:
        can_end.update(call.id for call in waiting if can_end.issuperset(call.after))
        waiting = [call for call in waiting if call.id not in can_end]
    for call in waiting:
        missing = ", ".join(f"'{name}'" for name in call.after if name not in can_end)
        refused[call.id] = ToolInputInvalid(f"'{call.tool}' needs the result of {missing}, which is missing.")


def _same(call: PlannedCall) -> str:
    return json.dumps([call.tool, call.args], sort_keys=True)


def _texts(value: JsonValue) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _filled(value: JsonValue, put: Callable[[re.Match[str]], JsonValue]) -> JsonValue:
    if isinstance(value, dict):
        return {name: _filled(part, put) for name, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, put) for part in value]
    if not isinstance(value, str):
        return value
    whole = _REFERENCE.fullmatch(value.strip())
    if whole is not None:
        return put(whole)
    return _REFERENCE.sub(lambda match: _written(put(match)), value)


def _found(reference: re.Match[str], outputs: Mapping[str, ToolOutput]) -> JsonValue:
    output = outputs.get(reference[1])
    value: JsonValue = None if output is None else output.result
    for part in reference[2].split(".")[1:]:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and len(part) <= _MAX_DIGITS and int(part) < len(value):
            value = value[int(part)]
        else:
            output = None
            break
    if output is None:
        raise ToolInputInvalid(f"'{reference[0][:_MAX_QUOTED]}' is not in the result of '{reference[1][:_MAX_QUOTED]}'.")
    return value


def _written(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
