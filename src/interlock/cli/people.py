"""A turn that waits for a person, for that person: what is asked, and what a number stands for."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.adapters.people import chosen
from interlock.runtime.turn import TurnResult

__all__ = ["chosen", "options_of"]


def options_of(result: TurnResult) -> Iterator[str]:
    """List what can be answered to a turn that waits; nothing where it does not."""
    if result.status != "waiting":
        return
    asked = result.metadata["waiting"]
    for number, option in enumerate(asked["options"], start=1):
        yield f"  {number}  {option}{'  (recommended)' if option == asked['recommended'] else ''}"
    yield f"Answer with: interlock run {result.agent} --session {result.session} --answer TEXT"
