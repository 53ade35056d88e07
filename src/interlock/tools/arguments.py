"""Checks the arguments of a tool call against the policies of the tool, and against where the values come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from interlock.capabilities.tools import ToolRequest, approval_question
from interlock.contract.policies import CLOSED, ArgumentPolicy
from interlock.errors import UntrustedArgument
from interlock.runtime.origins import Origins

__all__ = ["Arguments", "check_arguments"]

_MAX_SHOWN = 80  # longest value in a message, in characters


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What is known of the arguments of one tool: the policies that are declared, and whether all others are closed."""

    policies: Mapping[str, ArgumentPolicy]
    is_closed: bool
    """Whether arguments without a policy accept trusted values only, and a call must be decided before anything from outside is read."""


def check_arguments(request: ToolRequest, arguments: Arguments, origins: Origins | None) -> None:
    """Raise UntrustedArgument unless every argument is trusted, accepted by its policy, or approved by a person for this call."""
    refused = {name: policy for name, policy in _policies(request, arguments).items() if not _accepts(policy, request.args[name], origins)}
    is_decided = not arguments.is_closed or _is_decided(request, arguments, origins)
    if not refused and is_decided:
        return
    may_approve = all(policy.approval for policy in refused.values())
    if may_approve and origins is not None and origins.take_approval(approval_question(request).text):
        return
    approve = "let a person approve this call, or " if may_approve else ""
    fix = f"Fix: {approve}declare what the tool does ('tool_effects') or accepts ('tool_policies')."
    if refused:
        name = next(iter(refused))
        value = json.dumps(request.args[name], ensure_ascii=False)
        shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]} [cut]"
        says = f"'{request.tool}' was not called: its argument '{name}' would be {shown}, which comes from outside: it is neither in the"
        raise UntrustedArgument(
            f"{says} user's input nor in what was decided before a tool was read, and its policy does not accept it. {fix}"
        )
    says = f"'{request.tool}' was not called: the call was decided after something from outside was read, which may have asked for it."
    raise UntrustedArgument(f"{says} {fix}")


def _policies(request: ToolRequest, arguments: Arguments) -> dict[str, ArgumentPolicy]:
    """Return the policies that the arguments of a call have."""
    found = {name: arguments.policies.get(name) or (CLOSED if arguments.is_closed else None) for name in request.args}
    return {name: policy for name, policy in found.items() if policy is not None}


def _accepts(policy: ArgumentPolicy, value: JsonValue, origins: Origins | None) -> bool:
    """Return whether an argument is accepted without a person. Each item of a list has to be."""
    if isinstance(value, list) and value and not policy.data_only:
        return all(_accepts(policy, item, origins) for item in value)
    return (origins is not None and origins.is_trusted(value)) or policy.accepts(value)


def _is_decided(request: ToolRequest, arguments: Arguments, origins: Origins | None) -> bool:
    """Return whether the call itself was decided by trusted input, or the policies of all its arguments say when it may be made."""
    if origins is not None and origins.is_decided(request.tool):
        return True
    return bool(request.args) and all(name in arguments.policies and arguments.policies[name].decides for name in request.args)
