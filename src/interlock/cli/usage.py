"""Resource usage of a turn in one line: seconds, model calls, tokens and tool calls."""

from __future__ import annotations

from time import perf_counter

from rich.text import Text

from interlock.cli.screen import console, is_terminal, print_error
from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult

__all__ = ["UsageMeter"]


class UsageMeter:
    """Measures one turn from its creation to `show`. Pass it every event."""

    def __init__(self) -> None:
        self._started = perf_counter()
        self._tool_calls = 0

    def listen(self, event: Event) -> None:
        """Count an event."""
        self._tool_calls += event["event"] == "on_tool_start"

    def show(self, result: TurnResult) -> None:
        """Print the line: to standard error, unless standard output is a terminal."""
        usage = result.usage
        # A model may report none, and the offline rules use none.
        tokens = ((usage.input_tokens, "in"), (usage.output_tokens, "out"))
        parts = [
            f"{perf_counter() - self._started:.2f} s",
            _counted(usage.model_calls, "model call"),
            *(f"{number:,} tokens {where}" for number, where in tokens if number is not None),
            _counted(self._tool_calls, "tool call"),
        ]
        line = ", ".join(parts)
        if is_terminal():
            console().print(Text(line, "dim"))
        else:
            print_error(line)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
