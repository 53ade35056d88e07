"""A turn while it runs, on a terminal: the current node, tool calls with their time, the answer as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any, cast

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from interlock.cli.answer import Answer, print_answer
from interlock.cli.screen import safe
from interlock.contract.schema import to_json
from interlock.reply import Fault
from interlock.runtime.event_lines import RETOLD
from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult

__all__ = ["Live", "Tools", "as_text", "error_line", "in_words", "output_of", "shown_time"]

_LONGEST = 1000
"""Characters of a tool's arguments that are shown at most."""
_TAIL = 400
"""Characters of an incomplete block that are shown at most."""


class Live:
    """Shows a turn. Use it as a context manager around the turn, and pass it every event. `speaker` is printed before the answer."""

    def __init__(self, screen: Console, speaking_nodes: Iterable[str] = (), *, speaker: str = "") -> None:
        self._screen = screen
        self._speaking_nodes = frozenset(speaking_nodes)
        self._speaker = speaker
        self._status = screen.status("", spinner="dots")
        self._answer = Answer(screen)
        self._tools = Tools()

    def __enter__(self) -> None:
        self._status.start()

    def __exit__(self, *_: object) -> None:
        self._status.stop()
        self._answer.end()

    def listen(self, event: Event) -> None:
        """Show an event."""
        match event["event"]:
            case "on_chain_start" if "langgraph_node" in event["metadata"]:
                self._show_status(event["name"])
            case "on_tool_start":
                self._tools.begin(event)
                self._show_status(f"{event['metadata'].get('langgraph_node', '')}: {self._tools.running}")
            case "on_tool_end" | "on_tool_error":
                self._print(self._tools.end(event))
            case "on_custom_event" if event["name"] != RETOLD:
                self._print(Text(in_words(event)))
            case "on_chat_model_stream" if self._is_reply(event):
                self._stream(str(event["data"]["chunk"].get("text", "")))
            case "on_chat_model_end" | "on_chat_model_error":
                self._status.update("")
                self._answer.end()
            case _:
                pass

    def show(self, result: TurnResult) -> None:
        """Show the result, except for the part of the output that was shown while it arrived."""
        self._name_speaker(" asks" if result.status == "waiting" else "")
        shown, output = self._answer.text, output_of(result)
        if result.error is not None:
            where = f" ({result.error.node})" if result.error.node else ""
            self._screen.print(Text.assemble((result.error.code, "bold red"), (where, "dim"), f" {safe(result.error.message)}"))
        whole = next((text for text in (output, result.redactor.text(output)) if text.startswith(shown)), None)
        if whole is None:
            print_answer(self._screen, output)
        elif whole != shown:
            rest = whole[len(shown) :]
            if shown and rest.startswith("\n\n"):
                self._screen.print()
            print_answer(self._screen, rest)

    def _name_speaker(self, does: str = "") -> None:
        if self._speaker:
            self._screen.print(Text(f"{safe(self._speaker)}{does}", "bold yellow" if does else "bold green"))
            self._speaker = ""

    def _show_status(self, what: str) -> None:
        self._status.update(f"[dim]{escape(safe(what))}[/]")

    def _print(self, line: Text) -> None:
        line.truncate(self._screen.width - 2, overflow="ellipsis")
        self._screen.print(Text("  ") + line, style="dim")

    def _is_reply(self, event: Event) -> bool:
        """Return whether what a model streams is part of the reply; of a graph without an agent, everything is."""
        node = str(event["metadata"].get("langgraph_node", ""))
        return not self._speaking_nodes or not self._speaking_nodes.isdisjoint(node.split("/"))

    def _stream(self, text: str) -> None:
        """Show what a model streams: complete blocks as the answer, the rest in the status line until its block is complete."""
        if text.strip():
            self._name_speaker()
        if "\n" in text:
            # A block that becomes complete moves from the status line to the lines above it.
            self._status.update("")
        self._answer.show(text)
        self._status.update(Text(self._answer.pending[-_TAIL:]))


class Tools:
    """The tool calls that are running, with their start times."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[str, str, float]] = {}

    @property
    def running(self) -> str:
        """The names of the running tools."""
        return ", ".join(name for name, _, _ in self._begun.values())

    def begin(self, event: Event) -> None:
        """Add a tool call that starts."""
        self._begun[event["run_id"]] = event["name"], _arguments(event["data"].get("input")), perf_counter()

    def end(self, event: Event) -> Text:
        """Return the line of a tool call that has ended: its time, and its arguments or its error."""
        name, arguments, began = self._begun.pop(event["run_id"], (event["name"], "", perf_counter()))
        took = shown_time(perf_counter() - began)
        output: Any = event["data"].get("output")
        failed = event["data"].get("error") or (cast("dict[str, Any]", output) if isinstance(output, dict) else {})
        if failed.get("code"):
            why = failed.get("message") or failed.get("error") or ""
            return Text.assemble(f"{safe(name)}  {took}  ", (safe(str(failed["code"])), "red"), f"  {_line(str(why))}")
        return Text(f"{safe(name)}  {took}  {arguments}".rstrip())


def in_words(event: Event) -> str:
    """Write a custom event in a line."""
    data: Mapping[str, Any] = event["data"]
    known = _IN_WORDS.get(event["name"])
    if known is not None:
        return known(data)
    values = ", ".join(f"{name} {value}" for name, value in data.items())
    return _line(f"{event['name']}: {values}" if values else event["name"])


def shown_time(seconds: float) -> str:
    """Write a duration in milliseconds or seconds."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def error_line(fault: Fault) -> str:
    """Write an error in a line, with the node that it comes from."""
    return f"{fault.code}{f' ({fault.node})' if fault.node else ''}: {safe(fault.message)}"


def output_of(result: TurnResult) -> str:
    """Return the output of a turn as text. Secrets of the settings and of the turn are redacted, as in `--json` and the events."""
    return str(result.redactor.redact_literals(as_text(result.output)))


def as_text(output: Any) -> str:
    """Return an output as text: as it is, or as JSON data."""
    if output is None:
        return ""
    return output if isinstance(output, str) else str(to_json(output))


def _planning_retry(data: Mapping[str, Any]) -> str:
    why = "the tools failed" if data.get("reason") == "error" else "nothing was found"
    return f"{why}: another plan (retry {_line(str(data.get('retry', '')))})"


_IN_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"planning_retry": _planning_retry}


def _arguments(given: Any) -> str:
    """Write the arguments of a tool call in a line."""
    values = list(cast("dict[str, Any]", given).values()) if isinstance(given, dict) else [given]
    return _line(", ".join(value if isinstance(value, str) else str(value) for value in values if value is not None))


def _line(text: str) -> str:
    return " ".join(safe(text[:_LONGEST]).split())
