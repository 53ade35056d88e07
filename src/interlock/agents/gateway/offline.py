"""The offline rules of the gateway: which side a text is for, and which file tools do what is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from interlock.adapters.models.rules import Rules
from interlock.agents.gateway.commands import Command, parse_command
from interlock.agents.gateway.search import Answer, answer_question
from interlock.capabilities import Message, ModelReply, Tool, ToolCall

__all__ = ["GatewayRules"]

_FOR_CUSTOMERS = re.compile(r"(?i)\b(?:docs?|documents?|documentation|customers?|users?|knowledge base|handbook)\b")
_FOR_ADMINS = re.compile(
    r"(?i)(?<!\w)/admin\b|\b(?:my|our|the admin(?:istrator)?'?s?) (?:own )?(?:files?|notes?|folders?|secrets?|keys?)\b"
)
_ADMINS_FILES = re.compile(r"(?i)(?<![\w/.])/?admin(?:istrator)?(?:'?s)?(?![\w/])")
_SMALL_TALK: Mapping[str, str] = {
    r"(?:hi|hello|hey|hallo|hiya|yo|greetings|(?:good )?(?:morning|afternoon|evening|day))(?: (?:there|all|everyone|again|you))?": (
        "Hello. "
    ),
    r"(?:many )?(?:thanks|thank you|thx|ty|cheers|(?:that|this|it) help(?:s|ed)(?: me)?|that'?s (?:all|it)|that is all|great|perfect"
    r"|nice|cool|awesome|got it|ok|okay)"
    r"(?: (?:thanks|thank you|a lot|very much|so much|for (?:your|the) help))*": "You are welcome. ",
    r"(?:(?:thanks|thank you|ok|okay) )?(?:bye|good ?bye|see you|see you later|good night|ciao)(?: bye)?": "Goodbye.",
    r"how are you(?: doing)?(?: today)?|how is it going|what(?:'s|s| is) (?:up|new)": "I am a set of rules, and they work. ",
    r"who are you|what are you|are you (?:an? )?(?:bot|human|robot|person|real|ai)|what is this|what's this": (
        "I am the offline worker of this gateway: rules with file tools, no language model. "
    ),
    r"(?:what is|what's) your name|what are you called": "I have no name: I am the offline worker of this gateway. ",
    r"(?:what|which) (?:time|day|date|year) is it(?: now| today)?|what is the (?:time|date)(?: now| today)?": "I do not know the time. ",
    r"(?:hi|hello|hey) i have a (?:quick )?question|i have a question|can you help me|i need help": "Ask away. ",
    r"(?:please )?(?:help|help me)(?: please)?": "",
    r"what can (?:you|i) (?:do|ask)(?: here| you)?|how does this work|what do you do|\?+|commands|usage": "",
}
_GREETING = re.compile(
    r"(?i)^\s*(?:(?:hi|hello|hey|hallo|hiya|yo|greetings|(?:good )?(?:morning|afternoon|evening|day)|dear (?:sir|madam|team|all)"
    r"|(?:i have )?(?:a |just a )?(?:quick |short )?question)(?: (?:there|all|everyone|again|team))?\s*[,.!:;\u2026-]*\s+)+(?=\w)"
)
_REPLIES = tuple((re.compile(pattern), reply) for pattern, reply in _SMALL_TALK.items())
_FAILED = re.compile(r"^(?:Error|[a-z]+_[a-z_]+:)")
_MISSING = re.compile(r"File '([^']*)' not found")
_FOUND = re.compile(r"\s+(\d+): ")
_HEADER = re.compile(r"^@@.*@@\n")
_MOST_LINES = 40
_GOODBYE = "Goodbye."


class GatewayRules(Rules):
    """Sorts by words; lists, reads, searches and writes with the tools that are offered, and says what they said."""

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str | ModelReply:
        """Answer with a label, with calls of tools, or with what they found."""
        task = next((message.text for message in reversed(messages) if message.role == "user"), "")
        if not tools:
            return "route_bridge" if _FOR_CUSTOMERS.search(task) and not _FOR_ADMINS.search(task) else "respond_admin"
        offered = frozenset(tool.name for tool in tools)
        said = _small_talk(task, offered)
        if said is not None:
            return said
        command = parse_command(_without_greeting(task))
        if command.kind == "list" and "write_file" not in offered and _ADMINS_FILES.search(task):
            return "That cannot be done. The files of the admin are not here. I have the documents for customers: 'list /' shows them."
        return _carry_out(command, _answers(messages), offered)


def _small_talk(task: str, offered: frozenset[str]) -> str | None:
    """Answer greetings, thanks, a goodbye or a question about the rules themselves; nothing where there is more than that."""
    parts = [_plain(part) for part in re.split(r"[.,;!?\u2026]+(?=\s|$)", task) if _plain(part)] or [_plain(task) or task.strip()]
    replies = [_reply_to(part) for part in (parts if len(parts) > 1 and all(map(_is_talk, parts)) else [_plain(task) or task.strip()])]
    said = next((reply for reply in reversed(replies) if reply), replies[0])
    return said if said is None or said == _GOODBYE else said + _help(offered)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[\w'?]+", text.lower().replace("\u2019", "'"))).removesuffix("?")


def _is_talk(said: str) -> bool:
    return _reply_to(said) is not None


def _reply_to(said: str) -> str | None:
    return next((reply for pattern, reply in _REPLIES if pattern.fullmatch(said)), None)


def _without_greeting(task: str) -> str:
    """Leave out a greeting before something else: it is none of the words to look up."""
    return _GREETING.sub("", task, count=1) or task


def _help(offered: frozenset[str]) -> str:
    changes = ' I also write, edit and delete them: \'write "text" to /new.md\', \'replace "old" with "new" in /new.md\'.'
    return (
        "I list, read and search files: 'list /', 'read /NAME.md', 'search for \"WORD\"', or ask a question in the words of the"
        f" files.{changes if 'write_file' in offered else ''}"
    )


def _carry_out(command: Command, answers: Sequence[Answer], offered: frozenset[str]) -> str | ModelReply:
    """Take the next step of a command: call tools, or say what they answered."""
    match command.kind:
        case "question":
            return answer_question(
                command.text, answers, whose="file of the admin" if "write_file" in offered else "document for customers"
            )
        case "unsupported":
            return f"I cannot {command.text} here, so nothing was done. {_help(offered)}"
        case "unclear":
            return f"I did not understand all of that, so nothing was done. One thing at a time, please. {_help(offered)}"
        case "open" if answers:
            return _open(command, answers)
        case "search" if answers:
            return _search_result(command.text, answers)
        case _:
            calls = _calls(command)
    if not answers and not offered.issuperset(call.name for call in calls):
        return "I may only list, read and search here, so nothing is changed."
    return ModelReply(calls=calls) if not answers else "\n\n".join(_told(command, answer) for answer in answers)


def _open(command: Command, answers: Sequence[Answer]) -> str | ModelReply:
    """Read the one page that a name was found for."""
    if answers[-1].call.name == "read_file":
        return _told(command, answers[-1])
    pages = [path for path in re.findall(r"'([^']*)'", answers[-1].text) if not path.endswith("/")] if not answers[-1].failed else []
    if len(pages) == 1:
        return ModelReply(calls=(ToolCall(id="call-open", name="read_file", arguments={"file_path": pages[0]}),))
    if not pages:
        return f"There is no page called '{command.text}' here. 'list /' shows what there is."
    return f"Which one is '{command.text}'? There are:\n" + "\n".join(f"- {page}" for page in pages)


def _calls(command: Command) -> tuple[ToolCall, ...]:
    path = command.paths[0] if command.paths else "/"
    used: list[tuple[str, dict[str, JsonValue]]]
    match command.kind:
        case "list":
            used = [("ls", {"path": path})]
        case "read":
            used = [("read_file", {"file_path": one}) for one in command.paths]
        case "open":
            used = [("glob", {"pattern": f"**/*{_in_any_case(command.text.replace(' ', '-'))}*"})]
        case "search":
            forms = dict.fromkeys((command.text, command.text.lower(), command.text.capitalize(), command.text.upper()))
            used = [("grep", {"pattern": form, "path": path, "output_mode": "content"}) for form in forms]
        case "find":
            used = [("glob", {"pattern": command.text})]
        case "write":
            used = [("write_file", {"file_path": path, "content": f"{command.text}\n"})]
        case "edit":
            used = [("edit_file", {"file_path": path, "old_string": command.text, "new_string": command.new})]
        case _:
            used = [("delete", {"file_path": path})]
    return tuple(ToolCall(id=f"call-{number}", name=name, arguments=arguments) for number, (name, arguments) in enumerate(used, start=1))


def _in_any_case(name: str) -> str:
    """Write a name as a pattern of file names that fits it in small letters and in capitals."""
    return "".join(f"[{one.lower()}{one.upper()}]" if one.isalpha() else one for one in name)


def _told(command: Command, answer: Answer) -> str:
    """Say what came of one call."""
    text = _HEADER.sub("", answer.text)
    if answer.failed:
        missing = _MISSING.search(answer.text)
        hint = f" There is no file '{missing[1]}' here; 'list /' shows what there is." if missing else f" {answer.text}"
        return f"That cannot be done.{hint}"
    match command.kind:
        case "find" if not re.findall(r"'([^']*)'", text):
            return f"There is nothing here that is called like '{command.text}'."
        case "list" | "find":
            paths = re.findall(r"'([^']*)'", text)
            return f"{len(paths)} here:\n" + "\n".join(f"- {path}" for path in paths) if paths else "There is nothing here."
        case "read" | "open":
            return f"{answer.call.arguments['file_path']}:\n\n{_cut(text)}"
        case _:
            return f"Done. {text}"


def _search_result(wanted: str, answers: Sequence[Answer]) -> str:
    """Say where a text is; it was searched for in small letters and in capitals, so a line can be found more than once."""
    if answers[-1].failed:
        return f"That cannot be done. {answers[-1].text}"
    lines: dict[str, dict[int, str]] = {}
    page = ""
    for line in "\n".join(answer.text for answer in answers).splitlines():
        if line.startswith("/"):
            page = line
        elif (found := _FOUND.match(line)) is not None:
            lines.setdefault(page, {})[int(found[1])] = line
    if not lines:
        return f'"{wanted}" is nowhere here.'
    shown = [line for page, found in sorted(lines.items()) for line in (page, *(found[number] for number in sorted(found)))]
    return f'"{wanted}" is in:\n\n' + _cut("\n".join(shown))


def _cut(text: str) -> str:
    lines = text.rstrip().splitlines()
    return "\n".join(lines[:_MOST_LINES]) + (f"\n... and {len(lines) - _MOST_LINES} more lines" if len(lines) > _MOST_LINES else "")


def _answers(messages: Sequence[Message]) -> list[Answer]:
    """Pair what tools answered with the calls."""
    calls = {call.id: call for message in messages for call in message.calls}
    return [
        Answer(calls[message.answers], message.text, failed=_FAILED.match(message.text) is not None)
        for message in messages
        if message.role == "tool" and message.answers in calls
    ]
