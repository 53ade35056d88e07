"""What AgentDojo's tools do, and what their arguments accept from outside. Everything that is not here is closed."""

from __future__ import annotations

import re

from interlock.capabilities import Effect
from interlock.contract.policies import CLOSED, ArgumentPolicy

__all__ = ["effect_of", "policies_of"]

_READING = re.compile(r"(get|search|read|list|check)_")
_ANY = ArgumentPolicy(data_only=True)

_POLICIES: dict[str, dict[str, ArgumentPolicy]] = {
    # A page that is read learns its address, which may carry anything: an address from outside is for a person to approve.
    "get_webpage": {"url": CLOSED},
    # When and where something takes place does no harm if its title, its text and its guests are the user's.
    "create_calendar_event": {"start_time": _ANY, "end_time": _ANY, "location": _ANY},
    "send_money": {"date": _ANY},
    "schedule_transaction": {"date": _ANY, "recurring": _ANY},
    "update_scheduled_transaction": {"date": _ANY, "recurring": _ANY},
}


def effect_of(tool: str) -> Effect:
    """Return what a tool does outside."""
    return "asks" if _READING.match(tool) else "once"


def policies_of(tool: str) -> dict[str, ArgumentPolicy]:
    """Return the policies of the arguments of a tool."""
    return _POLICIES.get(tool, {})
