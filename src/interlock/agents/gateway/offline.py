"""Rules in the place of the gateway's models: which side a text is for, and which file tools do what is asked."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from interlock.agents.gateway.asked import Asked, read_task
from interlock.capabilities import Message, ModelReply, Tool, ToolCall
from interlock.runtime.rules import Rules

__all__ = ["GatewayRules"]

_FOR_CUSTOMERS = re.compile(r"(?i)\b(?:docs?|documents?|documentation|customers?|users?|knowledge base)\b")
_FOR_ADMINS = re.compile(
    r"(?i)(?<!\w)/admin\b|\b(?:my|our|the admin(?:istrator)?'?s?) (?:own )?(?:files?|notes?|folders?|secrets?|keys?)\b"
)
_FAILED = re.compile(r"^(?:Error|[a-z]+_[a-z_]+:)")
_HEADER = re.compile(r"^@@.*@@\n")
_UNTOLD = """
about after again also could does from have into just like long many much need please should tell than that their them then there
they this until what when where which will with would your
"""
_HELP = "Without a model I list, read and search files: 'list /', 'read /welcome.md', 'search for \"refund\"', or a question about them."
_SHORTEST = 4  # letters of a word that says what is meant
_MOST_WORDS = 3
_MOST_LINES = 40


@dataclass(frozen=True)
class _Answer:
    """What a tool answered."""

    call: ToolCall
    text: str

    @property
    def failed(self) -> bool:
        return _FAILED.match(self.text) is not None


class GatewayRules(Rules):
    """Sorts by words; lists, reads, searches and writes by the tools that are offered, and says what they said."""

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str | ModelReply:
        """Answer with a label, with calls of tools, or with what they found."""
        task = next((message.text for message in reversed(messages) if message.role == "user"), "")
        if not tools:
            return "route_bridge" if _FOR_CUSTOMERS.search(task) and not _FOR_ADMINS.search(task) else "respond_admin"
        asked, answers = read_task(task), _answers(messages)
        if asked.kind == "question":
            return _answer_question(asked, answers)
        calls = _calls(asked)
        offered = {tool.name for tool in tools}
        if not answers and not offered.issuperset(call.name for call in calls):
            return "I may only list, read and search here, so nothing is changed."
        return ModelReply(calls=calls) if not answers else _told(asked, answers[-1])


def _call(number: int, name: str, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"call-{number}", name=name, arguments=arguments)


def _calls(asked: Asked) -> tuple[ToolCall, ...]:
    match asked.kind:
        case "list":
            return (_call(1, "ls", path=asked.path),)
        case "read":
            return (_call(1, "read_file", file_path=asked.path),)
        case "search":
            return (_call(1, "grep", pattern=asked.text, path=asked.path or "/", output_mode="content"),)
        case "find":
            return (_call(1, "glob", pattern=asked.text),)
        case "write":
            return (_call(1, "write_file", file_path=asked.path, content=f"{asked.text}\n"),)
        case "edit":
            return (_call(1, "edit_file", file_path=asked.path, old_string=asked.text, new_string=asked.new),)
        case "delete":
            return (_call(1, "delete", file_path=asked.path),)
        case "question":
            return ()


def _told(asked: Asked, answer: _Answer) -> str:
    """Say what came of one call."""
    text = _HEADER.sub("", answer.text)
    if answer.failed:
        return f"That cannot be done. {answer.text}"
    match asked.kind:
        case "list" | "find":
            paths = re.findall(r"'([^']*)'", text)
            return f"{len(paths)} here:\n" + "\n".join(f"- {path}" for path in paths) if paths else "There is nothing here."
        case "read":
            return f"{asked.path}:\n\n{_cut(text)}"
        case "search":
            return f'"{asked.text}" is in:\n\n{_cut(text)}' if "/" in text else f'"{asked.text}" is nowhere here.'
        case _:
            return f"Done. {text}"


def _answer_question(asked: Asked, answers: Sequence[_Answer]) -> str | ModelReply:
    """Look for the words of a question, read the page that has most of them, quote the part that has most of them."""
    wanted = _words(asked.text)
    if not wanted:
        return _HELP
    read = next((answer for answer in answers if answer.call.name == "read_file"), None)
    if read is not None:
        return f"{_part(_HEADER.sub('', read.text), wanted)}\n\n(from {read.call.arguments['file_path']})"
    if not answers:
        patterns = [form for word in wanted for form in (word, word.capitalize())]
        return ModelReply(calls=tuple(_call(number, "grep", pattern=one) for number, one in enumerate(patterns, start=1)))
    page = _best(answers)
    return (
        "The files here say nothing about that."
        if page is None
        else ModelReply(calls=(_call(len(answers) + 1, "read_file", file_path=page),))
    )


def _words(text: str) -> list[str]:
    """Find the words that say what is meant, the longest first, without the ending of a plural."""
    words = dict.fromkeys(word for word in re.findall(r"[a-z]+", text.lower()) if len(word) >= _SHORTEST and word not in _UNTOLD.split())
    stems = dict.fromkeys(re.sub(r"(?:ing|ed|s)$", "", word) for word in words)
    return sorted((stem for stem in stems if len(stem) >= _SHORTEST - 1), key=len, reverse=True)[:_MOST_WORDS]


def _best(answers: Sequence[_Answer]) -> str | None:
    """Choose the page that most of the words are in; of several the first by name."""
    found: dict[str, set[str]] = defaultdict(set)
    for answer in answers:
        for line in () if answer.failed else answer.text.splitlines():
            if line.startswith("/"):
                found[line].add(str(answer.call.arguments["pattern"]).lower())
    return min(found, key=lambda page: (-len(found[page]), page), default=None)


def _part(text: str, wanted: Sequence[str]) -> str:
    """Choose the paragraph that has most of the words."""
    parts = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip() and not part.lstrip().startswith("#")]
    return max(parts, key=lambda part: sum(word in part.lower() for word in wanted), default=_cut(text))


def _cut(text: str) -> str:
    lines = text.rstrip().splitlines()
    return "\n".join(lines[:_MOST_LINES]) + (f"\n... and {len(lines) - _MOST_LINES} more lines" if len(lines) > _MOST_LINES else "")


def _answers(messages: Sequence[Message]) -> list[_Answer]:
    """Put what tools answered together with the calls."""
    calls = {call.id: call for message in messages for call in message.calls}
    return [_Answer(calls[message.answers], message.text) for message in messages if message.role == "tool" and message.answers in calls]
