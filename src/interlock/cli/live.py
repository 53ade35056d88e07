"""A turn while it runs, for a person: the node that it is in, tools with their time, the answer as it comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any, cast

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from interlock.cli.answer import Answer, print_answer
from interlock.cli.screen import safe
from interlock.contract.schema import to_json
from interlock.runtime.events import Event
from interlock.runtime.turn import TurnResult

__all__ = ["Live", "Tools", "as_text", "in_words", "output_of", "shown_time"]

_LONGEST = 1000  # characters of what a tool is asked for that are looked at


class Live:
    """Shows a turn. Use it as a context around the turn, and tell it of every event."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen
        self._status = screen.status("", spinner="dots")
        self._answer = Answer(screen)
        self._tools = Tools()

    def __enter__(self) -> None:
        self._status.start()

    def __exit__(self, *_: object) -> None:
        self._status.stop()
        self._answer.end()

    def hear(self, event: Event) -> None:
        """Show what an event tells."""
        match event["event"]:
            case "on_chain_start" if "langgraph_node" in event["metadata"]:
                self._wait(event["name"])
            case "on_tool_start":
                self._tools.begin(event)
                self._wait(f"{event['metadata'].get('langgraph_node', '')}: {self._tools.running}")
            case "on_tool_end" | "on_tool_error":
                self._say(self._tools.end(event))
            case "on_custom_event":
                self._say(Text(in_words(event)))
            case "on_chat_model_stream":
                self._stream(str(event["data"]["chunk"].get("text", "")))
            case "on_chat_model_end" | "on_chat_model_error":
                if self._answer.is_in_line or self._answer.held:
                    self._status.stop()
                    self._answer.end()
            case _:
                pass

    def show(self, result: TurnResult) -> None:
        """Show how the turn ended, as far as that was not to be seen yet."""
        shown, output = self._answer.text, output_of(result)
        if result.error is not None:
            where = f" ({result.error.node})" if result.error.node else ""
            said = (result.error.code, "bold red"), (where, "dim"), f" {safe(result.error.message)}"
            self._screen.print(Text.assemble(*said))
        whole = next((text for text in (output, result.redactor.text(output)) if text.startswith(shown)), None)
        if whole is None:
            print_answer(self._screen, output)
        elif whole != shown:
            print_answer(self._screen, whole[len(shown) :].removeprefix("\n" if shown else ""))

    def _wait(self, what: str) -> None:
        """Tell what is going on, unless a line has begun that would be torn apart."""
        self._status.update(f"[dim]{escape(safe(what))}[/]")
        if not self._answer.is_in_line:
            self._status.start()

    def _say(self, line: Text) -> None:
        if self._answer.is_in_line:
            self._answer.end()
        line.truncate(self._screen.width - 2, overflow="ellipsis")
        self._screen.print(Text("  ") + line, style="dim")

    def _stream(self, text: str) -> None:
        self._status.stop()
        self._answer.show(text)
        if self._answer.held:
            self._wait(f"a table, {self._answer.held} lines")


class Tools:
    """The tools that run, and for how long."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[str, str, float]] = {}

    @property
    def running(self) -> str:
        """The names of those that run."""
        return ", ".join(name for name, _, _ in self._begun.values())

    def begin(self, event: Event) -> None:
        """Take notice of a tool that begins."""
        self._begun[event["run_id"]] = event["name"], _asked(event["data"].get("input")), perf_counter()

    def end(self, event: Event) -> Text:
        """Say of a tool that has ended how long it took, and what it was asked or why it failed."""
        name, asked, began = self._begun.pop(event["run_id"], (event["name"], "", perf_counter()))
        took = shown_time(perf_counter() - began)
        output: Any = event["data"].get("output")
        failed = event["data"].get("error") or (cast("dict[str, Any]", output) if isinstance(output, dict) else {})
        if failed.get("code"):
            why = failed.get("message") or failed.get("error") or ""
            return Text.assemble(f"{safe(name)}  {took}  ", (safe(str(failed["code"])), "red"), f"  {_line(str(why))}")
        return Text(f"{safe(name)}  {took}  {asked}".rstrip())


def in_words(event: Event) -> str:
    """Say what a node tells of its own accord."""
    told: Mapping[str, Any] = event["data"]
    known = _IN_WORDS.get(event["name"])
    if known is not None:
        return known(told)
    said = ", ".join(f"{name} {value}" for name, value in told.items())
    return _line(f"{event['name']}: {said}" if said else event["name"])


def shown_time(seconds: float) -> str:
    """Write a time as people read it."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def output_of(result: TurnResult) -> str:
    """Write the output of a turn as text, without the secrets of the settings and of the turn, as `--json` and the events do."""
    return str(result.redactor.redact_literals(as_text(result.output)))


def as_text(output: Any) -> str:
    """Write an output as text."""
    if output is None:
        return ""
    return output if isinstance(output, str) else str(to_json(output))


def _planning_retry(told: Mapping[str, Any]) -> str:
    why = "the tools failed" if told.get("reason") == "error" else "nothing was found"
    return f"{why}: another plan (retry {_line(str(told.get('retry', '')))})"


_IN_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {"planning_retry": _planning_retry}


def _asked(given: Any) -> str:
    """Write what a tool is asked for in a line."""
    values = list(cast("dict[str, Any]", given).values()) if isinstance(given, dict) else [given]
    return _line(", ".join(value if isinstance(value, str) else str(value) for value in values if value is not None))


def _line(text: str) -> str:
    return " ".join(safe(text[:_LONGEST]).split())
