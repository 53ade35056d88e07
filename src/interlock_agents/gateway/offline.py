"""The offline rules of the gateway: choose the side that a text is for, and the file tools that carry it out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from interlock.capabilities import Message, ModelReply, Tool, ToolCall
from interlock.models.rules import Rules
from interlock_agents.gateway.commands import SIDES, Command, parse_command
from interlock_agents.gateway.search import Answer, answer_question

__all__ = ["GatewayRules"]

_FOR_CUSTOMERS = re.compile(r"(?i)\b(?:docs?|documents?|documentation|customers?|users?|knowledge base|handbook)\b")
_FOR_ADMINS = re.compile(
    r"(?i)(?<!\w)/admin\b|\b(?:my|our|the admin(?:istrator)?'?s?) (?:own )?(?:files?|notes?|folders?|secrets?|keys?)\b"
    r"|\bmy (?:own )?(?:documents?|docs|pages?)\b"
)
_QUOTED_TEXT = re.compile(r"\"[^\"/]*\"|“[^”/]*”")
_ADMINS_FILES = re.compile(r"(?i)(?<![\w/.])/?(?:admin(?:istrator)?(?:'?s)?|credentials|secrets?)(?![\w/])")
_SMALL_TALK: Mapping[str, str] = {
    r"(?:hi|hello|hey|hallo|hiya|yo|greetings|(?:good )?(?:morning|afternoon|evening|day))(?: (?:there|all|everyone|again|you))?": (
        "Hello. "
    ),
    r"(?:many )?(?:thanks|thank you|thx|ty|cheers|(?:that|this|it) help(?:s|ed)(?: me)?|that'?s (?:all|it)|that is all|great|perfect"
    r"|nice|cool|awesome|got it|ok|okay)"
    r"(?: (?:thanks|thank you|a lot|very much|so much|for (?:your|the) help))*": "You are welcome. ",
    r"bye(?: bye| for now)?|good ?bye|see you(?: (?:later|soon|tomorrow))?|good ?night|ciao|take care"
    r"|have a (?:nice|good|great) (?:day|evening|night|weekend|one)": "Goodbye.",
    r"how are you(?: doing)?(?: today)?|how is it going|what(?:'s|s| is) (?:up|new)(?: (?:here|(?:in|with) \w+(?: \w+)?))?": (
        "I am a set of rules, and I am running. "
    ),
    r"who are you|what are you|are you (?:an? )?(?:bot|human|robot|person|real|ai)|what is this|what's this": (
        "I am the offline worker of this gateway: rules with file tools, no language model. "
    ),
    r"(?:what|which) (?:tools|model|ai|languages?|data|rules|commands) (?:do you (?:have|use|speak|know)|are you(?: using)?|are there)"
    r"|are you (?:chat ?gpt|gpt|claude|an llm|a language model)|who (?:made|built|wrote|created|programmed) you"
    r"|do you (?:remember|know) (?:me|us)|what did (?:i|you|we) (?:just )?(?:ask|say|said)(?: (?:before|you))?": (
        "I am the offline worker of this gateway: rules with file tools, no language model, and no memory of earlier messages. "
    ),
    r"(?:what is|what's) your name|what are you called": "I have no name: I am the offline worker of this gateway. ",
    r"(?:what|which) (?:time|day|date|year) is it(?: now| today)?|what is the (?:time|date)(?: now| today)?": "I do not know the time. ",
    r"(?:hi|hello|hey) i have a (?:quick )?question|i have a question|can you help me|i need help": "Ask away. ",
    r"sorry|my bad|oops|my mistake": "No harm done. ",
    r"(?:good|great|nice) (?:job|bot|work|answer)|well done|(?:that|this|it)(?:'s| is| was) (?:great|good|nice|helpful|perfect|right)": (
        "You are welcome. "
    ),
    r"(?:that|this|it|you)(?:'s|'re| is| are| was| were) (?:wrong|not (?:right|true|helpful)|false|incorrect|useless|stupid|bad)"
    r"|thanks for nothing|are you sure(?: about (?:that|this|it))?|really|bad bot|no that(?:'s| is) (?:wrong|not it)": (
        "I only look up words and quote the files, so a quotation may not be what you meant. "
    ),
    r"yes|yep|yeah|yes please|no|nope|no thanks|maybe|sure|never ?mind|forget it|stop|do it|go on|continue|more": (
        "I do not remember earlier messages, and nothing was done. "
    ),
    r"(?:(?:can|could|may) i|i (?:want|need|would like) to) (?:talk|speak) (?:to|with) (?:a |an |some ?)?(?:human|person|one|body)"
    r"(?: please)?|is (?:there )?(?:anybody|anyone|someone) (?:there|here)": "No person is here, only these rules. ",
    r"(?:please )?(?:help|help me)(?: please)?": "",
    r"what can (?:you|i) (?:do|ask)(?: here| you)?|how does this work|what do you do|\?+|commands|usage": "",
}
_GREETING = re.compile(
    r"(?i)^\s*(?:(?:hi|hello|hey|hallo|hiya|yo|greetings|(?:good )?(?:morning|afternoon|evening|day)|dear (?:sir|madam|team|all)"
    r"|(?:i have )?(?:a |just a )?(?:quick |short )?question)(?: (?:there|all|everyone|again|team))?\s*[,.!:;\u2026-]*\s+"
    r"|(?:many )?(?:thanks|thank you|thx|ok|okay|great|perfect|sorry|well)(?: (?:a lot|very much|so much))?\s*[,.!:;\u2026]+\s*)+(?=\w)"
)
_CLOSING = re.compile(r"(?i)(?<=[.!?,])\s*(?:(?:many )?thanks|thank you|cheers|(?:best|kind|warm)? ?(?:regards|wishes))\b[^?]{0,40}$")
_REPLIES = tuple((re.compile(pattern), reply) for pattern, reply in _SMALL_TALK.items())
_FAILED = re.compile(r"^(?:Error|[a-z]+_[a-z_]+:)")
_MISSING = re.compile(r"File '([^']*)' not found")
_PATHS = re.compile(r"'([^']*)'")
_REASONS = (
    (_MISSING, "There is no file '{0}' here; 'list /' shows what there is."),
    (re.compile(r"Path '([^']*)': path_not_found|Error: '([^']*)' not found"), "There is no '{0}' here; 'list /' shows what there is."),
    (re.compile(r"Path traversal not allowed: (.*)|pattern '([^']*)' has '\.\.'"), "'{0}' leads out of the files here."),
    (re.compile(r"old_string cannot be empty()"), "The quotes around the text to replace are empty."),
    (re.compile(r"String not found in file: '(.*)'", re.DOTALL), "The file does not contain the text '{0}', so it was not changed."),
    (
        re.compile(r"String '(.*)' appears (\d+) times", re.DOTALL),
        "The file contains the text '{0}' {1} times, so it was not changed. Quote more of the line, so that it matches once.",
    ),
)
_CODES = re.compile(r"^(?:Error: |[a-z]+_[a-z_]+: )+")
_FOUND = re.compile(r"\s+(\d+): ")
_HEADER = re.compile(r"^@@.*@@\n")
_MAX_LINES = 40
_GOODBYE = "Goodbye."
_MAX_SMALL_TALK = 16  # words: a longer text says more than courtesies


class GatewayRules(Rules):
    """Routes by keywords. Lists, reads, searches and writes with the tools that are offered, and reports their results."""

    def reply(self, messages: Sequence[Message], tools: Sequence[Tool]) -> str | ModelReply:
        """Return a route label if no tools are offered; otherwise tool calls, or the answer after their results."""
        task = next((message.text for message in reversed(messages) if message.role == "user"), "")
        if not tools:
            task = _QUOTED_TEXT.sub(" ", task)  # the text to write must not choose the side
            return "route_bridge" if _FOR_CUSTOMERS.search(task) and not _FOR_ADMINS.search(task) else "respond_admin"
        offered = frozenset(tool.name for tool in tools)
        said = _small_talk(task, offered)
        if said is not None:
            return said
        command = parse_command(_without_greeting(task))
        if command.kind in {"list", "question"} and "write_file" not in offered and _ADMINS_FILES.search(task):
            return "That cannot be done. The admin's files are not here. I have the documents for customers: 'list /' shows them."
        return _carry_out(command, _answers(messages), offered)


def _small_talk(task: str, offered: frozenset[str]) -> str | None:
    """Answer a text that consists only of courtesies and questions about the rules themselves. Return None for any other text."""
    words = re.findall(r"[\w']+", task.lower().replace("\u2019", "'"))
    replies = _replies(words) if words else _replies([task.strip()])
    if not replies:
        return None
    if _GOODBYE in replies:
        return _GOODBYE
    return next((reply for reply in reversed(replies) if reply), "") + _help(offered)


def _replies(words: Sequence[str]) -> list[str]:
    """Split words into phrases of small talk, the longest first, and return their replies. Return [] if a word belongs to none."""
    if len(words) > _MAX_SMALL_TALK:
        return []
    for end in range(len(words), 0, -1):
        reply = _reply_to(" ".join(words[:end]))
        if reply is None:
            continue
        rest = words[end + 1 :] if words[end : end + 1] == ["and"] else words[end:]
        following = _replies(rest)
        if following or end == len(words):
            return [reply, *following]
    return []


def _reply_to(phrase: str) -> str | None:
    return next((reply for pattern, reply in _REPLIES if pattern.fullmatch(phrase)), None)


def _without_greeting(task: str) -> str:
    """Remove a greeting before a question or a command, and thanks after it, so that their words are not looked up."""
    return _CLOSING.sub("", _GREETING.sub("", task, count=1)) or task


def _help(offered: frozenset[str]) -> str:
    changes = ' I also write, edit and delete them: \'write "text" to /new.md\', \'replace "old" with "new" in /new.md\'.'
    return (
        "I list, read and search files: 'list /', 'read /NAME.md', 'search for \"WORD\"', or ask a question in the words of the"
        f" files.{changes if 'write_file' in offered else ''}"
    )


def _carry_out(command: Command, answers: Sequence[Answer], offered: frozenset[str]) -> str | ModelReply:
    """Return the next step of a command: tool calls, or the answer made from their results."""
    match command.kind:
        case "question":
            return answer_question(
                command.text, answers, whose="file of the admin" if "write_file" in offered else "document for customers"
            )
        case "help":
            return _help(offered)
        case "reference":
            return (
                f"I do not remember earlier messages, so I do not know what '{command.text}' is, and nothing was done."
                " Say it in full, such as 'read /NAME.md'; 'list /' shows the names."
            )
        case "unsupported":
            return f"I cannot {command.text} here, so nothing was done. {_help(offered)}"
        case "unclear":
            return f"I did not understand all of that, so nothing was done. One thing at a time, please. {_help(offered)}"
        case _ if answers:
            return _RESULTS.get(command.kind, _describe_all)(command, answers)
        case _:
            calls = _calls(command)
    if not offered.issuperset(call.name for call in calls):
        return "I may only list, read and search here, so nothing is changed."
    return ModelReply(calls=calls)


def _describe_all(command: Command, answers: Sequence[Answer]) -> str:
    return "\n\n".join(_describe(command, answer) for answer in answers)


def _read(command: Command, answers: Sequence[Answer]) -> str | ModelReply:
    """Show the files. If a single file does not exist, look for a folder of that name, and for the name in other folders."""
    shown = _describe_all(command, answers[: len(command.paths)])
    if len(command.paths) != 1 or _MISSING.search(answers[0].text) is None or not answers[0].failed:
        return shown
    path = command.paths[0]
    if len(answers) == 1:
        name = _in_any_case(path.rstrip("/").rpartition("/")[2])
        as_folder = ToolCall(id="call-folder", name="ls", arguments={"path": path})
        return ModelReply(calls=(as_folder, ToolCall(id="call-name", name="glob", arguments={"pattern": f"**/{name}"})))
    folder, named, *read = answers[1:]
    if not folder.failed:
        return _describe(Command("list", command.paths), folder)
    if read:
        return f"There is no file '{path}' here, but there is this one:\n\n{_describe(command, read[0])}"
    pages = _pages(named)
    if len(pages) == 1:
        return ModelReply(calls=(ToolCall(id="call-open", name="read_file", arguments={"file_path": pages[0]}),))
    return f"{shown} Files of that name:\n" + "\n".join(f"- {page}" for page in pages) if pages else shown


def _list(command: Command, answers: Sequence[Answer]) -> str | ModelReply:
    """List a folder. If it does not exist and begins with the name of a side, as in `docs/api`, look for the rest below the root."""
    path = command.paths[0]
    side, _, rest = path.strip("/").partition("/")
    if not answers[0].failed or side not in SIDES or not rest:
        return _describe(command, answers[0])
    if len(answers) == 1:
        return ModelReply(calls=(ToolCall(id="call-below", name="ls", arguments={"path": f"/{rest}"}),))
    return (
        _describe(command, answers[0])
        if answers[1].failed
        else f"There is no '{path}' here, but '/{rest}': {_describe(command, answers[1])}"
    )


def _pages(answer: Answer) -> list[str]:
    """Return the files that a search by name found."""
    return [] if answer.failed else [path for path in _PATHS.findall(answer.text) if not path.endswith("/")]


def _open(command: Command, answers: Sequence[Answer]) -> str | ModelReply:
    """Read the page that a name matches. If several match, ask which one is meant."""
    if answers[-1].call.name == "read_file":
        return _describe(command, answers[-1])
    named, folder = answers[:2]
    pages = [page for page in _pages(named) if _is_called(page, command.text)]
    if not folder.failed:
        return _describe(Command("list", (f"/{command.text}",)), folder)
    if len(pages) == 1:
        return ModelReply(calls=(ToolCall(id="call-open", name="read_file", arguments={"file_path": pages[0]}),))
    if not pages:
        return f"There is no page called '{command.text}' here. 'list /' shows what there is."
    return f"Which one is '{command.text}'? There are:\n" + "\n".join(f"- {page}" for page in pages)


def _is_called(page: str, name: str) -> bool:
    """Return whether each word of a name begins a word of the file's name: "it" does not open `limits.md`."""
    words = re.split(r"[^a-z0-9]+", page.rpartition("/")[2].lower())
    return all(any(word.startswith(part) and len(part) > 1 for word in words) for part in re.split(r"[^a-z0-9]+", name.lower()) if part)


def _calls(command: Command) -> tuple[ToolCall, ...]:
    path = command.paths[0] if command.paths else "/"
    used: list[tuple[str, dict[str, JsonValue]]]
    match command.kind:
        case "list":
            used = [("ls", {"path": path})]
        case "read":
            used = [("read_file", {"file_path": one}) for one in command.paths]
        case "open":
            name = command.text.replace(" ", "-")
            used = [("glob", {"pattern": f"**/*{_in_any_case(name)}*"}), ("ls", {"path": f"/{name}"})]
        case "search":
            forms = dict.fromkeys((command.text, command.text.lower(), command.text.capitalize(), command.text.upper()))
            used = [("grep", {"pattern": form, "path": path, "output_mode": "content"}) for form in forms]
            if path != "/":
                used.append(("ls", {"path": path}))  # grep reports no error for a folder that does not exist
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
    """Return a glob pattern that matches a name in lower and upper case."""
    return "".join(f"[{one.lower()}{one.upper()}]" if one.isalpha() else one for one in name)


def _describe(command: Command, answer: Answer) -> str:
    """Describe the result of one tool call."""
    text = _HEADER.sub("", answer.text)
    if answer.failed:
        return f"That cannot be done. {_reason(answer.text)}"
    match command.kind:
        case "find" if not _PATHS.findall(text):
            return f"No file or folder here matches '{command.text}'."
        case "list" | "find":
            paths = [path for path in _PATHS.findall(text) if command.text != "folders" or path.endswith("/")]
            return f"{len(paths)} here:\n" + "\n".join(f"- {path}" for path in paths) if paths else "There is nothing here."
        case "read" | "open":
            empty = "System reminder: File exists but has empty contents"
            return f"{answer.call.arguments['file_path']}:\n\n{'(The file is empty.)' if text.startswith(empty) else _cut(text)}"
        case _:
            return f"Done. {text}"


def _reason(error: str) -> str:
    """Return why a tool failed, in words for a person: the tool's own message is meant for a model."""
    for pattern, reason in _REASONS:
        if (found := pattern.search(error)) is not None:
            return reason.format(*filter(None, found.groups()))
    return _CODES.sub("", error)


def _search_result(command: Command, answers: Sequence[Answer]) -> str:
    """Show the lines that have a text. The searches in lower and upper case may find a line more than once."""
    failed = [answer for answer in answers if answer.failed and "not_a_directory" not in answer.text]
    if failed:
        return f"That cannot be done. {_reason(failed[-1].text)}"
    lines: dict[str, dict[int, str]] = {}
    page = ""
    for line in "\n".join(answer.text for answer in answers if answer.call.name == "grep").splitlines():
        if line.startswith("/"):
            page = line
        elif (found := _FOUND.match(line)) is not None:
            lines.setdefault(page, {})[int(found[1])] = line
    if not lines:
        return f'No file here contains "{command.text}".'
    shown = [line for page, found in sorted(lines.items()) for line in (page, *(found[number] for number in sorted(found)))]
    return f'"{command.text}" is in:\n\n' + _cut("\n".join(shown))


_RESULTS: Mapping[str, Callable[[Command, Sequence[Answer]], str | ModelReply]] = {
    "open": _open,
    "read": _read,
    "list": _list,
    "search": _search_result,
}
"""Functions that turn the results of a command's first calls into an answer or into more calls."""


def _cut(text: str) -> str:
    lines = text.rstrip().splitlines()
    return "\n".join(lines[:_MAX_LINES]) + (f"\n... and {len(lines) - _MAX_LINES} more lines" if len(lines) > _MAX_LINES else "")


def _answers(messages: Sequence[Message]) -> list[Answer]:
    """Pair tool results with their calls."""
    calls = {call.id: call for message in messages for call in message.calls}
    return [
        Answer(calls[message.answers], message.text, failed=_FAILED.match(message.text) is not None)
        for message in messages
        if message.role == "tool" and message.answers in calls
    ]
